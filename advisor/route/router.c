#include "advisor/route/router.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advisor/route/request_blocks.h"
#include "advisor/route/router_private.h"
#include "advisor/route/worker_set.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "wire/message/route_sync.h"

enum {
    BEAT_MS = 1000,
    JOIN_MS = 3000,
    GONE_MS = 10000,
    BLOCKS_A_REQUEST = 256, /* on average, of a full table */
};

static const uint64_t decision_bounds[] = {10, 25, 50, 100, 250, 500, 1000, 2500, 10000, 100000};

static void
add_metrics(struct advisor_router_counters *counters, struct kvt_metrics *metrics)
{
#define X(member, kind, name, help)                                                                \
    counters->member =                                                                             \
        kvt_metrics_add(metrics, KVT_METRIC_##kind, "kvtier_advisor_route_" name, "", help);
    ADVISOR_ROUTER_COUNTERS(X)
#undef X
    counters->decision_us.bounds = decision_bounds;
    counters->decision_us.bound_count = sizeof(decision_bounds) / sizeof(decision_bounds[0]);
    kvt_metrics_add_histogram(metrics, &counters->decision_us,
                              "kvtier_advisor_route_decision_microseconds",
                              "Time of a decision, of the coverage too.");
}

static enum kvt_err
check_options(const struct advisor_router_options *options, struct kvt_error *err)
{
    if (options->block_tokens == 0)
        return kvt_error_set(err, KVT_RANGE, "route.block_tokens: at least 1");
    return router_weights_check(&options->weights, err);
}

static enum kvt_err
open_tables(struct advisor_router *router)
{
    const struct router_request_table_options slots = {
        .expiry_ms = router->options.expiry_ms,
        .requests_max = router->options.requests_max,
        .blocks_max = (uint64_t)router->options.requests_max * BLOCKS_A_REQUEST,
    };
    const struct router_replica_options replica = {
        .router = router->options.number,
        .incarnation = kvt_clock_unix_ms(),
        .beat_ms = BEAT_MS,
        .join_ms = JOIN_MS,
        .gone_ms = GONE_MS,
        .send = router->options.send,
        .arg = router->options.send_arg,
    };
    enum kvt_err rc = router_workers_new(&router->workers);

    if (rc == KVT_OK)
        rc = router_request_table_new(&router->slots, &slots);
    if (rc == KVT_OK && router->options.send != NULL)
        rc = router_replica_new(&router->replica, router->slots, &replica);
    return rc;
}

enum kvt_err
advisor_router_new(struct advisor_router **out, const struct advisor_router_options *options,
                   struct kvt_error *err)
{
    struct advisor_router *router;
    enum kvt_err rc = check_options(options, err);

    *out = NULL;
    if (rc != KVT_OK)
        return rc;
    router = kvt_calloc(1, sizeof(*router));
    if (router == NULL)
        return kvt_error_set(err, KVT_NOMEM, "router");
    router->options = *options;
    router->random = options->seed;
    if (router->random == 0)
        kvt_random_system(&router->random, sizeof(router->random));
    while (router->options.number == 0)
        kvt_random_system(&router->options.number, sizeof(router->options.number));
    add_metrics(&router->counters, options->metrics);
    (void)pthread_mutex_init(&router->lock, NULL);
    rc = open_tables(router);
    if (rc != KVT_OK) {
        advisor_router_free(router);
        return kvt_error_set(err, rc, "router: %s", kvt_err_text(rc));
    }
    *out = router;
    return KVT_OK;
}

void
advisor_router_free(struct advisor_router *router)
{
    if (router == NULL)
        return;
    for (size_t i = 0; i < router->spare_count; i++)
        advisor_coverage_free(router->spares[i]);
    advisor_worker_set_leave(router->set);
    router_replica_free(router->replica);
    router_request_table_free(router->slots);
    router_workers_free(router->workers);
    (void)pthread_mutex_destroy(&router->lock);
    kvt_free(router);
}

struct router_workers *
advisor_router_workers(struct advisor_router *router)
{
    return router->workers;
}

/* ---- who is there ---- */

static void
drop_who_left(void *arg, const struct router_worker_row *row)
{
    struct advisor_router *router = arg;

    if (router->replica != NULL)
        router_replica_left(router->replica, &row->worker, kvt_clock_mono_ms());
    else
        router_request_table_drop(router->slots, &row->worker, NULL, NULL, kvt_clock_mono_ms());
}

enum kvt_err
advisor_router_refresh(struct advisor_router *router)
{
    struct advisor_worker_set *set;
    enum kvt_err rc;

    if (router->set != NULL && router->set->version == router_workers_version(router->workers))
        return KVT_OK;
    rc = advisor_worker_set_new(&set, router->workers);
    if (rc != KVT_OK)
        return rc;
    rc = router_request_table_bind(router->slots, set->rows, set->count);
    if (rc != KVT_OK) {
        advisor_worker_set_leave(set);
        return rc;
    }
    if (router->set != NULL)
        router_workers_left(router->set->rows, router->set->count, set->rows, set->count,
                            drop_who_left, router);
    advisor_worker_set_leave(router->set);
    router->set = set;
    kvt_metric_set(router->counters.workers, (int64_t)set->count);
    return KVT_OK;
}

/* ---- steps ---- */

/* With the lock held. */
static void
tell(struct advisor_router *router, const char *id, enum router_state state)
{
    if (router->replica != NULL)
        router_replica_tell(router->replica, id, state);
}

enum kvt_err
advisor_router_book(struct advisor_router *router, struct router_request *request, bool *changed)
{
    enum kvt_err rc;

    request->router = router->options.number;
    request->added_ms = kvt_clock_unix_ms();
    request->state = ROUTER_ADDED;
    rc = router_request_table_merge(router->slots, request, kvt_clock_mono_ms(), changed);
    if (*changed)
        tell(router, request->id, ROUTER_ADDED);
    return rc;
}

static enum kvt_err
check_step(const struct wire_route_step *step, struct kvt_error *err)
{
    if (step->id[0] == '\0')
        return kvt_error_set(err, KVT_INVALID, "a request without an id");
    if (step->kind != WIRE_ROUTE_ADD)
        return KVT_OK;
    if (step->worker[0] == '\0')
        return kvt_error_set(err, KVT_INVALID, "request %s: no worker", step->id);
    if (step->blocks < step->hash_count || step->blocks > WIRE_ROUTE_BLOCKS_MAX)
        return kvt_error_set(err, KVT_INVALID, "request %s: %u blocks with %u hashes; at most %d",
                             step->id, step->blocks, step->hash_count, WIRE_ROUTE_BLOCKS_MAX);
    if (step->prefill_tokens > WIRE_ROUTE_TOKENS_MAX)
        return kvt_error_set(err, KVT_RANGE, "request %s: %" PRIu64 " tokens; at most %" PRIu64,
                             step->id, step->prefill_tokens, WIRE_ROUTE_TOKENS_MAX);
    return KVT_OK;
}

/* Who tells it again, or another replica heard it as well: not another request of that id. */
static bool
is_told(struct advisor_router *router, const struct wire_route_step *step, const uint64_t *hashes)
{
    struct router_request there;

    return router_request_table_get(router->slots, step->id, &there) == KVT_OK &&
           strcmp(there.worker.name, step->worker) == 0 && there.worker.dp_rank == step->dp_rank &&
           there.blocks == step->blocks && there.prefill_tokens == step->prefill_tokens &&
           (there.hash_count == step->hash_count ||
            (there.hash_count == ROUTER_REQUEST_HASHES_MAX &&
             there.hash_count < step->hash_count)) &&
           (there.hash_count == 0 ||
            memcmp(there.hashes, hashes, there.hash_count * sizeof(there.hashes[0])) == 0);
}

static enum kvt_err
add(struct advisor_router *router, const struct wire_route_step *step, const uint64_t *hashes,
    bool *changed)
{
    struct router_request request = {
        .worker = {.dp_rank = step->dp_rank},
        .prefill_tokens = step->prefill_tokens,
        .hashes = hashes,
        .hash_count = step->hash_count,
        .blocks = step->blocks,
    };

    *changed = false;
    if (is_told(router, step, hashes))
        return KVT_OK;
    memcpy(request.id, step->id, sizeof(request.id));
    memcpy(request.worker.name, step->worker, sizeof(request.worker.name));
    return advisor_router_book(router, &request, changed);
}

_Static_assert(ROUTER_REQUEST_ID_MAX == WIRE_ROUTE_ID_MAX, "ids are copied whole");
_Static_assert(WIRE_ROUTE_SYNC_BLOCKS_MAX == WIRE_ROUTE_BLOCKS_MAX &&
                   WIRE_ROUTE_SYNC_TOKENS_MAX == WIRE_ROUTE_TOKENS_MAX,
               "replicas take what frontends may tell");
/* What all requests together have to compute is a number that does not wrap. */
_Static_assert(WIRE_ROUTE_TOKENS_MAX <= UINT64_MAX / UINT32_MAX, "requests_max has 32 bits");

enum kvt_err
advisor_router_step(struct advisor_router *router, const struct wire_route_step *step,
                    bool *changed, struct kvt_error *err)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    enum kvt_err rc = check_step(step, err);
    uint64_t *hashes = NULL;

    *changed = false;
    if (rc != KVT_OK)
        return rc;
    if (step->kind == WIRE_ROUTE_ADD) {
        hashes = advisor_request_blocks_running(step->hashes, step->hash_count, step->namespace_);
        if (hashes == NULL)
            return kvt_error_set(err, KVT_NOMEM, "request %s: %s", step->id,
                                 kvt_err_text(KVT_NOMEM));
    }
    (void)pthread_mutex_lock(&router->lock);
    switch (step->kind) {
    case WIRE_ROUTE_ADD:
        /* What its worker did before it left is over by then; without memory, at the next time. */
        (void)!advisor_router_refresh(router);
        rc = add(router, step, hashes, changed);
        break;
    case WIRE_ROUTE_PREFILLED:
        rc = router_request_table_prefilled(router->slots, step->id, now_ms, changed);
        if (*changed)
            tell(router, step->id, ROUTER_PREFILLED);
        break;
    case WIRE_ROUTE_FREE:
        rc = router_request_table_end(router->slots, step->id, now_ms, changed);
        if (*changed)
            tell(router, step->id, ROUTER_FREED);
        break;
    }
    (void)pthread_mutex_unlock(&router->lock);
    kvt_free(hashes);
    if (*changed)
        kvt_metric_inc(router->counters.steps, 1);
    return rc == KVT_OK ? KVT_OK
                        : kvt_error_set(err, rc, "request %s: %s", step->id, kvt_err_text(rc));
}

