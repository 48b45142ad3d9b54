#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/core/clock.h"
#include "gateway/http/attributes.h"
#include "gateway/http/xml_write.h"
#include "gateway/s3/opaque.h"
#include "gateway/s3/s3_handlers.h"
#include "gateway/s3/s3_object.h"
#include "gateway/upload/completed_parts.h"

enum { PARTS_MAX = 1000 };

#define ROOT "GetObjectAttributesResponse"

/* X(NAME, as clients name it) */
#define WISH_MAP(X)                                                                                \
    X(ETAG, "ETag")                                                                                \
    X(CHECKSUM, "Checksum")                                                                        \
    X(PARTS, "ObjectParts")                                                                        \
    X(CLASS, "StorageClass")                                                                       \
    X(SIZE, "ObjectSize")

enum wish {
#define X(name, text) WISH_##name,
    WISH_MAP(X)
#undef X
        WISH_COUNT
};

struct wishes {
    bool of[WISH_COUNT];
    uint64_t max; /* parts */
    uint64_t marker;
};

bool
gateway_s3_object_attributes_is(const struct gateway_request *request)
{
    static const char *const known[] = {"attributes", "versionId"};

    return gateway_request_is(request, "GET") &&
           gateway_target_has(&request->target, "attributes") &&
           !gateway_s3_strange(request, known, sizeof(known) / sizeof(known[0]));
}

static bool
add_wish(struct wishes *wishes, const char *item, size_t size)
{
    static const char *const texts[] = {
#define X(name, text) text,
        WISH_MAP(X)
#undef X
    };

    for (size_t i = 0; i < WISH_COUNT; i++) {
        if (strlen(texts[i]) == size && memcmp(texts[i], item, size) == 0) {
            wishes->of[i] = true;
            return true;
        }
    }
    return false;
}

static enum gateway_s3_error
read_wishes(const struct gateway_request *request, struct wishes *wishes)
{
    bool any = false;

    *wishes = (struct wishes){.max = PARTS_MAX};
    for (size_t i = 0; i < request->header_count; i++) {
        const char *list = request->headers[i].value;
        const char *item;
        size_t size;

        if (strcasecmp(request->headers[i].name, "x-amz-object-attributes") != 0)
            continue;
        while ((item = gateway_request_item(&list, &size)) != NULL) {
            if (!add_wish(wishes, item, size))
                return GATEWAY_S3_ERROR_INVALID_ARGUMENT;
            any = true;
        }
    }
    if (!any || !gateway_request_number(request, "x-amz-max-parts", &wishes->max) ||
        !gateway_request_number(request, "x-amz-part-number-marker", &wishes->marker))
        return GATEWAY_S3_ERROR_INVALID_ARGUMENT;
    if (wishes->max > PARTS_MAX)
        wishes->max = PARTS_MAX;
    return GATEWAY_S3_ERROR_NONE;
}

static bool
has_checksum(const char *attributes)
{
    char value[GATEWAY_ATTRIBUTES_CHECKSUM];

    return gateway_attributes_next_checksum(attributes, 0, value) != GATEWAY_BODY_CHECKSUM_COUNT;
}

/* Bytes of the object: those of the parts that are given. */
struct span {
    uint64_t from;
    uint64_t size;
    const uint8_t *bytes; /* NULL: no checksum of theirs is told */
};

/* Where they are; false: no part is given. */
static bool
find_span(const struct wishes *wishes, const struct gateway_opaque *object, struct span *span)
{
    char text[GATEWAY_COMPLETED_PARTS_TEXT];
    struct gateway_piece piece;
    uint64_t given = 0;

    *span = (struct span){.bytes = NULL};
    if (gateway_completed_parts_count(object->attributes, object->length, text) == 0)
        return false;
    gateway_completed_parts_begin(&piece, text);
    while (given < wishes->max && gateway_completed_parts_next(&piece)) {
        if (piece.number <= wishes->marker)
            continue;
        if (given++ == 0)
            span->from = piece.from;
        span->size = piece.from + piece.size - span->from;
    }
    return given > 0;
}

