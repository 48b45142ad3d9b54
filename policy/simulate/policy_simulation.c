#include "policy/simulate/policy_simulation.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"

#include "policy/simulate/policy_simulation_private.h"

/* Requests, and blocks that come and go. */

enum { BLOCKS_FIRST = 1024, REQUEST_TICKS = 20 };

#define MONTH_MS (365.25 / 12 * 24 * 3600 * 1000)
#define GIB      1073741824.0
#define BILLION  1e9 /* prices are in billionths */

void
policy_simulation_free(struct policy_simulation *simulation)
{
    if (simulation == NULL)
        return;
    for (uint32_t i = 0; i < simulation->count; i++)
        policy_tier_blocks_free(simulation->tiers[i].roster);
    for (size_t i = 0; simulation->lines != NULL && i < simulation->policy->quotas.count; i++) {
        kvt_free(simulation->lines[i].blocks);
        kvt_free(simulation->lines[i].used_ms);
    }
    kvt_free(simulation->lines);
    kvt_free(simulation->used_by);
    kvt_free(simulation->blocks);
    kvt_free(simulation);
}

static enum kvt_err
find_tiers(struct policy_simulation *simulation)
{
    const struct policy *policy = simulation->policy;
    bool any = false;

    simulation->through = -1;
    if (policy->tiers.count > POLICY_SIMULATION_TIERS_MAX)
        return KVT_INVALID;
    for (uint32_t i = 0; i < policy->tiers.count; i++) {
        const uint32_t kind = policy_tier_at(policy, i)->kind;

        simulation->tiers[i].capacity = simulation->options.capacity[i];
        simulation->tiers[i].bucket = kind == POLICY_BUCKET;
        if (kind != POLICY_MEMORY && !any) {
            simulation->entry = i;
            any = true;
        }
        if (kind == POLICY_BUCKET && simulation->through < 0)
            simulation->through = (int32_t)i;
    }
    simulation->result.entry = simulation->entry;
    simulation->result.tier_count = (uint32_t)policy->tiers.count;
    return any ? KVT_OK : KVT_INVALID;
}

static void
find_rules(struct policy_simulation *simulation)
{
    assert(simulation->policy->rules.count <= POLICY_SIMULATION_RULES_MAX);
    for (size_t i = 0; i < simulation->policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(simulation->policy, i);

        simulation->passes = simulation->passes || policy_simulation_is_swept(rule);
        simulation->by_price =
            simulation->by_price ||
            (rule->verb == POLICY_PROMOTE && (rule->on & POLICY_ON_SECOND_COLD_HIT) != 0 &&
             rule->promote_by == POLICY_BY_PRICE);
    }
}

enum kvt_err
policy_simulation_new(struct policy_simulation **out,
                      const struct policy_simulation_options *options)
{
    const struct policy_tier_blocks_options roster = {.ordering = options->ordering,
                                                      .ordering_options = options->ordering_options,
                                                      .bytes_max = options->roster_bytes,
                                                      .request_ticks = REQUEST_TICKS};
    struct policy_simulation *simulation = kvt_calloc(1, sizeof(*simulation));
    enum kvt_err rc;

    assert(options->block_bytes > 0 && options->tick_ms > 0);
    *out = NULL;
    if (simulation == NULL)
        return KVT_NOMEM;
    simulation->options = *options;
    simulation->policy = options->policy;
    simulation->bytes = options->block_bytes;
    rc = find_tiers(simulation);
    if (rc != KVT_OK)
        goto fail;
    find_rules(simulation);
    policy_simulation_begin_limits(simulation);
    rc = KVT_NOMEM;
    simulation->used_by =
        kvt_calloc((size_t)POLICY_SIMULATION_TENANTS_MAX * options->policy->tiers.count,
                   sizeof(*simulation->used_by));
    simulation->lines = kvt_calloc(options->policy->quotas.count + 1, sizeof(*simulation->lines));
    if (simulation->used_by == NULL || simulation->lines == NULL)
        goto fail;
    for (uint32_t i = 0; i < options->policy->tiers.count; i++) {
        rc = policy_tier_blocks_new(&simulation->tiers[i].roster, &roster);
        if (rc != KVT_OK)
            goto fail;
        simulation->count++;
    }
    *out = simulation;
    return KVT_OK;

fail:
    policy_simulation_free(simulation);
    return rc;
}

