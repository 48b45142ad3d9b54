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
may_begin(const struct policy_simulation *ladder, struct policy_simulation_tier_state *rung,
          size_t rule)
{
    const uint64_t every = policy_rule_at(ladder->policy, rule)->schedule.every;
    const uint64_t due_ms = ladder->begun_ms[rule] - 1 + every;

    if (ladder->begun_ms[rule] == 0 || ladder->now_ms >= due_ms)
        return true;
    if (rung->due_ms == 0 || due_ms < rung->due_ms)
        rung->due_ms = due_ms;
    return false;
}

static void
set_watermarks(struct policy_simulation *ladder, uint32_t tier)
{
    struct policy_simulation_tier_state *rung = &ladder->rungs[tier];
    bool any = false;

    for (size_t i = 0; i < ladder->policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(ladder->policy, i);
        const bool before = rung->draining[i];

        if (!policy_simulation_drains(rule) || policy_rule_tier(rule) != (int32_t)tier)
            continue;
        if (rung->used <= policy_simulation_mark(rung->capacity, rule->trigger.stop))
            rung->draining[i] = false;
        else if (rung->used >= policy_simulation_mark(rung->capacity, rule->trigger.start))
            rung->draining[i] = before || may_begin(ladder, rung, i);
        if (rung->draining[i] != before)
            policy_simulation_end_run(ladder, (int32_t)i);
        if (rung->draining[i] && !before)
            ladder->begun_ms[i] = ladder->now_ms + 1;
        rung->resuming = rung->resuming || (rung->draining[i] && !before);
        any = any || rung->draining[i];
    }
    if (!any && rung->exhausted_ms == 0)
        rung->exhausted_ms = ladder->now_ms + 1;
}

static uint64_t
rest_of(const struct policy_simulation *ladder, const struct policy_simulation_tier_state *rung)
{
    uint64_t rest_ms = REST_MS;

    for (size_t i = 0; i < ladder->policy->rules.count; i++) {
        const uint64_t recent_ms = policy_rule_at(ladder->policy, i)->protect_recent;

        if (rung->draining[i] && recent_ms > 0 && recent_ms < rest_ms)
            rest_ms = recent_ms < REST_LEAST_MS ? REST_LEAST_MS : recent_ms;
    }
    return rest_ms;
}

/* What was passed over comes back: when another rule begins, and a while after there was nothing
 * else to choose. */
