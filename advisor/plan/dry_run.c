#include "advisor/plan/dry_run.h"

#include <stdio.h>
#include <string.h>

#include "advisor/order/order_ledger.h"
#include "advisor/plan/dry_run_private.h"
#include "advisor/selection/active_rules.h"
#include "advisor/selection/chooser.h"
#include "advisor/selection/edge.h"
#include "advisor/selection/planned_moves.h"
#include "advisor/selection/planner_tables.h"
#include "advisor/selection/quota_drain.h"
#include "advisor/selection/ranking.h"
#include "advisor/selection/ranking_change.h"
#include "advisor/selection/rule_set.h"
#include "advisor/selection/wanted_orderings.h"
#include "advisor/selection/watermark.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"

enum {
    LOOKS_A_CLOCK = 256, /* blocks between two looks at the clock */
    ROWS_A_CLOCK = 64,
};

/* What one tier lets go another has to take: the last of the policy first.  Of one place of the
 * policy in the planner's order. */
static void
set_order(struct advisor_dry_run *run)
{
    const struct advisor_planner *planner = run->planner;

    run->tier_count = 0;
    for (int32_t place = (int32_t)run->rules->policy->tiers.count - 1; place >= -1; place--)
        for (uint32_t i = 0; i < planner->tier_count; i++)
            if (advisor_rules_tier(run->rules, planner->tiers[i].name) == place)
                run->order[run->tier_count++] = i;
    run->tier = run->tier_count == 0 ? 0 : run->order[0];
}

/* From here on the planner drains nothing, so that what the tiers have is this, with what it only
 * observed. */
static void
begin_choosing(struct advisor_dry_run *run)
{
    struct advisor_planner *planner = run->planner;

    if (run->chooses)
        return;
    run->chooses = true;
    advisor_planner_forget_observed(planner, planner->now_ms);
    for (uint32_t i = 0; i < planner->tier_count; i++)
        run->used[i] = planner->tiers[i].report.used_bytes + planner->tiers[i].incoming;
}

/* It chooses no more once it is too old; a clock that stepped back makes it so too. */
static void
look_at_age(struct advisor_dry_run *run)
{
    if (run->ended || run->planner->now_ms - run->since_ms < ADVISOR_DRY_RUN_MS_MAX)
        return;
    run->choosing = false;
    run->rc = KVT_TIMEOUT;
}

/* The planner goes on. */
static void
end(struct advisor_dry_run *run)
{
    struct advisor_planner *planner = run->planner;

    if (run->ended)
        return;
    /* What was set aside comes back before anything leaves. */
    for (uint32_t i = 0; i < planner->tier_count; i++)
        planner->tiers[i].resuming = true;
    advisor_planner_end_plan_order(planner);
    planner->guest = NULL;
    run->ended = true;
}

/* At each tick of the planner. */
static void
end_if_late(void *arg)
{
    struct advisor_dry_run *run = arg;

    look_at_age(run);
    if (run->rc != KVT_TIMEOUT)
        return;
    kvt_log_warn("advisor.planner", "late", "a plan took too long, and was ended");
    end(run);
}

/* Has it begun to look at blocks, so that none may be chosen beside it? */
static bool
has_looked(const void *arg)
{
    return ((const struct advisor_dry_run *)arg)->chooses;
}

enum kvt_err
advisor_dry_run_new(struct advisor_dry_run **out, struct advisor_planner *planner,
                    const struct advisor_rules *rules, uint64_t now_ms)
{
    struct advisor_dry_run *run;

    *out = NULL;
    if (planner->guest != NULL)
        return KVT_BUSY;
    run = kvt_calloc(1, sizeof(*run));
    if (run == NULL)
        return KVT_NOMEM;
    run->planner = planner;
    run->rules = rules;
    run->now_ms = now_ms;
    run->since_ms = planner->now_ms;
    run->choosing = true;
    if (advisor_dry_run_quotas_new(run) != KVT_OK) {
        kvt_free(run);
        return KVT_NOMEM;
    }
    run->guest = (struct advisor_planner_guest){
        .end_if_late = end_if_late, .chooses = has_looked, .arg = run};
    planner->guest = &run->guest;
    *out = run;
    for (size_t i = 0; i < rules->policy->rules.count && planner->store != NULL; i++)
        run->sweeps |= advisor_rule_is_swept(policy_rule_at(rules->policy, i));
    set_order(run);
    return KVT_OK;
}

struct advisor_dry_run_pins
advisor_dry_run_pinned(const struct advisor_dry_run *run, int32_t rule)
{
    return run->pins[rule];
}

bool
advisor_dry_run_waits(const struct advisor_dry_run *run)
{
    return run->waits;
}

