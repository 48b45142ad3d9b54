/* What goes to the object tier, and under which lease: a turn is one part of the fence, taken when
 * there is something to be stored and held for some batches.  What was stored counts behind the
 * turn's end: then it is known that the part was ours all the while. */
#include <assert.h>

#include "base/core/clock.h"
#include "base/core/deadline.h"

#include "engine/leader/leader_internal.h"

enum { ROOM = 2 }; /* a batch begins with so many times as long as the longest before took */

struct kvbm_pool *
engine_store_pool(const struct engine_leader *leader, enum kvt_tier tier)
{
    return tier == KVT_TIER_G2 ? leader->options.g2 : leader->options.g3;
}

uint32_t
engine_store_part(const struct engine_leader *leader, const struct kvbm_label *label)
{
    const struct engine_fence *fence = leader->options.fence;

    return fence == NULL ? 0 : (uint32_t)(label->prefix_hash % fence->parts);
}

bool
engine_store_is_settled(enum kvt_err status)
{
    return engine_objects_is_well(status) || status == KVT_INVALID || status == KVT_RANGE ||
           status == KVT_CORRUPT || status == KVT_NOTFOUND || status == KVT_PRECONDITION ||
           status == KVT_UNSUPPORTED;
}

bool
engine_store_is_stopped(struct engine_leader *leader)
{
    bool stop;

    (void)pthread_mutex_lock(&leader->shared.lock);
    stop = leader->shared.store_stop;
    (void)pthread_mutex_unlock(&leader->shared.lock);
    return stop;
}

void
engine_store_note(struct engine_leader *leader, const uint64_t *hashes,
                  const enum kvt_err *statuses, size_t count)
{
    uint64_t stored = 0;
    uint64_t failed = 0;
    uint64_t again = 0;

    for (size_t i = 0; i < count; i++) {
        stored += statuses[i] == KVT_OK;
        failed += engine_store_is_settled(statuses[i]) && !engine_objects_is_well(statuses[i]);
        again += !engine_store_is_settled(statuses[i]);
        if (!engine_store_is_settled(statuses[i]))
            continue;
        kvbm_pool_mark_stored(leader->options.g2, hashes[i]);
        if (leader->options.g3 != NULL)
            kvbm_pool_mark_stored(leader->options.g3, hashes[i]);
    }
    engine_leader_count(leader, &leader->shared.stats.stored, stored);
    engine_leader_count(leader, &leader->shared.stats.store_failed, failed);
    engine_leader_count(leader, &leader->shared.stats.store_again, again);
}

/* ---- turns ---- */

/* Those of a batch that something is to be done with. */
struct picked {
    size_t count;
    size_t at[ENGINE_BATCH];
};

static void
say(const struct picked *picked, enum kvt_err *statuses, enum kvt_err status)
{
    for (size_t i = 0; i < picked->count; i++)
        statuses[picked->at[i]] = status;
}

static void
run_picked(struct engine_leader *leader, const struct engine_store_batch *batch,
           const struct picked *picked, enum engine_verb verb, uint64_t until_ms,
           enum kvt_err *statuses)
{
    struct kvbm_pool *pool = engine_store_pool(leader, batch->tier);
    struct engine_item items[ENGINE_BATCH] = {0};
    enum kvt_err came[ENGINE_BATCH];
    struct engine_job job = {
        .verb = verb,
        .from = verb == ENGINE_STORE ? batch->tier : (enum kvt_tier)0,
        .priority = batch->priority,
        .items = items,
        .count = picked->count,
    };

    for (size_t i = 0; i < picked->count; i++) {
        const struct kvt_handle handle = batch->handles[picked->at[i]];

        items[i] =
            (struct engine_item){.label = kvbm_pool_label(pool, handle), .source = handle.block};
    }
    engine_objects_run(leader, &job, until_ms, came);
    for (size_t i = 0; i < picked->count; i++)
        statuses[picked->at[i]] = came[i];
}

/* What the tier has is settled, and so is, for now, what it could not say of; the rest is picked.
 */
static void
ask(struct engine_leader *leader, const struct engine_store_batch *batch, struct picked *picked,
    enum kvt_err *statuses)
{
    size_t missing = 0;

    if (batch->ask)
        run_picked(leader, batch, picked, ENGINE_ASK, batch->until_ms, statuses);
    for (size_t i = 0; i < batch->count && batch->ask; i++) {
        if (statuses[i] == KVT_OK)
            statuses[i] = KVT_EXISTS;
        if (statuses[i] == KVT_NOTFOUND)
            picked->at[missing++] = i;
    }
    if (batch->ask)
        picked->count = missing;
}

