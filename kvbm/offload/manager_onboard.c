/* What is asked for from above: where it is, what of it is worth its wait, and the hops up. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/thread/cond.h"
#include "kvbm/offload/manager_internal.h"

enum {
    RETRIES_MAX = 3,   /* of a block that moved or was not readable when its turn came */
    PREFETCH_JOBS = 2, /* of KVT_OFFLOAD_JOBS: need always finds the others, ... */
    FAR_JOBS = 2,      /* ... and what is in a tier here does, when G4 hangs */
};

/* ---- what a caller holds ---- */

static void
onboard_free(struct kvbm_onboard *onboard)
{
    kvt_free(onboard->origins);
    kvt_free(onboard->handles);
    kvt_free(onboard->labels);
    kvt_free(onboard);
}

static struct kvbm_onboard *
onboard_new(struct kvbm_manager *manager, const struct kvbm_onboard_request *request)
{
    struct kvbm_onboard *onboard = kvt_calloc(1, sizeof(*onboard));

    if (onboard == NULL)
        return NULL;
    onboard->labels = kvt_calloc(request->count, sizeof(*onboard->labels));
    onboard->handles = kvt_calloc(request->count, sizeof(*onboard->handles));
    onboard->origins = kvt_calloc(request->count, sizeof(*onboard->origins));
    if (onboard->labels == NULL || onboard->handles == NULL || onboard->origins == NULL) {
        onboard_free(onboard);
        return NULL;
    }
    memcpy(onboard->labels, request->labels, request->count * sizeof(*onboard->labels));
    onboard->manager = manager;
    onboard->count = (uint32_t)request->count;
    onboard->end = onboard->count;
    onboard->target = request->target == 0 ? manager->top : request->target;
    onboard->prefetch = request->prefetch;
    onboard->until_ms = request->deadline_ms > 0 ? kvt_clock_mono_ms() + request->deadline_ms : 0;
    onboard->done = request->done;
    onboard->arg = request->arg;
    onboard->check = request->check;
    onboard->check_arg = request->check_arg;
    onboard->failed_at = KVBM_ONBOARD_NONE;
    onboard->not_in_g4 = KVBM_ONBOARD_NONE;
    return onboard;
}

enum kvt_err
kvbm_onboard_start(struct kvbm_onboard **out, struct kvbm_manager *manager,
                   const struct kvbm_onboard_request *request, struct kvt_error *err)
{
    const enum kvt_tier target = request->target == 0 ? manager->top : request->target;
    struct kvbm_onboard *onboard;
    bool full;

    *out = NULL;
    if (request->count == 0 || request->count > KVT_ONBOARD_BLOCKS)
        return kvt_error_set(err, KVT_INVALID, "onboard: %zu blocks, not 1 to %d", request->count,
                             KVT_ONBOARD_BLOCKS);
    if (target > KVT_TIER_G2 || manager->options.tiers[target].pool == NULL)
        return kvt_error_set(err, KVT_INVALID, "onboard: into G1 or G2, as far as they are there");
    onboard = onboard_new(manager, request);
    if (onboard == NULL)
        return kvt_error_set(err, KVT_NOMEM, "onboard");
    (void)pthread_mutex_lock(&manager->shared.lock);
    full = manager->shared.onboards >= KVT_ONBOARDS_MAX;
    if (!full) {
        onboard->next = manager->shared.fresh;
        manager->shared.fresh = onboard;
        manager->shared.onboards++;
        manager->shared.waiting[onboard->prefetch]++;
    }
    (void)pthread_mutex_unlock(&manager->shared.lock);
    if (full) {
        onboard_free(onboard);
        return kvt_error_set(err, KVT_AGAIN, "onboard: %d are under way", KVT_ONBOARDS_MAX);
    }
    kvbm_manager_kick(manager);
    *out = onboard;
    return KVT_OK;
}

