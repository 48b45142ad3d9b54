#include "advisor/selection/chooser.h"

#include "advisor/selection/active_rules.h"
#include "advisor/selection/edge.h"
#include "advisor/selection/planned_moves.h"
#include "advisor/selection/planner_tables.h"
#include "advisor/selection/ranking.h"
#include "advisor/selection/rule_set.h"
#include "advisor/selection/wanted_orderings.h"
#include "advisor/selection/watermark.h"

/* Down to which fill the rule takes blocks. */
static uint64_t
mark_of(const struct advisor_chooser *chooser, int32_t rule)
{
    const struct policy_trigger *trigger =
        &policy_rule_at(chooser->asker->rules->policy, (size_t)rule)->trigger;

    return advisor_watermark_bytes(chooser->capacity,
                                   chooser->staging ? trigger->prestage : trigger->stop);
}

static bool
wants(const struct advisor_chooser *chooser, int32_t rule)
{
    return advisor_rule_set_has(&chooser->acting, rule) && chooser->used > mark_of(chooser, rule);
}

/* The order that is asked for the next block: rules of different ones take turns.  False: none
 * wants any, or nothing is left for those that do. */
static bool
next_order(const struct advisor_chooser *chooser, uint32_t *order, bool *enough)
{
    const uint32_t count = (uint32_t)chooser->asker->rules->policy->rules.count;

    *enough = true;
    *order = 0;
    for (uint32_t n = 0; n < count && chooser->waiting < ADVISOR_WAITING_MAX; n++) {
        const uint32_t rule = (chooser->turn + n) % count;

        if (!wants(chooser, (int32_t)rule))
            continue;
        *enough = false;
        *order = chooser->orders[rule];
        if (!chooser->spent[*order])
            return true;
    }
    return false;
}

/* Bytes of a tier that a rule may pin. */
static uint64_t
budget_of(const struct policy_rule *rule, uint64_t capacity)
{
    const struct policy_share *budget = &rule->pin.budget;

    if (!budget->is_ratio)
        return budget->value;
    return capacity == 0 ? UINT64_MAX : advisor_watermark_bytes(capacity, budget->value);
}

/* A rule that pinned more than it may lets those go that leave first, by the rules behind it; but
 * none is deleted of which a copy is pinned in another tier. */
static int32_t
rule_of(struct advisor_chooser *chooser, const struct policy_block *block, int32_t *pinned_by)
{
    const struct policy *policy = chooser->asker->rules->policy;
    int32_t rule = advisor_asker_rule(chooser->asker, chooser->tier, block, POLICY_ON_NOTHING);

    *pinned_by = -1;
    while (rule >= 0 && chooser->kept != NULL && !chooser->asker->elsewhere &&
           policy_rule_at(policy, (size_t)rule)->verb == POLICY_PIN &&
           chooser->kept[rule] >
               budget_of(policy_rule_at(policy, (size_t)rule), chooser->capacity)) {
        *pinned_by = rule;
        rule = policy_match_behind(policy, &chooser->asker->facts.facts, POLICY_ON_NOTHING, rule);
    }
    if (*pinned_by >= 0 && rule >= 0 &&
        policy_rule_at(policy, (size_t)rule)->verb == POLICY_EXPIRE &&
        advisor_asker_pins_elsewhere(chooser->asker, chooser->tier, block))
        return *pinned_by;
    return rule;
}

void
advisor_chooser_begin(struct advisor_chooser *chooser)
{
    const struct advisor_rules *rules = chooser->asker->rules;

    for (int32_t i = 0; i < (int32_t)rules->policy->rules.count; i++) {
        chooser->orders[i] = (uint8_t)advisor_wanted_order_of(
            chooser->asker->planner->options.ordering, &chooser->ranking->orders,
            policy_rule_at(rules->policy, (size_t)i));
        if (!advisor_rule_set_has(&chooser->set, i) ||
            advisor_edge_of(chooser->asker->planner, rules,
                            policy_rule_at(rules->policy, (size_t)i), chooser->tier, ADVISOR_NONE,
                            chooser->asker->planner->now_ms, &chooser->edges[i]))
            continue;
        advisor_rule_set_put(&chooser->set, i, false);
        advisor_rule_set_put(&chooser->acting, i, false);
    }
}

static void
leave(struct advisor_chooser *chooser, uint64_t bytes, int32_t pinned_by)
{
    chooser->used -= bytes < chooser->used ? bytes : chooser->used;
    if (pinned_by >= 0)
        chooser->kept[pinned_by] -=
            bytes < chooser->kept[pinned_by] ? bytes : chooser->kept[pinned_by];
}

/* It goes by a rule that wants it.  What has its copy below already needs no room there. */
static enum advisor_choice
go(struct advisor_chooser *chooser, const struct policy_block *block, int32_t rule,
   int32_t pinned_by)
{
    const struct advisor_planner *planner = chooser->asker->planner;
    const uint32_t to = chooser->edges[rule].to;
    const uint64_t bytes = advisor_planner_bytes(block);
    const bool copied = to != ADVISOR_NONE &&
                        policy_tier_blocks_has(planner->tiers[to].roster, block->ns, block->hash);

    if (to != ADVISOR_NONE && !copied &&
        !advisor_edge_has_room(planner, chooser->asker->rules, to, chooser->planned[to], bytes)) {
        advisor_rule_set_put(&chooser->full, rule, true);
        chooser->waiting++;
        return ADVISOR_HELD;
    }
    leave(chooser, bytes, pinned_by);
    return chooser->staging && copied ? ADVISOR_HELD : ADVISOR_CHOSEN;
}

enum advisor_choice
advisor_chooser_next(struct advisor_chooser *chooser, struct policy_block *block, int32_t *rule)
{
    const struct policy *policy = chooser->asker->rules->policy;
    struct advisor_ranking *ranking = chooser->ranking;
    int32_t pinned_by;
    uint32_t order;
    bool enough;

    *rule = -1;
    if (!next_order(chooser, &order, &enough))
        return enough ? ADVISOR_ENOUGH : ADVISOR_LAST;
    if (!advisor_ranking_victim(ranking, order, chooser->tick, block)) {
        chooser->spent[order] = true;
        return next_order(chooser, &order, &enough) ? ADVISOR_PASSED : ADVISOR_LAST;
    }
    if (advisor_planned_moves_has(chooser->moved,
                                  &(struct advisor_copy){block->hash, block->ns, chooser->tier},
                                  ADVISOR_COPY_GONE)) {
        advisor_ranking_pass(ranking, order, block->ns, block->hash);
        return ADVISOR_PASSED;
    }
    *rule = rule_of(chooser, block, &pinned_by);
    if (!advisor_rule_set_has(&chooser->set, *rule) || chooser->orders[*rule] != order ||
        !(chooser->everybody || policy_is_enforced(policy, block->hash))) {
        advisor_ranking_pass(ranking, order, block->ns, block->hash);
        return ADVISOR_PASSED;
    }
    advisor_ranking_keep(ranking, order, block);
    chooser->turn = (uint32_t)*rule + 1;
    return wants(chooser, *rule) ? go(chooser, block, *rule, pinned_by) : ADVISOR_HELD;
}
