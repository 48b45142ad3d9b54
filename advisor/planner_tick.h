/*
 * advisor/planner_tick.h -- one look at everything: blocks that were chosen become orders.
 *
 * Why: draining, promoting and sweeping choose in their own ways and order in one.
 * Ownership: what a tick has lives for one tick.
 * Threads:   the engine's.
 * Limits:    KVT_ORDER_ITEMS_MAX blocks of a set; ADVISOR_TICK_SLICE_MS of draining and promoting.
 */
#ifndef ADVISOR_PLANNER_TICK_H
#define ADVISOR_PLANNER_TICK_H

#include "advisor/planner_private.h"

#define ADVISOR_TICK_SLICE_MS      30
#define ADVISOR_TICK_LOOKS_A_CLOCK 8 /* between two looks at the clock: one may be long */

struct advisor_tick {
    struct advisor_planner *planner;
    const struct policy *policy; /* that is followed */
    struct advisor_set *set;
    struct advisor_asker asker;
    uint64_t now_ms;
    bool observed;
    uint64_t began_ms; /* by the clock that never steps */
    uint32_t looks;    /* at blocks */
};

/** Is the time over that draining and promoting have in a tick?  Asked with each look. */
bool advisor_tick_is_over(struct advisor_tick *plan);

/** The rule moves the block out of that tier, or promotes it to it.  There must be room. */
void advisor_tick_add(struct advisor_tick *plan, uint32_t tier, const struct policy_block *block,
                      int32_t rule);
/** The set as orders, one for each tier, rule and namespace in it, or back. */
void advisor_tick_order(const struct advisor_tick *plan, bool swept);

/** Order what was read from buckets by that gateway, if it is to come to its volume. */
void advisor_planner_promote(struct advisor_tick *plan, struct advisor_gateway *gateway);

/** Go on asking about the rows of the store, for rules without a watermark. */
void advisor_planner_sweep(struct advisor_tick *plan);

#endif /* ADVISOR_PLANNER_TICK_H */
