#include <string.h>

#include "worker/instances/instance_message.h"
#include "worker/instances/rank_set.h"
#include "worker/instances/scheduler_internal.h"
#include "worker/instances/shard.h"
#include "worker/instances/trace_prefix.h"

enum { LAYER_WAIT = 30000 /* ms for a layer */ };

static size_t
schedule(struct worker_scheduler *scheduler, struct engine_scheduled *scheduled)
{
    size_t count = 0;

    for (struct worker_request *at = scheduler->running; at != NULL; at = at->next) {
        const uint32_t left = at->blocks - at->done;

        if (at->ended)
            continue;
        at->chunk = left < WORKER_SCHEDULER_CHUNK ? left : WORKER_SCHEDULER_CHUNK;
        scheduled[count++] = (struct engine_scheduled){
            .request = at->id,
            .computed = (size_t)at->done * WORKER_TRACE_PREFIX_TOKENS,
            .scheduled =
                (size_t)at->chunk * WORKER_TRACE_PREFIX_TOKENS + (at->chunk == left ? 1 : 0),
        };
    }
    return count;
}

/* Blocks [first, first + count) of a request. */
struct span {
    uint32_t first;
    uint32_t count;
};

enum which { LOADS, CHECKS, COMPUTES };

static struct span
span_of(const struct worker_request *request, enum which which)
{
    const bool last = request->done + request->chunk == request->blocks;

    if (request->ended)
        return (struct span){0, 0};
    switch (which) {
    case LOADS: return (struct span){0, request->loads ? request->matched : 0};
    case CHECKS:
        return last && !request->loads ? (struct span){0, request->done} : (struct span){0, 0};
    case COMPUTES: return (struct span){request->done, request->chunk};
    }
    return (struct span){0, 0};
}

static void
put_blocks(const struct worker_scheduler *scheduler, enum which which, struct kvt_buffer *out)
{
    uint64_t count = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (const struct worker_request *at = scheduler->running; at != NULL; at = at->next) {
            const struct span span = span_of(at, which);

            for (uint32_t i = span.first; i < span.first + span.count; i++) {
                if (which == LOADS && scheduler->failed[at->g1[i]])
                    continue;
                count++;
                if (pass == 0)
                    continue;
                worker_message_put(out, at->g1[i]);
                worker_message_put(out, at->names[i]);
            }
        }
        if (pass == 0)
            worker_message_put(out, count);
    }
}

/* What the leader's hook has to say, and what it could not load. */
static enum kvt_err
hear_hook(struct worker_scheduler *scheduler, struct kvt_error *err)
{
    struct kvt_buffer report;
    uint32_t blocks[64];
    size_t count;
    enum kvt_err rc;

    kvt_buffer_init(&report, ENGINE_META_MAX);
    rc = engine_hook_report(scheduler->options.hook, &report);
    if (rc == KVT_OK)
        rc =
            engine_connector_report(scheduler->options.connector, 0, report.data, report.size, err);
    while (rc == KVT_OK &&
           (count = engine_hook_load_errors(scheduler->options.hook, blocks, 64)) > 0)
        for (size_t i = 0; i < count; i++)
            scheduler->failed[blocks[i]] = true;
    kvt_buffer_release(&report);
    return rc;
}

/* Ranks that hold the same: all that is loaded is there before they begin. */
static enum kvt_err
load_here(struct worker_scheduler *scheduler, const struct kvt_buffer *meta, struct kvt_error *err)
{
    struct engine_hook *hook = scheduler->options.hook;
    enum kvt_err rc = engine_hook_begin(hook, meta->data, meta->size, err);

    if (rc != KVT_OK)
        return rc;
    memset(scheduler->failed, 0, scheduler->options.g1_blocks * sizeof(*scheduler->failed));
    engine_hook_start_load(hook);
    for (uint32_t layer = 0; layer < WORKER_SHARD_LAYERS; layer++)
        (void)engine_hook_wait_for_layer_load(hook, layer, LAYER_WAIT);
    return hear_hook(scheduler, err);
}

/* ... and what they have computed is saved behind them. */
static enum kvt_err
save_here(struct worker_scheduler *scheduler, struct kvt_error *err)
{
    struct engine_hook *hook = scheduler->options.hook;

    for (uint32_t layer = 0; layer < WORKER_SHARD_LAYERS; layer++)
        engine_hook_save_layer(hook, layer);
    (void)engine_hook_wait_for_save(hook, LAYER_WAIT);
    return hear_hook(scheduler, err);
}

static enum kvt_err
run(struct worker_scheduler *scheduler, const struct kvt_buffer *meta, struct kvt_error *err)
{
    const bool here = scheduler->options.hook != NULL;
    struct kvt_buffer question;
    enum kvt_err rc = here ? load_here(scheduler, meta, err) : KVT_OK;

    if (rc != KVT_OK)
        return rc;
    kvt_buffer_init(&question, 2 * (size_t)ENGINE_META_MAX);
    put_blocks(scheduler, LOADS, &question);
    put_blocks(scheduler, CHECKS, &question);
    put_blocks(scheduler, COMPUTES, &question);
    worker_message_put_bytes(&question, meta->data, here ? 0 : meta->size);
    rc = kvt_buffer_ok(&question)
             ? worker_rank_set_step(scheduler->options.rank_set, &question, scheduler->answers, err)
             : KVT_NOMEM;
    kvt_buffer_release(&question);
    return rc == KVT_OK && here ? save_here(scheduler, err) : rc;
}

