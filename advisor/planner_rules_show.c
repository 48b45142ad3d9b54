#include <string.h>

#include "advisor/planner_private.h"

_Static_assert(sizeof(((struct advisor_rule_view *)0)->id) == POLICY_NAME_MAX, "a rule's name");

static bool
is_running(const struct advisor_planner *planner, int32_t rule)
{
    for (uint32_t i = 0; i < planner->tier_count; i++)
        if (advisor_rule_set_has(&planner->tiers[i].draining, rule))
            return true;
    return advisor_rule_set_has(&planner->sweep.rules, rule);
}

void
advisor_planner_show_rules(struct advisor_planner *planner)
{
    for (uint32_t i = 0; i < planner->rule_count; i++) {
        const struct advisor_rule_state *state = &planner->rule_states[i];
        struct advisor_rule_view *view = &planner->shared.rules[i];

        *view = (struct advisor_rule_view){
            .running = is_running(planner, (int32_t)i),
            .why = advisor_rule_stop_text(state->stop),
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
    size_t count;

    (void)pthread_mutex_lock(&planner->shared.lock);
    count = planner->shared.rule_count < capacity ? planner->shared.rule_count : capacity;
    memcpy(views, planner->shared.rules, count * sizeof(*views));
    (void)pthread_mutex_unlock(&planner->shared.lock);
    return count;
}
