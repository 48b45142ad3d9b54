#include "advisor/order/planner_tick.h"

#include <stdio.h>
#include <string.h>

#include "advisor/order/planner_private.h"
#include "advisor/selection/active_rules.h"
#include "advisor/selection/chooser.h"
#include "advisor/selection/edge.h"
#include "advisor/selection/planner_tables.h"
#include "advisor/selection/ranking.h"
#include "advisor/selection/ranking_change.h"
#include "advisor/selection/refusals.h"
#include "advisor/selection/rule_set.h"
#include "advisor/selection/tenant_quotas.h"
#include "advisor/selection/wanted_orderings.h"
#include "advisor/selection/watermark.h"
#include "base/core/alloc.h"
#include "base/core/log.h"

/* From how full the tiers are to orders. */

/* ---- draining ---- */

/* Is there nothing to choose but what may not leave?  Said once each time. */
static void
see_stuck(const struct advisor_tick *plan, uint32_t number, bool last)
{
    struct advisor_tier *tier = &plan->planner->tiers[number];
    const size_t refused = advisor_refusals_count(plan->planner->refusals, number);
    struct policy_tier_blocks_counts counts;
    bool stuck;

    policy_tier_blocks_counts(tier->roster, &counts);
    /* A rule that wants some blocks only may well have had them all. */
    stuck =
        last && plan->set->count == 0 &&
        advisor_rule_set_has(&tier->draining, advisor_watermark_last(plan->policy, tier->place)) &&
        (refused > 0 || tier->return_ms != 0 || counts.passed > 0);
    if (stuck && !tier->stuck)
        kvt_log_warn("advisor.planner", "stuck",
                     "%s is to be drained, and nothing is left to choose: its gateway let %zu "
                     "blocks not go (are they pinned?), and %u are of no rule that drains it now",
                     tier->name, refused, counts.passed);
    tier->stuck = stuck;
}

/* How long nothing that was passed over is looked at again: what rules protected for being recent
 * they may take when it no longer is. */
static uint64_t
rest_of(const struct advisor_tick *plan, const struct advisor_tier *tier)
{
    uint64_t rest_ms = ADVISOR_PASS_MS;

    for (int32_t i = 0; i < (int32_t)plan->policy->rules.count; i++) {
        const uint64_t recent_ms = policy_rule_at(plan->policy, (size_t)i)->protect_recent;

        if (advisor_rule_set_has(&tier->draining, i) && recent_ms > 0 && recent_ms < rest_ms)
            rest_ms = recent_ms < ADVISOR_PASS_LEAST_MS ? ADVISOR_PASS_LEAST_MS : recent_ms;
    }
    return rest_ms;
}

/* What was passed over comes back: when other rules begin, and a while after there was nothing else
 * to choose. */
static void
resume(const struct advisor_tick *plan, struct advisor_tier *tier)
{
    struct policy_tier_blocks_counts counts;

    policy_tier_blocks_counts(tier->roster, &counts);
    if (counts.passed == 0)
        tier->resuming = false;
    if (!tier->resuming && (counts.passed == 0 || tier->exhausted_ms == 0 ||
                            plan->now_ms < tier->exhausted_ms + rest_of(plan, tier)))
        return;
    tier->resuming = advisor_ranking_resume(&tier->ranking, ADVISOR_RESUME_MAX);
    tier->exhausted_ms = 0;
}

static void
exhausted(const struct advisor_tick *plan, struct advisor_tier *tier)
{
    if (tier->exhausted_ms == 0)
        tier->exhausted_ms = plan->now_ms;
}

