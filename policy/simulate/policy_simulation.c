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
policy_simulation_free(struct policy_simulation *ladder)
{
    if (ladder == NULL)
        return;
    for (uint32_t i = 0; i < ladder->count; i++)
        policy_tier_blocks_free(ladder->rungs[i].roster);
    for (size_t i = 0; ladder->lines != NULL && i < ladder->policy->quotas.count; i++) {
        kvt_free(ladder->lines[i].blocks);
        kvt_free(ladder->lines[i].used_ms);
    }
    kvt_free(ladder->lines);
    kvt_free(ladder->used_by);
    kvt_free(ladder->blocks);
    kvt_free(ladder);
}

static enum kvt_err
find_tiers(struct policy_simulation *ladder)
{
    const struct policy *policy = ladder->policy;
    bool any = false;

    ladder->through = -1;
    if (policy->tiers.count > POLICY_SIMULATION_TIERS_MAX)
        return KVT_INVALID;
    for (uint32_t i = 0; i < policy->tiers.count; i++) {
        const uint32_t kind = policy_tier_at(policy, i)->kind;

        ladder->rungs[i].capacity = ladder->options.capacity[i];
        ladder->rungs[i].bucket = kind == POLICY_BUCKET;
        if (kind != POLICY_MEMORY && !any) {
            ladder->entry = i;
            any = true;
        }
        if (kind == POLICY_BUCKET && ladder->through < 0)
            ladder->through = (int32_t)i;
    }
    ladder->result.entry = ladder->entry;
    ladder->result.tier_count = (uint32_t)policy->tiers.count;
    return any ? KVT_OK : KVT_INVALID;
}

