#include "gateway/s3.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "g4/check.h"
#include "gateway/batch.h"
#include "gateway/get.h"
#include "gateway/listing.h"
#include "gateway/put.h"
#include "gateway/remove.h"

#define BATCH_PATH "/_kvtier/v1/"

static bool
method_is(const struct gateway_request *request, const char *method)
{
    return strcmp(request->method, method) == 0;
}

static bool
is_batch(const struct gateway_request *request)
{
    return strncmp(request->target.path, BATCH_PATH, strlen(BATCH_PATH)) == 0;
}

/* ---- reading ---- */

static const char *
unquoted(const char *etag, size_t *size)
{
    if (strncmp(etag, "W/", 2) == 0)
        etag += 2;
    *size = strlen(etag);
    if (*size >= 2 && etag[0] == '"' && etag[*size - 1] == '"') {
        *size -= 2;
        return etag + 1;
    }
    return etag;
}

/* Does a list of ETags, or "*", name this one? */
static bool
etag_listed(const char *list, const char *etag)
{
    while (*list != '\0') {
        const size_t size = strcspn(list, ",");
        char one[G4_ETAG_MAX + 4];
        const char *text;
        size_t text_size;

        (void)snprintf(one, sizeof(one), "%.*s", (int)(size < sizeof(one) ? size : 0), list);
        text = one + strspn(one, " \t");
        text = unquoted(text, &text_size);
        if (strcmp(text, "*") == 0 ||
            (text_size == strlen(etag) && memcmp(text, etag, text_size) == 0))
            return true;
        list += size + (list[size] == ',' ? 1 : 0);
    }
    return false;
}

static enum gateway_fault
check_conditions(const struct gateway_request *request, const struct gateway_record *record)
{
    const char *match = gateway_request_header(request, "if-match");
    const char *none = gateway_request_header(request, "if-none-match");
    const char *since = gateway_request_header(request, "if-modified-since");
    char modified[40];

    if (match != NULL && !etag_listed(match, record->etag))
        return GATEWAY_FAULT_PRECONDITION;
    if (none != NULL)
        return etag_listed(none, record->etag) ? GATEWAY_FAULT_NOT_MODIFIED : GATEWAY_FAULT_NONE;
    /* Blocks never change; only the very date we gave out can mean "I have it". */
    gateway_listing_time(record->modified_ms, NULL, 0, modified, sizeof(modified));
    if (since != NULL && strcmp(since, modified) == 0)
        return GATEWAY_FAULT_NOT_MODIFIED;
    return GATEWAY_FAULT_NONE;
}

static void
describe(struct gateway_request *request, const struct gateway_record *record)
{
    char modified[40];

    gateway_listing_time(record->modified_ms, NULL, 0, modified, sizeof(modified));
    gateway_request_field(request, "ETag", "\"%s\"", record->etag);
    gateway_request_field(request, "Last-Modified", "%s", modified);
    gateway_request_field(request, "Accept-Ranges", "bytes");
    gateway_request_field(request, "x-amz-meta-kvt-length", "%" PRIu64, record->length);
    gateway_request_field(request, "x-amz-meta-kvt-crc32c", "%08" PRIx32, record->crc32c);
    gateway_request_field(request, "x-amz-meta-kvt-fingerprint", "%016" PRIx64,
                          record->fingerprint);
    gateway_request_field(request, "x-amz-meta-kvt-writer", "%s", record->writer);
    request->content_type = "application/octet-stream";
}

