#include "gateway/s3/s3_object.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/core/clock.h"
#include "base/text/hex.h"
#include "g4/object/check.h"
#include "gateway/block/get.h"
#include "gateway/block/reader.h"
#include "gateway/block/removal.h"
#include "gateway/http/attributes.h"
#include "gateway/http/condition.h"
#include "gateway/http/range.h"
#include "gateway/s3/conditional_delete.h"
#include "gateway/s3/opaque.h"
#include "gateway/tier/body_cache.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/object_key.h"
#include "gateway/upload/completed_parts.h"

/* Looks at an object that grows each time it is read; each takes a writer that is as quick. */
enum { LOOKS_MAX = 64 };

static bool
is_head(const struct gateway_request *request)
{
    return gateway_request_is(request, "HEAD");
}

/* Bytes for this request's use; given back with it. */
static enum gateway_s3_error
take_memory(struct gateway_s3 *s3, struct gateway_request *request, uint64_t size)
{
    if (size > s3->context->body_limits.object_max)
        return GATEWAY_S3_ERROR_TOO_LARGE;
    if (!gateway_budget_take(s3->budget, size))
        return GATEWAY_S3_ERROR_SLOW_DOWN;
    request->taken += size;
    return GATEWAY_S3_ERROR_NONE;
}

/* Room for a body; never none, also for one of no bytes. */
static uint8_t *
make_room(struct gateway_s3 *s3, struct kvt_buffer *room, uint64_t length)
{
    return gateway_body_cache_reserve(s3->budget->body_cache, room,
                                      length == 0 ? 1 : (size_t)length);
}

/* ---- reading ---- */

/* If-Range: the client has a part of exactly this object; of another it wants all. */
static bool
range_stands(const struct gateway_request *request, const char *etag, uint64_t modified_ms)
{
    const char *held = gateway_request_header(request, "if-range");
    char quoted[G4_ETAG_MAX + 2];
    char modified[KVT_CLOCK_HTTP_MAX];

    if (held == NULL)
        return true;
    (void)snprintf(quoted, sizeof(quoted), "\"%s\"", etag);
    kvt_clock_format_http(modified_ms, modified);
    return strcmp(held, quoted) == 0 || strcmp(held, modified) == 0;
}

static void
give_range(struct gateway_request *request, uint64_t from, uint64_t to, uint64_t length)
{
    request->status = 206;
    request->length = to - from + 1;
    request->body_from = (size_t)from;
    request->body_size = (size_t)(to - from + 1);
    gateway_request_field(request, "Content-Range", "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, from,
                          to, length);
}

static void
apply_range(struct gateway_request *request, uint64_t length)
{
    const char *text = gateway_request_header(request, "range");
    enum gateway_range range = GATEWAY_RANGE_NONE;
    uint64_t from;
    uint64_t to;

    if (text != NULL)
        range = gateway_range_parse(text, length, &from, &to);
    if (range == GATEWAY_RANGE_NONE)
        return;
    if (range == GATEWAY_RANGE_OUTSIDE) {
        (void)gateway_request_fail(request, GATEWAY_S3_ERROR_RANGE);
        gateway_request_field(request, "Content-Range", "bytes */%" PRIu64, length);
        return;
    }
    give_range(request, from, to, length);
}

static bool
asks_part(const struct gateway_request *request)
{
    return gateway_target_has(&request->target, "partNumber");
}

/* The part that is asked for. */
static void
apply_part(struct gateway_request *request, const char *attributes, const char *etag,
           uint64_t length)
{
    struct gateway_piece piece;
    unsigned count;
    const enum gateway_s3_error fault =
        gateway_completed_parts_asked(request, attributes, etag, length, &piece, &count);

    if (fault != GATEWAY_S3_ERROR_NONE) {
        (void)gateway_request_fail(request, fault);
        return;
    }
    if (count > 0)
        gateway_request_field(request, "x-amz-mp-parts-count", "%u", count);
    if (piece.size > 0)
        give_range(request, piece.from, piece.from + piece.size - 1, length);
    else
        request->length = request->body_size = 0;
}

