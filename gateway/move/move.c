#include "gateway/move/move.h"

#include <string.h>

#include "gateway/block/claim.h"
#include "gateway/block/claim_settle.h"
#include "gateway/block/repair.h"
#include "gateway/move/bucket_move.h"
#include "gateway/tier/body_read.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/gateway_tiers.h"
#include "gateway/tier/key_lock.h"

static bool
is_volume(unsigned tier)
{
    return (tier & GATEWAY_VOLUMES) != 0;
}

/* ---- into a volume ---- */

/* Write the file, read it back, and only then say so; `gone` are bits that go with the same row. */
static enum kvt_err
write_file(struct gateway_context *context, const char *key, const struct g4_request *source,
           unsigned tier, unsigned gone, struct gateway_change *change)
{
    struct g4_request request = {
        .verb = G4_PUT, .key = key, .body = source->buffer, .body_size = source->buffer_size};
    struct g4_store *volume = gateway_tier_volume(&context->tiers, tier);
    struct g4_request check;
    enum kvt_err rc;

    gateway_record_meta(&change->record, &request.meta);
    rc = g4_store_perform(volume, &request);
    if (rc != KVT_OK)
        return rc;
    rc = gateway_body_read_block(&context->body_limits, volume, key, &change->record, &check);
    gateway_body_release(&context->body_limits, &check);
    if (rc == KVT_OK) {
        change->record.tiers = (change->record.tiers & ~gone) | tier;
        change->reserve = true;
        change->firm = true;
        rc = gateway_catalog_change(context->catalog, change, 1, GATEWAY_DURABLE);
        if (rc == KVT_OK)
            rc = change->status;
    }
    if (rc != KVT_OK)
        (void)!gateway_tier_drop_files(&context->tiers, key, tier);
    return rc;
}

/* A whole copy of it is in the volume already? */
static bool
is_whole(struct gateway_context *context, const char *key, const struct gateway_record *record,
         unsigned tier)
{
    struct g4_request request;
    const enum kvt_err rc = gateway_body_read_block(
        &context->body_limits, gateway_tier_volume(&context->tiers, tier), key, record, &request);

    gateway_body_release(&context->body_limits, &request);
    return rc == KVT_OK;
}

/* The files of bits that a row no longer has.  One that stays because this fails is an orphan; the
 * keeper sweeps those. */
static void
drop_file(struct gateway_context *context, const char *key, unsigned tier)
{
    (void)!gateway_tier_drop_files(&context->tiers, key, tier);
}

static enum kvt_err
copy_into(struct gateway_context *context, const char *key, const struct gateway_move *move,
          unsigned from, struct gateway_change *change, uint64_t *bytes)
{
    const unsigned gone = is_volume(from) && !move->keep ? from : 0;
    struct g4_request source;
    enum kvt_err rc;

    rc = gateway_body_read_block(&context->body_limits, gateway_tier_store(&context->tiers, from),
                                 key, &change->record, &source);
    if (rc == KVT_OK)
        rc = write_file(context, key, &source, move->to, gone, change);
    else if (!is_volume(from))
        (void)gateway_bucket_tier_ended_of(context->tiers.buckets, from, rc);
    gateway_body_release(&context->body_limits, &source);
    if (rc != KVT_OK)
        return rc;
    drop_file(context, key, gone);
    *bytes = change->record.length;
    gateway_stats_add(context->stats, GATEWAY_STAT_BYTES_MOVED, *bytes);
    return KVT_OK;
}

static enum kvt_err
into_volume(struct gateway_context *context, const char *key, const struct gateway_move *move,
            struct gateway_change *change, uint64_t *bytes)
{
    const unsigned tiers = change->record.tiers;
    const unsigned from = gateway_tier_fastest(&context->tiers, tiers & move->from);
    const bool there = (tiers & move->to) != 0;
    enum kvt_err rc;

