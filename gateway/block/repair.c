#include "gateway/block/repair.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "g4/object/check.h"
#include "g4/object/kind.h"
#include "g4/pair/bucket_pair.h"
#include "gateway/block/claim.h"
#include "gateway/block/commit_record.h"
#include "gateway/block/damage.h"
#include "gateway/block/move_lock.h"
#include "gateway/block/removal.h"
#include "gateway/block/unsynced.h"
#include "gateway/tier/body_read.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/gateway_tiers.h"
#include "gateway/tier/key_lock.h"

/* Nothing can bring it back: then at least everybody who looks shall know. */
static void
tell_lost(struct gateway_context *context, const char *key, const char *why)
{
    gateway_stats_add(context->stats, GATEWAY_STAT_BACKLOG_LOST, 1);
    kvt_log_error("gateway.fault", "block_lost", "%s was acknowledged and is lost: %s", key, why);
}

/* The hot copy of a block that the bucket is owed is bad.  It is the only one, unless an upload did
 * land whose answer was lost.  False: nobody can tell now. */
static bool
write_off(struct gateway_context *context, struct gateway_change *change)
{
    struct gateway_record *record = &change->record;
    struct g4_request head;
    enum kvt_err rc;

    if (!gateway_bucket_tier_healthy(context->tiers.buckets))
        return false;
    rc = gateway_bucket_tier_look(context->tiers.buckets, change->key, &head);
    if (rc == KVT_OK &&
        gateway_damage_shows(&head, record->length, record->crc32c, record->fingerprint)) {
        record->tiers = gateway_record_bucket(&head);
        record->owed = false;
        memcpy(record->etag, head.etag, sizeof(record->etag));
        return true;
    }
    change->erase =
        rc == KVT_OK || rc == KVT_CORRUPT ||
        (rc == KVT_NOTFOUND && gateway_bucket_tier_absent(context->tiers.buckets, change->key));
    return change->erase;
}

/* Take `tier` out of the key's row; the caller holds the key. */
static bool
drop_tier(struct gateway_context *context, const char *key, unsigned tier)
{
    struct gateway_change change = {.key = key};
    const enum kvt_err rc = gateway_catalog_get(context->catalog, key, &change.record);
    enum kvt_err left;
    unsigned rest;
    bool owed;

    if (rc != KVT_OK)
        return rc == KVT_NOTFOUND;
    if (change.record.state != GATEWAY_STORED || (change.record.tiers & tier) == 0)
        return true;
    rest = change.record.tiers & ~tier;
    owed = change.record.owed && (rest & GATEWAY_VOLUMES) == 0;
    if (owed && !write_off(context, &change))
        return false;
    /* What is left has to stay.  A bad one is left to its readers. */
    if ((tier & GATEWAY_BUCKETS) != 0 && (rest & GATEWAY_BUCKETS) == 0 &&
        (rest & GATEWAY_HOT) != 0) {
        left = gateway_unsynced_renew(context, key, &change.record);
        if (left != KVT_OK && left != KVT_CORRUPT && left != KVT_NOTFOUND)
            return false;
    }
    if (!owed) {
        change.record.tiers = rest;
        change.erase = rest == 0;
    }
    if (gateway_catalog_change(context->catalog, &change, 1, GATEWAY_DURABLE) != KVT_OK)
        return false;
    if (owed && change.erase)
        tell_lost(context, key, "its hot copy was damaged before it was uploaded");
    else if (owed) /* by an upload whose answer was lost */
        gateway_stats_add(context->stats, GATEWAY_STAT_BACKLOG_UPLOADED, 1);
    return true;
}

/* An object without our metadata took the place of the row's block, or of what is known of it.  The
 * row stays and says so: what was acknowledged is not answered with other bytes, and may be put
 * again. */
static void
mark_overwritten(struct gateway_context *context, const char *key, unsigned tier)
{
    struct gateway_change change = {.key = key};
    struct gateway_record *record = &change.record;

    if (gateway_catalog_get(context->catalog, key, record) != KVT_OK ||
        record->state != GATEWAY_STORED || record->overwritten)
        return;
    if (record->foreign || record->owed || record->moving != 0 || (record->tiers & ~tier) != 0 ||
        (record->tiers & tier) == 0) {
        (void)!drop_tier(context, key, tier);
        return;
    }
    record->foreign = true;
    record->overwritten = true;
    (void)!gateway_catalog_change(context->catalog, &change, 1, GATEWAY_DURABLE);
}

