#include "advisor/order/order_ledger.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advisor/order/planner_pause.h"
#include "advisor/order/traffic.h"
#include "advisor/selection/active_rules.h"
#include "advisor/selection/planner_tables.h"
#include "advisor/selection/ranking.h"
#include "advisor/selection/refusals.h"
#include "base/core/alloc.h"
#include "base/core/log.h"

/* The ledger: every order from the plan to its result. */

enum { RESEND_MS = 1000, EXPIRE_GRACE_MS = 2000 };

const char *
advisor_order_state_name(uint32_t state)
{
    switch ((enum advisor_order_state)state) {
    case ADVISOR_ORDER_PENDING: return "pending";
    case ADVISOR_ORDER_DONE: return "done";
    case ADVISOR_ORDER_FAILED: return "failed";
    case ADVISOR_ORDER_EXPIRED: return "expired";
    case ADVISOR_ORDER_OBSERVED: return "observed";
    }
    return "unknown";
}

static void
free_order(struct advisor_order *order)
{
    kvt_free(order->items);
    kvt_free(order);
}

void
advisor_planner_free_orders(struct advisor_planner *planner)
{
    for (size_t i = 0; i < planner->order_count; i++)
        free_order(planner->orders[i]);
    kvt_free(planner->orders);
    kvt_free(planner->kept);
}

static void
count_pending(const struct advisor_planner *planner)
{
    int64_t pending = 0;

    for (size_t i = 0; i < planner->order_count; i++)
        pending += planner->orders[i]->row.state == ADVISOR_ORDER_PENDING ? 1 : 0;
    kvt_metric_set(planner->counters.orders_pending, pending);
}

static enum kvt_err
reserve(struct advisor_planner *planner)
{
    void *orders = kvt_grow(planner->orders, &planner->order_capacity, planner->order_count + 1,
                            sizeof(*planner->orders));
    void *kept = kvt_grow(planner->kept, &planner->kept_capacity, planner->kept_count + 1,
                          sizeof(*planner->kept));

    if (orders != NULL)
        planner->orders = orders;
    if (kept != NULL)
        planner->kept = kept;
    return orders != NULL && kept != NULL ? KVT_OK : KVT_NOMEM;
}

static bool
fills(const struct advisor_order *order)
{
    return order->row.verb == KVT_ORDER_PROMOTE || order->row.verb == KVT_ORDER_WARM;
}

static void
add_to(uint32_t *count, int by)
{
    *count = (uint32_t)((int)*count + by);
}

static void
count_of_job(struct advisor_planner *planner, const struct advisor_order *order, int by)
{
    if (fills(order) && order->to != ADVISOR_NONE)
        add_to(&planner->tiers[order->to].coming, by);
    if (!fills(order) && order->from != ADVISOR_NONE)
        add_to(&planner->tiers[order->from].job_leaving, by);
    for (uint32_t i = 0; i < order->also_count; i++)
        add_to(&planner->tiers[order->also[i]].job_leaving, by);
}

/* What an order counts towards, up or down. */
static void
count_on_tier(struct advisor_planner *planner, const struct advisor_order *order, int by)
{
    if (order->to != ADVISOR_NONE && by > 0)
        planner->tiers[order->to].incoming += order->bringing;
    else if (order->to != ADVISOR_NONE)
        planner->tiers[order->to].incoming -= order->bringing;
    if (order->of_job)
        count_of_job(planner, order, by);
    else if (order->from == ADVISOR_NONE)
        return;
    else if (order->swept)
        add_to(&planner->sweeping, by);
    else if (fills(order))
        add_to(&planner->tiers[order->to].coming, by);
    else
        add_to(&planner->tiers[order->from].leaving, by);
}

enum kvt_err
advisor_planner_add_order(struct advisor_planner *planner, const struct advisor_order *model)
{
    struct advisor_order *order = kvt_calloc(1, sizeof(*order));

    if (order == NULL || reserve(planner) != KVT_OK) {
        kvt_free(order);
        kvt_free(model->items);
        return KVT_NOMEM;
    }
    *order = *model;
    order->row.epoch = planner->epoch;
    order->row.id = ++planner->next_id;
    order->dirty = true;
    order->unsent = order->row.state == ADVISOR_ORDER_PENDING;
    planner->orders[planner->order_count++] = order;
    planner->kept[planner->kept_count++] =
        (struct advisor_order_key){order->row.epoch, order->row.id};
    count_on_tier(planner, order, 1);
    kvt_metric_inc(
        order->unsent ? planner->counters.orders_issued : planner->counters.orders_observed, 1);
    kvt_log_info("advisor.orders", order->unsent ? "ordered" : "observed",
                 "%s %u blocks (%" PRIu64 " bytes) at %s: %s",
                 kvt_order_verb_name((enum kvt_order_verb)order->row.verb), order->row.items,
                 order->row.bytes, order->row.gateway, order->row.reason);
    count_pending(planner);
    return KVT_OK;
}

