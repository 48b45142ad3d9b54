#include <stdio.h>
#include <string.h>

#include "advisor/planner_private.h"
#include "base/alloc.h"
#include "base/log.h"

/* From how full the tiers are to orders. */

static uint64_t
part(uint64_t capacity, uint32_t ppm)
{
    return (uint64_t)((unsigned __int128)capacity * ppm / 1000000);
}

/* Blocks chosen together; those of one namespace become one order. */
struct set {
    struct policy_block blocks[KVT_ORDER_ITEMS_MAX];
    uint32_t count;
    uint64_t bytes;
};

struct plan {
    struct advisor_planner *planner;
    struct set *set;
    uint64_t now_ms;
    bool observed;
};

static enum kvt_err
order_namespace(const struct plan *plan, const struct advisor_order *model, uint32_t ns)
{
    struct advisor_order order = *model;

    order.ns = ns;
    order.row.bytes = 0;
    order.row.items = 0;
    order.items = kvt_calloc(plan->set->count, sizeof(*order.items));
    if (order.items == NULL)
        return KVT_NOMEM;
    (void)snprintf(order.row.namespace_, sizeof(order.row.namespace_), "%s",
                   advisor_names_namespace_text(plan->planner->names, ns));
    for (uint32_t i = 0; i < plan->set->count; i++) {
        const struct policy_block *block = &plan->set->blocks[i];

        if (block->ns != ns)
            continue;
        order.items[order.row.items++] = (struct kvt_order_item){
            .block = {.hash = block->hash, .parent = block->parent, .position = block->position},
            .ranks = block->ranks,
        };
        order.row.bytes += advisor_planner_bytes(block);
    }
    return advisor_planner_add_order(plan->planner, &order);
}

static bool
is_first_of_namespace(const struct set *set, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++)
        if (set->blocks[i].ns == set->blocks[at].ns)
            return false;
    return true;
}

/* The set as orders, one for each namespace in it. */
static enum kvt_err
order_set(const struct plan *plan, struct advisor_order *model)
{
    enum kvt_err rc = KVT_OK;

    model->row.issued_ms = plan->now_ms;
    model->row.expires_ms = plan->now_ms + plan->planner->options.expiry_ms;
    model->row.state = plan->observed ? ADVISOR_ORDER_OBSERVED : ADVISOR_ORDER_PENDING;
    for (uint32_t i = 0; i < plan->set->count && rc == KVT_OK; i++)
        if (is_first_of_namespace(plan->set, i))
            rc = order_namespace(plan, model, plan->set->blocks[i].ns);
    return rc;
}

/* Choose blocks of the tier until `wanted` bytes are together. */
static void
choose(const struct plan *plan, struct advisor_tier *tier, uint64_t wanted,
       bool (*next)(struct policy_roster *roster, uint64_t tick, struct policy_block *block))
{
    struct set *set = plan->set;

    set->count = 0;
    set->bytes = 0;
    while (set->count < KVT_ORDER_ITEMS_MAX && set->bytes < wanted &&
           next(tier->roster, plan->now_ms / ADVISOR_TICK_MS, &set->blocks[set->count]))
        set->bytes += advisor_planner_bytes(&set->blocks[set->count++]);
}

/* Is there nothing to choose but what was refused?  Said once each time. */
static void
see_stuck(const struct plan *plan, uint32_t number)
{
    struct advisor_tier *tier = &plan->planner->tiers[number];
    const size_t refused = advisor_refusals_count(plan->planner->refusals, number);
    const bool stuck = plan->set->count == 0 && (refused > 0 || tier->return_ms != 0);

    if (stuck && !tier->stuck)
        kvt_log_warn("advisor.planner", "refused",
                     "%s is to be drained, and its gateway let none of the %zu blocks go that are "
                     "left: are they pinned?",
                     tier->name, refused);
    tier->stuck = stuck;
}

/* Order what was chosen to leave, or put it back. */
static void
order_leaving(const struct plan *plan, uint32_t number, const char *reason)
{
    const struct advisor_tier *tier = &plan->planner->tiers[number];
    struct advisor_order model = {.tier = number};

    memcpy(model.row.gateway, plan->planner->gateways[tier->gateway].row.name,
           sizeof(model.row.gateway));
    model.row.verb = tier->hot ? KVT_ORDER_DEMOTE : KVT_ORDER_DELETE;
    (void)snprintf(model.row.reason, sizeof(model.row.reason), "%s", reason);
    if (order_set(plan, &model) == KVT_OK)
        return;
    for (uint32_t i = 0; i < plan->set->count; i++)
        policy_roster_give_back(tier->roster, plan->set->blocks[i].ns, plan->set->blocks[i].hash);
}

