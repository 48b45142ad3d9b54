/* What leaves G2 downwards: coldest first, to G3, when it is fuller than it should be. */
#include <assert.h>

#include "base/core/clock.h"
#include "kvbm/pool/mutable_block.h"

#include "engine/leader/leader_internal.h"

enum {
    PAUSE_MS = 100, /* after a batch of which nothing arrived */
    DRY_MS = 20,    /* after a look that found all in use */
    JOBS = 2,       /* one is moved while the next is planned */
};

static void
kick(struct engine_leader *leader, struct engine_message *message)
{
    (void)message;
    engine_demotion_step(leader);
    engine_stage_all(leader);
}

static void
retry(struct engine_leader *leader, struct engine_timer *timer)
{
    (void)timer;
    engine_demotion_step(leader);
}

void
engine_demotion_open(struct engine_leader *leader)
{
    leader->cascade.kick.run = kick;
    leader->cascade.retry.run = retry;
}

/* ---- room ---- */

enum kvt_err
engine_demotion_room(struct engine_leader *leader, uint32_t count, struct kvt_handle *handles,
                     uint64_t *since_ms)
{
    struct engine_demotion *cascade = &leader->cascade;
    struct kvbm_pool *pool = leader->options.g2;
    const uint64_t now_ms = kvt_clock_mono_ms();
    uint32_t demand;

    if (kvbm_pool_allocate_free(pool, count, handles) == KVT_OK)
        return KVT_OK;
    if (*since_ms == 0)
        *since_ms = now_ms;
    if (leader->options.g3 == NULL || now_ms < atomic_load(&cascade->stalled_ms) ||
        now_ms - *since_ms >= ENGINE_ROOM_MS)
        return kvbm_pool_allocate(pool, count, handles);
    demand = atomic_load(&cascade->demand);
    while (demand < count && !atomic_compare_exchange_weak(&cascade->demand, &demand, count))
        continue;
    engine_leader_post(leader, &cascade->kick);
    return KVT_BUSY;
}

/* ---- how much ---- */

static uint32_t
share_of(const struct kvbm_pool_stats *stats, uint32_t ppm)
{
    return (uint32_t)((uint64_t)stats->blocks * ppm / 1000000);
}

static uint32_t
leaving(const struct engine_leader *leader)
{
    size_t count = 0;

    for (const struct engine_leader_job *task = leader->busy; task != NULL; task = task->next)
        count += task->kind == ENGINE_LEADER_JOB_DOWN ? task->job.count : 0;
    return (uint32_t)count;
}

/* Begins above `high`, or on demand, and then goes on to `low`, so that one block more or less does
 * not start a batch of one. */
static uint32_t
excess(struct engine_leader *leader)
{
    struct engine_demotion *cascade = &leader->cascade;
    const struct kvbm_pool_stats stats = kvbm_pool_stats(leader->options.g2);
    const uint32_t low = share_of(&stats, leader->options.g2_low_ppm);
    const uint32_t going = leaving(leader);
    const uint32_t taken = stats.blocks - stats.free;
    const uint32_t used = taken > going ? taken - going : 0;
    const uint32_t demand = atomic_load(&cascade->demand);
    uint32_t wanted = 0;

    if (stats.free >= demand)
        atomic_store(&cascade->demand, 0);
    else if (demand > stats.free + going)
        wanted = demand - stats.free - going;
    if (used <= low)
        cascade->lowering = false;
    else if (used > share_of(&stats, leader->options.g2_high_ppm))
        cascade->lowering = true;
    if (cascade->lowering && used - low > wanted)
        wanted = used - low;
    return wanted;
}

/* ---- a batch ---- */

static void
stall(struct engine_leader *leader, uint64_t pause_ms)
{
    struct engine_demotion *cascade = &leader->cascade;

    cascade->pause_ms = kvt_clock_mono_ms() + pause_ms;
    atomic_store(&cascade->stalled_ms, cascade->pause_ms); /* who needs room evicts */
    atomic_store(&cascade->demand, 0);
    engine_leader_at(leader, &cascade->retry, cascade->pause_ms);
}

/* It is below: gone from here.  False: somebody has found it meanwhile. */
static bool
leave(struct engine_leader *leader, struct kvt_handle source)
{
    enum kvt_err rc;

    kvbm_pool_mark_saved(leader->options.g2, source);
    rc = kvbm_pool_evict(leader->options.g2, source);
    atomic_store(&leader->cascade.stalled_ms, 0);
    return rc == KVT_OK;
}

static void
stay(struct engine_leader *leader, struct kvt_handle source, enum kvt_err why)
{
    struct kvbm_pool *pool = leader->options.g2;

    if (why == KVT_CORRUPT || why == KVT_NOTFOUND) {
        kvbm_pool_discard(pool, source);
        return;
    }
    if (!kvt_err_retryable(why) && why != KVT_CANCELLED)
        kvbm_pool_set_aside(pool, source); /* a refusal is final */
    kvbm_pool_drop_cold(pool, source);
}