void
gateway_repair_second(struct gateway_context *context, const char *key, const void *body,
                      size_t size)
{
    static const char why[] = "the bucket has other bytes, which were there first";
    struct gateway_change change = {.key = key, .erase = true};

    gateway_damage_keep(context, key, GATEWAY_TIER_HOT, body, size, why);
    if (gateway_catalog_change(context->catalog, &change, 1, GATEWAY_DURABLE) != KVT_OK)
        return;
    tell_lost(context, key, why);
    (void)!gateway_tier_drop_files(&context->tiers, key, GATEWAY_VOLUMES);
}

/* Is the file, read again, what the catalog expects?  KVT_CORRUPT or KVT_NOTFOUND: no.  All other
 * errors say nothing of it. */
static enum kvt_err
check_file(struct gateway_context *context, const char *key, unsigned tier)
{
    struct gateway_record record;
    struct g4_request request;
    enum kvt_err rc;

    rc = gateway_catalog_get(context->catalog, key, &record);
    if (rc != KVT_OK)
        return rc;
    rc = gateway_body_read_block(&context->body_limits, gateway_tier_volume(&context->tiers, tier),
                                 key, &record, &request);
    gateway_body_release(&context->body_limits, &request);
    return rc;
}

void
gateway_repair_file(struct gateway_context *context, const char *key, enum gateway_tier tier,
                    const void *body, size_t size, const char *reason)
{
    const unsigned bit = 1u << tier;
    struct gateway_key_lock hold;
    enum kvt_err rc;

    if (reason != NULL)
        gateway_damage_keep(context, key, tier, body, size, reason);
    gateway_key_lock_init(&hold, key);
    if (gateway_tier_volume(&context->tiers, bit) == NULL ||
        !gateway_key_lock_try(context->key_locks, &hold, 1))
        return;
    rc = check_file(context, key, bit);
    if ((rc == KVT_CORRUPT || rc == KVT_NOTFOUND) && drop_tier(context, key, bit))
        (void)!gateway_tier_drop_files(&context->tiers, key, bit);
    gateway_key_lock_release(context->key_locks, &hold, 1);
}

/* The bucket that gave this answer: of two copies the other one says nothing of it. */
static struct g4_store *
bucket_of(struct gateway_context *context, const struct g4_request *seen)
{
    return gateway_bucket_tier_bucket(context->tiers.buckets, gateway_record_bucket(seen));
}

/* Put the bad object out of sight without ever touching another one: everything is conditional on
 * the ETag that was found bad.  MinIO ignores If-Match on DELETE, so there it is an empty object.
 */
static enum kvt_err
replace_bad(struct gateway_context *context, unsigned bucket, const char *key, const char *etag,
            uint64_t deadline_ms)
{
    struct g4_request request = {.key = key,
                                 .condition = G4_IF_MATCH,
                                 .body = "",
                                 .deadline_ms = deadline_ms,
                                 .once = deadline_ms != 0};
    enum kvt_err rc;

    memcpy(request.etag, etag, sizeof(request.etag));
    if (gateway_bucket_tier_heeds(context->tiers.buckets, bucket)) {
        request.verb = G4_DELETE;
        request.body = NULL;
    } else {
        request.verb = G4_PUT;
        request.meta = (struct g4_meta){
            .present = true, .crc32c = g4_check_crc32c("", 0), .writer = GATEWAY_TOMBSTONE};
    }
    rc = g4_store_perform(gateway_bucket_tier_bucket(context->tiers.buckets, bucket), &request);
    if (rc != KVT_OK && rc != KVT_PRECONDITION && rc != KVT_NOTFOUND)
        kvt_log_warn("gateway.fault", "bad_object_stays", "%s: %s", key, request.error.text);
    return rc;
}

