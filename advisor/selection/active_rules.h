/*
 * advisor/selection/active_rules.h -- the policy in force, as the planner follows it.
 *
 * Why: draining, promoting, sweeping and dry runs ask the same questions: which rule has this
 * block, and may that rule act now?
 *
 * What a rule did and may do is remembered by its id, so that a new version of the policy does not
 * lift a limit.  A *run* of a rule begins when its tier reaches the start watermark, or with a new
 * pass over the store, and ends at the stop watermark, behind the last row, or at a limit; then it
 * rests for ADVISOR_RULE_REST_MS.
 *
 * Ownership: the planner holds one version of the rules; an asker borrows it and owns its row.
 * Threads:   the writer's.
 * Limits:    ADVISOR_RULES_MAX rules, as a policy has at most.
 */
#ifndef ADVISOR_SELECTION_ACTIVE_RULES_H
#define ADVISOR_SELECTION_ACTIVE_RULES_H

#include "advisor/rule/block_facts.h"
#include "advisor/rule/rulebook.h"
#include "advisor/selection/planned_moves.h"
#include "advisor/selection/planner_types.h"
#include "advisor/selection/rule_set.h"
#include "advisor/store/durable_store.h"
#include "kvtier/order.h"

#include "policy/decide/decision.h"
#include "policy/decide/tier_blocks.h"

struct advisor_planner;

/** Take up the version in force; what a rule of the same name did stays.  True: it is another. */
bool advisor_planner_adopt(struct advisor_planner *planner);

/** May the rule move one more block now?  Says why not. */
enum advisor_rule_stop advisor_planner_may(struct advisor_planner *planner, int32_t rule,
                                           uint64_t now_ms);
/** For people; "" of one that acts. */
const char *advisor_rule_stop_text(enum advisor_rule_stop why);
/** It does. */
void advisor_planner_did(struct advisor_planner *planner, int32_t rule, uint64_t bytes,
                         uint64_t now_ms);
/** Find the rules that no gateway can follow, when gateways or rules are others than before. */
void advisor_planner_find_edges(struct advisor_planner *planner);
/** For those who look; under the lock of what is shared. */
void advisor_planner_show_rules(struct advisor_planner *planner);
/** Of the policy that is followed, in its order.  Any thread. */
size_t advisor_planner_rules(struct advisor_planner *planner, struct advisor_rule_view *views,
                             size_t capacity);
/** What became of blocks that it ordered. */
void advisor_planner_learn(struct advisor_planner *planner, int32_t rule, uint32_t done,
                           uint32_t failed, uint64_t now_ms);
/** Its run is over, or a new one begins. */
void advisor_planner_end_run(struct advisor_planner *planner, int32_t rule);
/** Is it stopped until later, for another reason than its rate? */
bool advisor_planner_rests(const struct advisor_planner *planner, int32_t rule, uint64_t now_ms);

/* ---- asking about blocks ---- */

/* One look at the store for many questions. */
struct advisor_asker {
    struct advisor_planner *planner;
    const struct advisor_rules *rules;
    uint64_t now_ms;
    bool asks_rows;   /* what the roster knows of a block is not enough for these rules */
    bool asks_fanout; /* they count children */
    const struct advisor_planned_moves *moved; /* of a plan, as if it were done; NULL: nothing */
    struct advisor_txn txn;
    struct advisor_store_block row;
    bool unknown; /* the block that was asked about last has no row: it went, or was not read */
    struct advisor_block_facts facts; /* of the block that was asked about last */
    bool elsewhere; /* a rule would expire it, and the one that was given pins a copy of it in
                       another tier */
};

void advisor_asker_begin(struct advisor_asker *asker, struct advisor_planner *planner,
                         const struct advisor_rules *rules, uint64_t now_ms);
void advisor_asker_end(struct advisor_asker *asker);
/** The rule that has the block in a tier of the planner's; -1: none. */
int32_t advisor_asker_rule(struct advisor_asker *asker, uint32_t tier,
                           const struct policy_block *block, enum policy_event event);
/** Of the block that was asked about last, by that: does a rule pin a copy of it in another tier
 *  than this?  Deleting takes all copies. */
bool advisor_asker_pins_elsewhere(struct advisor_asker *asker, uint32_t tier,
                                  const struct policy_block *block);
/** The same as advisor_asker_rule() for a row of the store. */
int32_t advisor_asker_rule_of_row(struct advisor_asker *asker, uint32_t tier,
                                  const struct advisor_store_block *row, uint32_t ranks,
                                  enum policy_event event);

#endif /* ADVISOR_SELECTION_ACTIVE_RULES_H */
