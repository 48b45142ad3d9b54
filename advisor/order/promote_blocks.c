#include <string.h>

#include "advisor/order/planner_tick.h"
#include "advisor/selection/active_rules.h"
#include "advisor/selection/chooser.h"
#include "advisor/selection/edge.h"
#include "advisor/selection/planner_tables.h"
#include "advisor/selection/rule_set.h"
#include "advisor/selection/tenant_quotas.h"
#include "advisor/selection/watermark.h"

/* What was read from further down comes up, at the gateway that read it. */

/* Of a tier, in bytes. */
struct room {
    uint64_t used; /* with what is on its way, and what this set brings */
    uint64_t stop; /* below it there is room for anything */
    uint64_t limit;
    uint64_t capacity;
};

static struct room
room_of(const struct advisor_tick *plan, uint32_t number)
{
    const struct advisor_tier *tier = &plan->planner->tiers[number];
    const int32_t last = advisor_watermark_last(plan->policy, tier->place);
    uint64_t capacity =
        advisor_watermark_capacity(plan->policy, tier->place, tier->report.capacity_bytes);
    struct room room = {.used = plan->used[number]};

    if (capacity == 0 && !tier->volume)
        capacity = UINT64_MAX; /* a bucket without a cap; a volume without one is none */
    room.stop = room.limit = room.capacity = capacity;
    if (last >= 0 && capacity != UINT64_MAX) {
        const struct policy_trigger *trigger = &policy_rule_at(plan->policy, (size_t)last)->trigger;

        room.stop = advisor_watermark_bytes(capacity, trigger->stop);
        room.limit = advisor_watermark_bytes(capacity, trigger->start);
    }
    return room;
}

/* While it drains, what came in would push out something used more recently. */
static bool
is_open(const struct advisor_tick *plan, uint32_t number, const struct room *room)
{
    const struct advisor_tier *tier = &plan->planner->tiers[number];

    return tier->coming == 0 &&
           !advisor_rule_set_has(&tier->draining,
                                 advisor_watermark_last(plan->policy, tier->place)) &&
           room->used < room->limit;
}

/* Could anything come to a tier of the gateway now?  Else nobody need be asked about. */
static bool
any_open(const struct advisor_tick *plan, const struct advisor_gateway *gateway)
{
    for (uint32_t i = 0; i < gateway->tier_count; i++) {
        const struct room room = room_of(plan, gateway->tiers[i]);

        if (is_open(plan, gateway->tiers[i], &room))
            return true;
    }
    return false;
}

/* While it waited for room the block may have gone from where it was read.  Of a tier that is not
 * known whole nobody can say. */
static bool
is_there(const struct advisor_planner *planner, const struct advisor_candidate *candidate)
{
    const struct advisor_tier *tier = &planner->tiers[candidate->tier];

    return tier->truncated ||
           policy_tier_blocks_has(tier->roster, candidate->block.ns, candidate->block.hash);
}

/* The rule that brings the block up, and where; -1: none does. */
static int32_t
promoter(struct advisor_tick *plan, const struct advisor_candidate *candidate, uint32_t gateway,
         struct advisor_edge *edge)
{
    const struct policy_block *block = &candidate->block;
    const struct advisor_planner *planner = plan->planner;
    const int32_t rule =
        advisor_asker_rule(&plan->asker, candidate->tier, block, POLICY_ON_SECOND_COLD_HIT);
    const struct policy_rule *row = rule < 0 ? NULL : policy_rule_at(plan->policy, (size_t)rule);

    if (row == NULL || row->verb != POLICY_PROMOTE || !is_there(planner, candidate) ||
        (row->promote_by == POLICY_BY_READS && candidate->reads < planner->options.promote_after) ||
        !advisor_edge_of(planner, planner->rules, row, candidate->tier, gateway, plan->now_ms,
                         edge))
        return -1;
    /* Another gateway's volume would not serve who reads here. */
    if (edge->gateway != gateway && planner->tiers[edge->to].volume)
        return -1;
    if (policy_tier_blocks_has(planner->tiers[edge->to].roster, block->ns, block->hash) ||
        advisor_planner_is_leaving(planner, candidate->tier, block) ||
        !(plan->observed || policy_is_enforced(plan->policy, block->hash)))
        return -1;
    return rule;
}

/* With a price: above `stop` it must be worth two moves. */
static bool
is_worth_it(const struct advisor_tick *plan, const struct policy_block *block, int32_t rule,
            const struct advisor_edge *edge, const struct room *room)
{
    return policy_rule_at(plan->policy, (size_t)rule)->promote_by != POLICY_BY_PRICE ||
           room->used + advisor_planner_bytes(block) <= room->stop ||
           policy_tier_blocks_pays(plan->planner->tiers[edge->to].roster, block->ns, block->hash,
                                   plan->now_ms / ADVISOR_TICK_MS);
}

/* True: it waits for room. */
static bool
look(struct advisor_tick *plan, const struct advisor_candidate *candidate, uint32_t gateway)
{
    struct advisor_edge edge;
    const int32_t rule = promoter(plan, candidate, gateway, &edge);
    struct room room;

    if (rule < 0)
        return false;
    room = room_of(plan, edge.to);
    if (!is_open(plan, edge.to, &room))
        return true;
    if (!is_worth_it(plan, &candidate->block, rule, &edge, &room) ||
        advisor_planner_may(plan->planner, rule, plan->now_ms) != ADVISOR_RULE_ACTS)
        return false;
    if (room.capacity - room.used < advisor_planner_bytes(&candidate->block))
        return true;
    if (!advisor_planner_admits(plan->planner, candidate->block.ns, edge.to,
                                advisor_planner_bytes(&candidate->block)))
        return false;
    advisor_tick_add(plan, &edge, &candidate->block, rule);
    return false;
}

void
advisor_planner_promote(struct advisor_tick *plan, struct advisor_gateway *gateway)
{
    const uint32_t number = (uint32_t)(gateway - plan->planner->gateways);
    uint32_t kept = 0;
    uint32_t looked = 0;

    if (gateway->candidate_count == 0)
        return;
    if (!gateway->healthy) {
        gateway->candidate_count = 0;
        return;
    }
    if (!any_open(plan, gateway))
        return;
    advisor_tick_begin_set(plan, false);
    for (; looked < gateway->candidate_count && !advisor_tick_is_over(plan); looked++)
        if (look(plan, &gateway->candidates[looked], number))
            gateway->candidates[kept++] = gateway->candidates[looked];
    /* The rest comes when there is time, or a tier was drained for what came now. */
    gateway->candidate_count -= looked - kept;
    memmove(gateway->candidates + kept, gateway->candidates + looked,
            (gateway->candidate_count - kept) * sizeof(*gateway->candidates));
    advisor_tick_order(plan, false); /* what could not be ordered is read again and comes again */
}
