#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "advisor/route/request_blocks.h"
#include "advisor/route/router_private.h"
#include "advisor/route/worker_set.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"

#include "router/pick.h"

enum { TRIES = 16 }; /* workers may come and go while a request is looked at */

_Static_assert((int)WIRE_ROUTE_TIERS == (int)ROUTER_TIERS, "rows are copied tier by tier");

/* A decision that is under way. */
struct decision {
    struct advisor_router *router;
    const struct wire_route_question *question;
    struct router_weights weights;
    struct advisor_request_blocks prompt;
    uint64_t *running; /* its blocks among those of running requests */
    struct router_load load;
    struct advisor_worker_set *set;
    struct advisor_coverage *coverage;
    /* The candidates: all of the set, or those that are allowed, with columns of their own. */
    struct router_candidates columns;
    uint32_t *allowed; /* rows of the set; NULL: all */
    size_t allowed_count;
    double *costs;
    double *scratch;
    uint64_t *busy; /* what ties are decided by */
    size_t chosen;
    /* Columns of those that are allowed, in two allocations. */
    uint64_t *prefill_tokens;
    uint64_t *decode_blocks;
    uint32_t *active_requests;
    uint32_t *cached[ROUTER_TIERS];
};

/* ---- what is asked ---- */

static enum kvt_err
read_weights(struct decision *decision, struct kvt_error *err)
{
    const struct wire_route_question *question = decision->question;
    double *const places[WIRE_ROUTE_WEIGHTS] = {
        [WIRE_ROUTE_OVERLAP] = &decision->weights.overlap_score_weight,
        [WIRE_ROUTE_TEMPERATURE] = &decision->weights.temperature,
        [WIRE_ROUTE_G1] = &decision->weights.tier[0],
        [WIRE_ROUTE_G2] = &decision->weights.tier[1],
        [WIRE_ROUTE_G3] = &decision->weights.tier[2],
        [WIRE_ROUTE_G4] = &decision->weights.tier[3],
        [WIRE_ROUTE_ACTIVE_REQUEST] = &decision->weights.active_request_weight,
    };

    decision->weights = decision->router->options.weights;
    for (size_t i = 0; i < WIRE_ROUTE_WEIGHTS; i++)
        if ((question->weighted & (1u << i)) != 0)
            *places[i] = question->weights[i];
    return router_weights_check(&decision->weights, err);
}

static enum kvt_err
begin(struct decision *decision, struct kvt_error *err)
{
    enum kvt_err rc = read_weights(decision, err);

    if (rc == KVT_OK)
        rc = advisor_request_blocks_read(&decision->prompt, decision->question,
                                         decision->router->options.block_tokens, err);
    if (rc == KVT_OK) {
        decision->running = advisor_request_blocks_running(
            decision->prompt.hashes, decision->prompt.hash_count, decision->question->namespace_);
        if (decision->running == NULL)
            rc = kvt_error_set(err, KVT_NOMEM, "no memory for %u hashes",
                               decision->prompt.hash_count);
    }
    decision->load = (struct router_load){.isl_tokens = decision->prompt.isl_tokens,
                                          .block_tokens = decision->prompt.block_tokens};
    return rc;
}

/* ---- who may be chosen ---- */

static void
release_candidates(struct decision *decision)
{
    kvt_free(decision->allowed);
    kvt_free(decision->costs);
    kvt_free(decision->busy);
    kvt_free(decision->prefill_tokens);
    kvt_free(decision->active_requests);
    decision->allowed = NULL;
    decision->costs = NULL;
    decision->busy = NULL;
    decision->prefill_tokens = NULL;
    decision->active_requests = NULL;
    decision->allowed_count = 0;
}

static bool
is_allowed(const struct wire_route_question *question, const char *name)
{
    for (uint32_t i = 0; i < question->worker_count; i++)
        if (strcmp(question->workers[i], name) == 0)
            return true;
    return false;
}

