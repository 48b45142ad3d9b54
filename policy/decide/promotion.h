/*
 * policy/decide/promotion.h -- is it worth moving a block into a tier that is full?
 *
 * Why: simulator and planner must give the same answer.  The block comes up, and what makes room
 * for it goes down: two moves.  They must cost less than what is saved when it is read hot instead
 * of cold, times how likely that is, less the uses that its place would have had otherwise: those
 * of what leaves nowadays, for as long as it waits.
 *
 * Ownership: plain values; an ordering's state is borrowed for the call.
 * Limits:    none; the value of what leaves is averaged over the last few hundred that left.
 */
#ifndef POLICY_DECIDE_PROMOTION_H
#define POLICY_DECIDE_PROMOTION_H

#include <stdbool.h>
#include <stdint.h>

#include "kvtier/ordering.h"

/* What a place in the tier is worth; begins as zero. */
struct policy_promotion_price {
    double leaving; /* the value at which blocks leave, averaged */
};

/** A block with that value made room. */
void policy_promotion_left(struct policy_promotion_price *price, double value);

struct policy_promotion_candidate {
    const struct kvt_ordering *ordering; /* of the tier */
    const void *state;
    struct kvt_ordering_prices prices;
    uint32_t block; /* known to it, and cold */
    uint64_t now;   /* tick */
};

/** Always true under an ordering that knows no chances. */
bool policy_promotion_pays(const struct policy_promotion_price *price,
                           const struct policy_promotion_candidate *candidate);

#endif /* POLICY_DECIDE_PROMOTION_H */
