#include "kvbm/offload/manager.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/thread/cond.h"
#include "kvbm/offload/manager_internal.h"

enum {
    BUSY_WAIT = 1,    /* ms between looks while something is on its way */
    QUIET_WAIT = 100, /* ms between looks at a watermark nobody reported */
    DRAIN_WAIT = 1,
    PPM = 1000000,
};

enum kvt_tier
kvbm_manager_below(const struct kvbm_manager *manager, enum kvt_tier tier)
{
    for (unsigned below = tier + 1; below < KVT_TIER_G4; below++)
        if (manager->options.tiers[below].pool != NULL)
            return (enum kvt_tier)below;
    return tier < KVT_TIER_G4 && manager->options.volumes != NULL ? KVT_TIER_G4 : (enum kvt_tier)0;
}

void
kvbm_manager_kick(struct kvbm_manager *manager)
{
    (void)pthread_mutex_lock(&manager->shared.lock);
    manager->shared.kicked = true;
    (void)pthread_cond_signal(&manager->shared.wake);
    (void)pthread_mutex_unlock(&manager->shared.lock);
}

/* ---- a pass ---- */

static void
note_iteration(struct kvbm_manager *manager)
{
    manager->iteration++;
    for (unsigned tier = KVT_TIER_G1; tier < KVT_TIER_G4; tier++) {
        const struct kvbm_manager_tier *at = &manager->options.tiers[tier];

        if (at->pool != NULL && at->idle_iterations > 0)
            kvbm_pool_set_iteration(at->pool, manager->iteration);
    }
}

static void
take_demands(struct kvbm_manager *manager)
{
    (void)pthread_mutex_lock(&manager->shared.lock);
    for (unsigned tier = KVT_TIER_G1; tier < KVT_TIER_G4; tier++) {
        struct kvbm_edge_down *edge = &manager->edges[tier];

        if (edge->demand < manager->shared.demand[tier])
            edge->demand = manager->shared.demand[tier];
        manager->shared.demand[tier] = 0;
    }
    (void)pthread_mutex_unlock(&manager->shared.lock);
}

/* Nothing moves, and nothing should. */
static bool
rests(struct kvbm_manager *manager)
{
    bool resting = true;

    for (unsigned tier = KVT_TIER_G1; tier < KVT_TIER_G4; tier++)
        resting = resting && (!manager->edges[tier].present || manager->edges[tier].rests);
    for (size_t i = 0; i < KVT_OFFLOAD_JOBS; i++)
        resting = resting && manager->ups[i].state == KVBM_JOB_FREE;
    resting = resting && manager->onboards[0] == NULL && manager->onboards[1] == NULL;
    (void)pthread_mutex_lock(&manager->shared.lock);
    resting = resting && manager->shared.fresh == NULL;
    manager->shared.rests += resting;
    (void)pthread_mutex_unlock(&manager->shared.lock);
    return resting;
}

/* True: nothing moves. */
static bool
pass(struct kvbm_manager *manager)
{
    const uint64_t now_ms = kvt_clock_mono_ms();

    take_demands(manager);
    /* Lower edges first: an upper one asks them for room. */
    for (unsigned tier = KVT_TIER_G3; tier >= KVT_TIER_G1; tier--)
        kvbm_edge_step(&manager->edges[tier], now_ms);
    kvbm_onboards_step(manager, now_ms);
    return rests(manager);
}

void
kvbm_manager_step(struct kvbm_manager *manager)
{
    assert(!manager->started);
    note_iteration(manager);
    (void)pass(manager);
}

static bool
wait_turn(struct kvbm_manager *manager, uint64_t wait_ms)
{
    const struct timespec deadline = kvt_cond_deadline(wait_ms);
    bool go_on;

    (void)pthread_mutex_lock(&manager->shared.lock);
    while (!manager->shared.kicked && !manager->shared.stop &&
           kvt_cond_wait(&manager->shared.wake, &manager->shared.lock, &deadline))
        continue;
    manager->shared.kicked = false;
    go_on = !manager->shared.stop;
    (void)pthread_mutex_unlock(&manager->shared.lock);
    return go_on;
}

