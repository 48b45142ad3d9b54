#include "g4/s3/exchange.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/core/alloc.h"
#include "g4/object/check.h"
#include "g4/s3/placement.h"
#include "g4/s3/s3_answer.h"

enum { HEADERS_MAX = 11 + G4_PLACEMENT_HEADERS_MAX + G4_ATTRIBUTE_LINES };
enum { VALUE_MAX = 128, ALIGNMENT = 4096, QUERY_MAX = 8192 };

enum kvt_err
g4_exchange_init(struct g4_exchange *exchange)
{
    *exchange = (struct g4_exchange){.easy = curl_easy_init()};
    return exchange->easy == NULL ? KVT_NOMEM : KVT_OK;
}

static void
forget(struct g4_exchange *exchange)
{
    curl_slist_free_all(exchange->prepared.headers);
    exchange->prepared.headers = NULL;
    g4_s3_xml_free(exchange->listing);
    exchange->listing = NULL;
}

void
g4_exchange_release(struct g4_exchange *exchange)
{
    forget(exchange);
    if (exchange->easy != NULL)
        curl_easy_cleanup(exchange->easy);
    exchange->easy = NULL;
}

static void
drop_buffer(struct g4_exchange *exchange)
{
    struct g4_request *request = exchange->request;

    if (exchange->own_buffer && request->buffer != NULL) {
        kvt_free(request->buffer);
        request->buffer = NULL;
    }
    request->buffer_size = 0;
}

/* The header `name` in a "name: value" line: its value without blanks, copied; false for another.
 */
