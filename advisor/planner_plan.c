#include <stdio.h>
#include <string.h>

#include "advisor/planner_choose.h"
#include "advisor/planner_private.h"
#include "base/alloc.h"
#include "base/log.h"

/* From how full the tiers are to orders. */

struct plan {
    struct advisor_planner *planner;
    const struct policy *policy;
    struct advisor_set *set;
    struct advisor_asker asker;
    uint64_t now_ms;
    bool observed;
};

/* ---- orders ---- */

static bool
is_first_of_its_kind(const struct advisor_set *set, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++)
        if (set->blocks[i].ns == set->blocks[at].ns && set->rules[i] == set->rules[at])
            return false;
    return true;
}

static uint32_t
verb_of(const struct policy_rule *rule)
{
    switch ((enum policy_verb)rule->verb) {
    case POLICY_DEMOTE: return KVT_ORDER_DEMOTE;
    case POLICY_PROMOTE: return KVT_ORDER_PROMOTE;
    case POLICY_EXPIRE: return KVT_ORDER_DELETE;
    case POLICY_PIN:
    case POLICY_COMPACT:
    case POLICY_EXCLUDE: break;
    }
    return KVT_ORDER_NONE;
}

/* Those of the set with the rule and namespace of block number `first`. */
static enum kvt_err
order_kind(const struct plan *plan, const struct advisor_order *model, uint32_t first)
{
    const struct advisor_set *set = plan->set;
    const uint32_t ns = set->blocks[first].ns;
    const int32_t rule = set->rules[first];
    struct advisor_order order = *model;

    order.ns = ns;
    order.rule = (uint32_t)rule + 1;
    order.rules_version = plan->planner->rules->version;
    order.row.verb = verb_of(policy_rule_at(plan->policy, (size_t)rule));
    order.items = kvt_calloc(set->count, sizeof(*order.items));
    if (order.items == NULL)
        return KVT_NOMEM;
    (void)snprintf(order.row.reason, sizeof(order.row.reason), "%s",
                   policy_rule_at(plan->policy, (size_t)rule)->id);
    (void)snprintf(order.row.namespace_, sizeof(order.row.namespace_), "%s",
                   advisor_names_namespace_text(plan->planner->names, ns));
    for (uint32_t i = first; i < set->count; i++) {
        const struct policy_block *block = &set->blocks[i];

        if (block->ns != ns || set->rules[i] != rule)
            continue;
        order.items[order.row.items++] = (struct kvt_order_item){
            .block = {.hash = block->hash, .parent = block->parent, .position = block->position},
            .ranks = block->ranks,
        };
        order.row.bytes += advisor_planner_bytes(block);
    }
    return advisor_planner_add_order(plan->planner, &order);
}

/* The set as orders, one for each rule and namespace in it. */
static enum kvt_err
order_set(const struct plan *plan, struct advisor_order *model)
{
    const struct advisor_set *set = plan->set;
    enum kvt_err rc = KVT_OK;

    model->row.issued_ms = plan->now_ms;
    model->row.expires_ms = plan->now_ms + plan->planner->options.expiry_ms;
    model->row.state = plan->observed ? ADVISOR_ORDER_OBSERVED : ADVISOR_ORDER_PENDING;
    for (uint32_t i = 0; i < set->count && rc == KVT_OK; i++)
        if (is_first_of_its_kind(set, i))
            rc = order_kind(plan, model, i);
    return rc;
}

static void
add(struct advisor_set *set, const struct policy_block *block, int32_t rule)
{
    set->blocks[set->count] = *block;
    set->rules[set->count++] = rule;
}

/* Order what was chosen to leave, or put it back. */
static void
order_leaving(const struct plan *plan, uint32_t number)
{
    const struct advisor_tier *tier = &plan->planner->tiers[number];
    struct advisor_order model = {.tier = number};

    memcpy(model.row.gateway, plan->planner->gateways[tier->gateway].row.name,
           sizeof(model.row.gateway));
    if (order_set(plan, &model) == KVT_OK)
        return;
    for (uint32_t i = 0; i < plan->set->count; i++)
        policy_roster_give_back(tier->roster, plan->set->blocks[i].ns, plan->set->blocks[i].hash);
}

