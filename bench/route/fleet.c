#include "bench/route/fleet.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

#include "bench/route/cache.h"
#include "router/cost.h"
#include "router/pick.h"
#include "router/request_table.h"

#define NONE UINT32_MAX

struct worker {
    struct cache cache;
    uint32_t head; /* requests that wait, or are computed: the first of them is */
    uint32_t tail;
    uint64_t computed;
    uint64_t requests;
};

/* What happens: requests whose prompt is computed, or which end. */
struct event {
    uint64_t at_us;
    uint32_t request;
    bool end;
};

/* Of a request, beside what the hour says. */
struct job {
    uint32_t worker;
    uint32_t next; /* behind it on its worker */
    uint64_t wait_us;
    uint64_t first_us;
};

struct fleet {
    const struct hour *hour;
    const struct fleet_options *options;
    struct fleet_result *result;
    struct router_request_table *slots;
    struct router_worker_row rows[FLEET_WORKERS_MAX];
    struct worker workers[FLEET_WORKERS_MAX];
    bool *stored; /* in G4 */
    struct job *jobs;
    struct event *events; /* a heap: the earliest is the first */
    size_t event_count;
    uint64_t now_us;
    uint64_t random;
    uint32_t turn;
    uint32_t cached[2][FLEET_WORKERS_MAX]; /* own blocks, G4's beyond */
    double costs[FLEET_WORKERS_MAX];
    double scratch[FLEET_WORKERS_MAX];
};

/* ---- events ---- */

static bool
before(const struct event *a, const struct event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->request < b->request;
}

