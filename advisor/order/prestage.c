#include "advisor/order/planner_tick.h"
#include "advisor/selection/active_rules.h"
#include "advisor/selection/chooser.h"
#include "advisor/selection/rule_set.h"
#include "advisor/selection/watermark.h"

/* Copies below, made ahead of time: then moving down is only forgetting. */

enum { STAGE_REST_MS = 5000 }; /* when all had their copies */

/* Rules of the tier that want copies at this fill. */
static bool
find_rules(const struct advisor_tick *plan, const struct advisor_tier *tier, uint64_t capacity,
           struct advisor_rule_set *set)
{
    *set = (struct advisor_rule_set){.bits = {0}};
    for (int32_t i = 0; i < (int32_t)plan->policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(plan->policy, (size_t)i);

        if (tier->place >= 0 && advisor_rule_drains(rule) && rule->verb == POLICY_DEMOTE &&
            policy_rule_tier(rule) == tier->place && rule->trigger.prestage > 0 &&
            tier->report.used_bytes > advisor_watermark_bytes(capacity, rule->trigger.prestage) &&
            advisor_planner_may(plan->planner, i, plan->now_ms) == ADVISOR_RULE_ACTS)
            advisor_rule_set_put(set, i, true);
    }
    return advisor_rule_set_any(set);
}

void
advisor_planner_prestage(struct advisor_tick *plan, uint32_t number, uint64_t capacity)
{
    struct advisor_tier *tier = &plan->planner->tiers[number];
    struct advisor_set *set = plan->set;
    struct advisor_chooser chooser = {.asker = &plan->asker,
                                      .ranking = &plan->planner->tiers[number].ranking,
                                      .tier = number,
                                      .capacity = capacity,
                                      .used = tier->report.used_bytes,
                                      .tick = plan->now_ms / ADVISOR_TICK_MS,
                                      .everybody = plan->observed,
                                      .staging = true,
                                      .planned = plan->used};
    enum advisor_choice choice = ADVISOR_PASSED;
    bool over = false;

    if (plan->now_ms < tier->staged_ms + STAGE_REST_MS ||
        !find_rules(plan, tier, capacity, &chooser.set))
        return;
    chooser.acting = chooser.set;
    advisor_tick_begin_set(plan, true);
    advisor_chooser_begin(&chooser);
    for (uint32_t looks = 0; looks < ADVISOR_LOOKS_MAX && set->count < KVT_ORDER_ITEMS_MAX &&
                             choice != ADVISOR_LAST && choice != ADVISOR_ENOUGH && !over;
         looks++) {
        struct policy_block block;
        int32_t rule;

        choice = advisor_chooser_next(&chooser, &block, &rule);
        if (choice == ADVISOR_CHOSEN) {
            advisor_tick_add(plan, &chooser.edges[rule], &block, rule);
            if (advisor_planner_may(plan->planner, rule, plan->now_ms) != ADVISOR_RULE_ACTS)
                advisor_rule_set_put(&chooser.acting, rule, false);
        }
        if (choice == ADVISOR_HELD)
            set->held[set->held_count++] = block;
        over = advisor_tick_is_over(plan);
    }
    advisor_tick_let_go(plan, tier, false);
    if (set->count == 0)
        tier->staged_ms = plan->now_ms;
    advisor_tick_order(plan, false);
}
