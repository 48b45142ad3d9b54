#include <stdio.h>
#include <string.h>

#include "advisor/order/order_ledger.h"
#include "advisor/order/planner_tick.h"
#include "advisor/selection/active_rules.h"
#include "advisor/selection/edge.h"
#include "advisor/selection/rule_set.h"
#include "advisor/selection/tenant_quotas.h"

/* Packing of small objects: an order for a namespace in a bucket, at the times of a rule or when
 * much of what the namespace had there went. */

enum {
    ROWS_A_TICK = 4096,
    ORDERS_MAX = 8,       /* outstanding: each may take minutes */
    REST_MS = 600000,     /* between two orders of a namespace for what went */
    FRAGMENTED_PARTS = 4, /* one of so many went */
};

static bool
is_compact(const struct policy_rule *rule)
{
    return rule->verb == POLICY_COMPACT;
}

/* Rules whose time has come act in this pass over the namespaces. */
static bool
begin(struct advisor_tick *plan)
{
    struct advisor_planner *planner = plan->planner;
    bool any = false;

    planner->compacting = (struct advisor_rule_set){.bits = {0}};
    for (int32_t i = 0; i < (int32_t)plan->policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(plan->policy, (size_t)i);

        any = any || is_compact(rule);
        if (!is_compact(rule) || rule->on != 0 || advisor_planner_rests(planner, i, plan->now_ms) ||
            !advisor_rule_is_due(rule, planner->rule_states[i].begun_ms, plan->now_ms))
            continue;
        planner->rule_states[i].begun_ms = plan->now_ms;
        advisor_planner_end_run(planner, i);
        advisor_rule_set_put(&planner->compacting, i, true);
    }
    return any;
}

static uint32_t
outstanding(const struct advisor_planner *planner)
{
    uint32_t count = 0;

    for (size_t i = 0; i < planner->order_count; i++)
        count += planner->orders[i]->row.verb == KVT_ORDER_COMPACT &&
                 !planner->orders[i]->finished && !planner->orders[i]->of_job;
    return count;
}

static bool
is_fragmented(const struct advisor_tick *plan, const struct advisor_byte_sums_row *sum,
              const struct advisor_quota_row *row)
{
    const uint64_t bytes = sum->bytes > 0 ? (uint64_t)sum->bytes : 0;

    return row->gone > 0 && row->gone >= (bytes + row->gone) / FRAGMENTED_PARTS &&
           (row->compacted_ms == 0 || plan->now_ms >= row->compacted_ms + REST_MS);
}

/* The rule that packs the namespace in the bucket now; -1: none does. */
static int32_t
rule_for(struct advisor_tick *plan, const struct advisor_byte_sums_row *sum,
         const struct advisor_quota_row *row)
{
    const struct advisor_planner *planner = plan->planner;
    const struct advisor_store_block of_namespace = {.ns = sum->ns};
    bool asked = false;

    for (int32_t i = 0; i < (int32_t)plan->policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(plan->policy, (size_t)i);
        const bool wants = rule->on == 0 ? advisor_rule_set_has(&planner->compacting, i)
                                         : is_fragmented(plan, sum, row);

        if (!is_compact(rule) || rule->in.index != planner->tiers[sum->place].place || !wants)
            continue;
        if (!asked) /* of the facts only those count that a namespace has */
            (void)advisor_asker_rule_of_row(&plan->asker, sum->place, &of_namespace, 0,
                                            POLICY_ON_FRAGMENTATION);
        asked = true;
        if (policy_match_behind(plan->policy, &plan->asker.facts.facts, POLICY_ON_FRAGMENTATION,
                                i - 1) == i &&
            advisor_planner_may(plan->planner, i, plan->now_ms) == ADVISOR_RULE_ACTS)
            return i;
    }
    return -1;
}

static enum kvt_err
order(struct advisor_tick *plan, const struct advisor_byte_sums_row *sum, int32_t rule)
{
    struct advisor_planner *planner = plan->planner;
    const uint32_t gateway = planner->tiers[sum->place].gateway;
    struct advisor_order order = {
        .ns = sum->ns,
        .from = ADVISOR_NONE,
        .to = ADVISOR_NONE,
        .rule = (uint32_t)rule + 1,
        .rules_version = planner->rules->version,
        .row = {.verb = KVT_ORDER_COMPACT,
                .issued_ms = plan->now_ms,
                .expires_ms = plan->now_ms + planner->options.expiry_ms,
                .state = plan->observed ? ADVISOR_ORDER_OBSERVED : ADVISOR_ORDER_PENDING}};

    memcpy(order.row.gateway, planner->gateways[gateway].row.name, sizeof(order.row.gateway));
    (void)snprintf(order.row.reason, sizeof(order.row.reason), "%s",
                   policy_rule_at(plan->policy, (size_t)rule)->id);
    (void)snprintf(order.row.namespace_, sizeof(order.row.namespace_), "%s",
                   advisor_name_table_namespace_text(planner->names, sum->ns));
    advisor_planner_did(planner, rule, 0, plan->now_ms);
    return advisor_planner_add_order(planner, &order);
}

/* A bucket that its gateway would pack now. */
static bool
is_open(const struct advisor_tick *plan, uint32_t tier)
{
    const struct advisor_planner *planner = plan->planner;
    const uint32_t gateway = planner->tiers[tier].gateway;

    return gateway != ADVISOR_NONE && planner->gateways[gateway].cold == tier &&
           advisor_gateway_can_move(&planner->gateways[gateway], plan->now_ms);
}

void
advisor_planner_compact(struct advisor_tick *plan)
{
    struct advisor_planner *planner = plan->planner;
    uint32_t orders = outstanding(planner);
    uint32_t looks = 0;
    size_t count;
    const struct advisor_byte_sums_row *sums =
        advisor_byte_sums_rows(planner->quotas->ledger, &count);

    if (planner->compact_at == 0 && !begin(plan))
        return;
    for (; planner->compact_at < count && looks < ROWS_A_TICK && orders < ORDERS_MAX; looks++) {
        const size_t at = planner->compact_at++;
        struct advisor_quota_row *row = &planner->quotas->rows[at];
        const int32_t rule = sums[at].bytes > 0 && is_open(plan, sums[at].place)
                                 ? rule_for(plan, &sums[at], row)
                                 : -1;

        if (rule < 0 || order(plan, &sums[at], rule) != KVT_OK)
            continue;
        row->gone = 0;
        row->compacted_ms = plan->now_ms;
        orders++;
    }
    if (planner->compact_at >= count)
        planner->compact_at = 0;
}
