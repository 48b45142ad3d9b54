/*
 * policy/simulate/belady.h -- what no ordering can beat.
 *
 * Why: a hit ratio says little without the best one there could be.  That is Belady's: keep what is
 * needed soonest, let deeper blocks go first among equals, and never take in what is needed later
 * than everything there is.  A request that reads a block reads every block before it, so a parent
 * is never needed later than its child: what is kept is closed under prefixes, its prefix hits are
 * its block hits, and nothing has more of either (policy/DESIGN.md, "The bound").
 *
 * Ownership: policy_belady_free() ends it; the workload must live as long.
 * Threads:   one owner.
 * Limits:    four bytes a read, and 24 a block.
 */
#ifndef POLICY_SIMULATE_BELADY_H
#define POLICY_SIMULATE_BELADY_H

#include <stdint.h>

#include "kvtier/error.h"
#include "kvtier/ordering.h"

#include "policy/simulate/workload.h"

struct policy_belady;

KVT_NODISCARD enum kvt_err policy_belady_new(struct policy_belady **out,
                                             const struct policy_workload *workload);

/** NULL is allowed. */
void policy_belady_free(struct policy_belady *best);

/** The hits of a tier of `capacity` blocks. */
uint64_t policy_belady_hits(struct policy_belady *best, uint64_t capacity);

/**
 * What two tiers cost at least, for anything that fetches on demand alone: every read that Belady's
 * tier would miss is a cold one, and all blocks but those that fit must move down once.
 *
 * @param hits  policy_belady_hits() of `capacity`
 */
double policy_belady_cost(const struct policy_belady *best, uint64_t capacity, uint64_t hits,
                          const struct kvt_ordering_prices *prices);

#endif /* POLICY_SIMULATE_BELADY_H */