static void
describe_validators(struct gateway_request *request, const char *etag, uint64_t modified_ms)
{
    char modified[KVT_CLOCK_HTTP_MAX];

    kvt_clock_format_http(modified_ms, modified);
    gateway_request_field(request, "ETag", "\"%s\"", etag);
    gateway_request_field(request, "Last-Modified", "%s", modified);
    gateway_request_field(request, "Accept-Ranges", "bytes");
}

static void
describe_meta(struct gateway_request *request, const struct g4_meta *meta)
{
    gateway_request_field(request, "x-amz-meta-kvt-length", "%" PRIu64, meta->length);
    gateway_request_field(request, "x-amz-meta-kvt-crc32c", "%08" PRIx32, meta->crc32c);
    gateway_request_field(request, "x-amz-meta-kvt-fingerprint", "%016" PRIx64, meta->fingerprint);
    gateway_request_field(request, "x-amz-meta-kvt-writer", "%s", meta->writer);
}

static void
describe_block(struct gateway_request *request, const struct gateway_record *record)
{
    struct g4_meta meta;

    gateway_record_meta(record, &meta);
    describe_validators(request, record->etag, record->modified_ms);
    describe_meta(request, &meta);
    request->content_type = "application/octet-stream";
}

/* The body, or for a HEAD its length, with the range or part that was asked for. */
static void
answer_body(struct gateway_request *request, const char *attributes, uint64_t length,
            const char *etag, uint64_t modified_ms)
{
    request->status = 200;
    request->head_only = is_head(request);
    request->length = length;
    if (!request->head_only) {
        request->answer.size = request->reader == NULL ? (size_t)length : 0;
        request->body_size = (size_t)length;
    }
    if (asks_part(request))
        apply_part(request, attributes, etag, length);
    else if (range_stands(request, etag, modified_ms))
        apply_range(request, length);
}

static enum gateway_s3_error
fetch_block(struct gateway_s3 *s3, struct gateway_request *request, struct kvt_buffer *room,
            struct gateway_item *item)
{
    enum gateway_s3_error fault = take_memory(s3, request, item->record.length);

    if (fault == GATEWAY_S3_ERROR_NONE) {
        item->buffer = make_room(s3, room, item->record.length);
        item->capacity = (size_t)item->record.length;
        fault = item->buffer == NULL ? GATEWAY_S3_ERROR_SLOW_DOWN : GATEWAY_S3_ERROR_NONE;
    }
    if (fault != GATEWAY_S3_ERROR_NONE) {
        gateway_get_unread(s3->context, item);
        return fault;
    }
    gateway_get_bodies(s3->context, item, 1);
    return gateway_request_fault_of(item->status);
}

/* The body piece by piece, where that can be; else whole. */
static enum gateway_s3_error
stream_block(struct gateway_s3 *s3, struct gateway_request *request, struct gateway_item *item)
{
    enum kvt_err rc = KVT_UNSUPPORTED;

    request->close_reader = gateway_reader_close;
    if (request->takes_reader)
        rc = gateway_reader_open(&request->reader, s3->context, item, s3->budget);
    item->size = (size_t)item->record.length;
    return rc == KVT_UNSUPPORTED ? fetch_block(s3, request, &request->answer, item)
                                 : gateway_request_fault_of(rc);
}

/* What is wrong with the first piece can still be said in the answer's first line.  A small part of
 * the body is no reason to take in all of it. */
static void
begin_stream(struct gateway_request *request, uint64_t length)
{
    enum kvt_err rc;

    if (request->reader == NULL || request->body_size == 0)
        return;
    if (request->takes_sealed && request->body_size >= length / 2)
        gateway_reader_seal(request->reader);
    rc = gateway_reader_fetch(request->reader, request->body_from);
    if (rc != KVT_OK)
        (void)gateway_request_fail(request, gateway_request_fault_of(rc));
}

/* Does the name of any header begin like this? */
static bool
has_headers(const struct gateway_request *request, const char *start)
{
    for (size_t i = 0; i < request->header_count; i++)
        if (strncasecmp(request->headers[i].name, start, strlen(start)) == 0)
            return true;
    return false;
}