/* What each rank said of the iteration. */
static enum kvt_err
hear(struct worker_scheduler *scheduler, struct kvt_error *err)
{
    for (uint32_t rank = 0; rank < scheduler->options.ranks; rank++) {
        struct worker_message message = {.bytes = scheduler->answers[rank].data,
                                         .size = scheduler->answers[rank].size};
        const uint64_t wrong = worker_message_get(&message);
        const uint64_t compared = worker_message_get(&message);
        size_t size;
        const uint8_t *report = worker_message_get_bytes(&message, &size);
        enum kvt_err rc = worker_message_end(&message) ? KVT_OK : KVT_INVALID;

        if (rc == KVT_OK && scheduler->options.hook == NULL)
            rc = engine_connector_report(scheduler->options.connector, rank, report, size, err);
        if (rc != KVT_OK)
            return rc;
        (void)pthread_mutex_lock(&scheduler->shared.lock);
        scheduler->shared.stats.wrong_bytes += wrong;
        scheduler->shared.stats.compared += compared;
        (void)pthread_mutex_unlock(&scheduler->shared.lock);
    }
    return KVT_OK;
}

/* Those whose block it is go back to it. */
static void
compute_again(struct worker_scheduler *scheduler, uint32_t block)
{
    for (struct worker_request *at = scheduler->running; at != NULL; at = at->next)
        for (uint32_t i = 0; i < at->done && !at->ended; i++)
            if (at->g1[i] == block)
                at->done = i;
}

static void
end(struct worker_scheduler *scheduler, struct worker_request *request)
{
    worker_request_tell(scheduler, request, KVT_OK);
    request->ended = true;
    scheduler->running_count--;
    if (!engine_connector_request_finished(scheduler->options.connector, request->id))
        request->id[0] = '\0'; /* nobody will name it */
}

/* Who has all of its blocks, and its last token, has ended. */
static void
advance(struct worker_scheduler *scheduler)
{
    uint64_t computed = 0;
    uint64_t again = 0;
    uint32_t blocks[64];
    size_t count;

    for (struct worker_request *at = scheduler->running; at != NULL; at = at->next) {
        if (at->ended)
            continue;
        for (uint32_t i = at->done; i < at->done + at->chunk; i++)
            again += i < at->highest ? 1 : 0;
        computed += at->chunk;
        at->done += at->chunk;
        at->highest = at->done > at->highest ? at->done : at->highest;
        at->loads = false;
    }
    (void)pthread_mutex_lock(&scheduler->shared.lock);
    scheduler->shared.stats.computed += computed;
    scheduler->shared.stats.again += again;
    scheduler->shared.stats.iterations++;
    (void)pthread_mutex_unlock(&scheduler->shared.lock);
    while ((count = engine_connector_invalid(scheduler->options.connector, blocks, 64)) > 0)
        for (size_t i = 0; i < count; i++)
            compute_again(scheduler, blocks[i]);
    for (struct worker_request *at = scheduler->running; at != NULL; at = at->next)
        if (!at->ended && at->done == at->blocks)
            end(scheduler, at);
}

static void
give_back(struct worker_scheduler *scheduler, const struct worker_request *request)
{
    for (uint32_t i = 0; i <= request->blocks; i++)
        scheduler->free_blocks[scheduler->free_count++] = request->g1[i];
}
static void
clean_up(struct worker_scheduler *scheduler)
{
    struct worker_request **link = &scheduler->running;
    struct engine_finished finished;

    while (engine_connector_finished(scheduler->options.connector, &finished))
        for (struct worker_request *at = scheduler->running; at != NULL; at = at->next)
            if (at->ended && !finished.loaded && strcmp(at->id, finished.request) == 0)
                at->id[0] = '\0';
    while (*link != NULL) {
        struct worker_request *request = *link;

        if (!request->ended || request->id[0] != '\0') {
            link = &request->next;
            continue;
        }
        *link = request->next;
        give_back(scheduler, request);
        worker_request_free(request);
    }
}

enum kvt_err
worker_scheduler_pass(struct worker_scheduler *scheduler, struct kvt_error *err)
{
    struct engine_scheduled scheduled[WORKER_SCHEDULER_RUNNING];
    const size_t count = schedule(scheduler, scheduled);
    struct kvt_buffer meta;
    enum kvt_err rc;

    kvt_buffer_init(&meta, ENGINE_META_MAX);
    rc = engine_connector_build_connector_meta(scheduler->options.connector, ++scheduler->iteration,
                                               scheduled, count, &meta);
    if (rc == KVT_OK)
        rc = run(scheduler, &meta, err);
    else
        (void)kvt_error_set(err, rc, "meta of %zu requests", count);
    kvt_buffer_release(&meta);
    if (rc == KVT_OK)
        rc = hear(scheduler, err);
    if (rc != KVT_OK)
        return rc;
    advance(scheduler);
    clean_up(scheduler);
    return KVT_OK;
}