static bool
header_is(const char *line, size_t size, const char *name, char value[VALUE_MAX])
{
    const size_t name_size = strlen(name);
    const char *at = line + name_size + 1;
    const char *end = line + size;

    if (size <= name_size || line[name_size] != ':' || strncasecmp(line, name, name_size) != 0)
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

static void
take_etag(struct g4_request *request, const char *value)
{
    size_t size = strlen(value);

    if (size >= 2 && value[0] == '"' && value[size - 1] == '"') {
        value++;
        size -= 2;
    }
    if (size >= sizeof(request->etag))
        return;
    memcpy(request->etag, value, size);
    request->etag[size] = '\0';
}

static uint64_t
parse_date(const char *value)
{
    const time_t seconds = curl_getdate(value, NULL);

    return seconds < 0 ? 0 : (uint64_t)seconds * 1000;
}

/* What a block says of its key.  Copied to another block's key with all that is beside it, its
 * bytes would pass every other check; under a key that is no block's a copy is somebody's own. */
static uint32_t
mark_of(const char *key)
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
        exchange->meta_length = parse_number(value, 10, &meta->length);
    } else if (header_is(line, size, "x-amz-meta-kvt-crc32c", value)) {
        exchange->meta_crc = parse_number(value, 16, &number) && number <= UINT32_MAX;
        meta->crc32c = exchange->meta_crc ? (uint32_t)number : 0;
    } else if (header_is(line, size, "x-amz-meta-kvt-fingerprint", value)) {
        meta->fingerprint = parse_number(value, 16, &number) ? number : 0;
    } else if (header_is(line, size, "x-amz-meta-kvt-key", value)) {
        exchange->other_key =
            kvt_key_parse(exchange->request->key, &parsed) == KVT_OK &&
            (!parse_number(value, 16, &number) || number != mark_of(exchange->request->key));
    } else if (header_is(line, size, "x-amz-meta-kvt-writer", value)) {
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

/* Keep the line as an attribute, its name in lower case; what does not fit is left out. */
static void
take_attribute(struct g4_request *request, const char *line, size_t size)
{
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
    if ((size_t)(colon - line) + (size_t)(end - value) + 4 > G4_ATTRIBUTES_MAX - used)
        return;
    for (const char *at = line; at < colon; at++)
        *out++ = *at >= 'A' && *at <= 'Z' ? (char)(*at - 'A' + 'a') : *at;
    *out++ = ':';
    *out++ = ' ';
    memcpy(out, value, (size_t)(end - value));
    out += end - value;
    *out++ = '\n';
    *out = '\0';
}

/* "bytes 5-9/100": where the part begins, and how large the whole is. */
static void
take_range(struct g4_exchange *exchange, char *value)
{
    char *dash = strchr(value, '-');
    char *slash = strchr(value, '/');

    if (strncmp(value, "bytes ", 6) != 0 || dash == NULL || slash == NULL)
        return;
    *dash = '\0';
    exchange->range_known = parse_number(value + 6, 10, &exchange->range_at) &&
                            parse_number(slash + 1, 10, &exchange->request->object_size);
}

/* libcurl's thread is ours: each header line of the answer. */
static size_t
on_header(char *line, size_t unit, size_t count, void *arg)
{
    struct g4_exchange *exchange = arg;
    struct g4_request *request = exchange->request;
    const size_t size = unit * count;
    char value[VALUE_MAX];

    if (header_is(line, size, "Content-Length", value))
        exchange->length_known = parse_number(value, 10, &exchange->length);
    else if (header_is(line, size, "Content-Range", value))
        take_range(exchange, value);
    else if (header_is(line, size, "Date", value))
        request->server_ms = parse_date(value);
    else if (header_is(line, size, "Last-Modified", value))
        request->modified_ms = parse_date(value);
    else if (header_is(line, size, "ETag", value))
        take_etag(request, value);
    else if ((request->verb == G4_GET || request->verb == G4_HEAD) &&
             !take_meta(exchange, line, size) && request->attributes != NULL)
        take_attribute(request, line, size);
    return size;
}

/* Room for the whole body at its first byte; later only when the server did not say how long it is.
 */
static enum kvt_err
make_room(struct g4_exchange *exchange, size_t more)
{
    struct g4_request *request = exchange->request;
    const size_t wanted = request->buffer_size + more;
    void *grown;

    if (wanted > request->buffer_capacity || exchange->length > request->buffer_capacity)
        return kvt_error_set(&request->error, KVT_RANGE, "%s: larger than %zu bytes", request->key,
                             request->buffer_capacity);
    if (!exchange->own_buffer)
        return KVT_OK;
    if (exchange->length_known) {
        if (request->buffer == NULL)
            request->buffer = kvt_aligned(ALIGNMENT, (size_t)exchange->length);
        return request->buffer == NULL ? KVT_NOMEM : KVT_OK;
    }
    grown = kvt_realloc(request->buffer, wanted, 1);
    if (grown == NULL)
        return KVT_NOMEM;
    request->buffer = grown;
    return KVT_OK;
}

/* A server that sends other bytes than those asked for must not be believed. */
static enum kvt_err
check_range(struct g4_exchange *exchange, long http)
{
    struct g4_request *request = exchange->request;

    if (request->range_size == 0)
        return http == 200 ? KVT_OK
                           : kvt_error_set(&request->error, KVT_IO,
                                           "%s: HTTP %ld, a part that "
                                           "nobody asked for",
                                           request->key, http);
    if (http == 200 && request->range_at == 0 && exchange->length_known &&
        exchange->length <= request->range_size)
        return KVT_OK; /* the whole is no more than the part */
    if (http != 206 || !exchange->range_known || exchange->range_at != request->range_at)
        return kvt_error_set(&request->error, KVT_IO,
                             "%s: the server sent other bytes than those from %" PRIu64 " on",
                             request->key, request->range_at);
    if (exchange->length_known && exchange->length > request->range_size)
        return kvt_error_set(&request->error, KVT_IO, "%s: more than %zu bytes for a part",
                             request->key, request->range_size);
    return KVT_OK;
}

static size_t
keep_trouble(struct g4_exchange *exchange, const char *bytes, size_t size)
{
    const size_t room = sizeof(exchange->trouble) - exchange->trouble_size;
    const size_t kept = size < room ? size : room;

    memcpy(exchange->trouble + exchange->trouble_size, bytes, kept);
    exchange->trouble_size += kept;
    return size;
}

/* Only steps of uploads are answered with more than headers; 0 stops the transfer. */
static size_t
keep_answer(const struct g4_request *request, const char *bytes, size_t size)
{
    const struct g4_exchange_step *step = request->store_private;

    if (step == NULL || step->answer == NULL)
        return size;
    kvt_buffer_append(step->answer, bytes, size);
    return kvt_buffer_ok(step->answer) ? size : 0;
}

/* What is summed is what was copied, not what it was copied from. */
static void
take_bytes(struct g4_request *request, const char *bytes, size_t size)
{
    uint8_t *to = (uint8_t *)request->buffer + request->buffer_size;

    memcpy(to, bytes, size);
    if (request->sum)
        request->body_crc32c = g4_check_crc32c_more(request->body_crc32c, to, size);
    request->buffer_size += size;
}

static size_t
on_body(char *bytes, size_t unit, size_t count, void *arg)
{
    struct g4_exchange *exchange = arg;
    struct g4_request *request = exchange->request;
    const size_t size = unit * count;
    long http = 0;

    (void)curl_easy_getinfo(exchange->easy, CURLINFO_RESPONSE_CODE, &http);
    if (http < 200 || http > 299)
        return keep_trouble(exchange, bytes, size);
    if (request->verb == G4_LIST)
        exchange->refused = g4_s3_xml_feed(exchange->listing, bytes, size, &request->error);
    else if (request->verb == G4_GET)
        exchange->refused = check_range(exchange, http);
    else
        return keep_answer(request, bytes, size);
    if (exchange->refused == KVT_OK && request->verb == G4_GET)
        exchange->refused = make_room(exchange, size);
    if (exchange->refused != KVT_OK)
        return 0;
    if (request->verb == G4_GET)
        take_bytes(request, bytes, size);
    return size;
}

static size_t
on_read(char *out, size_t unit, size_t count, void *arg)
{
    struct g4_exchange *exchange = arg;
    const struct g4_request *request = exchange->request;
    const size_t left = request->body_size - exchange->sent;
    const size_t size = left < unit * count ? left : unit * count;

    if (size > 0)
        memcpy(out, (const uint8_t *)request->body + exchange->sent, size);
    exchange->sent += size;
    return size;
}

/* A connection that was kept alive too long is opened again: libcurl then sends from the start. */
static int
on_seek(void *arg, curl_off_t offset, int origin)
{
    struct g4_exchange *exchange = arg;

    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > exchange->request->body_size)
        return CURL_SEEKFUNC_CANTSEEK;
    exchange->sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

/* Header lines of our own making; the values live here until the call is signed. */
struct lines {
    struct g4_sigv4_header headers[HEADERS_MAX];
    size_t count;
    char checksum[G4_CHECK_CRC32C_TEXT_MAX];
    char range[64];
    char length[24];
    char crc[9];
    char fingerprint[17];
    char key[9];
    char attributes[G4_ATTRIBUTES_MAX];
};

static void
add(struct lines *lines, const char *name, const char *value)
{
    assert(lines->count < HEADERS_MAX);
    lines->headers[lines->count++] = (struct g4_sigv4_header){name, value};
}

/* The attributes as header lines: a copy of the text, cut into names and values. */
static void
add_attributes(struct lines *lines, const char *text)
{
    char *at = lines->attributes;

    memcpy(at, text, strlen(text) + 1);
    while (*at != '\0') {
        char *value = at + strcspn(at, ":");
        char *end = value + strcspn(value, "\n");

        *value = *end = '\0';
        add(lines, at, value + 2);
        at = end + 1;
    }
}

static void
add_meta_lines(struct lines *lines, const struct g4_request *request)
{
    const struct g4_meta *meta = &request->meta;

    if (request->attributes != NULL)
        add_attributes(lines, request->attributes);
    if (!meta->present)
        return;
    (void)snprintf(lines->length, sizeof(lines->length), "%" PRIu64, meta->length);
    (void)snprintf(lines->crc, sizeof(lines->crc), "%08" PRIx32, meta->crc32c);
    (void)snprintf(lines->fingerprint, sizeof(lines->fingerprint), "%016" PRIx64,
                   meta->fingerprint);
    add(lines, "x-amz-meta-kvt-length", lines->length);
    add(lines, "x-amz-meta-kvt-crc32c", lines->crc);
    add(lines, "x-amz-meta-kvt-fingerprint", lines->fingerprint);
    if (meta->writer[0] != '\0')
        add(lines, "x-amz-meta-kvt-writer", meta->writer);
    /* What clients keep beside an object is theirs to copy, with it and by any tool. */
    if (request->attributes != NULL)
        return;
    (void)snprintf(lines->key, sizeof(lines->key), "%08" PRIx32, mark_of(request->key));
    add(lines, "x-amz-meta-kvt-key", lines->key);
}

static void
add_put_lines(struct lines *lines, const struct g4_request *request)
{
    const struct g4_meta *meta = &request->meta;
    uint32_t crc = meta->crc32c;

    if (!meta->present)
        crc = g4_check_crc32c(request->body, request->body_size);
    g4_check_crc32c_text(crc, lines->checksum);
    add(lines, "x-amz-checksum-crc32c", lines->checksum);
    add(lines, "x-amz-sdk-checksum-algorithm", "CRC32C");
    add_meta_lines(lines, request);
}

/* The step that begins an upload says what the object will be; its parts say what they are. */
static void
add_step_lines(struct lines *lines, const struct g4_exchange_step *step,
               const struct g4_request *request)
{
    if (step->bare)
        return;
    if (!step->creates) {
        add_put_lines(lines, request);
        return;
    }
    add(lines, "x-amz-checksum-algorithm", "CRC32C");
    add_meta_lines(lines, request);
}

/* Only what makes an object says how it is kept: not the parts of one, nor their assembly. */
static void
add_placement(struct lines *lines, const struct g4_exchange *exchange)
{
    const struct g4_exchange_step *step = exchange->request->store_private;
    struct g4_sigv4_header headers[G4_PLACEMENT_HEADERS_MAX];
    size_t count;

    if (step != NULL && !step->creates)
        return;
    count = g4_placement_headers(g4_endpoint_placement(exchange->endpoint), exchange->request->key,
                                 headers);
    for (size_t i = 0; i < count; i++)
        add(lines, headers[i].name, headers[i].value);
}

/* What goes into a header line as it is. */
static bool
line_safe(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f)
            return false;
    return true;
}