/* ---- draining ---- */

/* Is there nothing to choose but what may not leave?  Said once each time. */
static void
see_stuck(const struct plan *plan, uint32_t number, bool last)
{
    struct advisor_tier *tier = &plan->planner->tiers[number];
    const size_t refused = advisor_refusals_count(plan->planner->refusals, number);
    struct policy_roster_counts counts;
    bool stuck;

    policy_roster_counts(tier->roster, &counts);
    /* A rule that wants some blocks only may well have had them all. */
    stuck =
        last && plan->set->count == 0 &&
        advisor_rule_set_has(&tier->draining, advisor_chooser_last(plan->policy, tier->place)) &&
        (refused > 0 || tier->return_ms != 0 || counts.passed > 0);
    if (stuck && !tier->stuck)
        kvt_log_warn("advisor.planner", "stuck",
                     "%s is to be drained, and nothing is left to choose: its gateway let %zu "
                     "blocks not go (are they pinned?), and %u are of no rule that drains it now",
                     tier->name, refused, counts.passed);
    tier->stuck = stuck;
}

/* What was passed over comes back: when other rules begin, and a while after there was nothing else
 * to choose. */
static void
resume(const struct plan *plan, struct advisor_tier *tier)
{
    struct policy_roster_counts counts;

    policy_roster_counts(tier->roster, &counts);
    if (counts.passed == 0)
        tier->resuming = false;
    if (!tier->resuming && (counts.passed == 0 || tier->exhausted_ms == 0 ||
                            plan->now_ms < tier->exhausted_ms + ADVISOR_PASS_MS))
        return;
    tier->resuming = policy_roster_resume(tier->roster, ADVISOR_RESUME_MAX) < counts.passed;
    tier->exhausted_ms = 0;
}

static void
exhausted(const struct plan *plan, struct advisor_tier *tier)
{
    if (tier->exhausted_ms == 0)
        tier->exhausted_ms = plan->now_ms;
}

static bool
set_watermarks(const struct plan *plan, struct advisor_tier *tier, uint64_t capacity)
{
    const struct advisor_rule_set before = tier->draining;

    advisor_chooser_watermarks(plan->policy, tier->place, tier->report.used_bytes, capacity,
                               &tier->draining);
    for (int32_t i = 0; i < (int32_t)plan->policy->rules.count; i++) {
        const bool now = advisor_rule_set_has(&tier->draining, i);

        if (now == advisor_rule_set_has(&before, i))
            continue;
        advisor_planner_end_run(plan->planner, i);
        tier->resuming = tier->resuming || now;
    }
    if (!advisor_rule_set_any(&tier->draining))
        exhausted(plan, tier); /* what was passed over is not needed until it drains again */
    return advisor_rule_set_any(&tier->draining);
}

/* The block leaves by its rule; a rule that is at a limit then takes no more. */
static void
take(struct plan *plan, struct advisor_chooser *chooser, const struct policy_block *block,
     int32_t rule)
{
    add(plan->set, block, rule);
    advisor_planner_did(plan->planner, rule, advisor_planner_bytes(block), plan->now_ms);
    if (advisor_planner_may(plan->planner, rule, plan->now_ms) != ADVISOR_RULE_ACTS)
        advisor_rule_set_put(&chooser->acting, rule, false);
}

/* Take blocks out until each rule is at its stop or at a limit, or a set is full.  True: none is
 * left. */
