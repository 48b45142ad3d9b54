#include "policy/simulate/policy_simulation_private.h"

/* What leaves a tier, and copies of what leaves next: as advisor/selection/chooser.c and
 * planner_prestage.c. */

enum {
    HELD_MAX = 8192,    /* blocks that a rule wants at another watermark, or has no room for */
    WAITING_MAX = 64,   /* of them, those without room: then nothing else is looked for */
    RESUME_MAX = 65536, /* of those set aside, at once */
};

#define REST_MS       UINT64_C(60000) /* what no rule took is looked at again after this */
#define REST_LEAST_MS UINT64_C(1000)
#define STAGE_REST_MS UINT64_C(5000) /* when all had their copies */

static uint64_t
budget_of(const struct policy_rule *rule, uint64_t capacity)
{
    if (!rule->pin.budget.is_ratio)
        return rule->pin.budget.value;
    return capacity == 0 ? UINT64_MAX : policy_simulation_mark(capacity, rule->pin.budget.value);
}

/* Does its schedule let the rule begin to drain?  Else it is asked again when it does. */
static bool
may_begin(const struct policy_simulation *simulation,
          struct policy_simulation_tier_state *tier_state, size_t rule)
{
    const uint64_t every = policy_rule_at(simulation->policy, rule)->schedule.every;
    const uint64_t due_ms = simulation->begun_ms[rule] - 1 + every;

    if (simulation->begun_ms[rule] == 0 || simulation->now_ms >= due_ms)
        return true;
    if (tier_state->due_ms == 0 || due_ms < tier_state->due_ms)
        tier_state->due_ms = due_ms;
    return false;
}

static void
set_watermarks(struct policy_simulation *simulation, uint32_t tier)
{
    struct policy_simulation_tier_state *tier_state = &simulation->tiers[tier];
    bool any = false;

    for (size_t i = 0; i < simulation->policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(simulation->policy, i);
        const bool before = tier_state->draining[i];

        if (!policy_simulation_drains(rule) || policy_rule_tier(rule) != (int32_t)tier)
            continue;
        if (tier_state->used <= policy_simulation_mark(tier_state->capacity, rule->trigger.stop))
            tier_state->draining[i] = false;
        else if (tier_state->used >=
                 policy_simulation_mark(tier_state->capacity, rule->trigger.start))
            tier_state->draining[i] = before || may_begin(simulation, tier_state, i);
        if (tier_state->draining[i] != before)
            policy_simulation_end_run(simulation, (int32_t)i);
        if (tier_state->draining[i] && !before)
            simulation->begun_ms[i] = simulation->now_ms + 1;
        tier_state->resuming = tier_state->resuming || (tier_state->draining[i] && !before);
        any = any || tier_state->draining[i];
    }
    if (!any && tier_state->exhausted_ms == 0)
        tier_state->exhausted_ms = simulation->now_ms + 1;
}

static uint64_t
rest_of(const struct policy_simulation *simulation,
        const struct policy_simulation_tier_state *tier_state)
{
    uint64_t rest_ms = REST_MS;

    for (size_t i = 0; i < simulation->policy->rules.count; i++) {
        const uint64_t recent_ms = policy_rule_at(simulation->policy, i)->protect_recent;

        if (tier_state->draining[i] && recent_ms > 0 && recent_ms < rest_ms)
            rest_ms = recent_ms < REST_LEAST_MS ? REST_LEAST_MS : recent_ms;
    }
    return rest_ms;
}

/* What was passed over comes back: when another rule begins, and a while after there was nothing
 * else to choose. */
static void
resume(const struct policy_simulation *simulation, struct policy_simulation_tier_state *tier_state)
{
    if (!tier_state->resuming &&
        (tier_state->exhausted_ms == 0 ||
         simulation->now_ms + 1 < tier_state->exhausted_ms + rest_of(simulation, tier_state)))
        return;
    while (policy_tier_blocks_resume(tier_state->roster, RESUME_MAX) == RESUME_MAX)
        continue;
    tier_state->resuming = false;
    tier_state->exhausted_ms = 0;
}

/* ---- rules that act ---- */

/* Those of a tier that take blocks out of it now, or have copies of them made. */
struct acting {
    bool set[POLICY_SIMULATION_RULES_MAX];      /* this is theirs */
    bool rules[POLICY_SIMULATION_RULES_MAX];    /* ... and no limit keeps them back */
    uint64_t mark[POLICY_SIMULATION_RULES_MAX]; /* down to which use they go */
};