static enum kvt_err
reserve(struct policy_simulation *simulation, uint32_t count)
{
    uint32_t room = simulation->known == 0 ? BLOCKS_FIRST : simulation->known;
    struct policy_simulation_block *blocks;

    if (count <= simulation->known)
        return KVT_OK;
    if (count > KVT_ORDERING_BLOCKS_MAX)
        return KVT_NOMEM;
    while (room < count)
        room *= 2;
    blocks = kvt_realloc(simulation->blocks, room, sizeof(*blocks));
    if (blocks == NULL)
        return KVT_NOMEM;
    memset(blocks + simulation->known, 0, (room - simulation->known) * sizeof(*blocks));
    simulation->blocks = blocks;
    simulation->known = room;
    return KVT_OK;
}

/* ---- blocks ---- */

static struct policy_block
row_of(const struct policy_simulation *simulation, uint32_t block, uint32_t tier)
{
    const struct policy_simulation_block *row = &simulation->blocks[block];

    return (struct policy_block){.hash = (uint64_t)block + 1,
                                 .parent = row->parent,
                                 .position = row->position,
                                 .ranks = policy_simulation_is_in(simulation, block, tier) ? 1 : 0,
                                 .size = (uint32_t)simulation->bytes};
}

static uint64_t
tick_of(const struct policy_simulation *simulation)
{
    return simulation->now_ms / simulation->options.tick_ms;
}

/* As the advisor has it: one block may go over the watermark, for else a tier could stay just below
 * it, and never be drained for those above. */
bool
policy_simulation_has_room(const struct policy_simulation *simulation, uint32_t tier)
{
    const struct policy_simulation_tier_state *tier_state = &simulation->tiers[tier];
    const int32_t last = policy_simulation_last(simulation, tier);

    if (tier_state->capacity == 0)
        return true;
    return last < 0 ? tier_state->used + simulation->bytes <= tier_state->capacity
                    : tier_state->used <
                          policy_simulation_mark(
                              tier_state->capacity,
                              policy_rule_at(simulation->policy, (size_t)last)->trigger.start);
}

enum kvt_err
policy_simulation_put(struct policy_simulation *simulation, uint32_t block, uint32_t tier)
{
    struct policy_simulation_block *row = &simulation->blocks[block];
    struct policy_block told;

    assert(!policy_simulation_is_in(simulation, block, tier));
    row->where |= (uint8_t)(1u << tier);
    row->recent = 0; /* reads from further down count from each move on */
    simulation->tiers[tier].used += simulation->bytes;
    simulation->used_by[(size_t)row->tenant * simulation->count + tier] += simulation->bytes;
    simulation->result.tiers[tier].puts++;
    simulation->result.tiers[tier].blocks++;
    told = row_of(simulation, block, tier);
    return policy_tier_blocks_store(simulation->tiers[tier].roster, &told, tick_of(simulation));
}

static void
take_out(struct policy_simulation *simulation, uint32_t block, uint32_t tier)
{
    struct policy_simulation_block *row = &simulation->blocks[block];

    row->where &= (uint8_t) ~(1u << tier);
    simulation->tiers[tier].used -= simulation->bytes;
    simulation->used_by[(size_t)row->tenant * simulation->count + tier] -= simulation->bytes;
    simulation->result.tiers[tier].blocks--;
    policy_tier_blocks_leave(simulation->tiers[tier].roster, 0, (uint64_t)block + 1);
}

static void
expire(struct policy_simulation *simulation, uint32_t block)
{
    struct policy_simulation_block *row = &simulation->blocks[block];

    for (uint32_t tier = 0; tier < simulation->count; tier++)
        if (policy_simulation_is_in(simulation, block, tier))
            take_out(simulation, block, tier);
    simulation->result.expired++;
    if (row->parent != 0)
        simulation->blocks[row->parent - 1].children--;
    row->hits = row->cold_hits = row->recent = 0; /* it comes back as one without a past */
}

