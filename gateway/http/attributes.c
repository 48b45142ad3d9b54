#include "gateway/http/attributes.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "gateway/http/xml_write.h"
#include "gateway/tier/attribute_lines.h"

#define USER         "x-amz-meta-"
#define OURS         GATEWAY_ATTRIBUTE_OURS
#define OUR_CHECKSUM GATEWAY_ATTRIBUTE_OURS "checksum-"
#define OUR_TYPE     OUR_CHECKSUM "type"

enum { NAME_MAX_SIZE = 256, CHECKSUM_NAME = 64 };

static bool
starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool
is_plain(const char *name)
{
    static const char *const names[] = {"content-type",        "content-encoding",
                                        "content-disposition", "content-language",
                                        "cache-control",       "expires"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* The line of such a checksum. */
static void
name_of_checksum(enum gateway_body_checksum checksum, char name[CHECKSUM_NAME])
{
    (void)snprintf(name, CHECKSUM_NAME, OURS "%s",
                   gateway_body_checksum_header(checksum) + strlen("x-amz-"));
}

bool
gateway_attributes_add_checksum(char text[G4_ATTRIBUTES_MAX], enum gateway_body_checksum checksum,
                                const char *value, const char *type)
{
    char name[CHECKSUM_NAME];

    name_of_checksum(checksum, name);
    return gateway_attribute_lines_add(text, name, value) &&
           gateway_attribute_lines_add(text, OUR_TYPE, type);
}

bool
gateway_attributes_add_checksums(char text[G4_ATTRIBUTES_MAX],
                                 const struct gateway_body_checksums *checksums)
{
    for (unsigned i = 0; i < GATEWAY_BODY_CHECKSUM_COUNT; i++) {
        char name[CHECKSUM_NAME];

        name_of_checksum((enum gateway_body_checksum)i, name);
        if (checksums->text[i][0] != '\0' &&
            !gateway_attribute_lines_add(text, name, checksums->text[i]))
            return false;
    }
    return true;
}

bool
gateway_attributes_checksum(const char *text, enum gateway_body_checksum checksum, char *value,
                            size_t size)
{
    char name[CHECKSUM_NAME];

    name_of_checksum(checksum, name);
    return gateway_attribute_lines_get(text, name, value, size);
}

enum gateway_body_checksum
gateway_attributes_next_checksum(const char *text, unsigned from,
                                 char value[GATEWAY_ATTRIBUTES_CHECKSUM])
{
    while (from < GATEWAY_BODY_CHECKSUM_COUNT &&
           !gateway_attributes_checksum(text, (enum gateway_body_checksum)from, value,
                                        GATEWAY_ATTRIBUTES_CHECKSUM))
        from++;
    return (enum gateway_body_checksum)from;
}

const char *
gateway_attributes_checksum_type(const char *text)
{
    char type[16];

    return gateway_attribute_lines_get(text, OUR_TYPE, type, sizeof(type)) &&
                   strcmp(type, GATEWAY_BODY_CHECKSUM_COMPOSITE) == 0
               ? GATEWAY_BODY_CHECKSUM_COMPOSITE
               : GATEWAY_BODY_CHECKSUM_WHOLE;
}

void
gateway_attributes_tell_checksums(const char *text, bool bare, struct kvt_buffer *out)
{
    char value[GATEWAY_ATTRIBUTES_CHECKSUM];
    enum gateway_body_checksum kind = gateway_attributes_next_checksum(text, 0, value);
    const bool told = kind != GATEWAY_BODY_CHECKSUM_COUNT;

    for (; kind != GATEWAY_BODY_CHECKSUM_COUNT;
         kind = gateway_attributes_next_checksum(text, kind + 1u, value)) {
        if (bare)
            value[strcspn(value, "-")] = '\0'; /* which is no character of base64 */
        gateway_xml_write_checksum(out, kind, value);
    }
    if (told)
        gateway_xml_write_element(out, "ChecksumType", gateway_attributes_checksum_type(text));
}

/* aws-chunked is how the body came, not what it is; the rest stays as the client wrote it.
 * False: that does not fit. */
static bool
unchunk(const char *list, char *out, size_t size)
{
    static const char ours[] = "aws-chunked";
    const char *end = list; /* of the item before */
    const char *item;
    size_t used = 0;
    size_t length;

    out[0] = '\0';
    while (used < size && (item = gateway_request_item(&list, &length)) != NULL) {
        const char *from = used == 0 ? item : end;

        if (length > 0 && (length != sizeof(ours) - 1 || strncasecmp(item, ours, length) != 0))
            used += (size_t)snprintf(out + used, size - used, "%.*s", (int)(item + length - from),
                                     from);
        end = item + length;
    }
    return used < size;
}

enum gateway_s3_error
gateway_attributes_take(const struct gateway_request *request, char text[G4_ATTRIBUTES_MAX])
{
    size_t user = 0;

    text[0] = '\0';
    for (size_t i = 0; i < request->header_count; i++) {
        const char *value = request->headers[i].value;
        char name[NAME_MAX_SIZE];
        char coding[256];
        size_t size = 0;

        for (const char *at = request->headers[i].name; *at != '\0' && size < sizeof(name); at++)
            name[size++] = *at >= 'A' && *at <= 'Z' ? (char)(*at - 'A' + 'a') : *at;
        if (size == sizeof(name))
            return GATEWAY_S3_ERROR_META_LARGE;
        name[size] = '\0';
        if (starts_with(name, USER) && !starts_with(name, OURS))
            user += size - strlen(USER) + strlen(value);
        else if (!is_plain(name))
            continue;
        if (strcmp(name, "content-encoding") == 0) {
            if (!unchunk(value, coding, sizeof(coding)))
                return GATEWAY_S3_ERROR_META_LARGE;
            if (coding[0] == '\0')
                continue;
            value = coding;
        }
        if (user > GATEWAY_ATTRIBUTES_USER)
            return GATEWAY_S3_ERROR_META_LARGE;
        if (!gateway_attribute_lines_add(text, name, value))
            return gateway_attribute_lines_valid(name, value) ? GATEWAY_S3_ERROR_META_LARGE
                                                              : GATEWAY_S3_ERROR_INVALID_ARGUMENT;
    }
    return GATEWAY_S3_ERROR_NONE;
}

void
gateway_attributes_answer(struct gateway_request *request, const char *text, bool checksums)
{
    struct kvt_buffer *lines = &request->lines;
    const char *const all = text;
    bool told = false;

    if (lines->limit == 0)
        kvt_buffer_init(lines, (size_t)2 * G4_ATTRIBUTES_MAX);
    request->content_type = "binary/octet-stream";
    while (*text != '\0') {
        const size_t line = strcspn(text, "\n") + 1;

        if (starts_with(text, "content-type: "))
            request->content_type = NULL; /* among the lines */
        if (!starts_with(text, OURS))
            kvt_buffer_append(lines, text, line);
        else if (starts_with(text, OUR_CHECKSUM) && !starts_with(text, OUR_TYPE) && checksums) {
            kvt_buffer_printf(lines, "x-amz-%.*s", (int)(line - strlen(OURS)), text + strlen(OURS));
            told = true;
        }
        text += line;
    }
    if (told)
        kvt_buffer_printf(lines, "x-amz-checksum-type: %s\n",
                          gateway_attributes_checksum_type(all));
}