static void
push(struct fleet *fleet, struct event event)
{
    size_t at = fleet->event_count++;

    while (at > 0 && before(&event, &fleet->events[(at - 1) / 2])) {
        fleet->events[at] = fleet->events[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    fleet->events[at] = event;
}

static struct event
pop(struct fleet *fleet)
{
    struct event first = fleet->events[0];
    struct event last = fleet->events[--fleet->event_count];
    size_t at = 0;

    for (;;) {
        size_t child = 2 * at + 1;

        if (child + 1 < fleet->event_count &&
            before(&fleet->events[child + 1], &fleet->events[child]))
            child++;
        if (child >= fleet->event_count || !before(&fleet->events[child], &last))
            break;
        fleet->events[at] = fleet->events[child];
        at = child;
    }
    fleet->events[at] = last;
    return first;
}

/* ---- what a worker does ---- */

static const uint32_t *
chain_of(const struct fleet *fleet, uint32_t request)
{
    return fleet->hour->blocks + fleet->hour->requests[request].first;
}

/* Blocks of a chain from `from` on that G4 has. */
static uint32_t
in_g4(const struct fleet *fleet, const uint32_t *chain, uint32_t from, uint32_t count)
{
    uint32_t at = from;

    while (fleet->options->g4 && at < count && fleet->stored[chain[at]])
        at++;
    return at - from;
}

static uint64_t
tokens_left(uint64_t tokens, uint32_t blocks)
{
    uint64_t there = (uint64_t)blocks * HOUR_BLOCK_TOKENS;

    return there < tokens ? tokens - there : 0;
}

/* Begin with the first request of a worker's queue. */
static void
begin(struct fleet *fleet, struct worker *worker)
{
    const struct hour_request *request = &fleet->hour->requests[worker->head];
    const uint32_t *chain = chain_of(fleet, worker->head);
    struct job *job = &fleet->jobs[worker->head];
    uint32_t own = cache_prefix(&worker->cache, chain, request->count);
    uint32_t cold = in_g4(fleet, chain, own, request->count);
    uint64_t beyond = tokens_left(request->input_tokens, own);
    uint64_t tokens = tokens_left(request->input_tokens, own + cold);
    double took_s = (double)tokens / fleet->options->prefill_rate +
                    (double)(beyond - tokens) / fleet->options->load_rate;

    cache_use(&worker->cache, chain, own); /* it does not go meanwhile */
    job->wait_us = fleet->now_us - request->at_us;
    job->first_us = job->wait_us + (uint64_t)(took_s * 1e6);
    worker->computed += tokens;
    fleet->result->found += own;
    fleet->result->loaded += cold;
    push(fleet, (struct event){request->at_us + job->first_us, worker->head, false});
}

static void
computed(struct fleet *fleet, uint32_t at)
{
    const struct hour_request *request = &fleet->hour->requests[at];
    struct worker *worker = &fleet->workers[fleet->jobs[at].worker];
    const uint32_t *chain = chain_of(fleet, at);

    assert(worker->head == at);
    cache_use(&worker->cache, chain, request->count);
    for (uint32_t i = 0; i < request->count; i++)
        fleet->stored[chain[i]] = true;
    push(fleet, (struct event){fleet->now_us + request->output_tokens * fleet->options->decode_us,
                               at, true});
    worker->head = fleet->jobs[at].next;
    if (worker->head != NONE)
        begin(fleet, worker);
}

static void
give(struct fleet *fleet, uint32_t at, uint32_t to)
{
    struct worker *worker = &fleet->workers[to];

    fleet->jobs[at].worker = to;
    fleet->jobs[at].next = NONE;
    worker->requests++;
    if (worker->head == NONE) {
        worker->head = worker->tail = at;
        begin(fleet, worker);
        return;
    }
    fleet->jobs[worker->tail].next = at;
    worker->tail = at;
}

/* ---- the choice ---- */

static uint32_t
by_cost(struct fleet *fleet, const struct hour_request *request, const uint32_t *chain)
{
    const struct router_load load = {request->input_tokens, HOUR_BLOCK_TOKENS};
    struct router_weights weights = router_weights_default();
    struct router_candidates candidates = {0};

    for (uint32_t w = 0; w < fleet->options->workers; w++) {
        fleet->cached[0][w] = cache_prefix(&fleet->workers[w].cache, chain, request->count);
        fleet->cached[1][w] = in_g4(fleet, chain, fleet->cached[0][w], request->count);
    }
    router_request_table_project(fleet->slots, fleet->hour->hashes + request->first, request->count,
                                 request->count, &candidates);
    candidates.cached[0] = fleet->cached[0];
    if (!fleet->options->blind)
        candidates.cached[3] = fleet->cached[1];
    router_cost(&weights, &load, &candidates, fleet->costs);
    return (uint32_t)router_pick(fleet->costs, candidates.decode_blocks, candidates.count,
                                 fleet->options->temperature, kvt_random_next(&fleet->random),
                                 fleet->scratch);
}

/* The least active blocks, whatever anybody has. */
static uint32_t
by_load(struct fleet *fleet)
{
    struct router_candidates candidates = {0};

    router_request_table_project(fleet->slots, NULL, 0, 0, &candidates);
    for (size_t i = 0; i < candidates.count; i++)
        fleet->costs[i] = (double)candidates.decode_blocks[i];
    return (uint32_t)router_pick(fleet->costs, NULL, candidates.count, 0,
                                 kvt_random_next(&fleet->random), NULL);
}

static uint32_t
choose(struct fleet *fleet, uint32_t at)
{
    switch (fleet->options->way) {
    case FLEET_COST: return by_cost(fleet, &fleet->hour->requests[at], chain_of(fleet, at));
    case FLEET_ROUND_ROBIN: return fleet->turn++ % fleet->options->workers;
    default: return by_load(fleet);
    }
}

static enum kvt_err
arrive(struct fleet *fleet, uint32_t at)
{
    const struct hour_request *request = &fleet->hour->requests[at];
    const uint32_t *chain = chain_of(fleet, at);
    uint32_t to = choose(fleet, at);
    uint32_t own = cache_prefix(&fleet->workers[to].cache, chain, request->count);
    struct router_request booked = {
        .worker = fleet->rows[to].worker,
        .prefill_tokens =
            tokens_left(request->input_tokens, own + in_g4(fleet, chain, own, request->count)),
        .hashes = fleet->hour->hashes + request->first,
        .hash_count = request->count,
        .blocks = request->count,
        .state = ROUTER_ADDED,
    };
    enum kvt_err rc;

    (void)snprintf(booked.id, sizeof booked.id, "%" PRIu32, at);
    rc = router_request_table_merge(fleet->slots, &booked, fleet->now_us / 1000, NULL);
    if (rc == KVT_OK)
        give(fleet, at, to);
    return rc;
}

static enum kvt_err
happen(struct fleet *fleet, struct event event)
{
    char id[ROUTER_REQUEST_ID_MAX];

    (void)snprintf(id, sizeof id, "%" PRIu32, event.request);
    fleet->now_us = event.at_us;
    if (event.end)
        return router_request_table_end(fleet->slots, id, fleet->now_us / 1000, NULL);
    computed(fleet, event.request);
    return router_request_table_prefilled(fleet->slots, id, fleet->now_us / 1000, NULL);
}

/* ---- the whole ---- */

static int
compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return (a > b) - (a < b);
}

static void
spread(const double *values, uint32_t count, double *most, double *cv)
{
    double sum = 0;
    double squares = 0;
    double largest = 0;

    for (uint32_t i = 0; i < count; i++) {
        sum += values[i];
        largest = fmax(largest, values[i]);
    }
    for (uint32_t i = 0; i < count; i++)
        squares += (values[i] - sum / count) * (values[i] - sum / count);
    *most = largest / (sum / count);
    *cv = sqrt(squares / count) / (sum / count);
}

static void
mean_of(double *seconds, size_t count, double *mean, double *p99)
{
    double sum = 0;

    qsort(seconds, count, sizeof(*seconds), compare);
    for (size_t i = 0; i < count; i++)
        sum += seconds[i];
    *mean = sum / (double)count;
    *p99 = seconds[((count - 1) * 99 + 50) / 100];
}

static enum kvt_err
sum_up(struct fleet *fleet)
{
    struct fleet_result *result = fleet->result;
    size_t count = fleet->hour->count;
    double *seconds = kvt_calloc(count, sizeof(*seconds));
    double values[FLEET_WORKERS_MAX] = {0};

    if (seconds == NULL)
        return KVT_NOMEM;
    result->blocks = fleet->hour->accesses;
    for (uint32_t w = 0; w < fleet->options->workers; w++) {
        result->computed += fleet->workers[w].computed;
        values[w] = (double)fleet->workers[w].computed;
    }
    spread(values, fleet->options->workers, &result->tokens_most, &result->tokens_cv);
    for (uint32_t w = 0; w < fleet->options->workers; w++)
        values[w] = (double)fleet->workers[w].requests;
    spread(values, fleet->options->workers, &result->requests_most, &result->requests_cv);
    for (size_t i = 0; i < count; i++)
        seconds[i] = (double)fleet->jobs[i].wait_us / 1e6;
    mean_of(seconds, count, &result->wait_mean_s, &result->wait_p99_s);
    for (size_t i = 0; i < count; i++)
        seconds[i] = (double)fleet->jobs[i].first_us / 1e6;
    mean_of(seconds, count, &result->first_mean_s, &result->first_p99_s);
    kvt_free(seconds);
    return KVT_OK;
}

static enum kvt_err
make(struct fleet *fleet)
{
    const struct router_request_table_options options = {
        .expiry_ms = UINT64_C(1) << 40,
        .requests_max = (uint32_t)fleet->hour->count + 1,
        .blocks_max = fleet->hour->accesses + 1,
    };
    enum kvt_err rc = router_request_table_new(&fleet->slots, &options);

    for (uint32_t w = 0; w < fleet->options->workers && rc == KVT_OK; w++) {
        fleet->workers[w].head = NONE;
        fleet->rows[w].slot = w;
        (void)snprintf(fleet->rows[w].worker.name, sizeof fleet->rows[w].worker.name,
                       "worker-%" PRIu32, w);
        rc = cache_new(&fleet->workers[w].cache, fleet->hour->distinct, fleet->options->capacity);
    }
    if (rc == KVT_OK)
        rc = router_request_table_bind(fleet->slots, fleet->rows, fleet->options->workers);
    fleet->stored = kvt_calloc((size_t)fleet->hour->distinct + 1, sizeof(*fleet->stored));
    fleet->jobs = kvt_calloc(fleet->hour->count + 1, sizeof(*fleet->jobs));
    fleet->events = kvt_calloc(2 * fleet->hour->count + 2, sizeof(*fleet->events));
    if (fleet->stored == NULL || fleet->jobs == NULL || fleet->events == NULL)
        return KVT_NOMEM;
    return rc;
}

static enum kvt_err
run(struct fleet *fleet)
{
    enum kvt_err rc = KVT_OK;
    uint32_t at = 0;

    while (rc == KVT_OK && (at < fleet->hour->count || fleet->event_count > 0)) {
        if (fleet->event_count > 0 && (at == fleet->hour->count ||
                                       fleet->events[0].at_us <= fleet->hour->requests[at].at_us)) {
            rc = happen(fleet, pop(fleet));
            continue;
        }
        fleet->now_us = fleet->hour->requests[at].at_us;
        rc = arrive(fleet, at++);
    }
    return rc;
}

enum kvt_err
fleet_run(const struct hour *hour, const struct fleet_options *options, struct fleet_result *result)
{
    struct fleet *fleet = kvt_calloc(1, sizeof(*fleet));
    enum kvt_err rc;

    *result = (struct fleet_result){0};
    if (fleet == NULL)
        return KVT_NOMEM;
    assert(options->workers <= FLEET_WORKERS_MAX && hour->count > 0);
    fleet->hour = hour;
    fleet->options = options;
    fleet->result = result;
    fleet->random = options->seed;
    rc = make(fleet);
    if (rc == KVT_OK)
        rc = run(fleet);
    if (rc == KVT_OK)
        rc = sum_up(fleet);
    for (uint32_t w = 0; w < options->workers; w++)
        cache_release(&fleet->workers[w].cache);
    router_request_table_free(fleet->slots);
    kvt_free(fleet->stored);
    kvt_free(fleet->jobs);
    kvt_free(fleet->events);
    kvt_free(fleet);
    return rc;
}
