#include "advisor/selection/active_rules.h"

#include <stdio.h>
#include <string.h>

#include "advisor/selection/pins.h"
#include "advisor/selection/planned_moves.h"
#include "advisor/selection/planner_tables.h"
#include "advisor/selection/tenant_quotas.h"
#include "advisor/selection/watermark.h"
#include "base/core/log.h"

/* ---- the version in force ---- */

/* Do the rules look at more of a block than where it is? */
static bool
ask_rows(const struct policy *policy)
{
    for (size_t i = 0; i < policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(policy, i);

        if (rule->when != NULL || rule->protect_recent > 0 || rule->verb == POLICY_PIN)
            return true;
    }
    return false;
}

/* Do they count a block's children?  That looks at each of them. */
static bool
ask_fanout(const struct policy *policy)
{
    for (size_t i = 0; i < policy->rules.count; i++)
        if (policy_rule_at(policy, i)->when != NULL &&
            policy_expression_uses(policy_rule_at(policy, i)->when, POLICY_FACT_FANOUT))
            return true;
    for (size_t i = 0; i < policy->classes.count; i++)
        if (policy_class_at(policy, i)->when != NULL &&
            policy_expression_uses(policy_class_at(policy, i)->when, POLICY_FACT_FANOUT))
            return true;
    return false;
}

static bool
ask_price(const struct policy *policy)
{
    for (size_t i = 0; i < policy->rules.count; i++)
        if (policy_rule_at(policy, i)->verb == POLICY_PROMOTE &&
            policy_rule_at(policy, i)->promote_by == POLICY_BY_PRICE)
            return true;
    return false;
}

static bool
ask_event(const struct policy *policy, enum policy_event event)
{
    for (size_t i = 0; i < policy->rules.count; i++)
        if ((policy_rule_at(policy, i)->on & (uint32_t)event) != 0)
            return true;
    return false;
}

static void
take_states(struct advisor_planner *planner, const struct policy *policy)
{
    struct advisor_rule_state *former = planner->former_rules;

    memcpy(former, planner->rule_states, sizeof(planner->rule_states));
    memset(planner->rule_states, 0, sizeof(planner->rule_states));
    for (size_t i = 0; i < policy->rules.count && i < ADVISOR_RULES_MAX; i++) {
        const char *id = policy_rule_at(policy, i)->id;
        struct advisor_rule_state *state = &planner->rule_states[i];

        for (size_t k = 0; k < planner->rule_count; k++)
            if (strcmp(former[k].id, id) == 0)
                *state = former[k];
        (void)snprintf(state->id, sizeof(state->id), "%s", id);
    }
    planner->rule_count = (uint32_t)policy->rules.count;
}

/* Does anything ever ask for what the rule does? */
static bool
is_followed(const struct policy_rule *rule)
{
    const uint32_t news = POLICY_ON_STORED | POLICY_ON_LAST_HOLDER_REMOVED | POLICY_ON_SESSION_END;

    switch ((enum policy_verb)rule->verb) {
    case POLICY_DEMOTE:
    case POLICY_EXPIRE: return rule->on == 0 || (rule->on & news) != 0;
    case POLICY_PROMOTE:
        return rule->on == 0 || (rule->on & (news | (uint32_t)POLICY_ON_SECOND_COLD_HIT)) != 0;
    case POLICY_EXCLUDE:
    case POLICY_COMPACT:
    case POLICY_PIN: return true;
    }
    return false;
}

/* It waits for reads that policy.promote_after says nobody counts. */
static bool
waits_for_no_read(const struct advisor_planner *planner, const struct policy_rule *rule)
{
    return planner->options.promote_after == 0 && rule->verb == POLICY_PROMOTE &&
           (rule->on & (uint32_t)POLICY_ON_SECOND_COLD_HIT) != 0;
}

static void
say_unfollowed(const struct advisor_planner *planner, const struct policy *policy)
{
    for (size_t i = 0; i < policy->rules.count; i++)
        if (waits_for_no_read(planner, policy_rule_at(policy, i)))
            kvt_log_warn("advisor.planner", "unfollowed",
                         "rule %s brings nothing up that is read from a bucket: the setting "
                         "policy.promote_after is 0; set it to 2 and restart",
                         policy_rule_at(policy, i)->id);
    for (size_t i = 0; i < policy->rules.count; i++)
        if (!is_followed(policy_rule_at(policy, i)))
            kvt_log_warn("advisor.planner", "unfollowed",
                         "rule %s is not acted on: see \"What the advisor acts on\" in "
                         "docs/policies.md",
                         policy_rule_at(policy, i)->id);
}

