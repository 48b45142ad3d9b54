#include <string.h>

#include "base/core/alloc.h"

#include "policy/simulate/policy_simulation_private.h"

/* Which rule has a block, and what comes up: as advisor/order/promote_blocks.c and
 * planner_sweep.c. */

enum {
    ROUNDS_MAX = 16, /* in which rules act after a request */
    PASS_SHARE = 4,  /* a pass over all blocks comes after a read of each fourth */
};

/* ---- asking ---- */

static uint64_t
since(const struct policy_simulation *simulation, uint64_t then_ms)
{
    return simulation->now_ms - then_ms;
}

static uint64_t
fill_of(const struct policy_simulation_tier_state *tier_state)
{
    return tier_state->capacity == 0
               ? 0
               : (uint64_t)((unsigned __int128)tier_state->used * 1000000 / tier_state->capacity);
}

static int32_t
match_in(const struct policy_simulation *simulation, uint32_t block, uint32_t tier,
         enum policy_event event, int32_t former)
{
    const struct policy_simulation_block *row = &simulation->blocks[block];
    const struct policy_workload_tenant *tenant =
        policy_workload_tenant(simulation->options.workload, row->tenant);
    const struct policy_facts facts = {.depth = row->position,
                                       .fanout = row->children,
                                       .hits = row->hits,
                                       .cold_hits = row->cold_hits,
                                       .last_access_ms = since(simulation, row->used_ms),
                                       .age_ms = since(simulation, row->stored_ms),
                                       .size = simulation->bytes,
                                       .fill_ppm = fill_of(&simulation->tiers[tier]),
                                       .tenant = tenant->tenant,
                                       .namespace_ = tenant->namespace_,
                                       .model = tenant->model,
                                       .tier = policy_tier_at(simulation->policy, tier)->name};

    return policy_match_behind(simulation->policy, &facts, event, former);
}

static bool
has_verb(const struct policy_simulation *simulation, int32_t rule, enum policy_verb verb)
{
    return rule >= 0 && policy_rule_at(simulation->policy, (size_t)rule)->verb == (uint32_t)verb;
}

int32_t
policy_simulation_pin_elsewhere(const struct policy_simulation *simulation, uint32_t block,
                                uint32_t tier)
{
    for (uint32_t other = 0; other < simulation->count; other++) {
        const int32_t pin = other == tier || !policy_simulation_is_in(simulation, block, other)
                                ? -1
                                : match_in(simulation, block, other, POLICY_ON_NOTHING, -1);

        if (has_verb(simulation, pin, POLICY_PIN))
            return pin;
    }
    return -1;
}

/* Deleting takes all copies of a block: a rule that pins one of them keeps the others. */
int32_t
policy_simulation_rule(const struct policy_simulation *simulation, uint32_t block, uint32_t tier,
                       enum policy_event event, int32_t former)
{
    const int32_t rule = match_in(simulation, block, tier, event, former);
    int32_t pin = -1;

    if (former < 0 && has_verb(simulation, rule, POLICY_EXPIRE))
        pin = policy_simulation_pin_elsewhere(simulation, block, tier);
    return pin >= 0 ? pin : rule;
}

bool
policy_simulation_pins_here(const struct policy_simulation *simulation, uint32_t block,
                            uint32_t tier, int32_t rule)
{
    return has_verb(simulation, rule, POLICY_PIN) &&
           match_in(simulation, block, tier, POLICY_ON_NOTHING, -1) == rule;
}

int32_t
policy_simulation_last(const struct policy_simulation *simulation, uint32_t tier)
{
    int32_t last = -1;

    for (size_t i = 0; i < simulation->policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(simulation->policy, i);

        if (policy_simulation_drains(rule) && policy_rule_tier(rule) == (int32_t)tier &&
            (last < 0 ||
             rule->trigger.start > policy_rule_at(simulation->policy, (size_t)last)->trigger.start))
            last = (int32_t)i;
    }
    return last;
}

int32_t
policy_simulation_target(const struct policy_simulation *simulation, const struct policy_rule *rule,
                         uint32_t tier)
{
    if (rule->verb == POLICY_EXPIRE)
        return -1;
    return rule->to.index >= 0 ? rule->to.index : policy_tier_below(simulation->policy, tier);
}

bool
policy_simulation_is_open(const struct policy_simulation *simulation, uint32_t block, int32_t to)
{
    return to < 0 || policy_simulation_is_in(simulation, block, (uint32_t)to) ||
           policy_simulation_has_room(simulation, (uint32_t)to);
}

bool
policy_simulation_leaves_out(const struct policy_rule *rule)
{
    return rule->verb == POLICY_COMPACT || rule->schedule.at.count > 0 ||
           (rule->on != 0 &&
            (rule->verb != POLICY_PROMOTE || (rule->on & POLICY_ON_SECOND_COLD_HIT) == 0));
}

