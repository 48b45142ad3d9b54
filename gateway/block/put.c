#include "gateway/block/put.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "g4/object/check.h"
#include "g4/object/pieces.h"
#include "gateway/block/claim.h"
#include "gateway/block/claim_settle.h"
#include "gateway/block/damage.h"
#include "gateway/block/recheck.h"
#include "gateway/block/unsynced.h"
#include "gateway/tier/body_read.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/key_lock.h"
#include "gateway/tier/object_key.h"
#include "gateway/tier/store_batch.h"

/* How far one item got. */
enum step {
    STEP_REFUSED, /* status says why; nothing of it is anywhere */
    STEP_KNOWN,   /* our catalog says that the bucket has it: if it still does, it is done */
    STEP_DONE,    /* was there already */
    STEP_THROUGH, /* to be acknowledged when the bucket has it: its claim says how far that is */
    STEP_BACK,    /* to be acknowledged from its hot copy */
};

struct work {
    enum step step;
    bool intended; /* its intent was written */
    bool hot;      /* a hot copy was written, or is to be */
    bool unsynced; /* ... and is not synced: the bucket's copy is what counts */
    bool had;      /* there was a row: `before` */
    struct gateway_record before;
};

struct putting {
    struct gateway_context *context;
    struct gateway_put_item *items;
    struct work *work;
    struct gateway_claim *claims;
    struct gateway_change *changes;
    size_t count;
};

void
gateway_put_intent(const struct gateway_context *context, const struct gateway_put_item *item,
                   struct gateway_record *record)
{
    *record = (struct gateway_record){.state = GATEWAY_INTENT,
                                      .tiers = GATEWAY_COLD,
                                      .length = item->size,
                                      .crc32c = item->crc32c,
                                      .fingerprint = item->fingerprint,
                                      .modified_ms = kvt_clock_unix_ms()};
    memcpy(record->writer, context->identity.name, sizeof(record->writer));
}

static bool
same_content(const struct gateway_put_item *item, const struct gateway_record *record)
{
    return record->length == item->size && record->crc32c == item->crc32c &&
           (record->fingerprint == item->fingerprint || item->fingerprint == 0);
}

static void
refuse(struct putting *putting, size_t index, enum kvt_err status)
{
    putting->work[index].step = STEP_REFUSED;
    putting->items[index].status = status;
}

static enum kvt_err
validate(const struct gateway_context *context, const struct gateway_put_item *item)
{
    if (!gateway_object_key_is_stored(item->key) || !gateway_object_key_is_block(item->key, NULL) ||
        item->size == 0)
        return KVT_INVALID;
    if (item->size > context->body_limits.object_max)
        return KVT_RANGE;
    if (item->pieces != NULL)
        return g4_pieces_fit(item->pieces, item->size, item->crc32c) ? KVT_OK : KVT_CORRUPT;
    return g4_check_crc32c(item->body, item->size) == item->crc32c ? KVT_OK : KVT_CORRUPT;
}

/* Was its content acknowledged to somebody?  Then no other may take its place. */
static bool
is_acknowledged(const struct gateway_record *record)
{
    if (record->foreign) /* not by us; its bytes are not compared on the row's word alone */
        return false;
    return record->state == GATEWAY_STORED || (record->state == GATEWAY_INTENT && record->kept);
}

/* May it be acknowledged from its hot copy?  Only where nothing of the key is in the bucket by us:
 * what is there may have to be written anew, and only the bucket can say. */
static bool
may_owe(const struct gateway_context *context, const struct work *work)
{
    if (!context->write_back.allowed || context->tiers.hot == NULL ||
        !gateway_bucket_tier_proven(context->tiers.buckets))
        return false;
    return !work->had || (work->before.state == GATEWAY_INTENT && work->before.owed);
}

/* Does the only copy of this owed block do?  It is what the acknowledgement of a repeat stands on,
 * so it is read; where it is bad, the client's bytes, which are the same, take its place. */
