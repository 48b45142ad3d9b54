#include <assert.h>
#include <string.h>

#include "base/alloc.h"

#include "policy/ladder_private.h"

/* Which rule has a block, and what rules do: as advisor/planner_choose.c and planner_promote.c. */

enum {
    ROUNDS_MAX = 16,    /* in which rules act after a request */
    HELD_MAX = 4096,    /* blocks that a rule wants at another watermark, or has no room for */
    WAITING_MAX = 64,   /* of them, those without room: then nothing else is looked for */
    PASS_SHARE = 4,     /* a pass over all blocks comes after a read of each fourth */
    RESUME_MAX = 65536, /* of those set aside, at once */
};

#define REST_MS       UINT64_C(60000) /* what no rule took is looked at again after this */
#define REST_LEAST_MS UINT64_C(1000)

/* ---- asking ---- */

static uint64_t
since(const struct policy_ladder *ladder, uint64_t then_ms)
{
    return ladder->now_ms - then_ms;
}

static uint64_t
fill_of(const struct policy_ladder_rung *rung)
{
    return rung->capacity == 0
               ? 0
               : (uint64_t)((unsigned __int128)rung->used * 1000000 / rung->capacity);
}

int32_t
policy_ladder_rule(const struct policy_ladder *ladder, uint32_t block, uint32_t tier,
                   enum policy_event event, int32_t former)
{
    const struct policy_ladder_block *row = &ladder->blocks[block];
    const struct policy_workload_tenant *tenant =
        policy_workload_tenant(ladder->options.workload, row->tenant);
    const struct policy_facts facts = {.depth = row->position,
                                       .fanout = row->children,
                                       .hits = row->hits,
                                       .cold_hits = row->cold_hits,
                                       .last_access_ms = since(ladder, row->used_ms),
                                       .age_ms = since(ladder, row->stored_ms),
                                       .size = ladder->bytes,
                                       .fill_ppm = fill_of(&ladder->rungs[tier]),
                                       .tenant = tenant->tenant,
                                       .namespace_ = tenant->namespace_,
                                       .model = tenant->model,
                                       .tier = policy_tier_at(ladder->policy, tier)->name};

    return policy_match_behind(ladder->policy, &facts, event, former);
}

int32_t
policy_ladder_last(const struct policy_ladder *ladder, uint32_t tier)
{
    int32_t last = -1;

    for (size_t i = 0; i < ladder->policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(ladder->policy, i);

        if (policy_ladder_drains(rule) && policy_rule_tier(rule) == (int32_t)tier &&
            (last < 0 ||
             rule->trigger.start > policy_rule_at(ladder->policy, (size_t)last)->trigger.start))
            last = (int32_t)i;
    }
    return last;
}

int32_t
policy_ladder_target(const struct policy_ladder *ladder, const struct policy_rule *rule,
                     uint32_t tier)
{
    if (rule->verb == POLICY_EXPIRE)
        return -1;
    return rule->to.index >= 0 ? rule->to.index : policy_tier_below(ladder->policy, tier);
}

bool
policy_ladder_leaves_out(const struct policy_rule *rule)
{
    return rule->verb == POLICY_COMPACT || rule->schedule.at.count > 0 ||
           (rule->on != 0 &&
            (rule->verb != POLICY_PROMOTE || (rule->on & POLICY_ON_SECOND_COLD_HIT) == 0));
}

static uint64_t
budget_of(const struct policy_rule *rule, uint64_t capacity)
{
    if (!rule->pin.budget.is_ratio)
        return rule->pin.budget.value;
    return capacity == 0 ? UINT64_MAX : policy_ladder_mark(capacity, rule->pin.budget.value);
}

/* ---- draining ---- */

static void
set_watermarks(struct policy_ladder *ladder, uint32_t tier)
{
    struct policy_ladder_rung *rung = &ladder->rungs[tier];
    bool any = false;

    for (size_t i = 0; i < ladder->policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(ladder->policy, i);

        if (!policy_ladder_drains(rule) || policy_rule_tier(rule) != (int32_t)tier)
            continue;
        if (rung->used <= policy_ladder_mark(rung->capacity, rule->trigger.stop)) {
            rung->draining[i] = false;
        } else if (!rung->draining[i] &&
                   rung->used >= policy_ladder_mark(rung->capacity, rule->trigger.start)) {
            rung->draining[i] = true;
            rung->resuming = true;
        }
        any = any || rung->draining[i];
    }
    if (!any && rung->exhausted_ms == 0)
        rung->exhausted_ms = ladder->now_ms + 1;
}

