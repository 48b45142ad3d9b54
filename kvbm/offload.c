#include "kvbm/offload.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cond.h"
#include "kvbm/offload_internal.h"

enum {
    POLL_WAIT = 100,    /* ms between looks at a watermark nobody reported */
    STALLED_WAIT = 500, /* ms before an edge that moved nothing tries again */
    DRAIN_WAIT = 5,
};

static uint32_t
share_of(const struct kvbm_pool_stats *stats, uint32_t ppm)
{
    return (uint32_t)((uint64_t)stats->blocks * ppm / 1000000);
}

/* How many blocks the edge should take away now.  Begins above `high` (or on demand) and then goes
 * on to `low`, so that one block more or less does not start a batch of one. */
static uint32_t
excess(struct kvbm_edge_state *edge, bool lowering, uint32_t demand)
{
    const struct kvbm_offload_options *options = &edge->offload->options;
    const struct kvbm_pool_stats stats = kvbm_pool_stats(edge->source.pool);
    const uint32_t used = stats.blocks - stats.free;
    const uint32_t low = share_of(&stats, options->low_ppm);

    if (stats.free < demand)
        return demand - stats.free;
    if (used > (lowering ? low : share_of(&stats, options->high_ppm)))
        return used - low;
    return 0;
}

/* Bring the source down; false when nothing could be moved though it should. */
static bool
lower(struct kvbm_edge_state *edge)
{
    struct kvt_handle handles[KVBM_OFFLOAD_BATCH];
    bool lowering = false;

    for (;;) {
        uint32_t demand;
        uint32_t wanted;
        size_t count;
        bool stop;

        (void)pthread_mutex_lock(&edge->shared.lock);
        demand = edge->shared.demand;
        edge->shared.demand = 0;
        stop = edge->shared.stop;
        (void)pthread_mutex_unlock(&edge->shared.lock);
        wanted = excess(edge, lowering, demand);
        if (stop || wanted == 0)
            return true;
        count = kvbm_pool_coldest(edge->source.pool,
                                  wanted < edge->batch_max ? wanted : edge->batch_max, handles);
        if (count == 0)
            return true; /* all in use, or set aside: nothing of ours to do */
        if (kvbm_offload_move(edge, handles, count) == 0)
            return false;
        atomic_store(&edge->stalled, false);
        lowering = true;
        if (edge->which < KVBM_EDGE_G3)
            kvbm_offload_make_room(edge->offload, (enum kvbm_edge)(edge->which + 1), 0, 0);
    }
}

/* Wait for the end, time to look anyway or, after a look that got somewhere, a kick: an edge whose
 * target refuses everything must not be kicked into asking it all the time. */
static bool
wait_turn(struct kvbm_edge_state *edge, bool moved)
{
    const struct timespec deadline = kvt_cond_deadline(moved ? POLL_WAIT : STALLED_WAIT);
    bool go_on;

    (void)pthread_mutex_lock(&edge->shared.lock);
    while (!(edge->shared.kicked && moved) && !edge->shared.stop &&
           kvt_cond_wait(&edge->shared.wake, &edge->shared.lock, &deadline))
        continue;
    edge->shared.kicked = false;
    go_on = !edge->shared.stop;
    (void)pthread_mutex_unlock(&edge->shared.lock);
    return go_on;
}

static void
note_rest(struct kvbm_edge_state *edge)
{
    (void)pthread_mutex_lock(&edge->shared.lock);
    edge->shared.rests++;
    (void)pthread_mutex_unlock(&edge->shared.lock);
}

/* An edge with watermarks. */
static void *
run_lowering(void *arg)
{
    struct kvbm_edge_state *edge = arg;
    bool moved = true;

    while (wait_turn(edge, moved)) {
        moved = lower(edge);
        if (!moved)
            atomic_store(&edge->stalled, true);
        note_rest(edge);
    }
    return NULL;
}