/* "bytes=a-b", "bytes=a-", "bytes=-n"; anything else is ignored, as HTTP wants it. */
static bool
parse_range(const char *text, uint64_t length, uint64_t *from, uint64_t *to, bool *satisfiable)
{
    uint64_t first;
    uint64_t last;
    int used = 0;

    *satisfiable = true;
    if (sscanf(text, "bytes=%" SCNu64 "-%" SCNu64 "%n", &first, &last, &used) == 2 &&
        text[used] == '\0' && last >= first) {
        *from = first;
        *to = last < length ? last : length - 1;
    } else if (sscanf(text, "bytes=%" SCNu64 "-%n", &first, &used) == 1 && used > 0 &&
               text[used] == '\0' && text[used - 1] == '-') {
        *from = first;
        *to = length - 1;
    } else if (sscanf(text, "bytes=-%" SCNu64 "%n", &last, &used) == 1 && text[used] == '\0') {
        *from = last < length ? length - last : 0;
        *to = length - 1;
        *satisfiable = last > 0;
    } else {
        return false;
    }
    *satisfiable = *satisfiable && length > 0 && *from < length;
    return true;
}

static void
apply_range(struct gateway_request *request, uint64_t length)
{
    const char *range = gateway_request_header(request, "range");
    bool satisfiable;
    uint64_t from;
    uint64_t to;

    if (range == NULL || !parse_range(range, length, &from, &to, &satisfiable))
        return;
    if (!satisfiable) {
        (void)gateway_request_fail(request, GATEWAY_FAULT_RANGE);
        gateway_request_field(request, "Content-Range", "bytes */%" PRIu64, length);
        return;
    }
    request->status = 206;
    request->body_from = (size_t)from;
    request->body_size = (size_t)(to - from + 1);
    gateway_request_field(request, "Content-Range", "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, from,
                          to, length);
}

static void
read_object(struct gateway_s3 *s3, struct gateway_request *request)
{
    const bool head = method_is(request, "HEAD");
    struct gateway_item item = {.key = request->target.key};
    enum gateway_fault fault;
    uint8_t *room;

    gateway_stats_add(s3->vault->stats, head ? GATEWAY_STAT_HAS : GATEWAY_STAT_GET, 1);
    gateway_get_find(s3->vault, &item, 1);
    if (item.status == KVT_OK) {
        fault = check_conditions(request, &item.record);
        if (fault != GATEWAY_FAULT_NONE) {
            describe(request, &item.record);
            (void)gateway_request_fail(request, fault);
            return;
        }
    }
    if (item.status == KVT_OK && !head) {
        if (item.record.length > s3->vault->object_max ||
            !gateway_budget_take(s3->budget, item.record.length)) {
            (void)gateway_request_fail(request, item.record.length > s3->vault->object_max
                                                    ? GATEWAY_FAULT_TOO_LARGE
                                                    : GATEWAY_FAULT_SLOW_DOWN);
            return;
        }
        request->taken += item.record.length;
        room = kvt_buffer_reserve(&request->answer, (size_t)item.record.length + 1);
        item.buffer = room;
        item.capacity = (size_t)item.record.length;
        if (room == NULL)
            item.status = KVT_NOMEM;
    }
    if (!head)
        gateway_get_bodies(s3->vault, &item, 1);
    if (item.status != KVT_OK) {
        (void)gateway_request_fail(request, gateway_request_fault_of(item.status));
        return;
    }
    request->status = 200;
    describe(request, &item.record);
    request->head_only = head;
    request->length = item.record.length;
    request->answer.size = item.size;
    request->body_size = item.size;
    if (!head)
        apply_range(request, item.size);
}

/* ---- writing ---- */

static bool
header_u64(const struct gateway_request *request, const char *name, int base, uint64_t *value)
{
    const char *text = gateway_request_header(request, name);
    char *end = NULL;

    *value = 0;
    if (text == NULL)
        return true;
    errno = 0;
    *value = strtoull(text, &end, base);
    return errno == 0 && isxdigit((unsigned char)text[0]) && *end == '\0';
}

