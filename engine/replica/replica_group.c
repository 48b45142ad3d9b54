#include "engine/replica/replica_group.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>

#include "base/core/alloc.h"
#include "base/core/deadline.h"

struct engine_replica {
    struct engine_worker head;
    struct engine_worker *ranks[KVT_RANKS_MAX];
    struct engine_broadcast *broadcast;
    struct {
        pthread_mutex_t lock; /* guards this struct and where jobs are; a leaf */
        size_t jobs;
    } shared;
};

enum stage { STAGE_BEGINNING, STAGE_RANK, STAGE_BETWEEN, STAGE_CAST, STAGE_ENDED };

/* A job on its way: at rank 0, and then with all others.  Both work on the caller's items. */
struct replica_job {
    struct engine_replica *replica;
    struct engine_job *job; /* the caller's */
    struct engine_job first;
    struct engine_job task;
    uint64_t deadline; /* monotonic ms */
    struct engine_outcome outcome;
    /* The replica's lock. */
    enum stage stage;
    uint32_t owners; /* itself, and who cancels it */
    bool cancelled;
};

static void
release(struct replica_job *whole, bool ended)
{
    struct engine_replica *replica = whole->replica;
    bool last;

    (void)pthread_mutex_lock(&replica->shared.lock);
    if (ended) {
        whole->stage = STAGE_ENDED;
        whole->job->private_ = NULL;
        replica->shared.jobs--;
    }
    last = --whole->owners == 0;
    (void)pthread_mutex_unlock(&replica->shared.lock);
    if (last)
        kvt_free(whole);
}

static void
end(struct replica_job *whole)
{
    struct engine_replica *replica = whole->replica;
    struct engine_job *job = whole->job;
    const struct engine_outcome outcome = whole->outcome;

    release(whole, true);
    engine_job_finish(&replica->head, job, &outcome);
}

/* At the others --------------------------------------------------------------------------- */

static void
cast_done(void *arg, const struct engine_outcome *outcome)
{
    struct replica_job *whole = arg;

    for (uint32_t r = 0; r < outcome->ranks; r++)
        if (whole->outcome.by_rank[r] == KVT_OK)
            whole->outcome.by_rank[r] = outcome->by_rank[r];
    if (whole->outcome.status == KVT_OK) {
        whole->outcome.status = outcome->status;
        whole->outcome.error = outcome->error;
    }
    end(whole);
}

/* Nobody but rank 0 has what went well so far. */
static void
give_up(struct replica_job *whole, enum kvt_err why)
{
    struct engine_outcome lost = {.status = why, .ranks = whole->replica->head.ranks};

    for (size_t i = 0; i < whole->job->count; i++)
        if (whole->job->items[i].status == KVT_OK)
            whole->job->items[i].status = why;
    for (uint32_t r = 1; r < lost.ranks; r++)
        lost.by_rank[r] = why;
    (void)kvt_error_set(&lost.error, why, "rank 1: %s: the broadcast was not begun: %s",
                        engine_verb_name(whole->job->verb), kvt_err_text(why));
    cast_done(whole, &lost);
}

static bool
is_for_all(const struct engine_replica *replica, const struct engine_job *job)
{
    return replica->head.ranks > 1 && job->to == KVT_TIER_G1 && engine_job_writes(job);
}

/* There is something in G1 of rank 0 that all are to have. */
static bool
is_wanted(const struct replica_job *whole)
{
    const struct engine_job *job = whole->job;

    if (!is_for_all(whole->replica, job))
        return false;
    for (size_t i = 0; i < job->count; i++)
        if (job->items[i].status == KVT_OK)
            return true;
    return false;
}

/* A job goes through its stages in turn.  Who is told to cancel it does so where it is; whoever
 * brings it there looks afterwards.  True: it is there, and was cancelled before. */
static bool
move_on(struct replica_job *whole, enum stage stage)
{
    struct engine_replica *replica = whole->replica;
    bool cancelled;

    (void)pthread_mutex_lock(&replica->shared.lock);
    if (whole->stage < stage)
        whole->stage = stage;
    cancelled = whole->stage == stage && whole->cancelled;
    (void)pthread_mutex_unlock(&replica->shared.lock);
    return cancelled;
}

