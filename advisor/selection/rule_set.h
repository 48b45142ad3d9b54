/*
 * advisor/selection/rule_set.h -- rules by number, and what each did and may do.
 *
 * Why: the planner's tables hold sets and states of rules for those that follow a policy
 * (advisor/selection/active_rules.h).
 * Limits:    ADVISOR_RULES_MAX rules, as a policy has at most.
 */
#ifndef ADVISOR_SELECTION_RULE_SET_H
#define ADVISOR_SELECTION_RULE_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "kvtier/order.h"

#include "policy/decide/rate.h"
#include "policy/file/policy_file.h"

#define ADVISOR_RULES_MAX          128
#define ADVISOR_RULE_REST_MS       UINT64_C(60000) /* after a run that a limit ended */
#define ADVISOR_RULE_ERRORS_MIN    16              /* before their share means something */
#define ADVISOR_RULE_PAUSE_MS      UINT64_C(60000) /* the first time, then twice as long */
#define ADVISOR_RULE_PAUSE_LAST_MS UINT64_C(3600000)

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

#endif /* ADVISOR_SELECTION_RULE_SET_H */
