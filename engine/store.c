/* What goes to the object tier: batches under their fences, and the thread that stores what was
 * registered: in its turn while it is in G2, and from wherever it is by then when its turn has
 * passed.  Pools say what is not stored, so nothing else has to be remembered. */
#include <assert.h>

#include "base/clock.h"
#include "base/cond.h"
#include "base/deadline.h"

#include "engine/match_internal.h"

enum {
    LOOKS = 4096, /* blocks looked at under one lock of a pool */
    LONGER = 8,   /* times as long between two tries at most */
};

/* ---- a batch ---- */

static struct kvbm_pool *
pool_of(const struct engine_leader *leader, enum kvt_tier tier)
{
    return tier == KVT_TIER_G2 ? leader->options.g2 : leader->options.g3;
}

/* It would be refused again: what is wrong is the block, or how it is called. */
static bool
is_final(enum kvt_err status)
{
    return status == KVT_INVALID || status == KVT_RANGE || status == KVT_CORRUPT ||
           status == KVT_NOTFOUND || status == KVT_PRECONDITION || status == KVT_UNSUPPORTED;
}

static bool
is_stopped(struct engine_leader *leader)
{
    bool stop;

    (void)pthread_mutex_lock(&leader->shared.lock);
    stop = leader->shared.store_stop;
    (void)pthread_mutex_unlock(&leader->shared.lock);
    return stop;
}

/* Some of the blocks of a batch: those that are not settled yet, of one part of the fence. */
struct part {
    uint32_t number;
    size_t count;
    size_t at[ENGINE_BATCH];
};

static void
say(const struct part *part, enum kvt_err *statuses, enum kvt_err status)
{
    for (size_t i = 0; i < part->count; i++)
        statuses[part->at[i]] = status;
}

static void
run_part(struct engine_leader *leader, const struct engine_store_batch *batch,
         const struct kvbm_label *labels, const struct part *part, enum engine_verb verb,
         uint64_t until_ms, enum kvt_err *statuses)
{
    struct engine_item items[ENGINE_BATCH] = {0};
    enum kvt_err came[ENGINE_BATCH];
    struct engine_job job = {
        .verb = verb,
        .from = verb == ENGINE_STORE ? batch->tier : (enum kvt_tier)0,
        .priority = batch->priority,
        .items = items,
        .count = part->count,
    };

    for (size_t i = 0; i < part->count; i++)
        items[i] = (struct engine_item){.label = labels[part->at[i]],
                                        .source = batch->handles[part->at[i]].block};
    engine_objects_run(leader, &job, until_ms, came);
    for (size_t i = 0; i < part->count; i++)
        statuses[part->at[i]] = came[i];
}

/* The lease bounds the job, so that ranks stop by themselves when nobody tells them to.  A batch
 * whose lease was lost is not known to be ours: it is asked for when its turn comes again. */
static void
put_part(struct engine_leader *leader, const struct engine_store_batch *batch,
         const struct kvbm_label *labels, const struct part *part, enum kvt_err *statuses)
{
    const struct engine_fence *fence = leader->options.fence;
    struct engine_lease lease = {0};
    uint64_t until_ms = batch->until_ms;
    enum kvt_err rc = KVT_UNSUPPORTED;

    if (fence != NULL)
        rc = fence->acquire(fence->arg, part->number, &lease);
    if (rc != KVT_OK && rc != KVT_UNSUPPORTED) {
        say(part, statuses, rc);
        return;
    }
    if (rc == KVT_OK && lease.stop_ms < until_ms)
        until_ms = lease.stop_ms;
    run_part(leader, batch, labels, part, ENGINE_STORE, until_ms, statuses);
    if (rc == KVT_OK && fence->release(fence->arg, part->number, &lease) == KVT_PRECONDITION)
        say(part, statuses, KVT_BUSY);
}

/* What the tier has is settled, and what it could not say of, for now. */
static void
ask(struct engine_leader *leader, const struct engine_store_batch *batch,
    const struct kvbm_label *labels, bool *settled, enum kvt_err *statuses)
{
    struct part all = {.count = batch->count};

    for (size_t i = 0; i < batch->count; i++)
        all.at[i] = i;
    run_part(leader, batch, labels, &all, ENGINE_ASK, batch->until_ms, statuses);
    for (size_t i = 0; i < batch->count; i++) {
        if (statuses[i] == KVT_OK)
            statuses[i] = KVT_EXISTS;
        settled[i] = statuses[i] != KVT_NOTFOUND;
    }
}