bool
advisor_planner_adopt(struct advisor_planner *planner)
{
    const struct advisor_rules *rules;

    if (planner->options.rulebook == NULL)
        return false;
    rules = advisor_rulebook_take(planner->options.rulebook);
    if (planner->rules == rules) {
        advisor_rulebook_give(planner->options.rulebook, rules);
        return false;
    }
    advisor_rulebook_give(planner->options.rulebook, planner->rules);
    planner->rules = rules;
    planner->asks_rows = ask_rows(rules->policy);
    planner->asks_fanout = ask_fanout(rules->policy);
    planner->by_price = ask_price(rules->policy);
    planner->hears_stored = ask_event(rules->policy, POLICY_ON_STORED);
    planner->hears_lost = ask_event(rules->policy, POLICY_ON_LAST_HOLDER_REMOVED);
    planner->hears_ends = ask_event(rules->policy, POLICY_ON_SESSION_END);
    planner->news_count = 0;
    planner->compact_at = 0;
    planner->edges_changed = true;
    take_states(planner, rules->policy);
    say_unfollowed(planner, rules->policy);
    planner->sweep = (struct advisor_sweep){.from = 0};
    for (uint32_t i = 0; i < planner->tier_count; i++) {
        struct advisor_tier *tier = &planner->tiers[i];

        tier->place = advisor_rules_tier(rules, tier->name);
        memset(tier->kept, 0, sizeof(tier->kept));
        tier->draining = (struct advisor_rule_set){.bits = {0}};
        tier->resuming = true; /* what one version passed over another may take */
    }
    advisor_planner_follow_quotas(planner);
    return true;
}

/* ---- what a rule may do ---- */

static const struct policy_rule *
rule_at(const struct advisor_planner *planner, int32_t rule)
{
    return policy_rule_at(planner->rules->policy, (size_t)rule);
}

static void
stop(struct advisor_planner *planner, int32_t rule, enum advisor_rule_stop why, uint64_t until_ms)
{
    struct advisor_rule_state *state = &planner->rule_states[rule];

    state->resume_ms = until_ms;
    if (state->stop != why)
        kvt_log_info("advisor.planner", "limit", "rule %s stops for a while: %s", state->id,
                     advisor_rule_stop_text(why));
    state->stop = why;
}

const char *
advisor_rule_stop_text(enum advisor_rule_stop why)
{
    switch (why) {
    case ADVISOR_RULE_ACTS: return "";
    case ADVISOR_RULE_SUSPENDED: return "too many of its moves failed (limits.suspend_if_errors)";
    case ADVISOR_RULE_RATE: return "it moved what limits.rate allows";
    case ADVISOR_RULE_PER_RUN: return "its run moved limits.per_run blocks";
    case ADVISOR_RULE_MAX_DELETE: return "its run deleted modes.max_delete blocks";
    case ADVISOR_RULE_FULL:
        return "the tier it moves blocks to is full, and is to be drained first";
    case ADVISOR_RULE_NO_EDGE:
        return "no gateway has both the tier it moves from and the one it moves to";
    }
    return "";
}

bool
advisor_planner_rests(const struct advisor_planner *planner, int32_t rule, uint64_t now_ms)
{
    return now_ms < planner->rule_states[rule].resume_ms;
}

enum advisor_rule_stop
advisor_planner_may(struct advisor_planner *planner, int32_t rule, uint64_t now_ms)
{
    const struct policy_rule *row = rule_at(planner, rule);
    const uint64_t max_delete = planner->rules->policy->modes.max_delete;
    const uint64_t looks_ms = 2 * planner->options.interval_ms;
    const uint64_t burst_ms = looks_ms > POLICY_RATE_BURST_MS ? looks_ms : POLICY_RATE_BURST_MS;
    struct advisor_rule_state *state = &planner->rule_states[rule];

    if (advisor_planner_rests(planner, rule, now_ms))
        return state->stop;
    if (state->resume_ms != 0) {
        state->resume_ms = 0;
        state->run_blocks = 0;
    }
    state->stop = ADVISOR_RULE_ACTS;
    if (row->limits.per_run > 0 && state->run_blocks >= row->limits.per_run)
        stop(planner, rule, ADVISOR_RULE_PER_RUN, now_ms + ADVISOR_RULE_REST_MS);
    else if (row->verb == POLICY_EXPIRE && max_delete > 0 && state->run_blocks >= max_delete)
        stop(planner, rule, ADVISOR_RULE_MAX_DELETE, now_ms + ADVISOR_RULE_REST_MS);
    if (state->stop != ADVISOR_RULE_ACTS || row->limits.rate == 0)
        return state->stop;
    if (!policy_rate_may(&state->rate, row->limits.rate, burst_ms, now_ms))
        state->stop = ADVISOR_RULE_RATE;
    return state->stop;
}