/* Metadata a client may send along: checked against the body, never just believed. */
static enum gateway_fault
read_meta(const struct gateway_request *request, struct gateway_put_item *item)
{
    const char *crc_text = gateway_request_header(request, "x-amz-meta-kvt-crc32c");
    uint64_t length;
    uint64_t crc32c;

    item->crc32c = g4_check_crc32c(item->body, item->size);
    if (!header_u64(request, "x-amz-meta-kvt-length", 10, &length) ||
        !header_u64(request, "x-amz-meta-kvt-crc32c", 16, &crc32c) ||
        !header_u64(request, "x-amz-meta-kvt-fingerprint", 16, &item->fingerprint))
        return GATEWAY_FAULT_INVALID_ARGUMENT;
    if (length != 0 && length != item->size)
        return GATEWAY_FAULT_INCOMPLETE;
    if (crc_text != NULL && crc32c != item->crc32c)
        return GATEWAY_FAULT_BAD_DIGEST;
    return GATEWAY_FAULT_NONE;
}

static enum gateway_fault
read_condition(const struct gateway_request *request, enum g4_condition *condition,
               char etag[G4_ETAG_MAX])
{
    const char *match = gateway_request_header(request, "if-match");
    const char *none = gateway_request_header(request, "if-none-match");
    size_t size;

    *condition = G4_ALWAYS;
    etag[0] = '\0';
    if (none != NULL) {
        if (strcmp(none, "*") != 0)
            return GATEWAY_FAULT_NOT_IMPLEMENTED;
        *condition = G4_IF_ABSENT;
    }
    if (match != NULL) {
        const char *text = unquoted(match, &size);

        if (none != NULL || size >= G4_ETAG_MAX || size == 0)
            return GATEWAY_FAULT_INVALID_ARGUMENT;
        *condition = G4_IF_MATCH;
        (void)snprintf(etag, G4_ETAG_MAX, "%.*s", (int)size, text);
    }
    return GATEWAY_FAULT_NONE;
}

static enum gateway_fault
match_block(struct gateway_vault *vault, const char *key, const char *etag)
{
    struct gateway_item item = {.key = key};

    gateway_get_find(vault, &item, 1);
    if (item.status != KVT_OK && item.status != KVT_NOTFOUND)
        return gateway_request_fault_of(item.status);
    return item.status == KVT_OK && strcmp(item.record.etag, etag) == 0
               ? GATEWAY_FAULT_NONE
               : GATEWAY_FAULT_PRECONDITION;
}

/* A block: its content is fixed by its key, so a condition only decides what "there already" means.
 */
static enum gateway_fault
put_block(struct gateway_s3 *s3, struct gateway_put_item *item, enum g4_condition condition,
          const char *wanted_etag)
{
    enum gateway_fault fault = GATEWAY_FAULT_NONE;

    if (condition == G4_IF_MATCH)
        fault = match_block(s3->vault, item->key, wanted_etag);
    if (fault != GATEWAY_FAULT_NONE)
        return fault; /* before anything is stored */
    gateway_put_blocks(s3->vault, item, 1);
    if (item->status == KVT_PRECONDITION)
        return GATEWAY_FAULT_OTHER_CONTENT;
    if (item->status != KVT_OK)
        return gateway_request_fault_of(item->status);
    if (condition == G4_IF_ABSENT && item->present)
        return GATEWAY_FAULT_PRECONDITION;
    if (condition == G4_IF_MATCH && strcmp(item->etag, wanted_etag) != 0)
        return GATEWAY_FAULT_PRECONDITION;
    return GATEWAY_FAULT_NONE;
}