static enum kvt_err
ensure_hot(struct putting *putting, size_t index)
{
    const struct gateway_put_item *item = &putting->items[index];
    const struct gateway_record *known = &putting->work[index].before;
    struct gateway_context *context = putting->context;
    struct g4_request write = {
        .verb = G4_PUT, .key = item->key, .body = item->body, .body_size = item->size};
    struct g4_request read;
    enum kvt_err rc;

    rc =
        gateway_body_read_block(&context->body_limits, context->tiers.hot, item->key, known, &read);
    if (rc == KVT_CORRUPT)
        gateway_damage_keep(context, item->key, 0, read.buffer, read.buffer_size, read.error.text);
    gateway_body_release(&context->body_limits, &read);
    if (rc != KVT_CORRUPT && rc != KVT_NOTFOUND)
        return rc;
    gateway_record_meta(known, &write.meta);
    return g4_store_perform(context->tiers.hot, &write);
}

static void
set_present(struct putting *putting, size_t index)
{
    struct gateway_put_item *item = &putting->items[index];

    putting->work[index].step = STEP_DONE;
    item->status = KVT_OK;
    item->present = true;
    memcpy(item->etag, putting->work[index].before.etag, sizeof(item->etag));
}

static void
present_owed(struct putting *putting, size_t index)
{
    if (ensure_hot(putting, index) == KVT_OK)
        set_present(putting, index);
    else
        refuse(putting, index, KVT_AGAIN);
}

/* Was this very content acknowledged, and in the bucket at one time?  Then what lies there without
 * our metadata was put over it. */
static bool
was_in_bucket(const struct gateway_put_item *item, const struct work *work)
{
    const struct gateway_record *known = &work->before;

    return work->had && known->state == GATEWAY_STORED && !known->owed &&
           (!known->foreign || known->overwritten) && same_content(item, known);
}

/* Does a HEAD decide?  Of an object without our metadata whose bytes are known it does, too. */
static bool
may_confirm(const struct gateway_record *known)
{
    return gateway_record_in_bucket(known) &&
           (is_acknowledged(known) || (known->summed && !known->overwritten));
}

/* What the catalog knows decides most repeats without sending their bodies. */
static void
decide(struct putting *putting, size_t index)
{
    struct gateway_put_item *item = &putting->items[index];
    struct work *work = &putting->work[index];
    const struct gateway_record *known = &work->before;
    enum kvt_err rc;

    rc = gateway_catalog_get(putting->context->catalog, item->key, &work->before);
    if (rc != KVT_OK && rc != KVT_NOTFOUND) {
        refuse(putting, index, rc);
        return;
    }
    work->had = rc == KVT_OK;
    work->step = may_owe(putting->context, work) ? STEP_BACK : STEP_THROUGH;
    putting->claims[index] = (struct gateway_claim){
        .key = item->key,
        .body = item->body,
        .size = item->size,
        .crc32c = item->crc32c,
        .fingerprint = item->fingerprint,
        .writer = putting->context->identity.name,
        .rewrite = work->had && known->state == GATEWAY_RETIRING,
        .noted = work->had && known->state == GATEWAY_RETIRING && known->moving != 0,
        .acknowledged = was_in_bucket(item, work)};
    if (work->had && may_confirm(known))
        work->step = STEP_KNOWN;
    if (!work->had || !is_acknowledged(known) || work->step == STEP_KNOWN)
        return;
    if (!same_content(item, known))
        refuse(putting, index, KVT_PRECONDITION);
    else if (gateway_record_waits(known))
        present_owed(putting, index);
}

/* An object without our metadata lies there.  The row decides: it knows these bytes, or other ones
 * that were acknowledged under the key. */
static void
confirm_bare(struct putting *putting, size_t index, const struct g4_request *head)
{
    struct work *work = &putting->work[index];
    const struct gateway_record *known = &work->before;
    const bool seen = gateway_damage_is_known_bare(head, known);
    const bool same = same_content(&putting->items[index], known);

    if (!same && (seen || !known->foreign)) {
        refuse(putting, index, KVT_PRECONDITION);
    } else if (seen && !known->foreign) {
        gateway_recheck_seen(putting->context->recheck, putting->items[index].key);
        set_present(putting, index);
    } else {
        work->step = STEP_THROUGH; /* its bytes decide; of known ones the row becomes a block's */
    }
}