static uint64_t
rest_of(const struct policy_ladder *ladder, const struct policy_ladder_rung *rung)
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
resume(const struct policy_ladder *ladder, struct policy_ladder_rung *rung)
{
    if (!rung->resuming && (rung->exhausted_ms == 0 ||
                            ladder->now_ms + 1 < rung->exhausted_ms + rest_of(ladder, rung)))
        return;
    while (policy_roster_resume(rung->roster, RESUME_MAX) == RESUME_MAX)
        continue;
    rung->resuming = false;
    rung->exhausted_ms = 0;
}

static bool
wants(const struct policy_ladder_rung *rung, const struct policy *policy, size_t rule)
{
    return rung->draining[rule] &&
           rung->used >
               policy_ladder_mark(rung->capacity, policy_rule_at(policy, rule)->trigger.stop);
}

static bool
has_enough(const struct policy_ladder *ladder, const struct policy_ladder_rung *rung)
{
    for (size_t i = 0; i < ladder->policy->rules.count; i++)
        if (wants(rung, ladder->policy, i))
            return false;
    return true;
}

/* A rule that pinned more than it may lets those go that leave first, by the rules behind it. */
static int32_t
leaver_of(const struct policy_ladder *ladder, uint32_t block, uint32_t tier, int32_t *pinned_by)
{
    const struct policy_ladder_rung *rung = &ladder->rungs[tier];
    int32_t rule = policy_ladder_rule(ladder, block, tier, POLICY_ON_NOTHING, -1);

    *pinned_by = -1;
    while (rule >= 0) {
        const struct policy_rule *row = policy_rule_at(ladder->policy, (size_t)rule);

        if (row->verb != POLICY_PIN || rung->kept[rule] <= budget_of(row, rung->capacity))
            break;
        *pinned_by = rule;
        rule = policy_ladder_rule(ladder, block, tier, POLICY_ON_NOTHING, rule);
    }
    return rule;
}

/* May it go there: is there room, or its copy? */
static bool
is_open_for(const struct policy_ladder *ladder, uint32_t block, int32_t to)
{
    return to < 0 || policy_ladder_is_in(ladder, block, (uint32_t)to) ||
           policy_ladder_has_room(ladder, (uint32_t)to);
}

static enum kvt_err
drain(struct policy_ladder *ladder, uint32_t tier, bool *moved)
{
    struct policy_ladder_rung *rung = &ladder->rungs[tier];
    uint32_t held[HELD_MAX];
    uint32_t held_count = 0;
    uint32_t waiting = 0;
    enum kvt_err rc = KVT_OK;

    if (rung->capacity == 0)
        return KVT_OK;
    set_watermarks(ladder, tier);
    if (has_enough(ladder, rung))
        return KVT_OK;
    resume(ladder, rung);
    while (rc == KVT_OK && !has_enough(ladder, rung) && held_count < HELD_MAX &&
           waiting < WAITING_MAX) {
        struct policy_block victim;
        uint32_t block;
        int32_t pinned_by;
        int32_t rule;
        int32_t to;

        if (!policy_roster_victim(rung->roster, ladder->now_ms / ladder->options.tick_ms,
                                  &victim)) {
            if (rung->exhausted_ms == 0)
                rung->exhausted_ms = ladder->now_ms + 1;
            break;
        }
        block = (uint32_t)(victim.hash - 1);
        rule = leaver_of(ladder, block, tier, &pinned_by);
        if (rule < 0 || !rung->draining[rule]) {
            policy_roster_pass(rung->roster, 0, victim.hash);
            continue;
        }
        to = policy_ladder_target(ladder, policy_rule_at(ladder->policy, (size_t)rule), tier);
        if (!wants(rung, ladder->policy, (size_t)rule) || !is_open_for(ladder, block, to)) {
            waiting += wants(rung, ladder->policy, (size_t)rule);
            held[held_count++] = block;
            continue;
        }
        if (pinned_by >= 0)
            rung->kept[pinned_by] -= ladder->bytes;
        rc = policy_ladder_move(ladder, block, tier, to);
        *moved = true;
    }
    while (held_count > 0) /* in front of those taken out later */
        policy_roster_give_back(rung->roster, 0, (uint64_t)held[--held_count] + 1);
    policy_roster_settle(rung->roster);
    set_watermarks(ladder, tier);
    return rc;
}

