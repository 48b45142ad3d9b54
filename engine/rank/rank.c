#include "engine/rank/rank.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "base/thread/cond.h"
#include "kvbm/transfer/queue_ticket.h"

#include "engine/rank/rank_internal.h"

#define MS UINT64_C(1000000) /* ns */

/* How long the keeper sleeps where nothing has a deadline. */
#define IDLE_MS 1000

static struct engine_rank *
rank_of(struct engine_worker *worker)
{
    return (struct engine_rank *)worker;
}

void
engine_rank_hide_targets(struct engine_rank *rank, const struct engine_job *job)
{
    if (rank->options.shown == NULL || !engine_job_writes(job) || job->to != KVT_TIER_G2)
        return;
    for (size_t i = 0; i < job->count; i++)
        engine_blockset_hide(rank->options.shown, job->items[i].target);
}

enum kvt_err
engine_rank_status(const struct rank_job *made, enum kvt_err status)
{
    enum kvt_err early;

    (void)pthread_mutex_lock(&made->rank->lock);
    early = made->early;
    (void)pthread_mutex_unlock(&made->rank->lock);
    return status == KVT_CANCELLED && early != KVT_OK ? early : status;
}

void *
engine_rank_address(const struct engine_rank *rank, enum kvt_tier tier, uint32_t block)
{
    const struct engine_rank_tier *at = &rank->options.tiers[tier];

    if (at->layout != NULL &&
        kvbm_layout_compatible(&rank->options.layout, at->layout, NULL) != KVT_OK)
        return NULL;
    return kvbm_storage_address(at->storage, block);
}

/* The book ---------------------------------------------------------------------------------- */

static void
free_job(struct rank_job *made)
{
    kvt_free(made->copies);
    kvt_free(made);
}

static void
unlink_locked(struct engine_rank *rank, const struct rank_job *made)
{
    for (struct rank_job **at = &rank->jobs; *at != NULL; at = &(*at)->next)
        if (*at == made) {
            *at = made->next;
            return;
        }
}

/* From now on nobody finds it by its job. */
static void
end_locked(struct engine_rank *rank, struct rank_job *made)
{
    assert(!made->over);
    made->over = true;
    rank->active--;
}

void
engine_rank_carried(struct rank_job *made)
{
    struct engine_rank *rank = made->rank;
    struct engine_job *job = made->job;

    (void)pthread_mutex_lock(&rank->lock);
    end_locked(rank, made);
    (void)pthread_cond_signal(&rank->keep);
    (void)pthread_mutex_unlock(&rank->lock);
    engine_job_finish(&rank->head, job, NULL);
}

/* A job that waits for a thread of ours, or had one. */
static void
finish_own(struct rank_job *made)
{
    struct engine_rank *rank = made->rank;
    struct engine_job *job = made->job;

    (void)pthread_mutex_lock(&rank->lock);
    end_locked(rank, made);
    unlink_locked(rank, made);
    (void)pthread_cond_broadcast(&rank->idle);
    (void)pthread_mutex_unlock(&rank->lock);
    free_job(made);
    engine_job_finish(&rank->head, job, NULL);
}

/* End it soon, as `why`.  The lock is held, and let go of meanwhile. */
static void
stop_locked(struct engine_rank *rank, struct rank_job *made, enum kvt_err why)
{
    struct kvt_ticket *ticket = made->ticket;

    if (made->early == KVT_OK)
        made->early = why;
    atomic_store(&made->stop, true);
    if (made->waits && !made->begun) {
        made->begun = true; /* by nobody: it ends here */
        (void)pthread_mutex_unlock(&rank->lock);
        engine_job_fail(made->job, why);
        finish_own(made);
        (void)pthread_mutex_lock(&rank->lock);
    } else if (ticket != NULL) {
        made->users++;
        (void)pthread_mutex_unlock(&rank->lock);
        (void)kvt_ticket_cancel(ticket);
        (void)pthread_mutex_lock(&rank->lock);
        made->users--;
        (void)pthread_cond_signal(&rank->keep);
    }
}

/* The keeper -------------------------------------------------------------------------------- */