enum kvt_err
kvbm_onboard_wait(struct kvbm_onboard *onboard, uint64_t wait_ms, struct kvt_onboard_result *result)
{
    struct kvbm_manager *manager = onboard->manager;
    const struct timespec deadline = kvt_cond_deadline(wait_ms);
    enum kvt_err rc = KVT_BUSY;

    (void)pthread_mutex_lock(&manager->shared.lock);
    while (!onboard->shared.finished && wait_ms > 0 &&
           kvt_cond_wait(&manager->shared.moved, &manager->shared.lock, &deadline))
        continue;
    if (onboard->shared.finished) {
        rc = onboard->shared.result.status;
        if (result != NULL)
            *result = onboard->shared.result;
    }
    (void)pthread_mutex_unlock(&manager->shared.lock);
    return rc;
}

size_t
kvbm_onboard_take(struct kvbm_onboard *onboard, struct kvt_handle *handles)
{
    struct kvbm_manager *manager = onboard->manager;
    size_t count = 0;

    (void)pthread_mutex_lock(&manager->shared.lock);
    assert(onboard->shared.finished);
    if (!onboard->prefetch && !onboard->shared.taken)
        count = onboard->shared.result.arrived;
    onboard->shared.taken = true;
    (void)pthread_mutex_unlock(&manager->shared.lock);
    if (count > 0)
        memcpy(handles, onboard->handles, count * sizeof(*handles));
    return count;
}

enum kvt_tier
kvbm_onboard_origin(const struct kvbm_onboard *onboard, uint32_t at)
{
    assert(at < onboard->count && onboard->origins[at] != 0);
    return (enum kvt_tier)onboard->origins[at];
}

void
kvbm_onboard_cancel(struct kvbm_onboard *onboard)
{
    (void)pthread_mutex_lock(&onboard->manager->shared.lock);
    onboard->shared.cancelled = true;
    (void)pthread_mutex_unlock(&onboard->manager->shared.lock);
    kvbm_manager_kick(onboard->manager);
}

/* Finished and released: nobody knows it any more. */
static void
bury(struct kvbm_onboard *onboard)
{
    struct kvbm_manager *manager = onboard->manager;

    if (!onboard->prefetch && !onboard->shared.taken)
        kvbm_pool_drop_all(manager->options.tiers[onboard->target].pool, onboard->handles,
                           onboard->shared.result.arrived);
    onboard_free(onboard);
    (void)pthread_mutex_lock(&manager->shared.lock);
    manager->shared.onboards--;
    (void)pthread_mutex_unlock(&manager->shared.lock);
}

void
kvbm_onboard_release(struct kvbm_onboard *onboard)
{
    struct kvbm_manager *manager;
    bool finished;

    if (onboard == NULL)
        return;
    manager = onboard->manager;
    (void)pthread_mutex_lock(&manager->shared.lock);
    finished = onboard->shared.finished;
    onboard->shared.cancelled = true;
    onboard->shared.released = true;
    (void)pthread_mutex_unlock(&manager->shared.lock);
    if (finished)
        bury(onboard);
    else
        kvbm_manager_kick(manager);
}

/* ---- the end ---- */

static void
count_end(struct kvbm_onboard *onboard, uint32_t arrived)
{
    struct kvbm_onboard_counts *counts = &onboard->manager->counts[onboard->prefetch];
    const uint32_t short_of = onboard->count - arrived;
    _Atomic uint64_t *which = &counts->failed;

    switch (onboard->why) {
    case KVT_NOTFOUND: which = &counts->missing; break;
    case KVT_TIMEOUT: which = &counts->late; break;
    case KVT_RANGE: which = &counts->dearer; break;
    case KVT_AGAIN: which = onboard->prefetch ? &counts->given_up : &counts->no_room; break;
    case KVT_CANCELLED: which = &counts->cancelled; break;
    case KVT_CORRUPT: atomic_fetch_add(&counts->corrupt, short_of); break;
    default: break;
    }
    atomic_fetch_add(which, short_of);
    atomic_fetch_add(&counts->onboards, 1);
    atomic_fetch_add(&counts->blocks, onboard->count);
    for (uint32_t i = 0; i < arrived; i++)
        atomic_fetch_add(&counts->from[onboard->origins[i]], 1);
}

