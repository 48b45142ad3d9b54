/* What leaves one tier downwards, and why: it was pushed, room is needed, or it rests. */
#include <assert.h>

#include "kvbm/offload/manager_internal.h"
#include "kvbm/pool/mutable_block.h"

enum { UNPUSHED_JOBS = 2 }; /* of KVT_OFFLOAD_JOBS, on an edge between pools */

static const struct kvbm_manager_tier *
source_of(const struct kvbm_edge_down *edge)
{
    return &edge->manager->options.tiers[edge->from];
}

static struct kvbm_pool *
pool_below(const struct kvbm_edge_down *edge)
{
    return edge->to == KVT_TIER_G4 ? NULL : edge->manager->options.tiers[edge->to].pool;
}

static uint32_t
share_of(const struct kvbm_pool_stats *stats, uint32_t ppm)
{
    return (uint32_t)((uint64_t)stats->blocks * ppm / 1000000);
}

static size_t
least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- what becomes of a block ---- */

static void
let_go(struct kvbm_edge_down *edge, enum kvbm_job_why why, struct kvt_handle source)
{
    struct kvbm_pool *pool = source_of(edge)->pool;

    switch (why) {
    case KVBM_JOB_LOWERED: kvbm_pool_drop_cold(pool, source); break;
    case KVBM_JOB_IDLE: kvbm_pool_drop_same(pool, source); break;
    case KVBM_JOB_PUSHED:
    case KVBM_JOB_ONBOARD: kvbm_pool_drop(pool, source); break;
    }
}

bool
kvbm_edge_settle(struct kvbm_edge_down *edge, enum kvbm_job_why why, struct kvt_handle source,
                 enum kvt_err status)
{
    const struct kvbm_manager_tier *tier = source_of(edge);

    switch (status) {
    case KVT_OK:
        atomic_fetch_add(&edge->counts.blocks, 1);
        atomic_fetch_add(&edge->counts.bytes, tier->storage->block_size);
        break;
    case KVT_EXISTS: atomic_fetch_add(&edge->counts.present, 1); break;
    case KVT_CORRUPT:
    case KVT_NOTFOUND:
        atomic_fetch_add(&edge->counts.corrupt, 1);
        atomic_fetch_add(&edge->counts.failed, 1);
        kvbm_pool_discard(tier->pool, source);
        return false;
    case KVT_FULL: atomic_fetch_add(&edge->counts.full, 1); /* fall through */
    default:
        atomic_fetch_add(&edge->counts.failed, 1);
        /* What may work by itself later is tried again when the edge does; a refusal is final. */
        if (!kvt_err_retryable(status) && status != KVT_CANCELLED)
            kvbm_pool_set_aside(tier->pool, source);
        let_go(edge, why, source);
        return false;
    }
    kvbm_pool_mark_saved(tier->pool, source);
    if (why == KVBM_JOB_LOWERED)
        (void)kvbm_pool_evict(tier->pool, source); /* or it stays with who found it */
    else
        let_go(edge, why, source);
    return true;
}

/* ---- which may go ---- */

static bool
may_go(const struct kvbm_edge_down *edge, const struct kvbm_pool_facts *facts)
{
    const struct kvbm_manager_tier *tier = source_of(edge);
    const uint32_t position = facts->label.id.position;

    return facts->priority >= tier->min_priority && position >= tier->position_from &&
           (tier->position_to == 0 || position < tier->position_to) &&
           (tier->filter == NULL ||
            tier->filter(tier->filter_arg, edge->from, &facts->label, facts->priority));
}

static void
refuse(struct kvbm_edge_down *edge, enum kvbm_job_why why, struct kvt_handle source)
{
    atomic_fetch_add(&edge->counts.filtered, 1);
    if (why != KVBM_JOB_PUSHED) /* who pushed it has it in use, and may push it again */
        kvbm_pool_set_aside(source_of(edge)->pool, source);
    let_go(edge, why, source);
}

/* Is the block in the tier below?  For one that only has to make room any lower tier will do: what
 * went on from the next one need not go there again. */