/* The rule that gave the order, if it is still in force; -1: none. */
static int32_t
rule_of(const struct advisor_planner *planner, const struct advisor_order *order)
{
    return order->rule > 0 && planner->rules != NULL &&
                   order->rules_version == planner->rules->version
               ? (int32_t)order->rule - 1
               : -1;
}

static void
finish(struct advisor_planner *planner, struct advisor_order *order, enum advisor_order_state state,
       uint64_t now_ms)
{
    order->row.state = state;
    order->dirty = true;
    order->unsent = false;
    order->finished = true;
    order->release_at_ms = now_ms + ADVISOR_SETTLE_MS;
    if (rule_of(planner, order) >= 0 && state == ADVISOR_ORDER_DONE)
        advisor_planner_learn(planner, rule_of(planner, order), order->row.done, order->row.failed,
                              now_ms);
    if (rule_of(planner, order) >= 0 && (state == ADVISOR_ORDER_FAILED))
        advisor_planner_learn(planner, rule_of(planner, order), 0, order->row.items, now_ms);
    if (!order->of_job) /* nothing else keeps its blocks from being chosen: until its events came */
        count_on_tier(planner, order, -1);
    count_pending(planner);
}

/* ---- refusals ---- */

/* It was left where it is.  What cannot be remembered stays out too, and comes back with all others
 * of its tier. */
static void
refuse(struct advisor_planner *planner, const struct advisor_refused *block, uint64_t now_ms)
{
    struct advisor_tier *tier = &planner->tiers[block->tier];

    if (advisor_refusals_add(planner->refusals, block, now_ms) != KVT_OK && tier->return_ms == 0)
        tier->return_ms = now_ms + ADVISOR_REFUSAL_LAST_MS;
}

void
advisor_planner_end_pauses(struct advisor_planner *planner, uint64_t now_ms)
{
    struct advisor_refused block;

    while (advisor_refusals_next(planner->refusals, &block, now_ms))
        advisor_ranking_give_back(&planner->tiers[block.tier].ranking, block.ns, block.hash);
    for (uint32_t i = 0; i < planner->tier_count; i++) {
        struct advisor_tier *tier = &planner->tiers[i];

        if (tier->return_ms == 0 || now_ms < tier->return_ms)
            continue;
        tier->return_ms = 0;
        advisor_ranking_give_back_all(&tier->ranking);
    }
}

/* What the gateway holds may be free again: its refusals are forgotten. */
static void
forgive(struct advisor_planner *planner, const char *gateway)
{
    const uint32_t number = advisor_gateway_number(planner, gateway);

    for (uint32_t i = 0; i < planner->tier_count; i++) {
        struct advisor_tier *tier = &planner->tiers[i];

        if (number == ADVISOR_NONE || tier->gateway != number)
            continue;
        advisor_refusals_end(planner->refusals, i);
        if (tier->return_ms != 0)
            tier->return_ms = 1; /* long ago */
    }
}

/* It was to stay, and has its copy below. */
static bool
was_copied(const struct advisor_planner *planner, const struct advisor_order *order,
           const struct advisor_refused *block)
{
    return order->row.keep != 0 && order->to != ADVISOR_NONE &&
           policy_tier_blocks_has(planner->tiers[order->to].roster, block->ns, block->hash);
}

/* What it did not move may be chosen again: soon, or after a pause where the gateway did not let it
 * go. */