static const char *
method_of(const struct g4_request *request)
{
    const struct g4_exchange_step *step = request->store_private;

    if (step != NULL)
        return step->method;
    switch (request->verb) {
    case G4_HEAD: return "HEAD";
    case G4_PUT: return "PUT";
    case G4_DELETE: return "DELETE";
    case G4_GET:
    case G4_LIST: return "GET";
    }
    return "GET";
}

static bool
set_body_options(struct g4_exchange *exchange)
{
    const struct g4_request *request = exchange->request;
    CURL *easy = exchange->easy;
    bool ok = true;

    ok &= curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header) == CURLE_OK;
    ok &= curl_easy_setopt(easy, CURLOPT_HEADERDATA, exchange) == CURLE_OK;
    ok &= curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK;
    ok &= curl_easy_setopt(easy, CURLOPT_WRITEDATA, exchange) == CURLE_OK;
    if (request->once) /* libcurl sends it again when a connection it kept turns out to be dead */
        ok &= curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L) == CURLE_OK;
    if (request->verb == G4_HEAD)
        ok &= curl_easy_setopt(easy, CURLOPT_NOBODY, 1L) == CURLE_OK;
    if (request->verb == G4_DELETE || request->store_private != NULL)
        ok &= curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method_of(request)) == CURLE_OK;
    if (request->verb == G4_PUT) {
        ok &= curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L) == CURLE_OK;
        ok &= curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read) == CURLE_OK;
        ok &= curl_easy_setopt(easy, CURLOPT_READDATA, exchange) == CURLE_OK;
        ok &= curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_seek) == CURLE_OK;
        ok &= curl_easy_setopt(easy, CURLOPT_SEEKDATA, exchange) == CURLE_OK;
        ok &= curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->body_size) ==
              CURLE_OK;
    }
    return ok;
}