static bool
is_below(const struct kvbm_edge_down *edge, enum kvbm_job_why why, uint64_t hash)
{
    const struct kvbm_manager *manager = edge->manager;
    bool found = false;

    for (unsigned tier = edge->to; tier < KVT_TIER_G4 && !found; tier++) {
        struct kvbm_pool *pool = manager->options.tiers[tier].pool;

        found = pool != NULL && kvbm_pool_has(pool, hash);
        if (why != KVBM_JOB_LOWERED)
            break;
    }
    return found;
}

/* Sort out what may not go and what is below already; what is left must be moved. */
static void
take_aboard(struct kvbm_job *job, const struct kvt_handle *handles, size_t count)
{
    struct kvbm_edge_down *edge = job->edge;

    job->count = 0;
    for (size_t i = 0; i < count; i++) {
        const struct kvbm_pool_facts facts = kvbm_pool_facts(source_of(edge)->pool, handles[i]);

        if (!may_go(edge, &facts)) {
            refuse(edge, job->why, handles[i]);
        } else if (is_below(edge, job->why, facts.label.id.hash)) {
            (void)kvbm_edge_settle(edge, job->why, handles[i], KVT_EXISTS);
            atomic_store(&edge->stalled, false);
        } else {
            job->entries[job->count++] =
                (struct kvbm_job_block){.source = handles[i], .label = facts.label};
        }
    }
}

/* ---- room ---- */

/* Can somebody who needs room in the tier hope for this edge? */
static bool
can_help(const struct kvbm_edge_down *edge, uint64_t now_ms)
{
    return edge->present && !edge->dry && now_ms >= edge->pause_ms && !atomic_load(&edge->stalled);
}

bool
kvbm_edge_room(struct kvbm_manager *manager, enum kvt_tier tier, uint32_t count, uint64_t *since_ms,
               uint64_t now_ms)
{
    struct kvbm_edge_down *edge = &manager->edges[tier];
    const struct kvbm_manager_tier *at = &manager->options.tiers[tier];
    const uint64_t wait_ms = manager->options.room_wait_ms;

    if (kvbm_pool_stats(at->pool).free >= count) {
        *since_ms = 0;
        return true;
    }
    if (at->evicts || wait_ms == 0 || !can_help(edge, now_ms))
        return true;
    if (edge->demand < count) {
        edge->demand = count;
        kvbm_manager_kick(manager); /* the next pass may come at once: what is below just goes */
    }
    if (*since_ms == 0)
        *since_ms = now_ms > 0 ? now_ms : 1;
    if (now_ms - *since_ms < wait_ms)
        return false;
    atomic_store(&edge->stalled, true); /* the next one need not wait in vain */
    return true;
}

enum kvt_err
kvbm_edge_spare(struct kvbm_manager *manager, enum kvt_tier tier, uint32_t count,
                struct kvt_handle *handles)
{
    const struct kvbm_manager_tier *at = &manager->options.tiers[tier];
    const struct kvbm_pool_stats stats = kvbm_pool_stats(at->pool);

    if (stats.blocks - stats.free + count > share_of(&stats, at->high_ppm))
        return KVT_AGAIN;
    return kvbm_pool_allocate_free(at->pool, count, handles);
}

/* ---- what to begin ---- */

/* Blocks on their way down for the sake of room here. */
static uint32_t
leaving(const struct kvbm_edge_down *edge)
{
    size_t count = 0;

    for (size_t i = 0; i < KVT_OFFLOAD_JOBS; i++)
        if (edge->jobs[i].state != KVBM_JOB_FREE && edge->jobs[i].why == KVBM_JOB_LOWERED)
            count += edge->jobs[i].count;
    return (uint32_t)count;
}

/* How many blocks should go now.  Begins above `high`, or on demand, and then goes on to `low`, so
 * that one block more or less does not start a batch of one. */