void
engine_store_turn_open(struct engine_store_turn *turn, struct engine_leader *leader, uint32_t part)
{
    *turn = (struct engine_store_turn){.leader = leader, .part = part, .rc = KVT_UNSUPPORTED};
}

static enum kvt_err
begin(struct engine_store_turn *turn)
{
    const struct engine_fence *fence = turn->leader->options.fence;

    if (!turn->begun && fence != NULL)
        turn->rc = fence->acquire(fence->arg, turn->part, &turn->lease);
    turn->begun = true;
    return turn->rc == KVT_UNSUPPORTED ? KVT_OK : turn->rc;
}

/* The lease bounds the job, so that ranks stop by themselves when nobody tells them to. */
void
engine_store_turn_store(struct engine_store_turn *turn, const struct engine_store_batch *batch,
                        enum kvt_err *statuses, bool *ours)
{
    struct picked picked = {.count = batch->count};
    const uint64_t began_ms = kvt_clock_mono_ms();
    uint64_t until_ms = batch->until_ms;
    enum kvt_err rc;

    assert(batch->count <= ENGINE_BATCH);
    for (size_t i = 0; i < batch->count; i++) {
        picked.at[i] = i;
        ours[i] = false;
    }
    ask(turn->leader, batch, &picked, statuses);
    if (picked.count == 0)
        return;
    rc = engine_store_is_stopped(turn->leader) ? KVT_CANCELLED : begin(turn);
    if (rc != KVT_OK) {
        say(&picked, statuses, rc);
        return;
    }
    if (turn->rc == KVT_OK && turn->lease.stop_ms < until_ms)
        until_ms = turn->lease.stop_ms;
    run_picked(turn->leader, batch, &picked, ENGINE_STORE, until_ms, statuses);
    for (size_t i = 0; i < picked.count; i++)
        ours[picked.at[i]] = turn->rc == KVT_OK;
    if (kvt_clock_mono_ms() - began_ms > turn->longest_ms)
        turn->longest_ms = kvt_clock_mono_ms() - began_ms;
}

bool
engine_store_turn_goes_on(const struct engine_store_turn *turn)
{
    if (!turn->begun)
        return true;
    if (turn->rc !=
        KVT_OK) /* there are no leases; or none for us, and what is there can be found */
        return turn->rc != KVT_UNSUPPORTED;
    return kvt_deadline_left(turn->lease.stop_ms) > ROOM * turn->longest_ms;
}

bool
engine_store_turn_end(struct engine_store_turn *turn)
{
    const struct engine_fence *fence = turn->leader->options.fence;

    return !turn->begun || turn->rc != KVT_OK ||
           fence->release(fence->arg, turn->part, &turn->lease) != KVT_PRECONDITION;
}

/* ---- a batch of any parts ---- */

/* The blocks of one part, from `first` on; `done` says which were. */
static void
put_part(struct engine_leader *leader, const struct engine_store_batch *batch, uint32_t part,
         const uint32_t *parts, bool *done, enum kvt_err *statuses)
{
    struct kvt_handle handles[ENGINE_BATCH];
    struct engine_store_batch own = *batch;
    enum kvt_err came[ENGINE_BATCH];
    size_t at[ENGINE_BATCH];
    bool ours[ENGINE_BATCH];
    struct engine_store_turn turn;
    bool lasted;

    own.handles = handles;
    own.count = 0;
    for (size_t i = 0; i < batch->count; i++) {
        if (parts[i] != part)
            continue;
        at[own.count] = i;
        handles[own.count++] = batch->handles[i];
        done[i] = true;
    }
    engine_store_turn_open(&turn, leader, part);
    engine_store_turn_store(&turn, &own, came, ours);
    lasted = engine_store_turn_end(&turn);
    for (size_t i = 0; i < own.count; i++)
        statuses[at[i]] = ours[i] && !lasted ? KVT_BUSY : came[i];
}

void
engine_store_put(struct engine_leader *leader, const struct engine_store_batch *batch,
                 enum kvt_err *statuses)
{
    struct kvbm_pool *pool = engine_store_pool(leader, batch->tier);
    uint64_t hashes[ENGINE_BATCH];
    uint32_t parts[ENGINE_BATCH];
    bool done[ENGINE_BATCH] = {false};

    assert(batch->count <= ENGINE_BATCH);
    for (size_t i = 0; i < batch->count; i++) {
        const struct kvbm_label label = kvbm_pool_label(pool, batch->handles[i]);

        hashes[i] = label.id.hash;
        parts[i] = engine_store_part(leader, &label);
    }
    for (size_t i = 0; i < batch->count; i++)
        if (!done[i])
            put_part(leader, batch, parts[i], parts, done, statuses);
    engine_store_note(leader, hashes, statuses, batch->count);
}
