/* The object tier: asked, stored to and loaded from, in the caller's time or by a thread of its
 * own; and as one more place that a match's blocks may come from. */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/cond.h"
#include "base/deadline.h"
#include "kvbm/block.h"

#include "engine/match_internal.h"

enum {
    BATCH = 64, /* blocks under one fence: as long as one call of the object tier is long */
    FIRST = 2,  /* blocks that a search asks for before it knows of any */
    GROWTH =
        3, /* ... and then so many times as it knows of: behind a hole they are asked in vain */
};

/* ---- as an origin ---- */

static void
asked(struct engine_haul *haul)
{
    struct engine_match *match = haul->match;
    uint32_t there = 0;

    if (match == NULL || match->state != ENGINE_SEARCHING)
        return;
    while (there < haul->job.count && haul->items[there].status == KVT_OK)
        there++;
    match->running--;
    match->asked_for += there;
    if (there == haul->job.count && match->found + match->asked_for < match->count) {
        match->waits = true; /* and is asked on as soon as this haul is free */
        return;
    }
    if (there < haul->job.count && haul->items[there].status != KVT_NOTFOUND)
        engine_match_found(match, match->asked_for, haul->items[there].status, haul->error.text);
    else
        engine_match_found(match, match->asked_for, KVT_OK, NULL);
}

static void
search(struct engine_match *match)
{
    struct engine_haul *haul = engine_haul_take(match->leader, ENGINE_HAUL_ASK);
    const uint32_t first = match->found + match->asked_for;
    const uint64_t now_ms = kvt_clock_mono_ms();
    const uint32_t want = match->asked_for == 0 ? FIRST : GROWTH * match->asked_for;
    uint32_t count = match->count - first;

    match->waits = haul == NULL;
    if (haul == NULL)
        return;
    if (count > want)
        count = want;
    if (count > BATCH)
        count = BATCH;
    haul->match = match;
    haul->job.verb = ENGINE_ASK;
    haul->job.count = count;
    for (uint32_t i = 0; i < count; i++)
        haul->items[i] = (struct engine_item){.label = match->labels[first + i]};
    match->running++;
    engine_haul_start(haul, KVT_PRIORITY_URGENT,
                      match->until_ms > now_ms ? match->until_ms - now_ms : 0, asked);
}

static void
fill(struct engine_match *match, uint32_t first, struct engine_job *job)
{
    (void)match;
    (void)first;
    job->verb = ENGINE_LOAD; /* keys are made from labels, which are there */
}

const struct engine_origin engine_origin_objects = {.search = search, .fill = fill};

/* ---- what waits ---- */

static void
say(enum kvt_err *statuses, size_t count, enum kvt_err rc)
{
    for (size_t i = 0; i < count; i++)
        statuses[i] = rc;
}

static bool
is_well(enum kvt_err status)
{
    return status == KVT_OK || status == KVT_EXISTS;
}

static enum kvt_err
worst(const enum kvt_err *statuses, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!is_well(statuses[i]))
            return statuses[i];
    return KVT_OK;
}

/* One job of at most BATCH items; each says how it ended. */
static void
run_job(struct engine_leader *leader, struct engine_job *job, uint64_t until_ms,
        enum kvt_err *statuses)
{
    struct engine_outcome outcome;

    job->wait_ms = kvt_deadline_left(until_ms);
    for (size_t i = 0; i < job->count; i++)
        job->items[i].status = KVT_CANCELLED;
    (void)engine_worker_run(leader->options.worker, job, &outcome);
    for (size_t i = 0; i < job->count; i++)
        statuses[i] = job->items[i].status;
}

/* ---- has ---- */

enum kvt_err
engine_leader_has_objects(struct engine_leader *leader, const struct kvbm_label *labels,
                          size_t count, enum kvt_err *statuses, uint64_t wait_ms)
{
    const uint64_t until_ms = kvt_deadline_in(wait_ms);

    if (!leader->options.worker->objects) {
        say(statuses, count, KVT_UNSUPPORTED);
        return KVT_UNSUPPORTED;
    }
    for (size_t first = 0; first < count; first += BATCH) {
        struct engine_item items[BATCH] = {0};
        struct engine_job job = {.verb = ENGINE_ASK, .priority = KVT_PRIORITY_HIGH, .items = items};

        job.count = count - first < BATCH ? count - first : BATCH;
        for (size_t i = 0; i < job.count; i++)
            items[i].label = labels[first + i];
        run_job(leader, &job, until_ms, statuses + first);
    }
    for (size_t i = 0; i < count; i++)
        if (statuses[i] != KVT_NOTFOUND && !is_well(statuses[i]))
            return statuses[i];
    return KVT_OK;
}