static uint32_t
excess(struct kvbm_edge_down *edge)
{
    const struct kvbm_manager_tier *tier = source_of(edge);
    const struct kvbm_pool_stats stats = kvbm_pool_stats(tier->pool);
    const uint32_t low = share_of(&stats, tier->low_ppm);
    const uint32_t going = leaving(edge);
    const uint32_t taken = stats.blocks - stats.free;
    const uint32_t used = taken > going ? taken - going : 0;
    uint32_t wanted = 0;

    if (stats.free >= edge->demand)
        edge->demand = 0;
    else if (edge->demand > stats.free + going)
        wanted = edge->demand - stats.free - going;
    if (used <= low)
        edge->lowering = false;
    else if (used > share_of(&stats, tier->high_ppm))
        edge->lowering = true;
    if (edge->lowering && used - low > wanted)
        wanted = used - low;
    return wanted;
}

/* How many pushed blocks wait for this edge. */
static size_t
count_pushed(const struct kvbm_edge_down *edge)
{
    struct kvbm_manager *manager = edge->manager;
    size_t count;

    if (edge->from != manager->top)
        return 0;
    (void)pthread_mutex_lock(&manager->shared.lock);
    count = manager->shared.ring_count;
    (void)pthread_mutex_unlock(&manager->shared.lock);
    return count;
}

static void
take_pushed(struct kvbm_edge_down *edge, struct kvt_handle *handles, size_t count)
{
    struct kvbm_manager *manager = edge->manager;

    (void)pthread_mutex_lock(&manager->shared.lock);
    assert(count <= manager->shared.ring_count);
    for (size_t i = 0; i < count; i++) {
        handles[i] = manager->shared.ring[manager->shared.ring_first];
        manager->shared.ring_first = (manager->shared.ring_first + 1) % manager->options.queue_max;
    }
    manager->shared.ring_count -= count;
    (void)pthread_cond_broadcast(&manager->shared.moved);
    (void)pthread_mutex_unlock(&manager->shared.lock);
}

/* Before blocks are held: is there room for them below?  False: it is being made. */
static bool
has_room(struct kvbm_edge_down *edge, size_t count, uint64_t now_ms)
{
    if (edge->to == KVT_TIER_G4 ||
        kvbm_edge_room(edge->manager, edge->to, (uint32_t)count, &edge->room_ms, now_ms)) {
        edge->room_ms = 0; /* the next want of room begins by itself, however this one ended */
        return true;
    }
    edge->waits = true;
    return false;
}

/* Copies ahead of time use what is free, and push nothing out below. */
static size_t
choose_idle(struct kvbm_edge_down *edge, struct kvt_handle *handles, uint32_t *looks)
{
    const struct kvbm_manager_tier *tier = source_of(edge);
    struct kvbm_pool *below = pool_below(edge);
    size_t max = edge->batch_max;
    size_t count;

    if (below != NULL)
        max = least(max, kvbm_pool_stats(below).free);
    if (tier->idle_iterations == 0 || *looks == 0 || max == 0)
        return 0;
    count = kvbm_pool_idle(tier->pool, tier->idle_iterations, &edge->idle_at, *looks, max, handles);
    if (count < max)
        *looks = 0; /* it has looked at that many */
    atomic_fetch_add(&edge->counts.idle, count);
    return count;
}

/* May one more batch begin that nobody pushed?  In a pool below each has room taken for it as soon
 * as it begins, which costs blocks there, and the path moves one at a time: one more than that is
 * enough.  An object store takes several at once, and is given no room ahead. */
static bool
may_begin(const struct kvbm_edge_down *edge)
{
    unsigned count = 0;

    for (size_t i = 0; i < KVT_OFFLOAD_JOBS; i++)
        count += edge->jobs[i].state != KVBM_JOB_FREE && edge->jobs[i].why != KVBM_JOB_PUSHED;
    return edge->to == KVT_TIER_G4 || count < UNPUSHED_JOBS;
}