static void *
run(void *arg)
{
    struct kvbm_manager *manager = arg;
    const uint64_t iteration_ms = manager->options.iteration_ms;
    const uint64_t quiet_ms = iteration_ms < QUIET_WAIT ? iteration_ms : QUIET_WAIT;
    uint64_t noted_ms = kvt_clock_mono_ms();
    bool quiet = false;

    while (wait_turn(manager, quiet ? quiet_ms : BUSY_WAIT)) {
        const uint64_t now_ms = kvt_clock_mono_ms();

        for (; now_ms - noted_ms >= iteration_ms; noted_ms += iteration_ms)
            note_iteration(manager);
        quiet = pass(manager);
    }
    return NULL;
}

/* ---- making and taking down ---- */

static enum kvt_err
check(const struct kvbm_manager_options *options, struct kvt_error *err)
{
    unsigned tiers = options->volumes != NULL;
    size_t block_size = 0;

    for (unsigned tier = KVT_TIER_G1; tier < KVT_TIER_G4; tier++) {
        const struct kvbm_manager_tier *at = &options->tiers[tier];

        if (at->pool == NULL)
            continue;
        tiers++;
        if (at->low_ppm >= at->high_ppm || at->high_ppm > PPM)
            return kvt_error_set(err, KVT_INVALID,
                                 "offload: G%u's low watermark must be below the high", tier);
        if (at->storage == NULL || kvbm_pool_stats(at->pool).blocks != at->storage->block_count)
            return kvt_error_set(err, KVT_INVALID, "offload: G%u's storage is not of its pool",
                                 tier);
        if (block_size != 0 && at->storage->block_size != block_size)
            return kvt_error_set(err, KVT_INVALID, "offload: blocks of G%u are of another size",
                                 tier);
        block_size = at->storage->block_size;
    }
    if (tiers < 2 || block_size == 0)
        return kvt_error_set(err, KVT_INVALID, "offload: two tiers are needed");
    if (options->transfer == NULL || options->queue_max == 0 ||
        options->queue_max > KVT_OFFLOAD_QUEUE_MAX)
        return kvt_error_set(err, KVT_INVALID, "offload: a transfer manager and a queue of 1 to %d",
                             KVT_OFFLOAD_QUEUE_MAX);
    return KVT_OK;
}

static size_t
least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* All batches of an edge together hold no more than a quarter of a pool, so that small pools still
 * turn over. */
static size_t
batch_of(const struct kvbm_manager *manager, const struct kvbm_edge_down *edge)
{
    const struct kvbm_storage *source = manager->options.tiers[edge->from].storage;
    size_t batch = least(KVT_OFFLOAD_BATCH, KVT_OFFLOAD_BYTES / source->block_size);

    batch = least(batch, source->block_count / 4 / KVT_OFFLOAD_JOBS);
    if (edge->to != KVT_TIER_G4)
        batch = least(batch,
                      manager->options.tiers[edge->to].storage->block_count / 4 / KVT_OFFLOAD_JOBS);
    return batch == 0 ? 1 : batch;
}

static enum kvt_err
open_edge(struct kvbm_manager *manager, enum kvt_tier from, struct kvt_error *err)
{
    struct kvbm_edge_down *edge = &manager->edges[from];
    const struct kvbm_manager_tier *source = &manager->options.tiers[from];

    edge->manager = manager;
    edge->from = from;
    edge->to = kvbm_manager_below(manager, from);
    edge->present = source->pool != NULL && edge->to != 0;
    for (size_t i = 0; i < KVT_OFFLOAD_JOBS; i++)
        edge->jobs[i].manager = manager;
    if (!edge->present)
        return KVT_OK;
    edge->batch_max = batch_of(manager, edge);
    if (edge->to != KVT_TIER_G4 || kvbm_storage_address(source->storage, 0) != NULL)
        return KVT_OK;
    return kvbm_storage_open_memory(&edge->staging, KVBM_STORAGE_SYSTEM,
                                    (uint32_t)(KVT_OFFLOAD_JOBS * edge->batch_max),
                                    source->storage->block_size, err);
}

