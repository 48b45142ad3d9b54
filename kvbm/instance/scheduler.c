#include "kvbm/instance/scheduler.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "kvbm/instance/shard.h"
#include "kvbm/instance/words.h"
#include "kvtier/token.h"

enum {
    LAYER_WAIT = 30000 /* ms for a layer */,
    IDLE = 1,
    /* ms between looks at requests whose match is not known yet */ REST = 200
};

struct request {
    struct request *next;
    char id[32];
    uint32_t *tokens;
    uint64_t *names; /* of its blocks, for their bytes */
    uint32_t *g1;    /* one more than blocks: the last token's */
    uint32_t blocks;
    uint32_t matched;
    uint32_t done;    /* blocks that are there */
    uint32_t highest; /* ... and were, once */
    uint32_t chunk;   /* of this iteration */
    bool loads;       /* in this iteration */
    bool ended;       /* its blocks of G1 are not free yet */
    kvbm_served_fn *served;
    void *arg;
};

struct kvbm_scheduler {
    struct kvbm_scheduler_options options;
    pthread_t thread;
    bool started;
    struct request *waiting; /* in their order */
    struct request *running; /* and those that have ended and wait for their blocks */
    uint32_t running_count;
    uint32_t *free_blocks;
    uint32_t free_count;
    uint64_t iteration;
    uint64_t numbers;
    struct kvt_buffer answers[KVBM_INSTANCE_RANKS_MAX];
    bool *failed;      /* by block of G1: the leader's hook could not load it in this iteration */
    _Atomic bool dead; /* a rank is */

    struct {
        pthread_mutex_t lock; /* guards this struct */
        pthread_cond_t some;
        struct request *incoming;
        struct request **incoming_end;
        uint32_t count; /* that have not ended */
        bool stop;
        struct kvbm_scheduler_stats stats;
    } shared;
};

/* ---- requests ---- */

static void
request_free(struct request *request)
{
    kvt_free(request->tokens);
    kvt_free(request->names);
    kvt_free(request->g1);
    kvt_free(request);
}

static struct request *
request_new(const uint64_t *ids, uint32_t count)
{
    struct request *request = kvt_calloc(1, sizeof(*request));
    uint64_t name = 0;

    if (request == NULL)
        return NULL;
    request->blocks = count;
    request->tokens = kvt_calloc((size_t)count * KVBM_SCHEDULER_TOKENS + 1, sizeof(uint32_t));
    request->names = kvt_calloc(count + 1, sizeof(uint64_t));
    request->g1 = kvt_calloc(count + 1, sizeof(uint32_t));
    if (request->tokens == NULL || request->names == NULL || request->g1 == NULL) {
        request_free(request);
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        request->tokens[2 * i] = (uint32_t)ids[i];
        request->tokens[2 * i + 1] = (uint32_t)(ids[i] >> 32);
        name = request->names[i] = kvt_token_chain(name, ids[i]);
    }
    return request;
}

static void
tell(struct kvbm_scheduler *scheduler, struct request *request, enum kvt_err status)
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

static void
give_back(struct kvbm_scheduler *scheduler, const struct request *request)
{
    for (uint32_t i = 0; i <= request->blocks; i++)
        scheduler->free_blocks[scheduler->free_count++] = request->g1[i];
}

/* ---- an iteration ---- */

/* It runs from now on; false: its match is not known yet. */
static bool
admit(struct kvbm_scheduler *scheduler, struct request *request)
{
    struct engine_connector *connector = scheduler->options.connector;
    const size_t tokens = (size_t)request->blocks * KVBM_SCHEDULER_TOKENS + 1;
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
    request->matched = rc == KVT_OK ? matched.tokens / KVBM_SCHEDULER_TOKENS : 0;
    request->done = request->highest = request->matched;
    request->loads = request->matched > 0;
    return true;
}