static void
drop_sources(struct kvbm_onboard *onboard)
{
    if (onboard->source_count > 0 && onboard->source_tier != KVT_TIER_G4)
        kvbm_pool_drop_all(onboard->manager->options.tiers[onboard->source_tier].pool,
                           onboard->sources, onboard->source_count);
    onboard->source_count = 0;
}

/* End it with what has arrived. */
static void
finish(struct kvbm_onboard *onboard)
{
    struct kvbm_manager *manager = onboard->manager;
    struct kvbm_pool *pool = manager->options.tiers[onboard->target].pool;
    kvt_onboard_done_fn *const done = onboard->done;
    void *const arg = onboard->arg;
    struct kvt_onboard_result result = {.size = sizeof(result)};
    bool released;

    for (size_t i = 0; i < KVT_OFFLOAD_JOBS; i++)
        if (manager->ups[i].state != KVBM_JOB_FREE && manager->ups[i].onboard == onboard)
            manager->ups[i].onboard = NULL; /* it goes on without */
    drop_sources(onboard);
    while (result.arrived < onboard->end && onboard->origins[result.arrived] != 0)
        result.from[onboard->origins[result.arrived++]]++;
    if (result.arrived == onboard->count)
        onboard->why = KVT_OK;
    else if (onboard->why == KVT_BUSY) /* a name that was just coming or going, each time */
        onboard->why = KVT_AGAIN;
    result.status = onboard->why;
    if (onboard->prefetch)
        kvbm_pool_drop_all(pool, onboard->handles, onboard->count);
    else
        kvbm_pool_drop_all(pool, onboard->handles + result.arrived,
                           onboard->count - result.arrived);
    count_end(onboard, result.arrived);
    (void)pthread_mutex_lock(&manager->shared.lock);
    onboard->shared.result = result;
    onboard->shared.finished = true;
    released = onboard->shared.released;
    manager->shared.waiting[onboard->prefetch]--;
    (void)pthread_cond_broadcast(&manager->shared.moved);
    (void)pthread_mutex_unlock(&manager->shared.lock);
    if (done != NULL && !released)
        done(arg); /* from the lock on it may be gone */
    if (released)
        bury(onboard);
}

void
kvbm_onboard_arrive(struct kvbm_job *job)
{
    struct kvbm_onboard *onboard = job->onboard;
    struct kvbm_pool *pool = job->manager->options.tiers[job->to].pool;

    for (uint32_t i = 0; i < job->count; i++) {
        const struct kvbm_job_block *entry = &job->entries[i];
        const uint32_t at = job->first + i;

        if (entry->target.generation != 0 && job->prefetch && job->to == job->last)
            kvbm_pool_mark_early(pool, entry->target);
        if (entry->target.generation != 0 &&
            (onboard == NULL || entry->status != KVT_OK || job->to != job->last)) {
            kvbm_pool_drop(pool, entry->target);
            continue;
        }
        if (onboard == NULL)
            continue;
        if (entry->status == KVT_OK) {
            onboard->handles[at] = entry->target;
            onboard->origins[at] = (uint8_t)job->origin;
        } else if (at < onboard->failed_at) {
            onboard->failed_at = at;
            onboard->why = entry->status;
            if (job->origin == KVT_TIER_G4)
                onboard->not_in_g4 = at;
        }
    }
    if (onboard != NULL)
        onboard->running--;
}

/* ---- where blocks are ---- */