static bool
set_watermarks(const struct advisor_tick *plan, struct advisor_tier *tier, uint64_t capacity)
{
    const struct advisor_rule_set before = tier->draining;

    advisor_watermark_rules(plan->policy, tier->place, tier->report.used_bytes, capacity,
                            &tier->draining);
    for (int32_t i = 0; i < (int32_t)plan->policy->rules.count; i++) {
        const bool now = advisor_rule_set_has(&tier->draining, i);

        if (now == advisor_rule_set_has(&before, i))
            continue;
        if (now && !advisor_rule_is_due(policy_rule_at(plan->policy, (size_t)i),
                                        plan->planner->rule_states[i].begun_ms, plan->now_ms)) {
            advisor_rule_set_put(&tier->draining, i, false);
            continue;
        }
        if (now)
            plan->planner->rule_states[i].begun_ms = plan->now_ms;
        advisor_planner_end_run(plan->planner, i);
        tier->resuming = tier->resuming || now;
    }
    if (!advisor_rule_set_any(&tier->draining))
        exhausted(plan, tier); /* what was passed over is not needed until it drains again */
    return advisor_rule_set_any(&tier->draining);
}

/* The block leaves by its rule; a rule that is at a limit then takes no more. */
static void
take(struct advisor_tick *plan, struct advisor_chooser *chooser, const struct policy_block *block,
     int32_t rule)
{
    advisor_tick_add(plan, &chooser->edges[rule], block, rule);
    if (advisor_planner_may(plan->planner, rule, plan->now_ms) != ADVISOR_RULE_ACTS)
        advisor_rule_set_put(&chooser->acting, rule, false);
}

bool
advisor_tick_is_over(struct advisor_tick *plan)
{
    return ++plan->looks % ADVISOR_TICK_LOOKS_A_CLOCK == 0 &&
           plan->planner->options.slice_clock() - plan->began_ms >= ADVISOR_TICK_SLICE_MS;
}

void
advisor_tick_let_go(const struct advisor_tick *plan, struct advisor_tier *tier, bool over)
{
    const struct advisor_set *set = plan->set;

    for (uint32_t i = 0; i < set->held_count && over; i++)
        advisor_ranking_pass_all(&tier->ranking, set->held[i].ns, set->held[i].hash);
    for (uint32_t i = set->held_count; i-- > 0 && !over;) /* in front of those taken out later */
        advisor_ranking_give_back(&tier->ranking, set->held[i].ns, set->held[i].hash);
}

/* Its tier below is full: said to whoever looks at rules. */
static void
see_full(const struct advisor_tick *plan, const struct advisor_chooser *chooser)
{
    for (int32_t i = 0; i < (int32_t)plan->policy->rules.count; i++)
        if (advisor_rule_set_has(&chooser->full, i))
            plan->planner->rule_states[i].full_ms = plan->now_ms;
}

/* Take blocks out until each rule is at its stop or at a limit, a set is full, or time is over.
 * True: none is left. */
static bool
choose(struct advisor_tick *plan, uint32_t number, uint64_t capacity)
{
    struct advisor_planner *planner = plan->planner;
    struct advisor_tier *tier = &planner->tiers[number];
    struct advisor_set *set = plan->set;
    struct advisor_chooser chooser = {.asker = &plan->asker,
                                      .ranking = &plan->planner->tiers[number].ranking,
                                      .tier = number,
                                      .set = tier->draining,
                                      .acting = tier->draining,
                                      .capacity = capacity,
                                      .used = tier->report.used_bytes,
                                      .tick = plan->now_ms / ADVISOR_TICK_MS,
                                      .kept = tier->kept,
                                      .everybody = plan->observed,
                                      .planned = plan->used};
    enum advisor_choice choice = ADVISOR_PASSED;
    bool over = false;

    advisor_chooser_begin(&chooser);
    for (int32_t i = 0; i < (int32_t)plan->policy->rules.count; i++)
        if (advisor_rule_set_has(&chooser.set, i) &&
            advisor_planner_may(planner, i, plan->now_ms) != ADVISOR_RULE_ACTS)
            advisor_rule_set_put(&chooser.acting, i, false);
    for (uint32_t looks = 0; looks < ADVISOR_LOOKS_MAX && set->count < KVT_ORDER_ITEMS_MAX &&
                             choice != ADVISOR_LAST && choice != ADVISOR_ENOUGH && !over;
         looks++) {
        struct policy_block block;
        int32_t rule;

        choice = advisor_chooser_next(&chooser, &block, &rule);
        if (choice == ADVISOR_CHOSEN)
            take(plan, &chooser, &block, rule);
        if (choice == ADVISOR_HELD)
            set->held[set->held_count++] = block;
        over = advisor_tick_is_over(plan);
    }
    if (choice == ADVISOR_LAST)
        exhausted(plan, tier);
    advisor_tick_let_go(plan, tier, over);
    see_full(plan, &chooser);
    return choice == ADVISOR_LAST && set->held_count == 0;
}