/* ---- put ---- */

/* A batch that somebody else stores, or has stored meanwhile, is not ours to count. */
static void
put_batch(struct engine_leader *leader, const struct kvt_handle *handles, size_t count,
          enum kvt_priority priority, uint64_t until_ms, enum kvt_err *statuses)
{
    const struct engine_fence *fence = leader->options.fence;
    struct engine_item items[BATCH] = {0};
    struct kvbm_label labels[BATCH];
    struct engine_job job = {
        .verb = ENGINE_STORE,
        .from = KVT_TIER_G2,
        .priority = priority,
        .items = items,
        .count = count,
    };
    uint64_t token = 0;
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < count; i++) {
        labels[i] = kvbm_pool_label(leader->options.g2, handles[i]);
        items[i] = (struct engine_item){.label = labels[i], .source = handles[i].block};
    }
    if (fence != NULL)
        rc = fence->acquire(fence->arg, labels, count, kvt_deadline_left(until_ms), &token);
    if (rc != KVT_OK) {
        say(statuses, count, rc);
        return;
    }
    run_job(leader, &job, until_ms, statuses);
    if (fence != NULL)
        rc = fence->release(fence->arg, labels, count, token);
    for (size_t i = 0; i < count; i++) {
        if (rc != KVT_OK && is_well(statuses[i]))
            statuses[i] = rc;
        if (is_well(statuses[i]))
            kvbm_pool_mark_saved(leader->options.g2, handles[i]);
    }
}

static void
count_stored(struct engine_leader *leader, const enum kvt_err *statuses, size_t count)
{
    size_t stored = 0;
    size_t failed = 0;

    for (size_t i = 0; i < count; i++) {
        stored += statuses[i] == KVT_OK;
        failed += !is_well(statuses[i]);
    }
    engine_leader_count(leader, &leader->shared.stats.stored, stored);
    engine_leader_count(leader, &leader->shared.stats.store_failed, failed);
}

enum kvt_err
engine_leader_put_objects(struct engine_leader *leader, const struct kvt_handle *handles,
                          size_t count, enum kvt_err *statuses, uint64_t wait_ms)
{
    const uint64_t until_ms = kvt_deadline_in(wait_ms);

    if (!leader->options.worker->objects) {
        say(statuses, count, KVT_UNSUPPORTED);
        return KVT_UNSUPPORTED;
    }
    for (size_t first = 0; first < count; first += BATCH) {
        const size_t batch = count - first < BATCH ? count - first : BATCH;

        put_batch(leader, handles + first, batch, KVT_PRIORITY_HIGH, until_ms, statuses + first);
    }
    count_stored(leader, statuses, count);
    return worst(statuses, count);
}

/* ---- get ---- */

/* What G2 has already is held; of the others, which. */
static size_t
get_there(struct engine_leader *leader, const struct kvbm_label *labels, size_t count,
          struct kvt_handle *handles, enum kvt_err *statuses, size_t missing[BATCH])
{
    size_t wanted = 0;

    for (size_t i = 0; i < count; i++) {
        statuses[i] = kvbm_pool_find(leader->options.g2, labels[i].id.hash, &handles[i]);
        if (statuses[i] != KVT_OK)
            missing[wanted++] = i;
    }
    return wanted;
}

static void
get_batch(struct engine_leader *leader, const struct kvbm_label *labels, size_t count,
          struct kvt_handle *handles, enum kvt_err *statuses, uint64_t until_ms)
{
    struct kvbm_pool *pool = leader->options.g2;
    struct engine_item items[BATCH] = {0};
    struct kvt_handle targets[BATCH];
    enum kvt_err loaded[BATCH];
    size_t missing[BATCH];
    const size_t wanted = get_there(leader, labels, count, handles, statuses, missing);
    struct engine_job job = {
        .verb = ENGINE_LOAD,
        .to = KVT_TIER_G2,
        .priority = KVT_PRIORITY_URGENT,
        .items = items,
        .count = wanted,
    };
    enum kvt_err rc;