static void
keep(struct replica_job *whole)
{
    (void)pthread_mutex_lock(&whole->replica->shared.lock);
    whole->owners++;
    (void)pthread_mutex_unlock(&whole->replica->shared.lock);
}

static void
begin_cast(struct replica_job *whole)
{
    struct engine_replica *replica = whole->replica;
    enum kvt_err rc;

    whole->task = *whole->job;
    whole->task.wait_ms = kvt_deadline_left(whole->deadline);
    whole->task.done = cast_done;
    whole->task.arg = whole;
    keep(whole);
    rc = engine_broadcast_start(replica->broadcast, &whole->task);
    if (rc != KVT_OK)
        give_up(whole, rc);
    else if (move_on(whole, STAGE_CAST))
        engine_broadcast_cancel(replica->broadcast, &whole->task);
    release(whole, false);
}

/* At rank 0 -------------------------------------------------------------------------------- */

static void
first_done(void *arg, const struct engine_outcome *outcome)
{
    struct replica_job *whole = arg;
    const bool cancelled = move_on(whole, STAGE_BETWEEN);

    whole->outcome = *outcome;
    whole->outcome.ranks = whole->replica->head.ranks;
    if (!is_wanted(whole))
        end(whole);
    else if (cancelled)
        give_up(whole, KVT_CANCELLED);
    else
        begin_cast(whole);
}

static struct replica_job *
job_make(struct engine_replica *replica, struct engine_job *job)
{
    struct replica_job *whole = kvt_calloc(1, sizeof(*whole));

    if (whole == NULL)
        return NULL;
    whole->replica = replica;
    whole->job = job;
    whole->owners = 2; /* itself, and who starts it */
    whole->deadline = kvt_deadline_in(job->wait_ms);
    whole->first = *job;
    whole->first.done = first_done;
    whole->first.arg = whole;
    whole->first.private_ = NULL;
    return whole;
}

static enum kvt_err
replica_start(struct engine_worker *worker, struct engine_job *job)
{
    struct engine_replica *replica = (struct engine_replica *)worker;
    enum kvt_err rc = engine_job_check(worker, job, NULL);
    struct replica_job *whole;

    if (rc != KVT_OK)
        return rc;
    whole = job_make(replica, job);
    if (whole == NULL)
        return KVT_NOMEM;
    (void)pthread_mutex_lock(&replica->shared.lock);
    if (replica->shared.jobs < ENGINE_JOBS_MAX) {
        replica->shared.jobs++;
        job->private_ = whole;
    } else {
        rc = KVT_AGAIN;
    }
    (void)pthread_mutex_unlock(&replica->shared.lock);
    if (rc != KVT_OK) {
        kvt_free(whole);
        return rc;
    }
    rc = engine_worker_start(replica->ranks[0], &whole->first);
    if (rc != KVT_OK)
        release(whole, true);
    else if (move_on(whole, STAGE_RANK))
        engine_worker_cancel(replica->ranks[0], &whole->first);
    release(whole, false);
    return rc;
}

static void
replica_cancel(struct engine_worker *worker, struct engine_job *job)
{
    struct engine_replica *replica = (struct engine_replica *)worker;
    enum stage stage = STAGE_ENDED;
    struct replica_job *whole;

    (void)pthread_mutex_lock(&replica->shared.lock);
    whole = job->private_;
    if (whole != NULL) {
        whole->cancelled = true;
        whole->owners++;
        stage = whole->stage;
    }
    (void)pthread_mutex_unlock(&replica->shared.lock);
    if (whole == NULL)
        return;
    if (stage == STAGE_RANK)
        engine_worker_cancel(replica->ranks[0], &whole->first);
    else if (stage == STAGE_CAST)
        engine_broadcast_cancel(replica->broadcast, &whole->task);
    release(whole, false);
}

/* Life ------------------------------------------------------------------------------------- */

static enum kvt_err
replica_describe(struct engine_worker *worker, struct kvt_buffer *out, uint64_t wait_ms,
                 struct kvt_error *err)
{
    return engine_worker_describe(((struct engine_replica *)worker)->ranks[0], out, wait_ms, err);
}