static void
append_list_query(const struct g4_request *request, struct kvt_buffer *query)
{
    const size_t wanted = request->listed_wanted == 0 || request->listed_wanted > G4_LIST_KEYS_MAX
                              ? G4_LIST_KEYS_MAX
                              : request->listed_wanted;

    if (request->token[0] != '\0') {
        kvt_buffer_printf(query, "continuation-token=");
        g4_sigv4_encode(query, request->token, false);
        kvt_buffer_printf(query, "&");
    }
    kvt_buffer_printf(query, "encoding-type=url&list-type=2&max-keys=%zu&prefix=", wanted);
    g4_sigv4_encode(query, request->key, false);
    if (request->token[0] == '\0' && request->after != NULL) {
        kvt_buffer_printf(query, "&start-after=");
        g4_sigv4_encode(query, request->after, false);
    }
}

/* URL, headers and signature for the request's verb. */
static enum kvt_err
prepare(struct g4_exchange *exchange, uint64_t timeout_ms)
{
    struct g4_request *request = exchange->request;
    const struct g4_exchange_step *step = request->store_private;
    const bool list = request->verb == G4_LIST;
    struct lines lines = {.count = 0};
    char path[KVT_KEY_MAX + 1];
    struct kvt_buffer query;
    enum kvt_err rc;

    (void)snprintf(path, sizeof(path), "/%s", list ? "" : request->key);
    kvt_buffer_init(&query, QUERY_MAX);
    if (step != NULL)
        kvt_buffer_printf(&query, "%s", step->query);
    else if (list)
        append_list_query(request, &query);
    if (step != NULL && request->verb == G4_PUT)
        add_step_lines(&lines, step, request);
    else if (request->verb == G4_PUT && request->key[0] != '\0')
        add_put_lines(&lines, request);
    if (request->verb == G4_PUT && request->key[0] != '\0')
        add_placement(&lines, exchange);
    if (request->range_size != 0) {
        (void)snprintf(lines.range, sizeof(lines.range), "bytes=%" PRIu64 "-%" PRIu64,
                       request->range_at, request->range_at + request->range_size - 1);
        add(&lines, "Range", lines.range);
    }
    if (request->condition == G4_IF_ABSENT)
        add(&lines, "If-None-Match", "*");
    else if (request->condition == G4_IF_MATCH)
        add(&lines, "If-Match", request->etag);
    (void)kvt_buffer_text(&query);
    if (!kvt_buffer_ok(&query))
        rc = kvt_error_set(&request->error, KVT_NOMEM, "list %s", request->key);
    else
        rc = g4_endpoint_prepare(exchange->endpoint, exchange->easy,
                                 &(struct g4_endpoint_call){.method = method_of(request),
                                                            .path = path,
                                                            .query = kvt_buffer_text(&query),
                                                            .in_bucket = true,
                                                            .headers = lines.headers,
                                                            .header_count = lines.count},
                                 timeout_ms, &exchange->prepared, &request->error);
    kvt_buffer_release(&query);
    return rc;
}