static void
went_down(struct engine_leader_job *task)
{
    struct engine_leader *leader = task->leader;
    struct kvbm_pool *below = leader->options.g3;
    size_t safe = 0;
    size_t gone = 0;

    for (size_t i = 0; i < task->job.count; i++) {
        enum kvt_err rc = task->items[i].status;

        if (rc == KVT_OK)
            rc = engine_leader_register(below, &task->targets[i], &task->items[i].label);
        if (rc == KVT_OK && kvbm_pool_facts(leader->options.g2, task->sources[i]).stored)
            kvbm_pool_mark_stored(below, task->items[i].label.id.hash);
        kvbm_pool_drop(below, task->targets[i]);
        if (rc == KVT_OK)
            gone += leave(leader, task->sources[i]);
        else
            stay(leader, task->sources[i], rc);
        safe += rc == KVT_OK;
    }
    if (task->lowers && gone < task->job.count) /* they were taken for gone */
        leader->cascade.lowering = true;
    if (safe == 0)
        stall(leader, PAUSE_MS);
    task->job.count = 0; /* they are on their way no more */
    engine_store_thread_owe(leader);
    (void)pthread_mutex_lock(&leader->shared.lock);
    leader->shared.stats.demoted += safe;
    (void)pthread_cond_broadcast(&leader->shared.moved);
    (void)pthread_mutex_unlock(&leader->shared.lock);
}

/* Sort out what is below already; what is left must be moved. */
static void
take_aboard(struct engine_leader_job *task, size_t held)
{
    struct engine_leader *leader = task->leader;
    size_t count = 0;

    for (size_t i = 0; i < held; i++) {
        const struct kvt_handle source = task->sources[i];
        const struct kvbm_label label = kvbm_pool_label(leader->options.g2, source);

        if (kvbm_pool_has(leader->options.g3, label.id.hash)) {
            (void)leave(leader, source);
            continue;
        }
        task->items[count] = (struct engine_item){.label = label, .source = source.block};
        task->sources[count++] = source;
    }
    task->job.count = count;
}

/* Those from `first` on stay, in their order. */
static void
keep(struct engine_leader_job *task, size_t first)
{
    while (task->job.count > first)
        kvbm_pool_drop_cold(task->leader->options.g2, task->sources[--task->job.count]);
}

/* Room below, by eviction there, for as many as can be had, and off.  False: there is none. */
static bool
send(struct engine_leader_job *task)
{
    struct engine_leader *leader = task->leader;
    size_t count = task->job.count;

    while (count > 0 && kvbm_pool_allocate(leader->options.g3, count, task->targets) != KVT_OK)
        count /= 2;
    keep(task, count);
    if (count == 0)
        return false;
    for (size_t i = 0; i < count; i++) {
        const enum kvt_err rc = kvbm_block_begin(leader->options.g3, task->targets[i], NULL);

        assert(rc == KVT_OK); /* a freshly allocated block is Reset */
        (void)rc;
        task->items[i].target = task->targets[i].block;
    }
    task->lowers = leader->cascade.lowering;
    task->job.verb = ENGINE_COPY;
    task->job.from = KVT_TIER_G2;
    task->job.to = KVT_TIER_G3;
    engine_leader_job_start(task, KVT_PRIORITY_NORMAL, UINT64_MAX, went_down);
    return true;
}

/* True: it made room, or is about to. */
static bool
lower(struct engine_leader *leader, struct engine_leader_job *task, uint32_t wanted)
{
    const uint32_t chunk = leader->options.stage_chunk;
    const size_t held =
        kvbm_pool_coldest(leader->options.g2, wanted < chunk ? wanted : chunk, task->sources);

    if (held == 0) {
        engine_leader_job_give(task);
        if (leaving(leader) == 0)
            stall(leader, DRY_MS);
        return false;
    }
    take_aboard(task, held);
    if (task->job.count == 0) {
        engine_leader_job_give(task);
        return true;
    }
    if (send(task))
        return true;
    engine_leader_job_give(task);
    stall(leader, PAUSE_MS);
    return false;
}

void
engine_demotion_step(struct engine_leader *leader)
{
    bool more = leader->options.g3 != NULL && kvt_clock_mono_ms() >= leader->cascade.pause_ms;

    while (more && leader->under_way[ENGINE_LEADER_JOB_DOWN] < JOBS) {
        const uint32_t wanted = excess(leader);
        struct engine_leader_job *task =
            wanted == 0 ? NULL : engine_leader_job_take(leader, ENGINE_LEADER_JOB_DOWN);

        more = task != NULL && lower(leader, task, wanted);
    }
}
