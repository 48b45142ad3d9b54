#include "gateway/move/recover.h"

#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "gateway/block/claim.h"
#include "gateway/block/commit_record.h"
#include "gateway/block/damage.h"
#include "gateway/block/removal.h"
#include "gateway/block/unsynced.h"
#include "gateway/move/move.h"
#include "gateway/tier/attribute_lines.h"
#include "gateway/tier/body_read.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/gateway_tiers.h"
#include "gateway/tier/key_lock.h"
#include "gateway/tier/object_key.h"

enum {
    PAGE = 64,
    BUSY_MAX = 2, /* namespaces that are packed by somebody, in a round */
};

/* Is it the block of this intent?  A PUT is acknowledged, too, when an object without our metadata
 * has the same bytes: such a one is read.  An error: nobody can tell now. */
static enum kvt_err
is_ours(struct gateway_context *context, const struct g4_request *head,
        const struct gateway_record *record, bool *ours)
{
    struct g4_request seen;
    enum kvt_err rc;

    *ours = gateway_damage_shows(head, record->length, record->crc32c, record->fingerprint);
    if (*ours || record->opaque || !gateway_damage_is_bare(head) ||
        head->buffer_size != record->length)
        return KVT_OK;
    rc = gateway_bucket_tier_ended(
        context->tiers.buckets,
        gateway_body_read_block(&context->body_limits,
                                gateway_bucket_tier_store(context->tiers.buckets), head->key,
                                record, &seen));
    gateway_body_release(&context->body_limits, &seen);
    *ours = rc == KVT_OK;
    return rc == KVT_CORRUPT ? KVT_OK : rc;
}

/* The bucket has something under an intent's key: ours?  Then the PUT did happen. */
static void
adopt(const struct g4_request *head, bool ours, struct gateway_change *change)
{
    struct gateway_record *record = &change->record;

    if (record->opaque) { /* perhaps another's: all that is told of it is its own */
        if (!gateway_attribute_lines_get(head->attributes, GATEWAY_ATTRIBUTE_ETAG, record->shown,
                                         sizeof(record->shown)))
            record->shown[0] = '\0';
        record->length = head->meta.present ? head->meta.length : head->buffer_size;
        record->crc32c = head->meta.crc32c;
    } else if (!ours) {
        change->erase = true;
        return;
    }
    record->state = GATEWAY_STORED;
    record->kept = false;
    record->tiers = gateway_record_bucket(head);
    if (record->tiers == GATEWAY_FAR)
        record->moving = 0; /* then its copy there is no other one */
    memcpy(record->etag, head->etag, sizeof(record->etag));
}

/* The PUT did not happen, and the far bucket may have what was to be removed before it. */
static void
note_again(struct gateway_change *change)
{
    change->erase = false;
    change->record.state = GATEWAY_RETIRING;
    change->record.kept = false;
    change->record.tiers = 0;
}

/* The hot copy of the intent: its PUT came to no end, so perhaps nobody synced it.  Where the PUT
 * did not happen, a sound one is kept only if it began over an acknowledged one.  False: nobody can
 * tell now, or it did not go. */
static bool
settle_hot(struct gateway_context *context, struct gateway_change *change)
{
    struct gateway_record *record = &change->record;
    struct g4_request drop = {.verb = G4_DELETE, .key = change->key};
    enum kvt_err rc = KVT_NOTFOUND;

    if (record->opaque || context->tiers.hot == NULL)
        return true;
    if (!change->erase || record->kept)
        rc = gateway_unsynced_renew(context, change->key, record);
    if (rc == KVT_OK && change->erase) {
        change->erase = false;
        record->state = GATEWAY_STORED;
        record->kept = false;
        record->tiers = 0;
        record->etag[0] = '\0';
    }
    if (rc == KVT_OK) {
        record->tiers |= GATEWAY_HOT;
        return true;
    }
    if (rc != KVT_CORRUPT && rc != KVT_NOTFOUND)
        return false;
    rc = g4_store_perform(context->tiers.hot,
                          &drop); /* by its name: a sweep may not learn a torn one's key */
    return rc == KVT_OK || rc == KVT_NOTFOUND;
}