static void
admit_all(struct kvbm_scheduler *scheduler)
{
    struct request **link = &scheduler->waiting;

    while (*link != NULL && scheduler->running_count < KVBM_SCHEDULER_RUNNING) {
        struct request *request = *link;

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

static size_t
schedule(struct kvbm_scheduler *scheduler, struct engine_scheduled *scheduled)
{
    size_t count = 0;

    for (struct request *at = scheduler->running; at != NULL; at = at->next) {
        const uint32_t left = at->blocks - at->done;

        if (at->ended)
            continue;
        at->chunk = left < KVBM_SCHEDULER_CHUNK ? left : KVBM_SCHEDULER_CHUNK;
        scheduled[count++] = (struct engine_scheduled){
            .request = at->id,
            .computed = (size_t)at->done * KVBM_SCHEDULER_TOKENS,
            .scheduled = (size_t)at->chunk * KVBM_SCHEDULER_TOKENS + (at->chunk == left ? 1 : 0),
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
span_of(const struct request *request, enum which which)
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
put_blocks(const struct kvbm_scheduler *scheduler, enum which which, struct kvt_buffer *out)
{
    uint64_t count = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (const struct request *at = scheduler->running; at != NULL; at = at->next) {
            const struct span span = span_of(at, which);

            for (uint32_t i = span.first; i < span.first + span.count; i++) {
                if (which == LOADS && scheduler->failed[at->g1[i]])
                    continue;
                count++;
                if (pass == 0)
                    continue;
                kvbm_words_put(out, at->g1[i]);
                kvbm_words_put(out, at->names[i]);
            }
        }
        if (pass == 0)
            kvbm_words_put(out, count);
    }
}

/* What the leader's hook has to say, and what it could not load. */
static enum kvt_err
hear_hook(struct kvbm_scheduler *scheduler, struct kvt_error *err)
{
    struct kvt_buffer heard;
    uint32_t blocks[64];
    size_t count;
    enum kvt_err rc;

    kvt_buffer_init(&heard, ENGINE_META_MAX);
    rc = engine_hook_heard(scheduler->options.hook, &heard);
    if (rc == KVT_OK)
        rc = engine_connector_heard(scheduler->options.connector, 0, heard.data, heard.size, err);
    while (rc == KVT_OK &&
           (count = engine_hook_load_errors(scheduler->options.hook, blocks, 64)) > 0)
        for (size_t i = 0; i < count; i++)
            scheduler->failed[blocks[i]] = true;
    kvt_buffer_release(&heard);
    return rc;
}

/* Ranks that hold the same: all that is loaded is there before they begin. */
static enum kvt_err
load_here(struct kvbm_scheduler *scheduler, const struct kvt_buffer *meta, struct kvt_error *err)
{
    struct engine_hook *hook = scheduler->options.hook;
    enum kvt_err rc = engine_hook_begin(hook, meta->data, meta->size, err);

    if (rc != KVT_OK)
        return rc;
    memset(scheduler->failed, 0, scheduler->options.g1_blocks * sizeof(*scheduler->failed));
    engine_hook_start_load(hook);
    for (uint32_t layer = 0; layer < KVBM_SHARD_LAYERS; layer++)
        (void)engine_hook_wait_for_layer_load(hook, layer, LAYER_WAIT);
    return hear_hook(scheduler, err);
}

/* ... and what they have computed is saved behind them. */
static enum kvt_err
save_here(struct kvbm_scheduler *scheduler, struct kvt_error *err)
{
    struct engine_hook *hook = scheduler->options.hook;

    for (uint32_t layer = 0; layer < KVBM_SHARD_LAYERS; layer++)
        engine_hook_save_layer(hook, layer);
    (void)engine_hook_wait_for_save(hook, LAYER_WAIT);
    return hear_hook(scheduler, err);
}

static enum kvt_err
run(struct kvbm_scheduler *scheduler, const struct kvt_buffer *meta, struct kvt_error *err)
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
    kvbm_words_put_bytes(&question, meta->data, here ? 0 : meta->size);
    rc = kvt_buffer_ok(&question)
             ? kvbm_crew_step(scheduler->options.crew, &question, scheduler->answers, err)
             : KVT_NOMEM;
    kvt_buffer_release(&question);
    return rc == KVT_OK && here ? save_here(scheduler, err) : rc;
}

/* What each rank said of the iteration. */
static enum kvt_err
hear(struct kvbm_scheduler *scheduler, struct kvt_error *err)
{
    for (uint32_t rank = 0; rank < scheduler->options.ranks; rank++) {
        struct kvbm_words words = {.bytes = scheduler->answers[rank].data,
                                   .size = scheduler->answers[rank].size};
        const uint64_t wrong = kvbm_words_get(&words);
        const uint64_t compared = kvbm_words_get(&words);
        size_t size;
        const uint8_t *heard = kvbm_words_get_bytes(&words, &size);
        enum kvt_err rc = kvbm_words_end(&words) ? KVT_OK : KVT_INVALID;

        if (rc == KVT_OK && scheduler->options.hook == NULL)
            rc = engine_connector_heard(scheduler->options.connector, rank, heard, size, err);
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
compute_again(struct kvbm_scheduler *scheduler, uint32_t block)
{
    for (struct request *at = scheduler->running; at != NULL; at = at->next)
        for (uint32_t i = 0; i < at->done && !at->ended; i++)
            if (at->g1[i] == block)
                at->done = i;
}

static void
end(struct kvbm_scheduler *scheduler, struct request *request)
{
    tell(scheduler, request, KVT_OK);
    request->ended = true;
    scheduler->running_count--;
    if (!engine_connector_request_finished(scheduler->options.connector, request->id))
        request->id[0] = '\0'; /* nobody will name it */
}

/* Who has all of its blocks, and its last token, has ended. */
static void
advance(struct kvbm_scheduler *scheduler)
{
    uint64_t computed = 0;
    uint64_t again = 0;
    uint32_t blocks[64];
    size_t count;

    for (struct request *at = scheduler->running; at != NULL; at = at->next) {
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
    for (struct request *at = scheduler->running; at != NULL; at = at->next)
        if (!at->ended && at->done == at->blocks)
            end(scheduler, at);
}

static void
clean_up(struct kvbm_scheduler *scheduler)
{
    struct request **link = &scheduler->running;
    struct engine_finished finished;

    while (engine_connector_finished(scheduler->options.connector, &finished))
        for (struct request *at = scheduler->running; at != NULL; at = at->next)
            if (at->ended && !finished.loaded && strcmp(at->id, finished.request) == 0)
                at->id[0] = '\0';
    while (*link != NULL) {
        struct request *request = *link;

        if (!request->ended || request->id[0] != '\0') {
            link = &request->next;
            continue;
        }
        *link = request->next;
        give_back(scheduler, request);
        request_free(request);
    }
}

static enum kvt_err
iterate(struct kvbm_scheduler *scheduler, struct kvt_error *err)
{
    struct engine_scheduled scheduled[KVBM_SCHEDULER_RUNNING];
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

/* ---- its thread ---- */

/* Take what came.  False: stop. */
static bool
take(struct kvbm_scheduler *scheduler, uint64_t wait_ms)
{
    const struct timespec deadline = kvt_cond_deadline(wait_ms);
    struct request **end = &scheduler->waiting;
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
name_new(struct kvbm_scheduler *scheduler)
{
    for (struct request *at = scheduler->waiting; at != NULL; at = at->next)
        if (at->id[0] == '\0')
            (void)snprintf(at->id, sizeof(at->id), "r%" PRIu64, ++scheduler->numbers);
}

static void
cancel_all(struct kvbm_scheduler *scheduler, struct request **list, enum kvt_err status)
{
    while (*list != NULL) {
        struct request *request = *list;

        *list = request->next;
        if (!request->ended)
            tell(scheduler, request, status);
        request_free(request);
    }
}

static void *
scheduler_main(void *arg)
{
    struct kvbm_scheduler *scheduler = arg;
    struct kvt_error err = {.text = ""};
    enum kvt_err rc = KVT_OK;
    uint64_t wait_ms = REST;

    while (take(scheduler, wait_ms) && rc == KVT_OK) {
        name_new(scheduler);
        admit_all(scheduler);
        if (scheduler->running_count > 0)
            rc = iterate(scheduler, &err);
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
kvbm_scheduler_open(struct kvbm_scheduler **out, const struct kvbm_scheduler_options *options,
                    struct kvt_error *err)
{
    struct kvbm_scheduler *scheduler = kvt_calloc(1, sizeof(*scheduler));

    *out = NULL;
    if (scheduler == NULL)
        return kvt_error_set(err, KVT_NOMEM, "scheduler");
    scheduler->options = *options;
    scheduler->shared.incoming_end = &scheduler->shared.incoming;
    for (uint32_t rank = 0; rank < KVBM_INSTANCE_RANKS_MAX; rank++)
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
        kvbm_scheduler_close(scheduler);
        return kvt_error_set(err, KVT_NOMEM, "scheduler's thread");
    }
    scheduler->started = true;
    *out = scheduler;
    return KVT_OK;
}

void
kvbm_scheduler_close(struct kvbm_scheduler *scheduler)
{
    if (scheduler == NULL)
        return;
    (void)pthread_mutex_lock(&scheduler->shared.lock);
    scheduler->shared.stop = true;
    (void)pthread_cond_signal(&scheduler->shared.some);
    (void)pthread_mutex_unlock(&scheduler->shared.lock);
    if (scheduler->started)
        (void)pthread_join(scheduler->thread, NULL);
    for (uint32_t rank = 0; rank < KVBM_INSTANCE_RANKS_MAX; rank++)
        kvt_buffer_release(&scheduler->answers[rank]);
    (void)pthread_cond_destroy(&scheduler->shared.some);
    (void)pthread_mutex_destroy(&scheduler->shared.lock);
    kvt_free(scheduler->free_blocks);
    kvt_free(scheduler->failed);
    kvt_free(scheduler);
}

enum kvt_err
kvbm_scheduler_add(struct kvbm_scheduler *scheduler, const uint64_t *ids, size_t count,
                   kvbm_served_fn *served, void *arg)
{
    const uint32_t most = scheduler->options.g1_blocks - 1;
    struct request *request;
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
    else if (scheduler->shared.count >= KVBM_SCHEDULER_WAITING)
        rc = KVT_AGAIN;
    if (rc == KVT_OK) {
        *scheduler->shared.incoming_end = request;
        scheduler->shared.incoming_end = &request->next;
        scheduler->shared.count++;
        (void)pthread_cond_signal(&scheduler->shared.some);
    }
    (void)pthread_mutex_unlock(&scheduler->shared.lock);
    if (rc != KVT_OK)
        request_free(request);
    return rc;
}

bool
kvbm_scheduler_failed(struct kvbm_scheduler *scheduler)
{
    return atomic_load(&scheduler->dead);
}

void
kvbm_scheduler_stats(struct kvbm_scheduler *scheduler, struct kvbm_scheduler_stats *stats)
{
    (void)pthread_mutex_lock(&scheduler->shared.lock);
    *stats = scheduler->shared.stats;
    stats->under_way = scheduler->shared.count;
    (void)pthread_mutex_unlock(&scheduler->shared.lock);
}
