#include <stdatomic.h>
#include <stdlib.h>

#include "advisor/order/planner_private.h"
#include "advisor/selection/planner_tables.h"
#include "advisor/selection/ranking.h"
#include "advisor/selection/tenant_quotas.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"

/* What the tiers' rosters hear: what was committed, and at a start what the store has. */

enum { LOAD_PAGE = 65536 }; /* rows between two looks at `cancel` */

static uint64_t
tick_of(uint64_t time_ms)
{
    return time_ms / ADVISOR_TICK_MS;
}

static uint32_t
size_of(uint64_t size)
{
    return size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
}

static void
add_candidate(struct advisor_planner *planner, const struct advisor_effect *effect,
              const struct policy_block *block)
{
    struct advisor_gateway *gateway;

    if (effect->op.reporter >= planner->gateway_count || effect->in_hot || effect->ranks == 0)
        return;
    gateway = &planner->gateways[effect->op.reporter];
    for (uint32_t i = 0; i < gateway->candidate_count; i++)
        if (gateway->candidates[i].block.hash == block->hash &&
            gateway->candidates[i].block.ns == block->ns) {
            gateway->candidates[i].reads = effect->cold_recent;
            return;
        }
    /* Full: whoever is read again will come again. */
    if (gateway->candidate_count < ADVISOR_CANDIDATES_MAX)
        gateway->candidates[gateway->candidate_count++] =
            (struct advisor_candidate){.block = *block,
                                       .tier = advisor_planner_tier_of(planner, effect->op.holder),
                                       .reads = effect->cold_recent};
}

static void
use_in(struct advisor_planner *planner, uint32_t tier, const struct policy_block *block,
       uint64_t time_ms)
{
    if (advisor_ranking_use(&planner->tiers[tier].ranking, block, tick_of(time_ms)) != KVT_OK)
        advisor_planner_say_truncated(&planner->tiers[tier]);
}

/* Read by a gateway: a use for the tier that served it and for all others of the gateway.  What is
 * read hot is used in the buckets too, and what is read from a bucket is what volumes lacked. */
static void
use(struct advisor_planner *planner, const struct advisor_effect *effect,
    const struct policy_block *block)
{
    const uint32_t served = advisor_planner_tier_of(planner, effect->op.holder);
    const struct advisor_gateway *gateway = effect->op.reporter < planner->gateway_count
                                                ? &planner->gateways[effect->op.reporter]
                                                : NULL;

    use_in(planner, served, block, effect->op.time_ms);
    for (uint32_t i = 0; gateway != NULL && i < gateway->tier_count; i++)
        if (gateway->tiers[i] != served)
            use_in(planner, gateway->tiers[i], block, effect->op.time_ms);
}

static void
count(struct advisor_planner *planner, const struct advisor_effect *effect,
      const struct policy_block *block)
{
    const struct advisor_hot_block hot = {
        .hash = block->hash,
        .parent = block->parent,
        .reads = effect->op.count,
        .bytes = effect->op.size,
        .ns = block->ns,
        .index_ns = advisor_name_table_index_namespace(planner->names, block->ns),
        .position = block->position};

    /* By our clock: one gateway's that is far behind would make all others' reads old. */
    advisor_traffic_block(planner->options.traffic, &hot, effect->age_ms, kvt_clock_unix_ms());
}

/* Is it being taken out of another tier?  Then an order of ours brought it. */
static bool
is_moved(const struct advisor_planner *planner, uint32_t tier, const struct policy_block *block)
{
    for (uint32_t i = 0; i < planner->tier_count; i++)
        if (i != tier &&
            policy_tier_blocks_is_taken(planner->tiers[i].roster, block->ns, block->hash))
            return true;
    return false;
}

void
advisor_planner_hear(struct advisor_planner *planner, const struct advisor_news *news)
{
    if (planner->news == NULL)
        planner->news = kvt_calloc(ADVISOR_NEWS_MAX, sizeof(*planner->news));
    if (planner->news != NULL && planner->news_count < ADVISOR_NEWS_MAX)
        planner->news[planner->news_count++] = *news;
}

/* It came to the tier, if it was not there. */
static void
hear(struct advisor_planner *planner, uint32_t tier, const struct policy_block *block)
{
    if (block->ranks == 0 ||
        policy_tier_blocks_has(planner->tiers[tier].roster, block->ns, block->hash))
        return;
    advisor_planner_hear(planner, &(struct advisor_news){.hash = block->hash,
                                                         .ns = block->ns,
                                                         .tier = tier,
                                                         .event = POLICY_ON_STORED,
                                                         .moved = is_moved(planner, tier, block)});
}

static uint64_t
parent_of(const struct advisor_planner *planner, uint32_t ns, uint64_t hash, uint32_t position,
          uint64_t parent)
{
    return advisor_ranking_parent(
        planner->options.index, advisor_name_table_index_namespace(planner->names, ns),
        &(struct kvt_block_id){.hash = hash, .parent = parent, .position = position});
}

