/*
 * tests/unit/policy/ordering/ordering_tier.h -- a tier that drives an ordering at random and keeps
 * its own books.
 *
 * Why: what must hold of every ordering is the same, and is easily told by who knows where each
 * block is.
 * Ownership: tier_free() ends it.
 * Threads:   one.
 * Limits:    TIER_BLOCKS numbers.
 */
#ifndef TESTS_UNIT_POLICY_ORDERING_ORDERING_TIER_H
#define TESTS_UNIT_POLICY_ORDERING_ORDERING_TIER_H

#include <stdbool.h>
#include <stdint.h>

#include "kvtier/ordering.h"

enum { TIER_BLOCKS = 200 };

enum tier_place { TIER_UNKNOWN, TIER_COLD, TIER_HOT, TIER_TAKEN };

struct tier {
    const struct kvt_ordering *ordering;
    void *order;
    enum tier_place places[TIER_BLOCKS];
    uint32_t uses[TIER_BLOCKS];
    uint32_t counts[4]; /* by place */
    uint64_t now;
    uint64_t random;
};

void tier_init(struct tier *tier, const struct kvt_ordering *ordering, uint64_t seed);
void tier_free(struct tier *tier);

/** A random use of `block` at the present tick, and its entry when `enters`. */
void tier_use(struct tier *tier, uint32_t block, bool enters);

/** Some call that is allowed at this moment; checks what comes back. */
void tier_step(struct tier *tier);

void tier_leave(struct tier *tier, uint32_t block);
void tier_forget(struct tier *tier, uint32_t block);
bool tier_victim(struct tier *tier, uint32_t *block);

#endif /* TESTS_UNIT_POLICY_ORDERING_ORDERING_TIER_H */