/* May the rule that has an idle block take it down now? */
static bool
is_due(struct advisor_tick *plan, uint32_t number, const struct policy_block *block, int32_t rule,
       struct advisor_edge *edge)
{
    const struct advisor_planner *planner = plan->planner;
    const struct policy_rule *row = rule < 0 ? NULL : policy_rule_at(plan->policy, (size_t)rule);

    if (row == NULL || !advisor_rule_drains(row) || row->verb != POLICY_DEMOTE ||
        !advisor_edge_of(planner, planner->rules, row, number, ADVISOR_NONE, plan->now_ms, edge))
        return false;
    return (policy_tier_blocks_has(planner->tiers[edge->to].roster, block->ns, block->hash) ||
            advisor_edge_has_room(planner, planner->rules, edge->to, plan->used[edge->to],
                                  advisor_planner_bytes(block))) &&
           advisor_planner_may(plan->planner, rule, plan->now_ms) == ADVISOR_RULE_ACTS;
}

/* Blocks that should leave although there is room, by one of the tier's orders. */
static void
choose_due_of(struct advisor_tick *plan, uint32_t number, uint32_t by)
{
    struct advisor_planner *planner = plan->planner;
    struct advisor_ranking *ranking = &planner->tiers[number].ranking;
    const uint64_t tick = plan->now_ms / ADVISOR_TICK_MS;
    struct policy_block block;

    for (uint32_t looks = 0; looks < ADVISOR_LOOKS_MAX && plan->set->count < KVT_ORDER_ITEMS_MAX &&
                             !advisor_tick_is_over(plan);
         looks++) {
        struct advisor_edge edge;
        int32_t rule;

        if (!advisor_ranking_due(ranking, by, tick, &block))
            return;
        rule = advisor_asker_rule(&plan->asker, number, &block, POLICY_ON_NOTHING);
        if (is_due(plan, number, &block, rule, &edge) &&
            advisor_wanted_order_of(planner->options.ordering, &ranking->orders,
                                    policy_rule_at(plan->policy, (size_t)rule)) == by) {
            advisor_ranking_keep(ranking, by, &block);
            advisor_tick_add(plan, &edge, &block, rule);
        } else {
            advisor_ranking_pass(ranking, by, block.ns, block.hash);
        }
    }
}

static void
choose_due(struct advisor_tick *plan, uint32_t number)
{
    for (uint32_t i = 0; i < plan->planner->tiers[number].ranking.orders.count; i++)
        choose_due_of(plan, number, i);
}

/* An open plan has the tier for itself.  Other jobs have it for a while: they may go on for hours,
 * and need not free anything here. */
bool
advisor_tick_waits(const struct advisor_tick *plan, struct advisor_tier *tier)
{
    if (tier->job_leaving == 0)
        tier->jobs_since_ms = 0;
    else if (tier->jobs_since_ms == 0)
        tier->jobs_since_ms = plan->now_ms;
    return tier->held ||
           (tier->job_leaving > 0 && plan->now_ms < tier->jobs_since_ms + ADVISOR_JOBS_YIELD_MS);
}