static void
follow(struct advisor_planner *planner, const struct advisor_effect *effect)
{
    const struct advisor_planner_options *options = &planner->options;
    const uint32_t tier = advisor_planner_tier_of(planner, effect->op.holder);
    const struct policy_block block = {.hash = effect->op.hash,
                                       .parent = parent_of(planner, effect->op.ns, effect->op.hash,
                                                           effect->position, effect->parent),
                                       .ns = effect->op.ns,
                                       .position = effect->position,
                                       .ranks = effect->ranks,
                                       .size = size_of(effect->op.size)};

    if (effect->op.kind == ADVISOR_OP_ACCESS)
        count(planner, effect, &block);
    if (tier == ADVISOR_NONE)
        return;
    if (planner->hears_stored && effect->op.kind == ADVISOR_OP_STORE)
        hear(planner, tier, &block);
    if (effect->op.kind == ADVISOR_OP_ACCESS)
        use(planner, effect, &block);
    else if (effect->ranks == 0)
        advisor_ranking_leave(&planner->tiers[tier].ranking, block.ns, block.hash);
    else if (advisor_ranking_store(&planner->tiers[tier].ranking, &block,
                                   tick_of(effect->op.time_ms)) != KVT_OK)
        advisor_planner_say_truncated(&planner->tiers[tier]);
    if (effect->op.kind == ADVISOR_OP_ACCESS && (effect->op.cold || effect->op.warm) &&
        options->promote_after > 0 &&
        (planner->by_price || effect->cold_recent >= options->promote_after))
        add_candidate(planner, effect, &block);
}

static int
by_time(const void *left, const void *right)
{
    const struct advisor_effect *a = *(const struct advisor_effect *const *)left;
    const struct advisor_effect *b = *(const struct advisor_effect *const *)right;

    if (tick_of(a->op.time_ms) != tick_of(b->op.time_ms))
        return tick_of(a->op.time_ms) < tick_of(b->op.time_ms) ? -1 : 1;
    return a < b ? -1 : 1; /* of one block in their order */
}

static bool
is_in_time(const struct advisor_effect *effects, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (tick_of(effects[i].op.time_ms) < tick_of(effects[i - 1].op.time_ms))
            return false;
    return true;
}

void
advisor_planner_apply(struct advisor_planner *planner, const struct advisor_effect *effects,
                      size_t count)
{
    /* Most groups are of one tick. */
    const struct advisor_effect **sorted =
        is_in_time(effects, count) ? NULL : kvt_calloc(count, sizeof(*sorted));

    for (size_t i = 0; i < count && sorted != NULL; i++)
        sorted[i] = &effects[i];
    if (sorted != NULL)
        qsort(sorted, count, sizeof(*sorted), by_time);
    /* Without memory in their own order, which is that of blocks: late uses count as new ones. */
    for (size_t i = 0; i < count; i++)
        follow(planner, sorted != NULL ? sorted[i] : &effects[i]);
    for (uint32_t i = 0; i < planner->tier_count; i++)
        advisor_ranking_settle(&planner->tiers[i].ranking);
    kvt_free(sorted);
}

void
advisor_planner_count(struct advisor_planner *planner, const struct advisor_byte_sums_row *sums,
                      size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t tier = advisor_planner_tier_of(planner, sums[i].place);

        if (tier != ADVISOR_NONE && sums[i].bytes != 0)
            advisor_planner_count_bytes(planner, sums[i].ns, tier, sums[i].bytes);
    }
}

static enum kvt_err
load_block(void *arg, const struct advisor_store_block *row)
{
    struct advisor_planner *planner = arg;
    const uint64_t parent = parent_of(planner, row->ns, row->hash, row->position, row->parent);

    for (uint32_t i = 0; i < row->place_count; i++) {
        const uint32_t tier = advisor_planner_tier_of(planner, row->places[i].holder);
        const uint32_t ranks = row->places[i].ranks;

        if (tier == ADVISOR_NONE)
            continue;
        advisor_planner_count_bytes(planner, row->ns, tier,
                                    (int64_t)(row->size * (uint64_t)__builtin_popcount(ranks)));
        if (ranks != 0 &&
            advisor_ranking_restore(&planner->tiers[tier].ranking, row, parent, ranks) != KVT_OK)
            advisor_planner_say_truncated(&planner->tiers[tier]);
    }
    return KVT_OK;
}

static bool
is_set(const void *arg)
{
    const _Atomic bool *flag = arg;

    return atomic_load_explicit(flag, memory_order_relaxed);
}

/* Time mends an order that is none; an advisor that does not start would mend nothing. */
static enum kvt_err
restored(struct advisor_tier *tier, const _Atomic bool *cancel)
{
    const enum kvt_err rc = advisor_ranking_restored(&tier->ranking, is_set, cancel);

    if (rc != KVT_NOMEM)
        return rc;
    kvt_log_warn("advisor.planner", "unordered",
                 "there was no memory to put the blocks of %s into their order: they leave in any",
                 tier->name);
    return KVT_OK;
}

enum kvt_err
advisor_planner_load_blocks(struct advisor_planner *planner, const struct advisor_txn *txn,
                            const _Atomic bool *cancel)
{
    enum kvt_err rc = KVT_OK;
    uint64_t next = 0;

    do
        rc = is_set(cancel)
                 ? KVT_CANCELLED
                 : advisor_store_blocks(txn, next, LOAD_PAGE, &next, load_block, planner);
    while (rc == KVT_OK && next != 0);
    for (uint32_t i = 0; i < planner->tier_count && rc == KVT_OK; i++)
        rc = restored(&planner->tiers[i], cancel);
    if (rc == KVT_OK)
        advisor_planner_show(planner); /* who asks before the first tick finds what there was */
    return rc;
}