/* ---- time and people ---- */

void
advisor_router_hear(struct advisor_router *router, const void *bytes, size_t size)
{
    if (router->replica == NULL)
        return;
    (void)pthread_mutex_lock(&router->lock);
    router_replica_take(router->replica, bytes, size, kvt_clock_mono_ms());
    (void)pthread_mutex_unlock(&router->lock);
}

bool
advisor_router_ready(struct advisor_router *router)
{
    bool ready;

    (void)pthread_mutex_lock(&router->lock);
    ready = router->replica == NULL || router_replica_stats(router->replica).ready;
    (void)pthread_mutex_unlock(&router->lock);
    return ready;
}

void
advisor_router_tick(struct advisor_router *router, bool linked)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    struct router_replica_stats replica = {.peers = 0};
    struct router_request_table_stats stats;
    enum kvt_err rc;

    (void)pthread_mutex_lock(&router->lock);
    rc = advisor_router_refresh(router);
    router_request_table_expire(router->slots, now_ms);
    router->linked = router->linked || linked;
    if (router->replica != NULL && router->linked) {
        router_replica_tick(router->replica, now_ms);
        replica = router_replica_stats(router->replica);
    }
    stats = router_request_table_stats(router->slots);
    (void)pthread_mutex_unlock(&router->lock);
    (void)rc; /* without memory it is as it was, until the next time */
    kvt_metric_set(router->counters.expired, (int64_t)stats.expired);
    kvt_metric_set(router->counters.untracked, (int64_t)stats.untracked);
    kvt_metric_set(router->counters.requests, (int64_t)stats.requests);
    kvt_metric_set(router->counters.peers, (int64_t)replica.peers);
    kvt_metric_set(router->counters.gaps, (int64_t)replica.gaps);
}

