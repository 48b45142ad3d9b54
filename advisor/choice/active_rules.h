/*
 * advisor/choice/active_rules.h -- the policy in force, as the planner follows it.
 *
 * Why: draining, promoting, sweeping and previewing ask the same questions: which rule has this
 * block, and may that rule act now?
 *
 * What a rule did and may do is remembered by its id, so that a new version of the policy does not
 * lift a limit.  A *run* of a rule begins when its tier reaches the start watermark, or with a new
 * pass over the store, and ends at the stop watermark, behind the last row, or at a limit; then it
 * rests for ADVISOR_RULE_REST_MS.
 *
 * Ownership: the planner holds one version of the rules; an asker borrows it and owns its row.
 * Threads:   the engine's.
 * Limits:    ADVISOR_RULES_MAX rules, as a policy has at most.
 */
#ifndef ADVISOR_CHOICE_ACTIVE_RULES_H
#define ADVISOR_CHOICE_ACTIVE_RULES_H

#include "advisor/choice/planned_moves.h"
#include "advisor/rule/block_facts.h"
#include "advisor/rule/rulebook.h"
#include "advisor/store/durable_store.h"
#include "kvtier/order.h"

#include "policy/decide/decision.h"
#include "policy/decide/rate.h"
#include "policy/decide/tier_blocks.h"

#define ADVISOR_RULES_MAX          128
#define ADVISOR_RULE_REST_MS       UINT64_C(60000) /* after a run that a limit ended */
#define ADVISOR_RULE_ERRORS_MIN    16              /* before their share means something */
#define ADVISOR_RULE_PAUSE_MS      UINT64_C(60000) /* the first time, then twice as long */
#define ADVISOR_RULE_PAUSE_LAST_MS UINT64_C(3600000)

struct advisor_planner;

/* Rules by number. */
struct advisor_rule_set {
    uint64_t bits[ADVISOR_RULES_MAX / 64];
};

static inline bool
advisor_rule_set_has(const struct advisor_rule_set *set, int32_t rule)
{
    return rule >= 0 && (set->bits[rule / 64] >> (rule % 64) & 1) != 0;
}

static inline void
advisor_rule_set_put(struct advisor_rule_set *set, int32_t rule, bool in)
{
    const uint64_t bit = UINT64_C(1) << (rule % 64);

    if (in)
        set->bits[rule / 64] |= bit;
    else
        set->bits[rule / 64] &= ~bit;
}

static inline bool
advisor_rule_set_any(const struct advisor_rule_set *set)
{
    return (set->bits[0] | set->bits[1]) != 0;
}

/* Why a rule does not act now. */
enum advisor_rule_stop {
    ADVISOR_RULE_ACTS,
    ADVISOR_RULE_SUSPENDED,  /* too many of its moves failed */
    ADVISOR_RULE_RATE,       /* it moved what it may by now */
    ADVISOR_RULE_PER_RUN,    /* its run reached limits.per_run */
    ADVISOR_RULE_MAX_DELETE, /* its run reached modes.max_delete */
    ADVISOR_RULE_FULL,       /* the tier it moves blocks to is to be drained first */
    ADVISOR_RULE_NO_EDGE,    /* no gateway has both of its tiers */
};

struct advisor_rule_state {
    char id[POLICY_NAME_MAX];
    uint64_t ordered; /* blocks, since the program started */
    uint64_t moved;
    uint64_t refused;
    uint64_t bytes;      /* ordered */
    uint64_t last_ms;    /* when it ordered last; 0: never */
    uint64_t begun_ms;   /* its last run; 0: none yet */
    uint64_t run_blocks; /* of the run that goes on */
    struct policy_rate rate;
    uint64_t window_done; /* items since errors were counted anew */
    uint64_t window_failed;
    uint64_t resume_ms; /* stopped until then; 0: it is not */
    uint64_t pause_ms;  /* the last suspension's */
    uint64_t full_ms;   /* the tier below had no room then; 0: it always had */
    bool no_edge;       /* tiers are its own, and no gateway has both ends */
    enum advisor_rule_stop stop;
};

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
/** What became of blocks that it ordered. */
void advisor_planner_learn(struct advisor_planner *planner, int32_t rule, uint32_t done,
                           uint32_t failed, uint64_t now_ms);
/** Its run is over, or a new one begins. */
void advisor_planner_end_run(struct advisor_planner *planner, int32_t rule);
/** Is it stopped until later, for another reason than its rate? */
bool advisor_planner_rests(const struct advisor_planner *planner, int32_t rule, uint64_t now_ms);

/** Has the time of its schedule come since its last run (0: none yet)?  `every` counts from then,
 *  and a rule without a schedule rests for ADVISOR_RULE_REST_MS. */
bool advisor_rule_is_due(const struct policy_rule *rule, uint64_t begun_ms, uint64_t now_ms);

/** A rule with watermarks that takes blocks out of a tier. */
static inline bool
advisor_rule_drains(const struct policy_rule *rule)
{
    return rule->trigger.head.place.line != 0 &&
           (rule->verb == POLICY_DEMOTE || rule->verb == POLICY_EXPIRE);
}

/** A rule that waits for no watermark and for no event: rows are asked about, one after another. */
static inline bool
advisor_rule_is_swept(const struct policy_rule *rule)
{
    return rule->on == 0 && rule->trigger.head.place.line == 0 &&
           (rule->verb == POLICY_DEMOTE || rule->verb == POLICY_EXPIRE ||
            rule->verb == POLICY_PROMOTE || rule->verb == POLICY_PIN);
}

/** What is ordered of the rule's blocks; NONE: they stay, or it is no order of blocks. */
static inline enum kvt_order_verb
advisor_rule_order_verb(const struct policy_rule *rule)
{
    switch ((enum policy_verb)rule->verb) {
    case POLICY_DEMOTE: return KVT_ORDER_DEMOTE;
    case POLICY_PROMOTE: return KVT_ORDER_PROMOTE;
    case POLICY_EXPIRE: return KVT_ORDER_DELETE;
    case POLICY_PIN:
    case POLICY_COMPACT:
    case POLICY_EXCLUDE: break;
    }
    return KVT_ORDER_NONE;
}

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

#endif /* ADVISOR_CHOICE_ACTIVE_RULES_H */