static bool
has_conditions(const struct gateway_request *request)
{
    return has_headers(request, "if-");
}

static bool
has_copy_conditions(const struct gateway_request *request)
{
    return has_headers(request, "x-amz-copy-source-if-");
}

static void
read_block(struct gateway_s3 *s3, struct gateway_request *request)
{
    struct gateway_item item = {.key = request->stored.text,
                                .for_body = !is_head(request) && !has_conditions(request)};
    enum gateway_s3_error fault;

    gateway_get_find(s3->context, &item, 1);
    if (item.status == KVT_NOTFOUND && !is_head(request)) /* what is found is counted when read */
        gateway_stats_add(s3->context->stats, GATEWAY_STAT_MISSES, 1);
    fault = gateway_request_fault_of(item.status);
    if (fault == GATEWAY_S3_ERROR_NONE) {
        fault = gateway_condition_read(request, item.record.etag, item.record.modified_ms);
        if (fault == GATEWAY_S3_ERROR_NOT_MODIFIED)
            describe_block(request, &item.record);
    }
    if (fault == GATEWAY_S3_ERROR_NONE && !is_head(request))
        fault = stream_block(s3, request, &item);
    if (fault != GATEWAY_S3_ERROR_NONE) {
        (void)gateway_request_fail(request, fault);
        return;
    }
    describe_block(request, &item.record);
    answer_body(request, "", is_head(request) ? item.record.length : item.size, item.record.etag,
                item.record.modified_ms);
    begin_stream(request, item.size);
}

/* One GET into `room`, of `object->length` bytes at most.  `*grew`: the object is larger than that;
 * what was taken for it is given back. */
static enum gateway_s3_error
fetch_opaque(struct gateway_s3 *s3, struct gateway_request *request, struct kvt_buffer *room,
             struct gateway_opaque *object, bool *grew)
{
    const uint64_t length = object->length;
    enum gateway_s3_error fault = take_memory(s3, request, length);
    enum kvt_err rc;
    uint8_t *bytes;

    *grew = false;
    if (fault != GATEWAY_S3_ERROR_NONE)
        return fault;
    if (room->limit <= length) /* the budget is the bound */
        room->limit = (size_t)length + 1;
    bytes = make_room(s3, room, length);
    if (bytes == NULL)
        return GATEWAY_S3_ERROR_SLOW_DOWN;
    rc = gateway_opaque_read(s3->context, object, bytes, (size_t)length);
    *grew = rc == KVT_RANGE;
    if (!*grew)
        return gateway_request_fault_of(rc);
    gateway_budget_give(s3->budget, length);
    request->taken -= length;
    return GATEWAY_S3_ERROR_SLOW_DOWN;
}

/* Of each kind the object has, the checksum of the part that is given: computed, as only those of
 * the object are kept.  A HEAD has nothing to compute it from. */
static void
describe_part(struct gateway_request *request, const struct gateway_opaque *object)
{
    const char *attributes = object->attributes;
    char kept[GATEWAY_ATTRIBUTES_CHECKSUM];
    enum gateway_body_checksum kind = GATEWAY_BODY_CHECKSUM_COUNT;
    bool told = false;

    if (!is_head(request))
        kind = gateway_attributes_next_checksum(attributes, 0, kept);
    for (; kind != GATEWAY_BODY_CHECKSUM_COUNT;
         kind = gateway_attributes_next_checksum(attributes, kind + 1u, kept)) {
        char text[GATEWAY_BODY_CHECKSUM_TEXT];

        if (!gateway_body_checksum_text(kind, request->answer.data + request->body_from,
                                        request->body_size, text))
            continue; /* none is told rather than a wrong one */
        gateway_request_field(request, gateway_body_checksum_header(kind), "%s", text);
        told = true;
    }
    if (told)
        gateway_request_field(request, "x-amz-checksum-type", "%s",
                              gateway_attributes_checksum_type(object->attributes));
}