static void
resume(const struct policy_simulation *ladder, struct policy_simulation_tier_state *rung)
{
    if (!rung->resuming && (rung->exhausted_ms == 0 ||
                            ladder->now_ms + 1 < rung->exhausted_ms + rest_of(ladder, rung)))
        return;
    while (policy_tier_blocks_resume(rung->roster, RESUME_MAX) == RESUME_MAX)
        continue;
    rung->resuming = false;
    rung->exhausted_ms = 0;
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
has_enough(const struct policy_simulation *ladder, const struct acting *acting, uint64_t used)
{
    for (size_t i = 0; i < ladder->policy->rules.count; i++)
        if (wants(acting, used, i))
            return false;
    return true;
}

static bool
wants_copies(const struct policy_simulation_tier_state *rung, uint32_t tier,
             const struct policy_rule *rule)
{
    return policy_simulation_drains(rule) && rule->verb == POLICY_DEMOTE &&
           policy_rule_tier(rule) == (int32_t)tier && rule->trigger.prestage > 0 &&
           rung->used > policy_simulation_mark(rung->capacity, rule->trigger.prestage);
}

/* Rules that drain the tier, or with `prestage` those that want copies below at this fill.  False:
 * none does. */
static bool
find_acting(struct policy_simulation *ladder, uint32_t tier, bool prestage, struct acting *acting)
{
    const struct policy_simulation_tier_state *rung = &ladder->rungs[tier];
    bool any = false;

    for (size_t i = 0; i < ladder->policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(ladder->policy, i);
        const uint64_t mark = policy_simulation_mark(
            rung->capacity, prestage ? rule->trigger.prestage : rule->trigger.stop);

        acting->mark[i] = mark;
        acting->set[i] = prestage ? wants_copies(rung, tier, rule) : rung->draining[i];
        acting->rules[i] = acting->set[i] && rung->used > mark &&
                           policy_simulation_may_or_waits(ladder, (int32_t)i, true);
        any = any || acting->rules[i];
    }
    return any;
}

/* A rule that pinned more than it may lets those go that leave first, by the rules behind it; but
 * none is deleted of which a copy is pinned in another tier. */
static int32_t
leaver_of(const struct policy_simulation *ladder, uint32_t block, uint32_t tier, int32_t *pinned_by)
{
    const struct policy_simulation_tier_state *rung = &ladder->rungs[tier];
    int32_t rule = policy_simulation_rule(ladder, block, tier, POLICY_ON_NOTHING, -1);

    *pinned_by = -1;
    if (rule >= 0 && policy_rule_at(ladder->policy, (size_t)rule)->verb == POLICY_PIN &&
        !policy_simulation_pins_here(ladder, block, tier, rule))
        return rule; /* a budget counts where it is pinned */
    while (rule >= 0) {
        const struct policy_rule *row = policy_rule_at(ladder->policy, (size_t)rule);

        if (row->verb != POLICY_PIN || rung->kept[rule] <= budget_of(row, rung->capacity))
            break;
        *pinned_by = rule;
        rule = policy_simulation_rule(ladder, block, tier, POLICY_ON_NOTHING, rule);
    }
    if (*pinned_by >= 0 && rule >= 0 &&
        policy_rule_at(ladder->policy, (size_t)rule)->verb == POLICY_EXPIRE &&
        policy_simulation_pin_elsewhere(ladder, block, tier) >= 0)
        return *pinned_by;
    return rule;
}

/* What was taken out and is not to leave, in front of what was taken out later. */
static void
give_back(struct policy_simulation_tier_state *rung, const uint32_t *held, uint32_t count)
{
    while (count > 0)
        policy_tier_blocks_give_back(rung->roster, 0, (uint64_t)held[--count] + 1);
    policy_tier_blocks_settle(rung->roster);
}

/* The next block to leave; false: none is left. */
static bool
next_victim(struct policy_simulation *ladder, struct policy_simulation_tier_state *rung,
            uint32_t *block)
{
    struct policy_block victim;

    *block = 0;
    if (!policy_tier_blocks_victim(rung->roster, ladder->now_ms / ladder->options.tick_ms,
                                   &victim)) {
        if (rung->exhausted_ms == 0)
            rung->exhausted_ms = ladder->now_ms + 1;
        return false;
    }
    *block = (uint32_t)(victim.hash - 1);
    return true;
}

enum kvt_err
policy_simulation_drain(struct policy_simulation *ladder, uint32_t tier, bool *moved)
{
    struct policy_simulation_tier_state *rung = &ladder->rungs[tier];
    struct acting acting;
    uint32_t held[HELD_MAX];
    uint32_t held_count = 0;
    uint32_t waiting = 0;
    uint32_t block;
    enum kvt_err rc = KVT_OK;

    if (rung->capacity == 0)
        return KVT_OK;
    set_watermarks(ladder, tier);
    if (!find_acting(ladder, tier, false, &acting))
        return KVT_OK;
    resume(ladder, rung);
    while (rc == KVT_OK && !has_enough(ladder, &acting, rung->used) && held_count < HELD_MAX &&
           waiting < WAITING_MAX && next_victim(ladder, rung, &block)) {
        int32_t pinned_by;
        const int32_t rule = leaver_of(ladder, block, tier, &pinned_by);
        int32_t to;

        if (rule < 0 || !acting.set[rule] || !policy_simulation_in_canary(ladder, block)) {
            policy_tier_blocks_pass(rung->roster, 0, (uint64_t)block + 1);
            continue;
        }
        to = policy_simulation_target(ladder, policy_rule_at(ladder->policy, (size_t)rule), tier);
        if (!wants(&acting, rung->used, (size_t)rule) ||
            !policy_simulation_is_open(ladder, block, to)) {
            waiting += wants(&acting, rung->used, (size_t)rule);
            held[held_count++] = block;
            continue;
        }
        if (pinned_by >= 0)
            rung->kept[pinned_by] -= ladder->bytes;
        rc = policy_simulation_move(ladder, block, tier, to);
        policy_simulation_did(ladder, rule);
        acting.rules[rule] =
            policy_simulation_may_or_waits(ladder, rule, rung->used > acting.mark[rule]);
        *moved = true;
    }
    give_back(rung, held, held_count);
    set_watermarks(ladder, tier);
    return rc;
}

/* ---- copies ahead of time ---- */

/* One of those that leave next: below is a copy of it, or one is made where there is room. */
static enum kvt_err
stage_one(struct policy_simulation *ladder, uint32_t block, uint32_t tier, uint32_t to,
          int32_t rule)
{
    if (policy_simulation_is_in(ladder, block, to))
        return KVT_OK;
    ladder->result.edges[tier][to].copied++;
    ladder->result.tiers[tier].gets++;
    ladder->result.staged++;
    policy_simulation_did(ladder, rule);
    return policy_simulation_put(ladder, block, to);
}

enum kvt_err
policy_simulation_stage(struct policy_simulation *ladder, uint32_t tier, bool *moved)
{
    struct policy_simulation_tier_state *rung = &ladder->rungs[tier];
    const uint64_t before = ladder->result.staged;
    uint64_t used = rung->used; /* as if those that have their copies had gone */
    struct acting acting;
    uint32_t held[HELD_MAX];
    uint32_t held_count = 0;
    uint32_t waiting = 0;
    uint32_t block;
    enum kvt_err rc = KVT_OK;

    if (rung->capacity == 0)
        return KVT_OK;
    for (size_t i = 0; ladder->now_ms < rung->staged_ms && i < ladder->policy->rules.count; i++)
        if (wants_copies(rung, tier, policy_rule_at(ladder->policy, i)))
            rung->stage_waits = true;
    if (ladder->now_ms < rung->staged_ms || !find_acting(ladder, tier, true, &acting))
        return KVT_OK;
    resume(ladder, rung);
    while (rc == KVT_OK && !has_enough(ladder, &acting, used) && held_count < HELD_MAX &&
           waiting < WAITING_MAX && next_victim(ladder, rung, &block)) {
        const int32_t rule = policy_simulation_rule(ladder, block, tier, POLICY_ON_NOTHING, -1);
        int32_t to;

        if (rule < 0 || !acting.set[rule] || !policy_simulation_in_canary(ladder, block)) {
            policy_tier_blocks_pass(rung->roster, 0, (uint64_t)block + 1);
            continue;
        }
        held[held_count++] = block;
        if (!wants(&acting, used, (size_t)rule))
            continue;
        to = policy_simulation_target(ladder, policy_rule_at(ladder->policy, (size_t)rule), tier);
        if (to < 0 || !policy_simulation_is_open(ladder, block, to)) {
            waiting++;
            continue;
        }
        used -= ladder->bytes < used ? ladder->bytes : used;
        rc = stage_one(ladder, block, tier, (uint32_t)to, rule);
        acting.rules[rule] = policy_simulation_may_or_waits(ladder, rule, used > acting.mark[rule]);
    }
    give_back(rung, held, held_count);
    if (ladder->result.staged == before)
        rung->staged_ms = ladder->now_ms + STAGE_REST_MS;
    *moved = *moved || ladder->result.staged > before;
    return rc;
}