static enum kvt_err
replica_connect(struct engine_worker *worker, uint64_t peer, const uint8_t *bytes, size_t size,
                uint64_t wait_ms, struct kvt_error *err)
{
    if (peer == ENGINE_PEER_SELF || peer == ENGINE_PEER_G1)
        return kvt_error_set(err, KVT_INVALID, "replica: this number is its own");
    return engine_worker_connect(((struct engine_replica *)worker)->ranks[0], peer, bytes, size,
                                 wait_ms, err);
}

static void
replica_disconnect(struct engine_worker *worker, uint64_t peer)
{
    engine_worker_disconnect(((struct engine_replica *)worker)->ranks[0], peer);
}

static void
replica_close(struct engine_worker *worker)
{
    struct engine_replica *replica = (struct engine_replica *)worker;

    (void)pthread_mutex_lock(&replica->shared.lock);
    assert(replica->shared.jobs == 0);
    (void)pthread_mutex_unlock(&replica->shared.lock);
    engine_broadcast_close(replica->broadcast);
    for (uint32_t r = 0; r < worker->ranks; r++)
        engine_worker_close(replica->ranks[r]);
    (void)pthread_mutex_destroy(&replica->shared.lock);
    kvt_free(replica);
}

static const struct engine_worker_ops replica_ops = {
    .kind = "replica",
    .start = replica_start,
    .cancel = replica_cancel,
    .describe = replica_describe,
    .connect = replica_connect,
    .disconnect = replica_disconnect,
    .close = replica_close,
};

static enum kvt_err
check_ranks(struct engine_worker *const *ranks, uint32_t count,
            const struct engine_broadcast *broadcast, struct kvt_error *err)
{
    if (count == 0 || count > KVT_RANKS_MAX || engine_broadcast_ranks(broadcast) != count)
        return kvt_error_set(err, KVT_INVALID,
                             "replica: %" PRIu32 " ranks (1 to %d may be), a broadcast to %" PRIu32,
                             count, KVT_RANKS_MAX, engine_broadcast_ranks(broadcast));
    for (uint32_t r = 0; r < count; r++)
        if (ranks[r]->ranks != 1 || ranks[r]->layout.fingerprint != ranks[0]->layout.fingerprint ||
            ranks[r]->layout.geometry.tp_rank != ranks[0]->layout.geometry.tp_rank)
            return kvt_error_set(err, KVT_INVALID, "replica: rank %" PRIu32 " has another layout",
                                 r);
    if (ranks[0]->blocks[KVT_TIER_G2] < engine_broadcast_staged(broadcast))
        return kvt_error_set(err, KVT_INVALID,
                             "replica: G2 of rank 0 has %" PRIu32
                             " blocks, the broadcast needs %" PRIu32,
                             ranks[0]->blocks[KVT_TIER_G2], engine_broadcast_staged(broadcast));
    return KVT_OK;
}

enum kvt_err
engine_replica_open(struct engine_worker **out, struct engine_worker *const *ranks, uint32_t count,
                    struct engine_broadcast *broadcast, struct kvt_error *err)
{
    enum kvt_err rc = check_ranks(ranks, count, broadcast, err);
    struct engine_replica *replica;
    struct engine_worker *head;

    *out = NULL;
    if (rc != KVT_OK)
        return rc;
    replica = kvt_calloc(1, sizeof(*replica));
    if (replica == NULL || pthread_mutex_init(&replica->shared.lock, NULL) != 0) {
        kvt_free(replica);
        return kvt_error_set(err, KVT_NOMEM, "replica");
    }
    replica->broadcast = broadcast;
    head = &replica->head;
    *head = *ranks[0];
    head->ops = &replica_ops;
    head->ranks = count;
    head->blocks[KVT_TIER_G2] -= engine_broadcast_staged(broadcast);
    for (uint32_t r = 0; r < count; r++) {
        replica->ranks[r] = ranks[r];
        if (ranks[r]->blocks[KVT_TIER_G1] < head->blocks[KVT_TIER_G1])
            head->blocks[KVT_TIER_G1] = ranks[r]->blocks[KVT_TIER_G1];
    }
    *out = head;
    return KVT_OK;
}