/* ---- promotion ---- */

enum outcome { WAITS, GOES, STAYS };

/* Of a tier, in bytes: below `stop` there is room for anything. */
struct room {
    uint64_t stop;
    uint64_t limit;
    bool open; /* else what comes would push out something used more recently, or finds no place */
};

static struct room
room_of(const struct policy_ladder *ladder, uint32_t tier)
{
    const struct policy_ladder_rung *rung = &ladder->rungs[tier];
    const int32_t last = policy_ladder_last(ladder, tier);
    struct room room = {.stop = UINT64_MAX, .limit = UINT64_MAX};

    if (rung->capacity != 0)
        room.stop = room.limit = rung->capacity;
    if (last >= 0 && rung->capacity != 0) {
        const struct policy_trigger *trigger =
            &policy_rule_at(ladder->policy, (size_t)last)->trigger;

        room.stop = policy_ladder_mark(rung->capacity, trigger->stop);
        room.limit = policy_ladder_mark(rung->capacity, trigger->start);
    }
    room.open = (last < 0 || !rung->draining[last]) && rung->used < room.limit &&
                (rung->capacity == 0 || rung->used + ladder->bytes <= rung->capacity);
    return room;
}

/* Could anything come up now?  Else nobody need be asked about. */
static bool
any_open(const struct policy_ladder *ladder)
{
    for (size_t i = 0; i < ladder->policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(ladder->policy, i);

        if (rule->verb == POLICY_PROMOTE && rule->to.index >= 0 &&
            room_of(ladder, (uint32_t)rule->to.index).open)
            return true;
    }
    return false;
}

static enum outcome
look(const struct policy_ladder *ladder, uint32_t block, uint32_t tier, int32_t *to)
{
    const int32_t rule = policy_ladder_rule(ladder, block, tier, POLICY_ON_SECOND_COLD_HIT, -1);
    const struct policy_rule *row = rule < 0 ? NULL : policy_rule_at(ladder->policy, (size_t)rule);
    struct room room;

    *to = -1;
    if (row == NULL || row->verb != POLICY_PROMOTE ||
        (row->promote_by == POLICY_BY_READS &&
         ladder->blocks[block].recent < ladder->options.cold_reads) ||
        row->to.index < 0 || policy_ladder_is_in(ladder, block, (uint32_t)row->to.index))
        return STAYS;
    *to = row->to.index;
    room = room_of(ladder, (uint32_t)*to);
    if (!room.open)
        return WAITS;
    return row->promote_by != POLICY_BY_PRICE ||
                   ladder->rungs[*to].used + ladder->bytes <= room.stop ||
                   policy_roster_pays(ladder->rungs[*to].roster, 0, (uint64_t)block + 1,
                                      ladder->now_ms / ladder->options.tick_ms)
               ? GOES
               : STAYS;
}

static enum kvt_err
promote(struct policy_ladder *ladder, bool *moved)
{
    uint32_t kept = 0;
    enum kvt_err rc = KVT_OK;

    if (!any_open(ladder))
        return KVT_OK;
    for (uint32_t i = 0; i < ladder->candidate_count; i++) {
        const uint32_t block = ladder->candidates[i];
        struct policy_ladder_block *row = &ladder->blocks[block];
        enum outcome outcome = STAYS;
        uint32_t tier = 0;
        int32_t to = -1;

        if (row->where != 0 && rc == KVT_OK) {
            tier = (uint32_t)__builtin_ctz(row->where);
            outcome = tier > ladder->entry ? look(ladder, block, tier, &to) : STAYS;
        }
        if (outcome == GOES && !policy_ladder_admits(ladder, block, (uint32_t)to)) {
            ladder->result.refused++;
            outcome = STAYS;
        }
        if (outcome == WAITS) {
            ladder->candidates[kept++] = block;
            continue;
        }
        row->waits = false;
        if (outcome != GOES)
            continue;
        rc = policy_ladder_move(ladder, block, tier, to);
        *moved = true;
    }
    ladder->candidate_count = kept;
    return rc;
}