static bool
wants(const struct acting *acting, uint64_t used, size_t rule)
{
    return acting->rules[rule] && used > acting->mark[rule];
}

static bool
has_enough(const struct policy_simulation *simulation, const struct acting *acting, uint64_t used)
{
    for (size_t i = 0; i < simulation->policy->rules.count; i++)
        if (wants(acting, used, i))
            return false;
    return true;
}

static bool
wants_copies(const struct policy_simulation_tier_state *tier_state, uint32_t tier,
             const struct policy_rule *rule)
{
    return policy_simulation_drains(rule) && rule->verb == POLICY_DEMOTE &&
           policy_rule_tier(rule) == (int32_t)tier && rule->trigger.prestage > 0 &&
           tier_state->used > policy_simulation_mark(tier_state->capacity, rule->trigger.prestage);
}

/* Rules that drain the tier, or with `prestage` those that want copies below at this fill.  False:
 * none does. */
static bool
find_acting(struct policy_simulation *simulation, uint32_t tier, bool prestage,
            struct acting *acting)
{
    const struct policy_simulation_tier_state *tier_state = &simulation->tiers[tier];
    bool any = false;

    for (size_t i = 0; i < simulation->policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(simulation->policy, i);
        const uint64_t mark = policy_simulation_mark(
            tier_state->capacity, prestage ? rule->trigger.prestage : rule->trigger.stop);

        acting->mark[i] = mark;
        acting->set[i] = prestage ? wants_copies(tier_state, tier, rule) : tier_state->draining[i];
        acting->rules[i] = acting->set[i] && tier_state->used > mark &&
                           policy_simulation_may_or_waits(simulation, (int32_t)i, true);
        any = any || acting->rules[i];
    }
    return any;
}

/* A rule that pinned more than it may lets those go that leave first, by the rules behind it; but
 * none is deleted of which a copy is pinned in another tier. */
static int32_t
leaver_of(const struct policy_simulation *simulation, uint32_t block, uint32_t tier,
          int32_t *pinned_by)
{
    const struct policy_simulation_tier_state *tier_state = &simulation->tiers[tier];
    int32_t rule = policy_simulation_rule(simulation, block, tier, POLICY_ON_NOTHING, -1);

    *pinned_by = -1;
    if (rule >= 0 && policy_rule_at(simulation->policy, (size_t)rule)->verb == POLICY_PIN &&
        !policy_simulation_pins_here(simulation, block, tier, rule))
        return rule; /* a budget counts where it is pinned */
    while (rule >= 0) {
        const struct policy_rule *row = policy_rule_at(simulation->policy, (size_t)rule);

        if (row->verb != POLICY_PIN ||
            tier_state->kept[rule] <= budget_of(row, tier_state->capacity))
            break;
        *pinned_by = rule;
        rule = policy_simulation_rule(simulation, block, tier, POLICY_ON_NOTHING, rule);
    }
    if (*pinned_by >= 0 && rule >= 0 &&
        policy_rule_at(simulation->policy, (size_t)rule)->verb == POLICY_EXPIRE &&
        policy_simulation_pin_elsewhere(simulation, block, tier) >= 0)
        return *pinned_by;
    return rule;
}

/* What was taken out and is not to leave, in front of what was taken out later. */
static void
give_back(struct policy_simulation_tier_state *tier_state, const uint32_t *held, uint32_t count)
{
    while (count > 0)
        policy_tier_blocks_give_back(tier_state->roster, 0, (uint64_t)held[--count] + 1);
    policy_tier_blocks_settle(tier_state->roster);
}

/* The next block to leave; false: none is left. */
static bool
next_victim(struct policy_simulation *simulation, struct policy_simulation_tier_state *tier_state,
            uint32_t *block)
{
    struct policy_block victim;

    *block = 0;
    if (!policy_tier_blocks_victim(tier_state->roster,
                                   simulation->now_ms / simulation->options.tick_ms, &victim)) {
        if (tier_state->exhausted_ms == 0)
            tier_state->exhausted_ms = simulation->now_ms + 1;
        return false;
    }
    *block = (uint32_t)(victim.hash - 1);
    return true;
}

