#include "gateway/move/bucket_move.h"

#include <string.h>

#include "base/core/clock.h"
#include "base/core/log.h"
#include "g4/object/check.h"
#include "g4/object/kind.h"
#include "gateway/block/claim.h"
#include "gateway/block/commit_record.h"
#include "gateway/block/damage.h"
#include "gateway/block/move_lock.h"
#include "gateway/block/tombstone.h"
#include "gateway/tier/body_read.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/gateway_tiers.h"

/* How long a tombstone may be from being deleted by whoever put it: two requests' deadlines, and
 * as much again for clocks of whole seconds and threads that wait. */
enum { FRESH_MS = 4 * GATEWAY_BUCKET_TIER_LOOK_MS };

/* How often what may be all there is of a block is put back, and the first pause, which doubles. */
enum { PUT_BACK_TRIES = 5, PUT_BACK_PAUSE_MS = 100 };

static enum gateway_tier
number_of(unsigned tier)
{
    return tier == GATEWAY_COLD ? GATEWAY_TIER_COLD : GATEWAY_TIER_FAR;
}

/* Write the checked bytes: where nothing is, or over exactly what was seen there.  `deadline_ms` 0:
 * the store's own; else it is done under the lock, and sent once. */
static enum kvt_err
write_copy(struct gateway_context *context, const char *key, const struct gateway_record *record,
           unsigned tier, const struct g4_request *source, const char *seen_etag,
           uint64_t deadline_ms)
{
    struct g4_request request = {.verb = G4_PUT,
                                 .key = key,
                                 .condition = seen_etag == NULL ? G4_IF_ABSENT : G4_IF_MATCH,
                                 .body = source->buffer,
                                 .body_size = source->buffer_size,
                                 .deadline_ms = deadline_ms,
                                 .once = deadline_ms != 0};
    enum kvt_err rc;

    gateway_record_meta(record, &request.meta);
    if (seen_etag != NULL)
        memcpy(request.etag, seen_etag, sizeof(request.etag));
    rc = g4_store_perform(gateway_bucket_tier_bucket(context->tiers.buckets, tier), &request);
    if (rc == KVT_OK)
        gateway_stats_add(context->stats, GATEWAY_STAT_BYTES_MOVED, record->length);
    return rc == KVT_EXISTS || rc == KVT_PRECONDITION ? KVT_AGAIN : rc;
}

/* Is it a tombstone whose maker may still be about to delete it, whatever lies there by then? */
static bool
is_being_dropped(struct gateway_context *context, unsigned tier, const struct g4_request *seen)
{
    const uint64_t now_ms = seen->server_ms != 0 ? seen->server_ms : kvt_clock_unix_ms();

    return gateway_damage_is_tombstone(seen) &&
           !gateway_bucket_tier_heeds(context->tiers.buckets, tier) &&
           now_ms < seen->modified_ms + FRESH_MS;
}

/* Write over a tombstone, but over none that says that the block was removed, which is
 * KVT_NOTFOUND: all of them have one ETag, so it is looked at first.  A body may take as long as
 * the lease does. */
static enum kvt_err
write_over(struct gateway_context *context, const char *key, const struct gateway_record *record,
           unsigned tier, const struct g4_request *source, struct gateway_move_lock *lock)
{
    struct g4_request seen;
    uint64_t deadline_ms;
    enum kvt_err rc = gateway_bucket_tier_head(context->tiers.buckets, key, tier, &seen);

    if (rc == KVT_OK && g4_kind_is_removed(&seen))
        return KVT_NOTFOUND;
    if (rc == KVT_NOTFOUND || rc == KVT_CORRUPT ||
        (rc == KVT_OK && !gateway_damage_is_tombstone(&seen)))
        return KVT_AGAIN;
    if (rc == KVT_OK)
        rc = gateway_move_lock_still_held(lock, &deadline_ms);
    if (rc != KVT_OK)
        return rc;
    return gateway_move_lock_sent(
        lock, gateway_bucket_tier_ended_of(
                  context->tiers.buckets, tier,
                  write_copy(context, key, record, tier, source, seen.etag, lock->until_ms)));
}

/* What lies in its place is a tombstone: its maker may put another in its place, for the block was
 * removed. */
