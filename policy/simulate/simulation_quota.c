#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"

#include "policy/simulate/policy_simulation_private.h"

/* Blocks of a tenant that has too much leave, as advisor/selection/quota_drain.c has it. */

#define REST_MS UINT64_C(60000) /* of a quota of which nothing may leave */

static uint64_t
soft_of(const struct policy_quota *quota)
{
    return quota->soft != 0 && quota->soft < quota->hard ? quota->soft : quota->hard;
}

static bool
is_of(const struct policy_simulation *simulation, const struct policy_quota *quota, uint32_t tenant)
{
    return strcmp(quota->tenant,
                  policy_workload_tenant(simulation->options.workload, tenant)->tenant) == 0;
}

static bool
counts(const struct policy_quota *quota, uint32_t tier)
{
    return quota->tier.index < 0 || quota->tier.index == (int32_t)tier;
}

/* A tenant may have several namespaces, which are the workload's. */
static uint64_t
used_of(const struct policy_simulation *simulation, const struct policy_quota *quota)
{
    const uint32_t tenants = policy_workload_tenants(simulation->options.workload);
    uint64_t used = 0;

    for (uint32_t tenant = 0; tenant < tenants; tenant++)
        for (uint32_t tier = 0; tier < simulation->count && is_of(simulation, quota, tenant);
             tier++)
            if (counts(quota, tier))
                used += simulation->used_by[(size_t)tenant * simulation->count + tier];
    return used;
}

bool
policy_simulation_admits(const struct policy_simulation *simulation, uint32_t block, uint32_t tier)
{
    for (size_t i = 0; i < simulation->policy->quotas.count; i++) {
        const struct policy_quota *quota = policy_quota_at(simulation->policy, i);

        if (counts(quota, tier) && is_of(simulation, quota, simulation->blocks[block].tenant) &&
            used_of(simulation, quota) + simulation->bytes > quota->hard)
            return false;
    }
    return true;
}

/* ---- who leaves first ---- */

/* Those not used for longest first, of a chain its end. */
static int
goes_before(const void *left, const void *right, void *arg)
{
    const struct policy_simulation *simulation = arg;
    const uint32_t a = *(const uint32_t *)left;
    const uint32_t b = *(const uint32_t *)right;
    const uint64_t a_tick = simulation->blocks[a].used_ms / simulation->options.tick_ms;
    const uint64_t b_tick = simulation->blocks[b].used_ms / simulation->options.tick_ms;

    if (a_tick != b_tick)
        return a_tick < b_tick ? -1 : 1;
    if (simulation->blocks[a].position != simulation->blocks[b].position)
        return simulation->blocks[a].position > simulation->blocks[b].position ? -1 : 1;
    return a < b ? -1 : 1;
}

static bool
is_candidate(const struct policy_simulation *simulation, const struct policy_quota *quota,
             uint32_t block)
{
    const uint8_t where = simulation->blocks[block].where;

    return (quota->tier.index < 0 ? where != 0 : (where >> quota->tier.index & 1) != 0) &&
           is_of(simulation, quota, simulation->blocks[block].tenant);
}

/* A line is used up before it is made anew: what was used or came since then is younger than all
 * in it. */
static enum kvt_err
make_line(struct policy_simulation *simulation, const struct policy_quota *quota,
          struct policy_simulation_line *line)
{
    size_t count = 0;

    for (uint32_t block = 0; block < simulation->known; block++)
        count += is_candidate(simulation, quota, block);
    kvt_free(line->blocks);
    kvt_free(line->used_ms);
    *line =
        (struct policy_simulation_line){.blocks = kvt_calloc(count + 1, sizeof(*line->blocks)),
                                        .used_ms = kvt_calloc(count + 1, sizeof(*line->used_ms))};
    if (line->blocks == NULL || line->used_ms == NULL)
        return KVT_NOMEM;
    for (uint32_t block = 0; block < simulation->known; block++)
        if (is_candidate(simulation, quota, block))
            line->blocks[line->count++] = block;
    qsort_r(line->blocks, line->count, sizeof(*line->blocks), goes_before, simulation);
    for (size_t i = 0; i < line->count; i++)
        line->used_ms[i] = simulation->blocks[line->blocks[i]].used_ms;
    return KVT_OK;
}

/* ---- how it leaves ---- */

static bool
is_open_for(const struct policy_simulation *simulation, uint32_t block, int32_t to)
{
    return to >= 0 && (policy_simulation_is_in(simulation, block, (uint32_t)to) ||
                       policy_simulation_has_room(simulation, (uint32_t)to));
}

static int32_t
expirer_of(const struct policy_simulation *simulation, uint32_t tier)
{
    for (size_t i = 0; i < simulation->policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(simulation->policy, i);

        if (rule->verb == POLICY_EXPIRE && policy_rule_tier(rule) == (int32_t)tier)
            return (int32_t)i;
    }
    return -1;
}