static void
release(struct advisor_planner *planner, const struct advisor_order *order, uint64_t now_ms)
{
    const bool refused = order->row.state == ADVISOR_ORDER_DONE && order->row.failed > 0;

    if (order->of_job) {
        count_on_tier(planner, order, -1);
        return; /* nothing was taken out */
    }
    if (order->from == ADVISOR_NONE || fills(order))
        return; /* the same */
    /* The last first: each comes back in front of those that were chosen after it. */
    for (uint32_t i = order->row.items; i-- > 0;) {
        const struct advisor_refused block = {
            .hash = order->items[i].block.hash, .ns = order->ns, .tier = order->from};
        struct advisor_tier *tier = &planner->tiers[order->from];

        if (refused && !was_copied(planner, order, &block) &&
            policy_tier_blocks_is_taken(tier->roster, block.ns, block.hash))
            refuse(planner, &block, now_ms);
        else
            advisor_ranking_give_back(&tier->ranking, block.ns, block.hash);
    }
}

void
advisor_planner_forget_observed(struct advisor_planner *planner, uint64_t now_ms)
{
    for (size_t i = planner->order_count; i-- > 0;) { /* as in release() */
        struct advisor_order *order = planner->orders[i];

        if (order->row.state != ADVISOR_ORDER_OBSERVED)
            continue;
        if (!order->finished)
            finish(planner, order, ADVISOR_ORDER_OBSERVED, now_ms);
        release(planner, order, now_ms);
        order->from = ADVISOR_NONE; /* once */
    }
}

/* ---- results ---- */

static struct advisor_order *
find(struct advisor_planner *planner, uint64_t epoch, uint64_t id)
{
    for (size_t i = 0; i < planner->order_count; i++)
        if (planner->orders[i]->row.epoch == epoch && planner->orders[i]->row.id == id)
            return planner->orders[i];
    return NULL;
}

const struct advisor_order_row *
advisor_planner_order_row(const struct advisor_planner *planner, uint64_t id)
{
    for (size_t i = 0; i < planner->order_count; i++)
        if (planner->orders[i]->row.epoch == planner->epoch && planner->orders[i]->row.id == id)
            return &planner->orders[i]->row;
    return NULL;
}

bool
advisor_planner_withdraw(struct advisor_planner *planner, uint64_t id, uint64_t now_ms)
{
    struct advisor_order *order = find(planner, planner->epoch, id);

    if (order == NULL || !order->unsent)
        return false;
    (void)snprintf(order->row.text, sizeof(order->row.text), "taken back before it left");
    finish(planner, order, ADVISOR_ORDER_EXPIRED, now_ms);
    return true;
}

/* What the tier is to the gateway that moves it. */
static enum advisor_tier_kind
kind_of(const struct advisor_planner *planner, const struct advisor_order_row *row,
        const char *name)
{
    const uint32_t number = advisor_gateway_number(planner, row->gateway);
    const uint32_t cold = number == ADVISOR_NONE ? ADVISOR_NONE : planner->gateways[number].cold;

    if (strncmp(name, "hot@", 4) == 0)
        return ADVISOR_TIER_KIND_HOT;
    if (strncmp(name, "warm@", 5) == 0)
        return ADVISOR_TIER_KIND_WARM;
    return cold == ADVISOR_NONE || strcmp(planner->tiers[cold].name, name) == 0
               ? ADVISOR_TIER_KIND_COLD
               : ADVISOR_TIER_KIND_FAR;
}

static struct advisor_traffic_flow
flow_of(const struct advisor_planner *planner, const struct advisor_order_row *row)
{
    struct advisor_traffic_flow flow = {.verb = (enum kvt_order_verb)row->verb,
                                        .from = ADVISOR_TIER_KIND_COLD,
                                        .to = ADVISOR_TIER_KIND_HOT};

    if (flow.verb == KVT_ORDER_DEMOTE) {
        flow.from = ADVISOR_TIER_KIND_HOT;
        flow.to = ADVISOR_TIER_KIND_COLD;
    }
    if (flow.verb == KVT_ORDER_DELETE)
        flow.to = ADVISOR_TIER_KIND_GONE;
    if (row->from[0] != '\0') {
        flow.from = kind_of(planner, row, row->from);
        flow.to = kind_of(planner, row, row->to);
    }
    return flow;
}

