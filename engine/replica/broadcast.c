#include "engine/replica/broadcast.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/core/deadline.h"
#include "base/core/log.h"
#include "base/thread/cond.h"

#include "engine/replica/broadcast_internal.h"

uint32_t
engine_broadcast_ranks(const struct engine_broadcast *broadcast)
{
    return broadcast->ranks;
}

uint32_t
engine_broadcast_staged(const struct engine_broadcast *broadcast)
{
    return broadcast->staged;
}

/* What it does, and why -------------------------------------------------------------------- */

const char *
engine_way_name(enum engine_way way)
{
    static const char *const names[ENGINE_WAYS] = {"memory", "nccl", "ipc", "fabric"};

    return names[way];
}

void
engine_broadcast_state(struct engine_broadcast *broadcast, struct engine_broadcast_state *out)
{
    (void)pthread_mutex_lock(&broadcast->shared.lock);
    *out = broadcast->shared.state;
    (void)pthread_mutex_unlock(&broadcast->shared.lock);
}

void
engine_broadcast_goes(struct engine_broadcast *broadcast, enum engine_way way, const char *why, ...)
{
    va_list arguments;

    (void)pthread_mutex_lock(&broadcast->shared.lock);
    broadcast->shared.state.way = way;
    va_start(arguments, why);
    (void)vsnprintf(broadcast->shared.state.why, ENGINE_WHY_MAX, why, arguments);
    va_end(arguments);
    (void)pthread_mutex_unlock(&broadcast->shared.lock);
}

/* What a kind says of its job -------------------------------------------------------------- */

uint64_t
engine_broadcast_job_left(const struct engine_broadcast_job *task)
{
    return kvt_deadline_left(task->deadline);
}

/* A rank's first failure is what it is told by; of the ranks the first that has one. */
static void
blame(struct engine_broadcast_job *task, uint32_t rank, size_t at, enum kvt_err status)
{
    struct engine_outcome *outcome = &task->outcome;
    bool first = outcome->by_rank[rank] == KVT_OK;
    struct engine_broadcast_state state;

    if (!first)
        return;
    outcome->by_rank[rank] = status;
    for (uint32_t r = 0; r < rank; r++)
        first = first && outcome->by_rank[r] == KVT_OK;
    if (!first)
        return;
    outcome->status = status;
    engine_broadcast_state(task->broadcast, &state); /* a kind may do a job in another's way */
    (void)kvt_error_set(&outcome->error, status,
                        "rank %" PRIu32 ": %s broadcast: block %" PRIu32 ", item %zu of %zu: %s",
                        rank, engine_way_name(state.way), task->job->items[at].target, at,
                        task->job->count, kvt_err_text(status));
}

void
engine_broadcast_job_item(struct engine_broadcast_job *task, uint32_t rank, size_t at,
                          enum kvt_err status)
{
    assert(status != KVT_OK && rank < task->outcome.ranks && at < task->job->count);
    blame(task, rank, at, status);
    if (task->job->items[at].status == KVT_OK)
        task->job->items[at].status = status;
}

void
engine_broadcast_job_lost(struct engine_broadcast_job *task, const size_t *items, size_t count,
                          enum kvt_err status)
{
    for (size_t i = 0; i < count; i++)
        for (uint32_t r = 1; r < task->outcome.ranks; r++)
            engine_broadcast_job_item(task, r, items[i], status);
}

static enum kvt_err
wanted(const struct engine_broadcast_job *task)
{
    struct engine_broadcast *broadcast = task->broadcast;
    bool cancelled;

    (void)pthread_mutex_lock(&broadcast->shared.lock);
    cancelled = broadcast->shared.cancelled;
    (void)pthread_mutex_unlock(&broadcast->shared.lock);
    if (cancelled)
        return KVT_CANCELLED;
    return engine_broadcast_job_left(task) == 0 ? KVT_TIMEOUT : KVT_OK;
}

size_t
engine_broadcast_job_next(struct engine_broadcast_job *task, size_t *at, size_t *items, size_t room)
{
    const enum kvt_err rc = wanted(task);
    size_t count = 0;

    for (; *at < task->job->count && count < room; ++*at) {
        if (task->job->items[*at].status != KVT_OK)
            continue;
        if (rc == KVT_OK)
            items[count++] = *at;
        else
            engine_broadcast_job_lost(task, at, 1, rc);
    }
    return count;
}

