#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/text/hex.h"
#include "base/text/parse.h"
#include "g4/object/check.h"
#include "gateway/http/attributes.h"
#include "gateway/http/range.h"
#include "gateway/http/xml_read.h"
#include "gateway/http/xml_write.h"
#include "gateway/s3/object_copy.h"
#include "gateway/s3/opaque.h"
#include "gateway/s3/s3_handlers.h"
#include "gateway/s3/s3_object.h"
#include "gateway/tier/object_key.h"
#include "gateway/upload/completed_parts.h"
#include "gateway/upload/upload_checksum.h"
#include "gateway/upload/uploads.h"

enum { PART_MIN = 5 << 20, PAGE_MAX = 1000 };

static enum gateway_s3_error
fault_of(enum kvt_err rc)
{
    return rc == KVT_NOTFOUND ? GATEWAY_S3_ERROR_UPLOAD : gateway_request_fault_of(rc);
}

/* The answer is whole. */
static enum gateway_s3_error
finish(struct gateway_request *request, const char *root)
{
    gateway_xml_write_end(&request->answer, root);
    return gateway_request_answer(request, "application/xml");
}

/* ---- create, parts, abort ---- */

/* Whatever its completion adds beside the object, under conditions, too, finds room: what would not
 * is refused before any part comes. */