/* Hold what should go next, and say why; 0: nothing. */
static size_t
choose(struct kvbm_edge_down *edge, enum kvbm_job_why *why, struct kvt_handle *handles,
       uint32_t *looks, uint64_t now_ms)
{
    size_t count = least(count_pushed(edge), edge->batch_max);
    uint32_t wanted;

    *why = KVBM_JOB_PUSHED;
    if (count > 0) {
        if (!has_room(edge, count, now_ms))
            return 0;
        take_pushed(edge, handles, count);
        atomic_fetch_add(&edge->counts.pushed, count);
        return count;
    }
    if (now_ms < edge->pause_ms || !may_begin(edge))
        return 0;
    *why = KVBM_JOB_LOWERED;
    wanted = excess(edge);
    if (wanted > 0) {
        if (!has_room(edge, least(wanted, edge->batch_max), now_ms))
            return 0;
        count = kvbm_pool_coldest(source_of(edge)->pool, least(wanted, edge->batch_max), handles);
        atomic_fetch_add(&edge->counts.lowered, count);
        if (count > 0)
            return count;
        if (leaving(edge) == 0) { /* all in use, or set aside: nothing of ours to do */
            edge->dry = true;
            edge->demand = 0;
            edge->lowering = false;
        }
    }
    *why = KVBM_JOB_IDLE;
    return choose_idle(edge, handles, looks);
}

/* Give every source back: the tier below had no room after all. */
static void
disembark(struct kvbm_job *job, enum kvt_err why)
{
    for (size_t i = 0; i < job->count; i++)
        (void)kvbm_edge_settle(job->edge, job->why, job->entries[i].source, why);
    job->count = 0;
}

static void
embark(struct kvbm_job *job, uint64_t now_ms)
{
    struct kvbm_edge_down *edge = job->edge;
    struct kvbm_pool *below = pool_below(edge);
    struct kvt_handle targets[KVT_OFFLOAD_BATCH];

    if (job->count == 0)
        return;
    if (below != NULL) {
        const enum kvt_err rc = kvbm_pool_allocate(below, job->count, targets);

        if (rc != KVT_OK) {
            disembark(job, rc);
            if (job->why != KVBM_JOB_PUSHED)
                edge->pause_ms = now_ms + edge->manager->options.retry_ms;
            return;
        }
        for (size_t i = 0; i < job->count; i++)
            job->entries[i].target = targets[i];
    }
    atomic_fetch_add(&edge->counts.moving, job->count);
    kvbm_job_begin(job);
}

/* True: something was begun, or seen to. */
static bool
begin(struct kvbm_edge_down *edge, struct kvbm_job *job, uint32_t *looks, uint64_t now_ms)
{
    struct kvt_handle handles[KVT_OFFLOAD_BATCH];
    size_t count;

    job->edge = edge;
    job->from = edge->from;
    job->to = edge->to;
    job->last = edge->to;
    job->staging = edge->staging;
    job->staged = edge->staging != NULL;
    job->staging_first = (uint32_t)((size_t)(job - edge->jobs) * edge->batch_max);
    count = choose(edge, &job->why, handles, looks, now_ms);
    if (count == 0)
        return false;
    take_aboard(job, handles, count);
    embark(job, now_ms);
    return true;
}

void
kvbm_edge_step(struct kvbm_edge_down *edge, uint64_t now_ms)
{
    uint32_t looks = KVT_OFFLOAD_LOOKS;
    bool busy = false;

    if (!edge->present)
        return;
    for (size_t i = 0; i < KVT_OFFLOAD_JOBS; i++)
        kvbm_job_poll(&edge->jobs[i], now_ms);
    edge->dry = false;
    edge->rests = true;
    edge->waits = false;
    for (size_t i = 0; i < KVT_OFFLOAD_JOBS && !edge->manager->closing; i++) {
        struct kvbm_job *job = kvbm_job_free(edge->jobs, KVT_OFFLOAD_JOBS);

        if (job == NULL || !begin(edge, job, &looks, now_ms))
            break;
        edge->rests = false;
    }
    if (!edge->waits)
        edge->room_ms = 0; /* nothing is wanted below any more */
    for (size_t i = 0; i < KVT_OFFLOAD_JOBS; i++)
        busy = busy || edge->jobs[i].state != KVBM_JOB_FREE;
    edge->rests = edge->rests && !edge->waits && !busy && count_pushed(edge) == 0;
    if (now_ms >= edge->pause_ms && edge->rests && !edge->dry)
        atomic_store(&edge->stalled, false);
}