static enum kvt_err
write_over_tombstone(struct gateway_context *context, const char *key,
                     const struct gateway_record *record, unsigned tier,
                     const struct g4_request *source)
{
    struct gateway_move_lock lock;
    enum kvt_err rc = gateway_move_lock_acquire(context, key, &lock);

    if (rc != KVT_OK)
        return rc == KVT_BUSY ? KVT_AGAIN : rc;
    rc = write_over(context, key, record, tier, source, &lock);
    gateway_move_lock_release(context, &lock);
    return rc;
}

/* There is no good copy, as `rc` and `copy` say: make it from `source`. */
static enum kvt_err
make(struct gateway_context *context, const char *key, struct gateway_record *record, unsigned tier,
     unsigned source, enum kvt_err rc, struct g4_request *copy)
{
    const bool tombstone = rc == KVT_CORRUPT && gateway_damage_is_tombstone(copy);
    struct g4_request from;
    enum kvt_err from_rc;

    if (tombstone && is_being_dropped(context, tier, copy))
        return KVT_AGAIN;
    if (rc == KVT_CORRUPT && !tombstone)
        gateway_damage_keep(context, key, number_of(tier), copy->buffer, copy->buffer_size,
                            copy->error.text);
    from_rc = gateway_body_read_block(
        &context->body_limits, gateway_tier_store(&context->tiers, source), key, record, &from);
    if (from_rc != KVT_OK && (source & GATEWAY_BUCKETS) != 0)
        rc = gateway_bucket_tier_ended_of(context->tiers.buckets, source, from_rc);
    else if (from_rc == KVT_AGAIN)
        rc = KVT_AGAIN;
    if (from_rc == KVT_OK) {
        rc = tombstone ? write_over_tombstone(context, key, record, tier, &from)
                       : write_copy(context, key, record, tier, &from,
                                    rc == KVT_CORRUPT ? copy->etag : NULL, 0);
        gateway_body_release(&context->body_limits, copy);
        if (rc == KVT_OK)
            rc = gateway_body_read_block(&context->body_limits,
                                         gateway_bucket_tier_bucket(context->tiers.buckets, tier),
                                         key, record, copy);
    }
    gateway_body_release(&context->body_limits, &from);
    return rc;
}

/* As gateway_bucket_move_ensure(); with KVT_OK `copy` is what was read, for the caller to release.
 * */
static enum kvt_err
ensure(struct gateway_context *context, const char *key, struct gateway_record *record,
       unsigned tier, unsigned source, bool known, struct g4_request *copy)
{
    enum kvt_err rc;

    rc = gateway_body_read_block(&context->body_limits,
                                 gateway_bucket_tier_bucket(context->tiers.buckets, tier), key,
                                 record, copy);
    if (rc == KVT_CORRUPT && g4_kind_is_removed(copy))
        rc = KVT_NOTFOUND; /* the block was removed, */
    else if (rc == KVT_CORRUPT || (rc == KVT_NOTFOUND && !known))
        rc = make(context, key, record, tier, source, rc, copy);
    /* as where its copy is known, and gone: it is not made anew. */
    if (rc == KVT_OK)
        memcpy(record->etag, copy->etag, sizeof(record->etag));
    else
        gateway_body_release(&context->body_limits, copy);
    return gateway_bucket_tier_ended_of(context->tiers.buckets, tier, rc);
}

enum kvt_err
gateway_bucket_move_ensure(struct gateway_context *context, const char *key,
                           struct gateway_record *record, unsigned tier, unsigned source,
                           bool known)
{
    struct g4_request copy;
    const enum kvt_err rc = ensure(context, key, record, tier, source, known, &copy);

    if (rc == KVT_OK)
        gateway_body_release(&context->body_limits, &copy);
    return rc;
}

/* ---- taking away ---- */

/* Put a tombstone over exactly what was seen. */
static enum kvt_err
bury(struct gateway_context *context, const char *key, unsigned tier, struct g4_request *seen,
     struct gateway_move_lock *lock)
{
    char etag[G4_ETAG_MAX];
    enum kvt_err rc = gateway_tombstone_put(context, key, tier, seen->etag, false, lock, etag);