/* All ranks of the workers that the question names. */
static enum kvt_err
allow(struct decision *decision)
{
    const size_t count = decision->set->count;
    size_t room;

    if (decision->question->worker_count == 0)
        return KVT_OK;
    decision->allowed = kvt_calloc(count + 1, sizeof(*decision->allowed));
    if (decision->allowed == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < count; i++) {
        const char *name = decision->set->rows[i].worker.name;

        /* Ranks of a worker stand side by side. */
        if (i > 0 && strcmp(name, decision->set->rows[i - 1].worker.name) == 0
                ? decision->allowed_count > 0 &&
                      decision->allowed[decision->allowed_count - 1] == i - 1
                : is_allowed(decision->question, name))
            decision->allowed[decision->allowed_count++] = (uint32_t)i;
    }
    room = decision->allowed_count + 1;
    decision->prefill_tokens = kvt_calloc(2 * room, sizeof(*decision->prefill_tokens));
    decision->active_requests =
        kvt_calloc((1 + ROUTER_TIERS) * room, sizeof(*decision->active_requests));
    if (decision->prefill_tokens == NULL || decision->active_requests == NULL)
        return KVT_NOMEM;
    decision->decode_blocks = decision->prefill_tokens + room;
    for (size_t t = 0; t < ROUTER_TIERS; t++) {
        decision->cached[t] = decision->active_requests + (1 + t) * room;
        for (size_t i = 0; i < decision->allowed_count; i++)
            decision->cached[t][i] = decision->coverage->cached[t][decision->allowed[i]];
    }
    return KVT_OK;
}

static size_t
candidate_count(const struct decision *decision)
{
    return decision->allowed != NULL ? decision->allowed_count : decision->set->count;
}

static enum kvt_err
reserve(struct decision *decision, struct kvt_error *err)
{
    enum kvt_err rc = allow(decision);
    const size_t count = candidate_count(decision);

    if (rc == KVT_OK && count == 0)
        return decision->set->count == 0
                   ? kvt_error_set(err, KVT_NOTFOUND, "no worker is known")
                   : kvt_error_set(err, KVT_NOTFOUND,
                                   "of the workers that are allowed (%u) none is there",
                                   decision->question->worker_count);
    if (rc == KVT_OK) {
        decision->costs = kvt_calloc(2 * count, sizeof(*decision->costs));
        decision->busy = kvt_calloc(count, sizeof(*decision->busy));
        if (decision->costs == NULL || decision->busy == NULL)
            rc = KVT_NOMEM;
        else
            decision->scratch = decision->costs + count;
    }
    return rc == KVT_OK ? KVT_OK : kvt_error_set(err, rc, "no memory for a decision");
}

/* With the lock held: what they have to do. */
static void
project(struct decision *decision)
{
    struct router_candidates all;

    router_request_table_project(decision->router->slots, decision->running,
                                 decision->prompt.hash_count, decision->prompt.blocks, &all);
    assert(all.count == decision->set->count);
    if (decision->allowed == NULL) {
        decision->columns = all;
        for (size_t t = 0; t < ROUTER_TIERS; t++)
            decision->columns.cached[t] = decision->coverage->cached[t];
        return;
    }
    for (size_t i = 0; i < decision->allowed_count; i++) {
        decision->prefill_tokens[i] = all.active_prefill_tokens[decision->allowed[i]];
        decision->decode_blocks[i] = all.decode_blocks[decision->allowed[i]];
        decision->active_requests[i] = all.active_requests[decision->allowed[i]];
    }
    decision->columns = (struct router_candidates){
        .count = decision->allowed_count,
        .active_prefill_tokens = decision->prefill_tokens,
        .decode_blocks = decision->decode_blocks,
        .active_requests = decision->active_requests,
    };
    for (size_t t = 0; t < ROUTER_TIERS; t++)
        decision->columns.cached[t] = decision->cached[t];
}

/* ---- the choice ---- */