static void
note(struct engine_leader *leader, const struct engine_store_batch *batch,
     const struct kvbm_label *labels, const enum kvt_err *statuses)
{
    struct kvbm_pool *here = pool_of(leader, batch->tier);
    struct kvbm_pool *other = here == leader->options.g2 ? leader->options.g3 : leader->options.g2;
    uint64_t stored = 0;
    uint64_t failed = 0;
    uint64_t again = 0;

    for (size_t i = 0; i < batch->count; i++) {
        stored += statuses[i] == KVT_OK;
        if (engine_objects_is_well(statuses[i])) {
            kvbm_pool_mark_saved(here, batch->handles[i]);
        } else if (is_final(statuses[i])) {
            failed++;
        } else {
            again++;
            continue;
        }
        kvbm_pool_mark_stored(here, labels[i].id.hash);
        if (other != NULL)
            kvbm_pool_mark_stored(other, labels[i].id.hash);
    }
    engine_leader_count(leader, &leader->shared.stats.stored, stored);
    engine_leader_count(leader, &leader->shared.stats.store_failed, failed);
    engine_leader_count(leader, &leader->shared.stats.store_again, again);
}

void
engine_store_put(struct engine_leader *leader, const struct engine_store_batch *batch,
                 enum kvt_err *statuses)
{
    const struct engine_fence *fence = leader->options.fence;
    const uint64_t parts = fence == NULL ? 1 : fence->parts;
    struct kvbm_label labels[ENGINE_BATCH] = {0};
    bool settled[ENGINE_BATCH] = {false};

    assert(batch->count <= ENGINE_BATCH);
    for (size_t i = 0; i < batch->count; i++)
        labels[i] = kvbm_pool_label(pool_of(leader, batch->tier), batch->handles[i]);
    if (batch->ask)
        ask(leader, batch, labels, settled, statuses);
    for (size_t first = 0; first < batch->count; first++) {
        struct part part = {.number = (uint32_t)(labels[first].prefix_hash % parts)};

        for (size_t i = first; i < batch->count && !settled[first]; i++)
            if (!settled[i] && labels[i].prefix_hash % parts == part.number)
                part.at[part.count++] = i;
        for (size_t i = 0; i < part.count; i++)
            settled[part.at[i]] = true;
        if (part.count > 0 && is_stopped(leader))
            say(&part, statuses, KVT_CANCELLED);
        else if (part.count > 0)
            put_part(leader, batch, labels, &part, statuses);
    }
    note(leader, batch, labels, statuses);
}

/* ---- the thread ---- */

void
engine_store_owe_locked(struct engine_leader *leader)
{
    if (!leader->options.store || leader->shared.sweep_ms != UINT64_MAX)
        return;
    leader->shared.sweep_ms = kvt_clock_mono_ms() + leader->options.store_again_ms;
    (void)pthread_cond_signal(&leader->shared.store);
}

void
engine_store_owe(struct engine_leader *leader)
{
    (void)pthread_mutex_lock(&leader->shared.lock);
    engine_store_owe_locked(leader);
    (void)pthread_mutex_unlock(&leader->shared.lock);
}

/* The oldest arrivals that are in G2 and not stored, held.  `sweep`: one is due. */
static size_t
take_arrivals(struct engine_leader *leader, struct kvt_handle *handles, bool *sweep)
{
    size_t count;
    size_t held = 0;

    (void)pthread_mutex_lock(&leader->shared.lock);
    while (leader->shared.store_count == 0 && !leader->shared.store_stop &&
           kvt_clock_mono_ms() < leader->shared.sweep_ms) {
        const uint64_t left_ms = kvt_deadline_left(leader->shared.sweep_ms);
        const struct timespec deadline =
            kvt_cond_deadline(left_ms > UINT32_MAX ? UINT32_MAX : left_ms);

        (void)kvt_cond_wait(&leader->shared.store, &leader->shared.lock, &deadline);
    }
    *sweep = kvt_clock_mono_ms() >= leader->shared.sweep_ms;
    count = leader->shared.store_count < ENGINE_BATCH ? leader->shared.store_count : ENGINE_BATCH;
    for (size_t i = 0; i < count; i++)
        handles[i] = leader->shared.stores[(leader->shared.store_first + i) % ENGINE_ARRIVALS];
    leader->shared.store_first = (leader->shared.store_first + count) % ENGINE_ARRIVALS;
    leader->shared.store_count -= count;
    (void)pthread_mutex_unlock(&leader->shared.lock);
    for (size_t i = 0; i < count; i++) {
        handles[held] = handles[i];
        if (kvbm_pool_upgrade(leader->options.g2, handles[i]) != KVT_OK)
            continue;
        if (kvbm_pool_facts(leader->options.g2, handles[i]).stored)
            kvbm_pool_drop(leader->options.g2, handles[i]);
        else
            held++;
    }
    return held;
}