    if (rc == KVT_OK) {
        memcpy(seen->etag, etag, sizeof(seen->etag));
        return rc;
    }
    if (rc != KVT_PRECONDITION && rc != KVT_NOTFOUND)
        return rc;
    /* Our own PUT, whose first answer was lost, or another gateway that moves the same block. */
    rc = gateway_bucket_tier_head(context->tiers.buckets, key, tier, seen);
    return rc == KVT_OK && (!gateway_damage_is_tombstone(seen) || g4_kind_is_removed(seen))
               ? KVT_AGAIN
               : rc;
}

/* Is it there, as the row says?  KVT_NOTFOUND: it is not, or another. */
static enum kvt_err
shows(struct gateway_context *context, const char *key, const struct gateway_record *record,
      unsigned tier)
{
    struct g4_request seen;
    const enum kvt_err rc = gateway_bucket_tier_head(context->tiers.buckets, key, tier, &seen);

    if (rc == KVT_CORRUPT)
        return KVT_NOTFOUND;
    if (rc != KVT_OK)
        return rc;
    return gateway_damage_fits(&seen, record) ? KVT_OK : KVT_NOTFOUND;
}

/* The other copy is not to be seen behind the tombstone: what is in memory may be all there is.
 * The lease may be over by now, so it is taken for as long again; where that cannot be had, for
 * another gateway is at it already or the first bucket does not say, the block is put back without.
 * Where that one has said that the block was removed, nothing is. */
static void
put_back(struct gateway_context *context, const char *key, const struct gateway_record *record,
         unsigned tier, const struct g4_request *body, struct gateway_move_lock *lock)
{
    bool held = gateway_move_lock_renew(context, lock) == KVT_OK;
    enum kvt_err rc = KVT_AGAIN;

    for (unsigned try = 0; try < PUT_BACK_TRIES; try++) {
        if (try > 0 && !context->stopping)
            kvt_clock_sleep_ms((uint64_t)PUT_BACK_PAUSE_MS << (try - 1));
        held = held && gateway_move_lock_deadline(lock) != 0;
        if (!held)
            lock->until_ms = kvt_clock_mono_ms() + GATEWAY_MOVE_LOCK_HOLD_MS;
        rc = write_over(context, key, record, tier, body, lock);
        if (!gateway_move_lock_unanswered(rc))
            break;
    }
    if (!held)
        lock->until_ms = 0; /* it is not ours to release */
    if (rc == KVT_NOTFOUND)
        kvt_log_info("gateway.move", "removed_meanwhile", "%s", key);
    else if (rc != KVT_OK)
        kvt_log_warn("gateway.move", "tombstone_stays", "%s: %s", key, kvt_err_text(rc));
}

static enum kvt_err
drop_locked(struct gateway_context *context, const char *key, const struct gateway_record *record,
            unsigned tier, const struct g4_request *body, struct gateway_move_lock *lock)
{
    const unsigned other = GATEWAY_BUCKETS & ~tier;
    struct g4_request seen;
    enum kvt_err rc = gateway_bucket_tier_head(context->tiers.buckets, key, tier, &seen);

    if (rc == KVT_OK && g4_kind_is_removed(&seen))
        return KVT_AGAIN; /* the block was: the other copy goes, too, when its bucket answers */
    if ((rc == KVT_OK && !gateway_damage_is_tombstone(&seen)) || rc == KVT_CORRUPT) {
        rc = shows(context, key, record, other);
        if (rc == KVT_NOTFOUND)
            return KVT_AGAIN; /* what was read has gone since: this may be all there is */
        if (rc == KVT_OK)
            rc = bury(context, key, tier, &seen, lock);
    }
    if (rc != KVT_OK)
        return rc == KVT_NOTFOUND ? KVT_OK : rc;
    rc = shows(context, key, record, other);
    if (rc == KVT_OK && gateway_move_lock_deadline(lock) != 0)
        return gateway_tombstone_delete(context, key, tier, seen.etag, lock);
    put_back(context, key, record, tier, body, lock);
    return rc == KVT_OK || rc == KVT_NOTFOUND ? KVT_AGAIN : rc;
}