/* A part, with a checksum of each kind that the object has. */
static void
give_part(struct kvt_buffer *out, const struct gateway_piece *piece, const char *attributes,
          const struct span *span)
{
    char kept[GATEWAY_ATTRIBUTES_CHECKSUM];
    enum gateway_body_checksum kind = GATEWAY_BODY_CHECKSUM_COUNT;

    kvt_buffer_printf(out, "<Part><PartNumber>%u</PartNumber><Size>%" PRIu64 "</Size>",
                      piece->number, piece->size);
    if (span->bytes != NULL)
        kind = gateway_attributes_next_checksum(attributes, 0, kept);
    for (; kind != GATEWAY_BODY_CHECKSUM_COUNT;
         kind = gateway_attributes_next_checksum(attributes, kind + 1u, kept)) {
        char text[GATEWAY_BODY_CHECKSUM_TEXT];

        if (gateway_body_checksum_text(kind, span->bytes + (piece->from - span->from),
                                       (size_t)piece->size, text))
            gateway_xml_write_checksum(out, kind, text); /* none rather than a wrong one */
    }
    kvt_buffer_printf(out, "</Part>");
}

static void
give_parts(struct kvt_buffer *out, const struct wishes *wishes, const struct gateway_opaque *object,
           const struct span *span)
{
    char text[GATEWAY_COMPLETED_PARTS_TEXT];
    const unsigned count = gateway_completed_parts_count(object->attributes, object->length, text);
    struct gateway_piece piece;
    uint64_t given = 0;
    unsigned last = 0;
    bool more = false;

    if (count == 0)
        return;
    kvt_buffer_printf(out,
                      "<ObjectParts><PartsCount>%u</PartsCount><PartNumberMarker>%" PRIu64
                      "</PartNumberMarker><MaxParts>%" PRIu64 "</MaxParts>",
                      count, wishes->marker, wishes->max);
    gateway_completed_parts_begin(&piece, text);
    while (gateway_completed_parts_next(&piece) && !more) {
        if (piece.number <= wishes->marker)
            continue;
        more = given == wishes->max;
        if (more)
            continue;
        give_part(out, &piece, object->attributes, span);
        last = piece.number;
        given++;
    }
    kvt_buffer_printf(out,
                      "<NextPartNumberMarker>%u</NextPartNumberMarker>"
                      "<IsTruncated>%s</IsTruncated></ObjectParts>",
                      last, more ? "true" : "false");
}

static enum gateway_s3_error
give(struct gateway_request *request, const struct wishes *wishes,
     const struct gateway_opaque *object, const struct span *span)
{
    struct kvt_buffer *out = &request->answer;
    char modified[KVT_CLOCK_HTTP_MAX];

    kvt_clock_format_http(object->modified_ms, modified);
    gateway_request_field(request, "Last-Modified", "%s", modified);
    gateway_xml_write_begin(out, ROOT);
    if (wishes->of[WISH_ETAG])
        gateway_xml_write_element(out, "ETag", object->etag);
    if (wishes->of[WISH_CHECKSUM] && has_checksum(object->attributes)) {
        kvt_buffer_printf(out, "<Checksum>");
        gateway_attributes_tell_checksums(object->attributes, true, out);
        kvt_buffer_printf(out, "</Checksum>");
    }
    if (wishes->of[WISH_PARTS])
        give_parts(out, wishes, object, span);
    if (wishes->of[WISH_CLASS])
        gateway_xml_write_element(out, "StorageClass", "STANDARD");
    if (wishes->of[WISH_SIZE])
        kvt_buffer_printf(out, "<ObjectSize>%" PRIu64 "</ObjectSize>", object->length);
    gateway_xml_write_end(out, ROOT);
    return gateway_request_answer(request, "application/xml");
}

void
gateway_s3_object_attributes_answer(struct gateway_s3 *s3, struct gateway_request *request)
{
    struct gateway_opaque object;
    struct span span = {.bytes = NULL};
    struct wishes wishes;
    struct kvt_buffer body;
    enum gateway_s3_error fault = read_wishes(request, &wishes);

    kvt_buffer_init(&body, (size_t)s3->context->body_limits.object_max + 1);
    if (fault == GATEWAY_S3_ERROR_NONE)
        fault = gateway_s3_object_there(s3, request, &object);
    if (fault == GATEWAY_S3_ERROR_NONE && wishes.of[WISH_PARTS] &&
        has_checksum(object.attributes) && find_span(&wishes, &object, &span)) {
        fault = gateway_s3_object_fetch_span(s3, request, &body, &object, span.from, span.size);
        span.bytes = body.data;
    }
    if (fault == GATEWAY_S3_ERROR_NONE)
        fault = give(request, &wishes, &object, &span);
    kvt_buffer_release(&body);
    if (fault != GATEWAY_S3_ERROR_NONE)
        (void)gateway_request_fail(request, fault);
}