/* Where blocks from G4 are put that go to a tier without addresses. */
static enum kvt_err
open_up_staging(struct kvbm_manager *manager, struct kvt_error *err)
{
    const struct kvbm_manager_tier *tiers = manager->options.tiers;
    const enum kvt_tier entry = tiers[KVT_TIER_G2].pool != NULL ? KVT_TIER_G2 : manager->top;

    if (manager->options.volumes == NULL || kvbm_storage_address(tiers[entry].storage, 0) != NULL)
        return KVT_OK;
    return kvbm_storage_open_memory(&manager->up_staging, KVBM_STORAGE_SYSTEM,
                                    KVT_OFFLOAD_JOBS * KVT_OFFLOAD_BATCH,
                                    tiers[entry].storage->block_size, err);
}

static bool
make_locks(struct kvbm_manager *manager)
{
    if (pthread_mutex_init(&manager->shared.lock, NULL) != 0)
        return false;
    if (!kvt_cond_init(&manager->shared.wake))
        goto fail_lock;
    if (!kvt_cond_init(&manager->shared.moved))
        goto fail_wake;
    manager->locks_made = true;
    return true;

fail_wake:
    (void)pthread_cond_destroy(&manager->shared.wake);
fail_lock:
    (void)pthread_mutex_destroy(&manager->shared.lock);
    return false;
}

static enum kvt_err
open_parts(struct kvbm_manager *manager, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;
    int sys;

    manager->top = KVT_TIER_G1;
    while (manager->options.tiers[manager->top].pool == NULL)
        manager->top = (enum kvt_tier)(manager->top + 1);
    for (unsigned tier = KVT_TIER_G1; tier < KVT_TIER_G4 && rc == KVT_OK; tier++)
        rc = open_edge(manager, (enum kvt_tier)tier, err);
    for (size_t i = 0; i < KVT_OFFLOAD_JOBS; i++)
        manager->ups[i].manager = manager;
    if (rc == KVT_OK)
        rc = open_up_staging(manager, err);
    if (rc != KVT_OK)
        return rc;
    manager->shared.ring = kvt_calloc(manager->options.queue_max, sizeof(*manager->shared.ring));
    if (manager->shared.ring == NULL || !make_locks(manager))
        return kvt_error_set(err, KVT_NOMEM, "offload queue");
    if (manager->options.iteration_ms == 0)
        return KVT_OK;
    sys = pthread_create(&manager->thread, NULL, run, manager);
    if (sys != 0)
        return kvt_error_sys(err, sys, "offload thread");
    manager->started = true;
    return KVT_OK;
}

enum kvt_err
kvbm_manager_new(struct kvbm_manager **out, const struct kvbm_manager_options *options,
                 struct kvt_error *err)
{
    struct kvbm_manager *manager;
    enum kvt_err rc;

    assert(out != NULL && options != NULL);
    *out = NULL;
    rc = check(options, err);
    if (rc != KVT_OK)
        return rc;
    manager = kvt_calloc(1, sizeof(*manager));
    if (manager == NULL)
        return kvt_error_set(err, KVT_NOMEM, "offload");
    manager->options = *options;
    rc = open_parts(manager, err);
    if (rc != KVT_OK) {
        kvbm_manager_free(manager);
        return rc;
    }
    *out = manager;
    return KVT_OK;
}

static void
stop_thread(struct kvbm_manager *manager)
{
    if (!manager->started)
        return;
    (void)pthread_mutex_lock(&manager->shared.lock);
    manager->shared.stop = true;
    (void)pthread_cond_signal(&manager->shared.wake);
    (void)pthread_mutex_unlock(&manager->shared.lock);
    (void)pthread_join(manager->thread, NULL);
    manager->started = false;
}

