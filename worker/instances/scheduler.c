#include "worker/instances/scheduler.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/core/alloc.h"
#include "base/core/log.h"
#include "base/thread/cond.h"
#include "kvtier/token.h"

#include "worker/instances/scheduler_internal.h"
#include "worker/instances/trace_prefix.h"

enum {
    IDLE = 1,   /* ms between looks at requests whose match is not known yet */
    REST = 200, /* ms between looks when there are none */
};

/* ---- requests ---- */

void
worker_request_free(struct worker_request *request)
{
    kvt_free(request->tokens);
    kvt_free(request->names);
    kvt_free(request->g1);
    kvt_free(request);
}

static struct worker_request *
request_new(const uint64_t *ids, uint32_t count)
{
    struct worker_request *request = kvt_calloc(1, sizeof(*request));
    uint64_t name = 0;

    if (request == NULL)
        return NULL;
    request->blocks = count;
    request->tokens = kvt_calloc((size_t)count * WORKER_TRACE_PREFIX_TOKENS + 1, sizeof(uint32_t));
    request->names = kvt_calloc(count + 1, sizeof(uint64_t));
    request->g1 = kvt_calloc(count + 1, sizeof(uint32_t));
    if (request->tokens == NULL || request->names == NULL || request->g1 == NULL) {
        worker_request_free(request);
        return NULL;
    }
    worker_trace_prefix_tokens(ids, count, request->tokens);
    for (uint32_t i = 0; i < count; i++)
        name = request->names[i] = kvt_token_chain(name, ids[i]);
    return request;
}

void
worker_request_tell(struct worker_scheduler *scheduler, struct worker_request *request,
                    enum kvt_err status)
{
    (void)pthread_mutex_lock(&scheduler->shared.lock);
    scheduler->shared.count--;
    if (status == KVT_OK) {
        scheduler->shared.stats.requests++;
        scheduler->shared.stats.blocks += request->blocks;
        scheduler->shared.stats.matched += request->matched;
    }
    (void)pthread_mutex_unlock(&scheduler->shared.lock);
    request->served(request->arg, status);
}

/* ---- those that begin ---- */

/* It runs from now on; false: its match is not known yet. */
static bool
admit(struct worker_scheduler *scheduler, struct worker_request *request)
{
    struct engine_connector *connector = scheduler->options.connector;
    const size_t tokens = (size_t)request->blocks * WORKER_TRACE_PREFIX_TOKENS + 1;
    struct engine_matched matched;
    enum kvt_err rc;

    rc = engine_connector_get_num_new_matched_tokens(connector, request->id, request->tokens,
                                                     tokens, 0, &matched);
    if (rc == KVT_OK && !matched.known)
        return false;
    for (uint32_t i = 0; i <= request->blocks; i++)
        request->g1[i] = scheduler->free_blocks[--scheduler->free_count];
    if (rc == KVT_OK)
        rc = engine_connector_update_state_after_alloc(connector, request->id, request->g1,
                                                       request->blocks + 1, matched.tokens);
    request->matched = rc == KVT_OK ? matched.tokens / WORKER_TRACE_PREFIX_TOKENS : 0;
    request->done = request->highest = request->matched;
    request->loads = request->matched > 0;
    return true;
}

static void
admit_all(struct worker_scheduler *scheduler)
{
    struct worker_request **link = &scheduler->waiting;

    while (*link != NULL && scheduler->running_count < WORKER_SCHEDULER_RUNNING) {
        struct worker_request *request = *link;

        if (scheduler->free_count <= request->blocks)
            return; /* who came first goes first */
        if (!admit(scheduler, request)) {
            link = &request->next;
            continue;
        }
        *link = request->next;
        request->next = scheduler->running;
        scheduler->running = request;
        scheduler->running_count++;
    }
}
/* ---- its thread ---- */

