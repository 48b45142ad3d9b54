#include "gateway/upload/completed_parts.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/http/attributes.h"

bool
gateway_completed_parts_format(const struct gateway_part *parts, size_t count,
                               char text[GATEWAY_COMPLETED_PARTS_TEXT])
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0, run = 1; i < count; i += run, run = 1) {
        while (i + run < count && parts[i + run].size == parts[i].size &&
               parts[i + run].number == parts[i].number + run)
            run++;
        used += (size_t)snprintf(text + used, GATEWAY_COMPLETED_PARTS_TEXT - used, "%s%u:%" PRIu64,
                                 i == 0 ? "" : ",", parts[i].number, parts[i].size);
        if (run > 1 && used < GATEWAY_COMPLETED_PARTS_TEXT)
            used += (size_t)snprintf(text + used, GATEWAY_COMPLETED_PARTS_TEXT - used, "*%zu", run);
        if (used >= GATEWAY_COMPLETED_PARTS_TEXT) {
            text[0] = '\0';
            return false;
        }
    }
    return true;
}

void
gateway_completed_parts_begin(struct gateway_piece *piece, const char *text)
{
    *piece = (struct gateway_piece){.rest = text};
}

/* A number and the character behind it, which is passed over. */
static bool
read_number(struct gateway_piece *piece, uint64_t *value, char *behind)
{
    char *end = NULL;

    if (!isdigit((unsigned char)*piece->rest))
        return false;
    errno = 0;
    *value = strtoull(piece->rest, &end, 10);
    *behind = *end;
    piece->rest = end + (*end != '\0' ? 1 : 0);
    return errno == 0;
}

static bool
read_run(struct gateway_piece *piece)
{
    uint64_t number;
    char behind;

    if (!read_number(piece, &number, &behind) || behind != ':' || number <= piece->number ||
        number > GATEWAY_COMPLETED_PARTS_MAX || !read_number(piece, &piece->size, &behind))
        return false;
    piece->more = 1;
    if (behind == '*' && !read_number(piece, &piece->more, &behind))
        return false;
    piece->number = (unsigned)number - 1;
    return (behind == ',' || behind == '\0') && piece->more > 0 &&
           piece->more <= GATEWAY_COMPLETED_PARTS_MAX - piece->number;
}

bool
gateway_completed_parts_next(struct gateway_piece *piece)
{
    const uint64_t end = piece->from + piece->size;

    if (piece->more == 0 && !read_run(piece))
        return false;
    if (piece->size > UINT64_MAX - end)
        return false;
    piece->from = end;
    piece->number++;
    piece->more--;
    return true;
}

unsigned
gateway_completed_parts_count(const char *attributes, uint64_t length,
                              char text[GATEWAY_COMPLETED_PARTS_TEXT])
{
    struct gateway_piece piece;
    unsigned count = 0;

    text[0] = '\0';
    if (!gateway_attribute_lines_get(attributes, GATEWAY_ATTRIBUTE_PARTS, text,
                                     GATEWAY_COMPLETED_PARTS_TEXT))
        return 0;
    gateway_completed_parts_begin(&piece, text);
    while (gateway_completed_parts_next(&piece))
        count++;
    return piece.rest[0] == '\0' && piece.from + piece.size == length ? count : 0;
}

enum gateway_s3_error
gateway_completed_parts_asked(const struct gateway_request *request, const char *attributes,
                              const char *etag, uint64_t length, struct gateway_piece *piece,
                              unsigned *count)
{
    char text[GATEWAY_COMPLETED_PARTS_TEXT];
    uint64_t number = 0;

    *count = gateway_completed_parts_count(attributes, length, text);
    *piece = (struct gateway_piece){.number = 1, .size = length};
    if (!gateway_target_number(&request->target, "partNumber", &number) || number == 0)
        return GATEWAY_S3_ERROR_INVALID_ARGUMENT;
    if (gateway_request_header(request, "range") != NULL)
        return GATEWAY_S3_ERROR_INVALID_REQUEST;
    if (*count == 0 && strchr(etag, '-') != NULL)
        return GATEWAY_S3_ERROR_NOT_IMPLEMENTED;
    if (*count == 0)
        return number == 1 ? GATEWAY_S3_ERROR_NONE : GATEWAY_S3_ERROR_PART_NUMBER;
    if (number > *count)
        return GATEWAY_S3_ERROR_PART_NUMBER;
    gateway_completed_parts_begin(piece, text);
    while (number > 0 && gateway_completed_parts_next(piece))
        number--;
    piece->rest = NULL; /* into this function's line */
    return GATEWAY_S3_ERROR_NONE;
}