void
advisor_planner_did(struct advisor_planner *planner, int32_t rule, uint64_t bytes, uint64_t now_ms)
{
    struct advisor_rule_state *state = &planner->rule_states[rule];

    state->ordered++;
    state->run_blocks++;
    state->bytes += bytes;
    state->last_ms = now_ms;
    if (rule_at(planner, rule)->limits.rate > 0)
        policy_rate_use(&state->rate, bytes);
}

void
advisor_planner_end_run(struct advisor_planner *planner, int32_t rule)
{
    planner->rule_states[rule].run_blocks = 0;
}

void
advisor_planner_learn(struct advisor_planner *planner, int32_t rule, uint32_t done, uint32_t failed,
                      uint64_t now_ms)
{
    const uint64_t share = rule_at(planner, rule)->limits.suspend_if_errors;
    struct advisor_rule_state *state = &planner->rule_states[rule];
    uint64_t all;

    state->moved += done;
    state->refused += failed;
    state->window_done += done;
    state->window_failed += failed;
    all = state->window_done + state->window_failed;
    if (share > 0 && share < 1000000 && state->window_failed >= ADVISOR_RULE_ERRORS_MIN &&
        state->window_failed * 1000000 >= share * all) {
        state->pause_ms = state->pause_ms == 0 ? ADVISOR_RULE_PAUSE_MS : state->pause_ms * 2;
        if (state->pause_ms > ADVISOR_RULE_PAUSE_LAST_MS)
            state->pause_ms = ADVISOR_RULE_PAUSE_LAST_MS;
        stop(planner, rule, ADVISOR_RULE_SUSPENDED, now_ms + state->pause_ms);
        state->window_done = state->window_failed = 0;
    } else if (all >= KVT_ORDER_ITEMS_MAX) {
        state->pause_ms = 0; /* it went well for a while */
        state->window_done = state->window_failed = 0;
    }
}

/* ---- asking about blocks ---- */

void
advisor_asker_begin(struct advisor_asker *asker, struct advisor_planner *planner,
                    const struct advisor_rules *rules, uint64_t now_ms)
{
    *asker = (struct advisor_asker){
        .planner = planner,
        .rules = rules,
        .now_ms = now_ms,
        .asks_rows = rules == planner->rules ? planner->asks_rows : ask_rows(rules->policy),
        .asks_fanout = rules == planner->rules ? planner->asks_fanout : ask_fanout(rules->policy)};
}

void
advisor_asker_end(struct advisor_asker *asker)
{
    advisor_store_end(&asker->txn);
    advisor_store_block_release(&asker->row);
}

static bool
has_moved(const struct advisor_asker *asker, const struct advisor_store_block *row, uint32_t tier,
          enum advisor_change change)
{
    return advisor_planned_moves_has(asker->moved, &(struct advisor_copy){row->hash, row->ns, tier},
                                     change);
}

static int32_t
match_in(struct advisor_asker *asker, uint32_t number, const struct advisor_store_block *row,
         uint32_t ranks, enum policy_event event)
{
    const struct advisor_planner *planner = asker->planner;
    const struct advisor_tier *tier = &planner->tiers[number];
    const struct policy *policy = asker->rules->policy;
    const int32_t place = advisor_rules_tier(asker->rules, tier->name);
    const struct advisor_block_facts_source source = {
        .block = row,
        .rules = asker->rules,
        .namespace_ = advisor_name_table_namespace_text(planner->names, row->ns),
        .tier = place < 0 ? "" : policy_tier_at(policy, (size_t)place)->name,
        .ranks = ranks,
        .fill_ppm = advisor_block_facts_fill(
            tier->report.used_bytes,
            advisor_watermark_capacity(policy, place, tier->report.capacity_bytes)),
        .index = asker->asks_rows ? planner->options.index : NULL,
        .index_ns = advisor_name_table_index_namespace(planner->names, row->ns),
        .pinned = advisor_pins_has(planner->pins, row->ns, row->hash, asker->now_ms, NULL),
        .no_fanout = !asker->asks_fanout,
        .now_ms = asker->now_ms,
    };

    advisor_block_facts_of(&asker->facts, &source);
    if (has_moved(asker, row, ADVISOR_PLANNED_MOVES_ANYWHERE, ADVISOR_COPY_CAME))
        asker->facts.facts.last_access_ms = 0; /* what comes to a tier is used there */
    return policy_match(policy, &asker->facts.facts, event);
}

