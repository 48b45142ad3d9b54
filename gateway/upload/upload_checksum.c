#include "gateway/upload/upload_checksum.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/core/alloc.h"
#include "gateway/http/attributes.h"

/* SHA-1 and SHA-256 are of parts; CRC-64 is of the whole, the other CRCs may be of either. */
static bool
can_be_whole(enum gateway_body_checksum algorithm)
{
    return algorithm != GATEWAY_BODY_CHECKSUM_SHA1 && algorithm != GATEWAY_BODY_CHECKSUM_SHA256;
}

static bool
can_be_composite(enum gateway_body_checksum algorithm)
{
    return algorithm != GATEWAY_BODY_CHECKSUM_CRC64NVME;
}

const char *
gateway_upload_checksum_type(const struct gateway_upload_checksum *wanted)
{
    return wanted->whole ? GATEWAY_BODY_CHECKSUM_WHOLE : GATEWAY_BODY_CHECKSUM_COMPOSITE;
}

enum gateway_s3_error
gateway_upload_checksum_take(const struct gateway_request *request,
                             struct gateway_upload_checksum *wanted)
{
    const char *word = gateway_request_header(request, "x-amz-checksum-algorithm");
    const char *type = gateway_request_header(request, "x-amz-checksum-type");

    *wanted = (struct gateway_upload_checksum){.algorithm = GATEWAY_BODY_CHECKSUM_COUNT};
    if (word == NULL)
        return type == NULL ? GATEWAY_S3_ERROR_NONE : GATEWAY_S3_ERROR_INVALID_REQUEST;
    wanted->algorithm = gateway_body_checksum_of_word(word);
    if (wanted->algorithm == GATEWAY_BODY_CHECKSUM_COUNT)
        return GATEWAY_S3_ERROR_INVALID_REQUEST;
    if (type == NULL)
        wanted->whole = !can_be_composite(wanted->algorithm);
    else if (strcasecmp(type, GATEWAY_BODY_CHECKSUM_WHOLE) == 0)
        wanted->whole = true;
    else if (strcasecmp(type, GATEWAY_BODY_CHECKSUM_COMPOSITE) != 0)
        return GATEWAY_S3_ERROR_INVALID_REQUEST;
    return (wanted->whole ? can_be_whole : can_be_composite)(wanted->algorithm)
               ? GATEWAY_S3_ERROR_NONE
               : GATEWAY_S3_ERROR_INVALID_REQUEST;
}

bool
gateway_upload_checksum_keep(const struct gateway_upload_checksum *wanted,
                             char attributes[G4_ATTRIBUTES_MAX])
{
    char value[32];

    if (wanted->algorithm == GATEWAY_BODY_CHECKSUM_COUNT)
        return true;
    (void)snprintf(value, sizeof(value), "%s %s", gateway_body_checksum_word(wanted->algorithm),
                   gateway_upload_checksum_type(wanted));
    return gateway_attribute_lines_add(attributes, GATEWAY_ATTRIBUTE_UPLOAD, value);
}

void
gateway_upload_checksum_read(const char *attributes, struct gateway_upload_checksum *wanted)
{
    char value[32];
    size_t size;

    *wanted = (struct gateway_upload_checksum){.algorithm = GATEWAY_BODY_CHECKSUM_COUNT};
    if (!gateway_attribute_lines_get(attributes, GATEWAY_ATTRIBUTE_UPLOAD, value, sizeof(value)))
        return;
    size = strcspn(value, " ");
    wanted->whole = strcmp(value + size, " " GATEWAY_BODY_CHECKSUM_WHOLE) == 0;
    value[size] = '\0';
    wanted->algorithm = gateway_body_checksum_of_word(value);
}

