#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "g4/object/check.h"
#include "g4/s3/exchange_internal.h"

enum { VALUE_MAX = 128 };

/* Stop the transfer: the first reason counts.  What a callback returns for that is 0. */
size_t
g4_exchange_refuse(struct g4_exchange *exchange, enum kvt_err rc, const char *why)
{
    struct g4_request *request = exchange->request;

    if (exchange->refused == KVT_OK)
        exchange->refused = kvt_error_set(&request->error, rc, "%.80s: %s", request->key, why);
    return 0;
}

static bool
has_name(const char *line, size_t size, const char *name)
{
    const size_t name_size = strlen(name);

    return size > name_size && line[name_size] == ':' && strncasecmp(line, name, name_size) == 0;
}

/* The header `name` in a "name: value" line: its value without blanks, copied; false for another.
 */
static bool
header_is(const char *line, size_t size, const char *name, char value[VALUE_MAX])
{
    const size_t name_size = strlen(name);
    const char *at = line + name_size + 1;
    const char *end = line + size;

    if (!has_name(line, size, name))
        return false;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    while (end > at && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' '))
        end--;
    if ((size_t)(end - at) >= VALUE_MAX)
        return false;
    memcpy(value, at, (size_t)(end - at));
    value[end - at] = '\0';
    return true;
}

static bool
parse_number(const char *text, int base, uint64_t *value)
{
    char *end;

    errno = 0;
    *value = strtoull(text, &end, base);
    return errno == 0 && end != text && *end == '\0' && text[0] != '-' && text[0] != '+';
}

static uint64_t
parse_date(const char *value)
{
    const time_t seconds = curl_getdate(value, NULL);

    return seconds < 0 ? 0 : (uint64_t)seconds * 1000;
}

/* What a block says of its key.  Copied to another block's key with all that is beside it, its
 * bytes would pass every other check; under a key that is no block's a copy is somebody's own. */
uint32_t
g4_exchange_mark(const char *key)
{
    return g4_check_crc32c(key, strlen(key));
}

/* True: the line is one of our own. */
static bool
take_meta(struct g4_exchange *exchange, const char *line, size_t size)
{
    struct g4_meta *meta = &exchange->request->meta;
    char value[VALUE_MAX];
    struct kvt_key parsed;
    uint64_t number;

    if (header_is(line, size, "x-amz-meta-kvt-length", value)) {
        exchange->said.meta_length = parse_number(value, 10, &meta->length);
    } else if (header_is(line, size, "x-amz-meta-kvt-crc32c", value)) {
        exchange->said.meta_crc = parse_number(value, 16, &number) && number <= UINT32_MAX;
        meta->crc32c = exchange->said.meta_crc ? (uint32_t)number : 0;
    } else if (header_is(line, size, "x-amz-meta-kvt-fingerprint", value)) {
        meta->fingerprint = parse_number(value, 16, &number) ? number : 0;
    } else if (header_is(line, size, "x-amz-meta-kvt-key", value)) {
        exchange->said.other_key = kvt_key_parse(exchange->request->key, &parsed) == KVT_OK &&
                                   (!parse_number(value, 16, &number) ||
                                    number != g4_exchange_mark(exchange->request->key));
    } else if (header_is(line, size, "x-amz-meta-kvt-writer", value)) {
        if (g4_attribute_plain("", 0, value, strlen(value)))
            (void)snprintf(meta->writer, sizeof(meta->writer), "%.*s", KVT_NAME_MAX - 1, value);
    } else {
        return false;
    }
    return true;
}