enum kvt_err
policy_simulation_move(struct policy_simulation *simulation, uint32_t block, uint32_t from,
                       int32_t to)
{
    struct policy_simulation_edge *edge;
    enum kvt_err rc = KVT_OK;

    if (to < 0) {
        expire(simulation, block);
        return KVT_OK;
    }
    edge = &simulation->result.edges[from][to];
    edge->blocks++;
    if (!policy_simulation_is_in(simulation, block, (uint32_t)to)) {
        edge->copied++;
        simulation->result.tiers[from].gets++;
        rc = policy_simulation_put(simulation, block, (uint32_t)to);
    }
    /* What comes up from a bucket stays there, too. */
    if (!simulation->tiers[from].bucket || simulation->tiers[to].bucket)
        take_out(simulation, block, from);
    return rc;
}

/* ---- requests ---- */

static uint32_t
tier_of(const struct policy_simulation *simulation, uint32_t block)
{
    return (uint32_t)__builtin_ctz(simulation->blocks[block].where);
}

static enum kvt_err
use(struct policy_simulation *simulation, uint32_t block)
{
    for (uint32_t tier = simulation->entry; tier < simulation->count; tier++) {
        const struct policy_block told = row_of(simulation, block, tier);
        const enum kvt_err rc =
            policy_tier_blocks_use(simulation->tiers[tier].roster, &told, tick_of(simulation));

        if (rc != KVT_OK)
            return rc;
    }
    return KVT_OK;
}

static enum kvt_err
read_one(struct policy_simulation *simulation, uint32_t block)
{
    struct policy_simulation_block *row = &simulation->blocks[block];
    const uint32_t tier = tier_of(simulation, block);

    simulation->result.known_reads++;
    simulation->result.tiers[tier].reads++;
    simulation->result.tiers[tier].gets++;
    row->hits += row->hits < UINT32_MAX;
    row->used_ms = simulation->now_ms;
    if (tier > simulation->entry) {
        row->recent += row->recent < UINT32_MAX;
        row->cold_hits += simulation->tiers[tier].bucket && row->cold_hits < UINT32_MAX;
        if (!row->waits &&
            (simulation->by_price || row->recent >= simulation->options.cold_reads) &&
            simulation->candidate_count < POLICY_SIMULATION_CANDIDATES_MAX) {
            simulation->candidates[simulation->candidate_count++] = block;
            row->waits = true;
        }
    }
    return use(simulation, block);
}

static enum kvt_err
store_one(struct policy_simulation *simulation, uint32_t block)
{
    struct policy_simulation_block *row = &simulation->blocks[block];
    uint32_t tier = simulation->entry;
    enum kvt_err rc;

    simulation->result.lost_reads += row->seen;
    simulation->result.blocks += !row->seen;
    row->seen = true;
    row->stored_ms = row->used_ms = simulation->now_ms;
    if (row->parent != 0)
        simulation->blocks[row->parent - 1].children++;
    while (tier + 1 < simulation->count && simulation->tiers[tier].capacity != 0 &&
           simulation->tiers[tier].used + simulation->bytes > simulation->tiers[tier].capacity)
        tier++;
    rc = policy_simulation_put(simulation, block, tier);
    if (rc == KVT_OK && simulation->through >= 0 &&
        !policy_simulation_is_in(simulation, block, (uint32_t)simulation->through))
        rc = policy_simulation_put(simulation, block, (uint32_t)simulation->through);
    return rc;
}

static void
count_time(struct policy_simulation *simulation, uint64_t now_ms)
{
    if (simulation->result.requests == 0)
        simulation->first_ms = simulation->now_ms = now_ms;
    if (now_ms < simulation->now_ms)
        now_ms = simulation->now_ms;
    for (uint32_t i = 0; i < simulation->count; i++)
        simulation->result.tiers[i].block_ms +=
            (double)simulation->result.tiers[i].blocks * (double)(now_ms - simulation->now_ms);
    simulation->now_ms = now_ms;
    simulation->result.span_ms = now_ms - simulation->first_ms;
}

static enum kvt_err
act(struct policy_simulation *simulation)
{
    const enum kvt_err rc = policy_simulation_act(simulation);

    for (uint32_t i = 0; i < simulation->count; i++)
        if (simulation->result.tiers[i].blocks > simulation->result.tiers[i].most)
            simulation->result.tiers[i].most = simulation->result.tiers[i].blocks;
    return rc;
}