/* The bucket's word on a block that the catalog says it has.  What is not there, or is not the
 * block, is put as if nobody had known it: the PUT's own answers decide. */
static void
on_confirmed(void *arg, struct g4_request *request, size_t index)
{
    struct putting *putting = arg;
    struct work *work = &putting->work[index];
    const struct gateway_record *known = &work->before;
    const bool same = same_content(&putting->items[index], known);

    if (request->status == KVT_OK &&
        gateway_damage_shows(request, known->length, known->crc32c, known->fingerprint)) {
        gateway_recheck_seen(putting->context->recheck, putting->items[index].key);
        if (same)
            set_present(putting, index);
        else
            refuse(putting, index, KVT_PRECONDITION);
    } else if (request->status == KVT_OK && gateway_damage_is_bare(request)) {
        confirm_bare(putting, index, request);
    } else if (gateway_damage_judged(request->status)) {
        work->step = STEP_THROUGH;
        work->had = same; /* a row of other bytes than these speaks of nothing any more */
    } else {
        refuse(putting, index,
               gateway_bucket_tier_ended(putting->context->tiers.buckets, request->status));
    }
}

/* Another gateway, a lifecycle rule or a person may have removed what our rows speak of: nothing is
 * acknowledged on their word alone. */
static void
confirm(struct putting *putting)
{
    struct gateway_context *context = putting->context;
    struct gateway_store_batch *flight = NULL;
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < putting->count; i++) {
        if (putting->work[i].step != STEP_KNOWN)
            continue;
        if (flight == NULL && rc == KVT_OK)
            rc = gateway_store_batch_new(&flight, putting->count - i, on_confirmed, putting);
        if (rc != KVT_OK || !gateway_bucket_tier_healthy(context->tiers.buckets)) {
            refuse(putting, i, rc != KVT_OK ? rc : KVT_UNAVAILABLE);
            continue;
        }
        gateway_store_batch_head(flight, gateway_bucket_tier_store(context->tiers.buckets),
                                 putting->items[i].key, i);
    }
    gateway_store_batch_free(flight);
}

/* May the far bucket have what the row before spoke of, or was to remove? */
static bool
may_be_far(const struct work *work)
{
    return work->had && ((work->before.tiers | work->before.moving) & GATEWAY_FAR) != 0;
}

/* Write the intents of `step`, all in one transaction; what does not fit under a cap is refused
 * here, and what the backlog has no room for goes to the bucket. */
static void
reserve(struct putting *putting, enum step step, enum gateway_catalog_wait wait)
{
    struct gateway_context *context = putting->context;
    struct gateway_catalog_stats stats;
    uint64_t unsynced_bytes = 0;
    uint64_t unsynced = 0;
    size_t used = 0;
    enum kvt_err rc;

    for (size_t i = 0; i < putting->count; i++) {
        struct gateway_change *change = &putting->changes[used];
        struct work *work = &putting->work[i];

        if (work->step != step)
            continue;
        if (step == STEP_THROUGH && !gateway_bucket_tier_writable(context->tiers.buckets)) {
            refuse(putting, i, KVT_UNAVAILABLE);
            continue;
        }
        *change = (struct gateway_change){.key = putting->items[i].key, .reserve = true};
        gateway_put_intent(context, &putting->items[i], &change->record);
        if (context->tiers.hot != NULL)
            change->record.tiers |= GATEWAY_HOT;
        change->record.owed = step == STEP_BACK;
        change->record.moving =
            may_be_far(work) ? GATEWAY_FAR : 0; /* whatever becomes of the PUT */
        change->record.kept = work->had && is_acknowledged(&work->before);
        used++;
    }
    rc = gateway_catalog_change(context->catalog, putting->changes, used, wait);
    gateway_catalog_stats(context->catalog, &stats);
    used = 0;
    for (size_t i = 0; i < putting->count; i++) {
        const struct gateway_change *change = &putting->changes[used];
        struct work *work = &putting->work[i];

        if (work->step != step)
            continue;
        used++;
        work->hot = (change->record.tiers & GATEWAY_HOT) != 0;
        if (rc != KVT_OK || change->status != KVT_OK) {
            refuse(putting, i, rc != KVT_OK ? rc : change->status);
            continue;
        }
        work->intended = true;
        /* A kept copy may be all there is of the block: what takes its place is synced. */
        work->unsynced =
            step == STEP_THROUGH && work->hot && !change->record.kept &&
            gateway_unsynced_room(&stats, unsynced + 1, unsynced_bytes + putting->items[i].size);
        unsynced += work->unsynced ? 1 : 0;
        unsynced_bytes += work->unsynced ? putting->items[i].size : 0;
        if (step == STEP_BACK && !change->record.owed) {
            work->step = STEP_THROUGH;
            gateway_stats_add(context->stats, GATEWAY_STAT_BACKLOG_FULL, 1);
        }
    }
}