struct advisor_dry_run_miss
advisor_dry_run_missed(const struct advisor_dry_run *run)
{
    return run->miss;
}

bool
advisor_dry_run_is_cut(const struct advisor_dry_run *run)
{
    return run->cut || run->moves == ADVISOR_DRY_RUN_MOVES_MAX;
}

/* A roster never goes back in time, so the time that a plan is asked for must not lead it. */
static uint64_t
tick_of(const struct advisor_dry_run *run)
{
    const uint64_t clock_ms = run->planner->now_ms;

    return (run->now_ms < clock_ms ? run->now_ms : clock_ms) / ADVISOR_TICK_MS;
}

/* Is any of it to leave? */
static bool
is_drained(const struct advisor_dry_run *run)
{
    const struct advisor_tier *tier = &run->planner->tiers[run->tier];
    const struct policy *policy = run->rules->policy;
    const int32_t place = advisor_rules_tier(run->rules, tier->name);
    const uint64_t capacity =
        advisor_watermark_capacity(policy, place, tier->report.capacity_bytes);
    struct advisor_rule_set set = {.bits = {0}};

    if (run->rules == run->planner->rules)
        set = tier->draining; /* between the watermarks it goes on */
    if (tier->report_ms == 0 || capacity == 0)
        return false;
    advisor_watermark_rules(policy, place, advisor_dry_run_used(run, run->tier), capacity, &set);
    return advisor_rule_set_any(&set);
}

/* An order of the tier that is looked at could not be made. */
static void
note_miss(struct advisor_dry_run *run)
{
    const struct advisor_tier *tier = &run->planner->tiers[run->tier];
    const struct advisor_orders *own = &tier->ranking.orders;
    struct advisor_orders wanted;

    if (run->miss.wanted != NULL)
        return;
    advisor_wanted_orderings(run->planner->options.ordering, run->rules,
                             advisor_rules_tier(run->rules, tier->name), &wanted);
    for (uint32_t i = 0; i < wanted.count && run->miss.wanted == NULL; i++)
        if (advisor_orders_find(own, wanted.list[i]->name) == own->count)
            run->miss.wanted = wanted.list[i]->name;
    if (run->miss.wanted == NULL) /* those that it has are to stand in another order */
        run->miss.wanted = wanted.list[0]->name;
    run->miss.now = own->list[0]->name;
    (void)snprintf(run->miss.tier, sizeof(run->miss.tier), "%s", tier->name);
}

/* Find the order of the tier; false: it is being made. */
static bool
find_order(struct advisor_dry_run *run)
{
    const enum kvt_err rc =
        advisor_planner_plan_order(run->planner, run->rules, run->tier, &run->ranking);

    run->waits = rc == KVT_AGAIN;
    if (run->waits) {
        run->ranking = NULL;
        return false;
    }
    if (rc != KVT_OK)
        note_miss(run);
    begin_choosing(run);
    return true;
}

/* Set the chooser on the next tier; false: it drains nothing. */
static bool
begin_tier(struct advisor_dry_run *run)
{
    const struct advisor_tier *tier = &run->planner->tiers[run->tier];
    const struct policy *policy = run->rules->policy;
    const int32_t place = advisor_rules_tier(run->rules, tier->name);
    struct advisor_chooser *chooser = &run->chooser;

    *chooser = (struct advisor_chooser){.asker = run->asker,
                                        .tier = run->tier,
                                        .ranking = run->ranking,
                                        .used = advisor_dry_run_used(run, run->tier),
                                        .tick = tick_of(run),
                                        .everybody = false,
                                        .moved = advisor_dry_run_moved(run),
                                        .planned = run->used};
    if (run->rules == run->planner->rules) {
        chooser->set = tier->draining; /* between the watermarks it goes on */
        memcpy(run->kept, tier->kept, sizeof(run->kept));
        chooser->kept = run->kept;
    }
    chooser->capacity = advisor_watermark_capacity(policy, place, tier->report.capacity_bytes);
    if (tier->report_ms == 0 || chooser->capacity == 0)
        return false;
    advisor_watermark_rules(policy, place, chooser->used, chooser->capacity, &chooser->set);
    advisor_chooser_begin(chooser);
    chooser->acting = chooser->set;
    return advisor_rule_set_any(&chooser->set);
}

/* All that is looked at is set aside, chosen or not: so it comes back in the order it left. */
static void
set_aside(struct advisor_dry_run *run, const struct policy_block *block)
{
    advisor_ranking_pass_all(run->ranking, block->ns, block->hash);
}

