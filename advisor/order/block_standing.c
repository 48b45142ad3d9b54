#include "advisor/order/block_standing.h"

#include <string.h>

#include "advisor/order/planner_private.h"
#include "advisor/selection/active_rules.h"
#include "advisor/selection/edge.h"
#include "advisor/selection/pins.h"
#include "advisor/selection/rerank.h"
#include "advisor/selection/rule_set.h"
#include "advisor/selection/tenant_quotas.h"

static const struct advisor_tier *
find_tier(const struct advisor_planner *planner, const char *name)
{
    for (uint32_t i = 0; i < planner->tier_count; i++)
        if (strcmp(planner->tiers[i].name, name) == 0)
            return &planner->tiers[i];
    return NULL;
}

static void
look_at_order(struct policy_tier_blocks *roster, uint64_t now_ms,
              const struct advisor_store_block *row, struct advisor_block_standing_order *order)
{
    order->known = policy_tier_blocks_standing(roster, row->ns, row->hash, now_ms / ADVISOR_TICK_MS,
                                               ADVISOR_BLOCK_STANDING_WINDOW_MS / ADVISOR_TICK_MS,
                                               &order->standing) == KVT_OK;
    order->last_use_ms = order->standing.tick * ADVISOR_TICK_MS;
    policy_tier_blocks_counts(roster, &order->counts);
    if (order->known && order->standing.in_tier && !order->standing.taken)
        order->before =
            policy_tier_blocks_before(roster, order->standing.value, now_ms / ADVISOR_TICK_MS);
}

static void
look_at_reranking(const struct advisor_planner *planner, const struct advisor_tier *tier,
                  struct advisor_block_standing_place *place)
{
    const struct advisor_reranking *reranking = &planner->reranking;

    place->reranking = reranking->hears && &planner->tiers[reranking->tier] == tier;
    if (place->reranking)
        advisor_rerank_progress(reranking->rerank, &place->ranked, &place->to_rank);
}

static void
look_at_place(const struct advisor_planner *planner, const struct index_holder *holder,
              uint64_t now_ms, const struct advisor_store_block *row,
              struct advisor_block_standing_place *place)
{
    const struct advisor_tier *tier = find_tier(planner, holder->name);

    memcpy(place->holder, holder->name, sizeof(place->holder));
    if (tier == NULL)
        return;
    place->reported = tier->report_ms != 0;
    place->used_bytes = tier->report.used_bytes;
    place->capacity_bytes = tier->report.capacity_bytes;
    place->draining = advisor_rule_set_any(&tier->draining);
    for (uint32_t i = 0; i < planner->rule_count && planner->rules != NULL; i++) {
        const struct policy_rule *rule = policy_rule_at(planner->rules->policy, (size_t)i);

        if ((rule->verb == POLICY_DEMOTE || rule->verb == POLICY_PROMOTE) &&
            policy_rule_tier(rule) == tier->place &&
            !advisor_edge_exists(planner, planner->rules, rule, (uint32_t)(tier - planner->tiers)))
            advisor_rule_set_put(&place->no_edge, (int32_t)i, true);
    }
    place->orders = tier->ranking.orders;
    for (uint32_t i = 0; i < place->orders.count; i++)
        look_at_order(tier->ranking.rosters[i], now_ms, row, &place->by[i]);
    look_at_reranking(planner, tier, place);
    place->has_quota = advisor_planner_quota_of(planner, row->ns, (uint32_t)(tier - planner->tiers),
                                                &place->quota);
}

static void
look_at_rules(const struct advisor_planner *planner, uint64_t now_ms,
              struct advisor_block_standing *look)
{
    if (planner->rules == NULL)
        return;
    look->version = planner->rules->version;
    for (uint32_t i = 0; i < planner->rule_count; i++)
        if (advisor_planner_rests(planner, (int32_t)i, now_ms))
            look->stops[i] = planner->rule_states[i].stop;
}

enum kvt_err
advisor_planner_look(struct advisor_planner *planner, struct advisor_store *store,
                     const char *namespace_, uint64_t hash, uint64_t now_ms,
                     struct advisor_block_standing *look)
{
    const uint32_t ns = advisor_name_table_find_namespace(planner->names, namespace_);
    struct advisor_txn txn;
    enum kvt_err rc;

    memset(look, 0, sizeof(*look));
    if (ns == ADVISOR_NAME_TABLE_NOBODY)
        return KVT_NOTFOUND;
    rc = advisor_store_read(store, &txn, NULL);
    if (rc != KVT_OK)
        return rc;
    rc = advisor_store_get_block(&txn, ns, hash, &look->row);
    advisor_store_end(&txn);
    if (rc != KVT_OK)
        return rc;
    look_at_rules(planner, now_ms, look);
    look->index_ns = advisor_name_table_index_namespace(planner->names, ns);
    look->pinned = advisor_pins_has(planner->pins, ns, hash, now_ms, &look->pinned_until_ms);
    look->place_count = look->row.place_count;
    for (size_t i = 0; i < look->place_count && i < ADVISOR_BLOCK_STANDING_PLACES_MAX; i++) {
        look->places[i].ranks = look->row.places[i].ranks;
        look_at_place(planner,
                      advisor_name_table_holder_key(planner->names, look->row.places[i].holder),
                      now_ms, &look->row, &look->places[i]);
    }
    return KVT_OK;
}

void
advisor_block_standing_release(struct advisor_block_standing *look)
{
    advisor_store_block_release(&look->row);
}