enum kvt_err
g4_exchange_begin(struct g4_exchange *exchange, struct g4_endpoint *endpoint,
                  struct g4_request *request, uint64_t timeout_ms)
{
    const struct g4_exchange_step *step = request->store_private;
    CURL *easy = exchange->easy;
    enum kvt_err rc;

    forget(exchange);
    memset(exchange, 0, sizeof(*exchange));
    exchange->easy = easy;
    exchange->endpoint = endpoint;
    exchange->request = request;
    exchange->own_buffer = request->verb == G4_GET && request->buffer == NULL;
    request->buffer_size = 0;
    request->object_size = 0;
    request->body_crc32c = 0;
    request->summed = false;
    request->http = 0;
    memset(&request->error, 0, sizeof(request->error));
    if (request->verb != G4_PUT)
        memset(&request->meta, 0, sizeof(request->meta));
    if (request->verb != G4_PUT && request->attributes != NULL)
        request->attributes[0] = '\0'; /* of an attempt before */
    if (!line_safe(request->meta.writer) || !line_safe(request->etag))
        return kvt_error_set(&request->error, KVT_INVALID, "%s: writer or etag is not plain text",
                             request->key);
    if (step != NULL && step->answer != NULL)
        kvt_buffer_clear(step->answer);
    if (step == NULL && request->meta.present && request->meta.length != request->body_size)
        return kvt_error_set(&request->error, KVT_CORRUPT, "%s: the body to put fails its check",
                             request->key);
    curl_easy_reset(easy);
    rc = prepare(exchange, timeout_ms);
    if (rc == KVT_OK && !set_body_options(exchange))
        rc = kvt_error_set(&request->error, KVT_NOMEM, "%s", request->key);
    if (rc == KVT_OK && request->verb == G4_LIST) {
        rc = g4_s3_xml_new(&exchange->listing, request);
        if (rc != KVT_OK)
            (void)kvt_error_set(&request->error, rc, "list %s", request->key);
    }
    return rc;
}