static void
on_written(void *arg, struct g4_request *request, size_t index)
{
    struct putting *putting = arg;
    struct work *work = &putting->work[index / 2];

    if (index % 2 == 1) {
        gateway_claim_landed(putting->context, &putting->claims[index / 2], request);
        return;
    }
    work->hot = request->status == KVT_OK; /* without one the bucket serves */
    memcpy(putting->items[index / 2].etag, request->etag, sizeof(request->etag));
}

static void
write_hot(struct putting *putting, struct gateway_store_batch *flight, size_t index)
{
    const struct gateway_put_item *item = &putting->items[index];
    struct g4_request *request = gateway_store_batch_prepare(flight, 2 * index);

    request->verb = G4_PUT;
    request->key = item->key;
    request->body = item->body;
    request->body_size = item->size;
    request->pieces = item->pieces;
    request->unsynced = putting->work[index].unsynced;
    gateway_claim_meta(&putting->claims[index], &request->meta);
    gateway_store_batch_submit(flight, putting->context->tiers.hot, request);
}

/* Write what the intents of `step` speak of: hot copies, and those in the bucket beside them. */
static void
write_copies(struct putting *putting, struct gateway_store_batch *flight, enum step step)
{
    for (size_t i = 0; i < putting->count; i++) {
        if (putting->work[i].step != step)
            continue;
        if (putting->work[i].hot)
            write_hot(putting, flight, i);
        if (step == STEP_THROUGH)
            gateway_claim_send(putting->context, flight, &putting->claims[i], 2 * i + 1);
    }
    gateway_store_batch_drain(flight);
}

/* Blocks to be acknowledged from their hot copies.  Their intents only keep the room: a crash
 * leaves at most a hot file without a row.  What the hot volume refuses goes to the bucket. */
static void
write_back(struct putting *putting, struct gateway_store_batch *flight)
{
    reserve(putting, STEP_BACK, GATEWAY_APPLIED);
    write_copies(putting, flight, STEP_BACK);
    for (size_t i = 0; i < putting->count; i++)
        if (putting->work[i].step == STEP_BACK && !putting->work[i].hot)
            putting->work[i].step = STEP_THROUGH;
}

/* Blocks to be acknowledged when the bucket has them.  Whatever happens, their intents say where to
 * look: they are durable first. */
static void
write_through(struct putting *putting, struct gateway_store_batch *flight)
{
    reserve(putting, STEP_THROUGH, GATEWAY_DURABLE);
    write_copies(putting, flight, STEP_THROUGH);
    gateway_claim_settle(putting->context, putting->claims, putting->count);
    for (size_t i = 0; i < putting->count; i++) {
        const struct gateway_claim *claim = &putting->claims[i];

        if (putting->work[i].step != STEP_THROUGH)
            continue;
        if (claim->state == GATEWAY_CLAIM_STORED)
            gateway_recheck_seen(putting->context->recheck, claim->key);
        putting->items[i].status = claim->status;
        putting->items[i].present = claim->present;
        memcpy(putting->items[i].etag, claim->etag, sizeof(claim->etag));
        if (claim->state == GATEWAY_CLAIM_REFUSED)
            refuse(putting, i, claim->status);
    }
}