/* One whose ticket nobody needs any more. */
static struct rank_job *
ended_locked(const struct engine_rank *rank)
{
    for (struct rank_job *made = rank->jobs; made != NULL; made = made->next)
        if (made->over && made->ticket != NULL && made->users == 0)
            return made;
    return NULL;
}

/* One that is late, and when the next will be. */
static struct rank_job *
late_locked(const struct engine_rank *rank, uint64_t now, uint64_t *next)
{
    *next = now + IDLE_MS * MS;
    for (struct rank_job *made = rank->jobs; made != NULL; made = made->next) {
        if (made->over || made->early != KVT_OK || (made->waits && made->begun))
            continue;
        if (made->end_ns <= now)
            return made;
        if (made->end_ns < *next)
            *next = made->end_ns;
    }
    return NULL;
}

static void *
keep(void *arg)
{
    struct engine_rank *rank = arg;

    (void)pthread_mutex_lock(&rank->lock);
    while (!rank->closing || rank->jobs != NULL) {
        struct rank_job *made = ended_locked(rank);
        const uint64_t now = kvt_clock_mono_ns();

        if (made != NULL) {
            unlink_locked(rank, made);
            (void)pthread_mutex_unlock(&rank->lock);
            (void)kvbm_ticket_end(made->ticket); /* it is finished, or will be in a moment */
            free_job(made);
            (void)pthread_mutex_lock(&rank->lock);
        } else if ((made = late_locked(rank, now, &rank->wake_ns)) != NULL) {
            stop_locked(rank, made, KVT_TIMEOUT);
        } else {
            const struct timespec wake = kvt_cond_deadline((rank->wake_ns - now) / MS + 1);

            (void)kvt_cond_wait(&rank->keep, &rank->lock, &wake);
        }
    }
    (void)pthread_mutex_unlock(&rank->lock);
    return NULL;
}

/* Threads for what waits ------------------------------------------------------------------- */

/* The oldest of the highest priority; one that is lifted waits for the one before. */
static struct rank_job *
next_locked(const struct engine_rank *rank)
{
    struct rank_job *best = NULL;
    bool lifting = false;

    for (struct rank_job *made = rank->jobs; made != NULL; made = made->next)
        lifting = lifting || (made->lifts && made->begun && !made->over);
    for (struct rank_job *made = rank->jobs; made != NULL; made = made->next)
        if (made->waits && !made->begun && !made->over && !(made->lifts && lifting) &&
            (best == NULL || made->job->priority > best->job->priority))
            best = made;
    return best;
}

static void *
work(void *arg)
{
    struct engine_rank *rank = arg;

    (void)pthread_mutex_lock(&rank->lock);
    for (;;) {
        struct rank_job *made = next_locked(rank);

        if (made != NULL) {
            made->begun = true;
            (void)pthread_mutex_unlock(&rank->lock);
            if (made->lifts)
                engine_rank_lift(made);
            else
                engine_rank_work(made);
            finish_own(made);
            (void)pthread_mutex_lock(&rank->lock);
        } else if (rank->closing) {
            break;
        } else {
            (void)pthread_cond_wait(&rank->work, &rank->lock);
        }
    }
    (void)pthread_mutex_unlock(&rank->lock);
    return NULL;
}

/* The table --------------------------------------------------------------------------------- */

static enum kvt_err
enter(struct engine_rank *rank, struct rank_job *made)
{
    struct rank_job **last = &rank->jobs;
    enum kvt_err rc = KVT_AGAIN;

    (void)pthread_mutex_lock(&rank->lock);
    if (rank->active < ENGINE_JOBS_MAX) {
        rc = KVT_OK;
        rank->active++;
        while (*last != NULL)
            last = &(*last)->next;
        *last = made;
        if (made->waits)
            (void)pthread_cond_signal(&rank->work);
        if (made->end_ns < rank->wake_ns)
            (void)pthread_cond_signal(&rank->keep);
    }
    (void)pthread_mutex_unlock(&rank->lock);
    return rc;
}