/* The nearest tier below the target that has the block; 0: none. */
static enum kvt_tier
tier_below(const struct kvbm_onboard *onboard, uint32_t at)
{
    const struct kvbm_manager *manager = onboard->manager;

    for (enum kvt_tier tier = kvbm_manager_below(manager, onboard->target); tier != 0;
         tier = kvbm_manager_below(manager, tier)) {
        if (tier == KVT_TIER_G4)
            return at == onboard->not_in_g4 ? (enum kvt_tier)0 : tier;
        if (kvbm_pool_has(manager->options.tiers[tier].pool, onboard->labels[at].id.hash))
            return tier;
    }
    return (enum kvt_tier)0;
}

static enum kvt_tier
tier_of_block(const struct kvbm_onboard *onboard, uint32_t at)
{
    if (kvbm_pool_has(onboard->manager->options.tiers[onboard->target].pool,
                      onboard->labels[at].id.hash))
        return onboard->target;
    return tier_below(onboard, at);
}

/* Blocks in a row, from `at` on, that are in one tier. */
static uint32_t
run_of(const struct kvbm_onboard *onboard, uint32_t at, enum kvt_tier tier, uint32_t max)
{
    uint32_t run = 1;

    while (run < max && at + run < onboard->end && tier_of_block(onboard, at + run) == tier)
        run++;
    return run;
}

/* ---- what is worth it ---- */

/* Where it ends when what is dearer than computing, or would be late, is left out.  Looks ahead
 * no further than a step may. */
static void
weigh(struct kvbm_onboard *onboard, uint64_t now_ms)
{
    struct kvbm_cost *cost = onboard->manager->options.cost;
    struct kvbm_cost_run runs[KVBM_COST_RUNS_MAX];
    const double left_ms = onboard->until_ms == 0       ? (double)INFINITY
                           : onboard->until_ms > now_ms ? (double)(onboard->until_ms - now_ms)
                                                        : 0;
    const uint32_t most = onboard->at + KVT_OFFLOAD_LOOKS;
    const uint32_t until = onboard->end < most ? onboard->end : most;
    enum kvbm_cost_reason reason;
    uint32_t chosen;
    size_t count = 0;

    if (cost == NULL)
        return;
    for (uint32_t at = onboard->at; at < until; count++) {
        const enum kvt_tier tier = tier_of_block(onboard, at);

        if (tier == 0)
            break;
        runs[count] = (struct kvbm_cost_run){tier, run_of(onboard, at, tier, until - at)};
        if (tier == onboard->target)
            runs[count].tier = KVT_TIER_G1; /* it costs nothing */
        at += runs[count].blocks;
    }
    chosen = kvbm_cost_choose(cost, runs, count, left_ms, now_ms, &reason);
    if (reason == KVBM_COST_TAKEN)
        return;
    onboard->end = onboard->at + chosen;
    onboard->why = reason == KVBM_COST_LATE ? KVT_TIMEOUT : KVT_RANGE;
}

/* ---- hops ---- */

/* Take what the target has already.  True: some of it was there. */
static bool
take_there(struct kvbm_onboard *onboard)
{
    struct kvbm_pool *pool = onboard->manager->options.tiers[onboard->target].pool;
    uint64_t hashes[KVT_OFFLOAD_BATCH];
    uint32_t count = 0;
    size_t found;

    while (count < KVT_OFFLOAD_BATCH && onboard->at + count < onboard->end) {
        hashes[count] = onboard->labels[onboard->at + count].id.hash;
        count++;
    }
    if (onboard->prefetch) { /* nobody has asked for them yet */
        for (found = 0; found < count && kvbm_pool_has(pool, hashes[found]);)
            found++;
    } else {
        found = kvbm_pool_match(pool, hashes, count, onboard->handles + onboard->at);
    }
    for (size_t i = 0; i < found; i++)
        onboard->origins[onboard->at + i] = (uint8_t)onboard->target;
    onboard->at += (uint32_t)found;
    return found > 0;
}

static bool
is_needed_first(const struct kvbm_manager *manager)
{
    for (const struct kvbm_onboard *at = manager->onboards[0]; at != NULL; at = at->next)
        if (at->at < at->end)
            return true;
    return false;
}

