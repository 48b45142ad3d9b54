#include <stdio.h>
#include <string.h>

#include "advisor/order/order_ledger.h"
#include "advisor/order/planner_tick.h"
#include "advisor/selection/active_rules.h"
#include "advisor/selection/edge.h"
#include "advisor/selection/planner_tables.h"
#include "advisor/selection/ranking.h"
#include "advisor/selection/rule_set.h"
#include "advisor/selection/tenant_quotas.h"
#include "base/core/alloc.h"

/* From blocks that were chosen to orders. */

void
advisor_tick_begin_set(struct advisor_tick *plan, bool keep)
{
    plan->set->count = plan->set->held_count = 0;
    plan->set->keep = keep;
    plan->set->quota = 0;
}

void
advisor_tick_add(struct advisor_tick *plan, const struct advisor_edge *edge,
                 const struct policy_block *block, int32_t rule)
{
    const struct advisor_planner *planner = plan->planner;
    struct advisor_set *set = plan->set;

    set->blocks[set->count] = *block;
    set->edges[set->count] = *edge;
    set->rules[set->count++] = rule;
    if (edge->to != ADVISOR_NONE &&
        !policy_tier_blocks_has(planner->tiers[edge->to].roster, block->ns, block->hash))
        plan->used[edge->to] += advisor_planner_bytes(block);
    if (rule >= 0)
        advisor_planner_did(plan->planner, rule, advisor_planner_bytes(block), plan->now_ms);
}

static bool
is_alike(const struct advisor_set *set, uint32_t a, uint32_t b)
{
    return set->blocks[a].ns == set->blocks[b].ns && set->rules[a] == set->rules[b] &&
           set->edges[a].gateway == set->edges[b].gateway &&
           set->edges[a].from == set->edges[b].from && set->edges[a].to == set->edges[b].to;
}

static bool
is_first_of_its_kind(const struct advisor_set *set, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++)
        if (is_alike(set, i, at))
            return false;
    return true;
}

/* The rule, or the quota and the rule by which it is met. */
static void
say_why(const struct advisor_tick *plan, const struct policy_rule *rule, char *text, size_t size)
{
    if (plan->set->quota == 0)
        (void)snprintf(text, size, "%s", rule->id);
    else
        advisor_quota_reason(policy_quota_at(plan->policy, plan->set->quota - 1), rule, text, size);
}

/* Why the rule deletes, as its gateway checks it.  Nothing of it comes from a report: all is of the
 * policy, which no message changes. */
static void
state_cause(const struct advisor_tick *plan, const struct policy_rule *rule,
            const struct advisor_edge *edge, struct kvt_delete_cause *cause)
{
    const struct advisor_tier *tier = &plan->planner->tiers[edge->from];

    cause->kind = plan->set->quota != 0       ? KVT_DELETE_QUOTA
                  : advisor_rule_drains(rule) ? KVT_DELETE_ROOM
                                              : KVT_DELETE_EXPIRE;
    cause->policy_version = plan->planner->rules->version;
    (void)snprintf(cause->rule, sizeof(cause->rule), "%s", rule->id);
    if (cause->kind != KVT_DELETE_ROOM)
        return;
    (void)snprintf(cause->tier, sizeof(cause->tier), "%s", tier->name);
    cause->stop_ppm = (uint32_t)rule->trigger.stop;
    if (tier->place >= 0)
        cause->capacity = policy_tier_at(plan->policy, (size_t)tier->place)->capacity;
}

/* Those of the set that are like block number `first`. */
static enum kvt_err
order_kind(const struct advisor_tick *plan, uint32_t first, bool swept)
{
    const struct advisor_set *set = plan->set;
    const struct advisor_planner *planner = plan->planner;
    const struct policy_rule *rule =
        set->rules[first] < 0 ? NULL : policy_rule_at(plan->policy, (size_t)set->rules[first]);
    const struct advisor_edge *edge = &set->edges[first];
    struct advisor_order order = {
        .ns = set->blocks[first].ns,
        .from = edge->from,
        .to = edge->to,
        .rule = (uint32_t)(set->rules[first] + 1),
        .quota = set->quota,
        .rules_version = planner->rules->version,
        .swept = swept,
        .row = {.verb = rule == NULL ? (uint32_t)KVT_ORDER_DEMOTE : advisor_rule_order_verb(rule),
                .keep = set->keep ? 1 : 0,
                .issued_ms = plan->now_ms,
                .expires_ms = plan->now_ms + planner->options.expiry_ms,
                .state = plan->observed ? ADVISOR_ORDER_OBSERVED : ADVISOR_ORDER_PENDING}};

    order.items = kvt_calloc(set->count, sizeof(*order.items));
    if (order.items == NULL)
        return KVT_NOMEM;
    memcpy(order.row.gateway, planner->gateways[edge->gateway].row.name, sizeof(order.row.gateway));
    /* Older gateways know no other edges than the plain ones, and no names.  That the copy stays is
     * told with the names, or not at all. */
    if (set->keep || !advisor_edge_is_plain(planner, edge)) {
        memcpy(order.row.from, planner->tiers[edge->from].name, sizeof(order.row.from));
        memcpy(order.row.to, planner->tiers[edge->to].name, sizeof(order.row.to));
    }
    if (order.row.verb == KVT_ORDER_DELETE)
        state_cause(plan, rule, edge, &order.cause);
    say_why(plan, rule, order.row.reason, sizeof(order.row.reason));
    (void)snprintf(order.row.namespace_, sizeof(order.row.namespace_), "%s",
                   advisor_name_table_namespace_text(planner->names, order.ns));
    for (uint32_t i = first; i < set->count; i++) {
        const struct policy_block *block = &set->blocks[i];

        if (!is_alike(set, first, i))
            continue;
        order.items[order.row.items++] = (struct kvt_order_item){
            .block = {.hash = block->hash, .parent = block->parent, .position = block->position},
            .ranks = block->ranks,
        };
        order.row.bytes += advisor_planner_bytes(block);
        if (edge->to != ADVISOR_NONE &&
            !policy_tier_blocks_has(planner->tiers[edge->to].roster, block->ns, block->hash))
            order.bringing += advisor_planner_bytes(block);
    }
    return advisor_planner_add_order(plan->planner, &order);
}

void
advisor_tick_order(const struct advisor_tick *plan, bool swept)
{
    const struct advisor_set *set = plan->set;
    enum kvt_err rc = KVT_OK;

    for (uint32_t i = 0; i < set->count && rc == KVT_OK; i++)
        if (is_first_of_its_kind(set, i))
            rc = order_kind(plan, i, swept);
    for (uint32_t i = set->count; i-- > 0 && rc != KVT_OK;) /* each in front of those behind it */
        advisor_ranking_give_back(&plan->planner->tiers[set->edges[i].from].ranking,
                                  set->blocks[i].ns, set->blocks[i].hash);
}