/* `given`: the object, or what was asked for of it; its checksums are those of what is given. */
static void
describe_opaque(struct gateway_request *request, const struct gateway_opaque *object, bool given)
{
    const char *mode = gateway_request_header(request, "x-amz-checksum-mode");
    const bool checksums = given && mode != NULL && strcasecmp(mode, "enabled") == 0;
    const bool whole = request->status == 200 && !asks_part(request);
    char own[8];

    describe_validators(request, object->etag, object->modified_ms);
    if (gateway_attribute_lines_get(object->attributes, GATEWAY_ATTRIBUTE_CLIENT, own, sizeof(own)))
        describe_meta(request, &object->meta);
    gateway_attributes_answer(request, object->attributes, whole && checksums);
    if (checksums && asks_part(request))
        describe_part(request, object);
}

const char *const gateway_s3_object_arguments[GATEWAY_S3_OBJECT_ARGUMENTS] = {
    "versionId",
    "response-content-type",
    "response-content-encoding",
    "response-content-disposition",
    "response-content-language",
    "response-cache-control",
    "response-expires",
    "partNumber"};

/* What the client wants the answer to say instead. */
static enum gateway_s3_error
override_attributes(const struct gateway_request *request, char text[G4_ATTRIBUTES_MAX])
{
    for (size_t i = 1; i < GATEWAY_S3_OBJECT_ARGUMENTS; i++) {
        const char *argument = gateway_s3_object_arguments[i];
        char value[1024];

        if (strncmp(argument, "response-", strlen("response-")) != 0 ||
            gateway_target_query(&request->target, argument, value, sizeof(value)) != KVT_OK)
            continue;
        gateway_attribute_lines_drop(text, argument + strlen("response-"));
        if (!gateway_attribute_lines_add(text, argument + strlen("response-"), value))
            return GATEWAY_S3_ERROR_INVALID_ARGUMENT;
    }
    return GATEWAY_S3_ERROR_NONE;
}

/* HEAD, and GET where the conditions hold.  Another object may be put between the two: what the
 * bytes are is judged once more. */
static enum gateway_s3_error
look_and_fetch(struct gateway_s3 *s3, struct gateway_request *request,
               struct gateway_opaque *object)
{
    enum gateway_s3_error fault = GATEWAY_S3_ERROR_SLOW_DOWN;
    uint64_t largest = 0;
    bool grew = true;

    for (unsigned tries = 0; grew && tries < LOOKS_MAX; tries++) {
        grew = false;
        fault = gateway_request_fault_of(gateway_opaque_find(s3->context, object));
        if (fault == GATEWAY_S3_ERROR_NONE)
            fault = gateway_condition_read(request, object->etag, object->modified_ms);
        if (fault != GATEWAY_S3_ERROR_NONE || is_head(request))
            break;
        largest = object->length > largest ? object->length : largest;
        object->length = largest; /* room for each that was seen */
        fault = fetch_opaque(s3, request, &request->answer, object, &grew);
        if (fault == GATEWAY_S3_ERROR_NONE)
            fault = gateway_condition_read(request, object->etag, object->modified_ms);
    }
    if (fault == GATEWAY_S3_ERROR_NOT_MODIFIED)
        describe_opaque(request, object, false);
    return fault;
}

static void
read_opaque(struct gateway_s3 *s3, struct gateway_request *request)
{
    struct gateway_opaque object = {.key = request->stored.text};
    enum gateway_s3_error fault = GATEWAY_S3_ERROR_NONE;
    bool hinted;
    bool grew;

    /* What was put through here and is asked for as it is needs one request, not two. */
    hinted = !is_head(request) && !has_conditions(request) &&
             gateway_opaque_hint(s3->context, &object) &&
             (fault = fetch_opaque(s3, request, &request->answer, &object, &grew)) !=
                 GATEWAY_S3_ERROR_SLOW_DOWN;
    if (!hinted)
        fault = look_and_fetch(s3, request, &object);
    if (fault == GATEWAY_S3_ERROR_NONE)
        fault = override_attributes(request, object.attributes);
    if (fault != GATEWAY_S3_ERROR_NONE) {
        (void)gateway_request_fail(request, fault);
        return;
    }
    answer_body(request, object.attributes, object.length, object.etag, object.modified_ms);
    if (request->fault == GATEWAY_S3_ERROR_NONE)
        describe_opaque(request, &object, true);
}