/* What waits is given back, what is under way is taken back where nobody has begun it. */
static void
end_moves(struct kvbm_manager *manager)
{
    struct kvbm_pool *top = manager->options.tiers[manager->top].pool;

    manager->closing = true;
    for (; manager->shared.ring_count > 0; manager->shared.ring_count--) {
        kvbm_pool_drop(top, manager->shared.ring[manager->shared.ring_first]);
        manager->shared.ring_first = (manager->shared.ring_first + 1) % manager->options.queue_max;
    }
    for (unsigned tier = KVT_TIER_G1; tier < KVT_TIER_G4; tier++)
        for (size_t i = 0; i < KVT_OFFLOAD_JOBS; i++)
            kvbm_job_cancel(&manager->edges[tier].jobs[i]);
    for (size_t i = 0; i < KVT_OFFLOAD_JOBS; i++)
        kvbm_job_cancel(&manager->ups[i]);
    while (!pass(manager))
        (void)wait_turn(manager, BUSY_WAIT);
    assert(manager->shared.onboards == 0); /* every one was released */
}

void
kvbm_manager_free(struct kvbm_manager *manager)
{
    if (manager == NULL)
        return;
    stop_thread(manager);
    if (manager->locks_made) {
        manager->shared.stop = false;
        end_moves(manager);
        (void)pthread_cond_destroy(&manager->shared.moved);
        (void)pthread_cond_destroy(&manager->shared.wake);
        (void)pthread_mutex_destroy(&manager->shared.lock);
    }
    for (unsigned tier = KVT_TIER_G1; tier < KVT_TIER_G4; tier++)
        kvbm_storage_close(manager->edges[tier].staging);
    kvbm_storage_close(manager->up_staging);
    kvt_free(manager->shared.ring);
    kvt_free(manager);
}

/* ---- from any thread ---- */

enum kvt_err
kvbm_manager_push(struct kvbm_manager *manager, struct kvt_handle handle, uint64_t wait_ms)
{
    struct kvbm_edge_down *edge = &manager->edges[manager->top];
    struct kvbm_pool *pool = manager->options.tiers[manager->top].pool;
    const struct timespec deadline = kvt_cond_deadline(wait_ms);
    const size_t queue_max = manager->options.queue_max;
    enum kvt_err rc = KVT_AGAIN;

    kvbm_pool_share(pool, handle);
    (void)pthread_mutex_lock(&manager->shared.lock);
    while (wait_ms > 0 && manager->shared.ring_count == queue_max && !manager->shared.stop &&
           kvt_cond_wait(&manager->shared.moved, &manager->shared.lock, &deadline))
        continue;
    if (manager->shared.ring_count < queue_max && !manager->shared.stop) {
        manager->shared
            .ring[(manager->shared.ring_first + manager->shared.ring_count) % queue_max] = handle;
        manager->shared.ring_count++;
        manager->shared.kicked = true;
        (void)pthread_cond_signal(&manager->shared.wake);
        rc = KVT_OK;
    }
    (void)pthread_mutex_unlock(&manager->shared.lock);
    if (rc != KVT_OK) {
        atomic_fetch_add(&edge->counts.failed, 1);
        kvbm_pool_drop(pool, handle);
    }
    return rc;
}

void
kvbm_manager_make_room(struct kvbm_manager *manager, enum kvt_tier tier, uint32_t count,
                       uint64_t wait_ms)
{
    struct kvbm_edge_down *edge = &manager->edges[tier];
    struct kvbm_pool_stats stats;

    assert(tier >= KVT_TIER_G1 && tier < KVT_TIER_G4);
    if (!edge->present)
        return;
    stats = kvbm_pool_stats(manager->options.tiers[tier].pool);
    if (stats.free >= count || count > stats.blocks || atomic_load(&edge->stalled))
        return;
    (void)pthread_mutex_lock(&manager->shared.lock);
    if (manager->shared.demand[tier] < count)
        manager->shared.demand[tier] = count;
    (void)pthread_mutex_unlock(&manager->shared.lock);
    kvbm_manager_kick(manager);
    if (wait_ms > 0 && !kvbm_pool_wait_free(manager->options.tiers[tier].pool, count, wait_ms))
        atomic_store(&edge->stalled, true); /* the next one need not wait in vain */
}

