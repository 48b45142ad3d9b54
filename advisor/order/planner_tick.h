/*
 * advisor/order/planner_tick.h -- one look at everything: blocks that were chosen become orders.
 *
 * Why: draining, promoting and sweeping choose in their own ways and order in one.
 * Ownership: what a tick has lives for one tick.
 * Threads:   the writer's.
 * Limits:    KVT_ORDER_ITEMS_MAX blocks of a set; ADVISOR_TICK_SLICE_MS of draining and promoting.
 */
#ifndef ADVISOR_ORDER_PLANNER_TICK_H
#define ADVISOR_ORDER_PLANNER_TICK_H

#include "advisor/order/planner_private.h"
#include "advisor/selection/active_rules.h"
#include "advisor/selection/edge.h"

#define ADVISOR_TICK_SLICE_MS      30
#define ADVISOR_TICK_LOOKS_A_CLOCK 8 /* between two looks at the clock: one may be long */

/* Blocks chosen together; those of one rule, edge and namespace become one order. */
struct advisor_set {
    struct policy_block blocks[KVT_ORDER_ITEMS_MAX];
    int32_t rules[KVT_ORDER_ITEMS_MAX];
    struct advisor_edge edges[KVT_ORDER_ITEMS_MAX];
    uint32_t count;
    bool keep;      /* they are copies made ahead: what lies above stays */
    uint32_t quota; /* that they leave for, plus 1; 0: none */
    struct policy_block held[ADVISOR_LOOKS_MAX]; /* looked at, and to be given back */
    uint32_t held_count;
};

struct advisor_tick {
    struct advisor_planner *planner;
    const struct policy *policy; /* that is followed */
    struct advisor_set *set;
    struct advisor_asker asker;
    uint64_t now_ms;
    bool observed;
    uint64_t began_ms;                /* by the clock that never steps */
    uint32_t looks;                   /* at blocks */
    uint64_t used[ADVISOR_TIERS_MAX]; /* bytes, with what is on its way and what is chosen */
};

/** Is the time over that draining and promoting have in a tick?  Asked with each look. */
bool advisor_tick_is_over(struct advisor_tick *plan);

/** Has an open plan the tier for itself, or other jobs for a while? */
bool advisor_tick_waits(const struct advisor_tick *plan, struct advisor_tier *tier);

/** A set begins; of copies made ahead, or of moves. */
void advisor_tick_begin_set(struct advisor_tick *plan, bool keep);
/** The rule (-1: the quota of the set) moves the block along that edge.  There must be room in the
 *  set. */
void advisor_tick_add(struct advisor_tick *plan, const struct advisor_edge *edge,
                      const struct policy_block *block, int32_t rule);
/** The set as orders, one for each edge, rule and namespace in it, or back. */
void advisor_tick_order(const struct advisor_tick *plan, bool swept);

/** What a rule has enough of goes back where it was; where time ended before all was looked at it
 *  is set aside, so that the next tick looks at others. */
void advisor_tick_let_go(const struct advisor_tick *plan, struct advisor_tier *tier, bool over);

/** Order what is to leave for quotas. */
void advisor_planner_drain_quotas(struct advisor_tick *plan);

/** Copy what leaves the tier next to the tier below, as far as its rules say. */
void advisor_planner_prestage(struct advisor_tick *plan, uint32_t number, uint64_t capacity);

/** Order what was read from further down by that gateway, if it is to come up. */
void advisor_planner_promote(struct advisor_tick *plan, struct advisor_gateway *gateway);

/** Order what is to be packed. */
void advisor_planner_compact(struct advisor_tick *plan);

/** Go on asking about the rows of the store, for rules without a watermark. */
void advisor_planner_sweep(struct advisor_tick *plan);

#endif /* ADVISOR_ORDER_PLANNER_TICK_H */