static void
write_object(struct gateway_s3 *s3, struct gateway_request *request)
{
    struct gateway_put_item item = {.key = request->target.key,
                                    .body = request->body.data == NULL ? (const void *)""
                                                                       : request->body.data,
                                    .size = request->body.size};
    enum g4_condition condition;
    enum gateway_fault fault;
    char etag[G4_ETAG_MAX];

    gateway_stats_add(s3->vault->stats, GATEWAY_STAT_PUT, 1);
    if (strlen(item.key) >= KVT_KEY_MAX) {
        (void)gateway_request_fail(request, GATEWAY_FAULT_KEY_TOO_LONG);
        return;
    }
    fault = read_meta(request, &item);
    if (fault == GATEWAY_FAULT_NONE)
        fault = read_condition(request, &condition, etag);
    if (fault == GATEWAY_FAULT_NONE && gateway_vault_is_block(item.key, NULL)) {
        fault = put_block(s3, &item, condition, etag);
    } else if (fault == GATEWAY_FAULT_NONE) {
        memcpy(item.etag, etag, sizeof(etag));
        fault = gateway_request_fault_of(gateway_put_opaque(s3->vault, &item, condition));
    }
    if (fault != GATEWAY_FAULT_NONE) {
        (void)gateway_request_fail(request, fault);
        return;
    }
    request->status = 200;
    gateway_request_field(request, "ETag", "\"%s\"", item.etag);
}

static void
delete_object(struct gateway_s3 *s3, struct gateway_request *request)
{
    enum gateway_fault fault = GATEWAY_FAULT_INVALID_ARGUMENT;

    gateway_stats_add(s3->vault->stats, GATEWAY_STAT_DELETE, 1);
    if (gateway_request_header(request, "if-match") != NULL)
        fault = GATEWAY_FAULT_NOT_IMPLEMENTED;
    else if (gateway_vault_key_ok(request->target.key))
        fault = gateway_request_fault_of(gateway_remove(s3->vault, request->target.key));
    if (fault != GATEWAY_FAULT_NONE)
        (void)gateway_request_fail(request, fault);
    else
        request->status = 204;
}

/* ---- the bucket, and the batch API ---- */

static void
answer_xml(struct gateway_request *request)
{
    request->status = 200;
    request->content_type = "application/xml";
    request->body_size = request->answer.size;
}

static void
list_buckets(struct gateway_s3 *s3, struct gateway_request *request)
{
    kvt_buffer_printf(&request->answer,
                      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                      "<ListAllMyBucketsResult><Owner><ID>kvtier</ID></Owner><Buckets><Bucket>"
                      "<Name>");
    gateway_request_xml(&request->answer, s3->bucket);
    kvt_buffer_printf(&request->answer,
                      "</Name><CreationDate>1970-01-01T00:00:00.000Z</CreationDate></Bucket>"
                      "</Buckets></ListAllMyBucketsResult>\n");
    answer_xml(request);
}

static void
handle_bucket(struct gateway_s3 *s3, struct gateway_request *request)
{
    char value[8];

    if (method_is(request, "HEAD")) {
        request->status = 200;
    } else if (method_is(request, "PUT")) {
        (void)gateway_request_fail(request, request->target.query[0] == '\0'
                                                ? GATEWAY_FAULT_BUCKET_OWNED
                                                : GATEWAY_FAULT_NOT_IMPLEMENTED);
    } else if (!method_is(request, "GET")) {
        (void)gateway_request_fail(request, GATEWAY_FAULT_NOT_IMPLEMENTED);
    } else if (gateway_target_query(&request->target, "location", value, sizeof(value)) !=
               KVT_NOTFOUND) {
        kvt_buffer_printf(&request->answer, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                                            "<LocationConstraint xmlns=\"http://s3.amazonaws.com/"
                                            "doc/2006-03-01/\">");
        if (strcmp(s3->region, "us-east-1") != 0)
            gateway_request_xml(&request->answer, s3->region);
        kvt_buffer_printf(&request->answer, "</LocationConstraint>\n");
        answer_xml(request);
    } else {
        request->status = 200;
        gateway_listing_answer(s3, request);
    }
}

static void
handle_object(struct gateway_s3 *s3, struct gateway_request *request)
{
    static const char *const harmless[] = {"x-id"};
    char name[32];

    /* PUT k?acl is not a PUT of k: whatever is not known is not done at all. */
    if (gateway_target_unknown(&request->target, harmless, 1, name, sizeof(name)) ||
        gateway_request_header(request, "x-amz-copy-source") != NULL)
        (void)gateway_request_fail(request, GATEWAY_FAULT_NOT_IMPLEMENTED);
    else if (method_is(request, "GET") || method_is(request, "HEAD"))
        read_object(s3, request);
    else if (method_is(request, "PUT"))
        write_object(s3, request);
    else if (method_is(request, "DELETE"))
        delete_object(s3, request);
    else
        (void)gateway_request_fail(request, GATEWAY_FAULT_METHOD);
}