static void
drain(const struct plan *plan, uint32_t number)
{
    const struct advisor_planner_options *options = &plan->planner->options;
    struct advisor_tier *tier = &plan->planner->tiers[number];
    const uint32_t start_ppm = tier->hot ? options->hot_start_ppm : options->cold_start_ppm;
    const uint32_t stop_ppm = tier->hot ? options->hot_stop_ppm : options->cold_stop_ppm;
    const uint64_t stop = part(tier->report.capacity_bytes, stop_ppm);
    char reason[KVT_NAME_MAX];

    if (tier->report.used_bytes >= part(tier->report.capacity_bytes, start_ppm) &&
        tier->report.used_bytes > stop)
        tier->draining = true;
    if (tier->report.used_bytes <= stop)
        tier->draining = false;
    if (!tier->draining)
        tier->stuck = false;
    /* One set at a time, and nothing while the bucket is away: its copies could not be checked. */
    if (tier->leaving > 0 || !plan->planner->gateways[tier->gateway].healthy)
        return;
    if (tier->draining) {
        choose(plan, tier, tier->report.used_bytes - stop, policy_roster_victim);
        see_stuck(plan, number);
        (void)snprintf(reason, sizeof(reason), "%s over %u%%, down to %u%%",
                       tier->hot ? "hot" : "cold", start_ppm / 10000, stop_ppm / 10000);
        order_leaving(plan, number, reason);
    } else if (tier->hot) { /* a bucket is no place that anything leaves for being idle */
        choose(plan, tier, UINT64_MAX, policy_roster_due);
        (void)snprintf(reason, sizeof(reason), "%s", options->ordering->name);
        order_leaving(plan, number, reason);
    }
}

static void
promote(const struct plan *plan, struct advisor_gateway *gateway)
{
    struct advisor_planner *planner = plan->planner;
    struct advisor_order model = {.tier = gateway->hot};
    struct set *set = plan->set;
    const struct advisor_tier *tier;
    uint64_t limit;

    if (gateway->candidate_count == 0)
        return;
    if (gateway->hot == ADVISOR_NONE || !gateway->healthy) {
        gateway->candidate_count = 0;
        return;
    }
    tier = &planner->tiers[gateway->hot];
    limit = part(tier->report.capacity_bytes, planner->options.hot_start_ppm);
    /* While it drains, what came in would push out something used more recently. */
    if (tier->coming > 0 || tier->draining || tier->report.used_bytes >= limit)
        return;
    set->count = 0;
    set->bytes = 0;
    for (uint32_t i = 0; i < gateway->candidate_count; i++) {
        const struct policy_block *block = &gateway->candidates[i];
        const uint64_t bytes = advisor_planner_bytes(block);

        if (tier->report.used_bytes + set->bytes + bytes > limit)
            break;
        set->blocks[set->count++] = *block;
        set->bytes += bytes;
    }
    gateway->candidate_count = 0;
    memcpy(model.row.gateway, gateway->row.name, sizeof(model.row.gateway));
    model.row.verb = KVT_ORDER_PROMOTE;
    (void)snprintf(model.row.reason, sizeof(model.row.reason), "read %llu times from the bucket",
                   (unsigned long long)planner->options.promote_after);
    /* What could not be ordered is read again and comes again. */
    if (order_set(plan, &model) != KVT_OK)
        return;
}

static bool
is_stale(uint64_t report_ms, uint64_t now_ms)
{
    return report_ms == 0 || now_ms > report_ms + ADVISOR_REPORT_STALE_MS;
}

void
advisor_planner_tick(struct advisor_planner *planner, uint64_t now_ms)
{
    const enum advisor_mode mode = advisor_planner_mode(planner);
    struct plan plan = {
        .planner = planner, .now_ms = now_ms, .observed = mode == ADVISOR_MODE_OBSERVE};

    advisor_planner_expire(planner, now_ms);
    advisor_planner_end_pauses(planner, now_ms);
    advisor_planner_age_learned(planner, now_ms);
    advisor_planner_show(planner);
    if (mode == ADVISOR_MODE_OFF || advisor_planner_paused(planner) ||
        (mode == ADVISOR_MODE_ENFORCE && !planner->options.can_enforce))
        return;
    plan.set = kvt_calloc(1, sizeof(*plan.set));
    if (plan.set == NULL)
        return; /* next time */
    for (uint32_t i = 0; i < planner->tier_count; i++) {
        const struct advisor_tier *tier = &planner->tiers[i];

        if (tier->report.capacity_bytes > 0 && !is_stale(tier->report_ms, now_ms))
            drain(&plan, i);
    }
    for (uint32_t i = 0; i < planner->gateway_count; i++)
        if (!is_stale(planner->gateways[i].report_ms, now_ms))
            promote(&plan, &planner->gateways[i]);
    kvt_free(plan.set);
}