static void
find_rules(struct policy_simulation *ladder)
{
    assert(ladder->policy->rules.count <= POLICY_SIMULATION_RULES_MAX);
    for (size_t i = 0; i < ladder->policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(ladder->policy, i);

        ladder->passes = ladder->passes || policy_simulation_is_swept(rule);
        ladder->by_price = ladder->by_price || (rule->verb == POLICY_PROMOTE &&
                                                (rule->on & POLICY_ON_SECOND_COLD_HIT) != 0 &&
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
    struct policy_simulation *ladder = kvt_calloc(1, sizeof(*ladder));
    enum kvt_err rc;

    assert(options->block_bytes > 0 && options->tick_ms > 0);
    *out = NULL;
    if (ladder == NULL)
        return KVT_NOMEM;
    ladder->options = *options;
    ladder->policy = options->policy;
    ladder->bytes = options->block_bytes;
    rc = find_tiers(ladder);
    if (rc != KVT_OK)
        goto fail;
    find_rules(ladder);
    policy_simulation_begin_limits(ladder);
    rc = KVT_NOMEM;
    ladder->used_by =
        kvt_calloc((size_t)POLICY_SIMULATION_TENANTS_MAX * options->policy->tiers.count,
                   sizeof(*ladder->used_by));
    ladder->lines = kvt_calloc(options->policy->quotas.count + 1, sizeof(*ladder->lines));
    if (ladder->used_by == NULL || ladder->lines == NULL)
        goto fail;
    for (uint32_t i = 0; i < options->policy->tiers.count; i++) {
        rc = policy_tier_blocks_new(&ladder->rungs[i].roster, &roster);
        if (rc != KVT_OK)
            goto fail;
        ladder->count++;
    }
    *out = ladder;
    return KVT_OK;

fail:
    policy_simulation_free(ladder);
    return rc;
}

static enum kvt_err
reserve(struct policy_simulation *ladder, uint32_t count)
{
    uint32_t room = ladder->known == 0 ? BLOCKS_FIRST : ladder->known;
    struct policy_simulation_block *blocks;

    if (count <= ladder->known)
        return KVT_OK;
    if (count > KVT_ORDERING_BLOCKS_MAX)
        return KVT_NOMEM;
    while (room < count)
        room *= 2;
    blocks = kvt_realloc(ladder->blocks, room, sizeof(*blocks));
    if (blocks == NULL)
        return KVT_NOMEM;
    memset(blocks + ladder->known, 0, (room - ladder->known) * sizeof(*blocks));
    ladder->blocks = blocks;
    ladder->known = room;
    return KVT_OK;
}

/* ---- blocks ---- */

static struct policy_block
row_of(const struct policy_simulation *ladder, uint32_t block, uint32_t tier)
{
    const struct policy_simulation_block *row = &ladder->blocks[block];

    return (struct policy_block){.hash = (uint64_t)block + 1,
                                 .parent = row->parent,
                                 .position = row->position,
                                 .ranks = policy_simulation_is_in(ladder, block, tier) ? 1 : 0,
                                 .size = (uint32_t)ladder->bytes};
}

static uint64_t
tick_of(const struct policy_simulation *ladder)
{
    return ladder->now_ms / ladder->options.tick_ms;
}

/* As the advisor has it: one block may go over the watermark, for else a tier could stay just below
 * it, and never be drained for those above. */
bool
policy_simulation_has_room(const struct policy_simulation *ladder, uint32_t tier)
{
    const struct policy_simulation_tier_state *rung = &ladder->rungs[tier];
    const int32_t last = policy_simulation_last(ladder, tier);

    if (rung->capacity == 0)
        return true;
    return last < 0 ? rung->used + ladder->bytes <= rung->capacity
                    : rung->used < policy_simulation_mark(
                                       rung->capacity,
                                       policy_rule_at(ladder->policy, (size_t)last)->trigger.start);
}

enum kvt_err
policy_simulation_put(struct policy_simulation *ladder, uint32_t block, uint32_t tier)
{
    struct policy_simulation_block *row = &ladder->blocks[block];
    struct policy_block told;

    assert(!policy_simulation_is_in(ladder, block, tier));
    row->where |= (uint8_t)(1u << tier);
    row->recent = 0; /* reads from further down count from each move on */
    ladder->rungs[tier].used += ladder->bytes;
    ladder->used_by[(size_t)row->tenant * ladder->count + tier] += ladder->bytes;
    ladder->result.tiers[tier].puts++;
    ladder->result.tiers[tier].blocks++;
    told = row_of(ladder, block, tier);
    return policy_tier_blocks_store(ladder->rungs[tier].roster, &told, tick_of(ladder));
}

static void
take_out(struct policy_simulation *ladder, uint32_t block, uint32_t tier)
{
    struct policy_simulation_block *row = &ladder->blocks[block];

    row->where &= (uint8_t) ~(1u << tier);
    ladder->rungs[tier].used -= ladder->bytes;
    ladder->used_by[(size_t)row->tenant * ladder->count + tier] -= ladder->bytes;
    ladder->result.tiers[tier].blocks--;
    policy_tier_blocks_leave(ladder->rungs[tier].roster, 0, (uint64_t)block + 1);
}

static void
expire(struct policy_simulation *ladder, uint32_t block)
{
    struct policy_simulation_block *row = &ladder->blocks[block];

    for (uint32_t tier = 0; tier < ladder->count; tier++)
        if (policy_simulation_is_in(ladder, block, tier))
            take_out(ladder, block, tier);
    ladder->result.expired++;
    if (row->parent != 0)
        ladder->blocks[row->parent - 1].children--;
    row->hits = row->cold_hits = row->recent = 0; /* it comes back as one without a past */
}

enum kvt_err
policy_simulation_move(struct policy_simulation *ladder, uint32_t block, uint32_t from, int32_t to)
{
    struct policy_simulation_edge *edge;
    enum kvt_err rc = KVT_OK;

    if (to < 0) {
        expire(ladder, block);
        return KVT_OK;
    }
    edge = &ladder->result.edges[from][to];
    edge->blocks++;
    if (!policy_simulation_is_in(ladder, block, (uint32_t)to)) {
        edge->copied++;
        ladder->result.tiers[from].gets++;
        rc = policy_simulation_put(ladder, block, (uint32_t)to);
    }
    /* What comes up from a bucket stays there, too. */
    if (!ladder->rungs[from].bucket || ladder->rungs[to].bucket)
        take_out(ladder, block, from);
    return rc;
}

/* ---- requests ---- */

static uint32_t
tier_of(const struct policy_simulation *ladder, uint32_t block)
{
    return (uint32_t)__builtin_ctz(ladder->blocks[block].where);
}

static enum kvt_err
use(struct policy_simulation *ladder, uint32_t block)
{
    for (uint32_t tier = ladder->entry; tier < ladder->count; tier++) {
        const struct policy_block told = row_of(ladder, block, tier);
        const enum kvt_err rc =
            policy_tier_blocks_use(ladder->rungs[tier].roster, &told, tick_of(ladder));

        if (rc != KVT_OK)
            return rc;
    }
    return KVT_OK;
}

static enum kvt_err
read_one(struct policy_simulation *ladder, uint32_t block)
{
    struct policy_simulation_block *row = &ladder->blocks[block];
    const uint32_t tier = tier_of(ladder, block);

    ladder->result.known_reads++;
    ladder->result.tiers[tier].reads++;
    ladder->result.tiers[tier].gets++;
    row->hits += row->hits < UINT32_MAX;
    row->used_ms = ladder->now_ms;
    if (tier > ladder->entry) {
        row->recent += row->recent < UINT32_MAX;
        row->cold_hits += ladder->rungs[tier].bucket && row->cold_hits < UINT32_MAX;
        if (!row->waits && (ladder->by_price || row->recent >= ladder->options.cold_reads) &&
            ladder->candidate_count < POLICY_SIMULATION_CANDIDATES_MAX) {
            ladder->candidates[ladder->candidate_count++] = block;
            row->waits = true;
        }
    }
    return use(ladder, block);
}

static enum kvt_err
store_one(struct policy_simulation *ladder, uint32_t block)
{
    struct policy_simulation_block *row = &ladder->blocks[block];
    uint32_t tier = ladder->entry;
    enum kvt_err rc;

    ladder->result.lost_reads += row->seen;
    ladder->result.blocks += !row->seen;
    row->seen = true;
    row->stored_ms = row->used_ms = ladder->now_ms;
    if (row->parent != 0)
        ladder->blocks[row->parent - 1].children++;
    while (tier + 1 < ladder->count && ladder->rungs[tier].capacity != 0 &&
           ladder->rungs[tier].used + ladder->bytes > ladder->rungs[tier].capacity)
        tier++;
    rc = policy_simulation_put(ladder, block, tier);
    if (rc == KVT_OK && ladder->through >= 0 &&
        !policy_simulation_is_in(ladder, block, (uint32_t)ladder->through))
        rc = policy_simulation_put(ladder, block, (uint32_t)ladder->through);
    return rc;
}

static void
count_time(struct policy_simulation *ladder, uint64_t now_ms)
{
    if (ladder->result.requests == 0)
        ladder->first_ms = ladder->now_ms = now_ms;
    if (now_ms < ladder->now_ms)
        now_ms = ladder->now_ms;
    for (uint32_t i = 0; i < ladder->count; i++)
        ladder->result.tiers[i].block_ms +=
            (double)ladder->result.tiers[i].blocks * (double)(now_ms - ladder->now_ms);
    ladder->now_ms = now_ms;
    ladder->result.span_ms = now_ms - ladder->first_ms;
}

static enum kvt_err
act(struct policy_simulation *ladder)
{
    const enum kvt_err rc = policy_simulation_act(ladder);

    for (uint32_t i = 0; i < ladder->count; i++)
        if (ladder->result.tiers[i].blocks > ladder->result.tiers[i].most)
            ladder->result.tiers[i].most = ladder->result.tiers[i].blocks;
    return rc;
}

/* Rules that a limit keeps back go on as it allows. */
static enum kvt_err
wait_until(struct policy_simulation *ladder, uint64_t until_ms)
{
    uint64_t next_ms = policy_simulation_next_ms(ladder);
    enum kvt_err rc = KVT_OK;

    while (next_ms < until_ms && rc == KVT_OK) {
        policy_simulation_count_waits(ladder, next_ms);
        count_time(ladder, next_ms);
        rc = act(ladder);
        next_ms = policy_simulation_next_ms(ladder);
    }
    if (until_ms > ladder->now_ms)
        policy_simulation_count_waits(ladder, until_ms);
    return rc;
}

/* Who its blocks are, as the first request that has them says. */
static enum kvt_err
introduce(struct policy_simulation *ladder, const struct policy_workload_request *request)
{
    uint32_t highest = 0;
    enum kvt_err rc;

    for (uint32_t i = 0; i < request->count; i++)
        highest = request->blocks[i] >= highest ? request->blocks[i] + 1 : highest;
    rc = reserve(ladder, highest);
    for (uint32_t i = 0; i < request->count && rc == KVT_OK; i++) {
        struct policy_simulation_block *row = &ladder->blocks[request->blocks[i]];

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
policy_simulation_request(struct policy_simulation *ladder,
                          const struct policy_workload_request *request)
{
    struct policy_simulation_result *result = &ladder->result;
    uint32_t prefix = 0;
    enum kvt_err rc = introduce(ladder, request);

    if (rc == KVT_OK)
        rc = wait_until(ladder, request->time_ms);
    if (rc != KVT_OK)
        return rc;
    count_time(ladder, request->time_ms);
    while (prefix < request->count &&
           policy_simulation_is_in(ladder, request->blocks[prefix], ladder->entry))
        prefix++;
    result->prefix_hits += prefix;
    /* All reads before any store: in one tick a roster has them in its own order anyway. */
    for (uint32_t i = request->count; i-- > 0 && rc == KVT_OK;)
        if (ladder->blocks[request->blocks[i]].where != 0)
            rc = read_one(ladder, request->blocks[i]);
    for (uint32_t i = request->count; i-- > 0 && rc == KVT_OK;)
        if (ladder->blocks[request->blocks[i]].where == 0)
            rc = store_one(ladder, request->blocks[i]);
    result->requests++;
    result->reads += request->count;
    for (uint32_t i = 0; i < ladder->count; i++)
        policy_tier_blocks_settle(ladder->rungs[i].roster);
    return rc == KVT_OK ? act(ladder) : rc;
}

/* ---- figures ---- */

struct policy_simulation_result
policy_simulation_result(const struct policy_simulation *ladder)
{
    return ladder->result;
}

bool
policy_simulation_has(const struct policy_simulation *ladder, uint32_t tier, uint32_t block)
{
    return block < ladder->known && tier < ladder->count &&
           policy_simulation_is_in(ladder, block, tier);
}

uint64_t
policy_simulation_used_by(const struct policy_simulation *ladder, uint32_t tenant, uint32_t tier)
{
    assert(tenant < POLICY_SIMULATION_TENANTS_MAX && tier < ladder->count);
    return ladder->used_by[(size_t)tenant * ladder->count + tier];
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