/* Take what came.  False: stop. */
static bool
take(struct worker_scheduler *scheduler, uint64_t wait_ms)
{
    const struct timespec deadline = kvt_cond_deadline(wait_ms);
    struct worker_request **end = &scheduler->waiting;
    bool stop;

    while (*end != NULL)
        end = &(*end)->next;
    (void)pthread_mutex_lock(&scheduler->shared.lock);
    while (wait_ms > 0 && !scheduler->shared.stop && scheduler->shared.incoming == NULL)
        if (!kvt_cond_wait(&scheduler->shared.some, &scheduler->shared.lock, &deadline))
            break;
    *end = scheduler->shared.incoming;
    scheduler->shared.incoming = NULL;
    scheduler->shared.incoming_end = &scheduler->shared.incoming;
    stop = scheduler->shared.stop;
    (void)pthread_mutex_unlock(&scheduler->shared.lock);
    return !stop;
}

static void
name_new(struct worker_scheduler *scheduler)
{
    for (struct worker_request *at = scheduler->waiting; at != NULL; at = at->next)
        if (at->id[0] == '\0')
            (void)snprintf(at->id, sizeof(at->id), "r%" PRIu64, ++scheduler->numbers);
}

static void
cancel_all(struct worker_scheduler *scheduler, struct worker_request **list, enum kvt_err status)
{
    while (*list != NULL) {
        struct worker_request *request = *list;

        *list = request->next;
        if (!request->ended)
            worker_request_tell(scheduler, request, status);
        worker_request_free(request);
    }
}

static void *
scheduler_main(void *arg)
{
    struct worker_scheduler *scheduler = arg;
    struct kvt_error err = {.text = ""};
    enum kvt_err rc = KVT_OK;
    uint64_t wait_ms = REST;

    while (take(scheduler, wait_ms) && rc == KVT_OK) {
        name_new(scheduler);
        admit_all(scheduler);
        /* Also for who waits for the blocks of those that have ended: ranks say what they saved. */
        if (scheduler->running_count > 0 ||
            (scheduler->running != NULL && scheduler->waiting != NULL))
            rc = worker_scheduler_pass(scheduler, &err);
        wait_ms = scheduler->running_count > 0 ? 0 : scheduler->waiting != NULL ? IDLE : REST;
    }
    if (rc != KVT_OK)
        kvt_log_error("worker.instance", "iteration", "%s", err.text);
    atomic_store(&scheduler->dead, true);
    (void)take(scheduler, 0);
    cancel_all(scheduler, &scheduler->waiting, rc == KVT_OK ? KVT_CANCELLED : KVT_UNAVAILABLE);
    cancel_all(scheduler, &scheduler->running, rc == KVT_OK ? KVT_CANCELLED : KVT_UNAVAILABLE);
    return NULL;
}

/* ---- from outside ---- */

enum kvt_err
worker_scheduler_open(struct worker_scheduler **out, const struct worker_scheduler_options *options,
                      struct kvt_error *err)
{
    struct worker_scheduler *scheduler = kvt_calloc(1, sizeof(*scheduler));