static void
handle_batch(struct gateway_s3 *s3, struct gateway_request *request)
{
    static const char *const verbs[] = {
        [GATEWAY_BATCH_HAS] = "has", [GATEWAY_BATCH_GET] = "get", [GATEWAY_BATCH_PUT] = "put"};
    const char *rest = request->target.path + strlen(BATCH_PATH);
    const size_t size = strcspn(rest, "/");
    struct kvt_error err = {.code = KVT_OK};
    uint64_t taken = 0;
    size_t verb = 0;
    enum kvt_err rc;

    while (verb < 3 && (strlen(verbs[verb]) != size || memcmp(verbs[verb], rest, size) != 0))
        verb++;
    if (verb == 3 || rest[size] != '/') {
        (void)gateway_request_fail(request, GATEWAY_FAULT_NOT_IMPLEMENTED);
        return;
    }
    if (strcmp(rest + size + 1, s3->bucket) != 0) {
        (void)gateway_request_fail(request, GATEWAY_FAULT_NO_SUCH_BUCKET);
        return;
    }
    if (!method_is(request, "POST")) {
        (void)gateway_request_fail(request, GATEWAY_FAULT_METHOD);
        return;
    }
    rc = gateway_batch_run(s3->vault, (enum gateway_batch_verb)verb, request->body.data,
                           request->body.size, s3->budget, &taken, &request->answer, &err);
    request->taken += taken;
    if (rc != KVT_OK) {
        gateway_stats_add(s3->vault->stats, GATEWAY_STAT_HTTP_BAD, 1);
        (void)gateway_request_fail(request, rc == KVT_NOMEM ? GATEWAY_FAULT_SLOW_DOWN
                                                            : GATEWAY_FAULT_INVALID_REQUEST);
        gateway_request_field(request, "x-kvtier-error", "%s", err.text);
        return;
    }
    request->status = 200;
    request->content_type = "application/octet-stream";
    request->body_size = request->answer.size;
}

enum gateway_fault
gateway_s3_admit(const struct gateway_s3 *s3, const struct gateway_request *request,
                 uint64_t length)
{
    const char *hash = gateway_request_header(request, "x-amz-content-sha256");
    const char *encoding = gateway_request_header(request, "content-encoding");

    if ((hash != NULL && strncmp(hash, "STREAMING-", 10) == 0) ||
        (encoding != NULL && strstr(encoding, "aws-chunked") != NULL))
        return GATEWAY_FAULT_NOT_IMPLEMENTED;
    if (length > s3->batch_max)
        return GATEWAY_FAULT_TOO_LARGE;
    return GATEWAY_FAULT_NONE;
}

void
gateway_s3_handle(struct gateway_s3 *s3, struct gateway_request *request)
{
    if (is_batch(request))
        handle_batch(s3, request);
    else if (request->target.bucket[0] == '\0' && method_is(request, "GET"))
        list_buckets(s3, request);
    else if (request->target.bucket[0] == '\0')
        (void)gateway_request_fail(request, GATEWAY_FAULT_METHOD);
    else if (strcmp(request->target.bucket, s3->bucket) != 0)
        (void)gateway_request_fail(request, GATEWAY_FAULT_NO_SUCH_BUCKET);
    else if (request->target.key[0] == '\0')
        handle_bucket(s3, request);
    else
        handle_object(s3, request);
    if (request->fault == GATEWAY_FAULT_SLOW_DOWN)
        gateway_stats_add(s3->vault->stats, GATEWAY_STAT_SLOW_DOWN, 1);
}