/* KVT_OK; KVT_BUSY: not yet; KVT_AGAIN: not at all. */
static enum kvt_err
take_room(struct kvbm_onboard *onboard, enum kvt_tier tier, uint32_t count,
          struct kvt_handle *handles, uint64_t now_ms)
{
    struct kvbm_manager *manager = onboard->manager;
    enum kvt_err rc;

    if (onboard->prefetch)
        return kvbm_edge_spare(manager, tier, count, handles);
    if (!kvbm_edge_room(manager, tier, count, &onboard->room_ms, now_ms))
        return KVT_BUSY;
    rc = kvbm_pool_allocate(manager->options.tiers[tier].pool, count, handles);
    if (rc == KVT_OK) {
        onboard->room_ms = 0;
        return KVT_OK;
    }
    if (onboard->room_ms == 0)
        onboard->room_ms = now_ms > 0 ? now_ms : 1;
    return now_ms - onboard->room_ms < manager->options.room_wait_ms ? KVT_BUSY : KVT_AGAIN;
}

/* A batch no larger than an eighth of the pools it goes through, so that small ones turn over. */
static uint32_t
batch_of(const struct kvbm_manager *manager, enum kvt_tier first, enum kvt_tier last)
{
    const struct kvbm_storage *to = manager->options.tiers[first].storage;
    const struct kvbm_storage *end = manager->options.tiers[last].storage;
    uint64_t batch = KVT_OFFLOAD_BYTES / to->block_size;

    if (batch > KVT_OFFLOAD_BATCH)
        batch = KVT_OFFLOAD_BATCH;
    if (batch > to->block_count / 8)
        batch = to->block_count / 8;
    if (batch > end->block_count / 8)
        batch = end->block_count / 8;
    return batch == 0 ? 1 : (uint32_t)batch;
}

static void
fill_job(struct kvbm_job *job, struct kvbm_onboard *onboard, enum kvt_tier from, enum kvt_tier to)
{
    struct kvbm_manager *manager = onboard->manager;
    const bool addressed = kvbm_storage_address(manager->options.tiers[to].storage, 0) != NULL;

    job->edge = NULL;
    job->onboard = onboard;
    job->why = KVBM_JOB_ONBOARD;
    job->prefetch = onboard->prefetch;
    job->check = onboard->check;
    job->check_arg = onboard->check_arg;
    job->from = from;
    job->origin = from;
    job->to = to;
    job->last = onboard->target;
    job->first = onboard->at;
    job->room_ms = 0;
    job->staging = manager->up_staging;
    job->staging_first = (uint32_t)(job - manager->ups) * KVT_OFFLOAD_BATCH;
    job->staged = from == KVT_TIER_G4 && !addressed;
}

/* Hold what is next, up to `max` blocks of one tier.  False: it has gone since. */
static bool
hold_sources(struct kvbm_onboard *onboard, enum kvt_tier from, uint32_t max)
{
    uint64_t hashes[KVT_OFFLOAD_BATCH];
    uint32_t count = run_of(onboard, onboard->at, from, max);

    memset(onboard->sources, 0, sizeof(onboard->sources));
    for (uint32_t i = 0; i < count; i++)
        hashes[i] = onboard->labels[onboard->at + i].id.hash;
    if (from != KVT_TIER_G4)
        count = (uint32_t)kvbm_pool_match(onboard->manager->options.tiers[from].pool, hashes, count,
                                          onboard->sources);
    onboard->source_tier = from;
    onboard->source_count = count;
    return count > 0;
}

/* Put what is held, and room for it, aboard. */
static void
take_aboard(struct kvbm_job *job, struct kvbm_onboard *onboard, const struct kvt_handle *targets)
{
    struct kvbm_pool *pool =
        job->from == KVT_TIER_G4 ? NULL : job->manager->options.tiers[job->from].pool;

    /* A block goes on under the name that its tier knows it by: who asks may be wrong about it. */
    for (uint32_t i = 0; i < onboard->source_count; i++)
        job->entries[i] = (struct kvbm_job_block){
            .source = onboard->sources[i],
            .target = targets[i],
            .label = pool == NULL ? onboard->labels[onboard->at + i]
                                  : kvbm_pool_label(pool, onboard->sources[i]),
        };
    job->count = onboard->source_count;
    onboard->at += onboard->source_count;
    onboard->source_count = 0;
}