/* How a block leaves: by a rule, or by the quota itself (-1), which demotes. */
struct way {
    int32_t rule;
    int32_t to;
};

/* Nothing that moves it down or deletes it has the block. */
static bool
own_way(const struct policy_simulation *simulation, uint32_t block, uint32_t tier, bool hard,
        struct way *way)
{
    *way = (struct way){.rule = -1, .to = policy_tier_below(simulation->policy, tier)};
    if (!hard && simulation->now_ms - simulation->blocks[block].used_ms <
                     simulation->policy->defaults.protect_recent)
        return false;
    if (way->to >= 0)
        return is_open_for(simulation, block, way->to);
    way->rule = hard ? expirer_of(simulation, tier) : -1;
    return way->rule >= 0 && policy_simulation_pin_elsewhere(simulation, block, tier) < 0;
}

/* False: it stays. */
static bool
find_way(struct policy_simulation *simulation, uint32_t block, uint32_t tier, bool hard,
         struct way *way)
{
    const struct policy_rule *row;

    *way = (struct way){.to = -1};
    way->rule = policy_simulation_rule(simulation, block, tier, POLICY_ON_NOTHING, -1);
    if (!policy_simulation_in_canary(simulation, block))
        return false;
    if (way->rule < 0)
        return own_way(simulation, block, tier, hard, way);
    row = policy_rule_at(simulation->policy, (size_t)way->rule);
    switch ((enum policy_verb)row->verb) {
    case POLICY_PIN:
    case POLICY_EXCLUDE: return false;
    case POLICY_EXPIRE: return true;
    case POLICY_DEMOTE:
        way->to = policy_simulation_target(simulation, row, tier);
        return is_open_for(simulation, block, way->to);
    case POLICY_PROMOTE:
    case POLICY_COMPACT: break;
    }
    return own_way(simulation, block, tier, hard, way);
}

enum relief { STAYS, LEFT, WAITS };

/* The nearest tier of the quota that has the block lets it go; where its rule is at its rate, all
 * behind it wait. */
static enum relief
relieve(struct policy_simulation *simulation, const struct policy_quota *quota, uint32_t block,
        bool hard, enum kvt_err *rc)
{
    for (uint32_t tier = 0; tier < simulation->count; tier++) {
        struct way way;
        enum policy_simulation_stop why = POLICY_SIMULATION_ACTS;

        if (!counts(quota, tier) || !policy_simulation_is_in(simulation, block, tier) ||
            !find_way(simulation, block, tier, hard, &way))
            continue;
        if (way.rule >= 0)
            why = policy_simulation_may(simulation, way.rule);
        if (why == POLICY_SIMULATION_RATE) {
            simulation->limits[way.rule].waits_for = why;
            return WAITS;
        }
        if (why != POLICY_SIMULATION_ACTS)
            continue;
        if (way.rule >= 0)
            policy_simulation_did(simulation, way.rule);
        *rc = policy_simulation_move(simulation, block, tier, way.to);
        return LEFT;
    }
    return STAYS;
}

static enum kvt_err
drain_one(struct policy_simulation *simulation, const struct policy_quota *quota,
          struct policy_simulation_line *line, bool *moved)
{
    uint64_t used = used_of(simulation, quota);
    enum kvt_err rc = KVT_OK;

    if (used <= soft_of(quota) || simulation->now_ms < line->rest_ms)
        return KVT_OK;
    if (line->next == line->count)
        rc = make_line(simulation, quota, line);
    while (rc == KVT_OK && used > soft_of(quota) && line->next < line->count) {
        const size_t at = line->next++;
        const uint32_t block = line->blocks[at];
        enum relief relief;

        if (!is_candidate(simulation, quota, block) ||
            simulation->blocks[block].used_ms != line->used_ms[at])
            continue; /* it went, or was read meanwhile */
        relief = relieve(simulation, quota, block, used > quota->hard, &rc);
        if (relief == LEFT)
            *moved = line->helped = true;
        if (relief == WAITS) {
            line->next--;
            break;
        }
        used = used_of(simulation, quota);
    }
    if (line->next == line->count && !line->helped)
        line->rest_ms = simulation->now_ms + REST_MS;
    return rc;
}

enum kvt_err
policy_simulation_drain_quotas(struct policy_simulation *simulation, bool *moved)
{
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < simulation->policy->quotas.count && rc == KVT_OK; i++)
        rc = drain_one(simulation, policy_quota_at(simulation->policy, i), &simulation->lines[i],
                       moved);
    for (uint32_t i = 0; i < simulation->count && *moved; i++)
        policy_tier_blocks_settle(simulation->tiers[i].roster);
    return rc;
}