bool
kvbm_manager_drain(struct kvbm_manager *manager, uint64_t wait_ms)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + wait_ms;
    uint64_t until;
    uint64_t now;

    /* Two rests: the first may belong to a pass that began before us. */
    (void)pthread_mutex_lock(&manager->shared.lock);
    until = manager->shared.rests + 2;
    (void)pthread_mutex_unlock(&manager->shared.lock);
    do {
        if (manager->started)
            kvbm_manager_kick(manager);
        else
            kvbm_manager_step(manager);
        kvt_clock_sleep_ms(DRAIN_WAIT);
        (void)pthread_mutex_lock(&manager->shared.lock);
        now = manager->shared.rests;
        (void)pthread_mutex_unlock(&manager->shared.lock);
        if (now >= until)
            return true;
    } while (kvt_clock_mono_ms() < deadline_ms);
    return false;
}

bool
kvbm_manager_stats(struct kvbm_manager *manager, enum kvt_tier from,
                   struct kvt_offload_stats *stats)
{
    const struct kvbm_edge_down *edge;

    *stats = (struct kvt_offload_stats){.size = sizeof(*stats)};
    if (from < KVT_TIER_G1 || from >= KVT_TIER_G4 || !manager->edges[from].present)
        return false;
    edge = &manager->edges[from];
    stats->blocks = atomic_load(&edge->counts.blocks);
    stats->bytes = atomic_load(&edge->counts.bytes);
    stats->present = atomic_load(&edge->counts.present);
    stats->filtered = atomic_load(&edge->counts.filtered);
    stats->failed = atomic_load(&edge->counts.failed);
    stats->full = atomic_load(&edge->counts.full);
    stats->corrupt = atomic_load(&edge->counts.corrupt);
    stats->pushed = atomic_load(&edge->counts.pushed);
    stats->lowered = atomic_load(&edge->counts.lowered);
    stats->idle = atomic_load(&edge->counts.idle);
    stats->moving = atomic_load(&edge->counts.moving);
    return true;
}

void
kvbm_manager_onboard_stats(struct kvbm_manager *manager, bool prefetch,
                           struct kvt_onboard_stats *stats)
{
    const struct kvbm_onboard_counts *counts = &manager->counts[prefetch];

    *stats = (struct kvt_onboard_stats){.size = sizeof(*stats)};
    stats->onboards = atomic_load(&counts->onboards);
    stats->blocks = atomic_load(&counts->blocks);
    for (size_t tier = 0; tier < KVBM_MANAGER_TIERS; tier++)
        stats->from[tier] = atomic_load(&counts->from[tier]);
    stats->missing = atomic_load(&counts->missing);
    stats->late = atomic_load(&counts->late);
    stats->dearer = atomic_load(&counts->dearer);
    stats->no_room = atomic_load(&counts->no_room);
    stats->given_up = atomic_load(&counts->given_up);
    stats->cancelled = atomic_load(&counts->cancelled);
    stats->failed = atomic_load(&counts->failed);
    stats->corrupt = atomic_load(&counts->corrupt);
    for (unsigned tier = KVT_TIER_G1; prefetch && tier < KVT_TIER_G4; tier++)
        if (manager->options.tiers[tier].pool != NULL) {
            const struct kvbm_pool_stats pool = kvbm_pool_stats(manager->options.tiers[tier].pool);

            stats->used += pool.early_used;
            stats->unused += pool.early_unused;
        }
    (void)pthread_mutex_lock(&manager->shared.lock);
    stats->waiting = manager->shared.waiting[prefetch];
    (void)pthread_mutex_unlock(&manager->shared.lock);
}