/* ---- passes over all blocks ---- */

static bool
begin_pass(struct policy_ladder *ladder)
{
    if (!ladder->passes || ladder->now_ms < ladder->passed_ms + POLICY_LADDER_PASS_MS ||
        ladder->result.reads < ladder->passed_reads + ladder->result.blocks / PASS_SHARE)
        return false;
    ladder->passed_ms = ladder->now_ms;
    ladder->passed_reads = ladder->result.reads;
    for (size_t i = 0; i < ladder->policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(ladder->policy, i);

        ladder->due[i] = ladder->begun_ms[i] == 0 ||
                         ladder->now_ms + 1 >= ladder->begun_ms[i] + rule->schedule.every;
        if (ladder->due[i])
            ladder->begun_ms[i] = ladder->now_ms + 1;
    }
    for (uint32_t i = 0; i < ladder->count; i++)
        memset(ladder->rungs[i].counting, 0, sizeof(ladder->rungs[i].counting));
    return true;
}

/* One place of a block. */
static enum kvt_err
pass_one(struct policy_ladder *ladder, uint32_t block, uint32_t tier, bool *moved)
{
    const int32_t rule = policy_ladder_rule(ladder, block, tier, POLICY_ON_NOTHING, -1);
    const struct policy_rule *row = rule < 0 ? NULL : policy_rule_at(ladder->policy, (size_t)rule);
    int32_t to;

    if (row != NULL && row->verb == POLICY_PIN)
        ladder->rungs[tier].counting[rule] += ladder->bytes;
    if (row == NULL || row->on != 0 || policy_ladder_drains(row) || !ladder->due[rule] ||
        policy_ladder_leaves_out(row) || row->verb == POLICY_PIN || row->verb == POLICY_EXCLUDE)
        return KVT_OK;
    to = policy_ladder_target(ladder, row, tier);
    if (row->verb != POLICY_EXPIRE &&
        (to < 0 ||
         (row->verb == POLICY_PROMOTE && policy_ladder_is_in(ladder, block, (uint32_t)to)) ||
         !is_open_for(ladder, block, to) ||
         (row->verb == POLICY_PROMOTE && !policy_ladder_admits(ladder, block, (uint32_t)to))))
        return KVT_OK;
    *moved = true;
    return policy_ladder_move(ladder, block, tier, row->verb == POLICY_EXPIRE ? -1 : to);
}

static enum kvt_err
pass(struct policy_ladder *ladder, bool *moved)
{
    enum kvt_err rc = KVT_OK;

    if (!begin_pass(ladder))
        return KVT_OK;
    for (uint32_t block = 0; block < ladder->known && rc == KVT_OK; block++)
        for (uint32_t tier = 0; tier < ladder->count && rc == KVT_OK; tier++)
            if (policy_ladder_is_in(ladder, block, tier))
                rc = pass_one(ladder, block, tier, moved);
    for (uint32_t i = 0; i < ladder->count; i++) {
        memcpy(ladder->rungs[i].kept, ladder->rungs[i].counting, sizeof(ladder->rungs[i].kept));
        policy_roster_settle(ladder->rungs[i].roster);
    }
    return rc;
}

enum kvt_err
policy_ladder_act(struct policy_ladder *ladder)
{
    enum kvt_err rc = KVT_OK;
    bool moved = true;

    for (int round = 0; round < ROUNDS_MAX && moved && rc == KVT_OK; round++) {
        moved = false;
        rc = policy_ladder_drain_quotas(ladder, &moved);
        /* From below: what is full there is drained first. */
        for (uint32_t tier = ladder->count; tier-- > 0 && rc == KVT_OK;)
            rc = drain(ladder, tier, &moved);
        if (rc == KVT_OK)
            rc = promote(ladder, &moved);
        if (rc == KVT_OK && round == 0)
            rc = pass(ladder, &moved);
    }
    return rc;
}