bool
advisor_dry_run_tell(struct advisor_dry_run *run, const struct advisor_edge *edge,
                     const struct policy_block *block, int32_t rule, int32_t quota)
{
    const struct advisor_planner *planner = run->planner;
    const struct policy *policy = run->rules->policy;
    const struct advisor_copy copy = {block->hash, block->ns, edge->to};
    const struct advisor_dry_run_move move = {
        .verb = rule < 0 ? KVT_ORDER_DEMOTE
                         : advisor_rule_order_verb(policy_rule_at(policy, (size_t)rule)),
        .rule = rule,
        .quota = quota,
        .gateway = planner->gateways[edge->gateway].row.name,
        .tier = planner->tiers[edge->from].name,
        .to = edge->to == ADVISOR_NONE ? "" : planner->tiers[edge->to].name,
        .plain = advisor_edge_is_plain(planner, edge),
        .namespace_ = advisor_name_table_namespace_text(planner->names, block->ns),
        .block = *block,
        .bytes = advisor_planner_bytes(block),
        .classes = run->classes,
    };

    policy_classes_of(policy, &run->asker->facts.facts, run->classes);
    run->moves++;
    if (move.verb != KVT_ORDER_PROMOTE)
        run->used[edge->from] -=
            move.bytes < run->used[edge->from] ? move.bytes : run->used[edge->from];
    if (edge->to != ADVISOR_NONE &&
        !advisor_quota_is_there(planner, advisor_dry_run_moved(run), &copy))
        run->used[edge->to] += move.bytes;
    advisor_dry_run_quotas_count(run, edge, block, move.verb, quota);
    return run->callback(run->arg, &move) && run->moves < ADVISOR_DRY_RUN_MOVES_MAX && !run->cut &&
           run->rc == KVT_OK;
}

static void
next_tier(struct advisor_dry_run *run)
{
    run->begun = run->resumed = false;
    run->ranking = NULL;
    advisor_planner_end_plan_order(run->planner);
    run->step++;
    if (run->step < run->tier_count)
        run->tier = run->order[run->step];
}

void
advisor_dry_run_look_again(struct advisor_dry_run *run)
{
    const uint32_t step = run->step;

    for (uint32_t i = 0; i < step; i++) {
        run->tier = run->order[i];
        if (!is_drained(run))
            continue;
        run->begun = run->resumed = false;
        run->ranking = NULL;
        advisor_planner_end_plan_order(run->planner);
        run->step = i;
        return;
    }
    if (step < run->tier_count)
        run->tier = run->order[step];
}

/* One block.  False: no more moves are wanted. */
static bool
look(struct advisor_dry_run *run)
{
    struct policy_block block;
    int32_t rule;

    switch (advisor_chooser_next(&run->chooser, &block, &rule)) {
    case ADVISOR_PASSED: return true;
    case ADVISOR_HELD: set_aside(run, &block); return true;
    case ADVISOR_CHOSEN:
        set_aside(run, &block);
        /* An order of the plan's own does not hear what leaves meanwhile. */
        if (!policy_tier_blocks_has(run->planner->tiers[run->tier].roster, block.ns, block.hash))
            return true;
        return advisor_dry_run_tell(run, &run->chooser.edges[rule], &block, rule, -1);
    case ADVISOR_LAST:
    case ADVISOR_ENOUGH: break;
    }
    next_tier(run);
    return true;
}

/* ---- rules without a watermark ---- */

struct page {
    struct advisor_dry_run *run;
    bool enough; /* no more moves are wanted */
};

/* What a rule does with the copy in one tier.  True: all copies of the block are gone then. */
static bool
sweep_copy(struct page *page, uint32_t tier, const struct policy_block *block, int32_t rule)
{
    struct advisor_dry_run *run = page->run;
    const struct policy_rule *row = policy_rule_at(run->rules->policy, (size_t)rule);
    struct advisor_edge edge;

    if (row->verb == POLICY_PIN) {
        run->pins[rule].blocks++;
        run->pins[rule].bytes += advisor_planner_bytes(block);
        return false;
    }
    if (!policy_is_enforced(run->rules->policy, block->hash) ||
        !advisor_edge_of(run->planner, run->rules, row, tier, ADVISOR_NONE, run->planner->now_ms,
                         &edge) ||
        !advisor_edge_takes(run->planner, run->rules, row, &edge, block, run->used) ||
        (row->verb == POLICY_PROMOTE &&
         !advisor_dry_run_quotas_admit(run, block->ns, edge.to, advisor_planner_bytes(block))))
        return false;
    page->enough = !advisor_dry_run_tell(run, &edge, block, rule, -1);
    return row->verb == POLICY_EXPIRE;
}