/* Hand it to its queue.  From then on it can end at any time: also before this knows its ticket. */
static enum kvt_err
send(struct engine_rank *rank, struct rank_job *made)
{
    struct kvt_ticket *ticket;
    const enum kvt_err rc = engine_rank_carry(made, &ticket);

    (void)pthread_mutex_lock(&rank->lock);
    if (rc == KVT_OK) {
        made->ticket = ticket;
        if (made->over)
            (void)pthread_cond_signal(&rank->keep);
        else if (made->early != KVT_OK) /* stopped in between */
            stop_locked(rank, made, made->early);
    } else {
        end_locked(rank, made);
        unlink_locked(rank, made);
    }
    (void)pthread_mutex_unlock(&rank->lock);
    if (rc != KVT_OK)
        free_job(made);
    return rc;
}

static uint64_t
end_of(const struct engine_job *job)
{
    const uint64_t now = kvt_clock_mono_ns();

    return job->wait_ms > (UINT64_MAX - now) / MS ? UINT64_MAX : now + job->wait_ms * MS;
}

/* What takes no time is done here. */
static void
hide(struct engine_rank *rank, struct engine_job *job)
{
    for (size_t i = 0; i < job->count && rank->options.shown != NULL; i++)
        engine_blockset_hide(rank->options.shown, job->items[i].source);
    engine_job_fail(job, KVT_OK);
    engine_job_finish(&rank->head, job, NULL);
}

static enum kvt_err
start(struct engine_worker *worker, struct engine_job *job)
{
    struct engine_rank *rank = rank_of(worker);
    struct rank_job *made;
    enum kvt_err rc = engine_job_check(worker, job, NULL);
    const bool lifts = rc == KVT_OK && engine_rank_lifts(rank, job);
    const bool waits = job->verb == ENGINE_PULL || job->verb == ENGINE_SHOW || lifts;

    if (rc == KVT_OK && job->verb == ENGINE_PULL && !engine_rank_pulls_device(rank, job) &&
        (job->peer == ENGINE_PEER_G1 ||
         engine_rank_address(rank, job->to, job->items[0].target) == NULL))
        rc = KVT_UNSUPPORTED;
    if (rc != KVT_OK)
        return rc;
    if (job->verb == ENGINE_HIDE || (job->verb == ENGINE_SHOW && rank->options.shown == NULL)) {
        hide(rank, job);
        return KVT_OK;
    }
    made = kvt_calloc(1, sizeof(*made));
    if (made == NULL)
        return KVT_NOMEM;
    made->rank = rank;
    made->job = job;
    made->end_ns = end_of(job);
    made->waits = waits;
    made->lifts = lifts;
    rc = waits ? KVT_OK : engine_rank_prepare(made);
    if (rc == KVT_OK && waits)
        engine_rank_hide_targets(rank, job);
    if (rc == KVT_OK)
        rc = enter(rank, made);
    if (rc != KVT_OK)
        free_job(made);
    return rc == KVT_OK && !waits ? send(rank, made) : rc;
}

static void
cancel(struct engine_worker *worker, struct engine_job *job)
{
    struct engine_rank *rank = rank_of(worker);
    struct rank_job *made;

    (void)pthread_mutex_lock(&rank->lock);
    made = rank->jobs;
    while (made != NULL && (made->job != job || made->over))
        made = made->next;
    if (made != NULL)
        stop_locked(rank, made, KVT_CANCELLED);
    (void)pthread_mutex_unlock(&rank->lock);
}

static void
close_rank(struct engine_worker *worker)
{
    struct engine_rank *rank = rank_of(worker);

    (void)pthread_mutex_lock(&rank->lock);
    assert(rank->active == 0); /* none of its jobs goes on */
    rank->closing = true;
    (void)pthread_cond_broadcast(&rank->keep);
    (void)pthread_cond_broadcast(&rank->work);
    (void)pthread_mutex_unlock(&rank->lock);
    if (rank->started > 0)
        (void)pthread_join(rank->keeper, NULL);
    for (unsigned i = 1; i < rank->started; i++)
        (void)pthread_join(rank->threads[i - 1], NULL);
    engine_rank_forget_peers(rank);
    (void)pthread_cond_destroy(&rank->idle);
    (void)pthread_cond_destroy(&rank->work);
    (void)pthread_cond_destroy(&rank->keep);
    (void)pthread_mutex_destroy(&rank->lock);
    kvt_free(rank);
}

