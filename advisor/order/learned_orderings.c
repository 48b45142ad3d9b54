#include <string.h>

#include "advisor/order/planner_private.h"
#include "advisor/selection/planner_tables.h"
#include "advisor/selection/ranking.h"
#include "advisor/selection/ranking_change.h"
#include "base/core/alloc.h"
#include "base/core/log.h"

/* What the orderings learned of each tier's traffic, over restarts. */

enum { SAVE_EVERY_MS = 60000 };

static enum kvt_err
load_one(void *arg, const char *tier, const char *ordering, const void *bytes, size_t size)
{
    struct advisor_planner *planner = arg;
    const uint32_t number = advisor_planner_tier(planner, tier);
    struct advisor_ranking *ranking;
    uint32_t at;

    if (number == ADVISOR_NONE)
        return KVT_OK;
    ranking = &planner->tiers[number].ranking;
    at = advisor_orders_find(&ranking->orders, ordering);
    if (at == ranking->orders.count)
        return KVT_OK; /* of another one, which may be chosen again */
    if (policy_tier_blocks_load(ranking->rosters[at], bytes, size) != KVT_OK)
        kvt_log_warn("advisor.planner", "learned",
                     "what %s learned of %s cannot be read: it begins anew", ordering, tier);
    return KVT_OK;
}

enum kvt_err
advisor_planner_load_learned(struct advisor_planner *planner, const struct advisor_txn *txn)
{
    return advisor_store_learned(txn, load_one, planner);
}

static enum kvt_err
save_one(const struct advisor_txn *txn, const struct advisor_tier *tier, uint32_t at)
{
    const struct policy_tier_blocks *roster = tier->ranking.rosters[at];
    const size_t size = policy_tier_blocks_save(roster, NULL, 0);
    void *bytes = size == 0 ? NULL : kvt_calloc(1, size);
    enum kvt_err rc;

    if (size == 0)
        return KVT_OK;
    if (bytes == NULL)
        return KVT_NOMEM;
    (void)policy_tier_blocks_save(roster, bytes, size);
    rc = advisor_store_put_learned(txn, tier->name, tier->ranking.orders.list[at]->name, bytes,
                                   size);
    kvt_free(bytes);
    return rc;
}

enum kvt_err
advisor_planner_save_learned(const struct advisor_planner *planner, const struct advisor_txn *txn)
{
    const struct advisor_parting *parting = planner->reranking.parting;
    enum kvt_err rc = KVT_OK;

    for (uint32_t i = 0; i < planner->tier_count && planner->learned_dirty && rc == KVT_OK; i++)
        for (uint32_t k = 0; k < planner->tiers[i].ranking.orders.count && rc == KVT_OK; k++)
            rc = save_one(txn, &planner->tiers[i], k);
    for (; parting != NULL && rc == KVT_OK; parting = parting->next)
        rc = advisor_store_put_learned(txn, parting->tier, parting->ordering->name, parting->bytes,
                                       parting->size);
    return rc;
}

void
advisor_planner_saved_learned(struct advisor_planner *planner)
{
    planner->learned_dirty = false;
    advisor_planner_free_parting(planner);
}

static bool
any_learns(const struct advisor_planner *planner)
{
    for (uint32_t i = 0; i < planner->tier_count; i++)
        for (uint32_t k = 0; k < planner->tiers[i].ranking.orders.count; k++)
            if (planner->tiers[i].ranking.orders.list[k]->save != NULL)
                return true;
    return false;
}

void
advisor_planner_age_learned(struct advisor_planner *planner, uint64_t now_ms)
{
    if (!any_learns(planner))
        return;
    if (planner->learned_ms == 0)
        planner->learned_ms = now_ms;
    if (now_ms - planner->learned_ms < SAVE_EVERY_MS)
        return;
    planner->learned_ms = now_ms;
    planner->learned_dirty = true;
}