static bool
has_room_to_complete(const struct gateway_upload_checksum *wanted, const char *attributes)
{
    char filled[G4_ATTRIBUTES_MAX];
    char value[GATEWAY_ATTRIBUTES_CHECKSUM]; /* neither an ETag nor a PUT's number is longer */

    memset(value, '0', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    (void)snprintf(filled, sizeof(filled), "%s", attributes);
    return (wanted->algorithm == GATEWAY_BODY_CHECKSUM_COUNT ||
            gateway_attributes_add_checksum(filled, wanted->algorithm, value,
                                            gateway_upload_checksum_type(wanted))) &&
           gateway_attribute_lines_add(filled, GATEWAY_ATTRIBUTE_ETAG, value) &&
           gateway_attribute_lines_add(filled, GATEWAY_ATTRIBUTE_PUT, value);
}

static enum gateway_s3_error
create(struct gateway_s3 *s3, struct gateway_request *request, struct gateway_upload *upload)
{
    struct gateway_upload_checksum wanted;
    enum gateway_s3_error fault;

    fault = gateway_upload_checksum_take(request, &wanted);
    if (fault == GATEWAY_S3_ERROR_NONE)
        fault = gateway_attributes_take(request, upload->attributes);
    if (fault == GATEWAY_S3_ERROR_NONE &&
        (!has_room_to_complete(&wanted, upload->attributes) ||
         !gateway_upload_checksum_keep(&wanted, upload->attributes)))
        fault = GATEWAY_S3_ERROR_META_LARGE;
    if (fault != GATEWAY_S3_ERROR_NONE)
        return fault;
    (void)snprintf(upload->bucket, sizeof(upload->bucket), "%s", request->bucket.id);
    (void)snprintf(upload->key, sizeof(upload->key), "%s", request->target.key);
    fault = gateway_request_fault_of(gateway_uploads_create(s3->context, upload));
    if (fault != GATEWAY_S3_ERROR_NONE)
        return fault;
    if (wanted.algorithm != GATEWAY_BODY_CHECKSUM_COUNT) {
        gateway_request_field(request, "x-amz-checksum-algorithm", "%s",
                              gateway_body_checksum_word(wanted.algorithm));
        gateway_request_field(request, "x-amz-checksum-type", "%s",
                              gateway_upload_checksum_type(&wanted));
    }
    gateway_xml_write_begin(&request->answer, "InitiateMultipartUploadResult");
    gateway_xml_write_element(&request->answer, "Bucket", request->bucket.name);
    gateway_xml_write_element(&request->answer, "Key", request->target.key);
    gateway_xml_write_element(&request->answer, "UploadId", upload->id);
    return finish(request, "InitiateMultipartUploadResult");
}

/* The bytes of a part that is copied: all of the source, or the range that was named. */
static enum gateway_s3_error
copied_range(const struct gateway_request *request, size_t length, size_t *from, size_t *size)
{
    const char *text = gateway_request_header(request, "x-amz-copy-source-range");
    uint64_t first;
    uint64_t last;

    *from = 0;
    *size = length;
    if (text == NULL)
        return GATEWAY_S3_ERROR_NONE;
    switch (gateway_range_exact(text, length, &first, &last)) {
    case GATEWAY_RANGE_NONE: return GATEWAY_S3_ERROR_INVALID_ARGUMENT;
    case GATEWAY_RANGE_OUTSIDE: return GATEWAY_S3_ERROR_RANGE;
    case GATEWAY_RANGE_PART: break;
    }
    *from = (size_t)first;
    *size = (size_t)(last - first + 1);
    return GATEWAY_S3_ERROR_NONE;
}

/* With the upload's checksum among `checksums`, of which those that came were checked. */
static enum gateway_s3_error
keep_part(struct gateway_s3 *s3, const struct gateway_upload *upload, unsigned number,
          const void *body, size_t size, struct gateway_body_checksums *checksums,
          char etag[GATEWAY_MD5_TEXT])
{
    char attributes[G4_ATTRIBUTES_MAX] = "";
    struct gateway_upload_checksum wanted;
    enum gateway_s3_error fault;

    gateway_upload_checksum_read(upload->attributes, &wanted);
    fault = gateway_upload_checksum_of_part(&wanted, body, size, checksums);
    if (fault != GATEWAY_S3_ERROR_NONE)
        return fault;
    gateway_s3_object_md5(body, size, etag);
    if (!gateway_attributes_add_checksums(attributes, checksums))
        return GATEWAY_S3_ERROR_META_LARGE;
    return gateway_request_fault_of(
        gateway_uploads_put(s3->context, upload->id, number, body, size, etag, attributes));
}

static enum gateway_s3_error
copy_part(struct gateway_s3 *s3, struct gateway_request *request,
          const struct gateway_upload *upload, unsigned number)
{
    struct g4_object_name name;
    struct gateway_opaque source = {.key = name.text};
    struct gateway_body_checksums checksums = {.text = {""}};
    char etag[GATEWAY_MD5_TEXT];
    struct kvt_buffer body;
    enum gateway_s3_error fault;
    size_t from;
    size_t size;

    kvt_buffer_init(&body, (size_t)s3->context->body_limits.object_max + 1);
    fault = gateway_object_copy_source(s3, request, &name);
    if (fault == GATEWAY_S3_ERROR_NONE)
        fault = gateway_s3_object_fetch(s3, request, &body, &source);
    if (fault == GATEWAY_S3_ERROR_NONE)
        fault = copied_range(request, body.size, &from, &size);
    if (fault == GATEWAY_S3_ERROR_NONE)
        fault = keep_part(s3, upload, number, body.data + from, size, &checksums, etag);
    kvt_buffer_release(&body);
    if (fault != GATEWAY_S3_ERROR_NONE)
        return fault;
    return gateway_object_copy_tell(request, "CopyPartResult", etag, &checksums);
}

static enum gateway_s3_error
upload_part(struct gateway_s3 *s3, struct gateway_request *request,
            const struct gateway_upload *upload)
{
    const void *body = gateway_request_bytes(request);
    char etag[GATEWAY_MD5_TEXT];
    enum gateway_s3_error fault;
    uint64_t number = 0;

    if (!gateway_target_number(&request->target, "partNumber", &number) || number < 1 ||
        number > GATEWAY_COMPLETED_PARTS_MAX)
        return GATEWAY_S3_ERROR_INVALID_ARGUMENT;
    if (gateway_request_header(request, "x-amz-copy-source") != NULL)
        return copy_part(s3, request, upload, (unsigned)number);
    fault = keep_part(s3, upload, (unsigned)number, body, request->body.size, &request->checksums,
                      etag);
    if (fault != GATEWAY_S3_ERROR_NONE)
        return fault;
    request->status = 200;
    gateway_request_field(request, "ETag", "\"%s\"", etag);
    gateway_s3_object_checksums(request);
    return GATEWAY_S3_ERROR_NONE;
}

static enum gateway_s3_error
abort_upload(struct gateway_s3 *s3, struct gateway_request *request, const char *id)
{
    const enum gateway_s3_error fault = fault_of(gateway_uploads_drop(s3->context, id));

    if (fault == GATEWAY_S3_ERROR_NONE)
        request->status = 204;
    return fault;
}

/* ---- listing ---- */

static enum gateway_s3_error
list_parts(struct gateway_s3 *s3, struct gateway_request *request,
           const struct gateway_upload *upload)
{
    unsigned numbers[PAGE_MAX + 1];
    struct gateway_upload_checksum wanted;
    uint64_t marker = 0;
    uint64_t max = PAGE_MAX;
    size_t count = 0;
    size_t given;
    enum kvt_err rc;

    if (!gateway_target_number(&request->target, "part-number-marker", &marker) ||
        !gateway_target_number(&request->target, "max-parts", &max) ||
        marker > GATEWAY_COMPLETED_PARTS_MAX)
        return GATEWAY_S3_ERROR_INVALID_ARGUMENT;
    max = max < PAGE_MAX ? max : PAGE_MAX;
    rc = gateway_uploads_numbers(s3->context, upload->id, (unsigned)marker, numbers,
                                 (size_t)max + 1, &count);
    if (rc != KVT_OK)
        return fault_of(rc);
    given = count < max ? count : (size_t)max;
    gateway_xml_write_begin(&request->answer, "ListPartsResult");
    gateway_xml_write_element(&request->answer, "Bucket", request->bucket.name);
    gateway_xml_write_element(&request->answer, "Key", request->target.key);
    gateway_xml_write_element(&request->answer, "UploadId", upload->id);
    gateway_xml_write_owner(&request->answer, "Initiator", request->bucket.owner);
    gateway_xml_write_owner(&request->answer, "Owner", request->bucket.owner);
    kvt_buffer_printf(&request->answer,
                      "<StorageClass>STANDARD</StorageClass><PartNumberMarker>%" PRIu64
                      "</PartNumberMarker><NextPartNumberMarker>%u</NextPartNumberMarker>"
                      "<MaxParts>%" PRIu64 "</MaxParts><IsTruncated>%s</IsTruncated>",
                      marker, given == 0 ? 0 : numbers[given - 1], max,
                      count > given ? "true" : "false");
    gateway_upload_checksum_read(upload->attributes, &wanted);
    if (wanted.algorithm != GATEWAY_BODY_CHECKSUM_COUNT)
        kvt_buffer_printf(&request->answer,
                          "<ChecksumAlgorithm>%s</ChecksumAlgorithm>"
                          "<ChecksumType>%s</ChecksumType>",
                          gateway_body_checksum_word(wanted.algorithm),
                          gateway_upload_checksum_type(&wanted));
    for (size_t i = 0; i < given; i++) {
        struct gateway_part part = {.number = numbers[i], .algorithm = wanted.algorithm};

        if (gateway_uploads_part(s3->context, upload->id, &part) != KVT_OK)
            continue; /* gone meanwhile */
        kvt_buffer_printf(&request->answer, "<Part><PartNumber>%u</PartNumber>", part.number);
        gateway_xml_write_time(&request->answer, "LastModified", part.modified_ms);
        kvt_buffer_printf(&request->answer, "<ETag>&quot;%s&quot;</ETag><Size>%" PRIu64 "</Size>",
                          part.etag, part.size);
        gateway_xml_write_checksum(&request->answer, part.algorithm, part.checksum);
        kvt_buffer_printf(&request->answer, "</Part>");
    }
    return finish(request, "ListPartsResult");
}

/* ---- completion ---- */

struct completion {
    struct gateway_part *parts;
    size_t count;
    bool ordered;
    struct gateway_upload_checksum wanted; /* the upload's */
    struct gateway_part next;              /* the row that is being read */
};

static bool
on_text(void *arg, bool in_row, const char *name, const char *text)
{
    struct completion *completion = arg;
    uint64_t number;
    size_t size = strlen(text);

    if (!in_row)
        return true;
    if (strcmp(name, "PartNumber") == 0) {
        if (kvt_parse_u64(text, &number) != KVT_OK || number < 1 ||
            number > GATEWAY_COMPLETED_PARTS_MAX)
            return false;
        completion->next.number = (unsigned)number;
    } else if (strcmp(name, "ETag") == 0) {
        if (size >= 2 && text[0] == '"' && text[size - 1] == '"') {
            text++;
            size -= 2;
        }
        if (size >= sizeof(completion->next.etag))
            return false;
        memcpy(completion->next.etag, text, size);
        completion->next.etag[size] = '\0';
    } else if (completion->wanted.algorithm != GATEWAY_BODY_CHECKSUM_COUNT &&
               strncmp(name, "Checksum", strlen("Checksum")) == 0 &&
               strcmp(name + strlen("Checksum"),
                      gateway_body_checksum_word(completion->wanted.algorithm)) == 0) {
        /* One that is cut off fits no part. */
        (void)snprintf(completion->next.checksum, sizeof(completion->next.checksum), "%s", text);
    }
    return true;
}

static bool
on_row(void *arg)
{
    struct completion *completion = arg;

    if (completion->next.number == 0 || completion->count == GATEWAY_COMPLETED_PARTS_MAX)
        return false;
    if (completion->count > 0 &&
        completion->next.number <= completion->parts[completion->count - 1].number)
        completion->ordered = false;
    completion->parts[completion->count++] = completion->next;
    completion->next = (struct gateway_part){0};
    return true;
}

static enum gateway_s3_error
read_list(const struct gateway_request *request, struct completion *completion)
{
    const struct gateway_xml_read form = {.root = "CompleteMultipartUpload",
                                          .row = "Part",
                                          .on_text = on_text,
                                          .on_row = on_row,
                                          .arg = completion};

    completion->ordered = true;
    completion->parts = kvt_calloc(GATEWAY_COMPLETED_PARTS_MAX, sizeof(*completion->parts));
    if (completion->parts == NULL)
        return GATEWAY_S3_ERROR_SLOW_DOWN;
    if (!gateway_xml_read_parse(&form, gateway_request_bytes(request), request->body.size) ||
        completion->count == 0)
        return GATEWAY_S3_ERROR_XML;
    return completion->ordered ? GATEWAY_S3_ERROR_NONE : GATEWAY_S3_ERROR_PART_ORDER;
}

/* Is every part there as it was named, and none too small?  `total` gets their bytes. */
static enum gateway_s3_error
check_parts(struct gateway_s3 *s3, const char *id, struct completion *completion, uint64_t *total)
{
    bool small = false;

    *total = 0;
    for (size_t i = 0; i < completion->count; i++) {
        struct gateway_part *named = &completion->parts[i];
        struct gateway_part there = {.number = named->number,
                                     .algorithm = completion->wanted.algorithm};
        const enum kvt_err rc = gateway_uploads_part(s3->context, id, &there);

        if (rc != KVT_OK && rc != KVT_NOTFOUND)
            return gateway_request_fault_of(rc);
        if (rc == KVT_NOTFOUND || strcmp(there.etag, named->etag) != 0 ||
            (named->checksum[0] != '\0' && strcmp(there.checksum, named->checksum) != 0))
            return GATEWAY_S3_ERROR_PART;
        small = small || (there.size < PART_MIN && i + 1 < completion->count);
        *named = there;
        *total += there.size;
    }
    if (small)
        return GATEWAY_S3_ERROR_TOO_SMALL;
    return *total > s3->context->body_limits.object_max ? GATEWAY_S3_ERROR_TOO_LARGE
                                                        : GATEWAY_S3_ERROR_NONE;
}

static void
etag_of_parts(const uint8_t *digests, size_t count, char etag[G4_ETAG_MAX])
{
    char whole[GATEWAY_MD5_TEXT];

    gateway_s3_object_md5(digests, count * GATEWAY_MD5_SIZE, whole);
    (void)snprintf(etag, G4_ETAG_MAX, "%s-%zu", whole, count);
}

/* All parts one behind the other, and the ETag that S3 gives such an object. */
static enum gateway_s3_error
assemble(struct gateway_s3 *s3, const char *id, const struct completion *completion, uint8_t *out,
         char etag[G4_ETAG_MAX])
{
    uint8_t *digests = kvt_calloc(completion->count, GATEWAY_MD5_SIZE);
    enum kvt_err rc = digests == NULL ? KVT_NOMEM : KVT_OK;

    for (size_t i = 0; rc == KVT_OK && i < completion->count; i++) {
        const struct gateway_part *part = &completion->parts[i];
        char found[GATEWAY_MD5_TEXT];

        rc = gateway_uploads_read(s3->context, id, part, out);
        gateway_s3_object_md5_bytes(out, rc == KVT_OK ? (size_t)part->size : 0,
                                    digests + i * GATEWAY_MD5_SIZE, found);
        if (rc == KVT_OK && strcmp(found, part->etag) != 0)
            rc = KVT_AGAIN; /* put anew under our hands */
        out += part->size;
    }
    if (rc == KVT_OK) {
        etag_of_parts(digests, completion->count, etag);
    }
    kvt_free(digests);
    return fault_of(rc);
}

static enum gateway_s3_error
store(struct gateway_s3 *s3, const struct gateway_request *request, struct gateway_upload *upload,
      struct gateway_put_item *item, const char *etag)
{
    gateway_stats_add(s3->context->stats, GATEWAY_STAT_PUT, 1);
    item->crc32c = g4_check_crc32c(item->body, item->size);
    if (!gateway_object_key_is_block(item->key, NULL))
        return gateway_s3_object_store(s3, request, item, upload->attributes, etag);
    return gateway_s3_object_store_block(s3, request, item);
}

/* The object's checksum, which must be what the client says it is. */
static enum gateway_s3_error
seal(const struct gateway_request *request, const struct completion *completion,
     const uint8_t *body, char attributes[G4_ATTRIBUTES_MAX])
{
    struct gateway_upload_checksum wanted = completion->wanted;
    char text[GATEWAY_ATTRIBUTES_CHECKSUM];
    enum gateway_s3_error fault;

    gateway_attribute_lines_drop(attributes, GATEWAY_ATTRIBUTE_UPLOAD);
    fault = gateway_upload_checksum_claim(request, &wanted);
    if (fault != GATEWAY_S3_ERROR_NONE || wanted.algorithm == GATEWAY_BODY_CHECKSUM_COUNT)
        return fault;
    if (!gateway_upload_checksum_compute(&wanted, body, completion->parts, completion->count, text))
        return GATEWAY_S3_ERROR_SLOW_DOWN;
    fault = gateway_upload_checksum_judge(&wanted, request, text);
    if (fault != GATEWAY_S3_ERROR_NONE)
        return fault;
    /* No room was kept for one that is named only now: it was right, and is not told again. */
    if (completion->wanted.algorithm == GATEWAY_BODY_CHECKSUM_COUNT &&
        !has_room_to_complete(&wanted, attributes))
        return GATEWAY_S3_ERROR_NONE;
    return gateway_attributes_add_checksum(attributes, wanted.algorithm, text,
                                           gateway_upload_checksum_type(&wanted))
               ? GATEWAY_S3_ERROR_NONE
               : GATEWAY_S3_ERROR_META_LARGE;
}

static enum gateway_s3_error
give_completed(struct gateway_request *request, const char *key, const char *etag,
               const char *attributes)
{
    gateway_xml_write_begin(&request->answer, "CompleteMultipartUploadResult");
    kvt_buffer_printf(&request->answer, "<Location>/%s/", request->bucket.name);
    gateway_xml_write_text(&request->answer, key);
    kvt_buffer_printf(&request->answer, "</Location>");
    gateway_xml_write_element(&request->answer, "Bucket", request->bucket.name);
    gateway_xml_write_element(&request->answer, "Key", key);
    kvt_buffer_printf(&request->answer, "<ETag>&quot;%s&quot;</ETag>", etag);
    gateway_attributes_tell_checksums(attributes, false, &request->answer);
    return finish(request, "CompleteMultipartUploadResult");
}

static enum gateway_s3_error
complete_held(struct gateway_s3 *s3, struct gateway_request *request, struct gateway_upload *upload,
              struct completion *completion)
{
    struct gateway_put_item item = {.key = request->stored.text};
    char parts[GATEWAY_COMPLETED_PARTS_TEXT];
    char etag[G4_ETAG_MAX];
    enum gateway_s3_error fault;
    uint8_t *body = NULL;
    uint64_t total;
    uint64_t size;

    fault = check_parts(s3, upload->id, completion, &total);
    if (fault != GATEWAY_S3_ERROR_NONE)
        return fault;
    size = total;
    if (!gateway_request_number(request, "x-amz-mp-object-size", &size) || size != total)
        return GATEWAY_S3_ERROR_INVALID_REQUEST;
    if (!gateway_budget_take(s3->budget, total))
        return GATEWAY_S3_ERROR_SLOW_DOWN;
    request->taken += total;
    body = kvt_calloc(1, (size_t)total + 1);
    if (body == NULL)
        return GATEWAY_S3_ERROR_SLOW_DOWN;
    fault = assemble(s3, upload->id, completion, body, etag);
    if (fault == GATEWAY_S3_ERROR_NONE)
        fault = seal(request, completion, body, upload->attributes);
    if (fault == GATEWAY_S3_ERROR_NONE) {
        item.body = body;
        item.size = (size_t)total;
        if (gateway_completed_parts_format(completion->parts, completion->count, parts))
            item.parts = parts;
        fault = store(s3, request, upload, &item, etag);
    }
    kvt_free(body);
    if (fault != GATEWAY_S3_ERROR_NONE)
        return fault;
    /* What is left when this fails is expired later. */
    (void)!gateway_uploads_drop(s3->context, upload->id);
    return give_completed(request, request->target.key, item.etag, upload->attributes);
}

static enum gateway_s3_error
complete(struct gateway_s3 *s3, struct gateway_request *request, struct gateway_upload *upload)
{
    struct completion completion = {.parts = NULL};
    enum gateway_s3_error fault;

    gateway_upload_checksum_read(upload->attributes, &completion.wanted);
    fault = read_list(request, &completion);
    if (fault == GATEWAY_S3_ERROR_NONE)
        fault = complete_held(s3, request, upload, &completion);
    kvt_free(completion.parts);
    return fault;
}

/* The ETag an object of exactly these parts has; false: they are named by something else. */
static bool
etag_of_named(const struct completion *completion, char etag[G4_ETAG_MAX])
{
    uint8_t *digests = kvt_calloc(completion->count, GATEWAY_MD5_SIZE);
    bool fine = digests != NULL;

    for (size_t i = 0; fine && i < completion->count; i++)
        fine = strlen(completion->parts[i].etag) == GATEWAY_MD5_TEXT - 1 &&
               kvt_hex_parse(completion->parts[i].etag, GATEWAY_MD5_SIZE,
                             digests + i * GATEWAY_MD5_SIZE);
    if (fine)
        etag_of_parts(digests, completion->count, etag);
    kvt_free(digests);
    return fine;
}

/* A client whose answer was lost asks again: what it asks for may be there. */
static enum gateway_s3_error
complete_again(struct gateway_s3 *s3, struct gateway_request *request)
{
    struct gateway_opaque object = {.key = request->stored.text};
    struct completion completion = {.wanted = {.algorithm = GATEWAY_BODY_CHECKSUM_COUNT}};
    enum gateway_s3_error fault = read_list(request, &completion);
    char etag[G4_ETAG_MAX];

    if (fault == GATEWAY_S3_ERROR_NONE &&
        (!etag_of_named(&completion, etag) || gateway_opaque_find(s3->context, &object) != KVT_OK ||
         strcmp(object.etag, etag) != 0))
        fault = GATEWAY_S3_ERROR_UPLOAD;
    kvt_free(completion.parts);
    return fault == GATEWAY_S3_ERROR_NONE
               ? give_completed(request, request->target.key, etag, object.attributes)
               : GATEWAY_S3_ERROR_UPLOAD;
}

/* ---- dispatch ---- */

static enum gateway_s3_error
on_upload(struct gateway_s3 *s3, struct gateway_request *request, struct gateway_upload *upload)
{
    static const char *const known[] = {"uploadId", "partNumber", "max-parts",
                                        "part-number-marker"};
    char id[GATEWAY_UPLOAD_ID] = "";
    enum gateway_s3_error fault;

    if (gateway_s3_strange(request, known, sizeof(known) / sizeof(known[0])))
        return GATEWAY_S3_ERROR_NOT_IMPLEMENTED;
    if (gateway_target_query(&request->target, "uploadId", id, sizeof(id)) != KVT_OK)
        return GATEWAY_S3_ERROR_UPLOAD;
    fault = fault_of(gateway_uploads_find(s3->context, id, upload));
    if (fault == GATEWAY_S3_ERROR_NONE && (strcmp(upload->bucket, request->bucket.id) != 0 ||
                                           strcmp(upload->key, request->target.key) != 0))
        fault = GATEWAY_S3_ERROR_UPLOAD; /* to another object */
    if (fault == GATEWAY_S3_ERROR_UPLOAD && gateway_request_is(request, "POST"))
        return complete_again(s3, request);
    if (fault != GATEWAY_S3_ERROR_NONE)
        return fault;
    if (gateway_request_is(request, "PUT"))
        return upload_part(s3, request, upload);
    if (gateway_request_is(request, "POST"))
        return complete(s3, request, upload);
    if (gateway_request_is(request, "DELETE"))
        return abort_upload(s3, request, id);
    return gateway_request_is(request, "GET") ? list_parts(s3, request, upload)
                                              : GATEWAY_S3_ERROR_NOT_IMPLEMENTED;
}

void
gateway_multipart_answer(struct gateway_s3 *s3, struct gateway_request *request)
{
    static const char *const creates[] = {"uploads"};
    struct gateway_upload *upload = kvt_calloc(1, sizeof(*upload));
    enum gateway_s3_error fault;

    if (upload == NULL)
        fault = GATEWAY_S3_ERROR_SLOW_DOWN;
    else if (!gateway_target_has(&request->target, "uploads"))
        fault = on_upload(s3, request, upload);
    else if (!gateway_request_is(request, "POST") || gateway_s3_strange(request, creates, 1))
        fault = GATEWAY_S3_ERROR_NOT_IMPLEMENTED;
    else
        fault = create(s3, request, upload);
    kvt_free(upload);
    if (fault != GATEWAY_S3_ERROR_NONE)
        (void)gateway_request_fail(request, fault);
}