void
advisor_router_view(struct advisor_router *router, struct advisor_router_view *view)
{
    *view = (struct advisor_router_view){
        .weights = router->options.weights,
        .number = router->options.number,
        .expiry_ms = router->options.expiry_ms,
        .requests_max = router->options.requests_max,
        .block_tokens = router->options.block_tokens,
        .decisions = (uint64_t)kvt_metric_get(router->counters.decisions),
        .ties = (uint64_t)kvt_metric_get(router->counters.ties),
    };
    (void)pthread_mutex_lock(&router->lock);
    if (advisor_router_refresh(router) == KVT_OK)
        view->workers = router->set->count;
    view->slots = router_request_table_stats(router->slots);
    view->shared = router->replica != NULL;
    if (view->shared)
        view->replica = router_replica_stats(router->replica);
    (void)pthread_mutex_unlock(&router->lock);
}

enum kvt_err
advisor_router_loads(struct advisor_router *router, struct advisor_router_load **loads,
                     size_t *count)
{
    struct router_candidates columns;
    enum kvt_err rc;

    *loads = NULL;
    *count = 0;
    (void)pthread_mutex_lock(&router->lock);
    rc = advisor_router_refresh(router);
    if (rc == KVT_OK) {
        *loads = kvt_calloc(router->set->count + 1, sizeof(**loads));
        rc = *loads == NULL ? KVT_NOMEM : KVT_OK;
    }
    if (rc == KVT_OK) {
        *count = router->set->count;
        router_request_table_project(router->slots, NULL, 0, 0, &columns);
        assert(columns.count == *count);
        for (size_t i = 0; i < *count; i++)
            (*loads)[i] = (struct advisor_router_load){
                .worker = router->set->rows[i].worker,
                .origins = router->set->rows[i].origins,
                .active_requests = columns.active_requests[i],
                .active_prefill_tokens = columns.active_prefill_tokens[i],
                .decode_blocks = columns.decode_blocks[i],
            };
    }
    (void)pthread_mutex_unlock(&router->lock);
    return rc;
}

bool
advisor_router_requests(struct advisor_router *router, uint64_t *cursor,
                        router_request_table_fn *callback, void *arg)
{
    bool more;

    (void)pthread_mutex_lock(&router->lock);
    more = router_request_table_each(router->slots, cursor, ADVISOR_ROUTER_ROWS_MAX, callback, arg);
    (void)pthread_mutex_unlock(&router->lock);
    return more;
}