/* The queue -------------------------------------------------------------------------------- */

enum kvt_err
engine_broadcast_start(struct engine_broadcast *broadcast, struct engine_job *job)
{
    enum kvt_err rc = KVT_AGAIN;

    assert(job->count > 0 && job->count <= ENGINE_ITEMS_MAX && job->done != NULL);
    (void)pthread_mutex_lock(&broadcast->shared.lock);
    if (broadcast->shared.count < ENGINE_JOBS_MAX) {
        broadcast->shared.waiting[broadcast->shared.count++] = (struct engine_broadcast_entry){
            .job = job,
            .deadline = kvt_deadline_in(job->wait_ms),
        };
        (void)pthread_cond_signal(&broadcast->shared.work);
        rc = KVT_OK;
    }
    (void)pthread_mutex_unlock(&broadcast->shared.lock);
    return rc;
}

void
engine_broadcast_cancel(struct engine_broadcast *broadcast, struct engine_job *job)
{
    (void)pthread_mutex_lock(&broadcast->shared.lock);
    if (broadcast->shared.current == job)
        broadcast->shared.cancelled = true;
    for (size_t i = 0; i < broadcast->shared.count; i++)
        if (broadcast->shared.waiting[i].job == job)
            broadcast->shared.waiting[i].cancelled = true;
    (void)pthread_mutex_unlock(&broadcast->shared.lock);
}

/* Take the oldest of the most urgent ones; the lock is held. */
static struct engine_broadcast_entry
take(struct engine_broadcast *broadcast)
{
    struct engine_broadcast_entry *waiting = broadcast->shared.waiting;
    struct engine_broadcast_entry taken;
    size_t at = 0;

    for (size_t i = 1; i < broadcast->shared.count; i++)
        if (waiting[i].job->priority > waiting[at].job->priority)
            at = i;
    taken = waiting[at];
    broadcast->shared.count--;
    memmove(&waiting[at], &waiting[at + 1], (broadcast->shared.count - at) * sizeof(waiting[0]));
    broadcast->shared.current = taken.job;
    broadcast->shared.cancelled = taken.cancelled;
    return taken;
}

static void
do_job(struct engine_broadcast *broadcast, const struct engine_broadcast_entry *entry)
{
    struct engine_broadcast_job task = {
        .broadcast = broadcast,
        .job = entry->job,
        .deadline = entry->deadline,
        .outcome = {.ranks = broadcast->ranks},
    };
    uint64_t arrived = 0;

    if (broadcast->ranks > 1)
        broadcast->ops->run(broadcast, &task);
    for (size_t i = 0; i < entry->job->count; i++)
        arrived += entry->job->items[i].status == KVT_OK ? 1 : 0;
    (void)pthread_mutex_lock(&broadcast->shared.lock);
    broadcast->shared.state.blocks[broadcast->shared.state.way] += arrived;
    broadcast->shared.current = NULL;
    (void)pthread_mutex_unlock(&broadcast->shared.lock);
    entry->job->done(entry->job->arg, &task.outcome);
}

static void *
serve(void *arg)
{
    struct engine_broadcast *broadcast = arg;

    (void)pthread_mutex_lock(&broadcast->shared.lock);
    for (;;) {
        struct engine_broadcast_entry entry;

        while (broadcast->shared.count == 0 && !broadcast->shared.stop)
            (void)pthread_cond_wait(&broadcast->shared.work, &broadcast->shared.lock);
        if (broadcast->shared.count == 0)
            break;
        entry = take(broadcast);
        (void)pthread_mutex_unlock(&broadcast->shared.lock);
        do_job(broadcast, &entry);
        (void)pthread_mutex_lock(&broadcast->shared.lock);
    }
    (void)pthread_mutex_unlock(&broadcast->shared.lock);
    return NULL;
}

/* Life ------------------------------------------------------------------------------------- */

enum kvt_err
engine_broadcast_check(const struct engine_broadcast_options *options, struct kvt_error *err)
{
    if (options->count == 0 || options->count > KVT_RANKS_MAX)
        return kvt_error_set(err, KVT_INVALID, "broadcast: %" PRIu32 " ranks, 1 to %d may be",
                             options->count, KVT_RANKS_MAX);
    for (uint32_t r = 0; r < options->count; r++)
        if (options->storages[r]->block_size != options->storages[0]->block_size ||
            options->storages[r]->block_size < options->layout->block_size)
            return kvt_error_set(err, KVT_INVALID,
                                 "broadcast: blocks of rank %" PRIu32 " have %zu bytes", r,
                                 options->storages[r]->block_size);
    return KVT_OK;
}

