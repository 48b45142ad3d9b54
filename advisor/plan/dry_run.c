#include "advisor/plan/dry_run.h"

#include <stdio.h>
#include <string.h>

#include "advisor/choice/active_rules.h"
#include "advisor/choice/chooser.h"
#include "advisor/choice/edge.h"
#include "advisor/choice/planned_moves.h"
#include "advisor/choice/planner_tables.h"
#include "advisor/choice/quota_drain.h"
#include "advisor/choice/ranking.h"
#include "advisor/choice/ranking_change.h"
#include "advisor/choice/rule_set.h"
#include "advisor/choice/wanted_orders.h"
#include "advisor/choice/watermark.h"
#include "advisor/order/move_orders.h"
#include "advisor/plan/dry_run_private.h"
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
set_order(struct advisor_dry_run *preview)
{
    const struct advisor_planner *planner = preview->planner;

    preview->tier_count = 0;
    for (int32_t place = (int32_t)preview->rules->policy->tiers.count - 1; place >= -1; place--)
        for (uint32_t i = 0; i < planner->tier_count; i++)
            if (advisor_rules_tier(preview->rules, planner->tiers[i].name) == place)
                preview->order[preview->tier_count++] = i;
    preview->tier = preview->tier_count == 0 ? 0 : preview->order[0];
}

/* From here on the planner drains nothing, so that what the tiers have is this, with what it only
 * observed. */
static void
begin_choosing(struct advisor_dry_run *preview)
{
    struct advisor_planner *planner = preview->planner;

    if (preview->chooses)
        return;
    preview->chooses = true;
    advisor_planner_forget_observed(planner, planner->now_ms);
    for (uint32_t i = 0; i < planner->tier_count; i++)
        preview->used[i] = planner->tiers[i].report.used_bytes + planner->tiers[i].incoming;
}

/* It chooses no more once it is too old; a clock that stepped back makes it so too. */
static void
look_at_age(struct advisor_dry_run *preview)
{
    if (preview->ended || preview->planner->now_ms - preview->since_ms < ADVISOR_DRY_RUN_MS_MAX)
        return;
    preview->choosing = false;
    preview->rc = KVT_TIMEOUT;
}

/* The planner goes on. */
static void
end(struct advisor_dry_run *preview)
{
    struct advisor_planner *planner = preview->planner;

    if (preview->ended)
        return;
    /* What was set aside comes back before anything leaves. */
    for (uint32_t i = 0; i < planner->tier_count; i++)
        planner->tiers[i].resuming = true;
    advisor_planner_end_plan_order(planner);
    planner->guest = NULL;
    preview->ended = true;
}

/* At each tick of the planner. */
static void
end_if_late(void *arg)
{
    struct advisor_dry_run *preview = arg;

    look_at_age(preview);
    if (preview->rc != KVT_TIMEOUT)
        return;
    kvt_log_warn("advisor.planner", "late", "a plan took too long, and was ended");
    end(preview);
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
    struct advisor_dry_run *preview;

    *out = NULL;
    if (planner->guest != NULL)
        return KVT_BUSY;
    preview = kvt_calloc(1, sizeof(*preview));
    if (preview == NULL)
        return KVT_NOMEM;
    preview->planner = planner;
    preview->rules = rules;
    preview->now_ms = now_ms;
    preview->since_ms = planner->now_ms;
    preview->choosing = true;
    if (advisor_dry_run_quotas_new(preview) != KVT_OK) {
        kvt_free(preview);
        return KVT_NOMEM;
    }
    preview->guest = (struct advisor_planner_guest){
        .end_if_late = end_if_late, .chooses = has_looked, .arg = preview};
    planner->guest = &preview->guest;
    *out = preview;
    for (size_t i = 0; i < rules->policy->rules.count && planner->store != NULL; i++)
        preview->sweeps |= advisor_rule_is_swept(policy_rule_at(rules->policy, i));
    set_order(preview);
    return KVT_OK;
}

struct advisor_dry_run_pins
advisor_dry_run_pinned(const struct advisor_dry_run *preview, int32_t rule)
{
    return preview->pins[rule];
}

bool
advisor_dry_run_waits(const struct advisor_dry_run *preview)
{
    return preview->waits;
}

struct advisor_dry_run_miss
advisor_dry_run_missed(const struct advisor_dry_run *preview)
{
    return preview->miss;
}