/* Candidates that were as good as the one that was chosen, and by what it was told from others. */
static enum wire_route_why
why(const struct decision *decision, size_t *equal)
{
    const size_t chosen = decision->chosen;
    size_t cost = 0;
    size_t load = 0;

    for (size_t i = 0; i < decision->columns.count; i++) {
        if (decision->costs[i] != decision->costs[chosen])
            continue;
        cost++;
        load += decision->busy[i] == decision->busy[chosen];
    }
    *equal = load;
    if (decision->weights.temperature > 0.0)
        return WIRE_ROUTE_SOFTMAX;
    return cost == 1 ? WIRE_ROUTE_LOWEST : load == 1 ? WIRE_ROUTE_BY_LOAD : WIRE_ROUTE_BY_CHANCE;
}

/* Of being chosen, as router/pick.h says. */
struct odds {
    double low;
    double high;
    double sum; /* temperature above 0 */
    uint64_t busy;
    size_t equal; /* temperature 0 */
};

static struct odds
odds_of(const struct decision *decision, size_t equal)
{
    struct odds odds = {.low = decision->costs[0],
                        .high = decision->costs[0],
                        .busy = decision->busy[decision->chosen],
                        .equal = equal};

    for (size_t i = 0; i < decision->columns.count; i++) {
        odds.low = fmin(odds.low, decision->costs[i]);
        odds.high = fmax(odds.high, decision->costs[i]);
    }
    for (size_t i = 0; i < decision->columns.count && decision->weights.temperature > 0.0; i++)
        odds.sum += odds.high > odds.low
                        ? exp(-((decision->costs[i] - odds.low) / (odds.high - odds.low)) /
                              decision->weights.temperature)
                        : 1.0;
    return odds;
}

static double
probability(const struct decision *decision, const struct odds *odds, size_t at)
{
    if (decision->weights.temperature > 0.0)
        return odds->high > odds->low
                   ? exp(-((decision->costs[at] - odds->low) / (odds->high - odds->low)) /
                         decision->weights.temperature) /
                         odds->sum
                   : 1.0 / odds->sum;
    return decision->costs[at] == odds->low && decision->busy[at] == odds->busy
               ? 1.0 / (double)odds->equal
               : 0.0;
}

static size_t
row_of(const struct decision *decision, size_t at)
{
    return decision->allowed != NULL ? decision->allowed[at] : at;
}

/* All but its probability. */
static void
fill_row(const struct decision *decision, size_t at, struct wire_route_row *row)
{
    const size_t place = row_of(decision, at);
    const struct router_worker *worker = &decision->set->rows[place].worker;
    const struct router_terms terms =
        router_cost_terms(&decision->weights, &decision->load, &decision->columns, at);

    *row = (struct wire_route_row){
        .dp_rank = worker->dp_rank,
        .active_requests = decision->columns.active_requests[at],
        .prefill_blocks = terms.prefill_blocks,
        .decode_blocks = terms.decode_blocks,
        .cost = terms.cost,
        .uncertain = decision->coverage->uncertain[place] ||
                     (decision->coverage->cold_uncertain &&
                      decision->coverage->cached[ROUTER_TIERS - 1][place] > 0),
    };
    memcpy(row->worker, worker->name, sizeof(row->worker));
    for (size_t t = 0; t < ROUTER_TIERS; t++)
        row->cached[t] = decision->coverage->cached[t][place];
}

static int
compare_rows(const void *left, const void *right)
{
    const struct wire_route_row *a = left;
    const struct wire_route_row *b = right;
    const int name = strcmp(a->worker, b->worker);

    if (a->cost != b->cost)
        return a->cost < b->cost ? -1 : 1;
    return name != 0 ? name : (a->dp_rank > b->dp_rank) - (a->dp_rank < b->dp_rank);
}