/* Send the next run of blocks, out of tier `from`, on its way.  KVT_OK; KVT_BUSY: not yet;
 * KVT_NOTFOUND: what was there has gone since; KVT_AGAIN: there is no room. */
static enum kvt_err
send_run(struct kvbm_onboard *onboard, struct kvbm_job *job, enum kvt_tier from, uint64_t now_ms)
{
    struct kvbm_manager *manager = onboard->manager;
    const bool through_g2 = onboard->target < KVT_TIER_G2 && from > KVT_TIER_G2 &&
                            manager->options.tiers[KVT_TIER_G2].pool != NULL;
    const enum kvt_tier to = through_g2 ? KVT_TIER_G2 : onboard->target;
    struct kvt_handle targets[KVT_OFFLOAD_BATCH];
    enum kvt_err rc;

    if (onboard->source_count == 0 &&
        !hold_sources(onboard, from, batch_of(manager, to, onboard->target)))
        return KVT_NOTFOUND;
    rc = take_room(onboard, to, onboard->source_count, targets, now_ms);
    if (rc != KVT_OK)
        return rc;
    fill_job(job, onboard, from, to);
    take_aboard(job, onboard, targets);
    onboard->running++;
    kvbm_job_begin(job);
    return KVT_OK;
}

/* ---- one onboard ---- */

/* Something did not arrive: look again from there, a few times, or that is the end.  What is held
 * was next behind what had been sent, and is not next any more. */
static void
look_again(struct kvbm_onboard *onboard)
{
    struct kvbm_pool *pool = onboard->manager->options.tiers[onboard->target].pool;
    const uint32_t from = onboard->failed_at;

    drop_sources(onboard);
    onboard->room_ms = 0;
    onboard->failed_at = KVBM_ONBOARD_NONE;
    if (onboard->retries >= RETRIES_MAX) {
        onboard->end = from;
        return;
    }
    onboard->retries++;
    kvbm_pool_drop_all(pool, onboard->handles + from, onboard->at - from);
    memset(onboard->handles + from, 0, (onboard->at - from) * sizeof(*onboard->handles));
    memset(onboard->origins + from, 0, onboard->at - from);
    onboard->at = from;
}

/* For a run out of tier `from`. */
static struct kvbm_job *
free_job(struct kvbm_manager *manager, enum kvt_tier from, bool prefetch)
{
    unsigned prefetches = 0;
    unsigned far = 0;

    for (size_t i = 0; i < KVT_OFFLOAD_JOBS; i++) {
        const struct kvbm_job *job = &manager->ups[i];

        prefetches += job->state != KVBM_JOB_FREE && job->prefetch;
        far += job->state != KVBM_JOB_FREE && job->from == KVT_TIER_G4;
    }
    if (prefetch && (prefetches >= PREFETCH_JOBS || is_needed_first(manager)))
        return NULL;
    if (from == KVT_TIER_G4 && far + prefetch >= FAR_JOBS)
        return NULL; /* and of those need finds one */
    return kvbm_job_free(manager->ups, KVT_OFFLOAD_JOBS);
}

static void
cut(struct kvbm_onboard *onboard, enum kvt_err why)
{
    onboard->end = onboard->at;
    onboard->why = why;
}