void
gateway_s3_object_read(struct gateway_s3 *s3, struct gateway_request *request)
{
    gateway_stats_add(s3->context->stats, is_head(request) ? GATEWAY_STAT_HAS : GATEWAY_STAT_GET,
                      1);
    if (gateway_object_key_is_block(request->stored.text, NULL))
        read_block(s3, request);
    else
        read_opaque(s3, request);
}

bool
gateway_s3_object_read_at_once(struct gateway_s3 *s3, struct gateway_request *request)
{
    struct gateway_item item = {.key = request->stored.text, .for_body = true};

    if (!request->takes_reader || !gateway_object_key_is_block(request->stored.text, NULL) ||
        has_conditions(request) || gateway_request_header(request, "range") != NULL ||
        !gateway_get_known(s3->context, &item))
        return false;
    request->close_reader = gateway_reader_close;
    if (gateway_reader_peek(&request->reader, s3->context, &item, s3->budget,
                            request->takes_sealed) != KVT_OK)
        return false;
    gateway_stats_add(s3->context->stats, GATEWAY_STAT_GET, 1);
    describe_block(request, &item.record);
    answer_body(request, "", item.record.length, item.record.etag, item.record.modified_ms);
    return true;
}

/* A block has no attributes. */
static void
tell_block(const struct gateway_record *record, struct gateway_opaque *object)
{
    object->attributes[0] = '\0';
    object->length = record->length;
    object->modified_ms = record->modified_ms;
    memcpy(object->etag, record->etag, sizeof(object->etag));
    gateway_record_meta(record, &object->meta);
}

enum gateway_s3_error
gateway_s3_object_fetch(struct gateway_s3 *s3, struct gateway_request *request,
                        struct kvt_buffer *room, struct gateway_opaque *object)
{
    struct gateway_item item = {.key = object->key, .for_body = !has_copy_conditions(request)};
    enum gateway_s3_error fault;
    bool grew;

    if (!gateway_object_key_is_block(object->key, NULL)) {
        fault = gateway_request_fault_of(gateway_opaque_find(s3->context, object));
        if (fault == GATEWAY_S3_ERROR_NONE)
            fault = gateway_condition_copy(request, object->etag, object->modified_ms);
        if (fault == GATEWAY_S3_ERROR_NONE)
            fault = fetch_opaque(s3, request, room, object, &grew);
        if (fault == GATEWAY_S3_ERROR_NONE) /* of what came: another may have been put meanwhile */
            fault = gateway_condition_copy(request, object->etag, object->modified_ms);
        room->size = fault == GATEWAY_S3_ERROR_NONE ? (size_t)object->length : 0;
        return fault;
    }
    gateway_get_find(s3->context, &item, 1);
    fault = gateway_request_fault_of(item.status);
    if (fault == GATEWAY_S3_ERROR_NONE)
        fault = gateway_condition_copy(request, item.record.etag, item.record.modified_ms);
    if (fault == GATEWAY_S3_ERROR_NONE)
        fault = fetch_block(s3, request, room, &item);
    room->size = fault == GATEWAY_S3_ERROR_NONE ? item.size : 0;
    tell_block(&item.record, object);
    object->length = item.size;
    return fault;
}

enum gateway_s3_error
gateway_s3_object_fetch_span(struct gateway_s3 *s3, struct gateway_request *request,
                             struct kvt_buffer *room, const struct gateway_opaque *object,
                             uint64_t from, uint64_t size)
{
    enum gateway_s3_error fault = take_memory(s3, request, size);
    uint8_t *bytes;

    if (fault != GATEWAY_S3_ERROR_NONE)
        return fault;
    bytes = make_room(s3, room, size);
    if (bytes == NULL)
        return GATEWAY_S3_ERROR_SLOW_DOWN;
    if (size > 0)
        fault = gateway_request_fault_of(
            gateway_opaque_read_span(s3->context, object, from, bytes, (size_t)size));
    room->size = fault == GATEWAY_S3_ERROR_NONE ? (size_t)size : 0;
    return fault == GATEWAY_S3_ERROR_PRECONDITION ? GATEWAY_S3_ERROR_SLOW_DOWN : fault;
}

