#include "gateway/block/tombstone.h"

#include <string.h>

#include "g4/object/check.h"
#include "g4/object/kind.h"
#include "gateway/block/damage.h"
#include "gateway/tier/bucket_tier.h"

enum kvt_err
gateway_tombstone_put(struct gateway_context *context, const char *key, unsigned tier,
                      const char *seen_etag, bool removed, struct gateway_move_lock *lock,
                      char etag[G4_ETAG_MAX])
{
    struct g4_request put = {.verb = G4_PUT,
                             .key = key,
                             .condition = seen_etag == NULL ? G4_IF_ABSENT : G4_IF_MATCH,
                             .body = "",
                             .once = true,
                             .meta = {.present = true,
                                      .crc32c = g4_check_crc32c("", 0),
                                      .fingerprint = removed ? G4_KIND_REMOVED : 0,
                                      .writer = GATEWAY_TOMBSTONE}};
    enum kvt_err rc = gateway_move_lock_still_held(lock, &put.deadline_ms);

    etag[0] = '\0';
    if (rc != KVT_OK)
        return rc;
    if (seen_etag != NULL)
        memcpy(put.etag, seen_etag, sizeof(put.etag));
    rc = gateway_bucket_tier_perform_in(context->tiers.buckets, tier, &put);
    (void)gateway_move_lock_sent(lock, rc);
    memcpy(etag, put.etag, sizeof(put.etag));
    return rc;
}

enum kvt_err
gateway_tombstone_delete(struct gateway_context *context, const char *key, unsigned tier,
                         const char *seen_etag, struct gateway_move_lock *lock)
{
    struct g4_request drop = {.verb = G4_DELETE, .key = key, .once = true};
    enum kvt_err rc = gateway_move_lock_still_held(lock, &drop.deadline_ms);

    if (rc != KVT_OK)
        return rc;
    if (seen_etag != NULL && gateway_bucket_tier_heeds(context->tiers.buckets, tier)) {
        drop.condition = G4_IF_MATCH;
        memcpy(drop.etag, seen_etag, sizeof(drop.etag));
    }
    rc = gateway_bucket_tier_perform_in(context->tiers.buckets, tier, &drop);
    (void)gateway_move_lock_sent(lock, rc);
    /* PRECONDITION: somebody put it again, over the tombstone. */
    return rc == KVT_NOTFOUND || rc == KVT_PRECONDITION ? KVT_OK : rc;
}

