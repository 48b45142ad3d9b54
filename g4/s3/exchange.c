#include "g4/s3/exchange.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "g4/object/check.h"
#include "g4/s3/exchange_internal.h"
#include "g4/s3/placement.h"
#include "g4/s3/s3_answer.h"

enum { HEADERS_MAX = 11 + G4_PLACEMENT_HEADERS_MAX + G4_ATTRIBUTE_LINES };
enum { QUERY_MAX = 8192 };

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
    g4_receive_buffer_release(&exchange->body);
}

void
g4_exchange_release(struct g4_exchange *exchange)
{
    forget(exchange);
    if (exchange->easy != NULL)
        curl_easy_cleanup(exchange->easy);
    exchange->easy = NULL;
}

static enum kvt_err
check_part(const struct g4_exchange *exchange, long http, struct kvt_error *err)
{
    const struct g4_request *request = exchange->request;
    const struct g4_exchange_said *said = &exchange->said;
    const uint64_t size = said->range_end - said->range_at;

    if (http == 200 && request->range_at == 0 && said->length_known &&
        said->length <= request->range_size)
        return KVT_OK; /* the whole is no more than the part */
    if (http != 206 || !said->range_known || said->range_at != request->range_at)
        return kvt_error_set(err, KVT_IO,
                             "%s: the server sent other bytes than those from %" PRIu64 " on",
                             request->key, request->range_at);
    if (size > request->range_size || (said->length_known && said->length != size))
        return kvt_error_set(err, KVT_IO, "%s: more than %zu bytes for a part", request->key,
                             request->range_size);
    if (size < request->range_size && said->range_end != said->range_whole)
        return kvt_error_set(err, KVT_IO, "%s: a part that ends before it should", request->key);
    return KVT_OK;
}

/* A server that sends other bytes than those asked for must not be believed. */
static enum kvt_err
check_range(struct g4_exchange *exchange, long http)
{
    struct g4_request *request = exchange->request;

    if (request->range_size != 0)
        return check_part(exchange, http, &request->error);
    if (http == 200)
        return KVT_OK;
    return kvt_error_set(&request->error, KVT_IO, "%s: HTTP %ld, a part that nobody asked for",
                         request->key, http);
}

static enum kvt_err
too_large(struct g4_request *request, enum kvt_err rc)
{
    if (rc != KVT_RANGE)
        return kvt_error_set(&request->error, rc, "%s", request->key);
    return kvt_error_set(&request->error, rc, "%s: larger than %zu bytes", request->key,
                         request->buffer_capacity);
}

/* A body that nobody reads: it has to end. */
static bool
pass_over(struct g4_exchange *exchange, size_t size)
{
    exchange->unwanted += size < G4_EXCHANGE_UNWANTED_MAX ? size : G4_EXCHANGE_UNWANTED_MAX;
    return exchange->unwanted <= G4_EXCHANGE_UNWANTED_MAX;
}

static size_t
keep_trouble(struct g4_exchange *exchange, const char *bytes, size_t size)
{
    const size_t room = sizeof(exchange->trouble) - exchange->trouble_size;
    const size_t kept = size < room ? size : room;

    memcpy(exchange->trouble + exchange->trouble_size, bytes, kept);
    exchange->trouble_size += kept;
    exchange->enough = !pass_over(exchange, size);
    return exchange->enough ? 0 : size;
}

/* Only steps of uploads are answered with more than headers; 0 stops the transfer. */
static size_t
keep_answer(struct g4_exchange *exchange, const char *bytes, size_t size)
{
    const struct g4_exchange_step *step = exchange->request->store_private;

    if (step == NULL || step->answer == NULL)
        return pass_over(exchange, size)
                   ? size
                   : g4_exchange_refuse(exchange, KVT_IO,
                                        "the store sends a body that nobody asked for");
    kvt_buffer_append(step->answer, bytes, size);
    return kvt_buffer_ok(step->answer) ? size : 0;
}

/* Room for the whole body at its first byte where the server says how long it is; the memory grows
 * where it does not, or says too little.  What is summed is what was copied, not what it was copied
 * from. */
static enum kvt_err
take_bytes(struct g4_exchange *exchange, const char *bytes, size_t size)
{
    struct g4_request *request = exchange->request;
    const uint8_t *copy;
    enum kvt_err rc = KVT_OK;

    if (exchange->body.size == 0 && exchange->said.length_known)
        rc = g4_receive_buffer_expect(&exchange->body, exchange->said.length);
    if (rc != KVT_OK)
        return too_large(request, rc);
    copy = g4_receive_buffer_append(&exchange->body, bytes, size, &rc);
    if (copy == NULL)
        return too_large(request, rc);
    if (request->sum)
        request->body_crc32c = g4_check_crc32c_more(request->body_crc32c, copy, size);
    return KVT_OK;
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
    if (request->verb != G4_LIST && request->verb != G4_GET)
        return keep_answer(exchange, bytes, size);
    if (request->verb == G4_LIST)
        exchange->refused = g4_s3_xml_feed(exchange->listing, bytes, size, &request->error);
    else
        exchange->refused = check_range(exchange, http);
    if (exchange->refused == KVT_OK && request->verb == G4_GET)
        exchange->refused = take_bytes(exchange, bytes, size);
    return exchange->refused == KVT_OK ? size : 0;
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
    (void)snprintf(lines->key, sizeof(lines->key), "%08" PRIx32, g4_exchange_mark(request->key));
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

    ok &= curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, g4_exchange_on_header) == CURLE_OK;
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
        g4_sigv4_encode(query, g4_s3_xml_token(request->token), false);
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
    g4_receive_buffer_init(&exchange->body, request->buffer,
                           request->verb == G4_GET ? request->buffer_capacity : 0);
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

