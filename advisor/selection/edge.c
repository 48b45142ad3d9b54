#include "advisor/selection/edge.h"

#include <string.h>

#include "advisor/selection/planner_tables.h"
#include "advisor/selection/watermark.h"

/* ---- gateways ---- */

void
advisor_gateway_take_tiers(struct advisor_planner *planner, struct advisor_gateway *gateway,
                           const struct kvt_report *report, uint64_t now_ms)
{
    const uint32_t former_count = gateway->tier_count;
    uint32_t former[KVT_REPORT_TIERS_MAX];

    memcpy(former, gateway->tiers, sizeof(former));
    gateway->tier_count = 0;
    gateway->hot = gateway->cold = ADVISOR_NONE;
    for (uint32_t i = 0; i < report->tier_count; i++) {
        const uint32_t number = advisor_planner_tier(planner, report->tiers[i].name);
        struct index_holder key = {.tier = KVT_TIER_G4};
        struct advisor_tier *tier;

        if (number == ADVISOR_NONE)
            continue;
        tier = &planner->tiers[number];
        tier->report = report->tiers[i];
        tier->report_ms = now_ms;
        tier->gateway = (uint32_t)(gateway - planner->gateways);
        gateway->tiers[gateway->tier_count++] = number;
        memcpy(key.name, tier->name, sizeof(key.name));
        if (advisor_holder_is_hot(&key) && gateway->hot == ADVISOR_NONE)
            gateway->hot = number;
        if (advisor_holder_is_cold(&key) && gateway->cold == ADVISOR_NONE)
            gateway->cold = number;
    }
    if (gateway->tier_count != former_count ||
        memcmp(former, gateway->tiers, former_count * sizeof(former[0])) != 0)
        planner->edges_changed = true;
}

bool
advisor_gateway_has(const struct advisor_gateway *gateway, uint32_t tier)
{
    for (uint32_t i = 0; i < gateway->tier_count; i++)
        if (gateway->tiers[i] == tier)
            return true;
    return false;
}

bool
advisor_gateway_can_move(const struct advisor_gateway *gateway, uint64_t now_ms)
{
    return gateway->healthy && !advisor_planner_is_stale(gateway->report_ms, now_ms);
}

/* ---- edges ---- */

/* The first tier of the gateway that is that one of the policy. */
static uint32_t
end_of(const struct advisor_planner *planner, const struct advisor_rules *rules, uint32_t gateway,
       int32_t place, uint32_t from)
{
    const struct advisor_gateway *row = &planner->gateways[gateway];

    for (uint32_t i = 0; i < row->tier_count; i++)
        if (row->tiers[i] != from && advisor_planner_place(planner, rules, row->tiers[i]) == place)
            return row->tiers[i];
    return ADVISOR_NONE;
}

static bool
is_edge(const struct advisor_planner *planner, const struct advisor_rules *rules,
        const struct policy_rule *rule, struct advisor_edge *edge)
{
    if (edge->gateway >= planner->gateway_count ||
        !advisor_gateway_has(&planner->gateways[edge->gateway], edge->from))
        return false;
    if (rule->verb == POLICY_EXPIRE)
        return true;
    edge->to = end_of(planner, rules, edge->gateway, rule->to.index, edge->from);
    return edge->to != ADVISOR_NONE;
}

bool
advisor_edge_of(const struct advisor_planner *planner, const struct advisor_rules *rules,
                const struct policy_rule *rule, uint32_t from, uint32_t prefer, uint64_t now_ms,
                struct advisor_edge *edge)
{
    const uint32_t first[] = {prefer, planner->tiers[from].gateway};

    for (uint32_t n = 0; n < planner->gateway_count + 2; n++) {
        *edge = (struct advisor_edge){
            .gateway = n < 2 ? first[n] : n - 2, .from = from, .to = ADVISOR_NONE};
        if (is_edge(planner, rules, rule, edge) &&
            advisor_gateway_can_move(&planner->gateways[edge->gateway], now_ms))
            return true;
    }
    *edge = (struct advisor_edge){ADVISOR_NONE, from, ADVISOR_NONE};
    return false;
}

bool
advisor_edge_exists(const struct advisor_planner *planner, const struct advisor_rules *rules,
                    const struct policy_rule *rule, uint32_t from)
{
    for (uint32_t n = 0; n < planner->gateway_count; n++) {
        struct advisor_edge edge = {.gateway = n, .from = from};

        if (is_edge(planner, rules, rule, &edge))
            return true;
    }
    return false;
}

bool
advisor_edge_is_plain(const struct advisor_planner *planner, const struct advisor_edge *edge)
{
    const struct advisor_gateway *gateway = &planner->gateways[edge->gateway];

    return edge->to == ADVISOR_NONE || (edge->from == gateway->hot && edge->to == gateway->cold) ||
           (edge->from == gateway->cold && edge->to == gateway->hot);
}

bool
advisor_edge_has_room(const struct advisor_planner *planner, const struct advisor_rules *rules,
                      uint32_t to, uint64_t used, uint64_t bytes)
{
    const int32_t place = advisor_planner_place(planner, rules, to);
    const int32_t last = advisor_watermark_last(rules->policy, place);
    const uint64_t capacity =
        advisor_watermark_capacity(rules->policy, place, planner->tiers[to].report.capacity_bytes);

    if (capacity == 0)
        return true;
    /* One block may go over the watermark: else a tier could stay just below it, and never be
     * drained for those above. */
    return last < 0
               ? used + bytes <= capacity
               : used < advisor_watermark_bytes(
                            capacity, policy_rule_at(rules->policy, (size_t)last)->trigger.start);
}

/* Not so far that the tier would be drained for what comes up. */
static bool
has_room_above(const struct advisor_planner *planner, const struct advisor_rules *rules,
               uint32_t to, uint64_t used, uint64_t bytes)
{
    const struct advisor_tier *tier = &planner->tiers[to];
    const int32_t place = advisor_planner_place(planner, rules, to);
    const int32_t last = advisor_watermark_last(rules->policy, place);
    uint64_t limit = advisor_watermark_capacity(rules->policy, place, tier->report.capacity_bytes);

    if (limit == 0 && !tier->volume)
        return true;
    if (last >= 0)
        limit = advisor_watermark_bytes(limit,
                                        policy_rule_at(rules->policy, (size_t)last)->trigger.stop);
    return used + bytes <= limit;
}

bool
advisor_edge_takes(const struct advisor_planner *planner, const struct advisor_rules *rules,
                   const struct policy_rule *rule, const struct advisor_edge *edge,
                   const struct policy_block *block, const uint64_t *used)
{
    const uint64_t bytes = advisor_planner_bytes(block);
    bool there;

    if (edge->to == ADVISOR_NONE)
        return true;
    there = policy_tier_blocks_has(planner->tiers[edge->to].roster, block->ns, block->hash);
    if (rule->verb == POLICY_PROMOTE)
        return !there && !advisor_planner_is_leaving(planner, edge->from, block) &&
               has_room_above(planner, rules, edge->to, used[edge->to], bytes);
    return there || advisor_edge_has_room(planner, rules, edge->to, used[edge->to], bytes);
}