/* An empty object has the ETag of all tombstones, also of one that another gateway puts there now,
 * to say that the block was removed while the far bucket is away.  Those are put under a lock. */
static enum kvt_err
replace_empty(struct gateway_context *context, unsigned bucket, const char *key, const char *etag)
{
    struct g4_request head = {.verb = G4_HEAD,
                              .key = key,
                              .deadline_ms = kvt_clock_mono_ms() + GATEWAY_BUCKET_TIER_LOOK_MS};
    struct gateway_move_lock lock;
    uint64_t deadline_ms;
    enum kvt_err rc = gateway_move_lock_acquire(context, key, &lock);

    if (rc != KVT_OK)
        return rc;
    rc = g4_store_perform(gateway_bucket_tier_bucket(context->tiers.buckets, bucket), &head);
    deadline_ms = gateway_move_lock_deadline(&lock);
    if (rc == KVT_OK && !gateway_damage_is_tombstone(&head) && deadline_ms != 0)
        rc = gateway_move_lock_sent(&lock, replace_bad(context, bucket, key, etag, deadline_ms));
    gateway_move_lock_release(context, &lock);
    return rc;
}

/* `head` is of the bad object.  A tombstone is out of sight already. */
static void
neutralise(struct gateway_context *context, unsigned bucket, const char *key,
           const struct g4_request *head)
{
    const bool empty = head->status == KVT_OK && head->buffer_size == 0;

    if (head->status == KVT_OK && gateway_damage_is_tombstone(head))
        return;
    if (empty && gateway_tier_exists(&context->tiers, GATEWAY_TIER_FAR))
        (void)replace_empty(context, bucket, key, head->etag);
    else
        (void)replace_bad(context, bucket, key, head->etag, 0);
}

/*
 * Is it the object that is bad?  An answer that was cut short or flipped on its way says nothing of
 * it, and replacing a good object would lose it for all.  The store's own word of its length must
 * fit what came; and where the ETag is that of what this gateway wrote, or nobody here knows what
 * was written, it must come twice.
 */
static bool
is_proven(struct gateway_context *context, const char *key, const struct g4_request *seen,
          const void *body, size_t size, const struct g4_request *head)
{
    struct gateway_record record;
    const bool known = gateway_catalog_get(context->catalog, key, &record) == KVT_OK;

    if (seen->status == KVT_OK && head->status == KVT_OK && head->buffer_size != size)
        return false;
    if (known && gateway_record_in_bucket(&record) && record.etag[0] != '\0' &&
        strcmp(record.etag, seen->etag) != 0)
        return true;
    return gateway_damage_comes_again(context, key, seen, body, size,
                                      known ? record.length : context->body_limits.object_max);
}

static bool
is_sound(const struct g4_request *seen, const void *body, size_t size)
{
    struct kvt_error err;

    return seen->status == KVT_OK && g4_kind_judge_block(seen) == NULL &&
           g4_check_body(&seen->meta, NULL, body, size, &err) == KVT_OK;
}

/*
 * Is it sound by its own word?  Then somebody acknowledged it, and it is the row here that is
 * behind.  What names this gateway as its writer must be what the row says all the same: nobody
 * else writes in its name.
 */
static bool
is_anothers(struct gateway_context *context, const char *key, const struct g4_request *seen,
            const void *body, size_t size)
{
    struct gateway_record record;
    struct g4_request whole;
    enum kvt_err rc;
    bool sound;

    if (seen->status == KVT_RANGE) { /* no more was read than the row speaks of */
        rc = gateway_body_read(&context->body_limits, bucket_of(context, seen), key,
                               context->body_limits.object_max, &whole);
        sound = (rc != KVT_OK && rc != KVT_RANGE && rc != KVT_CORRUPT) ||
                is_sound(&whole, whole.buffer, whole.buffer_size);
        gateway_body_release(&context->body_limits, &whole);
        return sound;
    }
    if (!is_sound(seen, body, size))
        return false;
    return strcmp(seen->meta.writer, context->identity.name) != 0 ||
           gateway_catalog_get(context->catalog, key, &record) != KVT_OK ||
           !gateway_record_in_bucket(&record);
}