/*
 * Take a copy away while the other bucket has one.  Under a lock, for another gateway may be about
 * to take that one away.  Between look and tombstone a lease may end all the same, and gateways may
 * run that know no lock: so it is looked again behind the tombstone, and the block is put back,
 * over this very tombstone alone, from `body`.
 */
static enum kvt_err
drop(struct gateway_context *context, const char *key, const struct gateway_record *record,
     unsigned tier, const struct g4_request *body)
{
    struct gateway_move_lock lock;
    enum kvt_err rc = gateway_move_lock_acquire(context, key, &lock);

    if (rc != KVT_OK)
        return rc == KVT_BUSY ? KVT_AGAIN : rc;
    rc = drop_locked(context, key, record, tier, body, &lock);
    gateway_move_lock_release(context, &lock);
    return rc;
}

/* ---- moving ---- */

static enum kvt_err
publish(struct gateway_context *context, const char *key, struct gateway_record *record,
        bool reserve, enum gateway_catalog_wait wait)
{
    struct gateway_change change = {.key = key, .record = *record, .reserve = reserve};
    enum kvt_err rc = gateway_catalog_change(context->catalog, &change, 1, wait);

    if (rc == KVT_OK)
        rc = change.status;
    if (rc == KVT_OK)
        *record = change.record;
    return rc;
}

/* The copy was read and is known: the source goes, and then its bit. */
static enum kvt_err
leave(struct gateway_context *context, const char *key, struct gateway_record *record,
      const struct g4_request *copy)
{
    const unsigned from = GATEWAY_BUCKETS & ~record->moving;
    const enum kvt_err rc = drop(context, key, record, from, copy);

    if (rc != KVT_OK)
        return rc;
    record->tiers &= ~from;
    record->moving = 0;
    memcpy(record->etag, copy->etag, sizeof(record->etag));
    return publish(context, key, record, false, GATEWAY_APPLIED);
}

/* KVBM reads the first bucket itself, and the record there says that all of the block is. */
static bool
is_bound(struct gateway_context *context, const char *key)
{
    char commit[KVT_KEY_MAX];

    return gateway_commit_record_needed(context, key, commit);
}

enum kvt_err
gateway_bucket_move(struct gateway_context *context, const char *key, struct gateway_record *record,
                    unsigned to, bool keep)
{
    const unsigned from = GATEWAY_BUCKETS & ~to;
    const bool had = (record->tiers & to) != 0;
    struct gateway_record copy;
    struct g4_request body;
    enum kvt_err rc;

    if (record->foreign || record->opaque || is_bound(context, key))
        return KVT_UNSUPPORTED;
    if (record->moving != 0)
        return KVT_AGAIN; /* it is settled first */
    if (!gateway_bucket_tier_takes(context->tiers.buckets, to) ||
        (from == GATEWAY_COLD && !gateway_bucket_tier_healthy(context->tiers.buckets)))
        return KVT_UNAVAILABLE;
    if (!had) {
        record->moving = to;
        rc = publish(context, key, record, true, GATEWAY_DURABLE);
        if (rc != KVT_OK) {
            record->moving = 0;
            return rc;
        }
    }
    copy = *record;
    rc = ensure(context, key, &copy, to, from, false, &body);
    if (rc != KVT_OK) {
        /* What was not said now is said when the row is settled, which also undoes what was
         * copied. */
        if (rc == KVT_NOTFOUND || rc == KVT_CORRUPT)
            (void)!gateway_bucket_move_settle(context, key);
        return rc;
    }
    /* Both bits and `moving`: the copy was read, and the source may go. */
    if (!had || !keep) {
        record->tiers |= to;
        record->moving = keep ? 0 : to;
        if (to == GATEWAY_COLD) /* readers see this one */
            memcpy(record->etag, copy.etag, sizeof(record->etag));
        rc = publish(context, key, record, false, GATEWAY_DURABLE);
    }
    if (rc == KVT_OK && !keep)
        rc = leave(context, key, record, &body);
    gateway_body_release(&context->body_limits, &body);
    return rc;
}

enum kvt_err
gateway_bucket_move_make(struct gateway_context *context, const char *key,
                         struct gateway_record *record, unsigned to, unsigned source)
{
    enum kvt_err rc;