static bool
settle_intent_held(struct gateway_context *context, const char *key)
{
    char attributes[G4_ATTRIBUTES_MAX];
    struct g4_request head = {.verb = G4_HEAD,
                              .key = key,
                              .attributes = attributes,
                              .deadline_ms = kvt_clock_mono_ms() + GATEWAY_BUCKET_TIER_LOOK_MS};
    struct gateway_change change = {.key = key};
    bool ours = false;
    enum kvt_err rc;

    if (gateway_catalog_get(context->catalog, key, &change.record) != KVT_OK ||
        change.record.state != GATEWAY_INTENT)
        return false;       /* its owner was quicker */
    rc = change.record.owed /* then nothing was sent there */
             ? KVT_CORRUPT
             : gateway_bucket_tier_perform(context->tiers.buckets, &head);
    if (rc == KVT_OK)
        rc = is_ours(context, &head, &change.record, &ours);
    if (rc == KVT_OK)
        adopt(&head, ours, &change);
    else if (rc == KVT_CORRUPT ||
             (rc == KVT_NOTFOUND && gateway_bucket_tier_absent(context->tiers.buckets, key)))
        change.erase = true;
    else
        return false;
    if (!change.erase && !change.record.opaque &&
        gateway_commit_record_found(context, key, &change.record) != KVT_OK)
        return false;
    if (!settle_hot(context, &change))
        return false;
    if (change.erase && change.record.moving != 0)
        note_again(&change);
    return gateway_catalog_change(context->catalog, &change, 1, GATEWAY_APPLIED) == KVT_OK;
}

/* One call of gateway_recover_pending(). */
struct round {
    struct gateway_context *context;
    char busy[BUSY_MAX][KVT_NAMESPACE_MAX];
    unsigned busy_count;
    bool far_away;
    bool over; /* one more wait is too long for whatever else the caller does */
    size_t settled;
    size_t tried;
    size_t skipped; /* they wait for the far bucket */
    uint64_t until_ms;
    char first[KVT_KEY_MAX]; /* it began behind this key */
    bool around;             /* it came to the end, and goes on from the beginning */
};

static bool
is_busy(const struct round *round, const char *namespace_)
{
    for (unsigned i = 0; i < round->busy_count; i++)
        if (strcmp(round->busy[i], namespace_) == 0)
            return true;
    return false;
}

/* Whoever packs a namespace lets the first removal wait, and would let the next ones wait too. */
static bool
settle_retiring(struct round *round, const char *key)
{
    struct kvt_key parsed;
    const bool block = gateway_object_key_is_block(key, &parsed);
    enum kvt_err rc;

    if (block && is_busy(round, parsed.namespace_))
        return false;
    rc = gateway_removal_finish(round->context, key, NULL);
    if (rc == KVT_AGAIN && block && round->busy_count < BUSY_MAX)
        memcpy(round->busy[round->busy_count++], parsed.namespace_, KVT_NAMESPACE_MAX);
    else if (rc == KVT_AGAIN)
        round->over = true;
    return rc == KVT_OK;
}

/* Where a bucket does not answer, one that waited for it is enough. */
static bool
skips(struct round *round)
{
    if (!round->far_away)
        return false;
    round->tried--;
    round->skipped++;
    return true;
}

static bool
settle_move(struct round *round, const char *key)
{
    enum kvt_err rc;

    if (skips(round))
        return false;
    rc = gateway_move_settle(round->context, key);
    round->far_away = rc == KVT_UNAVAILABLE || rc == KVT_TIMEOUT;
    return rc == KVT_OK;
}

/* A removal that waits for the far bucket. */
static bool
settle_noted(struct round *round, const char *key)
{
    enum kvt_err rc;

    if (skips(round))
        return false;
    rc = gateway_removal_finish(round->context, key, NULL);
    round->far_away =
        rc == KVT_AGAIN && !gateway_bucket_tier_deletes(round->context->tiers.buckets);
    return rc == KVT_OK;
}