/* A success must be one that the request can have, and all of it. */
static enum kvt_err
check_success(struct g4_exchange *exchange, long http)
{
    struct g4_request *request = exchange->request;
    const struct g4_exchange_said *said = &exchange->said;

    switch (request->verb) {
    case G4_GET:
        if (check_range(exchange, http) != KVT_OK)
            return KVT_IO;
        if ((said->length_known && said->length != exchange->body.size) ||
            (http == 206 && said->range_end - said->range_at != exchange->body.size))
            return kvt_error_set(&request->error, KVT_IO, "%s: %zu bytes, which is not all",
                                 request->key, exchange->body.size);
        return KVT_OK;
    case G4_HEAD:
        if (http == 200 && said->length_known)
            return KVT_OK;
        return kvt_error_set(&request->error, KVT_IO, "%s: HTTP %ld, and no size", request->key,
                             http);
    case G4_PUT:
        if (exchange->sent != request->body_size)
            return kvt_error_set(&request->error, KVT_IO, "%s: answered after %zu of %zu bytes",
                                 request->key, exchange->sent, request->body_size);
        /* 202 promises, and stores later. */
        if (http == 200 || http == 201 || http == 204)
            return KVT_OK;
        break;
    case G4_DELETE:
        if (http == 200 || http == 204)
            return KVT_OK;
        break;
    case G4_LIST:
        if (http == 200)
            return KVT_OK;
        break;
    }
    return kvt_error_set(&request->error, KVT_IO, "%s: HTTP %ld, which says nothing", request->key,
                         http);
}

/* What a GET or HEAD says of the object. */
static void
take_object(struct g4_exchange *exchange)
{
    struct g4_request *request = exchange->request;
    const struct g4_exchange_said *said = &exchange->said;

    request->meta.present = said->meta_length && said->meta_crc;
    /* Of an object that was cut short behind our back only this length is true. */
    request->buffer_size = request->verb == G4_HEAD ? said->length : exchange->body.size;
    request->object_size =
        request->http == 206 ? said->range_whole : (uint64_t)request->buffer_size;
    if (!request->meta.present)
        request->meta.length = request->object_size;
    if (said->other_key)
        request->status = kvt_error_set(&request->error, KVT_CORRUPT,
                                        "%s: an object of another key", request->key);
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
    request->status = check_success(exchange, http);
    if (request->status == KVT_OK && request->verb == G4_LIST)
        request->status = g4_s3_xml_end(exchange->listing, &request->error);
    if (request->status == KVT_OK && (request->verb == G4_GET || request->verb == G4_HEAD))
        take_object(exchange);
    request->summed = request->verb == G4_GET && request->sum;
    return false;
}

/* The body that came, or the evidence of what is wrong with it, goes to the caller. */
static void
hand_over(struct g4_exchange *exchange)
{
    struct g4_request *request = exchange->request;
    void *memory;

    if (request->status != KVT_OK) {
        request->buffer_size = 0;
        return;
    }
    memory = g4_receive_buffer_take(&exchange->body);
    if (memory == NULL) {
        request->status = kvt_error_set(&request->error, KVT_NOMEM, "%s", request->key);
        request->buffer_size = 0;
    } else {
        request->buffer = memory;
    }
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
    } else if (code == CURLE_OK || exchange->enough) {
        again = finish_answer(exchange);
    } else {
        request->status = g4_endpoint_failure(code, &again);
        (void)kvt_error_set(&request->error, request->status, "%s %s: %s", method_of(request),
                            request->key, curl_easy_strerror(code));
    }
    /* A success without an ETag must not leave the one that the request came with. */
    if (request->verb != G4_DELETE && request->verb != G4_LIST &&
        (request->status == KVT_OK || exchange->said.etag[0] != '\0'))
        memcpy(request->etag, exchange->said.etag, sizeof(request->etag));
    if (request->verb == G4_GET)
        hand_over(exchange);
    if (request->verb == G4_LIST && request->status != KVT_OK)
        request->listed_count = 0;
    forget(exchange);
    return again;
}

void
g4_exchange_abandon(struct g4_exchange *exchange)
{
    exchange->request->buffer_size = 0;
    forget(exchange);
}