enum gateway_s3_error
gateway_s3_object_there(struct gateway_s3 *s3, const struct gateway_request *request,
                        struct gateway_opaque *object)
{
    struct gateway_item item = {.key = request->stored.text};

    *object = (struct gateway_opaque){.key = request->stored.text};
    if (!gateway_object_key_is_block(request->stored.text, NULL))
        return gateway_request_fault_of(gateway_opaque_find(s3->context, object));
    gateway_get_find(s3->context, &item, 1);
    tell_block(&item.record, object);
    return gateway_request_fault_of(item.status);
}

/* ---- writing ---- */

/* Metadata a client may send along: checked against the body, never just believed. */
static enum gateway_s3_error
read_meta(const struct gateway_request *request, struct gateway_put_item *item)
{
    const char *crc_text = gateway_request_header(request, "x-amz-meta-kvt-crc32c");
    uint64_t length = 0;
    uint64_t crc32c;

    if (g4_pieces_end(&request->pieces, item->size, &item->crc32c))
        item->pieces = &request->pieces.pieces;
    else
        item->crc32c = g4_check_crc32c(item->body, item->size);
    if (!gateway_request_number(request, "x-amz-meta-kvt-length", &length) ||
        !gateway_request_hex(request, "x-amz-meta-kvt-crc32c", &crc32c) ||
        !gateway_request_hex(request, "x-amz-meta-kvt-fingerprint", &item->fingerprint))
        return GATEWAY_S3_ERROR_INVALID_ARGUMENT;
    if (length != 0 && length != item->size)
        return GATEWAY_S3_ERROR_INCOMPLETE;
    if (crc_text != NULL && crc32c != item->crc32c)
        return GATEWAY_S3_ERROR_BAD_DIGEST;
    return GATEWAY_S3_ERROR_NONE;
}

/* A block: its content is fixed by its key, so a condition only decides what "there already" means.
 */
enum gateway_s3_error
gateway_s3_object_store_block(struct gateway_s3 *s3, const struct gateway_request *request,
                              struct gateway_put_item *item)
{
    const char *match = gateway_request_header(request, "if-match");
    struct gateway_item there = {.key = item->key};
    enum gateway_s3_error fault = GATEWAY_S3_ERROR_NONE;

    if (match != NULL) { /* before anything is stored */
        gateway_get_find(s3->context, &there, 1);
        if (there.status != KVT_OK && there.status != KVT_NOTFOUND)
            return gateway_request_fault_of(there.status);
        fault = gateway_condition_write(request, there.status == KVT_OK ? there.record.etag : NULL);
    }
    if (fault != GATEWAY_S3_ERROR_NONE)
        return fault;
    gateway_put_blocks(s3->context, item, 1);
    if (item->status == KVT_PRECONDITION)
        return GATEWAY_S3_ERROR_OTHER_CONTENT;
    if (item->status != KVT_OK)
        return gateway_request_fault_of(item->status);
    if (item->present || match != NULL)
        return gateway_condition_write(request, item->etag);
    return GATEWAY_S3_ERROR_NONE;
}

void
gateway_s3_object_md5_bytes(const void *bytes, size_t size, uint8_t digest[GATEWAY_MD5_SIZE],
                            char text[GATEWAY_MD5_TEXT])
{
    unsigned length = 0;

    memset(digest, 0, GATEWAY_MD5_SIZE);
    (void)EVP_Digest(bytes, size, digest, &length, EVP_md5(), NULL);
    kvt_hex_format(digest, GATEWAY_MD5_SIZE, text);
}

void
gateway_s3_object_md5(const void *bytes, size_t size, char text[GATEWAY_MD5_TEXT])
{
    uint8_t digest[GATEWAY_MD5_SIZE];

    gateway_s3_object_md5_bytes(bytes, size, digest, text);
}