/* Take pushed blocks; 0 when there are none and it is time to rest or to stop. */
static size_t
take_pushed(struct kvbm_edge_state *edge, struct kvt_handle *handles, bool *stop)
{
    const struct timespec deadline = kvt_cond_deadline(POLL_WAIT);
    size_t count = 0;

    (void)pthread_mutex_lock(&edge->shared.lock);
    while (edge->shared.count == 0 && !edge->shared.stop && !edge->shared.kicked &&
           kvt_cond_wait(&edge->shared.wake, &edge->shared.lock, &deadline))
        continue;
    edge->shared.kicked = false;
    for (; count < edge->batch_max && edge->shared.count > 0; count++) {
        handles[count] = edge->shared.ring[edge->shared.first];
        edge->shared.first = (edge->shared.first + 1) % edge->offload->options.queue_max;
        edge->shared.count--;
    }
    if (count > 0)
        (void)pthread_cond_broadcast(&edge->shared.room);
    *stop = edge->shared.stop;
    (void)pthread_mutex_unlock(&edge->shared.lock);
    return count;
}

/* The edge that is pushed. */
static void *
run_pushed(void *arg)
{
    struct kvbm_edge_state *edge = arg;
    struct kvt_handle handles[KVBM_OFFLOAD_BATCH];

    for (;;) {
        bool stop;
        const size_t count = take_pushed(edge, handles, &stop);

        if (stop) {
            for (size_t i = 0; i < count; i++)
                kvbm_pool_drop(edge->source.pool, handles[i]);
            if (count == 0)
                return NULL;
        } else if (count > 0) {
            (void)kvbm_offload_move(edge, handles, count);
        } else {
            note_rest(edge);
        }
    }
}

static bool
make_locks(struct kvbm_edge_state *edge)
{
    if (pthread_mutex_init(&edge->shared.lock, NULL) != 0)
        return false;
    if (!kvt_cond_init(&edge->shared.wake))
        goto fail_lock;
    if (!kvt_cond_init(&edge->shared.room))
        goto fail_wake;
    edge->locks_made = true;
    return true;

fail_wake:
    (void)pthread_cond_destroy(&edge->shared.wake);
fail_lock:
    (void)pthread_mutex_destroy(&edge->shared.lock);
    return false;
}

/* Where the blocks of `which` go; false: nowhere, there is no such edge. */
static bool
plan_edge(struct kvbm_offload *offload, enum kvbm_edge which)
{
    const struct kvbm_offload_options *options = &offload->options;
    struct kvbm_edge_state *edge = &offload->edges[which];

    switch (which) {
    case KVBM_EDGE_G1:
        edge->source = options->g1;
        edge->target = options->g2;
        edge->path = KVBM_PATH_D2H;
        break;
    case KVBM_EDGE_G2:
        edge->source = options->g2;
        edge->target = options->g3;
        edge->path = KVBM_PATH_H2DISK;
        break;
    case KVBM_EDGE_G3:
    case KVBM_EDGE_COUNT:
        edge->source = options->g3;
        edge->path = KVBM_PATH_DISK2H;
        break;
    }
    return edge->source.pool != NULL && (edge->target.pool != NULL || options->sink != NULL);
}

static size_t
least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* A batch never holds more than a quarter of a pool, so that small pools still turn over. */
static size_t
batch_of(const struct kvbm_edge_state *edge)
{
    size_t batch = KVBM_OFFLOAD_BATCH_BYTES / edge->source.storage->block_size;

    batch = least(batch, KVBM_OFFLOAD_BATCH);
    batch = least(batch, edge->source.storage->block_count / 4);
    if (edge->target.pool != NULL)
        batch = least(batch, edge->target.storage->block_count / 4);
    return batch == 0 ? 1 : batch;
}

