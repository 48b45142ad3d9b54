#include <string.h>

#include "advisor/order/planner_tick.h"
#include "advisor/selection/active_rules.h"
#include "advisor/selection/chooser.h"
#include "advisor/selection/edge.h"
#include "advisor/selection/planner_tables.h"
#include "advisor/selection/rule_set.h"
#include "advisor/selection/tenant_quotas.h"

/* Rules that wait for no watermark: each row is asked about, some of them a tick; and what came. */

enum {
    ROWS_A_TICK = 16384,
    ROWS_A_CLOCK = 8,    /* between two looks at the clock: one may be long */
    SWEEP_SLICE_MS = 30, /* of a tick */
    SEATS = 2 * KVT_ORDER_ITEMS_MAX,
};

struct pass {
    struct advisor_tick *plan;
    uint64_t began_ms;
    uint32_t looks;
    struct advisor_sweep stopped; /* where it goes on, before the end of the page */
    uint16_t seats[SEATS];        /* by block and tier: number in the set, plus 1; 0: none */
};

/* Where the block of that tier stands, or would. */
static uint16_t *
seat_of(struct pass *pass, uint32_t tier, const struct policy_block *block)
{
    const struct advisor_set *set = pass->plan->set;
    uint64_t at = block->hash ^ ((uint64_t)block->ns << 16) ^ tier;

    for (;; at++) {
        uint16_t *seat = &pass->seats[at % SEATS];

        if (*seat == 0 ||
            (set->blocks[*seat - 1].hash == block->hash && set->blocks[*seat - 1].ns == block->ns &&
             set->edges[*seat - 1].from == tier))
            return seat;
    }
}

/* The edge that the rule moves the block along, if there is one now, and room. */
static bool
edge_for(const struct advisor_tick *plan, const struct policy_rule *rule, uint32_t tier,
         const struct policy_block *block, struct advisor_edge *edge)
{
    const struct advisor_planner *planner = plan->planner;

    return advisor_edge_of(planner, planner->rules, rule, tier, ADVISOR_NONE, plan->now_ms, edge) &&
           advisor_edge_takes(planner, planner->rules, rule, edge, block, plan->used);
}

/* What is ordered of a block in one tier.  False: the rule is at its rate, and the pass waits. */
static bool
act(struct pass *pass, int32_t rule, uint32_t tier, const struct policy_block *block)
{
    struct advisor_tick *plan = pass->plan;
    uint16_t *seat = seat_of(pass, tier, block);
    struct advisor_edge edge;

    if (*seat != 0)
        return true; /* something else that happened to it was seen to just now */
    if ((!plan->observed && !policy_is_enforced(plan->policy, block->hash)) ||
        !edge_for(plan, policy_rule_at(plan->policy, (size_t)rule), tier, block, &edge))
        return true;
    switch (advisor_planner_may(plan->planner, rule, plan->now_ms)) {
    case ADVISOR_RULE_RATE: return false;
    case ADVISOR_RULE_SUSPENDED:
    case ADVISOR_RULE_PER_RUN:
    case ADVISOR_RULE_MAX_DELETE:
        advisor_rule_set_put(&plan->planner->sweep.rules, rule, false);
        return true;
    case ADVISOR_RULE_FULL:
    case ADVISOR_RULE_NO_EDGE:
    case ADVISOR_RULE_ACTS: break;
    }
    if (policy_rule_at(plan->policy, (size_t)rule)->verb == POLICY_PROMOTE &&
        !advisor_planner_admits(plan->planner, block->ns, edge.to, advisor_planner_bytes(block)))
        return true;
    advisor_tick_add(plan, &edge, block, rule);
    *seat = (uint16_t)plan->set->count;
    return true;
}

/* Looked at often enough, with each look. */
static bool
is_over(struct pass *pass)
{
    return ++pass->looks % ROWS_A_CLOCK == 0 &&
           pass->plan->planner->options.slice_clock() - pass->began_ms >= SWEEP_SLICE_MS;
}

/* Where the pass goes on in the row; its end: it was seen to.  Of one hash there is a row for each
 * namespace, in their order. */
static uint32_t
first_place(const struct advisor_sweep *sweep, const struct advisor_store_block *row)
{
    if (!sweep->within || row->hash != sweep->from || row->ns > sweep->ns)
        return 0;
    if (row->ns < sweep->ns)
        return row->place_count;
    for (uint32_t i = 0; i < row->place_count; i++)
        if (row->places[i].holder == sweep->holder)
            return i;
    return 0;
}

static enum kvt_err
look_at_row(void *arg, const struct advisor_store_block *row)
{
    struct pass *pass = arg;
    struct advisor_tick *plan = pass->plan;
    struct advisor_planner *planner = plan->planner;
    const uint32_t first = first_place(&planner->sweep, row);

    pass->stopped = (struct advisor_sweep){
        .from = row->hash, .within = true, .ns = row->ns, .holder = ADVISOR_NONE};
    if (first < row->place_count)
        pass->stopped.holder = row->places[first].holder;
    if (plan->set->count + row->place_count > KVT_ORDER_ITEMS_MAX || is_over(pass))
        return KVT_CANCELLED;
    for (uint32_t i = first; i < row->place_count; i++) {
        const uint32_t tier = advisor_planner_tier_of(planner, row->places[i].holder);
        const struct policy_block block = advisor_planner_block_of(row, row->places[i].ranks);
        int32_t rule;

        pass->stopped.holder = row->places[i].holder;

        if (tier == ADVISOR_NONE || block.ranks == 0 || planner->tiers[tier].place < 0)
            continue;
        rule = advisor_asker_rule_of_row(&plan->asker, tier, row, block.ranks, POLICY_ON_NOTHING);
        if (!advisor_rule_set_has(&planner->sweep.rules, rule))
            continue;
        if (plan->asker.elsewhere)
            continue; /* it counts where it is pinned */
        if (policy_rule_at(plan->policy, (size_t)rule)->verb == POLICY_PIN)
            planner->tiers[tier].counting[rule] += advisor_planner_bytes(&block);
        else if (!act(pass, rule, tier, &block))
            return KVT_CANCELLED;
    }
    return KVT_OK;
}