static void
drain(struct advisor_tick *plan, uint32_t number)
{
    struct advisor_tier *tier = &plan->planner->tiers[number];
    const uint64_t capacity =
        advisor_watermark_capacity(plan->policy, tier->place, tier->report.capacity_bytes);
    const bool draining = capacity > 0 && set_watermarks(plan, tier, capacity);
    const bool waits = advisor_tick_waits(plan, tier);

    if (!draining)
        tier->stuck = false;
    /* One set at a time; and no edge is there while the bucket is away: its copies could not be
     * checked. */
    if (capacity == 0 || tier->leaving > 0 || waits)
        return;
    resume(plan, tier);
    if (tier->resuming)
        return; /* the next to leave may be among them */
    advisor_tick_begin_set(plan, false);
    if (draining)
        see_stuck(plan, number, choose(plan, number, capacity));
    else if (tier->volume) /* a bucket is no place that anything leaves for being idle */
        choose_due(plan, number);
    advisor_tick_order(plan, false);
    if (tier->leaving == 0)
        advisor_planner_prestage(plan, number, capacity);
}

/* Each in its turn: what there was no time for comes first in the next tick. */
static void
drain_all(struct advisor_tick *plan)
{
    struct advisor_planner *planner = plan->planner;
    const uint32_t first = planner->tier_count == 0 ? 0 : planner->turn % planner->tier_count;

    for (uint32_t n = 0; n < planner->tier_count; n++) {
        const uint32_t number = (first + n) % planner->tier_count;

        if (plan->planner->options.slice_clock() - plan->began_ms >= ADVISOR_TICK_SLICE_MS) {
            planner->turn = number;
            return;
        }
        if (!advisor_planner_is_stale(planner->tiers[number].report_ms, plan->now_ms))
            drain(plan, number);
    }
}

void
advisor_planner_tick(struct advisor_planner *planner, uint64_t now_ms)
{
    struct advisor_tick plan = {
        .planner = planner, .now_ms = now_ms, .began_ms = planner->options.slice_clock()};
    enum advisor_mode mode;
    bool chooses;

    planner->now_ms = now_ms;
    if (planner->guest != NULL)
        planner->guest->end_if_late(planner->guest->arg);
    advisor_planner_adopt(planner);
    advisor_planner_rerank(planner, now_ms);
    mode = planner->rules == NULL
               ? ADVISOR_MODE_OFF
               : advisor_rules_mode(planner->rules, advisor_planner_mode(planner));
    advisor_planner_expire(planner, now_ms);
    advisor_planner_end_pauses(planner, now_ms);
    advisor_planner_forget_pins(planner, now_ms);
    advisor_planner_age_learned(planner, now_ms);
    advisor_planner_show(planner);
    if (mode == ADVISOR_MODE_OFF || advisor_planner_paused(planner) ||
        (mode == ADVISOR_MODE_ENFORCE && !planner->options.can_enforce))
        return;
    plan.policy = planner->rules->policy;
    plan.observed = mode == ADVISOR_MODE_OBSERVE;
    for (uint32_t i = 0; i < planner->tier_count; i++)
        plan.used[i] = planner->tiers[i].report.used_bytes + planner->tiers[i].incoming;
    plan.set = kvt_calloc(1, sizeof(*plan.set));
    if (plan.set == NULL)
        return; /* next time */
    advisor_asker_begin(&plan.asker, planner, planner->rules, now_ms);
    advisor_planner_expect(planner);
    /* A dry run that waits for an order has set nothing aside. */
    chooses = planner->guest == NULL || !planner->guest->chooses(planner->guest->arg);
    if (chooses) {
        advisor_planner_drain_quotas(&plan);
        drain_all(&plan);
    }
    for (uint32_t i = 0; i < planner->gateway_count; i++)
        if (!advisor_planner_is_stale(planner->gateways[i].report_ms, now_ms))
            advisor_planner_promote(&plan, &planner->gateways[i]);
    if (chooses)
        advisor_planner_sweep(&plan);
    advisor_planner_compact(&plan);
    advisor_asker_end(&plan.asker);
    kvt_free(plan.set);
}