    if (record->foreign || record->opaque || is_bound(context, key))
        return KVT_UNSUPPORTED;
    if (!gateway_bucket_tier_takes(context->tiers.buckets, to))
        return KVT_UNAVAILABLE;
    record->moving = to;
    rc = publish(context, key, record, true, GATEWAY_DURABLE);
    if (rc == KVT_OK)
        rc = gateway_bucket_move_ensure(context, key, record, to, source, false);
    if (rc != KVT_OK)
        return rc; /* the row is settled */
    record->tiers |= to;
    record->moving = 0;
    return publish(context, key, record, false, GATEWAY_DURABLE);
}

/* The copy was not known to be whole yet: the source stays, and what there may be of it goes. */
static enum kvt_err
undo(struct gateway_context *context, const char *key, struct gateway_record *record)
{
    const unsigned to = record->moving;
    const unsigned from = GATEWAY_BUCKETS & ~to;
    struct g4_request seen;
    enum kvt_err rc = gateway_body_read_block(
        &context->body_limits, gateway_bucket_tier_bucket(context->tiers.buckets, from), key,
        record, &seen);

    (void)gateway_bucket_tier_ended_of(context->tiers.buckets, from, rc);
    if (rc == KVT_OK)
        rc = drop(context, key, record, to, &seen);
    gateway_body_release(&context->body_limits, &seen);
    if (rc == KVT_NOTFOUND || rc == KVT_CORRUPT) {
        /* Another gateway moved it, or the source was damaged: then this may be the copy there
         * is. */
        rc = gateway_body_read_block(&context->body_limits,
                                     gateway_bucket_tier_bucket(context->tiers.buckets, to), key,
                                     record, &seen);
        (void)gateway_bucket_tier_ended_of(context->tiers.buckets, to, rc);
        if (rc == KVT_OK) {
            record->tiers = (record->tiers & GATEWAY_VOLUMES) | to;
            memcpy(record->etag, seen.etag, sizeof(record->etag));
        }
        gateway_body_release(&context->body_limits, &seen);
        if (rc == KVT_NOTFOUND || rc == KVT_CORRUPT)
            rc = KVT_OK; /* in neither: its readers deal with that */
    }
    if (rc != KVT_OK)
        return rc;
    record->moving = 0;
    return publish(context, key, record, false, GATEWAY_APPLIED);
}

/* Another gateway noted its removal: both copies are to go, whoever lives to see to it. */
static enum kvt_err
follow_removal(struct gateway_context *context, const char *key, struct gateway_record *record)
{
    record->state = GATEWAY_RETIRING;
    record->tiers &= GATEWAY_VOLUMES; /* until their files have gone, too */
    record->moving = GATEWAY_FAR;
    return publish(context, key, record, false, GATEWAY_APPLIED);
}

enum kvt_err
gateway_bucket_move_settle(struct gateway_context *context, const char *key)
{
    struct gateway_record record;
    struct gateway_record copy;
    struct g4_request body;
    enum kvt_err rc = gateway_catalog_get(context->catalog, key, &record);

    if (rc != KVT_OK || record.state != GATEWAY_STORED || record.moving == 0)
        return rc == KVT_NOTFOUND ? KVT_OK : rc;
    if (!gateway_bucket_tier_takes(context->tiers.buckets, GATEWAY_FAR))
        return KVT_UNAVAILABLE;
    rc = gateway_bucket_tier_head(context->tiers.buckets, key, GATEWAY_COLD, &body);
    if (rc != KVT_OK && rc != KVT_CORRUPT && rc != KVT_NOTFOUND)
        return rc;
    if (rc == KVT_OK && g4_kind_is_removed(&body) && !record.owed)
        return follow_removal(context, key, &record);
    if ((record.tiers & record.moving) == 0)
        return undo(context, key, &record);
    copy = record;
    rc = ensure(context, key, &copy, record.moving, GATEWAY_BUCKETS & ~record.moving, true, &body);
    if (rc == KVT_OK) {
        rc = leave(context, key, &record, &body);
        gateway_body_release(&context->body_limits, &body);
        return rc;
    }
    if (rc != KVT_NOTFOUND)
        return rc;
    record.tiers &= ~record.moving; /* it was lost: the source has stayed */
    record.moving = 0;
    return publish(context, key, &record, false, GATEWAY_APPLIED);
}
