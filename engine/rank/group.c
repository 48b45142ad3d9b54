#include "engine/rank/group.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>

#include "base/core/alloc.h"
#include "base/core/deadline.h"

struct engine_group {
    struct engine_worker head;
    struct engine_worker *ranks[KVT_RANKS_MAX];
    struct {
        pthread_mutex_t lock; /* guards this struct and what jobs say it does; a leaf */
        size_t jobs;
    } shared;
};

enum part_state { PART_WAITING, PART_RUNNING, PART_ENDED };

/* What one rank does of a job. */
struct part {
    struct group_job *whole;
    struct engine_job job;
    enum part_state state; /* the group's lock */
    enum kvt_err status;   /* how it ended */
    struct kvt_error error;
};

/* A job on its way, with the items of every rank behind it. */
struct group_job {
    struct engine_group *group;
    struct engine_job *job; /* the caller's */
    /* The group's lock. */
    uint32_t left;   /* parts that have not ended, and one until all were begun */
    uint32_t owners; /* itself, and who cancels it */
    bool cancelled;
    struct part parts[];
};

/* Jobs ------------------------------------------------------------------------------------- */

static struct group_job *
job_make(struct engine_group *group, struct engine_job *job)
{
    const uint32_t ranks = group->head.ranks;
    struct group_job *whole =
        kvt_calloc(1, sizeof(*whole) + ranks * sizeof(whole->parts[0]) +
                          ranks * job->count * sizeof(*job->items)); /* all bounded */
    struct engine_item *items;

    if (whole == NULL)
        return NULL;
    whole->group = group;
    whole->job = job;
    whole->left = ranks + 1;
    whole->owners = 1;
    items = (struct engine_item *)&whole->parts[ranks];
    for (uint32_t r = 0; r < ranks; r++, items += job->count) {
        whole->parts[r].whole = whole;
        whole->parts[r].job = *job;
        whole->parts[r].job.items = items;
        for (size_t i = 0; i < job->count; i++) {
            items[i] = job->items[i];
            items[i].status = KVT_CANCELLED;
        }
    }
    return whole;
}

/* The job is nobody's any more: it cannot be cancelled from here on. */
static void
job_release(struct group_job *whole, bool ended)
{
    struct engine_group *group = whole->group;
    bool last;

    (void)pthread_mutex_lock(&group->shared.lock);
    if (ended) {
        whole->job->private_ = NULL;
        group->shared.jobs--;
    }
    last = --whole->owners == 0;
    (void)pthread_mutex_unlock(&group->shared.lock);
    if (last)
        kvt_free(whole);
}

/* Of all ranks the first that is not well, else the first that has something to say. */
static enum kvt_err
merge_item(const struct group_job *whole, size_t at)
{
    const enum engine_verb verb = whole->job->verb;
    enum kvt_err merged = KVT_OK;

    for (uint32_t r = 0; r < whole->group->head.ranks; r++) {
        const enum kvt_err status = whole->parts[r].job.items[at].status;

        if (!engine_item_is_well(verb, status))
            return status;
        if (merged == KVT_OK)
            merged = status;
    }
    return merged;
}

static void
job_end(struct group_job *whole)
{
    struct engine_group *group = whole->group;
    struct engine_job *job = whole->job;
    struct engine_outcome outcome = {.ranks = group->head.ranks};

    for (size_t i = 0; i < job->count; i++)
        job->items[i].status = merge_item(whole, i);
    for (uint32_t r = 0; r < outcome.ranks; r++) {
        const struct part *part = &whole->parts[r];

        outcome.by_rank[r] = part->status;
        if (part->status == KVT_OK || outcome.status != KVT_OK)
            continue;
        outcome.status = part->status;
        outcome.error = part->error;
    }
    job_release(whole, true);
    engine_job_finish(&group->head, job, &outcome);
}

static bool
part_ends(struct part *part)
{
    struct group_job *whole = part->whole;
    bool last;

    (void)pthread_mutex_lock(&whole->group->shared.lock);
    assert(part->state != PART_ENDED);
    part->state = PART_ENDED;
    last = --whole->left == 0;
    (void)pthread_mutex_unlock(&whole->group->shared.lock);
    return last;
}

static void
part_done(void *arg, const struct engine_outcome *outcome)
{
    struct part *part = arg;

    part->status = outcome->status;
    part->error = outcome->error;
    if (part_ends(part))
        job_end(part->whole);
}

