#include "gateway/block/damage.h"

#include <string.h>

#include "base/core/log.h"
#include "g4/object/kind.h"
#include "gateway/tier/body_read.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/gateway_tiers.h"
#include "gateway/tier/quarantine.h"

void
gateway_damage_keep(struct gateway_context *context, const char *key, unsigned tier,
                    const void *body, size_t size, const char *reason)
{
    struct gateway_quarantine_item item = {.key = key,
                                           .tier = gateway_tier_name(tier),
                                           .reason = reason,
                                           .body = body == NULL ? "" : body,
                                           .size = body == NULL ? 0 : size};
    static const enum gateway_stat stats[GATEWAY_TIERS] = {
        GATEWAY_STAT_CORRUPT_HOT, GATEWAY_STAT_CORRUPT_COLD, GATEWAY_STAT_CORRUPT_WARM,
        GATEWAY_STAT_CORRUPT_FAR};
    struct gateway_record record;
    struct g4_meta expected;
    enum kvt_err rc;

    if (gateway_catalog_get(context->catalog, key, &record) == KVT_OK && !record.opaque &&
        !record.foreign) {
        gateway_record_meta(&record, &expected);
        item.expected = &expected;
    }
    rc = gateway_quarantine_add(context->quarantine, &item);

    gateway_stats_add(context->stats, stats[tier], 1);
    if (rc == KVT_OK) {
        gateway_stats_add(context->stats, GATEWAY_STAT_QUARANTINED, 1);
        kvt_log_warn("gateway.fault", "quarantined", "%s copy of %s: %s", item.tier, key, reason);
    } else if (rc != KVT_EXISTS) {
        kvt_log_error("gateway.fault", "quarantine_failed", "%s: %s", key, kvt_err_text(rc));
    }
}

bool
gateway_damage_is_tombstone(const struct g4_request *seen)
{
    return seen->meta.present && seen->meta.length == 0 &&
           strcmp(seen->meta.writer, GATEWAY_TOMBSTONE) == 0;
}

bool
gateway_damage_shows(const struct g4_request *seen, uint64_t length, uint32_t crc32c,
                     uint64_t fingerprint)
{
    return g4_kind_judge_block(seen) == NULL && seen->meta.length == length &&
           seen->meta.crc32c == crc32c &&
           (seen->meta.fingerprint == fingerprint || fingerprint == 0);
}

bool
gateway_damage_is_bare(const struct g4_request *seen)
{
    return !seen->meta.present && seen->buffer_size > 0;
}

bool
gateway_damage_is_known_bare(const struct g4_request *seen, const struct gateway_record *record)
{
    return gateway_damage_is_bare(seen) && !record->overwritten &&
           (record->summed || !record->foreign) && gateway_record_in_bucket(record) &&
           seen->buffer_size == record->length && record->etag[0] != '\0' &&
           strcmp(seen->etag, record->etag) == 0;
}

bool
gateway_damage_fits(const struct g4_request *seen, const struct gateway_record *record)
{
    return gateway_damage_shows(seen, record->length, record->crc32c, record->fingerprint) ||
           gateway_damage_is_known_bare(seen, record);
}

bool
gateway_damage_judged(enum kvt_err status)
{
    return status == KVT_OK || status == KVT_CORRUPT || status == KVT_RANGE ||
           status == KVT_NOTFOUND;
}

bool
gateway_damage_comes_again(struct gateway_context *context, const char *key,
                           const struct g4_request *seen, const void *body, size_t size,
                           uint64_t expected)
{
    struct g4_store *store =
        gateway_bucket_tier_bucket(context->tiers.buckets, gateway_record_bucket(seen));
    const bool larger = seen->status == KVT_RANGE;
    struct g4_request again;
    const enum kvt_err rc = gateway_body_read(
        &context->body_limits, store, key, larger ? context->body_limits.object_max : size, &again);
    bool same = strcmp(again.etag, seen->etag) == 0;

    if (larger)
        same = same && (rc == KVT_RANGE || (rc == KVT_OK && again.buffer_size > expected));
    else if (rc == KVT_OK)
        same = same && seen->status == KVT_OK && again.buffer_size == size &&
               (size == 0 || memcmp(again.buffer, body, size) == 0);
    else
        same = same && rc == seen->status;
    gateway_body_release(&context->body_limits, &again);
    return same;
}