/* Is the line one of those a client may want kept beside an object? */
static bool
is_attribute(const char *line, size_t size)
{
    static const char *const names[] = {
        "x-amz-meta-",          "content-type:",     "content-encoding:", "cache-control:",
        "content-disposition:", "content-language:", "expires:"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (size > strlen(names[i]) && strncasecmp(line, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* Keep the line as an attribute, its name in lower case; what does not fit, or could not be put
 * beside another object, is left out. */
static void
take_attribute(struct g4_exchange *exchange, const char *line, size_t size)
{
    struct g4_request *request = exchange->request;
    const char *colon = memchr(line, ':', size);
    const size_t used = strlen(request->attributes);
    const char *end = line + size;
    const char *value;
    char *out = request->attributes + used;

    if (colon == NULL || !is_attribute(line, size))
        return;
    value = colon + 1;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' '))
        end--;
    if (exchange->said.attribute_lines == G4_ATTRIBUTE_LINES ||
        (size_t)(colon - line) + (size_t)(end - value) + 4 > G4_ATTRIBUTES_MAX - used ||
        !g4_attribute_plain(line, (size_t)(colon - line), value, (size_t)(end - value)))
        return;
    exchange->said.attribute_lines++;
    for (const char *at = line; at < colon; at++)
        *out++ = *at >= 'A' && *at <= 'Z' ? (char)(*at - 'A' + 'a') : *at;
    *out++ = ':';
    *out++ = ' ';
    memcpy(out, value, (size_t)(end - value));
    out += end - value;
    *out++ = '\n';
    *out = '\0';
}

/* "bytes 5-9/100": which part it is, and how large the whole is. */
static void
take_range(struct g4_exchange_said *said, char *value)
{
    char *dash = strchr(value, '-');
    char *slash = strchr(value, '/');

    said->range_known = false;
    if (strncmp(value, "bytes ", 6) != 0 || dash == NULL || slash == NULL || slash < dash)
        return;
    *dash = *slash = '\0';
    said->range_known = parse_number(value + 6, 10, &said->range_at) &&
                        parse_number(dash + 1, 10, &said->range_end) &&
                        parse_number(slash + 1, 10, &said->range_whole) &&
                        said->range_at <= said->range_end && said->range_end < said->range_whole &&
                        said->range_whole <= G4_OBJECT_SIZE_MAX;
    said->range_end++;
}

/* How the body ends must be said once. */
static void
take_framing(struct g4_exchange *exchange, const char *line, size_t size)
{
    struct g4_exchange_said *said = &exchange->said;
    char value[VALUE_MAX];
    uint64_t length;

    if (has_name(line, size, "Content-Length")) {
        if (!header_is(line, size, "Content-Length", value) || !parse_number(value, 10, &length) ||
            length > G4_OBJECT_SIZE_MAX || (said->length_known && length != said->length))
            (void)g4_exchange_refuse(exchange, KVT_IO,
                                     "the store gives no Content-Length that can be true");
        else
            said->length = length;
        said->length_known = true;
    } else if (has_name(line, size, "Transfer-Encoding")) {
        if (!header_is(line, size, "Transfer-Encoding", value) ||
            strcasecmp(value, "chunked") != 0 || said->chunked)
            (void)g4_exchange_refuse(exchange, KVT_IO,
                                     "the store encodes its answer in a way not asked for");
        said->chunked = true;
    }
    if (said->length_known && said->chunked)
        (void)g4_exchange_refuse(
            exchange, KVT_IO, "the store says Content-Length and Transfer-Encoding of one answer");
}

/* The status line of an answer: whatever an interim one said is not of this. */
static void
begin_answer(struct g4_exchange *exchange, const char *line, size_t size)
{
    struct g4_request *request = exchange->request;
    const char *code = memchr(line, ' ', size);

    if (exchange->said.over && !exchange->said.interim) {
        (void)g4_exchange_refuse(exchange, KVT_IO,
                                 "the store sends a status line after its headers");
        return;
    }
    exchange->said = (struct g4_exchange_said){.interim = code != NULL && code + 1 < line + size &&
                                                          code[1] == '1'};
    request->server_ms = 0;
    request->modified_ms = 0;
    if (request->verb == G4_PUT)
        return;
    memset(&request->meta, 0, sizeof(request->meta));
    if (request->attributes != NULL)
        request->attributes[0] = '\0';
}

static void
take_line(struct g4_exchange *exchange, const char *line, size_t size)
{
    struct g4_request *request = exchange->request;
    char value[VALUE_MAX];

    take_framing(exchange, line, size);
    if (header_is(line, size, "Content-Range", value))
        take_range(&exchange->said, value);
    else if (header_is(line, size, "Date", value))
        request->server_ms = parse_date(value);
    else if (header_is(line, size, "Last-Modified", value))
        request->modified_ms = parse_date(value);
    else if (header_is(line, size, "ETag", value))
        g4_s3_xml_etag(value, strlen(value), exchange->said.etag);
    else if ((request->verb == G4_GET || request->verb == G4_HEAD) &&
             !take_meta(exchange, line, size) && request->attributes != NULL)
        take_attribute(exchange, line, size);
}

/* libcurl's thread is ours: each line of the answer's head, of interim answers and of trailers. */
size_t
g4_exchange_on_header(char *line, size_t unit, size_t count, void *arg)
{
    struct g4_exchange *exchange = arg;
    const size_t size = unit * count;

    if (!g4_endpoint_count_header(&exchange->prepared, size))
        return g4_exchange_refuse(exchange, KVT_IO, "the store sends too many headers");
    if (size >= 5 && memcmp(line, "HTTP/", 5) == 0)
        begin_answer(exchange, line, size);
    else if (size > 0 && (line[0] == '\r' || line[0] == '\n'))
        exchange->said.over = true;
    else if (!exchange->said.over)
        take_line(exchange, line, size);
    return exchange->refused == KVT_OK ? size : 0;
}