enum gateway_s3_error
gateway_upload_checksum_of_part(const struct gateway_upload_checksum *wanted, const void *body,
                                size_t size, struct gateway_body_checksums *checksums)
{
    if (wanted->algorithm == GATEWAY_BODY_CHECKSUM_COUNT ||
        checksums->text[wanted->algorithm][0] != '\0')
        return GATEWAY_S3_ERROR_NONE;
    for (unsigned i = 0; i < GATEWAY_BODY_CHECKSUM_COUNT; i++)
        if (checksums->text[i][0] != '\0')
            return GATEWAY_S3_ERROR_INVALID_REQUEST;
    return gateway_body_checksum_text(wanted->algorithm, body, size,
                                      checksums->text[wanted->algorithm])
               ? GATEWAY_S3_ERROR_NONE
               : GATEWAY_S3_ERROR_SLOW_DOWN;
}

enum gateway_s3_error
gateway_upload_checksum_claim(const struct gateway_request *request,
                              struct gateway_upload_checksum *wanted)
{
    const char *type = gateway_request_header(request, "x-amz-checksum-type");

    if (wanted->algorithm != GATEWAY_BODY_CHECKSUM_COUNT)
        return GATEWAY_S3_ERROR_NONE;
    for (unsigned i = 0; i < GATEWAY_BODY_CHECKSUM_COUNT; i++) {
        const enum gateway_body_checksum checksum = (enum gateway_body_checksum)i;

        if (gateway_request_header(request, gateway_body_checksum_header(checksum)) == NULL)
            continue;
        if (!can_be_whole(checksum) ||
            (type != NULL && strcasecmp(type, GATEWAY_BODY_CHECKSUM_WHOLE) != 0))
            return GATEWAY_S3_ERROR_INVALID_REQUEST;
        *wanted = (struct gateway_upload_checksum){.algorithm = checksum, .whole = true};
    }
    return GATEWAY_S3_ERROR_NONE;
}

bool
gateway_upload_checksum_compute(const struct gateway_upload_checksum *wanted, const uint8_t *body,
                                const struct gateway_part *parts, size_t count,
                                char text[GATEWAY_ATTRIBUTES_CHECKSUM])
{
    const size_t width = gateway_body_checksum_size(wanted->algorithm);
    uint8_t *digests = kvt_calloc(count + 1, GATEWAY_BODY_CHECKSUM_BYTES);
    bool fine = digests != NULL;
    size_t size = 0;

    text[0] = '\0';
    for (size_t i = 0; i < count && fine; i++) {
        if (!wanted->whole)
            fine = gateway_body_checksum_bytes(wanted->algorithm, body + size,
                                               (size_t)parts[i].size, digests + i * width);
        size += (size_t)parts[i].size;
    }
    fine = fine && gateway_body_checksum_text(wanted->algorithm, wanted->whole ? body : digests,
                                              wanted->whole ? size : count * width, text);
    if (fine && !wanted->whole)
        (void)snprintf(text + strlen(text), GATEWAY_ATTRIBUTES_CHECKSUM - strlen(text), "-%zu",
                       count);
    kvt_free(digests);
    return fine;
}

enum gateway_s3_error
gateway_upload_checksum_judge(const struct gateway_upload_checksum *wanted,
                              const struct gateway_request *request, const char *text)
{
    const char *type = gateway_request_header(request, "x-amz-checksum-type");
    const size_t bare = strcspn(text, "-");

    if (type != NULL && strcasecmp(type, gateway_upload_checksum_type(wanted)) != 0)
        return GATEWAY_S3_ERROR_BAD_DIGEST;
    for (unsigned i = 0; i < GATEWAY_BODY_CHECKSUM_COUNT; i++) {
        const enum gateway_body_checksum checksum = (enum gateway_body_checksum)i;
        const char *claimed =
            gateway_request_header(request, gateway_body_checksum_header(checksum));

        if (claimed == NULL)
            continue;
        if (checksum != wanted->algorithm)
            return GATEWAY_S3_ERROR_INVALID_REQUEST;
        /* The number of parts may be left away. */
        if (strcmp(claimed, text) != 0 &&
            (strlen(claimed) != bare || memcmp(claimed, text, bare) != 0))
            return GATEWAY_S3_ERROR_BAD_DIGEST;
    }
    return GATEWAY_S3_ERROR_NONE;
}
