#include <stdio.h>
#include <string.h>

#include "base/core/clock.h"
#include "base/core/random.h"
#include "gateway/block/claim.h"
#include "gateway/block/damage.h"
#include "gateway/block/put.h"
#include "gateway/tier/attribute_lines.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/key_lock.h"
#include "gateway/tier/object_key.h"

enum { NONCE_BYTES = 16, NONCE_TEXT = 2 * NONCE_BYTES + 1 };

/* What tells this PUT from all others.  False: no room for it beside the client's attributes. */
static bool
add_nonce(char attributes[G4_ATTRIBUTES_MAX], char nonce[NONCE_TEXT])
{
    uint8_t bytes[NONCE_BYTES];

    kvt_random_system(bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(nonce + 2 * i, 3, "%02x", (unsigned)bytes[i]);
    return gateway_attribute_lines_add(attributes, GATEWAY_ATTRIBUTE_PUT, nonce);
}

/* The condition did not hold, perhaps because the PUT did what it says: an answer was lost, the
 * store was asked again and found our own object.  Equal content proves nothing, the nonce does. */
static enum kvt_err
look_whose(struct gateway_context *context, struct g4_request *put, const char *nonce)
{
    char attributes[G4_ATTRIBUTES_MAX];
    char found[NONCE_TEXT];
    struct g4_request head = {.verb = G4_HEAD, .key = put->key, .attributes = attributes};
    const enum kvt_err rc =
        g4_store_perform(gateway_bucket_tier_store(context->tiers.buckets), &head);

    if (!gateway_damage_judged(rc)) /* it may be ours */
        return kvt_err_retryable(rc) ? rc : KVT_AGAIN;
    if (rc != KVT_OK ||
        !gateway_attribute_lines_get(attributes, GATEWAY_ATTRIBUTE_PUT, found, sizeof(found)) ||
        strcmp(found, nonce) != 0)
        return put->status;
    memcpy(put->etag, head.etag, sizeof(put->etag));
    return KVT_OK;
}

static enum kvt_err
put_opaque_held(struct gateway_context *context, struct gateway_put_item *item,
                enum g4_condition condition)
{
    struct gateway_change change = {.key = item->key, .reserve = true};
    struct g4_request request = {.verb = G4_PUT,
                                 .key = item->key,
                                 .condition = condition,
                                 .body = item->body,
                                 .body_size = item->size};
    struct gateway_record before;
    const bool had = gateway_catalog_get(context->catalog, item->key, &before) == KVT_OK;
    char attributes[G4_ATTRIBUTES_MAX] = "";
    char nonce[NONCE_TEXT] = "";
    enum kvt_err rc;

    if (item->attributes != NULL)
        (void)snprintf(attributes, sizeof(attributes), "%s", item->attributes);
    if (condition != G4_ALWAYS && !add_nonce(attributes, nonce))
        return KVT_INVALID;
    /* Last: without the line nobody can ask for a part, which is no reason to refuse the object. */
    if (item->parts != NULL)
        (void)gateway_attribute_lines_add(attributes, GATEWAY_ATTRIBUTE_PARTS, item->parts);
    gateway_put_intent(context, item, &change.record);
    change.record.opaque = true;
    if (item->shown != NULL)
        (void)snprintf(change.record.shown, sizeof(change.record.shown), "%s", item->shown);
    rc = gateway_catalog_change(context->catalog, &change, 1, GATEWAY_DURABLE);
    if (rc != KVT_OK || change.status != KVT_OK)
        return rc != KVT_OK ? rc : change.status;
    memcpy(request.etag, item->etag, sizeof(request.etag));
    request.attributes = attributes;
    gateway_record_meta(&change.record, &request.meta);
    rc = g4_store_perform(gateway_bucket_tier_store(context->tiers.buckets), &request);
    if (condition != G4_ALWAYS && (rc == KVT_EXISTS || rc == KVT_PRECONDITION))
        rc = look_whose(context, &request, nonce);
    change.reserve = false;
    if (rc == KVT_OK) {
        change.record.state = GATEWAY_STORED;
        memcpy(change.record.etag, request.etag, sizeof(request.etag));
        memcpy(item->etag, request.etag, sizeof(item->etag));
    } else if (kvt_err_retryable(rc)) {
        return gateway_bucket_tier_ended(context->tiers.buckets,
                                         rc); /* the intent stays until somebody looks */
    } else if (had) {
        change.record = before;
    } else {
        change.erase = true;
    }
    if (gateway_catalog_change(context->catalog, &change, 1, GATEWAY_APPLIED) != KVT_OK)
        return rc == KVT_OK ? KVT_AGAIN : rc;
    return rc;
}

enum kvt_err
gateway_put_opaque(struct gateway_context *context, struct gateway_put_item *item,
                   enum g4_condition condition)
{
    struct gateway_key_lock hold;

    item->present = false;
    item->status = KVT_INVALID;
    if (!gateway_object_key_is_stored(item->key))
        return item->status;
    item->status = KVT_UNAVAILABLE;
    if (!gateway_bucket_tier_writable(context->tiers.buckets))
        return item->status;
    gateway_key_lock_init(&hold, item->key);
    gateway_key_lock_acquire(context->key_locks, &hold, 1);
    item->status = put_opaque_held(context, item, condition);
    gateway_key_lock_release(context->key_locks, &hold, 1);
    gateway_stats_add(context->stats,
                      item->status == KVT_OK ? GATEWAY_STAT_STORED : GATEWAY_STAT_PUT_FAILED, 1);
    if (item->status == KVT_OK)
        gateway_stats_add(context->stats, GATEWAY_STAT_BYTES_IN, item->size);
    return item->status;
}