static enum kvt_err
start_edge(struct kvbm_offload *offload, enum kvbm_edge which, struct kvt_error *err)
{
    struct kvbm_edge_state *edge = &offload->edges[which];
    size_t block_size;
    int sys;

    edge->offload = offload;
    edge->which = which;
    if (!plan_edge(offload, which))
        return KVT_OK;
    block_size = edge->source.storage->block_size;
    edge->batch_max = batch_of(edge);
    if (edge->target.pool == NULL && kvbm_storage_address(edge->source.storage, 0) == NULL) {
        const enum kvt_err rc = kvbm_storage_open_memory(
            &edge->staging, KVBM_STORAGE_SYSTEM, (uint32_t)edge->batch_max, block_size, err);

        if (rc != KVT_OK)
            return rc;
    }
    if (which == KVBM_EDGE_G1) {
        edge->shared.ring = kvt_calloc(offload->options.queue_max, sizeof(*edge->shared.ring));
        if (edge->shared.ring == NULL)
            return kvt_error_set(err, KVT_NOMEM, "offload queue");
    }
    if (!make_locks(edge))
        return kvt_error_set(err, KVT_NOMEM, "offload edge");
    sys = pthread_create(&edge->thread, NULL, which == KVBM_EDGE_G1 ? run_pushed : run_lowering,
                         edge);
    if (sys != 0)
        return kvt_error_sys(err, sys, "offload thread");
    edge->started = true;
    return KVT_OK;
}

enum kvt_err
kvbm_offload_new(struct kvbm_offload **out, const struct kvbm_offload_options *options,
                 struct kvt_error *err)
{
    struct kvbm_offload *offload;
    enum kvt_err rc;

    assert(out != NULL && options != NULL);
    *out = NULL;
    if (options->g1.pool == NULL || options->g2.pool == NULL || options->queue_max == 0)
        return kvt_error_set(err, KVT_INVALID, "offload: G1, G2 and a queue are needed");
    if (options->low_ppm >= options->high_ppm || options->high_ppm > 1000000)
        return kvt_error_set(err, KVT_INVALID, "offload: the low watermark must be below the high");
    offload = kvt_calloc(1, sizeof(*offload));
    if (offload == NULL)
        return kvt_error_set(err, KVT_NOMEM, "offload");
    offload->options = *options;
    /* Lower edges first: an upper one asks them for room. */
    for (unsigned which = KVBM_EDGE_COUNT; which > 0; which--) {
        rc = start_edge(offload, (enum kvbm_edge)(which - 1), err);
        if (rc != KVT_OK)
            goto fail;
    }
    *out = offload;
    return KVT_OK;

fail:
    kvbm_offload_free(offload);
    return rc;
}

void
kvbm_offload_free(struct kvbm_offload *offload)
{
    if (offload == NULL)
        return;
    for (size_t i = 0; i < KVBM_EDGE_COUNT; i++) {
        struct kvbm_edge_state *edge = &offload->edges[i];

        if (!edge->started)
            continue;
        (void)pthread_mutex_lock(&edge->shared.lock);
        edge->shared.stop = true;
        (void)pthread_cond_broadcast(&edge->shared.wake);
        (void)pthread_mutex_unlock(&edge->shared.lock);
    }
    for (size_t i = 0; i < KVBM_EDGE_COUNT; i++)
        if (offload->edges[i].started)
            (void)pthread_join(offload->edges[i].thread, NULL);
    for (size_t i = 0; i < KVBM_EDGE_COUNT; i++) {
        struct kvbm_edge_state *edge = &offload->edges[i];

        if (edge->locks_made) {
            (void)pthread_cond_destroy(&edge->shared.room);
            (void)pthread_cond_destroy(&edge->shared.wake);
            (void)pthread_mutex_destroy(&edge->shared.lock);
        }
        kvt_free(edge->shared.ring);
        kvbm_storage_close(edge->staging);
    }
    kvt_free(offload);
}