/* Is it where it is acknowledged from? */
static bool
is_written(const struct putting *putting, size_t index)
{
    const enum step step = putting->work[index].step;

    return step == STEP_BACK ||
           (step == STEP_THROUGH && putting->claims[index].state == GATEWAY_CLAIM_STORED);
}

/* Is it stored anew in the first bucket, while the far one may still have what was to be removed?
 * Then it is as after a move whose source has not gone yet. */
static bool
leaves_far(const struct work *work, const struct gateway_claim *claim)
{
    return may_be_far(work) && claim->tier == GATEWAY_COLD;
}

/* Rows of what is stored, and no rows of what is not.  An owed block's row is all that a restart
 * knows of it: durable before anybody hears of it. */
static void
publish(struct putting *putting)
{
    struct gateway_context *context = putting->context;
    enum gateway_catalog_wait wait = GATEWAY_APPLIED;
    size_t used = 0;
    enum kvt_err rc;

    for (size_t i = 0; i < putting->count; i++) {
        struct gateway_change *change = &putting->changes[used];
        const struct gateway_put_item *item = &putting->items[i];
        const bool owed = putting->work[i].step == STEP_BACK;

        if (!is_written(putting, i))
            continue;
        *change = (struct gateway_change){.key = item->key};
        gateway_put_intent(context, item, &change->record);
        change->record.state = GATEWAY_STORED;
        change->record.owed = owed;
        change->record.tiers =
            (owed ? 0u : putting->claims[i].tier) | (putting->work[i].hot ? GATEWAY_HOT : 0u);
        if (leaves_far(&putting->work[i], &putting->claims[i]) && !owed) {
            change->record.tiers |= GATEWAY_FAR;
            change->record.moving = GATEWAY_COLD;
        }
        memcpy(change->record.etag, item->etag, sizeof(item->etag));
        change->unsynced = putting->work[i].hot && putting->work[i].unsynced;
        wait = owed ? GATEWAY_DURABLE : wait;
        used++;
    }
    rc = gateway_catalog_change(context->catalog, putting->changes, used, wait);
    used = 0;
    for (size_t i = 0; i < putting->count; i++) {
        bool known;

        if (!is_written(putting, i))
            continue;
        /* Without its row the block is not acknowledged; the intent finds it again. */
        known = rc == KVT_OK && putting->changes[used++].status == KVT_OK;
        putting->items[i].status = known ? KVT_OK : KVT_AGAIN;
        if (known && putting->work[i].step == STEP_BACK)
            gateway_stats_add(context->stats, GATEWAY_STAT_BACKLOG_ADDED, 1);
        putting->work[i].step = STEP_DONE;
    }
}

/* A refusal after the intent leaves things as they were before it: no row and no hot copy, or the
 * row that was there, with the copy it speaks of. */
static void
withdraw(struct putting *putting)
{
    struct gateway_context *context = putting->context;
    size_t used = 0;

    for (size_t i = 0; i < putting->count; i++) {
        struct g4_request request = {.verb = G4_DELETE, .key = putting->items[i].key};
        const struct work *work = &putting->work[i];

        if (!work->intended || work->step != STEP_REFUSED)
            continue;
        if (work->hot && !(work->had && is_acknowledged(&work->before)))
            (void)!g4_store_perform(context->tiers.hot, &request);
        putting->changes[used++] = (struct gateway_change){
            .key = putting->items[i].key, .erase = !work->had, .record = work->before};
    }
    (void)!gateway_catalog_change(context->catalog, putting->changes, used, GATEWAY_APPLIED);
}

static void
count_outcomes(struct putting *putting)
{
    struct gateway_stats *stats = putting->context->stats;

    for (size_t i = 0; i < putting->count; i++) {
        const struct gateway_put_item *item = &putting->items[i];

        switch (item->status) {
        case KVT_OK:
            gateway_stats_add(stats, item->present ? GATEWAY_STAT_PRESENT : GATEWAY_STAT_STORED, 1);
            gateway_stats_add(stats, GATEWAY_STAT_BYTES_IN, item->size);
            break;
        case KVT_PRECONDITION: gateway_stats_add(stats, GATEWAY_STAT_CONFLICT, 1); break;
        case KVT_FULL: gateway_stats_add(stats, GATEWAY_STAT_REFUSED_FULL, 1); break;
        default: gateway_stats_add(stats, GATEWAY_STAT_PUT_FAILED, 1); break;
        }
    }
}

