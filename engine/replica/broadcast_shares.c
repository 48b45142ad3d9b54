#include "engine/replica/broadcast_shares.h"

#include <assert.h>

#include "base/core/alloc.h"
#include "base/thread/cond.h"

static_assert(ENGINE_STAGED_MAX <= ENGINE_BROADCAST_STEP, "a step fits its shares");

static void
leave(struct engine_shares *shares)
{
    (void)pthread_mutex_lock(&shares->shared.lock);
    shares->shared.running--;
    (void)pthread_cond_signal(&shares->shared.ended);
    (void)pthread_mutex_unlock(&shares->shared.lock);
}

static void
share_done(void *arg, const struct engine_outcome *outcome)
{
    (void)outcome; /* the items say it */
    leave(((struct engine_share *)arg)->owner);
}

void
engine_shares_do(struct engine_shares *shares, const struct engine_broadcast_job *task,
                 const struct engine_job *what, uint32_t from, uint32_t to)
{
    (void)pthread_mutex_lock(&shares->shared.lock);
    shares->shared.running = to - from;
    (void)pthread_mutex_unlock(&shares->shared.lock);
    for (uint32_t r = from; r < to; r++) {
        struct engine_share *share = &shares->of[r];
        enum kvt_err rc = KVT_OK;

        share->job = *what;
        share->job.priority = task->job->priority;
        share->job.wait_ms = engine_broadcast_job_left(task);
        share->job.items = share->items;
        share->job.count = share->count;
        share->job.done = share_done;
        share->job.arg = share;
        if (share->count > 0)
            rc = engine_worker_start(share->worker, &share->job);
        if (rc != KVT_OK)
            engine_job_fail(&share->job, rc);
        if (rc != KVT_OK || share->count == 0)
            leave(shares);
    }
    (void)pthread_mutex_lock(&shares->shared.lock);
    while (shares->shared.running > 0)
        (void)pthread_cond_wait(&shares->shared.ended, &shares->shared.lock);
    (void)pthread_mutex_unlock(&shares->shared.lock);
}

enum kvt_err
engine_shares_drop_failed(struct engine_shares *shares, struct engine_broadcast_job *task,
                          uint32_t rank)
{
    struct engine_share *share = &shares->of[rank];
    enum kvt_err first = KVT_OK;
    size_t kept = 0;

    for (size_t i = 0; i < share->count; i++) {
        const enum kvt_err status = share->items[i].status;

        if (status != KVT_OK) {
            engine_broadcast_job_item(task, rank, share->places[i], status);
            first = first == KVT_OK ? status : first;
            continue;
        }
        share->items[kept] = share->items[i];
        share->places[kept++] = share->places[i];
    }
    share->count = kept;
    return first;
}

/* Rank 0 ----------------------------------------------------------------------------------- */

bool
engine_shares_know_first(const struct engine_shares *shares)
{
    for (uint32_t r = 1; r < shares->count; r++)
        if (shares->of[r].to_first != KVT_OK)
            return false;
    return true;
}

void
engine_share_connect(struct engine_share *share, const struct engine_broadcast_job *task,
                     uint64_t peer, const struct kvt_buffer *first, struct kvt_error *err)
{
    enum kvt_err rc = engine_worker_connect(share->worker, peer, first->data, first->size,
                                            engine_broadcast_job_left(task), err);

    if (rc == KVT_EXISTS) { /* rank 0 before it was restarted */
        engine_worker_disconnect(share->worker, peer);
        rc = engine_worker_connect(share->worker, peer, first->data, first->size,
                                   engine_broadcast_job_left(task), err);
    }
    share->to_first = rc;
}

void
engine_shares_disconnect(struct engine_shares *shares, uint64_t peer)
{
    for (uint32_t r = 1; r < shares->count; r++)
        if (shares->of[r].to_first == KVT_OK) {
            engine_worker_disconnect(shares->of[r].worker, peer);
            shares->of[r].to_first = KVT_UNAVAILABLE;
        }
}

/* Life ------------------------------------------------------------------------------------- */

enum kvt_err
engine_shares_make(struct engine_shares **out, struct engine_worker *const *ranks, uint32_t count,
                   struct kvt_error *err)
{
    struct engine_shares *shares = kvt_calloc(1, sizeof(*shares) + count * sizeof(shares->of[0]));

    *out = NULL;
    if (shares == NULL || pthread_mutex_init(&shares->shared.lock, NULL) != 0)
        goto fail_memory;
    if (!kvt_cond_init(&shares->shared.ended))
        goto fail_lock;
    shares->count = count;
    for (uint32_t r = 0; r < count; r++) {
        shares->of[r].owner = shares;
        shares->of[r].worker = ranks[r];
        shares->of[r].to_first = KVT_UNAVAILABLE;
    }
    *out = shares;
    return KVT_OK;

fail_lock:
    (void)pthread_mutex_destroy(&shares->shared.lock);
fail_memory:
    kvt_free(shares);
    return kvt_error_set(err, KVT_NOMEM, "broadcast");
}

void
engine_shares_free(struct engine_shares *shares)
{
    if (shares == NULL)
        return;
    (void)pthread_cond_destroy(&shares->shared.ended);
    (void)pthread_mutex_destroy(&shares->shared.lock);
    kvt_free(shares);
}
