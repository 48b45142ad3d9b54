#include "router/cost.h"

#include <math.h>
#include <stdbool.h>

#define WEIGHT_MAX 1e6

struct router_weights
router_weights_default(void)
{
    return (struct router_weights){
        .overlap_score_weight = 1.0,
        .tier = {1.0, 0.75, 0.25, 0.1},
        .active_request_weight = 0.0,
        .temperature = 0.0,
    };
}

static bool
good(double weight)
{
    return isfinite(weight) && weight >= 0.0 && weight <= WEIGHT_MAX;
}

enum kvt_err
router_weights_check(const struct router_weights *weights, struct kvt_error *err)
{
    const char *bad = NULL;

    if (!good(weights->overlap_score_weight))
        bad = "overlap_score_weight";
    if (!good(weights->active_request_weight))
        bad = "active_request_weight";
    if (!good(weights->temperature))
        bad = "router_temperature";
    for (int i = 0; i < ROUTER_TIERS; i++)
        if (!good(weights->tier[i]))
            bad = "tier weights";
    if (bad == NULL)
        return KVT_OK;
    return kvt_error_set(err, KVT_RANGE, "%s: want a number from 0 to %g", bad, WEIGHT_MAX);
}

struct router_terms
router_cost_terms(const struct router_weights *weights, const struct router_load *load,
                  const struct router_candidates *candidates, size_t at)
{
    struct router_terms terms = {0};
    double raw = (double)(candidates->active_prefill_tokens[at] + load->isl_tokens) /
                 (double)load->block_tokens;
    double left;

    for (int i = 0; i < ROUTER_TIERS; i++)
        if (candidates->cached[i] != NULL)
            terms.credit_blocks += weights->tier[i] * (double)candidates->cached[i][at];
    left = raw - terms.credit_blocks;
    terms.prefill_blocks = left > 0.0 ? left : 0.0;
    terms.decode_blocks = (double)candidates->decode_blocks[at];
    terms.cost = weights->overlap_score_weight * terms.prefill_blocks + terms.decode_blocks +
                 weights->active_request_weight * (double)candidates->active_requests[at];
    return terms;
}

void
router_cost(const struct router_weights *weights, const struct router_load *load,
            const struct router_candidates *candidates, double *costs)
{
    for (size_t i = 0; i < candidates->count; i++)
        costs[i] = router_cost_terms(weights, load, candidates, i).cost;
}