    if (gateway_tier_volume(&context->tiers, move->to) == NULL)
        return KVT_FULL;
    if (from == 0 || (there && (!is_volume(from) || move->keep)))
        return there ? KVT_OK : KVT_NOTFOUND;
    if (from == GATEWAY_COLD && !gateway_bucket_tier_healthy(context->tiers.buckets))
        return KVT_UNAVAILABLE;
    if (!there || !is_whole(context, key, &change->record, move->to))
        return copy_into(context, key, move, from, change, bytes);
    change->record.tiers = tiers & ~from;
    rc = gateway_catalog_change(context->catalog, change, 1, GATEWAY_DURABLE);
    if (rc == KVT_OK) {
        drop_file(context, key, from);
        *bytes = change->record.length;
    }
    return rc;
}

/* ---- from a volume to a bucket ---- */

/* Into the bucket with what it is owed, as the first writer or not at all. */
static enum kvt_err
upload(struct gateway_context *context, const char *key, unsigned from,
       struct gateway_record *record, unsigned *tier)
{
    struct gateway_claim claim = {.tier = GATEWAY_COLD};
    struct g4_request file;
    enum kvt_err rc;

    rc = gateway_body_read_block(&context->body_limits, gateway_tier_volume(&context->tiers, from),
                                 key, record, &file);
    if (rc == KVT_OK) {
        gateway_claim_init(&claim, key, record, &file);
        rc = gateway_claim_perform(context, &claim);
    }
    *tier = claim.tier;
    gateway_body_release(&context->body_limits, &file);
    return rc;
}

/* The bucket has what it was owed: its row says so, and it can be moved on. */
static enum kvt_err
pay(struct gateway_context *context, const char *key, unsigned tier, struct gateway_change *change)
{
    enum kvt_err rc = gateway_bucket_move_ensure(
        context, key, &change->record, tier,
        gateway_tier_fastest(&context->tiers, change->record.tiers), false);

    if (rc != KVT_OK)
        return rc;
    change->record.tiers |= tier;
    change->record.owed = false;
    rc = gateway_catalog_change(context->catalog, change, 1, GATEWAY_DURABLE);
    if (rc == KVT_OK)
        gateway_stats_add(context->stats, GATEWAY_STAT_BACKLOG_UPLOADED, 1);
    return rc;
}

static enum kvt_err
out_of_volume(struct gateway_context *context, const char *key, const struct gateway_move *move,
              struct gateway_change *change, uint64_t *bytes)
{
    struct gateway_record *record = &change->record;
    const unsigned from = move->from;
    char etag[G4_ETAG_MAX]; /* of the copy that readers see */
    unsigned to = move->to;
    unsigned has = record->tiers & GATEWAY_BUCKETS;
    bool known = has != 0;
    enum kvt_err rc = KVT_OK;

    if ((record->tiers & from) == 0)
        return move->to == GATEWAY_BUCKETS || (has & to) != 0 ? KVT_OK : KVT_NOTFOUND;
    if (!gateway_bucket_tier_healthy(context->tiers.buckets))
        return KVT_UNAVAILABLE;
    if (record->owed) {
        rc = upload(context, key, from, record, &has);
        if (rc == KVT_OK)
            rc = pay(context, key, has, change);
        known = false;
        if (rc != KVT_OK)
            goto failed;
    }
    if (to == GATEWAY_BUCKETS)
        to = has != 0 ? gateway_tier_fastest(&context->tiers, has) : GATEWAY_COLD;
    if (has != 0 && (has & to) == 0) {
        rc = gateway_bucket_move(context, key, record, to, false);
    } else if (has == 0 && to == GATEWAY_FAR) {
        rc = gateway_bucket_move_make(context, key, record, to, from);
    } else if (known || has == 0) { /* what was just paid has been verified */
        memcpy(etag, record->etag, sizeof(etag));
        rc = gateway_bucket_move_ensure(context, key, record, to, from, known);
        if (to == GATEWAY_FAR && (has & GATEWAY_COLD) != 0)
            memcpy(record->etag, etag, sizeof(etag));
    }
    if (rc != KVT_OK)
        goto failed;
    record->tiers |= to;
    if (!move->keep)
        record->tiers &= ~from;
    rc = gateway_catalog_change(context->catalog, change, 1, GATEWAY_DURABLE);
    if (rc != KVT_OK || move->keep)
        return rc;
    drop_file(context, key, from);
    *bytes = record->length;
    return KVT_OK;

failed:
    if (rc != KVT_NOTFOUND)
        return rc;
    gateway_repair_gone_held(context, key);
    rc = gateway_catalog_get(context->catalog, key, record);
    return rc == KVT_NOTFOUND ? KVT_OK : KVT_UNAVAILABLE;
}