static bool
settle(struct round *round, const struct gateway_row *row)
{
    struct gateway_key_lock hold;
    bool settled;

    round->tried++;
    if (row->record.state == GATEWAY_RETIRING && row->record.moving != 0)
        return settle_noted(round, row->key);
    if (row->record.state == GATEWAY_RETIRING)
        return settle_retiring(round, row->key);
    if (row->record.state == GATEWAY_STORED)
        return settle_move(round, row->key);
    if (!gateway_key_lock_try_one(round->context->key_locks, &hold, row->key))
        return false; /* a PUT is at it right now */
    settled = settle_intent_held(round->context, row->key);
    gateway_key_lock_release(round->context->key_locks, &hold, 1);
    return settled;
}

static bool
may_go_on(const struct round *round)
{
    return !round->over && round->tried < GATEWAY_RECOVER_ROUND &&
           round->skipped < GATEWAY_RECOVER_SKIPS && kvt_clock_mono_ms() < round->until_ms &&
           gateway_bucket_tier_healthy(round->context->tiers.buckets) &&
           !atomic_load(&round->context->stopping);
}

/* Settle the rows of a page; false: the round ends here, at context->settled. */
static bool
settle_page(struct round *round, struct gateway_scan *scan)
{
    struct gateway_context *context = round->context;

    for (size_t i = 0; i < scan->count; i++) {
        const struct gateway_row *row = &scan->rows[i];

        if (round->around && strcmp(row->key, round->first) > 0) {
            context->settled[0] = '\0'; /* all were looked at */
            return false;
        }
        if (!may_go_on(round))
            return false;
        memcpy(context->settled, row->key, sizeof(context->settled));
        round->settled += settle(round, row) ? 1 : 0;
    }
    if (!scan->end)
        return true;
    context->settled[0] = '\0';
    scan->after[0] = '\0';
    if (round->around || round->first[0] == '\0')
        return false;
    round->around = true;
    return true;
}

size_t
gateway_recover_pending(struct gateway_context *context)
{
    struct gateway_row *rows = kvt_calloc(PAGE, sizeof(*rows));
    struct gateway_scan scan = {.pending = true, .rows = rows, .capacity = PAGE};
    struct round round = {.context = context, .until_ms = kvt_clock_mono_ms() + GATEWAY_RECOVER_MS};

    if (rows == NULL)
        return 0;
    memcpy(round.first, context->settled, sizeof(round.first));
    memcpy(scan.after, context->settled, sizeof(scan.after));
    while (may_go_on(&round) && gateway_catalog_scan(context->catalog, &scan) == KVT_OK &&
           settle_page(&round, &scan))
        continue;
    kvt_free(rows);
    gateway_stats_add(context->stats, GATEWAY_STAT_RESOLVED, round.settled);
    return round.settled;
}

static void
sweep(struct gateway_context *context, unsigned tier, const char *key)
{
    struct g4_request request = {.verb = G4_DELETE, .key = key};
    struct gateway_record record;
    struct gateway_key_lock hold;
    enum kvt_err rc;

    if (!gateway_key_lock_try_one(context->key_locks, &hold, key))
        return;
    rc = gateway_catalog_get(context->catalog, key, &record);
    if ((rc == KVT_NOTFOUND || (rc == KVT_OK && (record.tiers & tier) == 0)) &&
        g4_store_perform(gateway_tier_volume(&context->tiers, tier), &request) == KVT_OK)
        gateway_stats_add(context->stats, GATEWAY_STAT_ORPHANS, 1);
    gateway_key_lock_release(context->key_locks, &hold, 1);
}

enum kvt_err
gateway_recover_orphans(struct gateway_context *context, unsigned tier, char token[G4_TOKEN_MAX])
{
    struct g4_request request = {.verb = G4_LIST, .key = ""};
    struct g4_store *volume = gateway_tier_volume(&context->tiers, tier);
    enum kvt_err rc;

    if (volume == NULL) {
        token[0] = '\0';
        return KVT_OK;
    }
    request.listed = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*request.listed));
    if (request.listed == NULL)
        return KVT_NOMEM;
    memcpy(request.token, token, sizeof(request.token));
    rc = g4_store_perform(volume, &request);
    if (rc == KVT_OK) {
        memcpy(token, request.token, G4_TOKEN_MAX);
        for (size_t i = 0; i < request.listed_count; i++)
            sweep(context, tier, request.listed[i].key);
    }
    kvt_free(request.listed);
    return rc;
}