/* With all valid keys held: everything but counting. */
static void
put_held(struct putting *putting, struct gateway_store_batch *flight)
{
    for (size_t i = 0; i < putting->count; i++)
        if (putting->work[i].step != STEP_REFUSED)
            decide(putting, i);
    confirm(putting);
    write_back(putting, flight);
    write_through(putting, flight);
    publish(putting);
    withdraw(putting);
}

struct mention {
    uint64_t hash;
    size_t index;
};

static int
compare_mentions(const void *left, const void *right)
{
    const struct mention *a = left;
    const struct mention *b = right;

    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* The hold keeps other calls off a key, not this one: so a key is written once a call, and who
 * named it again is to ask again.  False: no memory. */
static bool
refuse_repeats(struct putting *putting)
{
    struct mention *mentions = kvt_calloc(putting->count, sizeof(*mentions));
    size_t used = 0;

    if (mentions == NULL)
        return false;
    for (size_t i = 0; i < putting->count; i++) {
        struct gateway_key_lock hold;

        if (putting->work[i].step == STEP_REFUSED)
            continue;
        gateway_key_lock_init(&hold, putting->items[i].key);
        mentions[used++] = (struct mention){.hash = hold.hash, .index = i};
    }
    qsort(mentions, used, sizeof(*mentions), compare_mentions);
    for (size_t i = 1; i < used; i++)
        if (mentions[i].hash == mentions[i - 1].hash)
            refuse(putting, mentions[i].index, KVT_AGAIN);
    kvt_free(mentions);
    return true;
}

/* Hold what is valid.  A hold table takes one array, so the holds of the valid items are gathered.
 */
static struct gateway_key_lock *
hold_valid(struct putting *putting, size_t *held)
{
    struct gateway_key_lock *holds = kvt_calloc(putting->count, sizeof(*holds));

    *held = 0;
    if (holds == NULL)
        return NULL;
    for (size_t i = 0; i < putting->count; i++)
        if (putting->work[i].step != STEP_REFUSED)
            gateway_key_lock_init(&holds[(*held)++], putting->items[i].key);
    gateway_key_lock_acquire(putting->context->key_locks, holds, *held);
    return holds;
}

void
gateway_put_blocks(struct gateway_context *context, struct gateway_put_item *items, size_t count)
{
    struct putting putting = {.context = context, .items = items, .count = count};
    struct gateway_store_batch *flight = NULL;
    struct gateway_key_lock *holds = NULL;
    size_t held = 0;

    assert(count <= GATEWAY_BATCH_REQUEST_KEYS_MAX);
    if (count == 0)
        return;
    putting.work = kvt_calloc(count, sizeof(*putting.work));
    putting.changes = kvt_calloc(count, sizeof(*putting.changes));
    putting.claims = kvt_calloc(count, sizeof(*putting.claims));
    for (size_t i = 0; i < count; i++) {
        items[i].status = KVT_NOMEM;
        items[i].present = false;
        items[i].etag[0] = '\0';
    }
    if (putting.work == NULL || putting.changes == NULL || putting.claims == NULL ||
        gateway_store_batch_new(&flight, 2 * count, on_written, &putting) != KVT_OK)
        goto done;
    for (size_t i = 0; i < count; i++) {
        const enum kvt_err rc = validate(context, &items[i]);

        putting.work[i].step = STEP_THROUGH;
        if (rc != KVT_OK)
            refuse(&putting, i, rc);
    }
    if (!refuse_repeats(&putting) || (holds = hold_valid(&putting, &held)) == NULL)
        goto done;
    put_held(&putting, flight);
    gateway_key_lock_release(context->key_locks, holds, held);

done:
    count_outcomes(&putting);
    gateway_store_batch_free(flight);
    kvt_free(holds);
    kvt_free(putting.claims);
    kvt_free(putting.changes);
    kvt_free(putting.work);
}