bool
advisor_dry_run_is_cut(const struct advisor_dry_run *preview)
{
    return preview->cut || preview->moves == ADVISOR_DRY_RUN_MOVES_MAX;
}

/* A roster never goes back in time, so the time that a plan is asked for must not lead it. */
static uint64_t
tick_of(const struct advisor_dry_run *preview)
{
    const uint64_t clock_ms = preview->planner->now_ms;

    return (preview->now_ms < clock_ms ? preview->now_ms : clock_ms) / ADVISOR_TICK_MS;
}

/* Is any of it to leave? */
static bool
is_drained(const struct advisor_dry_run *preview)
{
    const struct advisor_tier *tier = &preview->planner->tiers[preview->tier];
    const struct policy *policy = preview->rules->policy;
    const int32_t place = advisor_rules_tier(preview->rules, tier->name);
    const uint64_t capacity =
        advisor_watermark_capacity(policy, place, tier->report.capacity_bytes);
    struct advisor_rule_set set = {.bits = {0}};

    if (preview->rules == preview->planner->rules)
        set = tier->draining; /* between the watermarks it goes on */
    if (tier->report_ms == 0 || capacity == 0)
        return false;
    advisor_watermark_rules(policy, place, advisor_dry_run_used(preview, preview->tier), capacity,
                            &set);
    return advisor_rule_set_any(&set);
}

/* An order of the tier that is looked at could not be made. */
static void
note_miss(struct advisor_dry_run *preview)
{
    const struct advisor_tier *tier = &preview->planner->tiers[preview->tier];
    const struct advisor_orders *own = &tier->ranking.orders;
    struct advisor_orders wanted;

    if (preview->miss.wanted != NULL)
        return;
    advisor_wanted_orders(preview->planner->options.ordering, preview->rules,
                          advisor_rules_tier(preview->rules, tier->name), &wanted);
    for (uint32_t i = 0; i < wanted.count && preview->miss.wanted == NULL; i++)
        if (advisor_orders_find(own, wanted.list[i]->name) == own->count)
            preview->miss.wanted = wanted.list[i]->name;
    if (preview->miss.wanted == NULL) /* those that it has are to stand in another order */
        preview->miss.wanted = wanted.list[0]->name;
    preview->miss.now = own->list[0]->name;
    (void)snprintf(preview->miss.tier, sizeof(preview->miss.tier), "%s", tier->name);
}

/* Find the order of the tier; false: it is being made. */
static bool
find_order(struct advisor_dry_run *preview)
{
    const enum kvt_err rc = advisor_planner_plan_order(preview->planner, preview->rules,
                                                       preview->tier, &preview->ranking);

    preview->waits = rc == KVT_AGAIN;
    if (preview->waits) {
        preview->ranking = NULL;
        return false;
    }
    if (rc != KVT_OK)
        note_miss(preview);
    begin_choosing(preview);
    return true;
}

