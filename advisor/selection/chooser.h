/*
 * advisor/selection/chooser.h -- which blocks leave a tier next, and by which rule.
 *
 * Why: what is ordered and what a plan shows must be the same, so both choose here.  A block leaves
 * when the rule that has it is one that drains its tier; others are set aside for a while
 * (policy_tier_blocks_pass()).
 *
 * Ownership: a chooser borrows everything.
 * Threads:   the writer's.
 * Limits:    none of its own; each call looks at one block.
 */
#ifndef ADVISOR_SELECTION_CHOOSER_H
#define ADVISOR_SELECTION_CHOOSER_H

#include "advisor/selection/active_rules.h"
#include "advisor/selection/edge.h"
#include "advisor/selection/planned_moves.h"
#include "advisor/selection/ranking.h"
#include "advisor/selection/rule_set.h"

struct advisor_chooser {
    struct advisor_asker *asker;
    uint32_t tier;                   /* of the planner's */
    struct advisor_ranking *ranking; /* by which its blocks leave; the tier's own, but of a plan */
    struct advisor_rule_set set;     /* rules that take blocks out of it */
    struct advisor_rule_set acting;  /* of them, those that are not at a limit */
    uint64_t capacity;
    uint64_t used;  /* falls with each block that is chosen */
    uint64_t tick;  /* of the orderings */
    uint64_t *kept; /* bytes that each rule pinned there; falls with them.  NULL: not known */
    bool everybody; /* the canary share does not count */
    bool staging;   /* not to leave: copies are made of those that have none below */
    const struct advisor_planned_moves *moved; /* of a plan: what is gone; NULL: nothing */
    const uint64_t *planned; /* bytes of each tier of the planner, with what was chosen for it */
    struct advisor_edge edges[ADVISOR_RULES_MAX]; /* of rules in `set`: advisor_chooser_begin() */
    uint8_t orders[ADVISOR_RULES_MAX]; /* of the tier's, by which each rule takes its blocks; the
                                          same */
    uint32_t turn;                     /* the rule that is asked first what it wants */
    bool spent[ADVISOR_RANKINGS_MAX];  /* orders of which nothing is left */
    struct advisor_rule_set full;      /* whose tier below has no room for a block of theirs */
    uint32_t waiting;                  /* such blocks */
};

enum advisor_choice {
    ADVISOR_CHOSEN,
    ADVISOR_PASSED, /* it is not to leave: ask again */
    ADVISOR_HELD,   /* its rule has enough, or the tier below: the caller gives it back, later */
    ADVISOR_LAST,   /* no block is left that was not taken out */
    ADVISOR_ENOUGH, /* every rule is at its stop watermark */
};

#define ADVISOR_WAITING_MAX 1024 /* blocks without room below: then no further ones are looked at */

/** Find the edges of the rules in `set`: those without one take no part. */
void advisor_chooser_begin(struct advisor_chooser *chooser);

/** Look at the next block; of CHOSEN and HELD it is taken out. */
enum advisor_choice advisor_chooser_next(struct advisor_chooser *chooser,
                                         struct policy_block *block, int32_t *rule);

#endif /* ADVISOR_SELECTION_CHOOSER_H */
