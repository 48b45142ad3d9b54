/* The object tier: asked, stored to and loaded from in the caller's time; and as one more place
 * that a match's blocks may come from. */
#include <assert.h>
#include <string.h>

#include "base/core/clock.h"
#include "base/core/deadline.h"
#include "base/thread/cond.h"
#include "kvbm/pool/mutable_block.h"

#include "engine/leader/leader_internal.h"

enum {
    FIRST = 2, /* blocks that a search asks for before it knows of any */
    GROWTH =
        3, /* ... and then so many times as it knows of: behind a hole they are asked in vain */
};

/* ---- as an origin ---- */

static void
asked(struct engine_leader_job *task)
{
    struct engine_match *match = task->match;
    uint32_t there = 0;

    if (match == NULL || match->state != ENGINE_SEARCHING)
        return;
    while (there < task->job.count && task->items[there].status == KVT_OK)
        there++;
    match->running--;
    match->asked_for += there;
    if (there == task->job.count && match->found + match->asked_for < match->count) {
        match->waits = true; /* and is asked on as soon as this task is free */
        return;
    }
    if (there < task->job.count && task->items[there].status != KVT_NOTFOUND)
        engine_match_found(match, match->asked_for, task->items[there].status, task->error.text);
    else
        engine_match_found(match, match->asked_for, KVT_OK, NULL);
}

static void
search(struct engine_match *match)
{
    struct engine_leader_job *task = engine_leader_job_take(match->leader, ENGINE_LEADER_JOB_ASK);
    const uint32_t first = match->found + match->asked_for;
    const uint64_t now_ms = kvt_clock_mono_ms();
    const uint32_t want = match->asked_for == 0 ? FIRST : GROWTH * match->asked_for;
    uint32_t count = match->count - first;

    match->waits = task == NULL;
    if (task == NULL)
        return;
    if (count > want)
        count = want;
    if (count > ENGINE_BATCH)
        count = ENGINE_BATCH;
    task->match = match;
    task->job.verb = ENGINE_ASK;
    task->job.count = count;
    for (uint32_t i = 0; i < count; i++)
        task->items[i] = (struct engine_item){.label = match->labels[first + i]};
    match->running++;
    engine_leader_job_start(task, KVT_PRIORITY_URGENT,
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

bool
engine_objects_is_well(enum kvt_err status)
{
    return status == KVT_OK || status == KVT_EXISTS;
}

static enum kvt_err
worst(const enum kvt_err *statuses, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!engine_objects_is_well(statuses[i]))
            return statuses[i];
    return KVT_OK;
}

void
engine_objects_run(struct engine_leader *leader, struct engine_job *job, uint64_t until_ms,
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
    for (size_t first = 0; first < count; first += ENGINE_BATCH) {
        struct engine_item items[ENGINE_BATCH] = {0};
        struct engine_job job = {.verb = ENGINE_ASK, .priority = KVT_PRIORITY_HIGH, .items = items};

        job.count = count - first < ENGINE_BATCH ? count - first : ENGINE_BATCH;
        for (size_t i = 0; i < job.count; i++)
            items[i].label = labels[first + i];
        engine_objects_run(leader, &job, until_ms, statuses + first);
    }
    for (size_t i = 0; i < count; i++)
        if (statuses[i] != KVT_NOTFOUND && !engine_objects_is_well(statuses[i]))
            return statuses[i];
    return KVT_OK;
}

/* ---- put ---- */

enum kvt_err
engine_leader_put_objects(struct engine_leader *leader, const struct kvt_handle *handles,
                          size_t count, enum kvt_err *statuses, uint64_t wait_ms)
{
    const uint64_t until_ms = kvt_deadline_in(wait_ms);

    if (!leader->options.worker->objects) {
        say(statuses, count, KVT_UNSUPPORTED);
        return KVT_UNSUPPORTED;
    }
    for (size_t first = 0; first < count; first += ENGINE_BATCH) {
        const struct engine_store_batch batch = {
            .tier = KVT_TIER_G2,
            .priority = KVT_PRIORITY_HIGH,
            .until_ms = until_ms,
            .handles = handles + first,
            .count = count - first < ENGINE_BATCH ? count - first : ENGINE_BATCH,
        };

        engine_store_put(leader, &batch, statuses + first);
    }
    return worst(statuses, count);
}

/* ---- get ---- */

/* What G2 has already is held; of the others, which. */
static size_t
get_there(struct engine_leader *leader, const struct kvbm_label *labels, size_t count,
          struct kvt_handle *handles, enum kvt_err *statuses, size_t missing[ENGINE_BATCH])
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
    struct engine_item items[ENGINE_BATCH] = {0};
    struct kvt_handle targets[ENGINE_BATCH];
    enum kvt_err loaded[ENGINE_BATCH];
    size_t missing[ENGINE_BATCH];
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
        engine_objects_run(leader, &job, until_ms, loaded);
    for (size_t i = 0; i < wanted; i++) {
        if (loaded[i] == KVT_OK)
            loaded[i] = engine_leader_register(pool, &targets[i], &items[i].label);
        statuses[missing[i]] = loaded[i];
        if (loaded[i] == KVT_OK) {
            kvbm_pool_mark_saved(pool, targets[i]);
            kvbm_pool_mark_stored(pool, items[i].label.id.hash);
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
    for (size_t first = 0; first < count; first += ENGINE_BATCH) {
        const size_t batch = count - first < ENGINE_BATCH ? count - first : ENGINE_BATCH;

        get_batch(leader, labels + first, batch, handles + first, statuses + first, until_ms);
    }
    return worst(statuses, count);
}