static void
store_arrivals(struct engine_leader *leader, const struct kvt_handle *handles, size_t count)
{
    const struct engine_store_batch batch = {
        .tier = KVT_TIER_G2,
        .priority = KVT_PRIORITY_NORMAL,
        .until_ms = kvt_deadline_in(leader->options.job_ms),
        .handles = handles,
        .count = count,
    };
    enum kvt_err statuses[ENGINE_BATCH];

    if (count == 0)
        return;
    engine_store_put(leader, &batch, statuses);
    kvbm_pool_drop_all(leader->options.g2, handles, count);
}

/* A walk over G2, then G3. */
struct sweep {
    enum kvt_tier tier;
    uint32_t at;
    uint64_t again_ms;
};

static void
sweep_at(struct engine_leader *leader, uint64_t at_ms)
{
    (void)pthread_mutex_lock(&leader->shared.lock);
    leader->shared.sweep_ms = at_ms;
    (void)pthread_mutex_unlock(&leader->shared.lock);
}

static uint32_t
unstored(const struct engine_leader *leader, enum kvt_tier tier)
{
    struct kvbm_pool *pool = pool_of(leader, tier);

    return pool == NULL ? 0 : kvbm_pool_stats(pool).unstored;
}

/* What is registered from here on is owed anew. */
static void
end_sweep(struct engine_leader *leader)
{
    sweep_at(leader, UINT64_MAX);
    if (unstored(leader, KVT_TIER_G2) + unstored(leader, KVT_TIER_G3) > 0)
        engine_store_owe(leader);
}

/* False: the tier takes nothing now. */
static bool
store_found(struct engine_leader *leader, enum kvt_tier tier, const struct kvt_handle *handles,
            size_t count)
{
    const struct engine_store_batch batch = {
        .tier = tier,
        .priority = KVT_PRIORITY_NORMAL,
        .ask = true,
        .until_ms = kvt_deadline_in(leader->options.job_ms),
        .handles = handles,
        .count = count,
    };
    enum kvt_err statuses[ENGINE_BATCH];
    bool settled = false;

    engine_store_put(leader, &batch, statuses);
    for (size_t i = 0; i < count; i++) {
        settled = settled || engine_objects_is_well(statuses[i]) || is_final(statuses[i]);
        kvbm_pool_drop_same(pool_of(leader, tier), handles[i]);
    }
    return settled;
}

/* The next batch of what is not stored. */
static void
sweep_on(struct engine_leader *leader, struct sweep *sweep)
{
    struct kvbm_pool *pool = pool_of(leader, sweep->tier);
    struct kvt_handle handles[ENGINE_BATCH];
    const size_t count =
        pool == NULL ? 0 : kvbm_pool_unstored(pool, &sweep->at, LOOKS, ENGINE_BATCH, handles);
    const bool refused = count > 0 && !store_found(leader, sweep->tier, handles, count);

    if (refused) {
        sweep_at(leader, kvt_clock_mono_ms() + sweep->again_ms);
        if (sweep->again_ms < LONGER * leader->options.store_again_ms)
            sweep->again_ms *= 2;
    } else if (count > 0) {
        sweep->again_ms = leader->options.store_again_ms;
    }
    if (pool != NULL && sweep->at < kvbm_pool_stats(pool).blocks)
        return;
    if (sweep->tier == KVT_TIER_G3 && !refused)
        end_sweep(leader);
    sweep->tier = sweep->tier == KVT_TIER_G3 ? KVT_TIER_G2 : KVT_TIER_G3;
    sweep->at = 0;
}

/* Arrivals first, but a sweep goes on between any two batches of them. */
static void *
store(void *arg)
{
    struct engine_leader *leader = arg;
    struct sweep sweep = {.tier = KVT_TIER_G2, .again_ms = leader->options.store_again_ms};

    while (!is_stopped(leader)) {
        struct kvt_handle handles[ENGINE_BATCH];
        bool due;
        const size_t count = take_arrivals(leader, handles, &due);

        store_arrivals(leader, handles, count);
        if (due && !is_stopped(leader))
            sweep_on(leader, &sweep);
    }
    return NULL;
}

enum kvt_err
engine_store_open(struct engine_leader *leader)
{
    if (!leader->options.store)
        return KVT_OK;
    engine_store_owe(leader); /* pools may have blocks of an earlier process */
    if (pthread_create(&leader->storer, NULL, store, leader) != 0)
        return KVT_NOMEM;
    leader->storer_runs = true;
    return KVT_OK;
}

void
engine_store_close(struct engine_leader *leader)
{
    if (!leader->storer_runs)
        return;
    (void)pthread_mutex_lock(&leader->shared.lock);
    leader->shared.store_stop = true;
    (void)pthread_cond_signal(&leader->shared.store);
    (void)pthread_mutex_unlock(&leader->shared.lock);
    (void)pthread_join(leader->storer, NULL);
}