static enum kvt_err
sweep_row(void *arg, const struct advisor_store_block *row)
{
    struct page *page = arg;
    struct advisor_planner *planner = page->run->planner;
    struct advisor_asker *asker = page->run->asker;
    bool gone = false;

    for (uint32_t i = 0; i < row->place_count && !gone && !page->enough; i++) {
        const uint32_t tier = advisor_planner_tier_of(planner, row->places[i].holder);
        const struct policy_block block = advisor_planner_block_of(row, row->places[i].ranks);
        int32_t rule;

        if (tier == ADVISOR_NONE || block.ranks == 0 ||
            advisor_rules_tier(page->run->rules, planner->tiers[tier].name) < 0 ||
            advisor_planned_moves_has(advisor_dry_run_moved(page->run),
                                      &(struct advisor_copy){row->hash, row->ns, tier},
                                      ADVISOR_COPY_GONE))
            continue;
        rule = advisor_asker_rule_of_row(asker, tier, row, block.ranks, POLICY_ON_NOTHING);
        if (asker->elsewhere)
            continue; /* it counts where it is pinned */
        if (rule >= 0 &&
            advisor_rule_is_swept(policy_rule_at(page->run->rules->policy, (size_t)rule)))
            gone = sweep_copy(page, tier, &block, rule);
    }
    return page->enough ? KVT_CANCELLED : KVT_OK;
}

/* Some rows.  False: those were all, or no more moves are wanted. */
static bool
sweep(struct advisor_dry_run *run)
{
    struct page page = {.run = run};
    struct advisor_asker *asker = run->asker;
    enum kvt_err rc = KVT_OK;

    asker->moved = NULL; /* a pass looks at each row once, as it is */

    if (asker->txn.handle == NULL)
        rc = advisor_store_read(run->planner->store, &asker->txn, NULL);
    if (rc == KVT_OK)
        rc = advisor_store_blocks(&asker->txn, run->row, ROWS_A_CLOCK, &run->row, sweep_row, &page);
    if (rc != KVT_OK && rc != KVT_CANCELLED)
        run->rc = rc;
    return rc == KVT_OK && run->row != 0;
}

/* ---- slices ---- */

static bool
is_time(uint64_t began_ms, uint32_t *looks)
{
    return ++*looks % LOOKS_A_CLOCK == 0 &&
           kvt_clock_mono_ms() - began_ms >= ADVISOR_DRY_RUN_SLICE_MS;
}

/* By watermarks.  False: the order of a tier is being made. */
static bool
drain(struct advisor_dry_run *run)
{
    if (run->ranking == NULL && !is_drained(run)) {
        next_tier(run);
    } else if (run->ranking == NULL) {
        return find_order(run);
    } else if (!run->resumed) {
        /* What one policy passed over another may take; and who comes first must be there. */
        run->resumed = !advisor_ranking_resume(run->ranking, LOOKS_A_CLOCK);
    } else if (!run->begun && !begin_tier(run)) {
        next_tier(run);
    } else {
        run->begun = true;
        run->choosing = look(run);
    }
    if (run->step == run->tier_count)
        advisor_dry_run_quotas_again(run);
    return true;
}

/* False: the slice is over. */
static bool
choose(struct advisor_dry_run *run, uint64_t began_ms)
{
    struct advisor_asker asker;
    bool over = false;
    uint32_t looks = 0;

    advisor_asker_begin(&asker, run->planner, run->rules, run->now_ms);
    asker.moved = advisor_dry_run_moved(run);
    run->asker = run->chooser.asker = &asker;
    while (run->choosing && !over) {
        if (run->step == run->tier_count)
            begin_choosing(run);
        if (run->chooses && advisor_dry_run_quotas_go_on(run)) {
            looks = LOOKS_A_CLOCK - 1; /* it is long, as a page of rows */
        } else if (run->choosing && run->step < run->tier_count) {
            if (!drain(run))
                break;
        } else if (run->choosing) {
            run->choosing = run->sweeps && sweep(run);
            looks = LOOKS_A_CLOCK - 1;
        }
        over = is_time(began_ms, &looks);
    }
    advisor_asker_end(&asker);
    run->asker = run->chooser.asker = NULL;
    return !run->choosing;
}

enum kvt_err
advisor_dry_run_step(struct advisor_dry_run *run, advisor_dry_run_fn *callback, void *arg)
{
    const uint64_t began_ms = kvt_clock_mono_ms();

    run->callback = callback;
    run->arg = arg;
    look_at_age(run);
    if (!run->chooses)
        run->since_ms = run->planner->now_ms;
    if (run->choosing && !choose(run, began_ms))
        return KVT_AGAIN;
    return run->rc;
}

void
advisor_dry_run_free(struct advisor_dry_run *run)
{
    if (run == NULL)
        return;
    end(run);
    advisor_dry_run_quotas_free(run);
    kvt_free(run);
}
