#include <string.h>

#include "advisor/order/planner_tick.h"
#include "advisor/selection/active_rules.h"
#include "advisor/selection/planner_tables.h"
#include "advisor/selection/quota_drain.h"
#include "advisor/selection/ranking.h"
#include "advisor/selection/tenant_quotas.h"
#include "base/core/log.h"

/* Blocks of a tenant that has too much are ordered away, a set in a tick. */

/* Blocks of its tier were ordered away, and are there still. */
static uint64_t
leaving(void *arg, int32_t quota)
{
    const struct advisor_planner *planner = ((const struct advisor_tick *)arg)->planner;
    uint64_t bytes = 0;

    for (size_t i = 0; i < planner->order_count; i++) {
        const struct advisor_order *order = planner->orders[i];
        uint64_t blocks = 0;

        if (order->quota != (uint32_t)quota + 1 ||
            order->rules_version != planner->rules->version || order->row.items == 0 ||
            order->from == ADVISOR_NONE)
            continue;
        for (uint32_t k = 0; k < order->row.items; k++)
            blocks += policy_tier_blocks_is_taken(planner->tiers[order->from].roster, order->ns,
                                                  order->items[k].block.hash);
        bytes += order->row.bytes / order->row.items * blocks;
    }
    return bytes;
}

static bool
can_drain(void *arg, uint32_t number)
{
    struct advisor_tick *plan = arg;
    struct advisor_tier *tier = &plan->planner->tiers[number];

    return !advisor_planner_is_stale(tier->report_ms, plan->now_ms) && tier->leaving == 0 &&
           !advisor_tick_waits(plan, tier);
}

static bool
is_over(void *arg)
{
    return advisor_tick_is_over(arg);
}

static enum advisor_quota_answer
take(void *arg, const struct policy_block *block, const struct advisor_quota_way *way)
{
    struct advisor_tick *plan = arg;
    enum advisor_rule_stop stop = ADVISOR_RULE_ACTS;

    if (way->rule >= 0)
        stop = advisor_planner_may(plan->planner, way->rule, plan->now_ms);
    if (stop == ADVISOR_RULE_RATE)
        return ADVISOR_QUOTA_WAITS;
    if (stop != ADVISOR_RULE_ACTS ||
        !advisor_ranking_claim(&plan->planner->tiers[way->edge.from].ranking, block->ns,
                               block->hash))
        return ADVISOR_QUOTA_STAYS;
    advisor_tick_add(plan, &way->edge, block, way->rule);
    return ADVISOR_QUOTA_TAKEN;
}

static const struct advisor_quota_hands hands = {
    .can_drain = can_drain, .leaving = leaving, .is_over = is_over, .take = take};

/* Once each time. */
static void
say_stuck(const struct policy_quota *quota)
{
    kvt_log_warn("advisor.planner", "quota",
                 "%s is beyond its quota%s%s, and nothing of it may leave: its blocks are pinned, "
                 "or of no rule that lets them go",
                 quota->tenant, quota->tier.text[0] == '\0' ? "" : " of ", quota->tier.text);
}

static void
order(struct advisor_tick *plan, struct advisor_quota_drainer *drainer)
{
    const int32_t quota = drainer->drain->pass.quota;
    const struct advisor_quota_state *state = &drainer->drain->states[quota];
    const bool was_stuck = state->stuck;

    advisor_tick_begin_set(plan, false);
    plan->set->quota = (uint32_t)quota + 1;
    advisor_quota_choose(drainer);
    advisor_tick_order(plan, false);
    if (state->stuck && !was_stuck)
        say_stuck(policy_quota_at(plan->policy, (size_t)quota));
}

void
advisor_planner_drain_quotas(struct advisor_tick *plan)
{
    struct advisor_quota_drain *drain = &plan->planner->quotas->drain;
    struct advisor_quota_drainer drainer = {.planner = plan->planner,
                                            .rules = plan->planner->rules,
                                            .asker = &plan->asker,
                                            .drain = drain,
                                            .hands = &hands,
                                            .arg = plan,
                                            .used = plan->used,
                                            .now_ms = plan->now_ms,
                                            .tick = plan->now_ms / ADVISOR_TICK_MS,
                                            .everybody = plan->observed};

    if (!drain->pass.active && advisor_quota_begin(&drainer) != KVT_OK)
        return; /* without memory next time */
    if (!drain->pass.ready)
        advisor_quota_go_through(&drainer, ADVISOR_QUOTA_SEATS);
    if (drain->pass.ready && can_drain(plan, drain->pass.tier))
        order(plan, &drainer);
}