enum kvt_err
kvbm_offload_push(struct kvbm_offload *offload, struct kvt_handle handle, uint64_t wait_ms)
{
    struct kvbm_edge_state *edge = &offload->edges[KVBM_EDGE_G1];
    const struct timespec deadline = kvt_cond_deadline(wait_ms);
    const size_t queue_max = offload->options.queue_max;
    enum kvt_err rc = KVT_AGAIN;

    kvbm_pool_share(edge->source.pool, handle);
    (void)pthread_mutex_lock(&edge->shared.lock);
    while (edge->shared.count == queue_max && !edge->shared.stop &&
           kvt_cond_wait(&edge->shared.room, &edge->shared.lock, &deadline))
        continue;
    if (edge->shared.count < queue_max && !edge->shared.stop) {
        edge->shared.ring[(edge->shared.first + edge->shared.count) % queue_max] = handle;
        edge->shared.count++;
        (void)pthread_cond_signal(&edge->shared.wake);
        rc = KVT_OK;
    }
    (void)pthread_mutex_unlock(&edge->shared.lock);
    if (rc != KVT_OK) {
        atomic_fetch_add(&edge->failed, 1);
        kvbm_pool_drop(edge->source.pool, handle);
    }
    return rc;
}

static void
kick(struct kvbm_edge_state *edge, uint32_t demand)
{
    (void)pthread_mutex_lock(&edge->shared.lock);
    if (edge->shared.demand < demand)
        edge->shared.demand = demand;
    edge->shared.kicked = true;
    (void)pthread_cond_signal(&edge->shared.wake);
    (void)pthread_mutex_unlock(&edge->shared.lock);
}

void
kvbm_offload_make_room(struct kvbm_offload *offload, enum kvbm_edge which, uint32_t count,
                       uint64_t wait_ms)
{
    struct kvbm_edge_state *edge = &offload->edges[which];
    struct kvbm_pool_stats stats;

    assert((unsigned)which < KVBM_EDGE_COUNT);
    if (!edge->started)
        return;
    stats = kvbm_pool_stats(edge->source.pool);
    if (stats.free >= count &&
        stats.blocks - stats.free <= share_of(&stats, offload->options.high_ppm))
        return;
    if (count == 0 || atomic_load(&edge->stalled) || count > stats.blocks) {
        if (!atomic_load(&edge->stalled))
            kick(edge, 0);
        return;
    }
    kick(edge, count);
    if (stats.free < count && wait_ms > 0 &&
        !kvbm_pool_wait_free(edge->source.pool, count, wait_ms))
        atomic_store(&edge->stalled, true); /* the next one need not wait in vain */
}

/* Two rests: the first may belong to a look that began before our kick. */
static bool
wait_rest(struct kvbm_edge_state *edge, uint64_t deadline_ms)
{
    uint64_t until;
    uint64_t now;

    (void)pthread_mutex_lock(&edge->shared.lock);
    until = edge->shared.rests + 2;
    (void)pthread_mutex_unlock(&edge->shared.lock);
    do {
        kick(edge, 0);
        kvt_clock_sleep_ms(DRAIN_WAIT);
        (void)pthread_mutex_lock(&edge->shared.lock);
        now = edge->shared.rests;
        (void)pthread_mutex_unlock(&edge->shared.lock);
        if (now >= until)
            return true;
    } while (kvt_clock_mono_ms() < deadline_ms);
    return false;
}

bool
kvbm_offload_drain(struct kvbm_offload *offload, uint64_t wait_ms)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + wait_ms;

    for (size_t i = 0; i < KVBM_EDGE_COUNT; i++)
        if (offload->edges[i].started && !wait_rest(&offload->edges[i], deadline_ms))
            return false;
    return true;
}

void
kvbm_offload_stats(struct kvbm_offload *offload, enum kvbm_edge which,
                   struct kvbm_offload_stats *stats)
{
    const struct kvbm_edge_state *edge = &offload->edges[which];

    stats->blocks = atomic_load(&edge->blocks);
    stats->bytes = atomic_load(&edge->bytes);
    stats->present = atomic_load(&edge->present);
    stats->failed = atomic_load(&edge->failed);
    stats->full = atomic_load(&edge->full);
    stats->corrupt = atomic_load(&edge->corrupt);
}