/* Did it begin?  Whoever cancelled the job meanwhile left this part to us. */
static bool
part_begin(struct part *part, uint32_t rank)
{
    struct group_job *whole = part->whole;
    struct engine_group *group = whole->group;
    enum kvt_err rc = KVT_CANCELLED;
    bool cancelled;

    part->job.done = part_done;
    part->job.arg = part;
    part->job.private_ = NULL;
    (void)pthread_mutex_lock(&group->shared.lock);
    cancelled = whole->cancelled;
    (void)pthread_mutex_unlock(&group->shared.lock);
    if (!cancelled)
        rc = engine_worker_start(group->ranks[rank], &part->job);
    if (rc != KVT_OK) {
        engine_job_fail(&part->job, rc);
        part->status = rc;
        (void)kvt_error_set(&part->error, rc, "rank %" PRIu32 ": %s: was not begun: %s", rank,
                            engine_verb_name(part->job.verb), kvt_err_text(rc));
        (void)part_ends(part); /* never the last: who begins them counts as one */
        return false;
    }
    (void)pthread_mutex_lock(&group->shared.lock);
    cancelled = part->state == PART_WAITING && whole->cancelled;
    if (part->state == PART_WAITING)
        part->state = PART_RUNNING;
    (void)pthread_mutex_unlock(&group->shared.lock);
    if (cancelled)
        engine_worker_cancel(group->ranks[rank], &part->job);
    return true;
}

/* What all ranks answer alike when none has begun, else KVT_OK. */
static enum kvt_err
unanimous(const struct group_job *whole)
{
    const enum kvt_err first = whole->parts[0].status;

    for (uint32_t r = 1; r < whole->group->head.ranks; r++)
        if (whole->parts[r].status != first)
            return KVT_OK;
    return first == KVT_CANCELLED ? KVT_OK : first;
}

static enum kvt_err
group_start(struct engine_worker *worker, struct engine_job *job)
{
    struct engine_group *group = (struct engine_group *)worker;
    enum kvt_err rc = engine_job_check(worker, job, NULL);
    struct group_job *whole;
    uint32_t begun = 0;
    bool last;

    if (rc != KVT_OK)
        return rc;
    whole = job_make(group, job);
    if (whole == NULL)
        return KVT_NOMEM;
    (void)pthread_mutex_lock(&group->shared.lock);
    if (group->shared.jobs < ENGINE_JOBS_MAX) {
        group->shared.jobs++;
        job->private_ = whole;
    } else {
        rc = KVT_AGAIN;
    }
    (void)pthread_mutex_unlock(&group->shared.lock);
    if (rc != KVT_OK) {
        kvt_free(whole);
        return rc;
    }
    for (uint32_t r = 0; r < worker->ranks; r++)
        begun += part_begin(&whole->parts[r], r) ? 1 : 0;
    rc = begun == 0 ? unanimous(whole) : KVT_OK;
    if (rc != KVT_OK) {
        job_release(whole, true);
        return rc;
    }
    (void)pthread_mutex_lock(&group->shared.lock);
    last = --whole->left == 0;
    (void)pthread_mutex_unlock(&group->shared.lock);
    if (last)
        job_end(whole);
    return KVT_OK;
}

static void
group_cancel(struct engine_worker *worker, struct engine_job *job)
{
    struct engine_group *group = (struct engine_group *)worker;
    struct group_job *whole;

    (void)pthread_mutex_lock(&group->shared.lock);
    whole = job->private_;
    if (whole != NULL) {
        whole->cancelled = true;
        whole->owners++;
    }
    (void)pthread_mutex_unlock(&group->shared.lock);
    if (whole == NULL)
        return;
    for (uint32_t r = 0; r < worker->ranks; r++) {
        struct part *part = &whole->parts[r];
        bool running;

        (void)pthread_mutex_lock(&group->shared.lock);
        running = part->state == PART_RUNNING;
        (void)pthread_mutex_unlock(&group->shared.lock);
        if (running)
            engine_worker_cancel(group->ranks[r], &part->job);
    }
    job_release(whole, false);
}

/* Peers ------------------------------------------------------------------------------------ */

static enum kvt_err
group_describe(struct engine_worker *worker, struct kvt_buffer *out, uint64_t wait_ms,
               struct kvt_error *err)
{
    struct engine_group *group = (struct engine_group *)worker;
    const uint64_t deadline = kvt_deadline_in(wait_ms);
    const size_t start = out->size;
    enum kvt_err rc = KVT_OK;