enum kvt_err
engine_broadcast_open(struct engine_broadcast *broadcast, struct kvt_error *err)
{
    if (pthread_mutex_init(&broadcast->shared.lock, NULL) != 0)
        return kvt_error_set(err, KVT_NOMEM, "broadcast");
    if (!kvt_cond_init(&broadcast->shared.work))
        goto fail_lock;
    broadcast->shared.state.way = broadcast->ops->way;
    (void)snprintf(broadcast->shared.state.why, ENGINE_WHY_MAX, "%s", broadcast->ops->why);
    if (pthread_create(&broadcast->thread, NULL, serve, broadcast) != 0)
        goto fail_cond;
    return KVT_OK;

fail_cond:
    (void)pthread_cond_destroy(&broadcast->shared.work);
fail_lock:
    (void)pthread_mutex_destroy(&broadcast->shared.lock);
    return kvt_error_set(err, KVT_NOMEM, "broadcast: its thread");
}

void
engine_broadcast_close(struct engine_broadcast *broadcast)
{
    if (broadcast == NULL)
        return;
    (void)pthread_mutex_lock(&broadcast->shared.lock);
    assert(broadcast->shared.count == 0 && broadcast->shared.current == NULL);
    broadcast->shared.stop = true;
    (void)pthread_cond_signal(&broadcast->shared.work);
    (void)pthread_mutex_unlock(&broadcast->shared.lock);
    (void)pthread_join(broadcast->thread, NULL);
    (void)pthread_cond_destroy(&broadcast->shared.work);
    (void)pthread_mutex_destroy(&broadcast->shared.lock);
    broadcast->ops->close(broadcast);
}

/* Which broadcast ranks in processes of their own get. --------------------------------------- */

enum { SHARED_MAX = 4096 /* bytes of what a rank says of its G1 */ };

/* KVT_OK, or why blocks cannot go from device to device. */
static enum kvt_err
ask_all(struct engine_worker *const *ranks, uint32_t count, uint64_t wait_ms, char *why)
{
    const uint64_t deadline = kvt_deadline_in(wait_ms);
    enum kvt_err rc = KVT_OK;

    for (uint32_t r = 0; r < count && rc == KVT_OK; r++) {
        struct kvt_error err = {.text = ""};
        struct kvt_buffer said;

        kvt_buffer_init(&said, SHARED_MAX);
        rc = engine_worker_share(ranks[r], &said, kvt_deadline_left(deadline), &err);
        kvt_buffer_release(&said);
        if (rc != KVT_OK)
            (void)snprintf(why, ENGINE_WHY_MAX, "rank %" PRIu32 ": %.200s", r,
                           err.text[0] != '\0' ? err.text : kvt_err_text(rc));
    }
    return rc;
}

enum kvt_err
engine_broadcast_choose(struct engine_broadcast **out, struct engine_worker *const *ranks,
                        uint32_t count, uint32_t staged, bool devices, uint64_t wait_ms,
                        struct kvt_error *err)
{
    struct engine_broadcast_state state;
    char why[ENGINE_WHY_MAX] = "nothing else is wanted";
    enum kvt_err rc;

    *out = NULL;
    if (count == 1)
        (void)snprintf(why, sizeof(why), "there is one rank");
    else if (devices && ask_all(ranks, count, wait_ms, why) == KVT_OK)
        why[0] = '\0';
    if (why[0] == '\0') {
        rc = engine_broadcast_ipc(out, ranks, count, staged, err);
    } else {
        rc = engine_broadcast_fabric(out, ranks, count, staged, err);
        if (rc == KVT_OK)
            engine_broadcast_goes(*out, ENGINE_BY_FABRIC, "%s", why);
    }
    if (rc != KVT_OK)
        return rc;
    engine_broadcast_state(*out, &state);
    kvt_log_info("engine.broadcast", "way", "blocks go from rank 0 to %" PRIu32 " others by %s: %s",
                 count - 1, engine_way_name(state.way), state.why);
    return KVT_OK;
}