/* Set the chooser on the next tier; false: it drains nothing. */
static bool
begin_tier(struct advisor_dry_run *preview)
{
    const struct advisor_tier *tier = &preview->planner->tiers[preview->tier];
    const struct policy *policy = preview->rules->policy;
    const int32_t place = advisor_rules_tier(preview->rules, tier->name);
    struct advisor_chooser *chooser = &preview->chooser;

    *chooser = (struct advisor_chooser){.asker = preview->asker,
                                        .tier = preview->tier,
                                        .ranking = preview->ranking,
                                        .used = advisor_dry_run_used(preview, preview->tier),
                                        .tick = tick_of(preview),
                                        .everybody = false,
                                        .moved = advisor_dry_run_moved(preview),
                                        .planned = preview->used};
    if (preview->rules == preview->planner->rules) {
        chooser->set = tier->draining; /* between the watermarks it goes on */
        memcpy(preview->kept, tier->kept, sizeof(preview->kept));
        chooser->kept = preview->kept;
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
set_aside(struct advisor_dry_run *preview, const struct policy_block *block)
{
    advisor_ranking_pass_all(preview->ranking, block->ns, block->hash);
}

bool
advisor_dry_run_tell(struct advisor_dry_run *preview, const struct advisor_edge *edge,
                     const struct policy_block *block, int32_t rule, int32_t quota)
{
    const struct advisor_planner *planner = preview->planner;
    const struct policy *policy = preview->rules->policy;
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
        .classes = preview->classes,
    };

    policy_classes_of(policy, &preview->asker->facts.facts, preview->classes);
    preview->moves++;
    if (move.verb != KVT_ORDER_PROMOTE)
        preview->used[edge->from] -=
            move.bytes < preview->used[edge->from] ? move.bytes : preview->used[edge->from];
    if (edge->to != ADVISOR_NONE &&
        !advisor_quota_is_there(planner, advisor_dry_run_moved(preview), &copy))
        preview->used[edge->to] += move.bytes;
    advisor_dry_run_quotas_count(preview, edge, block, move.verb, quota);
    return preview->callback(preview->arg, &move) && preview->moves < ADVISOR_DRY_RUN_MOVES_MAX &&
           !preview->cut && preview->rc == KVT_OK;
}

static void
next_tier(struct advisor_dry_run *preview)
{
    preview->begun = preview->resumed = false;
    preview->ranking = NULL;
    advisor_planner_end_plan_order(preview->planner);
    preview->step++;
    if (preview->step < preview->tier_count)
        preview->tier = preview->order[preview->step];
}

void
advisor_dry_run_look_again(struct advisor_dry_run *preview)
{
    const uint32_t step = preview->step;

    for (uint32_t i = 0; i < step; i++) {
        preview->tier = preview->order[i];
        if (!is_drained(preview))
            continue;
        preview->begun = preview->resumed = false;
        preview->ranking = NULL;
        advisor_planner_end_plan_order(preview->planner);
        preview->step = i;
        return;
    }
    if (step < preview->tier_count)
        preview->tier = preview->order[step];
}

/* One block.  False: no more moves are wanted. */
static bool
look(struct advisor_dry_run *preview)
{
    struct policy_block block;
    int32_t rule;

    switch (advisor_chooser_next(&preview->chooser, &block, &rule)) {
    case ADVISOR_PASSED: return true;
    case ADVISOR_HELD: set_aside(preview, &block); return true;
    case ADVISOR_CHOSEN:
        set_aside(preview, &block);
        /* An order of the plan's own does not hear what leaves meanwhile. */
        if (!policy_tier_blocks_has(preview->planner->tiers[preview->tier].roster, block.ns,
                                    block.hash))
            return true;
        return advisor_dry_run_tell(preview, &preview->chooser.edges[rule], &block, rule, -1);
    case ADVISOR_LAST:
    case ADVISOR_ENOUGH: break;
    }
    next_tier(preview);
    return true;
}

/* ---- rules without a watermark ---- */

struct page {
    struct advisor_dry_run *preview;
    bool enough; /* no more moves are wanted */
};

/* What a rule does with the copy in one tier.  True: all copies of the block are gone then. */
static bool
sweep_copy(struct page *page, uint32_t tier, const struct policy_block *block, int32_t rule)
{
    struct advisor_dry_run *preview = page->preview;
    const struct policy_rule *row = policy_rule_at(preview->rules->policy, (size_t)rule);
    struct advisor_edge edge;

    if (row->verb == POLICY_PIN) {
        preview->pins[rule].blocks++;
        preview->pins[rule].bytes += advisor_planner_bytes(block);
        return false;
    }
    if (!policy_is_enforced(preview->rules->policy, block->hash) ||
        !advisor_edge_of(preview->planner, preview->rules, row, tier, ADVISOR_NONE,
                         preview->planner->now_ms, &edge) ||
        !advisor_edge_takes(preview->planner, preview->rules, row, &edge, block, preview->used) ||
        (row->verb == POLICY_PROMOTE &&
         !advisor_dry_run_quotas_admit(preview, block->ns, edge.to, advisor_planner_bytes(block))))
        return false;
    page->enough = !advisor_dry_run_tell(preview, &edge, block, rule, -1);
    return row->verb == POLICY_EXPIRE;
}

static enum kvt_err
sweep_row(void *arg, const struct advisor_store_block *row)
{
    struct page *page = arg;
    struct advisor_planner *planner = page->preview->planner;
    struct advisor_asker *asker = page->preview->asker;
    bool gone = false;

    for (uint32_t i = 0; i < row->place_count && !gone && !page->enough; i++) {
        const uint32_t tier = advisor_planner_tier_of(planner, row->places[i].holder);
        const struct policy_block block = advisor_planner_block_of(row, row->places[i].ranks);
        int32_t rule;

        if (tier == ADVISOR_NONE || block.ranks == 0 ||
            advisor_rules_tier(page->preview->rules, planner->tiers[tier].name) < 0 ||
            advisor_planned_moves_has(advisor_dry_run_moved(page->preview),
                                      &(struct advisor_copy){row->hash, row->ns, tier},
                                      ADVISOR_COPY_GONE))
            continue;
        rule = advisor_asker_rule_of_row(asker, tier, row, block.ranks, POLICY_ON_NOTHING);
        if (asker->elsewhere)
            continue; /* it counts where it is pinned */
        if (rule >= 0 &&
            advisor_rule_is_swept(policy_rule_at(page->preview->rules->policy, (size_t)rule)))
            gone = sweep_copy(page, tier, &block, rule);
    }
    return page->enough ? KVT_CANCELLED : KVT_OK;
}

/* Some rows.  False: those were all, or no more moves are wanted. */
static bool
sweep(struct advisor_dry_run *preview)
{
    struct page page = {.preview = preview};
    struct advisor_asker *asker = preview->asker;
    enum kvt_err rc = KVT_OK;

    asker->moved = NULL; /* a pass looks at each row once, as it is */

    if (asker->txn.handle == NULL)
        rc = advisor_store_read(preview->planner->store, &asker->txn, NULL);
    if (rc == KVT_OK)
        rc = advisor_store_blocks(&asker->txn, preview->row, ROWS_A_CLOCK, &preview->row, sweep_row,
                                  &page);
    if (rc != KVT_OK && rc != KVT_CANCELLED)
        preview->rc = rc;
    return rc == KVT_OK && preview->row != 0;
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
drain(struct advisor_dry_run *preview)
{
    if (preview->ranking == NULL && !is_drained(preview)) {
        next_tier(preview);
    } else if (preview->ranking == NULL) {
        return find_order(preview);
    } else if (!preview->resumed) {
        /* What one policy passed over another may take; and who comes first must be there. */
        preview->resumed = !advisor_ranking_resume(preview->ranking, LOOKS_A_CLOCK);
    } else if (!preview->begun && !begin_tier(preview)) {
        next_tier(preview);
    } else {
        preview->begun = true;
        preview->choosing = look(preview);
    }
    if (preview->step == preview->tier_count)
        advisor_dry_run_quotas_again(preview);
    return true;
}

/* False: the slice is over. */
static bool
choose(struct advisor_dry_run *preview, uint64_t began_ms)
{
    struct advisor_asker asker;
    bool over = false;
    uint32_t looks = 0;

    advisor_asker_begin(&asker, preview->planner, preview->rules, preview->now_ms);
    asker.moved = advisor_dry_run_moved(preview);
    preview->asker = preview->chooser.asker = &asker;
    while (preview->choosing && !over) {
        if (preview->step == preview->tier_count)
            begin_choosing(preview);
        if (preview->chooses && advisor_dry_run_quotas_go_on(preview)) {
            looks = LOOKS_A_CLOCK - 1; /* it is long, as a page of rows */
        } else if (preview->choosing && preview->step < preview->tier_count) {
            if (!drain(preview))
                break;
        } else if (preview->choosing) {
            preview->choosing = preview->sweeps && sweep(preview);
            looks = LOOKS_A_CLOCK - 1;
        }
        over = is_time(began_ms, &looks);
    }
    advisor_asker_end(&asker);
    preview->asker = preview->chooser.asker = NULL;
    return !preview->choosing;
}

enum kvt_err
advisor_dry_run_step(struct advisor_dry_run *preview, advisor_dry_run_fn *callback, void *arg)
{
    const uint64_t began_ms = kvt_clock_mono_ms();

    preview->callback = callback;
    preview->arg = arg;
    look_at_age(preview);
    if (!preview->chooses)
        preview->since_ms = preview->planner->now_ms;
    if (preview->choosing && !choose(preview, began_ms))
        return KVT_AGAIN;
    return preview->rc;
}

void
advisor_dry_run_free(struct advisor_dry_run *preview)
{
    if (preview == NULL)
        return;
    end(preview);
    advisor_dry_run_quotas_free(preview);
    kvt_free(preview);
}