    for (uint32_t r = 0; rc == KVT_OK && r < worker->ranks; r++)
        rc = engine_worker_describe(group->ranks[r], out, kvt_deadline_left(deadline), err);
    if (rc == KVT_OK && out->size - start > ENGINE_METADATA_MAX)
        rc = kvt_error_set(err, KVT_FULL, "%" PRIu32 " ranks: a description of %zu bytes",
                           worker->ranks, out->size - start);
    if (rc != KVT_OK)
        out->size = start;
    return rc;
}

static void
disconnect_below(struct engine_group *group, uint32_t ranks, uint64_t peer)
{
    while (ranks-- > 0)
        engine_worker_disconnect(group->ranks[ranks], peer);
}

static enum kvt_err
group_connect(struct engine_worker *worker, uint64_t peer, const uint8_t *bytes, size_t size,
              uint64_t wait_ms, struct kvt_error *err)
{
    struct engine_group *group = (struct engine_group *)worker;
    const uint64_t deadline = kvt_deadline_in(wait_ms);

    for (uint32_t r = 0; r < worker->ranks; r++) {
        const enum kvt_err rc = engine_worker_connect(group->ranks[r], peer, bytes, size,
                                                      kvt_deadline_left(deadline), err);

        if (rc != KVT_OK) {
            disconnect_below(group, r, peer);
            return rc;
        }
    }
    return KVT_OK;
}

static void
group_disconnect(struct engine_worker *worker, uint64_t peer)
{
    disconnect_below((struct engine_group *)worker, worker->ranks, peer);
}

/* Life ------------------------------------------------------------------------------------- */

static void
group_close(struct engine_worker *worker)
{
    struct engine_group *group = (struct engine_group *)worker;

    (void)pthread_mutex_lock(&group->shared.lock);
    assert(group->shared.jobs == 0);
    (void)pthread_mutex_unlock(&group->shared.lock);
    for (uint32_t r = 0; r < worker->ranks; r++)
        engine_worker_close(group->ranks[r]);
    (void)pthread_mutex_destroy(&group->shared.lock);
    kvt_free(group);
}

static const struct engine_worker_ops group_ops = {
    .kind = "group",
    .start = group_start,
    .cancel = group_cancel,
    .describe = group_describe,
    .connect = group_connect,
    .disconnect = group_disconnect,
    .close = group_close,
};

static enum kvt_err
check_rank(const struct engine_worker *first, const struct engine_worker *rank, uint32_t place,
           uint32_t count, struct kvt_error *err)
{
    const struct kvt_geometry *geometry = &rank->layout.geometry;

    if (rank->ranks != 1)
        return kvt_error_set(err, KVT_INVALID, "group: place %" PRIu32 " has %" PRIu32 " ranks",
                             place, rank->ranks);
    if (geometry->tp_size != count || geometry->tp_rank != place)
        return kvt_error_set(err, KVT_INVALID,
                             "group: rank %" PRIu32 " of %" PRIu32 " at place %" PRIu32
                             " of %" PRIu32,
                             geometry->tp_rank, geometry->tp_size, place, count);
    if (rank->layout.fingerprint != first->layout.fingerprint)
        return kvt_error_set(err, KVT_INVALID, "group: rank %" PRIu32 " has another layout", place);
    return KVT_OK;
}

enum kvt_err
engine_group_open(struct engine_worker **out, struct engine_worker *const *ranks, uint32_t count,
                  struct kvt_error *err)
{
    struct engine_group *group;
    struct engine_worker *head;

    *out = NULL;
    if (count == 0 || count > KVT_RANKS_MAX)
        return kvt_error_set(err, KVT_INVALID, "group: %" PRIu32 " ranks, 1 to %d may be", count,
                             KVT_RANKS_MAX);
    for (uint32_t r = 0; r < count; r++) {
        const enum kvt_err rc = check_rank(ranks[0], ranks[r], r, count, err);

        if (rc != KVT_OK)
            return rc;
    }
    group = kvt_calloc(1, sizeof(*group));
    if (group == NULL || pthread_mutex_init(&group->shared.lock, NULL) != 0) {
        kvt_free(group);
        return kvt_error_set(err, KVT_NOMEM, "group");
    }
    head = &group->head;
    *head = *ranks[0];
    head->ops = &group_ops;
    head->ranks = count;
    for (uint32_t r = 0; r < count; r++) {
        group->ranks[r] = ranks[r];
        for (size_t tier = 0; tier <= KVT_TIER_G4; tier++)
            if (ranks[r]->blocks[tier] < head->blocks[tier])
                head->blocks[tier] = ranks[r]->blocks[tier];
        head->objects = head->objects && ranks[r]->objects;
    }
    *out = head;
    return KVT_OK;
}