    if (wanted == 0)
        return;
    rc = engine_leader_allocate(leader, wanted, targets, kvt_deadline_left(until_ms));
    for (size_t i = 0; i < wanted && rc == KVT_OK; i++) {
        rc = kvbm_block_begin(pool, targets[i], NULL);
        assert(rc == KVT_OK); /* a freshly allocated block is Reset */
        items[i] = (struct engine_item){.label = labels[missing[i]], .target = targets[i].block};
    }
    say(loaded, wanted, rc);
    if (rc == KVT_OK)
        run_job(leader, &job, until_ms, loaded);
    for (size_t i = 0; i < wanted; i++) {
        if (loaded[i] == KVT_OK)
            loaded[i] = engine_leader_register(pool, &targets[i], &items[i].label);
        statuses[missing[i]] = loaded[i];
        if (loaded[i] == KVT_OK) {
            kvbm_pool_mark_saved(pool, targets[i]);
            handles[missing[i]] = targets[i];
        } else if (rc == KVT_OK) {
            kvbm_pool_drop(pool, targets[i]);
        }
    }
    engine_leader_tell(leader, handles, count, false);
}

enum kvt_err
engine_leader_get_objects(struct engine_leader *leader, const struct kvbm_label *labels,
                          size_t count, struct kvt_handle *handles, enum kvt_err *statuses,
                          uint64_t wait_ms)
{
    const uint64_t until_ms = kvt_deadline_in(wait_ms);

    memset(handles, 0, count * sizeof(*handles));
    if (!leader->options.worker->objects) {
        say(statuses, count, KVT_UNSUPPORTED);
        return KVT_UNSUPPORTED;
    }
    for (size_t first = 0; first < count; first += BATCH) {
        const size_t batch = count - first < BATCH ? count - first : BATCH;

        get_batch(leader, labels + first, batch, handles + first, statuses + first, until_ms);
    }
    return worst(statuses, count);
}

/* ---- the storing thread ---- */

/* The oldest that wait, held; 0: it is to end. */
static size_t
take_stores(struct engine_leader *leader, struct kvt_handle *handles)
{
    size_t count;
    size_t held = 0;

    (void)pthread_mutex_lock(&leader->shared.lock);
    while (leader->shared.store_count == 0 && !leader->shared.store_stop)
        (void)pthread_cond_wait(&leader->shared.store, &leader->shared.lock);
    count = leader->shared.store_stop ? 0 : leader->shared.store_count;
    if (count > BATCH)
        count = BATCH;
    for (size_t i = 0; i < count; i++)
        handles[i] = leader->shared.stores[(leader->shared.store_first + i) % ENGINE_ARRIVALS];
    leader->shared.store_first = (leader->shared.store_first + count) % ENGINE_ARRIVALS;
    leader->shared.store_count -= count;
    (void)pthread_mutex_unlock(&leader->shared.lock);
    for (size_t i = 0; i < count; i++) {
        handles[held] = handles[i];
        held += kvbm_pool_upgrade(leader->options.g2, handles[i]) == KVT_OK;
    }
    engine_leader_count(leader, &leader->shared.stats.store_failed, count - held);
    return held;
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

static void *
store(void *arg)
{
    struct engine_leader *leader = arg;

    while (!is_stopped(leader)) {
        const uint64_t until_ms = kvt_deadline_in(leader->options.job_ms);
        struct kvt_handle handles[BATCH];
        enum kvt_err statuses[BATCH];
        const size_t count = take_stores(leader, handles);

        if (count == 0)
            continue;
        put_batch(leader, handles, count, KVT_PRIORITY_NORMAL, until_ms, statuses);
        count_stored(leader, statuses, count);
        kvbm_pool_drop_all(leader->options.g2, handles, count);
    }
    return NULL;
}

enum kvt_err
engine_objects_open(struct engine_leader *leader)
{
    if (!leader->options.store || !leader->options.worker->objects)
        return KVT_OK;
    if (pthread_create(&leader->storer, NULL, store, leader) != 0)
        return KVT_NOMEM;
    leader->storer_runs = true;
    return KVT_OK;
}

void
engine_objects_close(struct engine_leader *leader)
{
    if (!leader->storer_runs)
        return;
    (void)pthread_mutex_lock(&leader->shared.lock);
    leader->shared.store_stop = true;
    (void)pthread_cond_signal(&leader->shared.store);
    (void)pthread_mutex_unlock(&leader->shared.lock);
    (void)pthread_join(leader->storer, NULL);
}
