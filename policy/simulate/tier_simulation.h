/*
 * policy/simulate/tier_simulation.h -- one tier under one ordering, request by request.
 *
 * Why: what an ordering and a size would have done to a workload is known before anything moves.
 * One run answers both questions people have: the hits of a cache of that size, and what a hot tier
 * of that size before an endless cold one costs in reads and moves (policy/DESIGN.md).
 *
 * A request first counts its prefix hits, then its blocks are read from the last to the first.
 * What is new lands in the tier; what was read cold is promoted when the rule says so.
 *
 * Ownership: policy_tier_simulation_free() ends it.
 * Threads:   one owner; several simulations run side by side.
 * Limits:    KVT_ORDERING_BLOCKS_MAX blocks; about 40 bytes for each.
 */
#ifndef POLICY_SIMULATE_TIER_SIMULATION_H
#define POLICY_SIMULATE_TIER_SIMULATION_H

#include <stdint.h>

#include "kvtier/error.h"
#include "kvtier/ordering.h"

#include "policy/simulate/workload.h"

/* X(name, text): when a block that was read cold comes back. */
#define POLICY_PROMOTIONS(X)                                                                       \
    X(ALWAYS, "always")                                                                            \
    X(NEVER, "never")                                                                              \
    X(SECOND, "second-read") /* at the second cold read within second_ticks */                     \
    X(PRICE, "price")        /* when what it is expected to save exceeds two moves; as ALWAYS \
                                under an ordering that knows no chances */

enum policy_promotion {
#define X(name, text) POLICY_PROMOTE_##name,
    POLICY_PROMOTIONS(X)
#undef X
};

struct policy_tier_simulation;

struct policy_tier_simulation_options {
    const struct kvt_ordering *ordering;
    struct kvt_ordering_options ordering_options;
    uint64_t capacity; /* blocks */
    enum policy_promotion promotion;
    uint64_t second_ticks; /* requests between two cold reads that count as two */
};

struct policy_tier_simulation_result {
    uint64_t requests;
    uint64_t reads;
    uint64_t known_reads; /* of blocks that were read before */
    uint64_t prefix_hits; /* reads up to the first block that is not in the tier */
    uint64_t hot_reads;   /* reads of any block that is */
    uint64_t promotions;
    uint64_t demotions;
    uint64_t uploads; /* of them, of blocks the cold tier did not have yet */
    uint64_t memory;  /* bytes the ordering holds */
    uint32_t blocks;
};

/** KVT_OK, KVT_NOMEM, or what the ordering's init() says. */
KVT_NODISCARD enum kvt_err
policy_tier_simulation_new(struct policy_tier_simulation **out,
                           const struct policy_tier_simulation_options *options);

/** NULL is allowed. */
void policy_tier_simulation_free(struct policy_tier_simulation *simulate);

/** The next request.  KVT_OK, or KVT_NOMEM and it did not happen. */
KVT_NODISCARD enum kvt_err
policy_tier_simulation_request(struct policy_tier_simulation *simulate,
                               const struct policy_workload_request *request);

/** Is the block in the tier now? */
bool policy_tier_simulation_has(const struct policy_tier_simulation *simulate, uint32_t block);

struct policy_tier_simulation_result
policy_tier_simulation_result(const struct policy_tier_simulation *simulate);

/** All of a workload at once; `*result` is zero where it fails. */
KVT_NODISCARD enum kvt_err
policy_tier_simulation_run(const struct policy_workload *workload,
                           const struct policy_tier_simulation_options *options,
                           struct policy_tier_simulation_result *result);

/** What the reads of known blocks and all moves cost together. */
double policy_tier_simulation_cost(const struct policy_tier_simulation_result *result,
                                   const struct kvt_ordering_prices *prices);

/** Its word. */
const char *policy_promotion_text(enum policy_promotion promotion);

#endif /* POLICY_SIMULATE_TIER_SIMULATION_H */