static bool
choose(struct plan *plan, uint32_t number, uint64_t capacity)
{
    struct advisor_planner *planner = plan->planner;
    struct advisor_tier *tier = &planner->tiers[number];
    struct advisor_set *set = plan->set;
    struct advisor_chooser chooser = {.asker = &plan->asker,
                                      .tier = number,
                                      .set = tier->draining,
                                      .acting = tier->draining,
                                      .capacity = capacity,
                                      .used = tier->report.used_bytes,
                                      .tick = plan->now_ms / ADVISOR_TICK_MS,
                                      .everybody = plan->observed};
    enum advisor_choice choice = ADVISOR_PASSED;

    for (int32_t i = 0; i < (int32_t)plan->policy->rules.count; i++)
        if (advisor_rule_set_has(&chooser.set, i) &&
            advisor_planner_may(planner, i, plan->now_ms) != ADVISOR_RULE_ACTS)
            advisor_rule_set_put(&chooser.acting, i, false);
    for (uint32_t looks = 0; looks < ADVISOR_LOOKS_MAX && set->count < KVT_ORDER_ITEMS_MAX &&
                             choice != ADVISOR_LAST && choice != ADVISOR_ENOUGH;
         looks++) {
        struct policy_block block;
        int32_t rule;

        choice = advisor_chooser_next(&chooser, &block, &rule);
        if (choice == ADVISOR_CHOSEN)
            take(plan, &chooser, &block, rule);
        if (choice == ADVISOR_HELD)
            set->held[set->held_count++] = block;
    }
    if (choice == ADVISOR_LAST)
        exhausted(plan, tier);
    for (uint32_t i = 0; i < set->held_count; i++)
        policy_roster_give_back(tier->roster, set->held[i].ns, set->held[i].hash);
    return choice == ADVISOR_LAST && set->held_count == 0;
}

/* Blocks that should leave although there is room. */
static void
choose_due(struct plan *plan, uint32_t number)
{
    struct advisor_planner *planner = plan->planner;
    struct policy_roster *roster = planner->tiers[number].roster;
    const uint64_t tick = plan->now_ms / ADVISOR_TICK_MS;
    struct policy_block block;

    for (uint32_t looks = 0; looks < ADVISOR_LOOKS_MAX && plan->set->count < KVT_ORDER_ITEMS_MAX;
         looks++) {
        int32_t rule;

        if (!policy_roster_due(roster, tick, &block))
            return;
        rule = advisor_asker_rule(&plan->asker, number, &block, POLICY_ON_NOTHING);
        if (rule >= 0 && advisor_rule_drains(policy_rule_at(plan->policy, (size_t)rule)) &&
            policy_rule_at(plan->policy, (size_t)rule)->verb == POLICY_DEMOTE &&
            advisor_planner_may(planner, rule, plan->now_ms) == ADVISOR_RULE_ACTS) {
            add(plan->set, &block, rule);
            advisor_planner_did(planner, rule, advisor_planner_bytes(&block), plan->now_ms);
        } else {
            policy_roster_pass(roster, block.ns, block.hash);
        }
    }
}

static void
drain(struct plan *plan, uint32_t number)
{
    struct advisor_tier *tier = &plan->planner->tiers[number];
    const uint64_t capacity =
        advisor_chooser_capacity(plan->policy, tier->place, tier->report.capacity_bytes);
    const bool draining = capacity > 0 && set_watermarks(plan, tier, capacity);

    if (!draining)
        tier->stuck = false;
    /* One set at a time, and nothing while the bucket is away: its copies could not be checked. */
    if (capacity == 0 || tier->leaving > 0 || !plan->planner->gateways[tier->gateway].healthy)
        return;
    resume(plan, tier);
    if (tier->resuming)
        return; /* the next to leave may be among them */
    plan->set->count = plan->set->held_count = 0;
    if (draining)
        see_stuck(plan, number, choose(plan, number, capacity));
    else if (tier->hot) /* a bucket is no place that anything leaves for being idle */
        choose_due(plan, number);
    order_leaving(plan, number);
}

/* ---- promoting ---- */

