#include "gateway/block/removal.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "g4/object/commit.h"
#include "g4/object/kind.h"
#include "gateway/block/claim.h"
#include "gateway/block/commit_record.h"
#include "gateway/block/damage.h"
#include "gateway/block/tombstone.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/gateway_tiers.h"
#include "gateway/tier/key_lock.h"
#include "gateway/tier/object_key.h"

enum {
    FRESH_MS = 1000,  /* behind an older mark others may have put the block again */
    MARGIN_MS = 2000, /* what is younger than the mark by so much less is not called older: stores
                         tell whole seconds, and their clock is known to about one */
    MARK_MS = 60000,  /* an older mark is no order any more: nobody was told that it was done */
};

/* What lies in the bucket behind a mark that is not fresh. */
struct look {
    struct g4_request head;
    bool renewed; /* it is to stay */
    bool gone;    /* nothing is there */
};

/* What the bucket's clock says. */
static uint64_t
bucket_ms(struct gateway_context *context)
{
    struct gateway_bucket_tier_state state;

    gateway_bucket_tier_state(context->tiers.buckets, &state);
    return (uint64_t)((int64_t)kvt_clock_unix_ms() + state.skew_ms);
}

/* KVT_OK also when nothing was there. */
static enum kvt_err
delete_copy(struct g4_store *store, struct g4_request *request)
{
    const enum kvt_err rc = g4_store_perform(store, request);

    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

/* Once: a repeat that is sent when the first one was done already could meet what was put since. */
static enum kvt_err
delete_cold(struct gateway_context *context, const char *key, const char *etag)
{
    struct g4_request request = {.verb = G4_DELETE, .key = key, .once = true};
    struct gateway_bucket_tier_state state;

    if (!gateway_bucket_tier_healthy(context->tiers.buckets))
        return KVT_UNAVAILABLE;
    gateway_bucket_tier_state(context->tiers.buckets, &state);
    if (etag[0] != '\0' && state.tested && state.selftest.delete_if_match) {
        request.condition = G4_IF_MATCH;
        memcpy(request.etag, etag, sizeof(request.etag));
    }
    return gateway_bucket_tier_ended(
        context->tiers.buckets,
        delete_copy(gateway_bucket_tier_store(context->tiers.buckets), &request));
}

/* A mark that cannot be seen to for a minute is no order any more (MARK_MS), so none is made while
 * a bucket is away.  Blocks alone may be in the far one. */
static enum kvt_err
may_begin(struct gateway_context *context, const char *key)
{
    if (!gateway_bucket_tier_healthy(context->tiers.buckets))
        return KVT_UNAVAILABLE;
    return gateway_bucket_tier_deletes(context->tiers.buckets) ||
                   !gateway_object_key_is_block(key, NULL)
               ? KVT_OK
               : KVT_AGAIN;
}

static enum kvt_err
mark_held(struct gateway_context *context, const char *const *keys, size_t count)
{
    struct gateway_change *changes = kvt_calloc(count, sizeof(*changes));
    size_t used = 0;
    size_t waiting = 0;
    enum kvt_err rc = KVT_OK;

    if (changes == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < count; i++) {
        struct gateway_change *change = &changes[used];

        rc = gateway_catalog_get(context->catalog, keys[i], &change->record);
        if (rc != KVT_OK && rc != KVT_NOTFOUND) /* without its mark no copy may go */
            goto fail;
        if (rc == KVT_NOTFOUND || change->record.state == GATEWAY_RETIRING)
            continue;
        change->key = keys[i];
        waiting += gateway_record_waits(&change->record) ? 1 : 0;
        change->record.state = GATEWAY_RETIRING;
        change->record.tiers |= change->record.moving; /* where a copy may be */
        change->record.moving = 0;
        change->record.owed = false; /* perhaps the bucket has it: it is removed from there too */
        change->record.modified_ms = bucket_ms(context); /* of the mark, from here on */
        used++;
    }
    rc = gateway_catalog_change(context->catalog, changes, used, GATEWAY_DURABLE);
    if (rc == KVT_OK)
        gateway_stats_add(context->stats, GATEWAY_STAT_BACKLOG_REMOVED, waiting);
fail:
    kvt_free(changes);
    return rc;
}

enum kvt_err
gateway_removal_mark(struct gateway_context *context, const char *const *keys, size_t count)
{
    struct gateway_key_lock *holds;
    enum kvt_err rc;

    if (count == 0)
        return KVT_OK;
    if (gateway_bucket_tier_healthy(context->tiers.buckets) &&
        !gateway_bucket_tier_deletes(context->tiers.buckets))
        return KVT_AGAIN; /* as may_begin(): orders are of blocks */
    holds = kvt_calloc(count, sizeof(*holds));
    if (holds == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < count; i++)
        gateway_key_lock_init(&holds[i], keys[i]);
    gateway_key_lock_acquire(context->key_locks, holds, count);
    rc = mark_held(context, keys, count);
    gateway_key_lock_release(context->key_locks, holds, count);
    kvt_free(holds);
    return rc;
}

/* Did another gateway put the object of a mark that is not fresh after it was marked?  Or may one
 * have told its client since that it is there? */
static enum kvt_err
look_again(struct gateway_context *context, const char *key, const struct gateway_record *marked,
           struct look *look)
{
    enum kvt_err rc;

    if (!gateway_bucket_tier_healthy(context->tiers.buckets))
        return KVT_UNAVAILABLE;
    rc = gateway_bucket_tier_look(context->tiers.buckets, key, &look->head);
    if (!gateway_damage_judged(rc))
        return rc;
    look->renewed = rc == KVT_OK && (look->head.modified_ms + MARGIN_MS > marked->modified_ms ||
                                     bucket_ms(context) > marked->modified_ms + MARK_MS);
    look->gone = rc == KVT_NOTFOUND && gateway_bucket_tier_absent(context->tiers.buckets, key);
    return rc == KVT_NOTFOUND && !look->gone ? KVT_UNAVAILABLE : KVT_OK;
}

/* A block, with our metadata or without? */
static bool
is_whole(const struct g4_request *head)
{
    return head->meta.present ? g4_kind_judge_block(head) == NULL : head->buffer_size > 0;
}

/* May the far bucket have a copy, as the row says? */
static bool
may_be_far(const struct gateway_record *record)
{
    return ((record->tiers | record->moving) & GATEWAY_FAR) != 0;
}

/* What was put since, in the first bucket; the far one may still have what was to be removed.  That
 * goes as a move's copy that was not wanted; of a foreign block none is read, so there it stays
 * beside it until both are removed. */
static void
take_over(const struct g4_request *head, const struct gateway_record *marked,
          struct gateway_record *record)
{
    gateway_record_of_head(head, false, record);
    record->foreign = !head->meta.present;
    if (!may_be_far(marked) || record->tiers == GATEWAY_FAR)
        return;
    record->moving = record->foreign ? 0 : GATEWAY_FAR;
    record->tiers |= record->foreign ? GATEWAY_FAR : 0;
}

/* What was put since stays.  Its row is ours where it is the same block, or where without a row
 * nobody knew of a copy in the far bucket.  KVT_EXISTS when that is done: nothing was removed. */
static enum kvt_err
give_up(struct gateway_context *context, const char *key, const struct g4_request *head,
        const struct gateway_record *marked)
{
    const bool same =
        gateway_damage_shows(head, marked->length, marked->crc32c, marked->fingerprint);
    struct gateway_change change = {.key = key,
                                    .erase = !same && !(may_be_far(marked) && is_whole(head))};
    enum kvt_err rc;

    take_over(head, marked, &change.record);
    rc = gateway_tier_drop_files(&context->tiers, key, GATEWAY_VOLUMES);
    if (rc == KVT_OK && !change.erase && !change.record.foreign) /* its record may have gone */
        rc = gateway_commit_record_found(context, key, &change.record);
    if (rc == KVT_OK)
        rc = gateway_catalog_change(context->catalog, &change, 1, GATEWAY_APPLIED);
    if (rc != KVT_OK)
        return rc;
    kvt_log_info("gateway.remove", "put_again", "%s stays: it is there by %s again", key,
                 head->meta.writer);
    return KVT_EXISTS;
}

/* Its tombstone has gone.  KVT_OK: so has the block; KVT_EXISTS: it was put again, and is a row. */
static enum kvt_err
look_behind(struct gateway_context *context, const char *key, const struct gateway_record *noted)
{
    struct g4_request head;
    const enum kvt_err rc = gateway_bucket_tier_look(context->tiers.buckets, key, &head);

    if (rc == KVT_OK && is_whole(&head))
        return give_up(context, key, &head, noted);
    if (rc == KVT_OK && gateway_damage_is_tombstone(&head)) /* of what was bad */
        return gateway_bucket_tier_absent_far(context->tiers.buckets, key) ? KVT_OK : KVT_AGAIN;
    if (rc == KVT_NOTFOUND)
        return gateway_bucket_tier_absent(context->tiers.buckets, key) ? KVT_OK : KVT_UNAVAILABLE;
    return rc == KVT_OK || rc == KVT_CORRUPT ? KVT_AGAIN : rc; /* its readers see to what is bad */
}

/* Its removal was noted in the first bucket: both buckets are to answer.  KVT_AGAIN: the far one
 * does not, or another gateway has the lock. */
static enum kvt_err
finish_noted(struct gateway_context *context, const char *key, const struct gateway_record *noted)
{
    struct gateway_change change = {.key = key, .erase = true};
    enum kvt_err rc;

    if (!gateway_bucket_tier_deletes(context->tiers.buckets))
        return gateway_bucket_tier_healthy(context->tiers.buckets) ? KVT_AGAIN : KVT_UNAVAILABLE;
    rc = gateway_tombstone_settle(context, key);
    if ((rc == KVT_UNAVAILABLE || rc == KVT_TIMEOUT) &&
        gateway_bucket_tier_healthy(context->tiers.buckets))
        rc = KVT_AGAIN;
    if (rc == KVT_EXISTS)
        rc = look_behind(context, key, noted);
    if (rc == KVT_OK)
        rc = gateway_removal_record(context, key);
    if (rc == KVT_OK)
        rc = gateway_tier_drop_files(&context->tiers, key, GATEWAY_VOLUMES);
    return rc == KVT_OK ? gateway_catalog_change(context->catalog, &change, 1, GATEWAY_APPLIED)
                        : rc;
}

/*
 * The far bucket is away, and may have the block: the row says that it is to be removed from there,
 * and a tombstone in the first bucket says the same to everybody else.  That is the removal; the
 * rest is seen to when the far one is back.
 */
static enum kvt_err
remove_noted(struct gateway_context *context, const char *key)
{
    struct gateway_change change = {.key = key};
    struct gateway_record *record = &change.record;
    enum kvt_err rc = gateway_catalog_get(context->catalog, key, record);
    bool waits;

    if (rc != KVT_OK && rc != KVT_NOTFOUND)
        return rc;
    change.reserve = rc == KVT_NOTFOUND; /* a row that clients make as they like */
    if (rc == KVT_NOTFOUND)
        *record = (struct gateway_record){.modified_ms = bucket_ms(context)};
    waits = gateway_record_waits(record);
    if (record->state != GATEWAY_RETIRING)
        record->modified_ms = bucket_ms(context);
    record->state = GATEWAY_RETIRING;
    record->owed = false;
    record->moving = GATEWAY_FAR;
    rc = gateway_catalog_change(context->catalog, &change, 1, GATEWAY_DURABLE);
    if (rc == KVT_OK)
        rc = change.status;
    if (rc == KVT_OK)
        gateway_stats_add(context->stats, GATEWAY_STAT_BACKLOG_REMOVED, waits ? 1 : 0);
    if (rc == KVT_OK)
        rc = gateway_removal_record(context, key);
    if (rc == KVT_OK)
        rc = gateway_tombstone_note(context, key);
    if (rc == KVT_OK)
        rc = gateway_removal_record(context, key);
    if (rc == KVT_OK)
        rc = gateway_tier_drop_files(&context->tiers, key, GATEWAY_VOLUMES);
    if (rc != KVT_OK || record->tiers == 0)
        return rc;
    record->tiers = 0; /* their room is free, however long the far one is away */
    change.reserve = false;
    return gateway_catalog_change(context->catalog, &change, 1, GATEWAY_APPLIED);
}

/* `marked`: by this very call, so that nobody can have had an answer since. */
static enum kvt_err
finish_held(struct gateway_context *context, const char *key, bool marked, uint64_t *bytes)
{
    struct gateway_change change = {.key = key, .erase = true};
    struct look look = {.renewed = false};
    struct gateway_record record;
    enum kvt_err rc;

    rc = gateway_catalog_get(context->catalog, key, &record);
    if (rc != KVT_OK || record.state != GATEWAY_RETIRING)
        return rc == KVT_NOTFOUND ? KVT_OK : rc;
    if (record.moving != 0)
        return finish_noted(context, key, &record);
    if (!marked && !record.opaque && bucket_ms(context) > record.modified_ms + FRESH_MS)
        rc = look_again(context, key, &record, &look);
    if (rc == KVT_OK && look.renewed)
        return give_up(context, key, &look.head, &record);
    if (rc == KVT_OK)
        rc = gateway_removal_record(context, key);
    if (rc == KVT_OK && !look.gone) /* else a DELETE could only meet what was put since */
        rc = delete_cold(context, key, look.head.etag);
    if (rc == KVT_OK) /* another gateway may have written it, which saw the rank until now */
        rc = gateway_removal_record(context, key);
    if (rc == KVT_OK && !record.opaque)
        rc = gateway_tier_drop_files(&context->tiers, key, GATEWAY_VOLUMES);
    if (rc != KVT_OK)
        return rc;
    rc = gateway_catalog_change(context->catalog, &change, 1, GATEWAY_APPLIED);
    if (rc == KVT_OK && bytes != NULL)
        *bytes = record.length;
    return rc;
}

enum kvt_err
gateway_removal_finish(struct gateway_context *context, const char *key, uint64_t *bytes)
{
    struct gateway_key_lock hold;
    enum kvt_err rc;

    if (bytes != NULL)
        *bytes = 0;
    gateway_key_lock_init(&hold, key);
    gateway_key_lock_acquire(context->key_locks, &hold, 1);
    rc = finish_held(context, key, false, bytes);
    gateway_key_lock_release(context->key_locks, &hold, 1);
    return rc;
}

/* As gateway_remove(), of a key that is held.  KVT_EXISTS: a removal that had been noted found the
 * block put again, and left it; this one has not begun. */
static enum kvt_err
remove_held(struct gateway_context *context, const char *key)
{
    struct gateway_record record;
    enum kvt_err rc = may_begin(context, key);

    if (rc == KVT_OK)
        rc = gateway_catalog_get(context->catalog, key, &record);
    if (rc == KVT_NOTFOUND) {
        rc = gateway_removal_record(context, key);
        if (rc == KVT_OK)
            rc = delete_cold(context, key, "");
        if (rc == KVT_OK)
            rc = gateway_removal_record(context, key);
    } else if (rc == KVT_OK) {
        rc = mark_held(context, &key, 1);
        if (rc == KVT_OK)
            rc = finish_held(context, key, true, NULL);
    }
    if (rc == KVT_AGAIN && gateway_tier_exists(&context->tiers, GATEWAY_TIER_FAR) &&
        gateway_object_key_is_block(key, NULL))
        rc = remove_noted(context, key);
    return rc;
}

enum kvt_err
gateway_remove(struct gateway_context *context, const char *key)
{
    return gateway_remove_if(context, key, NULL, NULL);
}

enum kvt_err
gateway_remove_if(struct gateway_context *context, const char *key,
                  enum kvt_err (*check)(void *arg), void *arg)
{
    struct gateway_key_lock hold;
    enum kvt_err rc = KVT_OK;

    if (!gateway_bucket_tier_healthy(context->tiers.buckets))
        return KVT_UNAVAILABLE;
    gateway_key_lock_init(&hold, key);
    gateway_key_lock_acquire(context->key_locks, &hold, 1);
    if (check != NULL)
        rc = check(arg);
    if (rc == KVT_OK)
        rc = remove_held(context, key);
    if (rc == KVT_EXISTS)
        rc = remove_held(context, key);
    gateway_key_lock_release(context->key_locks, &hold, 1);
    return rc;
}

/* Whoever writes a record holds its key while he looks at the ranks; the caller's is marked, or
 * held.  So a record is written before it is removed here, or not at all. */
enum kvt_err
gateway_removal_record(struct gateway_context *context, const char *key)
{
    char record[KVT_KEY_MAX];

    return g4_commit_key(key, record) ? gateway_remove(context, record) : KVT_OK;
}

/* ---- many at once ---- */

struct removal {
    struct gateway_context *context;
    const char *const *keys;
    size_t count;
    enum kvt_err *statuses;
    bool grouped[GATEWAY_REMOVAL_TOGETHER]; /* it goes with the others */
};

/* Which keys go together: not those with a commit record, which has to go first, and none twice. */
static size_t
group(struct removal *removal)
{
    size_t grouped = 0;

    for (size_t i = 0; i < removal->count; i++) {
        char record[KVT_KEY_MAX];

        removal->grouped[i] = !g4_commit_key(removal->keys[i], record);
        for (size_t before = 0; before < i && removal->grouped[i]; before++)
            removal->grouped[i] = strcmp(removal->keys[before], removal->keys[i]) != 0;
        grouped += removal->grouped[i];
    }
    return grouped;
}

static void
cold_copy_gone(void *arg, struct g4_request *request, size_t index)
{
    struct removal *removal = arg;
    const enum kvt_err rc =
        gateway_bucket_tier_ended(removal->context->tiers.buckets, request->status);

    removal->statuses[index] = rc == KVT_NOTFOUND ? KVT_OK : rc;
}

/* Each once, as delete_cold() does it. */
static enum kvt_err
delete_cold_all(struct removal *removal, size_t grouped)
{
    struct gateway_store_batch *flight;
    const enum kvt_err rc = gateway_store_batch_new(&flight, grouped, cold_copy_gone, removal);

    for (size_t i = 0; i < removal->count && rc == KVT_OK; i++) {
        struct g4_request *request;

        if (!removal->grouped[i])
            continue;
        request = gateway_store_batch_prepare(flight, i);
        request->verb = G4_DELETE;
        request->key = removal->keys[i];
        request->once = true;
        gateway_store_batch_submit(
            flight, gateway_bucket_tier_store(removal->context->tiers.buckets), request);
    }
    if (rc != KVT_OK)
        return rc;
    gateway_store_batch_free(flight);
    return KVT_OK;
}

/* The hot copies, and then the rows, of those that are gone from the bucket. */
static enum kvt_err
finish_all(struct removal *removal, struct gateway_change *changes)
{
    struct gateway_context *context = removal->context;
    size_t used = 0;

    for (size_t i = 0; i < removal->count; i++) {
        struct gateway_change *change = &changes[used];
        enum kvt_err rc;

        if (!removal->grouped[i] || removal->statuses[i] != KVT_OK)
            continue;
        rc = gateway_catalog_get(context->catalog, removal->keys[i], &change->record);
        if (rc != KVT_OK) {
            removal->statuses[i] = rc == KVT_NOTFOUND ? KVT_OK : rc;
            continue;
        }
        if (!change->record.opaque)
            removal->statuses[i] =
                gateway_tier_drop_files(&context->tiers, removal->keys[i], GATEWAY_VOLUMES);
        if (removal->statuses[i] != KVT_OK)
            continue;
        change->key = removal->keys[i];
        change->erase = true;
        used++;
    }
    return gateway_catalog_change(context->catalog, changes, used, GATEWAY_APPLIED);
}

static enum kvt_err
remove_group(struct removal *removal, size_t grouped)
{
    struct gateway_change *changes = kvt_calloc(grouped, sizeof(*changes));
    const char *keys[GATEWAY_REMOVAL_TOGETHER];
    struct gateway_key_lock holds[GATEWAY_REMOVAL_TOGETHER];
    size_t held = 0;
    enum kvt_err rc;

    if (changes == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < removal->count; i++) {
        if (!removal->grouped[i])
            continue;
        keys[held] = removal->keys[i];
        gateway_key_lock_init(&holds[held++], removal->keys[i]);
    }
    gateway_key_lock_acquire(removal->context->key_locks, holds, held);
    rc = mark_held(removal->context, keys, held);
    if (rc == KVT_OK)
        rc = delete_cold_all(removal, grouped);
    if (rc == KVT_OK)
        rc = finish_all(removal, changes);
    gateway_key_lock_release(removal->context->key_locks, holds, held);
    kvt_free(changes);
    return rc;
}

void
gateway_removal_all(struct gateway_context *context, const char *const *keys, size_t count,
                    enum kvt_err *statuses)
{
    struct removal removal = {
        .context = context, .keys = keys, .count = count, .statuses = statuses};
    const bool healthy = gateway_bucket_tier_healthy(context->tiers.buckets);
    const size_t grouped = healthy ? group(&removal) : 0;
    enum kvt_err rc = KVT_UNAVAILABLE;

    assert(count <= GATEWAY_REMOVAL_TOGETHER);
    for (size_t i = 0; i < count; i++)
        statuses[i] = KVT_UNAVAILABLE;
    if (grouped > 0 && !gateway_bucket_tier_deletes(context->tiers.buckets)) {
        memset(removal.grouped, 0, sizeof(removal.grouped)); /* each is noted by itself */
        rc = KVT_OK;
    } else if (grouped > 0) {
        rc = remove_group(&removal, grouped);
    }
    for (size_t i = 0; i < count && healthy; i++)
        if (!removal.grouped[i])
            statuses[i] = gateway_remove(context, keys[i]);
        else if (rc != KVT_OK)
            statuses[i] = rc;
}