static void
count_result(struct advisor_planner *planner, const struct advisor_order *order, uint64_t now_ms)
{
    const struct advisor_order_row *row = &order->row;
    /* What an attempt before did is done again for nothing. */
    const uint32_t blocks = row->done > order->counted ? row->done - order->counted : 0;
    /* A demotion mostly lets go of a volume's copy of which the bucket has another, and a pin moves
     * nothing: of those a gateway tells only what it copied. */
    const bool told = row->verb == KVT_ORDER_DELETE || fills(order);
    const struct advisor_traffic_flow flow = flow_of(planner, row);
    struct advisor_traffic_moves moves = {
        .blocks = blocks,
        .failed = row->failed,
        .bytes = told ? row->bytes_moved : (row->items == 0 ? 0 : row->bytes / row->items * blocks),
        .copied = row->bytes_moved};

    if (row->keep != 0) /* a copy ahead of the move, which counts when it comes */
        moves.blocks = moves.bytes = 0;
    advisor_traffic_moved(planner->options.traffic, &flow, &moves, now_ms);
}

void
advisor_planner_take_results(struct advisor_planner *planner, const struct kvt_report *report,
                             uint64_t now_ms)
{
    for (uint32_t i = 0; i < report->result_count; i++) {
        const struct kvt_order_result *result = &report->results[i];
        struct advisor_order *order = find(planner, result->epoch, result->id);

        if (result->verb == KVT_ORDER_UNPIN) /* whoever gave that order */
            forgive(planner, report->gateway);
        /* A result after the expiry still tells what was done. */
        if (order == NULL || strcmp(order->row.gateway, report->gateway) != 0 ||
            (order->finished && order->row.state != ADVISOR_ORDER_EXPIRED))
            continue;
        order->row.done = result->done;
        order->row.failed = result->failed;
        order->row.bytes_moved = result->bytes_moved;
        memcpy(order->row.text, result->text, sizeof(order->row.text));
        order->row.text[sizeof(order->row.text) - 1] = '\0';
        order->dirty = true;
        count_result(planner, order, now_ms);
        if (order->finished) {
            order->row.state = result->code == KVT_OK ? ADVISOR_ORDER_DONE : ADVISOR_ORDER_FAILED;
            continue;
        }
        if (result->code == KVT_OK) {
            kvt_metric_inc(planner->counters.orders_done, 1);
            finish(planner, order, ADVISOR_ORDER_DONE, now_ms);
        } else {
            kvt_metric_inc(planner->counters.orders_failed, 1);
            kvt_log_warn("advisor.orders", "failed", "%s order %" PRIu64 " at %s: %s %s",
                         kvt_order_verb_name((enum kvt_order_verb)order->row.verb), order->row.id,
                         order->row.gateway, kvt_err_name(result->code), order->row.text);
            finish(planner, order, ADVISOR_ORDER_FAILED, now_ms);
        }
    }
}

/* Those whose time is over. */
static void
end_late(struct advisor_planner *planner, uint64_t now_ms)
{
    for (size_t i = 0; i < planner->order_count; i++) {
        struct advisor_order *order = planner->orders[i];

        if (!order->finished && order->row.state == ADVISOR_ORDER_OBSERVED &&
            now_ms > order->row.expires_ms) {
            finish(planner, order, ADVISOR_ORDER_OBSERVED, now_ms);
        } else if (!order->finished && now_ms > order->row.expires_ms + EXPIRE_GRACE_MS) {
            kvt_metric_inc(planner->counters.orders_expired, 1);
            kvt_log_warn("advisor.orders", "expired", "%s order %" PRIu64 " at %s had no result",
                         kvt_order_verb_name((enum kvt_order_verb)order->row.verb), order->row.id,
                         order->row.gateway);
            finish(planner, order, ADVISOR_ORDER_EXPIRED, now_ms);
        }
    }
}

void
advisor_planner_expire(struct advisor_planner *planner, uint64_t now_ms)
{
    size_t kept = 0;

    end_late(planner, now_ms); /* apart: it counts all orders, and none may be gone then */
    for (size_t i = 0; i < planner->order_count; i++) {
        struct advisor_order *order = planner->orders[i];

        if (order->finished && !order->dirty && now_ms >= order->release_at_ms) {
            release(planner, order, now_ms);
            free_order(order);
            continue;
        }
        planner->orders[kept++] = order;
    }
    planner->order_count = kept;
    /* The oldest finished ones leave the store; the unfinished are among the newest. */
    planner->forget_count = planner->kept_count > planner->order_count + ADVISOR_ORDERS_KEPT
                                ? planner->kept_count - planner->order_count - ADVISOR_ORDERS_KEPT
                                : 0;
}