enum kvt_err
policy_simulation_drain(struct policy_simulation *simulation, uint32_t tier, bool *moved)
{
    struct policy_simulation_tier_state *tier_state = &simulation->tiers[tier];
    struct acting acting;
    uint32_t held[HELD_MAX];
    uint32_t held_count = 0;
    uint32_t waiting = 0;
    uint32_t block;
    enum kvt_err rc = KVT_OK;

    if (tier_state->capacity == 0)
        return KVT_OK;
    set_watermarks(simulation, tier);
    if (!find_acting(simulation, tier, false, &acting))
        return KVT_OK;
    resume(simulation, tier_state);
    while (rc == KVT_OK && !has_enough(simulation, &acting, tier_state->used) &&
           held_count < HELD_MAX && waiting < WAITING_MAX &&
           next_victim(simulation, tier_state, &block)) {
        int32_t pinned_by;
        const int32_t rule = leaver_of(simulation, block, tier, &pinned_by);
        int32_t to;

        if (rule < 0 || !acting.set[rule] || !policy_simulation_in_canary(simulation, block)) {
            policy_tier_blocks_pass(tier_state->roster, 0, (uint64_t)block + 1);
            continue;
        }
        to = policy_simulation_target(simulation, policy_rule_at(simulation->policy, (size_t)rule),
                                      tier);
        if (!wants(&acting, tier_state->used, (size_t)rule) ||
            !policy_simulation_is_open(simulation, block, to)) {
            waiting += wants(&acting, tier_state->used, (size_t)rule);
            held[held_count++] = block;
            continue;
        }
        if (pinned_by >= 0)
            tier_state->kept[pinned_by] -= simulation->bytes;
        rc = policy_simulation_move(simulation, block, tier, to);
        policy_simulation_did(simulation, rule);
        acting.rules[rule] =
            policy_simulation_may_or_waits(simulation, rule, tier_state->used > acting.mark[rule]);
        *moved = true;
    }
    give_back(tier_state, held, held_count);
    set_watermarks(simulation, tier);
    return rc;
}

/* ---- copies ahead of time ---- */

/* One of those that leave next: below is a copy of it, or one is made where there is room. */
static enum kvt_err
stage_one(struct policy_simulation *simulation, uint32_t block, uint32_t tier, uint32_t to,
          int32_t rule)
{
    if (policy_simulation_is_in(simulation, block, to))
        return KVT_OK;
    simulation->result.edges[tier][to].copied++;
    simulation->result.tiers[tier].gets++;
    simulation->result.staged++;
    policy_simulation_did(simulation, rule);
    return policy_simulation_put(simulation, block, to);
}

enum kvt_err
policy_simulation_stage(struct policy_simulation *simulation, uint32_t tier, bool *moved)
{
    struct policy_simulation_tier_state *tier_state = &simulation->tiers[tier];
    const uint64_t before = simulation->result.staged;
    uint64_t used = tier_state->used; /* as if those that have their copies had gone */
    struct acting acting;
    uint32_t held[HELD_MAX];
    uint32_t held_count = 0;
    uint32_t waiting = 0;
    uint32_t block;
    enum kvt_err rc = KVT_OK;

    if (tier_state->capacity == 0)
        return KVT_OK;
    for (size_t i = 0;
         simulation->now_ms < tier_state->staged_ms && i < simulation->policy->rules.count; i++)
        if (wants_copies(tier_state, tier, policy_rule_at(simulation->policy, i)))
            tier_state->stage_waits = true;
    if (simulation->now_ms < tier_state->staged_ms || !find_acting(simulation, tier, true, &acting))
        return KVT_OK;
    resume(simulation, tier_state);
    while (rc == KVT_OK && !has_enough(simulation, &acting, used) && held_count < HELD_MAX &&
           waiting < WAITING_MAX && next_victim(simulation, tier_state, &block)) {
        const int32_t rule = policy_simulation_rule(simulation, block, tier, POLICY_ON_NOTHING, -1);
        int32_t to;

        if (rule < 0 || !acting.set[rule] || !policy_simulation_in_canary(simulation, block)) {
            policy_tier_blocks_pass(tier_state->roster, 0, (uint64_t)block + 1);
            continue;
        }
        held[held_count++] = block;
        if (!wants(&acting, used, (size_t)rule))
            continue;
        to = policy_simulation_target(simulation, policy_rule_at(simulation->policy, (size_t)rule),
                                      tier);
        if (to < 0 || !policy_simulation_is_open(simulation, block, to)) {
            waiting++;
            continue;
        }
        used -= simulation->bytes < used ? simulation->bytes : used;
        rc = stage_one(simulation, block, tier, (uint32_t)to, rule);
        acting.rules[rule] =
            policy_simulation_may_or_waits(simulation, rule, used > acting.mark[rule]);
    }
    give_back(tier_state, held, held_count);
    if (simulation->result.staged == before)
        tier_state->staged_ms = simulation->now_ms + STAGE_REST_MS;
    *moved = *moved || simulation->result.staged > before;
    return rc;
}
