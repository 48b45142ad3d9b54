/*
 * router/cost.h -- what it would cost to give a request to a worker.
 *
 * Why: one formula, one place.  A router wants the worker that has least to compute for this
 * request and least to do besides.
 *
 *   prefill_blocks = max(0, (active_prefill_tokens + isl_tokens) / block_tokens - credit)
 *   credit         = g1_weight * cached[G1] + g2_weight * cached[G2] + g3_weight * cached[G3]
 *                    + g4_weight * cached[G4]
 *   decode_blocks  = active blocks of the worker + blocks of the request not active there
 *   cost           = overlap_score_weight * prefill_blocks + decode_blocks
 *                    + active_request_weight * active_requests
 *
 * The formula, in this order of operations on doubles, is that of dynamo-kv-router 1.6.1's default
 * selector, where overlap_score_weight is called prefill_load_scale, g1_weight
 * overlap_score_credit, and g4_weight stands beside shared_cache_multiplier.
 *
 * Ownership: the caller owns all arrays.
 * Threads:   none; pure functions.
 * Limits:    ROUTER_WORKERS_MAX candidates.
 */
#ifndef ROUTER_COST_H
#define ROUTER_COST_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define ROUTER_WORKERS_MAX 65536 /* (worker, dp rank) pairs */
#define ROUTER_TIERS       4     /* G1 .. G4, in this order */

struct router_weights {
    double overlap_score_weight;  /* of prefill against decode; 1 */
    double tier[ROUTER_TIERS];    /* what a cached block is worth where it is; 1, 0.75, 0.25, 0.1 */
    double active_request_weight; /* blocks a running request weighs beside its own; 0 */
    double temperature;           /* 0: the lowest cost; above: softmax over normalised costs */
};

/** The defaults named above. */
struct router_weights router_weights_default(void);

/** KVT_OK, or KVT_RANGE with one line: a weight that is negative, not finite or above 1e6. */
KVT_NODISCARD enum kvt_err router_weights_check(const struct router_weights *weights,
                                                struct kvt_error *err);

/* All candidates of one request, a column each so that costs are computed many at a time; entry i
 * of each column is one candidate. */
struct router_candidates {
    size_t count;
    const uint64_t *active_prefill_tokens;
    const uint64_t *decode_blocks; /* with the request's own that are not active there */
    const uint32_t *active_requests;
    const uint32_t *cached[ROUTER_TIERS]; /* blocks of the request, each counted in one tier; NULL:
                                           * none anywhere */
};

/* The request, as far as cost goes. */
struct router_load {
    uint64_t isl_tokens;   /* length of the prompt */
    uint32_t block_tokens; /* at least 1 */
};

/** The cost of each candidate, written to `costs[count]`. */
void router_cost(const struct router_weights *weights, const struct router_load *load,
                 const struct router_candidates *candidates, double *costs);

/** What the cost of one candidate is made of, for explanations. */
struct router_terms {
    double credit_blocks;
    double prefill_blocks;
    double decode_blocks;
    double cost;
};
struct router_terms router_cost_terms(const struct router_weights *weights,
                                      const struct router_load *load,
                                      const struct router_candidates *candidates, size_t at);

#endif /* ROUTER_COST_H */