/* Forget the row, and the hot copy it speaks of; the caller holds the key. */
static void
forget(struct gateway_context *context, const char *key, const struct gateway_record *record)
{
    struct gateway_change change = {.key = key, .erase = true};

    if (gateway_catalog_change(context->catalog, &change, 1, GATEWAY_DURABLE) != KVT_OK)
        return;
    gateway_stats_add(context->stats, GATEWAY_STAT_GONE, 1);
    /* A file that stays because this fails is an orphan; the keeper sweeps those. */
    (void)!gateway_tier_drop_files(&context->tiers, key, record->tiers);
}

/* Its commit record goes first.  Who puts the block meanwhile writes another one, or finds it
 * there; so it is looked once more, and made again where that was this one. */
static bool
drop_record(struct gateway_context *context, const char *key, const struct gateway_record *record)
{
    char commit[KVT_KEY_MAX];

    if (!gateway_commit_record_needed(context, key, commit))
        return true;
    if (gateway_removal_record(context, key) != KVT_OK)
        return false;
    if (gateway_bucket_tier_absent(context->tiers.buckets, key))
        return true;
    (void)!gateway_commit_record_found(context, key, record);
    return false;
}

void
gateway_repair_gone_held(struct gateway_context *context, const char *key)
{
    struct gateway_record record;

    if (gateway_catalog_get(context->catalog, key, &record) == KVT_OK &&
        gateway_record_in_bucket(&record) &&
        gateway_bucket_tier_absent(context->tiers.buckets, key) &&
        drop_record(context, key, &record))
        forget(context, key, &record);
}

bool
gateway_repair_is_other(const struct gateway_context *context, const struct gateway_record *record,
                        const struct g4_request *seen)
{
    return gateway_record_in_bucket(record) && seen->meta.present &&
           strcmp(seen->meta.writer, context->identity.name) != 0 &&
           !gateway_damage_fits(seen, record);
}

void
gateway_repair_other(struct gateway_context *context, const char *key)
{
    struct g4_request head = {.verb = G4_HEAD, .key = key};
    struct gateway_record record;
    struct gateway_key_lock hold;

    if (!gateway_key_lock_try_one(context->key_locks, &hold, key))
        return;
    if (gateway_catalog_get(context->catalog, key, &record) == KVT_OK &&
        gateway_bucket_tier_perform(context->tiers.buckets, &head) == KVT_OK &&
        gateway_repair_is_other(context, &record, &head))
        forget(context, key, &record);
    gateway_key_lock_release(context->key_locks, &hold, 1);
}

/* Of two copies that the row speaks of one is gone, because another gateway took it away: the row
 * follows.  `head` is what readers were told of the other one. */
static bool
has_lost_one(struct gateway_context *context, const char *key, const struct gateway_record *record,
             const struct g4_request *head)
{
    const unsigned other = GATEWAY_BUCKETS & ~gateway_record_bucket(head);
    struct g4_request look;
    enum kvt_err rc;

    if (!gateway_record_in_bucket(record) || record->moving != 0 || (record->tiers & other) == 0)
        return false;
    rc = gateway_bucket_tier_head(context->tiers.buckets, key, other, &look);
    return rc == KVT_NOTFOUND || (rc == KVT_OK && gateway_damage_is_tombstone(&look));
}

bool
gateway_repair_elsewhere(struct gateway_context *context, const char *key)
{
    bool changed = false;
    struct g4_request head;
    struct gateway_change change = {.key = key};
    struct gateway_record *record = &change.record;
    struct gateway_key_lock hold;

    if (!gateway_tier_exists(&context->tiers, GATEWAY_TIER_FAR) ||
        !gateway_bucket_tier_healthy(context->tiers.buckets))
        return false;
    if (!gateway_key_lock_try_one(context->key_locks, &hold, key))
        return false;
    if (gateway_catalog_get(context->catalog, key, record) == KVT_OK &&
        gateway_bucket_tier_look(context->tiers.buckets, key, &head) == KVT_OK &&
        gateway_damage_fits(&head, record) &&
        (gateway_record_elsewhere(record, &head) || has_lost_one(context, key, record, &head))) {
        record->tiers = (record->tiers & GATEWAY_VOLUMES) | gateway_record_bucket(&head);
        memcpy(record->etag, head.etag, sizeof(record->etag));
        changed = gateway_catalog_change(context->catalog, &change, 1, GATEWAY_APPLIED) == KVT_OK;
    }
    gateway_key_lock_release(context->key_locks, &hold, 1);
    return changed;
}