enum kvt_err
gateway_tombstone_clear(struct gateway_context *context, const char *key, unsigned tier)
{
    struct gateway_move_lock lock;
    struct g4_request seen;
    enum kvt_err rc = gateway_move_lock_acquire(context, key, &lock);

    if (rc != KVT_OK)
        return rc == KVT_BUSY ? KVT_AGAIN : rc;
    rc = gateway_bucket_tier_head(context->tiers.buckets, key, tier, &seen);
    if (rc == KVT_OK)
        rc = gateway_damage_is_tombstone(&seen) && !g4_kind_is_removed(&seen)
                 ? gateway_tombstone_delete(context, key, tier, seen.etag, &lock)
                 : KVT_AGAIN;
    gateway_move_lock_release(context, &lock);
    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

static enum kvt_err
note_locked(struct gateway_context *context, const char *key, struct gateway_move_lock *lock)
{
    char etag[G4_ETAG_MAX];
    struct g4_request seen;
    enum kvt_err rc = gateway_bucket_tier_head(context->tiers.buckets, key, GATEWAY_COLD, &seen);
    const bool there = rc == KVT_OK || rc == KVT_CORRUPT;

    if (!there && rc != KVT_NOTFOUND)
        return rc;
    if (rc == KVT_OK && g4_kind_is_removed(&seen))
        return KVT_OK;
    rc = gateway_tombstone_put(context, key, GATEWAY_COLD, there ? seen.etag : NULL, true, lock,
                               etag);
    if (rc != KVT_EXISTS && rc != KVT_PRECONDITION && rc != KVT_NOTFOUND)
        return rc;
    /* Our own PUT, whose first answer was lost, or somebody put the block. */
    rc = gateway_bucket_tier_head(context->tiers.buckets, key, GATEWAY_COLD, &seen);
    return rc == KVT_OK && g4_kind_is_removed(&seen) ? KVT_OK : KVT_AGAIN;
}

typedef enum kvt_err locked_fn(struct gateway_context *context, const char *key,
                               struct gateway_move_lock *lock);

/* Somebody else's lock is a reason to try again. */
static enum kvt_err
under_lock(struct gateway_context *context, const char *key, locked_fn *locked)
{
    struct gateway_move_lock lock;
    enum kvt_err rc = gateway_move_lock_acquire(context, key, &lock);

    if (rc != KVT_OK)
        return rc == KVT_BUSY ? KVT_AGAIN : rc;
    rc = locked(context, key, &lock);
    gateway_move_lock_release(context, &lock);
    return rc;
}

enum kvt_err
gateway_tombstone_note(struct gateway_context *context, const char *key)
{
    struct g4_request seen;

    /* Said before: who settles that may have the lock, or have left it. */
    if (gateway_bucket_tier_head(context->tiers.buckets, key, GATEWAY_COLD, &seen) == KVT_OK &&
        g4_kind_is_removed(&seen))
        return KVT_OK;
    return under_lock(context, key, note_locked);
}

/* While the note is there nobody puts the block without the lock, and while the lock is held nobody
 * takes a copy out of the first bucket: so what is in the far one is what was removed.  It is
 * deleted once more behind the note, as g4/pair/bucket_pair.h does it, for a move may have read
 * the block before. */
static enum kvt_err
settle_removed_locked(struct gateway_context *context, const char *key,
                      struct gateway_move_lock *lock)
{
    struct g4_request seen;
    enum kvt_err rc = gateway_bucket_tier_head(context->tiers.buckets, key, GATEWAY_COLD, &seen);

    if (rc == KVT_NOTFOUND || rc == KVT_CORRUPT || (rc == KVT_OK && !g4_kind_is_removed(&seen)))
        return KVT_EXISTS;
    if (rc == KVT_OK)
        rc = gateway_tombstone_delete(context, key, GATEWAY_FAR, NULL, lock);
    if (rc == KVT_OK)
        rc = gateway_tombstone_delete(context, key, GATEWAY_COLD, seen.etag, lock);
    return rc == KVT_OK ? gateway_tombstone_delete(context, key, GATEWAY_FAR, NULL, lock) : rc;
}

enum kvt_err
gateway_tombstone_settle(struct gateway_context *context, const char *key)
{
    return under_lock(context, key, settle_removed_locked);
}

enum kvt_err
gateway_tombstone_put_over(struct gateway_context *context, struct g4_request *put)
{
    struct g4_request over = *put; /* the caller goes on with his own where nothing was put */
    struct gateway_move_lock lock;
    struct g4_request seen;
    enum kvt_err rc =
        gateway_bucket_tier_head(context->tiers.buckets, put->key, GATEWAY_COLD, &seen);

    if (rc == KVT_OK && !g4_kind_is_removed(&seen))
        return KVT_NOTFOUND;
    if (rc == KVT_OK)
        rc = gateway_move_lock_acquire(context, put->key, &lock);
    if (rc != KVT_OK)
        return rc == KVT_BUSY ? KVT_AGAIN : rc;
    rc = gateway_bucket_tier_head(context->tiers.buckets, put->key, GATEWAY_COLD, &seen);
    if (rc == KVT_OK && !g4_kind_is_removed(&seen))
        rc = KVT_AGAIN;
    if (rc == KVT_OK)
        rc = gateway_move_lock_still_held(&lock, &over.deadline_ms);
    if (rc == KVT_OK) {
        over.deadline_ms = lock.until_ms; /* a body may take longer than a look */
        over.once = true;
        over.condition = G4_IF_MATCH;
        memcpy(over.etag, seen.etag, sizeof(over.etag));
        rc = gateway_move_lock_sent(
            &lock, gateway_bucket_tier_perform_in(context->tiers.buckets, GATEWAY_COLD, &over));
    }
    gateway_move_lock_release(context, &lock);
    if (rc == KVT_OK)
        *put = over;
    return rc;
}

enum kvt_err
gateway_tombstone_put_locked(struct gateway_context *context, struct g4_request *put)
{
    struct g4_store *store = gateway_bucket_tier_store(context->tiers.buckets);
    struct gateway_move_lock lock;
    enum kvt_err rc = gateway_move_lock_acquire(context, put->key, &lock);

    if (rc != KVT_OK)
        return rc == KVT_BUSY || rc == KVT_NOTFOUND ? KVT_AGAIN : rc;
    put->deadline_ms = lock.until_ms;
    put->once = true;
    rc = gateway_move_lock_sent(
        &lock, gateway_bucket_tier_ended(context->tiers.buckets, g4_store_perform(store, put)));
    gateway_move_lock_release(context, &lock);
    return rc == KVT_NOTFOUND ? KVT_AGAIN : rc; /* it has gone */
}