/* ---- between the buckets ---- */

static enum kvt_err
between_buckets(struct gateway_context *context, const char *key, const struct gateway_move *move,
                struct gateway_change *change, uint64_t *bytes)
{
    struct gateway_record *record = &change->record;
    enum kvt_err rc;

    if ((record->tiers & move->from) == 0)
        return (record->tiers & move->to) != 0 ? KVT_OK : KVT_NOTFOUND;
    if (move->keep && (record->tiers & move->to) != 0)
        return KVT_OK;
    rc = gateway_bucket_move(context, key, record, move->to, move->keep);
    if (rc == KVT_OK) {
        *bytes = record->length;
        return KVT_OK;
    }
    if (rc != KVT_NOTFOUND)
        return rc;
    gateway_repair_gone_held(context, key);
    rc = gateway_catalog_get(context->catalog, key, record);
    return rc == KVT_NOTFOUND ? KVT_NOTFOUND : KVT_UNAVAILABLE;
}

/* ---- all of them ---- */

static enum kvt_err
move_held(struct gateway_context *context, const char *key, const struct gateway_move *move,
          uint64_t *bytes)
{
    struct gateway_change change = {.key = key};
    enum kvt_err rc = gateway_catalog_get(context->catalog, key, &change.record);

    if (rc == KVT_OK && change.record.moving != 0) {
        rc = gateway_bucket_move_settle(context, key);
        if (rc == KVT_OK)
            rc = gateway_catalog_get(context->catalog, key, &change.record);
    }
    if (rc != KVT_OK)
        return rc;
    if (change.record.state != GATEWAY_STORED)
        return KVT_NOTFOUND;
    if (change.record.foreign && !is_volume(move->from))
        return KVT_UNSUPPORTED; /* it could not be checked */
    if (is_volume(move->to))
        return into_volume(context, key, move, &change, bytes);
    if (is_volume(move->from))
        return out_of_volume(context, key, move, &change, bytes);
    return between_buckets(context, key, move, &change, bytes);
}

static enum kvt_err
move_once(struct gateway_context *context, const char *key, const struct gateway_move *move,
          uint64_t *bytes)
{
    struct gateway_key_lock hold;
    enum kvt_err rc;

    *bytes = 0;
    gateway_key_lock_init(&hold, key);
    gateway_key_lock_acquire(context->key_locks, &hold, 1);
    rc = move_held(context, key, move, bytes);
    gateway_key_lock_release(context->key_locks, &hold, 1);
    return rc;
}

enum kvt_err
gateway_move(struct gateway_context *context, const char *key, const struct gateway_move *move,
             uint64_t *bytes)
{
    enum kvt_err rc = move_once(context, key, move, bytes);

    if (rc == KVT_CORRUPT)
        gateway_repair_inspect(context, key); /* the key is free again: quarantine it properly */
    else if ((rc == KVT_UNAVAILABLE || rc == KVT_NOTFOUND) &&
             gateway_repair_elsewhere(context, key))
        rc = move_once(context, key, move, bytes); /* from where it is, by the row of now */
    return rc;
}

enum kvt_err
gateway_move_settle(struct gateway_context *context, const char *key)
{
    struct gateway_key_lock hold;
    enum kvt_err rc;

    if (!gateway_key_lock_try_one(context->key_locks, &hold, key))
        return KVT_BUSY;
    rc = gateway_bucket_move_settle(context, key);
    gateway_key_lock_release(context->key_locks, &hold, 1);
    return rc;
}