/* Without memory there is no explanation; the choice stands. */
static void
explain(const struct decision *decision, struct wire_route_answer *answer)
{
    const size_t count = decision->columns.count;

    answer->rows = kvt_calloc(count, sizeof(*answer->rows));
    if (answer->rows == NULL)
        return;
    for (size_t i = 0; i < count; i++)
        fill_row(decision, i, &answer->rows[i]);
    answer->row_count = (uint32_t)count;
}

/* With the lock held. */
static enum kvt_err
book(struct decision *decision, struct wire_route_answer *answer, struct kvt_error *err)
{
    const double credit =
        router_cost_terms(&decision->weights, &decision->load, &decision->columns, decision->chosen)
            .credit_blocks *
        (double)decision->load.block_tokens;
    const double isl = (double)decision->load.isl_tokens;
    struct router_request request = {
        .worker = decision->set->rows[row_of(decision, decision->chosen)].worker,
        .prefill_tokens = credit < isl ? (uint64_t)(isl - credit) : 0,
        .hashes = decision->running,
        .hash_count = decision->prompt.hash_count,
        .blocks = decision->prompt.blocks,
    };
    struct router_request there;
    enum kvt_err rc;

    memcpy(request.id, decision->question->id, sizeof(request.id));
    if (router_request_table_get(decision->router->slots, request.id, &there) == KVT_OK &&
        there.worker.name[0] != '\0')
        return kvt_error_set(err, KVT_EXISTS, "request %.64s runs on %s already", request.id,
                             there.worker.name);
    rc = advisor_router_book(decision->router, &request, &answer->booked);
    return rc == KVT_FULL || rc == KVT_OK
               ? KVT_OK
               : kvt_error_set(err, rc, "request %.64s: %s", request.id, kvt_err_text(rc));
}

/* With the lock held. */
static enum kvt_err
choose(struct decision *decision, struct wire_route_answer *answer, struct kvt_error *err)
{
    const uint64_t draw = kvt_random_next(&decision->router->random);

    project(decision);
    for (size_t i = 0; i < decision->columns.count; i++)
        decision->busy[i] = decision->columns.active_prefill_tokens[i] +
                            decision->columns.decode_blocks[i] * decision->load.block_tokens;
    router_cost(&decision->weights, &decision->load, &decision->columns, decision->costs);
    decision->chosen = router_pick(decision->costs, decision->busy, decision->columns.count,
                                   decision->weights.temperature, draw, decision->scratch);
    fill_row(decision, decision->chosen, &answer->chosen);
    answer->blocks = decision->prompt.blocks;
    answer->candidates = (uint32_t)decision->columns.count;
    if (decision->question->explain)
        explain(decision, answer);
    if (decision->question->id[0] == '\0')
        return KVT_OK;
    return book(decision, answer, err);
}

/* Without the lock, which nobody shall wait for because of this: the costs are our own. */
static void
tell_chances(const struct decision *decision, struct wire_route_answer *answer)
{
    struct odds odds;
    size_t equal;

    answer->why = why(decision, &equal);
    odds = odds_of(decision, equal);
    answer->chosen.probability = probability(decision, &odds, decision->chosen);
    for (uint32_t i = 0; i < answer->row_count; i++)
        answer->rows[i].probability = probability(decision, &odds, i);
}

/* ---- one try ---- */

static enum kvt_err
take_crew(struct decision *decision)
{
    struct advisor_router *router = decision->router;
    enum kvt_err rc;

    (void)pthread_mutex_lock(&router->lock);
    rc = advisor_router_refresh(router);
    if (rc == KVT_OK)
        decision->set = advisor_worker_set_keep(router->set);
    if (rc == KVT_OK && decision->coverage == NULL && router->spare_count > 0)
        decision->coverage = router->spares[--router->spare_count];
    (void)pthread_mutex_unlock(&router->lock);
    if (rc == KVT_OK && decision->coverage == NULL)
        rc = advisor_coverage_new(&decision->coverage);
    return rc;
}