static const struct engine_worker_ops rank_ops = {
    .kind = "rank",
    .start = start,
    .cancel = cancel,
    .describe = engine_rank_describe,
    .connect = engine_rank_connect,
    .disconnect = engine_rank_disconnect,
    .share = engine_rank_share,
    .close = close_rank,
};

/* Opening ----------------------------------------------------------------------------------- */

static enum kvt_err
check_tier(const struct engine_rank_options *options, enum kvt_tier tier, struct kvt_error *err)
{
    const struct engine_rank_tier *at = &options->tiers[tier];
    const struct kvbm_layout *layout = at->layout == NULL ? &options->layout : at->layout;

    if (at->storage == NULL)
        return KVT_OK;
    if (tier < KVT_TIER_G1 || tier > KVT_TIER_G3)
        return kvt_error_set(err, KVT_INVALID, "rank: tiers are G1 to G3");
    if (kvbm_layout_convertible(layout, &options->layout, err) != KVT_OK)
        return KVT_INVALID; /* in the words of the comparison */
    if (at->storage->block_size < layout->block_size)
        return kvt_error_set(err, KVT_INVALID,
                             "rank: %s has blocks of %zu bytes, its layout of %" PRIu64,
                             kvt_tier_name(tier), at->storage->block_size, layout->block_size);
    return KVT_OK;
}

static enum kvt_err
check_options(const struct engine_rank_options *options, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;

    if (options->transfer == NULL)
        return kvt_error_set(err, KVT_INVALID, "rank: needs a transfer manager");
    if ((options->fabric == NULL) != (options->shown == NULL) ||
        (options->shown != NULL &&
         (engine_blockset_storage(options->shown) != options->tiers[KVT_TIER_G2].storage ||
          kvbm_layout_compatible(&options->layout, engine_blockset_layout(options->shown), NULL) !=
              KVT_OK)))
        return kvt_error_set(err, KVT_INVALID, "rank: with a fabric G2 is a block set's");
    for (enum kvt_tier tier = (enum kvt_tier)0; rc == KVT_OK && tier <= KVT_TIER_G4; tier++)
        rc = check_tier(options, tier, err);
    return rc;
}

static enum kvt_err
start_threads(struct engine_rank *rank, struct kvt_error *err)
{
    int sys = pthread_create(&rank->keeper, NULL, keep, rank);

    if (sys == 0)
        rank->started++;
    for (unsigned i = 0; sys == 0 && i < ENGINE_RANK_THREADS; i++) {
        sys = pthread_create(&rank->threads[i], NULL, work, rank);
        if (sys == 0)
            rank->started++;
    }
    return sys == 0 ? KVT_OK : kvt_error_sys(err, sys, "rank: thread");
}

enum kvt_err
engine_rank_open(struct engine_worker **out, const struct engine_rank_options *options,
                 struct kvt_error *err)
{
    enum kvt_err rc = check_options(options, err);
    struct engine_rank *rank;

    *out = NULL;
    if (rc != KVT_OK)
        return rc;
    rank = kvt_calloc(1, sizeof(*rank));
    if (rank == NULL)
        return kvt_error_set(err, KVT_NOMEM, "rank");
    rank->options = *options;
    rank->head = (struct engine_worker){
        .ops = &rank_ops,
        .layout = options->layout,
        .ranks = 1,
        .objects = options->volumes != NULL,
    };
    for (enum kvt_tier tier = KVT_TIER_G1; tier <= KVT_TIER_G3; tier++)
        if (options->tiers[tier].storage != NULL)
            rank->head.blocks[tier] = options->tiers[tier].storage->block_count;
    rank->wake_ns = UINT64_MAX;
    kvt_random_system(&rank->nonce, sizeof(rank->nonce));
    (void)pthread_mutex_init(&rank->lock, NULL);
    (void)pthread_cond_init(&rank->work, NULL);
    (void)pthread_cond_init(&rank->idle, NULL);
    (void)kvt_cond_init(&rank->keep);
    rc = start_threads(rank, err);
    if (rc != KVT_OK) {
        close_rank(&rank->head);
        return rc;
    }
    *out = &rank->head;
    return KVT_OK;
}