/* The store's condition that holds exactly as long as the request's do. */
static enum gateway_s3_error
read_condition(struct gateway_s3 *s3, const struct gateway_request *request,
               struct gateway_put_item *item, enum g4_condition *condition)
{
    const char *match = gateway_request_header(request, "if-match");
    const char *none = gateway_request_header(request, "if-none-match");
    struct gateway_opaque there = {.key = item->key};
    enum gateway_s3_error fault;
    enum kvt_err rc;

    item->etag[0] = '\0';
    *condition = G4_ALWAYS;
    if (match == NULL && none == NULL)
        return GATEWAY_S3_ERROR_NONE;
    *condition = G4_IF_ABSENT;
    if (match == NULL && strcmp(none, "*") == 0)
        return GATEWAY_S3_ERROR_NONE;
    rc = gateway_opaque_find(s3->context, &there);
    if (rc != KVT_OK && rc != KVT_NOTFOUND)
        return gateway_request_fault_of(rc);
    fault = gateway_condition_write(request, rc == KVT_OK ? there.etag : NULL);
    if (fault == GATEWAY_S3_ERROR_NONE && rc == KVT_OK) {
        *condition = G4_IF_MATCH;
        memcpy(item->etag, there.store_etag, sizeof(item->etag));
    }
    return fault;
}

/* Before an object with a hashed name is stored, its record says its key.  Another gateway may have
 * written the record: its content is the same. */
static enum gateway_s3_error
store_key(struct gateway_s3 *s3, const struct gateway_request *request)
{
    const char *key = request->target.key;
    struct g4_object_name record;
    char found[G4_CLIENT_KEY_MAX] = "";
    struct g4_request put = {.verb = G4_PUT,
                             .key = record.text,
                             .condition = G4_IF_ABSENT,
                             .body = key,
                             .body_size = strlen(key)};
    struct g4_request get = {
        .verb = G4_GET, .key = record.text, .buffer = found, .buffer_capacity = sizeof(found) - 1};
    enum kvt_err rc;

    if (!g4_object_name_record(request->bucket.id, request->stored.text, &record))
        return GATEWAY_S3_ERROR_NONE;
    rc = gateway_bucket_tier_perform(s3->context->tiers.buckets, &put);
    if (rc != KVT_EXISTS)
        return gateway_request_fault_of(rc);
    rc = gateway_bucket_tier_perform(s3->context->tiers.buckets, &get);
    if (rc == KVT_OK && strcmp(found, key) == 0)
        return GATEWAY_S3_ERROR_NONE;
    if (rc != KVT_OK && kvt_err_retryable(rc))
        return gateway_request_fault_of(rc);
    /* Damaged: nothing else can have this name. */
    put.condition = G4_ALWAYS;
    return gateway_request_fault_of(gateway_bucket_tier_perform(s3->context->tiers.buckets, &put));
}

static enum gateway_s3_error
store_under(struct gateway_s3 *s3, const struct gateway_request *request,
            struct gateway_put_item *item, char attributes[G4_ATTRIBUTES_MAX], const char *etag,
            enum g4_condition condition)
{
    char shown[G4_ETAG_MAX];
    enum gateway_s3_error fault;

    if (etag != NULL)
        (void)snprintf(shown, sizeof(shown), "%s", etag);
    else
        gateway_s3_object_md5(item->body, item->size, shown);
    if (!gateway_attribute_lines_add(attributes, GATEWAY_ATTRIBUTE_ETAG, shown))
        return GATEWAY_S3_ERROR_META_LARGE;
    fault = store_key(s3, request);
    if (fault != GATEWAY_S3_ERROR_NONE)
        return fault;
    item->attributes = attributes;
    item->shown = shown;
    fault = gateway_request_fault_of(gateway_put_opaque(s3->context, item, condition));
    memcpy(item->etag, shown, sizeof(item->etag));
    item->attributes = NULL;
    item->shown = NULL;
    return fault;
}