/* KVT_AGAIN: the workers are others by now. */
static enum kvt_err
try(struct decision *decision, const struct advisor_finder *finder,
    struct wire_route_answer *answer, struct kvt_error *err)
{
    struct advisor_router *router = decision->router;
    enum kvt_err rc = take_crew(decision);

    if (rc == KVT_OK)
        rc = advisor_coverage_look(decision->coverage, finder, decision->set,
                                   decision->question->namespace_, decision->prompt.hashes,
                                   decision->prompt.hash_count);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "what workers hold: %s", kvt_err_text(rc));
    rc = reserve(decision, err);
    if (rc != KVT_OK)
        return rc;
    (void)pthread_mutex_lock(&router->lock);
    rc = advisor_router_refresh(router);
    if (rc != KVT_OK)
        (void)kvt_error_set(err, rc, "who is there: %s", kvt_err_text(rc));
    else if (router->set != decision->set)
        rc = kvt_error_set(err, KVT_AGAIN,
                           "workers come and go too fast to choose one, as while a big bucket is "
                           "read; ask again in a second");
    if (rc == KVT_OK)
        rc = choose(decision, answer, err);
    (void)pthread_mutex_unlock(&router->lock);
    if (rc == KVT_OK)
        tell_chances(decision, answer);
    return rc;
}

static void
end(struct decision *decision)
{
    struct advisor_router *router = decision->router;
    bool kept = false;

    advisor_request_blocks_release(&decision->prompt);
    kvt_free(decision->running);
    if (decision->coverage == NULL)
        return;
    (void)pthread_mutex_lock(&router->lock);
    if (router->spare_count < ADVISOR_ROUTER_SPARES) {
        router->spares[router->spare_count++] = decision->coverage;
        kept = true;
    }
    (void)pthread_mutex_unlock(&router->lock);
    if (!kept)
        advisor_coverage_free(decision->coverage);
}

static void
note(struct advisor_router *router, enum kvt_err rc, const struct wire_route_answer *answer,
     uint64_t began_ns)
{
    enum { NS_A_US = 1000 };

    if (rc != KVT_OK) {
        kvt_metric_inc(router->counters.refused, 1);
        return;
    }
    kvt_metric_inc(router->counters.decisions, 1);
    if (answer->why == WIRE_ROUTE_BY_LOAD || answer->why == WIRE_ROUTE_BY_CHANCE)
        kvt_metric_inc(router->counters.ties, 1);
    if (answer->booked)
        kvt_metric_inc(router->counters.booked, 1);
    kvt_histogram_add(&router->counters.decision_us, (kvt_clock_mono_ns() - began_ns) / NS_A_US);
}

enum kvt_err
advisor_router_ask(struct advisor_router *router, const struct advisor_finder *finder,
                   const struct wire_route_question *question, struct wire_route_answer *answer,
                   struct kvt_error *err)
{
    struct decision decision = {.router = router, .question = question};
    const uint64_t began_ns = kvt_clock_mono_ns();
    enum kvt_err rc;

    *answer = (struct wire_route_answer){.loading = finder->memory != NULL &&
                                                    atomic_load(&finder->memory->loading)};
    rc = begin(&decision, err);
    for (int i = 0; i < TRIES && rc == KVT_OK; i++) {
        rc = try(&decision, finder, answer, err);
        advisor_worker_set_leave(decision.set);
        decision.set = NULL;
        release_candidates(&decision);
        if (rc != KVT_AGAIN)
            break;
        rc = i + 1 < TRIES ? KVT_OK : KVT_AGAIN;
    }
    end(&decision);
    if (answer->row_count > 1)
        qsort(answer->rows, answer->row_count, sizeof(*answer->rows), compare_rows);
    if (answer->row_count > WIRE_ROUTE_ROWS_MAX)
        answer->row_count = WIRE_ROUTE_ROWS_MAX;
    note(router, rc, answer, began_ns);
    return rc;
}