/* Rules that a limit keeps back go on as it allows. */
static enum kvt_err
wait_until(struct policy_simulation *simulation, uint64_t until_ms)
{
    uint64_t next_ms = policy_simulation_next_ms(simulation);
    enum kvt_err rc = KVT_OK;

    while (next_ms < until_ms && rc == KVT_OK) {
        policy_simulation_count_waits(simulation, next_ms);
        count_time(simulation, next_ms);
        rc = act(simulation);
        next_ms = policy_simulation_next_ms(simulation);
    }
    if (until_ms > simulation->now_ms)
        policy_simulation_count_waits(simulation, until_ms);
    return rc;
}

/* Who its blocks are, as the first request that has them says. */
static enum kvt_err
introduce(struct policy_simulation *simulation, const struct policy_workload_request *request)
{
    uint32_t highest = 0;
    enum kvt_err rc;

    for (uint32_t i = 0; i < request->count; i++)
        highest = request->blocks[i] >= highest ? request->blocks[i] + 1 : highest;
    rc = reserve(simulation, highest);
    for (uint32_t i = 0; i < request->count && rc == KVT_OK; i++) {
        struct policy_simulation_block *row = &simulation->blocks[request->blocks[i]];

        if (row->met)
            continue;
        row->met = true;
        row->tenant = (uint16_t)request->tenant;
        row->position = i;
        row->parent = i == 0 ? 0 : request->blocks[i - 1] + 1;
    }
    return rc;
}

enum kvt_err
policy_simulation_request(struct policy_simulation *simulation,
                          const struct policy_workload_request *request)
{
    struct policy_simulation_result *result = &simulation->result;
    uint32_t prefix = 0;
    enum kvt_err rc = introduce(simulation, request);

    if (rc == KVT_OK)
        rc = wait_until(simulation, request->time_ms);
    if (rc != KVT_OK)
        return rc;
    count_time(simulation, request->time_ms);
    while (prefix < request->count &&
           policy_simulation_is_in(simulation, request->blocks[prefix], simulation->entry))
        prefix++;
    result->prefix_hits += prefix;
    /* All reads before any store: in one tick a roster has them in its own order anyway. */
    for (uint32_t i = request->count; i-- > 0 && rc == KVT_OK;)
        if (simulation->blocks[request->blocks[i]].where != 0)
            rc = read_one(simulation, request->blocks[i]);
    for (uint32_t i = request->count; i-- > 0 && rc == KVT_OK;)
        if (simulation->blocks[request->blocks[i]].where == 0)
            rc = store_one(simulation, request->blocks[i]);
    result->requests++;
    result->reads += request->count;
    for (uint32_t i = 0; i < simulation->count; i++)
        policy_tier_blocks_settle(simulation->tiers[i].roster);
    return rc == KVT_OK ? act(simulation) : rc;
}

/* ---- figures ---- */

struct policy_simulation_result
policy_simulation_result(const struct policy_simulation *simulation)
{
    return simulation->result;
}

bool
policy_simulation_has(const struct policy_simulation *simulation, uint32_t tier, uint32_t block)
{
    return block < simulation->known && tier < simulation->count &&
           policy_simulation_is_in(simulation, block, tier);
}

uint64_t
policy_simulation_used_by(const struct policy_simulation *simulation, uint32_t tenant,
                          uint32_t tier)
{
    assert(tenant < POLICY_SIMULATION_TENANTS_MAX && tier < simulation->count);
    return simulation->used_by[(size_t)tenant * simulation->count + tier];
}

double
policy_simulation_money(const struct policy_simulation_result *result,
                        const struct policy_simulation_options *options, uint32_t tier)
{
    const struct policy_prices *prices = &policy_tier_at(options->policy, tier)->prices;
    const struct policy_simulation_tier *figures = &result->tiers[tier];
    const double gib = (double)options->block_bytes / GIB;

    return ((double)figures->puts / 1000 * (double)prices->put_1k +
            (double)figures->gets / 1000 * (double)prices->get_1k +
            (double)figures->gets * gib * (double)prices->egress_gib +
            figures->block_ms / MONTH_MS * gib * (double)prices->gib_month) /
           BILLION;
}

double
policy_simulation_latency_ms(const struct policy_simulation_result *result,
                             const struct policy *policy)
{
    double sum = 0;

    for (uint32_t i = 0; i < result->tier_count; i++)
        sum += (double)result->tiers[i].reads * (double)policy_tier_at(policy, i)->prices.latency;
    return result->known_reads == 0 ? 0 : sum / (double)result->known_reads;
}
