#include "gateway/s3/opaque.h"

#include <string.h>

#include "base/core/log.h"
#include "g4/object/check.h"
#include "gateway/http/attributes.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/object_key.h"

/* What the answer says of the object. */
static void
tell(struct gateway_opaque *object, const struct g4_request *request)
{
    object->length = request->buffer_size;
    object->modified_ms = request->modified_ms;
    object->meta = request->meta;
    memcpy(object->store_etag, request->etag, sizeof(object->store_etag));
    if (!gateway_attribute_lines_get(object->attributes, GATEWAY_ATTRIBUTE_ETAG, object->etag,
                                     sizeof(object->etag)))
        memcpy(object->etag, request->etag, sizeof(object->etag));
}

enum kvt_err
gateway_opaque_find(struct gateway_context *context, struct gateway_opaque *object)
{
    struct g4_request request = {
        .verb = G4_HEAD, .key = object->key, .attributes = object->attributes};

    if (!gateway_object_key_is_stored(object->key))
        return KVT_NOTFOUND;
    if (!gateway_bucket_tier_healthy(context->tiers.buckets))
        return KVT_UNAVAILABLE;
    (void)!gateway_bucket_tier_perform(context->tiers.buckets, &request);
    tell(object, &request);
    return request.status == KVT_CORRUPT ? KVT_IO : request.status;
}

bool
gateway_opaque_hint(struct gateway_context *context, struct gateway_opaque *object)
{
    struct gateway_record record;

    if (!gateway_bucket_tier_healthy(context->tiers.buckets) ||
        gateway_catalog_get(context->catalog, object->key, &record) != KVT_OK || !record.opaque ||
        record.state != GATEWAY_STORED)
        return false;
    object->length = record.length;
    return true;
}

enum kvt_err
gateway_opaque_read(struct gateway_context *context, struct gateway_opaque *object, void *buffer,
                    size_t capacity)
{
    struct g4_request request = {.verb = G4_GET,
                                 .key = object->key,
                                 .attributes = object->attributes,
                                 .buffer = buffer,
                                 .buffer_capacity = capacity,
                                 .sum = true};
    enum kvt_err rc;

    rc = gateway_bucket_tier_perform(context->tiers.buckets, &request);
    tell(object, &request);
    if (rc == KVT_OK)
        rc = g4_check_answer(&request, NULL, &request.error);
    if (rc == KVT_CORRUPT) {
        kvt_log_warn("gateway.opaque", "corrupt", "%s: %s", object->key, request.error.text);
        rc = KVT_IO;
    }
    if (rc == KVT_OK) {
        gateway_stats_add(context->stats, GATEWAY_STAT_HITS_COLD, 1);
        gateway_stats_add(context->stats, GATEWAY_STAT_BYTES_OUT, request.buffer_size);
    } else if (rc == KVT_NOTFOUND) {
        gateway_stats_add(context->stats, GATEWAY_STAT_MISSES, 1);
    }
    return rc;
}

enum kvt_err
gateway_opaque_read_span(struct gateway_context *context, const struct gateway_opaque *object,
                         uint64_t from, void *buffer, size_t size)
{
    struct g4_request request = {.verb = G4_GET,
                                 .key = object->key,
                                 .condition = G4_IF_MATCH,
                                 .range_at = from,
                                 .range_size = size,
                                 .buffer = buffer,
                                 .buffer_capacity = size};
    enum kvt_err rc;

    memcpy(request.etag, object->store_etag, sizeof(request.etag));
    rc = gateway_bucket_tier_perform(context->tiers.buckets, &request);
    return rc == KVT_OK && request.buffer_size != size ? KVT_IO : rc;
}