bool
policy_simulation_is_swept(const struct policy_rule *rule)
{
    return !policy_simulation_leaves_out(rule) &&
           (rule->verb == POLICY_PIN ||
            (rule->on == 0 && !policy_simulation_drains(rule) && rule->verb != POLICY_EXCLUDE));
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
room_of(const struct policy_simulation *simulation, uint32_t tier)
{
    const struct policy_simulation_tier_state *tier_state = &simulation->tiers[tier];
    const int32_t last = policy_simulation_last(simulation, tier);
    struct room room = {.stop = UINT64_MAX, .limit = UINT64_MAX};

    if (tier_state->capacity != 0)
        room.stop = room.limit = tier_state->capacity;
    if (last >= 0 && tier_state->capacity != 0) {
        const struct policy_trigger *trigger =
            &policy_rule_at(simulation->policy, (size_t)last)->trigger;

        room.stop = policy_simulation_mark(tier_state->capacity, trigger->stop);
        room.limit = policy_simulation_mark(tier_state->capacity, trigger->start);
    }
    room.open =
        (last < 0 || !tier_state->draining[last]) && tier_state->used < room.limit &&
        (tier_state->capacity == 0 || tier_state->used + simulation->bytes <= tier_state->capacity);
    return room;
}

/* Could anything come up now?  Else nobody need be asked about. */
static bool
any_open(const struct policy_simulation *simulation)
{
    for (size_t i = 0; i < simulation->policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(simulation->policy, i);

        if (rule->verb == POLICY_PROMOTE && rule->to.index >= 0 &&
            room_of(simulation, (uint32_t)rule->to.index).open)
            return true;
    }
    return false;
}

static enum outcome
look(struct policy_simulation *simulation, uint32_t block, uint32_t tier, int32_t *rule,
     int32_t *to)
{
    const struct policy_rule *row;
    struct room room;

    *to = -1;
    *rule = policy_simulation_rule(simulation, block, tier, POLICY_ON_SECOND_COLD_HIT, -1);
    row = *rule < 0 ? NULL : policy_rule_at(simulation->policy, (size_t)*rule);
    if (row == NULL || row->verb != POLICY_PROMOTE ||
        (row->promote_by == POLICY_BY_READS &&
         simulation->blocks[block].recent < simulation->options.cold_reads) ||
        row->to.index < 0 || policy_simulation_is_in(simulation, block, (uint32_t)row->to.index) ||
        !policy_simulation_in_canary(simulation, block))
        return STAYS;
    *to = row->to.index;
    room = room_of(simulation, (uint32_t)*to);
    if (!room.open)
        return WAITS;
    return row->promote_by != POLICY_BY_PRICE ||
                   simulation->tiers[*to].used + simulation->bytes <= room.stop ||
                   policy_tier_blocks_pays(simulation->tiers[*to].roster, 0, (uint64_t)block + 1,
                                           simulation->now_ms / simulation->options.tick_ms)
               ? GOES
               : STAYS;
}

/* What a limit keeps down does not wait: when it is read again it is asked about again. */
static bool
may_promote(struct policy_simulation *simulation, uint32_t block, int32_t rule, int32_t to)
{
    if (policy_simulation_may(simulation, rule) != POLICY_SIMULATION_ACTS) {
        simulation->limits[rule].figures.dropped++;
        return false;
    }
    if (policy_simulation_admits(simulation, block, (uint32_t)to))
        return true;
    simulation->result.refused++;
    return false;
}

static enum kvt_err
promote(struct policy_simulation *simulation, bool *moved)
{
    uint32_t kept = 0;
    enum kvt_err rc = KVT_OK;

    if (!any_open(simulation))
        return KVT_OK;
    for (uint32_t i = 0; i < simulation->candidate_count; i++) {
        const uint32_t block = simulation->candidates[i];
        struct policy_simulation_block *row = &simulation->blocks[block];
        enum outcome outcome = STAYS;
        uint32_t tier = 0;
        int32_t rule = -1;
        int32_t to = -1;

        if (row->where != 0 && rc == KVT_OK) {
            tier = (uint32_t)__builtin_ctz(row->where);
            outcome = tier > simulation->entry ? look(simulation, block, tier, &rule, &to) : STAYS;
        }
        if (outcome == GOES && !may_promote(simulation, block, rule, to))
            outcome = STAYS;
        if (outcome == WAITS) {
            simulation->candidates[kept++] = block;
            continue;
        }
        row->waits = false;
        if (outcome != GOES)
            continue;
        rc = policy_simulation_move(simulation, block, tier, to);
        policy_simulation_did(simulation, rule);
        *moved = true;
    }
    simulation->candidate_count = kept;
    return rc;
}

/* ---- passes over all blocks ---- */

static bool
begin_pass(struct policy_simulation *simulation)
{
    if (!simulation->passes ||
        simulation->now_ms < simulation->passed_ms + POLICY_SIMULATION_PASS_MS ||
        simulation->result.reads <
            simulation->passed_reads + simulation->result.blocks / PASS_SHARE)
        return false;
    simulation->passed_ms = simulation->now_ms;
    simulation->passed_reads = simulation->result.reads;
    for (size_t i = 0; i < simulation->policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(simulation->policy, i);

        if (!policy_simulation_is_swept(rule))
            continue; /* its runs begin and end with something else */
        simulation->due[i] =
            simulation->now_ms >= simulation->limits[i].resume_ms &&
            (simulation->begun_ms[i] == 0 ||
             simulation->now_ms + 1 >= simulation->begun_ms[i] + rule->schedule.every);
        if (!simulation->due[i])
            continue;
        simulation->begun_ms[i] = simulation->now_ms + 1;
        policy_simulation_end_run(simulation, (int32_t)i);
    }
    for (uint32_t i = 0; i < simulation->count; i++)
        memset(simulation->tiers[i].counting, 0, sizeof(simulation->tiers[i].counting));
    simulation->passing = true;
    simulation->pass_block = simulation->pass_tier = 0;
    return true;
}

/* Which way the pass's rule moves what it has in a tier; false: it does not. */
static bool
find_move(struct policy_simulation *simulation, uint32_t block, uint32_t tier, int32_t rule,
          int32_t *to)
{
    const struct policy_rule *row = policy_rule_at(simulation->policy, (size_t)rule);

    *to = policy_simulation_target(simulation, row, tier);
    if (row->on != 0 || policy_simulation_drains(row) || !simulation->due[rule] ||
        policy_simulation_leaves_out(row) || row->verb == POLICY_PIN || row->verb == POLICY_EXCLUDE)
        return false;
    return policy_simulation_in_canary(simulation, block) &&
           (row->verb == POLICY_EXPIRE ||
            (*to >= 0 && policy_simulation_is_open(simulation, block, *to) &&
             !(row->verb == POLICY_PROMOTE &&
               policy_simulation_is_in(simulation, block, (uint32_t)*to))));
}

/* One place of a block.  `*waits` is set where its rule is at its rate, and the pass waits. */
static enum kvt_err
pass_one(struct policy_simulation *simulation, uint32_t block, uint32_t tier, bool *moved,
         bool *waits)
{
    const int32_t rule = policy_simulation_rule(simulation, block, tier, POLICY_ON_NOTHING, -1);
    enum policy_simulation_stop why;
    int32_t to;

    if (rule < 0)
        return KVT_OK;
    if (policy_simulation_pins_here(simulation, block, tier, rule))
        simulation->tiers[tier].counting[rule] += simulation->bytes;
    if (!find_move(simulation, block, tier, rule, &to))
        return KVT_OK;
    why = policy_simulation_may(simulation, rule);
    *waits = why == POLICY_SIMULATION_RATE;
    if (*waits)
        simulation->limits[rule].waits_for = why;
    else if (why != POLICY_SIMULATION_ACTS)
        simulation->due[rule] = false; /* until the next pass */
    if (why != POLICY_SIMULATION_ACTS ||
        (policy_rule_at(simulation->policy, (size_t)rule)->verb == POLICY_PROMOTE &&
         !policy_simulation_admits(simulation, block, (uint32_t)to)))
        return KVT_OK;
    *moved = true;
    policy_simulation_did(simulation, rule);
    return policy_simulation_move(simulation, block, tier, to);
}

static enum kvt_err
pass(struct policy_simulation *simulation, bool *moved)
{
    bool waits = false;
    enum kvt_err rc = KVT_OK;

    if (!simulation->passing && !begin_pass(simulation))
        return KVT_OK;
    while (simulation->pass_block < simulation->known && rc == KVT_OK) {
        if (policy_simulation_is_in(simulation, simulation->pass_block, simulation->pass_tier))
            rc = pass_one(simulation, simulation->pass_block, simulation->pass_tier, moved, &waits);
        if (waits)
            break;
        simulation->pass_tier = (simulation->pass_tier + 1) % simulation->count;
        simulation->pass_block += simulation->pass_tier == 0;
    }
    for (uint32_t i = 0; i < simulation->count; i++) {
        if (!waits)
            memcpy(simulation->tiers[i].kept, simulation->tiers[i].counting,
                   sizeof(simulation->tiers[i].kept));
        policy_tier_blocks_settle(simulation->tiers[i].roster);
    }
    simulation->passing = waits;
    return rc;
}

enum kvt_err
policy_simulation_act(struct policy_simulation *simulation)
{
    enum kvt_err rc = KVT_OK;
    bool moved = true;

    for (int round = 0; round < ROUNDS_MAX && moved && rc == KVT_OK; round++) {
        moved = false;
        policy_simulation_begin_round(simulation);
        rc = policy_simulation_drain_quotas(simulation, &moved);
        /* From below: what is full there is drained first. */
        for (uint32_t tier = simulation->count; tier-- > 0 && rc == KVT_OK;) {
            rc = policy_simulation_drain(simulation, tier, &moved);
            if (rc == KVT_OK)
                rc = policy_simulation_stage(simulation, tier, &moved);
        }
        if (rc == KVT_OK)
            rc = promote(simulation, &moved);
        if (rc == KVT_OK && (round == 0 || simulation->passing))
            rc = pass(simulation, &moved);
    }
    return rc;
}