bool
advisor_planner_next(struct advisor_planner *planner, struct kvt_order *order, uint64_t now_ms)
{
    memset(order, 0, sizeof(*order));
    if (advisor_planner_paused(planner))
        return false;
    for (size_t i = 0; i < planner->order_count; i++) {
        struct advisor_order *next = planner->orders[i];

        if (!next->unsent || next->dirty || now_ms < next->retry_at_ms ||
            now_ms >= next->row.expires_ms)
            continue;
        memcpy(order->gateway, next->row.gateway, sizeof(order->gateway));
        memcpy(order->namespace_, next->row.namespace_, sizeof(order->namespace_));
        memcpy(order->reason, next->row.reason, sizeof(order->reason));
        memcpy(order->from, next->row.from, sizeof(order->from));
        memcpy(order->to, next->row.to, sizeof(order->to));
        order->keep = next->row.keep != 0;
        order->epoch = next->row.epoch;
        order->id = next->row.id;
        order->issued_ms = next->row.issued_ms;
        order->expires_ms = next->row.expires_ms;
        order->verb = (enum kvt_order_verb)next->row.verb;
        order->until_ms = next->until_ms;
        order->cause = next->cause;
        order->items = next->items;
        order->item_count = next->row.items;
        next->unsent = false;
        return true;
    }
    return false;
}

void
advisor_planner_unsent(struct advisor_planner *planner, uint64_t id, uint64_t now_ms)
{
    struct advisor_order *order = find(planner, planner->epoch, id);

    if (order == NULL || order->finished)
        return;
    order->unsent = true;
    order->retry_at_ms = now_ms + RESEND_MS;
}

/* ---- durable ---- */

static enum kvt_err
load_order(void *arg, const void *data)
{
    const struct advisor_order_row *row = data;
    struct advisor_planner *planner = arg;
    struct advisor_order *order;

    if (reserve(planner) != KVT_OK)
        return KVT_NOMEM;
    planner->kept[planner->kept_count++] = (struct advisor_order_key){row->epoch, row->id};
    if (row->state != ADVISOR_ORDER_PENDING)
        return KVT_OK;
    order = kvt_calloc(1, sizeof(*order));
    if (order == NULL)
        return KVT_NOMEM;
    /* Its blocks are not remembered: it runs to its result or its expiry, and what is planned
     * meanwhile may name them again, which is harmless. */
    order->row = *row;
    order->from = order->to = ADVISOR_NONE;
    planner->orders[planner->order_count++] = order;
    return KVT_OK;
}

enum kvt_err
advisor_planner_load_orders(struct advisor_planner *planner, const struct advisor_txn *txn)
{
    const enum kvt_err rc = advisor_store_walk(txn, ADVISOR_ROW_ORDER, load_order, planner);

    /* They came newest first. */
    for (size_t i = 0; i < planner->kept_count / 2; i++) {
        const struct advisor_order_key key = planner->kept[i];

        planner->kept[i] = planner->kept[planner->kept_count - 1 - i];
        planner->kept[planner->kept_count - 1 - i] = key;
    }
    count_pending(planner);
    return rc;
}

enum kvt_err
advisor_planner_save_orders(struct advisor_planner *planner, const struct advisor_txn *txn)
{
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < planner->order_count && rc == KVT_OK; i++)
        if (planner->orders[i]->dirty)
            rc = advisor_store_put(txn, ADVISOR_ROW_ORDER, &planner->orders[i]->row);
    for (size_t i = 0; i < planner->forget_count && rc == KVT_OK; i++)
        if (find(planner, planner->kept[i].epoch, planner->kept[i].id) == NULL)
            rc = advisor_store_delete(txn, ADVISOR_ROW_ORDER,
                                      &(struct advisor_order_row){.epoch = planner->kept[i].epoch,
                                                                  .id = planner->kept[i].id});
    return rc;
}

void
advisor_planner_saved_orders(struct advisor_planner *planner)
{
    for (size_t i = 0; i < planner->order_count; i++)
        planner->orders[i]->dirty = false;
    if (planner->forget_count == 0)
        return;
    planner->kept_count -= planner->forget_count;
    memmove(planner->kept, planner->kept + planner->forget_count,
            planner->kept_count * sizeof(*planner->kept));
    planner->forget_count = 0;
}