/* A new pass, for the rules whose time has come. */
static bool
begin(struct advisor_tick *plan)
{
    struct advisor_planner *planner = plan->planner;
    struct advisor_sweep *sweep = &planner->sweep;

    *sweep = (struct advisor_sweep){.from = 0};
    for (uint32_t i = 0; i < planner->tier_count; i++)
        memset(planner->tiers[i].counting, 0, sizeof(planner->tiers[i].counting));
    for (int32_t i = 0; i < (int32_t)plan->policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(plan->policy, (size_t)i);

        if (!advisor_rule_is_swept(rule) || advisor_planner_rests(planner, i, plan->now_ms) ||
            !advisor_rule_is_due(rule, planner->rule_states[i].begun_ms, plan->now_ms))
            continue;
        planner->rule_states[i].begun_ms = plan->now_ms;
        advisor_planner_end_run(planner, i);
        advisor_rule_set_put(&sweep->rules, i, true);
    }
    return advisor_rule_set_any(&sweep->rules);
}

/* What was pinned is known now. */
static void
end(struct advisor_planner *planner)
{
    planner->sweep.rules = (struct advisor_rule_set){.bits = {0}};
    for (uint32_t i = 0; i < planner->tier_count; i++)
        memcpy(planner->tiers[i].kept, planner->tiers[i].counting, sizeof(planner->tiers[i].kept));
}

/* A block that something happened to.  False: its rule is at its rate, and it waits. */
static bool
look_at_news(struct pass *pass, const struct advisor_news *news)
{
    struct advisor_tick *plan = pass->plan;
    struct advisor_store_block *row = &plan->asker.row;
    struct policy_block block;
    uint32_t ranks = 0;
    int32_t rule;

    if (advisor_store_get_block(&plan->asker.txn, news->ns, news->hash, row) != KVT_OK)
        return true;
    for (uint32_t i = 0; i < row->place_count; i++)
        if (advisor_planner_tier_of(plan->planner, row->places[i].holder) == news->tier)
            ranks = row->places[i].ranks;
    if (ranks == 0)
        return true; /* it went again */
    rule = advisor_asker_rule_of_row(&plan->asker, news->tier, row, ranks, news->event);
    if (rule < 0 || (policy_rule_at(plan->policy, (size_t)rule)->on & (uint32_t)news->event) == 0 ||
        (news->moved && policy_rule_at(plan->policy, (size_t)rule)->verb == POLICY_PROMOTE))
        return true;
    block = advisor_planner_block_of(row, ranks);
    return act(pass, rule, news->tier, &block);
}

static void
look_at_all_news(struct pass *pass)
{
    struct advisor_planner *planner = pass->plan->planner;
    uint32_t looked = 0;

    while (looked < planner->news_count && pass->plan->set->count < KVT_ORDER_ITEMS_MAX &&
           !is_over(pass) && look_at_news(pass, &planner->news[looked]))
        looked++;
    planner->news_count -= looked;
    if (looked > 0)
        memmove(planner->news, planner->news + looked,
                planner->news_count * sizeof(*planner->news));
}

static void
look_at_rows(struct pass *pass)
{
    struct advisor_tick *plan = pass->plan;
    struct advisor_sweep *sweep = &plan->planner->sweep;
    uint64_t next = 0;
    const enum kvt_err rc =
        advisor_store_blocks(&plan->asker.txn, sweep->from, ROWS_A_TICK, &next, look_at_row, pass);

    const struct advisor_rule_set rules = sweep->rules; /* one may have stopped in this page */

    if (rc != KVT_CANCELLED)
        pass->stopped = (struct advisor_sweep){.from = rc == KVT_OK ? next : 0};
    *sweep = pass->stopped;
    sweep->rules = rules;
    if (sweep->from == 0)
        end(plan->planner);
}

/* An open plan has tiers for itself.  A pass is over all of them: it waits as a whole, for what it
 * left out would have to wait for the next. */
static bool
is_held(const struct advisor_planner *planner)
{
    for (uint32_t i = 0; i < planner->tier_count; i++)
        if (planner->tiers[i].held)
            return true;
    return false;
}

void
advisor_planner_sweep(struct advisor_tick *plan)
{
    struct advisor_planner *planner = plan->planner;
    struct pass pass = {.plan = plan, .began_ms = planner->options.slice_clock()};
    bool sweeps;

    if (planner->sweeping > 0 || planner->store == NULL || is_held(planner))
        return; /* one set at a time */
    sweeps = advisor_rule_set_any(&planner->sweep.rules) || begin(plan);
    if (!sweeps && planner->news_count == 0)
        return;
    advisor_tick_begin_set(plan, false);
    if (plan->asker.txn.handle == NULL &&
        advisor_store_read(planner->store, &plan->asker.txn, NULL) != KVT_OK)
        return;
    look_at_all_news(&pass);
    if (sweeps)
        look_at_rows(&pass);
    advisor_tick_order(plan, true);
}