/* The rule, if it pins the block there; -1. */
static int32_t
pinned_in(struct advisor_asker *asker, uint32_t tier, const struct advisor_store_block *row,
          uint32_t ranks)
{
    const int32_t rule = match_in(asker, tier, row, ranks, POLICY_ON_NOTHING);

    return rule >= 0 && policy_rule_at(asker->rules->policy, (size_t)rule)->verb == POLICY_PIN
               ? rule
               : -1;
}

/* Deleting takes all copies of a block: a rule that pins one of them keeps the others.  -1: none
 * does. */
static int32_t
pinned_elsewhere(struct advisor_asker *asker, uint32_t number,
                 const struct advisor_store_block *row)
{
    const struct advisor_planner *planner = asker->planner;
    int32_t pin = -1;

    for (uint32_t i = 0; i < row->place_count && pin < 0; i++) {
        const uint32_t tier = advisor_planner_known_tier(planner, row->places[i].holder);

        if (tier != ADVISOR_NONE && tier != number && row->places[i].ranks != 0 &&
            !has_moved(asker, row, tier, ADVISOR_COPY_GONE))
            pin = pinned_in(asker, tier, row, row->places[i].ranks);
    }
    for (uint32_t i = 0; i < planner->tier_count && pin < 0 && asker->moved != NULL; i++)
        if (i != number && has_moved(asker, row, i, ADVISOR_COPY_CAME))
            pin = pinned_in(asker, i, row, 1);
    return pin;
}

int32_t
advisor_asker_rule_of_row(struct advisor_asker *asker, uint32_t tier,
                          const struct advisor_store_block *row, uint32_t ranks,
                          enum policy_event event)
{
    const int32_t rule = match_in(asker, tier, row, ranks, event);
    int32_t pin;

    asker->elsewhere = false;
    if (rule < 0 || policy_rule_at(asker->rules->policy, (size_t)rule)->verb != POLICY_EXPIRE)
        return rule;
    if (row->place_count < 2 && asker->moved == NULL)
        return rule;
    pin = pinned_elsewhere(asker, tier, row);
    asker->elsewhere = pin >= 0;
    /* Facts are those of this tier again where no other's keep the block. */
    return pin >= 0 ? pin : match_in(asker, tier, row, ranks, event);
}

int32_t
advisor_asker_rule(struct advisor_asker *asker, uint32_t tier, const struct policy_block *block,
                   enum policy_event event)
{
    struct advisor_store_block row = {.hash = block->hash,
                                      .parent = block->parent,
                                      .ns = block->ns,
                                      .position = block->position,
                                      .size = block->size};

    asker->unknown = false;
    if (!asker->asks_rows)
        return advisor_asker_rule_of_row(asker, tier, &row, block->ranks, event);
    asker->unknown = true;
    if (asker->txn.handle == NULL &&
        advisor_store_read(asker->planner->store, &asker->txn, NULL) != KVT_OK)
        return -1;
    if (advisor_store_get_block(&asker->txn, block->ns, block->hash, &asker->row) != KVT_OK)
        return -1; /* it went meanwhile */
    asker->unknown = false;
    return advisor_asker_rule_of_row(asker, tier, &asker->row, block->ranks, event);
}

bool
advisor_asker_pins_elsewhere(struct advisor_asker *asker, uint32_t tier,
                             const struct policy_block *block)
{
    bool pins;

    if (!asker->asks_rows || asker->unknown)
        return false; /* where a rule pins, rows are asked about */
    pins = pinned_elsewhere(asker, tier, &asker->row) >= 0;
    /* Facts are those of this tier again. */
    (void)match_in(asker, tier, &asker->row, block->ranks, POLICY_ON_NOTHING);
    return pins;
}
