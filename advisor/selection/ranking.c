#include "advisor/selection/ranking.h"

#include <assert.h>
#include <string.h>

/* ---- orderings ---- */

uint32_t
advisor_orders_find(const struct advisor_orders *orders, const char *name)
{
    for (uint32_t i = 0; i < orders->count; i++)
        if (strcmp(orders->list[i]->name, name) == 0)
            return i;
    return orders->count;
}

bool
advisor_orders_alike(const struct advisor_orders *a, const struct advisor_orders *b)
{
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->list[i] != b->list[i])
            return false;
    return true;
}

bool
advisor_orders_add(struct advisor_orders *orders, const struct kvt_ordering *ordering)
{
    if (advisor_orders_find(orders, ordering->name) < orders->count)
        return true;
    if (orders->count == ADVISOR_RANKINGS_MAX)
        return false;
    orders->list[orders->count++] = ordering;
    return true;
}

enum kvt_err
advisor_ranking_init(struct advisor_ranking *ranking, const struct advisor_orders *orders,
                     const struct policy_tier_blocks_options *options)
{
    struct policy_tier_blocks_options roster = *options;
    enum kvt_err rc = KVT_OK;

    assert(orders->count > 0);
    *ranking = (struct advisor_ranking){.orders = {.count = 0}};
    for (uint32_t i = 0; i < orders->count && rc == KVT_OK; i++) {
        roster.ordering = ranking->orders.list[i] = orders->list[i];
        rc = policy_tier_blocks_new(&ranking->rosters[i], &roster);
        ranking->orders.count += rc == KVT_OK ? 1 : 0;
    }
    if (rc != KVT_OK)
        advisor_ranking_release(ranking);
    return rc;
}

void
advisor_ranking_release(struct advisor_ranking *ranking)
{
    for (uint32_t i = 0; i < ranking->orders.count; i++)
        policy_tier_blocks_free(ranking->rosters[i]);
    *ranking = (struct advisor_ranking){.orders = {.count = 0}};
}

uint64_t
advisor_ranking_parent(struct index *index, uint32_t index_ns, const struct kvt_block_id *block)
{
    struct index_view view;

    if (block->parent != 0 || block->position == 0 || index == NULL ||
        index_get(index, index_ns, block->hash, &view) != KVT_OK ||
        view.block.id.position != block->position)
        return block->parent;
    return view.block.id.parent;
}

/* ---- what happened ---- */

static void
tell(struct advisor_ranking *ranking, enum advisor_ranking_event_kind kind,
     const struct policy_block *block, uint64_t tick)
{
    if (ranking->hear != NULL)
        ranking->hear(
            ranking->hear_arg,
            &(struct advisor_ranking_event){.kind = (uint32_t)kind, .block = *block, .tick = tick});
}

static void
tell_name(struct advisor_ranking *ranking, enum advisor_ranking_event_kind kind, uint32_t ns,
          uint64_t hash)
{
    tell(ranking, kind, &(struct policy_block){.ns = ns, .hash = hash}, 0);
}

enum kvt_err
advisor_ranking_store(struct advisor_ranking *ranking, const struct policy_block *block,
                      uint64_t tick)
{
    enum kvt_err rc = KVT_OK;

    for (uint32_t i = 0; i < ranking->orders.count; i++) {
        const enum kvt_err one = policy_tier_blocks_store(ranking->rosters[i], block, tick);

        rc = rc == KVT_OK ? one : rc;
    }
    tell(ranking, ADVISOR_RANKING_STORED, block, tick);
    return rc;
}

enum kvt_err
advisor_ranking_use(struct advisor_ranking *ranking, const struct policy_block *block,
                    uint64_t tick)
{
    enum kvt_err rc = KVT_OK;

    for (uint32_t i = 0; i < ranking->orders.count; i++) {
        const enum kvt_err one = policy_tier_blocks_use(ranking->rosters[i], block, tick);

        rc = rc == KVT_OK ? one : rc;
    }
    tell(ranking, ADVISOR_RANKING_USED, block, tick);
    return rc;
}