/* Begin what there are jobs and room for.  A step looks at KVT_OFFLOAD_LOOKS blocks at most. */
static void
advance(struct kvbm_onboard *onboard, uint32_t *looks, uint64_t now_ms)
{
    bool weighed = false;

    while (onboard->failed_at == KVBM_ONBOARD_NONE && onboard->at<onboard->end && * looks> 0) {
        struct kvbm_job *job;
        enum kvt_tier from;
        enum kvt_err rc;

        *looks -= *looks < KVT_OFFLOAD_BATCH ? *looks : KVT_OFFLOAD_BATCH;
        if (take_there(onboard)) {
            drop_sources(onboard); /* of what has come another way meanwhile */
            continue;
        }
        from = onboard->source_count > 0 ? onboard->source_tier : tier_below(onboard, onboard->at);
        if (from == 0) {
            /* Of a block that was there and failed, the failure says more. */
            cut(onboard, onboard->at == onboard->not_in_g4 || onboard->why == KVT_CORRUPT
                             ? onboard->why
                             : KVT_NOTFOUND);
            return;
        }
        job = free_job(onboard->manager, from, onboard->prefetch);
        if (job == NULL)
            return;
        if (!weighed && onboard->source_count == 0) /* what is held was weighed */
            weigh(onboard, now_ms);
        weighed = true;
        if (onboard->at >= onboard->end)
            return;
        rc = send_run(onboard, job, from, now_ms);
        if (rc == KVT_AGAIN)
            cut(onboard, rc);
        if (rc == KVT_NOTFOUND && ++onboard->retries > RETRIES_MAX)
            cut(onboard, rc);
        if (rc == KVT_BUSY)
            return;
    }
}

static bool
is_cancelled(struct kvbm_onboard *onboard)
{
    bool cancelled;

    (void)pthread_mutex_lock(&onboard->manager->shared.lock);
    cancelled = onboard->shared.cancelled;
    (void)pthread_mutex_unlock(&onboard->manager->shared.lock);
    return cancelled;
}

/* True: it is finished. */
static bool
step_one(struct kvbm_onboard *onboard, uint32_t *looks, uint64_t now_ms)
{
    if (onboard->manager->closing || is_cancelled(onboard)) {
        onboard->why = KVT_CANCELLED;
        return true;
    }
    if (onboard->until_ms > 0 && now_ms >= onboard->until_ms) {
        onboard->why = KVT_TIMEOUT;
        return true;
    }
    if (onboard->failed_at != KVBM_ONBOARD_NONE && onboard->running == 0)
        look_again(onboard);
    advance(onboard, looks, now_ms);
    return onboard->running == 0 && onboard->at >= onboard->end;
}

static void
take_fresh(struct kvbm_manager *manager)
{
    struct kvbm_onboard *fresh;
    struct kvbm_onboard *oldest = NULL;

    (void)pthread_mutex_lock(&manager->shared.lock);
    fresh = manager->shared.fresh;
    manager->shared.fresh = NULL;
    (void)pthread_mutex_unlock(&manager->shared.lock);
    while (fresh != NULL) {
        struct kvbm_onboard *next = fresh->next;

        fresh->next = oldest;
        oldest = fresh;
        fresh = next;
    }
    while (oldest != NULL) {
        struct kvbm_onboard *next = oldest->next;
        struct kvbm_onboard **at = &manager->onboards[oldest->prefetch];

        while (*at != NULL)
            at = &(*at)->next;
        *at = oldest;
        oldest->next = NULL;
        oldest = next;
    }
}

void
kvbm_onboards_step(struct kvbm_manager *manager, uint64_t now_ms)
{
    uint32_t looks = KVT_OFFLOAD_LOOKS;

    for (size_t i = 0; i < KVT_OFFLOAD_JOBS; i++)
        kvbm_job_poll(&manager->ups[i], now_ms);
    take_fresh(manager);
    for (size_t i = 0; i < 2; i++)
        for (struct kvbm_onboard **at = &manager->onboards[i]; *at != NULL;) {
            struct kvbm_onboard *onboard = *at;

            if (!step_one(onboard, &looks, now_ms)) {
                at = &onboard->next;
                continue;
            }
            *at = onboard->next;
            finish(onboard);
        }
}