    *out = NULL;
    if (scheduler == NULL)
        return kvt_error_set(err, KVT_NOMEM, "scheduler");
    scheduler->options = *options;
    scheduler->shared.incoming_end = &scheduler->shared.incoming;
    for (uint32_t rank = 0; rank < WORKER_INSTANCE_RANKS_MAX; rank++)
        kvt_buffer_init(&scheduler->answers[rank], 2 * (size_t)ENGINE_META_MAX);
    scheduler->free_blocks = kvt_calloc(options->g1_blocks, sizeof(uint32_t));
    scheduler->failed = kvt_calloc(options->g1_blocks, sizeof(*scheduler->failed));
    if (scheduler->free_blocks == NULL || scheduler->failed == NULL ||
        pthread_mutex_init(&scheduler->shared.lock, NULL) != 0) {
        kvt_free(scheduler->free_blocks);
        kvt_free(scheduler->failed);
        kvt_free(scheduler);
        return kvt_error_set(err, KVT_NOMEM, "scheduler");
    }
    while (scheduler->free_count < options->g1_blocks) {
        scheduler->free_blocks[scheduler->free_count] = scheduler->free_count;
        scheduler->free_count++;
    }
    if (!kvt_cond_init(&scheduler->shared.some)) {
        (void)pthread_mutex_destroy(&scheduler->shared.lock);
        kvt_free(scheduler->free_blocks);
        kvt_free(scheduler->failed);
        kvt_free(scheduler);
        return kvt_error_set(err, KVT_NOMEM, "scheduler");
    }
    if (pthread_create(&scheduler->thread, NULL, scheduler_main, scheduler) != 0) {
        worker_scheduler_close(scheduler);
        return kvt_error_set(err, KVT_NOMEM, "scheduler's thread");
    }
    scheduler->started = true;
    *out = scheduler;
    return KVT_OK;
}

void
worker_scheduler_stop(struct worker_scheduler *scheduler)
{
    if (scheduler == NULL)
        return;
    (void)pthread_mutex_lock(&scheduler->shared.lock);
    scheduler->shared.stop = true;
    (void)pthread_cond_signal(&scheduler->shared.some);
    (void)pthread_mutex_unlock(&scheduler->shared.lock);
    if (scheduler->started)
        (void)pthread_join(scheduler->thread, NULL);
    scheduler->started = false;
}

void
worker_scheduler_close(struct worker_scheduler *scheduler)
{
    if (scheduler == NULL)
        return;
    worker_scheduler_stop(scheduler);
    for (uint32_t rank = 0; rank < WORKER_INSTANCE_RANKS_MAX; rank++)
        kvt_buffer_release(&scheduler->answers[rank]);
    (void)pthread_cond_destroy(&scheduler->shared.some);
    (void)pthread_mutex_destroy(&scheduler->shared.lock);
    kvt_free(scheduler->free_blocks);
    kvt_free(scheduler->failed);
    kvt_free(scheduler);
}

enum kvt_err
worker_scheduler_add(struct worker_scheduler *scheduler, const uint64_t *ids, size_t count,
                     worker_served_fn *served, void *arg)
{
    const uint32_t most = scheduler->options.g1_blocks - 1;
    struct worker_request *request;
    enum kvt_err rc = KVT_OK;

    if (atomic_load(&scheduler->dead))
        return KVT_UNAVAILABLE;
    request = request_new(ids, count < most ? (uint32_t)count : most);
    if (request == NULL)
        return KVT_NOMEM;
    request->served = served;
    request->arg = arg;
    (void)pthread_mutex_lock(&scheduler->shared.lock);
    if (scheduler->shared.stop || atomic_load(&scheduler->dead))
        rc = KVT_UNAVAILABLE;
    else if (scheduler->shared.count >= WORKER_SCHEDULER_WAITING)
        rc = KVT_AGAIN;
    if (rc == KVT_OK) {
        *scheduler->shared.incoming_end = request;
        scheduler->shared.incoming_end = &request->next;
        scheduler->shared.count++;
        (void)pthread_cond_signal(&scheduler->shared.some);
    }
    (void)pthread_mutex_unlock(&scheduler->shared.lock);
    if (rc != KVT_OK)
        worker_request_free(request);
    return rc;
}

bool
worker_scheduler_failed(struct worker_scheduler *scheduler)
{
    return atomic_load(&scheduler->dead);
}

void
worker_scheduler_stats(struct worker_scheduler *scheduler, struct worker_scheduler_stats *stats)
{
    (void)pthread_mutex_lock(&scheduler->shared.lock);
    *stats = scheduler->shared.stats;
    stats->under_way = scheduler->shared.count;
    (void)pthread_mutex_unlock(&scheduler->shared.lock);
}