/* The rule that brings the block up to that tier; -1: none does. */
static int32_t
promoter(struct plan *plan, const struct advisor_candidate *candidate, int32_t place)
{
    const int32_t rule = advisor_asker_rule(&plan->asker, candidate->tier, &candidate->block,
                                            POLICY_ON_SECOND_COLD_HIT);
    const struct policy_rule *row = rule < 0 ? NULL : policy_rule_at(plan->policy, (size_t)rule);

    if (row == NULL || row->verb != POLICY_PROMOTE || row->to.index != place || place < 0 ||
        !(plan->observed || advisor_planner_in_canary(plan->policy, candidate->block.hash)) ||
        advisor_planner_may(plan->planner, rule, plan->now_ms) != ADVISOR_RULE_ACTS)
        return -1;
    return rule;
}

static void
promote(struct plan *plan, struct advisor_gateway *gateway)
{
    struct advisor_planner *planner = plan->planner;
    struct advisor_order model = {.tier = gateway->hot};
    struct advisor_set *set = plan->set;
    const struct advisor_tier *tier;
    uint64_t limit;
    uint64_t used;
    int32_t last;

    if (gateway->candidate_count == 0)
        return;
    if (gateway->hot == ADVISOR_NONE || !gateway->healthy) {
        gateway->candidate_count = 0;
        return;
    }
    tier = &planner->tiers[gateway->hot];
    limit = advisor_chooser_capacity(plan->policy, tier->place, tier->report.capacity_bytes);
    last = advisor_chooser_last(plan->policy, tier->place);
    if (last >= 0)
        limit =
            advisor_chooser_mark(limit, policy_rule_at(plan->policy, (size_t)last)->trigger.start);
    used = tier->report.used_bytes;
    /* While it drains, what came in would push out something used more recently. */
    if (tier->coming > 0 || advisor_rule_set_has(&tier->draining, last) || used >= limit)
        return;
    set->count = 0;
    for (uint32_t i = 0; i < gateway->candidate_count; i++) {
        const struct advisor_candidate *candidate = &gateway->candidates[i];
        const uint64_t bytes = advisor_planner_bytes(&candidate->block);
        const int32_t rule = promoter(plan, candidate, tier->place);

        if (used + bytes > limit)
            break;
        if (rule < 0)
            continue;
        add(set, &candidate->block, rule);
        advisor_planner_did(planner, rule, bytes, plan->now_ms);
        used += bytes;
    }
    gateway->candidate_count = 0;
    memcpy(model.row.gateway, gateway->row.name, sizeof(model.row.gateway));
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
    struct plan plan = {.planner = planner, .now_ms = now_ms};
    enum advisor_mode mode;

    advisor_planner_adopt(planner);
    mode = planner->rules == NULL
               ? ADVISOR_MODE_OFF
               : advisor_rules_mode(planner->rules, advisor_planner_mode(planner));
    advisor_planner_expire(planner, now_ms);
    advisor_planner_end_pauses(planner, now_ms);
    advisor_planner_age_learned(planner, now_ms);
    advisor_planner_show(planner);
    if (mode == ADVISOR_MODE_OFF || advisor_planner_paused(planner) ||
        (mode == ADVISOR_MODE_ENFORCE && !planner->options.can_enforce))
        return;
    plan.policy = planner->rules->policy;
    plan.observed = mode == ADVISOR_MODE_OBSERVE;
    plan.set = kvt_calloc(1, sizeof(*plan.set));
    if (plan.set == NULL)
        return; /* next time */
    advisor_asker_begin(&plan.asker, planner, planner->rules, now_ms);
    for (uint32_t i = 0; i < planner->tier_count && planner->previews == 0; i++)
        if (!is_stale(planner->tiers[i].report_ms, now_ms))
            drain(&plan, i);
    for (uint32_t i = 0; i < planner->gateway_count; i++)
        if (!is_stale(planner->gateways[i].report_ms, now_ms))
            promote(&plan, &planner->gateways[i]);
    advisor_asker_end(&plan.asker);
    kvt_free(plan.set);
}