/* Does it say that the block was removed, which is no damage?  In the far bucket it says nothing.
 */
static bool
says_removed(const struct g4_request *seen)
{
    return seen->place == G4_BUCKET_PAIR_NEAR && g4_kind_is_removed(seen);
}

void
gateway_repair_cold(struct gateway_context *context, const char *key, const struct g4_request *seen,
                    const void *body, size_t size, const char *reason)
{
    struct g4_request request = {.verb = G4_HEAD, .key = key};
    const bool foreign = seen->status == KVT_OK && !seen->meta.present && size > 0;
    struct gateway_key_lock hold;
    enum kvt_err rc;
    bool stays;

    if (says_removed(seen)) {
        gateway_repair_gone(context, key);
        return;
    }
    if (foreign)
        gateway_stats_add(context->stats, GATEWAY_STAT_FOREIGN, 1);
    gateway_damage_keep(context, key, seen->place == 0 ? GATEWAY_TIER_COLD : GATEWAY_TIER_FAR, body,
                        size, reason);
    if (!gateway_key_lock_try_one(context->key_locks, &hold, key))
        return;
    rc = g4_store_perform(bucket_of(context, seen), &request);
    request.place = seen->place;
    if (rc == KVT_NOTFOUND || says_removed(&request)) {
        gateway_repair_gone_held(context, key);
    } else if ((rc == KVT_OK || rc == KVT_CORRUPT) && strcmp(request.etag, seen->etag) == 0 &&
               is_proven(context, key, seen, body, size, &request)) {
        stays = foreign || is_anothers(context, key, seen, body, size);
        if (foreign)
            mark_overwritten(context, key, gateway_record_bucket(seen));
        else if (drop_tier(context, key, gateway_record_bucket(seen)) && !stays &&
                 request.etag[0] != '\0' && gateway_removal_record(context, key) == KVT_OK)
            neutralise(context, gateway_record_bucket(seen), key, &request);
    }
    gateway_key_lock_release(context->key_locks, &hold, 1);
}

void
gateway_repair_gone(struct gateway_context *context, const char *key)
{
    struct gateway_key_lock hold;

    if (!gateway_key_lock_try_one(context->key_locks, &hold, key))
        return;
    gateway_repair_gone_held(context, key);
    gateway_key_lock_release(context->key_locks, &hold, 1);
}

void
gateway_repair_inspect(struct gateway_context *context, const char *key)
{
    struct g4_request request = {.verb = G4_HEAD, .key = key};
    struct kvt_error err = {.code = KVT_OK};
    uint64_t length;
    const char *reason;
    enum kvt_err rc;

    if (!gateway_bucket_tier_healthy(context->tiers.buckets))
        return;
    rc = gateway_bucket_tier_perform(context->tiers.buckets, &request);
    if (rc != KVT_OK && rc != KVT_CORRUPT)
        return;
    length = rc == KVT_OK ? request.buffer_size : context->body_limits.object_max;
    rc = gateway_bucket_tier_ended(
        context->tiers.buckets,
        gateway_body_read(&context->body_limits, gateway_bucket_tier_store(context->tiers.buckets),
                          key, length, &request));
    if (rc == KVT_OK && !gateway_damage_is_tombstone(&request)) {
        reason = g4_kind_judge_block(&request);
        if (reason == NULL &&
            g4_check_body(&request.meta, NULL, request.buffer, request.buffer_size, &err) != KVT_OK)
            reason = err.text;
        if (reason != NULL)
            gateway_repair_cold(context, key, &request, request.buffer, request.buffer_size,
                                reason);
    } else if (rc == KVT_CORRUPT || rc == KVT_RANGE) {
        gateway_repair_cold(context, key, &request, request.buffer, request.buffer_size,
                            request.error.text);
    }
    gateway_body_release(&context->body_limits, &request);
}
