#include <string.h>

#include "advisor/selection/active_rules.h"
#include "advisor/selection/edge.h"
#include "advisor/selection/planner_tables.h"
#include "advisor/selection/rule_set.h"
#include "base/core/log.h"

_Static_assert(sizeof(((struct advisor_rule_view *)0)->id) == POLICY_NAME_MAX, "a rule's name");

static bool
is_running(const struct advisor_planner *planner, int32_t rule)
{
    for (uint32_t i = 0; i < planner->tier_count; i++)
        if (advisor_rule_set_has(&planner->tiers[i].draining, rule))
            return true;
    return advisor_rule_set_has(&planner->sweep.rules, rule);
}

/* Does it move blocks of tiers that are there, and no gateway could? */
static bool
has_no_edge(const struct advisor_planner *planner, const struct policy_rule *rule)
{
    bool any = false;

    if (rule->verb != POLICY_DEMOTE && rule->verb != POLICY_PROMOTE)
        return false;
    for (uint32_t i = 0; i < planner->tier_count; i++) {
        if (planner->tiers[i].report_ms == 0 || planner->tiers[i].place != policy_rule_tier(rule))
            continue;
        if (advisor_edge_exists(planner, planner->rules, rule, i))
            return false;
        any = true;
    }
    return any;
}

void
advisor_planner_find_edges(struct advisor_planner *planner)
{
    if (!planner->edges_changed || planner->rules == NULL)
        return;
    planner->edges_changed = false;
    for (uint32_t i = 0; i < planner->rule_count; i++) {
        struct advisor_rule_state *state = &planner->rule_states[i];
        const bool before = state->no_edge;

        state->no_edge = has_no_edge(planner, policy_rule_at(planner->rules->policy, (size_t)i));
        if (state->no_edge && !before)
            kvt_log_warn("advisor.planner", "edge", "rule %s does not act: %s", state->id,
                         advisor_rule_stop_text(ADVISOR_RULE_NO_EDGE));
    }
}

static enum advisor_rule_stop
stop_of(const struct advisor_planner *planner, const struct advisor_rule_state *state)
{
    if (state->no_edge)
        return ADVISOR_RULE_NO_EDGE;
    if (state->stop != ADVISOR_RULE_ACTS)
        return state->stop;
    return state->full_ms != 0 && planner->now_ms < state->full_ms + ADVISOR_REPORT_STALE_MS
               ? ADVISOR_RULE_FULL
               : ADVISOR_RULE_ACTS;
}

void
advisor_planner_show_rules(struct advisor_planner *planner)
{
    for (uint32_t i = 0; i < planner->rule_count; i++) {
        const struct advisor_rule_state *state = &planner->rule_states[i];
        struct advisor_rule_view *view = &planner->shared.rules[i];

        *view = (struct advisor_rule_view){
            .running = is_running(planner, (int32_t)i),
            .why = advisor_rule_stop_text(stop_of(planner, state)),
            .until_ms = state->resume_ms,
            .ordered = state->ordered,
            .moved = state->moved,
            .refused = state->refused,
            .bytes = state->bytes,
            .last_ms = state->last_ms,
        };
        memcpy(view->id, state->id, sizeof(view->id));
    }
    planner->shared.rule_count = planner->rule_count;
}

size_t
advisor_planner_rules(struct advisor_planner *planner, struct advisor_rule_view *views,
                      size_t capacity)
{
    return advisor_planner_copy_views(planner, &planner->shared.rule_count, planner->shared.rules,
                                      sizeof(*views), views, capacity);
}