enum gateway_s3_error
gateway_s3_object_store(struct gateway_s3 *s3, const struct gateway_request *request,
                        struct gateway_put_item *item, char attributes[G4_ATTRIBUTES_MAX],
                        const char *etag)
{
    enum g4_condition condition;
    enum gateway_s3_error fault;

    fault = read_condition(s3, request, item, &condition);
    return fault == GATEWAY_S3_ERROR_NONE
               ? store_under(s3, request, item, attributes, etag, condition)
               : fault;
}

enum gateway_s3_error
gateway_s3_object_replace(struct gateway_s3 *s3, const struct gateway_request *request,
                          struct gateway_put_item *item, char attributes[G4_ATTRIBUTES_MAX],
                          const struct gateway_opaque *seen)
{
    enum gateway_s3_error fault = gateway_condition_write(request, seen->etag);

    if (fault != GATEWAY_S3_ERROR_NONE)
        return fault;
    memcpy(item->etag, seen->store_etag, sizeof(item->etag));
    fault = store_under(s3, request, item, attributes, NULL, G4_IF_MATCH);
    /* Someone was quicker: the client's next try sees what is there then. */
    return fault == GATEWAY_S3_ERROR_PRECONDITION ? GATEWAY_S3_ERROR_SLOW_DOWN : fault;
}

static enum gateway_s3_error
put_object(struct gateway_s3 *s3, const struct gateway_request *request,
           struct gateway_put_item *item)
{
    char attributes[G4_ATTRIBUTES_MAX];
    enum gateway_s3_error fault = gateway_attributes_take(request, attributes);

    if (fault != GATEWAY_S3_ERROR_NONE)
        return fault;
    if (!gateway_attributes_add_checksums(attributes, &request->checksums) ||
        (gateway_request_header(request, "x-amz-meta-kvt-crc32c") != NULL &&
         !gateway_attribute_lines_add(attributes, GATEWAY_ATTRIBUTE_CLIENT, "1")))
        return GATEWAY_S3_ERROR_META_LARGE;
    return gateway_s3_object_store(s3, request, item, attributes, NULL);
}

/* What came with the body was checked against it; the client compares it with its own once more. */
void
gateway_s3_object_checksums(struct gateway_request *request)
{
    for (unsigned i = 0; i < GATEWAY_BODY_CHECKSUM_COUNT; i++)
        if (request->checksums.text[i][0] != '\0')
            gateway_request_field(request,
                                  gateway_body_checksum_header((enum gateway_body_checksum)i), "%s",
                                  request->checksums.text[i]);
}

void
gateway_s3_object_write(struct gateway_s3 *s3, struct gateway_request *request)
{
    struct gateway_put_item item = {.key = request->stored.text,
                                    .body = gateway_request_bytes(request),
                                    .size = request->body.size};
    enum gateway_s3_error fault;

    gateway_stats_add(s3->context->stats, GATEWAY_STAT_PUT, 1);
    fault = read_meta(request, &item);
    if (fault == GATEWAY_S3_ERROR_NONE)
        fault = gateway_object_key_is_block(item.key, NULL)
                    ? gateway_s3_object_store_block(s3, request, &item)
                    : put_object(s3, request, &item);
    if (fault != GATEWAY_S3_ERROR_NONE) {
        (void)gateway_request_fail(request, fault);
        return;
    }
    request->status = 200;
    gateway_request_field(request, "ETag", "\"%s\"", item.etag);
    gateway_s3_object_checksums(request);
}

void
gateway_s3_object_delete(struct gateway_s3 *s3, struct gateway_request *request)
{
    struct gateway_conditional_delete condition;
    enum gateway_s3_error fault;

    gateway_stats_add(s3->context->stats, GATEWAY_STAT_DELETE, 1);
    gateway_conditional_delete_headers(request, &condition);
    if (condition.asked)
        fault = gateway_conditional_delete_run(s3, request->stored.text, &condition);
    else
        fault = gateway_request_fault_of(gateway_remove(s3->context, request->stored.text));
    if (fault != GATEWAY_S3_ERROR_NONE)
        (void)gateway_request_fail(request, fault);
    else
        request->status = 204;
}