static uint32_t
at_most_32(uint64_t value)
{
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

enum kvt_err
advisor_ranking_restore_row(struct policy_tier_blocks *roster,
                            const struct advisor_store_block *row, uint64_t parent, uint32_t ranks)
{
    const struct policy_block block = {.hash = row->hash,
                                       .parent = parent,
                                       .ns = row->ns,
                                       .position = row->position,
                                       .ranks = ranks,
                                       .size = at_most_32(row->size)};

    return policy_tier_blocks_restore(roster, &block,
                                      row->hits < UINT32_MAX ? row->hits + 1 : UINT32_MAX,
                                      row->touched_ms / ADVISOR_TICK_MS);
}

enum kvt_err
advisor_ranking_restore(struct advisor_ranking *ranking, const struct advisor_store_block *row,
                        uint64_t parent, uint32_t ranks)
{
    enum kvt_err rc = KVT_OK;

    assert(ranking->hear == NULL);
    for (uint32_t i = 0; i < ranking->orders.count; i++) {
        const enum kvt_err one =
            advisor_ranking_restore_row(ranking->rosters[i], row, parent, ranks);

        rc = rc == KVT_OK ? one : rc;
    }
    return rc;
}

enum kvt_err
advisor_ranking_restored(struct advisor_ranking *ranking, policy_tier_blocks_over_fn *is_over,
                         const void *arg)
{
    enum kvt_err rc = KVT_OK;

    for (uint32_t i = 0; i < ranking->orders.count && rc != KVT_CANCELLED; i++) {
        const enum kvt_err one = policy_tier_blocks_restored(ranking->rosters[i], is_over, arg);

        rc = one == KVT_OK ? rc : one;
    }
    return rc;
}

void
advisor_ranking_leave(struct advisor_ranking *ranking, uint32_t ns, uint64_t hash)
{
    for (uint32_t i = 0; i < ranking->orders.count; i++)
        policy_tier_blocks_leave(ranking->rosters[i], ns, hash);
    tell_name(ranking, ADVISOR_RANKING_LEFT, ns, hash);
}

void
advisor_ranking_settle(struct advisor_ranking *ranking)
{
    for (uint32_t i = 0; i < ranking->orders.count; i++)
        policy_tier_blocks_settle(ranking->rosters[i]);
    tell_name(ranking, ADVISOR_RANKING_SETTLED, 0, 0);
}

/* ---- who leaves ---- */

bool
advisor_ranking_victim(struct advisor_ranking *ranking, uint32_t order, uint64_t tick,
                       struct policy_block *block)
{
    return policy_tier_blocks_victim(ranking->rosters[order], tick, block);
}

bool
advisor_ranking_due(struct advisor_ranking *ranking, uint32_t order, uint64_t tick,
                    struct policy_block *block)
{
    return policy_tier_blocks_due(ranking->rosters[order], tick, block);
}

/* In all orders but one. */
static void
claim_in_others(struct advisor_ranking *ranking, uint32_t order, uint32_t ns, uint64_t hash)
{
    for (uint32_t i = 0; i < ranking->orders.count; i++)
        if (i != order)
            (void)policy_tier_blocks_claim(ranking->rosters[i], ns, hash);
    tell_name(ranking, ADVISOR_RANKING_OUT, ns, hash);
}

void
advisor_ranking_keep(struct advisor_ranking *ranking, uint32_t order,
                     const struct policy_block *block)
{
    claim_in_others(ranking, order, block->ns, block->hash);
}

void
advisor_ranking_pass(struct advisor_ranking *ranking, uint32_t order, uint32_t ns, uint64_t hash)
{
    policy_tier_blocks_pass(ranking->rosters[order], ns, hash);
}

void
advisor_ranking_pass_all(struct advisor_ranking *ranking, uint32_t ns, uint64_t hash)
{
    for (uint32_t i = 0; i < ranking->orders.count; i++)
        policy_tier_blocks_pass(ranking->rosters[i], ns, hash);
    tell_name(ranking, ADVISOR_RANKING_BACK, ns, hash); /* another order looks at it afresh */
}

void
advisor_ranking_give_back(struct advisor_ranking *ranking, uint32_t ns, uint64_t hash)
{
    for (uint32_t i = 0; i < ranking->orders.count; i++)
        policy_tier_blocks_give_back(ranking->rosters[i], ns, hash);
    tell_name(ranking, ADVISOR_RANKING_BACK, ns, hash);
}

void
advisor_ranking_give_back_all(struct advisor_ranking *ranking)
{
    for (uint32_t i = 0; i < ranking->orders.count; i++)
        policy_tier_blocks_give_back_all(ranking->rosters[i]);
    tell_name(ranking, ADVISOR_RANKING_ALL_BACK, 0, 0);
}

bool
advisor_ranking_resume(struct advisor_ranking *ranking, uint32_t max)
{
    bool more = false;

    for (uint32_t i = 0; i < ranking->orders.count; i++)
        more = policy_tier_blocks_resume(ranking->rosters[i], max) == max || more;
    return more;
}

bool
advisor_ranking_claim(struct advisor_ranking *ranking, uint32_t ns, uint64_t hash)
{
    if (!policy_tier_blocks_claim(ranking->rosters[0], ns, hash))
        return false;
    claim_in_others(ranking, 0, ns, hash);
    return true;
}

uint64_t
advisor_ranking_bytes(const struct advisor_ranking *ranking)
{
    struct policy_tier_blocks_counts counts;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < ranking->orders.count; i++) {
        policy_tier_blocks_counts(ranking->rosters[i], &counts);
        bytes += counts.bytes;
    }
    return bytes;
}