/* The transfer came through: what did the server say? */
static bool
finish_answer(struct g4_exchange *exchange)
{
    struct g4_request *request = exchange->request;
    struct g4_s3_answer answer;
    long http = 0;

    (void)curl_easy_getinfo(exchange->easy, CURLINFO_RESPONSE_CODE, &http);
    request->http = (int)http;
    request->status =
        g4_s3_answer_status(request, exchange->trouble, exchange->trouble_size, &answer);
    if (request->status != KVT_OK) {
        exchange->keys_refused = answer.cause == G4_S3_ANSWER_KEYS;
        return answer.again || g4_endpoint_refused(exchange->endpoint, exchange->easy,
                                                   &exchange->prepared, (int)http, answer.cause);
    }
    if (request->verb == G4_LIST)
        request->status = g4_s3_xml_end(exchange->listing, &request->error);
    if (request->verb == G4_GET || request->verb == G4_HEAD) {
        request->meta.present = exchange->meta_length && exchange->meta_crc;
        /* Of an object that was cut short behind our back only this length is true. */
        if (request->verb == G4_HEAD)
            request->buffer_size = exchange->length;
        if (!exchange->range_known)
            request->object_size = request->buffer_size;
        if (!request->meta.present)
            request->meta.length = request->object_size;
        if (exchange->other_key)
            request->status = kvt_error_set(&request->error, KVT_CORRUPT,
                                            "%s: an object of another key", request->key);
    }
    request->summed = request->verb == G4_GET && request->sum;
    /* An object of no bytes has no first byte to make room at. */
    if (request->verb == G4_GET && request->buffer == NULL) {
        request->buffer = kvt_aligned(ALIGNMENT, 0);
        if (request->buffer == NULL)
            request->status = kvt_error_set(&request->error, KVT_NOMEM, "%s", request->key);
    }
    return false;
}

bool
g4_exchange_finish(struct g4_exchange *exchange, CURLcode code)
{
    struct g4_request *request = exchange->request;
    long http = 0;
    bool again;

    if (exchange->refused != KVT_OK) {
        (void)curl_easy_getinfo(exchange->easy, CURLINFO_RESPONSE_CODE, &http);
        request->http = (int)http;
        request->status = exchange->refused;
        if (request->error.text[0] == '\0')
            (void)kvt_error_set(&request->error, exchange->refused, "%s: %s", request->key,
                                kvt_err_text(exchange->refused));
        again = false;
    } else if (code == CURLE_OK) {
        again = finish_answer(exchange);
    } else {
        request->status = g4_endpoint_failure(code, &again);
        (void)kvt_error_set(&request->error, request->status, "%s %s: %s", method_of(request),
                            request->key, curl_easy_strerror(code));
    }
    if (request->verb == G4_GET && request->status != KVT_OK)
        drop_buffer(exchange);
    if (request->verb == G4_LIST && request->status != KVT_OK)
        request->listed_count = 0;
    forget(exchange);
    return again;
}

void
g4_exchange_abandon(struct g4_exchange *exchange)
{
    drop_buffer(exchange);
    forget(exchange);
}
