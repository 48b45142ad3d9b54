#include "advisor/selection/ranking_change.h"

#include <stdio.h>
#include <string.h>

#include "advisor/selection/planner_tables.h"
#include "advisor/selection/ranking.h"
#include "advisor/selection/refusals.h"
#include "advisor/selection/rerank.h"
#include "advisor/selection/tenant_quotas.h"
#include "advisor/selection/wanted_orderings.h"
#include "base/core/alloc.h"
#include "base/core/log.h"

/* Another order of a tier's blocks, beside the one that decides. */

/* ---- the begin ---- */

static void
hear(void *arg, const struct advisor_ranking_event *heard)
{
    advisor_rerank_hear(arg, heard);
}

static void
hear_out(void *arg, const struct advisor_refused *block)
{
    advisor_rerank_hear(
        arg, &(struct advisor_ranking_event){.kind = ADVISOR_RANKING_OUT,
                                             .block = {.ns = block->ns, .hash = block->hash}});
}

/* What is out now: ordered away, or refused lately. */
static void
tell_what_is_out(struct advisor_planner *planner, uint32_t number, struct advisor_rerank *rerank)
{
    const struct advisor_tier *tier = &planner->tiers[number];

    for (size_t i = 0; i < planner->order_count; i++) {
        const struct advisor_order *order = planner->orders[i];

        for (uint32_t k = 0; k < order->row.items && order->items != NULL && !order->of_job &&
                             order->from == number;
             k++) {
            const struct advisor_refused block = {.hash = order->items[k].block.hash,
                                                  .ns = order->ns};

            if (policy_tier_blocks_is_taken(tier->roster, block.ns, block.hash))
                hear_out(rerank, &block);
        }
    }
    advisor_refusals_each(planner->refusals, number, hear_out, rerank);
}

static bool *
holders_of(struct advisor_planner *planner, uint32_t tier, uint32_t *count)
{
    bool *holders;

    *count = planner->tier_of_count;
    holders = kvt_calloc((size_t)*count + 1, sizeof(*holders));
    for (uint32_t i = 0; i < *count && holders != NULL; i++)
        holders[i] = planner->tier_of[i] == tier;
    return holders;
}

static uint32_t *
namespaces_of(const struct advisor_planner *planner, uint32_t *count)
{
    uint32_t *namespaces;

    *count = advisor_name_table_namespace_count(planner->names);
    namespaces = kvt_calloc((size_t)*count + 1, sizeof(*namespaces));
    for (uint32_t i = 0; i < *count && namespaces != NULL; i++)
        namespaces[i] = advisor_name_table_index_namespace(planner->names, i);
    return namespaces;
}

static void
give_up(struct advisor_planner *planner, uint32_t tier, uint64_t now_ms, enum kvt_err rc)
{
    kvt_log_warn("advisor.planner", "order",
                 "%s gets no other order now (%s): it is tried again in a minute",
                 planner->tiers[tier].name, kvt_err_text(rc));
    planner->reranking.again_ms = now_ms + ADVISOR_RERANK_AGAIN_MS;
}

/* The names of some orderings, for a log. */
static const char *
names_of(const struct advisor_orders *orders, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < orders->count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i == 0 ? "" : " and ",
                                 orders->list[i]->name);
    return text;
}

/* These orders of the tier are made, and hear what happens from now on. */
static enum kvt_err
start(struct advisor_planner *planner, uint32_t number, const struct advisor_orders *orders,
      struct advisor_rerank **rerank)
{
    struct advisor_tier *tier = &planner->tiers[number];
    struct advisor_rerank_options options = {.tier = tier->name,
                                             .orders = *orders,
                                             .roster = advisor_planner_roster_options(planner),
                                             .index = planner->options.index};
    struct advisor_txn txn;
    uint32_t *namespaces;
    bool *holders;
    enum kvt_err rc;

    *rerank = NULL;
    options.holders = holders = holders_of(planner, number, &options.holder_count);
    options.namespaces = namespaces = namespaces_of(planner, &options.namespace_count);
    rc = holders == NULL || namespaces == NULL ? KVT_NOMEM
                                               : advisor_store_read(planner->store, &txn, NULL);
    if (rc == KVT_OK)
        rc = advisor_rerank_new(rerank, &options, &txn);
    kvt_free(holders);
    kvt_free(namespaces);
    if (rc != KVT_OK)
        return rc;
    tier->ranking.hear = hear;
    tier->ranking.hear_arg = *rerank;
    tell_what_is_out(planner, number, *rerank);
    return KVT_OK;
}

static void
begin(struct advisor_planner *planner, uint32_t number, const struct advisor_orders *wanted,
      uint64_t now_ms)
{
    struct advisor_reranking *reranking = &planner->reranking;
    struct advisor_tier *tier = &planner->tiers[number];
    char text[ADVISOR_RANKINGS_MAX * KVT_ORDERING_NAME_MAX * 2];
    struct advisor_orders missing = {.count = 0};
    enum kvt_err rc;

    for (uint32_t i = 0; i < wanted->count; i++)
        if (advisor_orders_find(&tier->ranking.orders, wanted->list[i]->name) ==
            tier->ranking.orders.count)
            (void)advisor_orders_add(&missing, wanted->list[i]);
    rc = start(planner, number, &missing, &reranking->rerank);
    if (rc != KVT_OK) {
        give_up(planner, number, now_ms, rc);
        return;
    }
    reranking->tier = number;
    reranking->wanted = *wanted;
    reranking->made = missing;
    reranking->hears = true;
    kvt_log_info("advisor.planner", "order", "%s is put into the order of %s", tier->name,
                 names_of(wanted, text, sizeof(text)));
}

/* ---- the end ---- */

/* Written with the next group. */
static void
keep_learned(struct advisor_planner *planner, const struct advisor_tier *tier,
             const struct kvt_ordering *ordering, const struct policy_tier_blocks *roster)
{
    const size_t size = policy_tier_blocks_save(roster, NULL, 0);
    struct advisor_parting *parting = size == 0 ? NULL : kvt_calloc(1, sizeof(*parting) + size);

    if (parting == NULL) /* what was written last holds */
        return;
    parting->ordering = ordering;
    parting->size = size;
    memcpy(parting->tier, tier->name, sizeof(parting->tier));
    (void)policy_tier_blocks_save(roster, parting->bytes, size);
    parting->next = planner->reranking.parting;
    planner->reranking.parting = parting;
    planner->learned_dirty = true;
}

/* The tier has its new orders; those it has no more end on the thread that made the new ones. */
static void
change_over(struct advisor_planner *planner, struct policy_tier_blocks *const *made)
{
    struct advisor_reranking *reranking = &planner->reranking;
    struct advisor_tier *tier = &planner->tiers[reranking->tier];
    const struct advisor_ranking former = tier->ranking;
    struct policy_tier_blocks *retired[ADVISOR_RANKINGS_MAX];
    char text[ADVISOR_RANKINGS_MAX * KVT_ORDERING_NAME_MAX * 2];
    uint32_t count = 0;

    tier->ranking = (struct advisor_ranking){.orders = reranking->wanted};
    for (uint32_t i = 0; i < reranking->wanted.count; i++) {
        const char *name = reranking->wanted.list[i]->name;
        const uint32_t was = advisor_orders_find(&former.orders, name);

        tier->ranking.rosters[i] = was < former.orders.count
                                       ? former.rosters[was]
                                       : made[advisor_orders_find(&reranking->made, name)];
    }
    for (uint32_t i = 0; i < former.orders.count; i++)
        if (advisor_orders_find(&reranking->wanted, former.orders.list[i]->name) ==
            reranking->wanted.count) {
            keep_learned(planner, tier, former.orders.list[i], former.rosters[i]);
            retired[count++] = former.rosters[i];
        }
    tier->roster = tier->ranking.rosters[0];
    tier->resuming = true; /* what one order set aside another may have in front */
    tier->exhausted_ms = 0;
    advisor_planner_restart_quota(planner, reranking->tier);
    reranking->hears = false;
    advisor_rerank_retire(reranking->rerank, retired, count);
    kvt_log_info("advisor.planner", "order", "%s is in the order of %s", tier->name,
                 names_of(&tier->ranking.orders, text, sizeof(text)));
}

void
advisor_planner_free_parting(struct advisor_planner *planner)
{
    while (planner->reranking.parting != NULL) {
        struct advisor_parting *next = planner->reranking.parting->next;

        kvt_free(planner->reranking.parting);
        planner->reranking.parting = next;
    }
}

static void
abandon(struct advisor_planner *planner)
{
    struct advisor_reranking *reranking = &planner->reranking;

    planner->tiers[reranking->tier].ranking.hear = NULL;
    reranking->hears = false;
    advisor_rerank_retire(reranking->rerank, NULL, 0);
}

static void
go_on(struct advisor_planner *planner, uint64_t now_ms)
{
    struct advisor_reranking *reranking = &planner->reranking;
    struct advisor_tier *tier = &planner->tiers[reranking->tier];
    struct policy_tier_blocks *made[ADVISOR_RANKINGS_MAX];
    struct advisor_orders wanted;
    enum kvt_err rc;
    bool cut;

    if (!reranking->hears) {
        if (!advisor_rerank_is_over(reranking->rerank))
            return;
        advisor_rerank_free(reranking->rerank);
        reranking->rerank = NULL;
        return;
    }
    advisor_wanted_orderings(planner->options.ordering, planner->rules, tier->place, &wanted);
    if (!advisor_orders_alike(&wanted, &reranking->wanted)) {
        abandon(planner); /* the policy changed again */
        return;
    }
    if (planner->guest != NULL && !reranking->awaited)
        return; /* it goes by the order that is there */
    rc = advisor_rerank_take(reranking->rerank, made, &cut);
    if (rc == KVT_AGAIN)
        return;
    if (rc != KVT_OK) {
        give_up(planner, reranking->tier, now_ms, rc);
        abandon(planner);
        return;
    }
    if (cut)
        advisor_planner_say_truncated(tier);
    change_over(planner, made);
}

void
advisor_planner_rerank(struct advisor_planner *planner, uint64_t now_ms)
{
    struct advisor_reranking *reranking = &planner->reranking;

    if (reranking->plan == ADVISOR_PLAN_ENDS && advisor_rerank_is_over(reranking->planning)) {
        advisor_rerank_free(reranking->planning);
        reranking->planning = NULL;
        reranking->plan = ADVISOR_PLAN_NONE;
    }
    if (reranking->rerank != NULL) {
        go_on(planner, now_ms);
        return;
    }
    if (planner->guest != NULL || planner->store == NULL || reranking->parting != NULL ||
        now_ms < reranking->again_ms)
        return;
    for (uint32_t i = 0; i < planner->tier_count; i++) {
        struct advisor_orders wanted;

        advisor_wanted_orderings(planner->options.ordering, planner->rules, planner->tiers[i].place,
                                 &wanted);
        if (advisor_orders_alike(&wanted, &planner->tiers[i].ranking.orders))
            continue;
        begin(planner, i, &wanted, now_ms);
        return;
    }
}

/* ---- plans ---- */

/* Does the tier have the orders already? */
static bool
has_orders(const struct advisor_orders *own, const struct advisor_orders *wanted)
{
    /* Of a rule that names a fifth the first decides. */
    bool has = wanted->count < ADVISOR_RANKINGS_MAX || own->list[0] == wanted->list[0];

    for (uint32_t i = 0; i < wanted->count; i++)
        has = has && advisor_orders_find(own, wanted->list[i]->name) < own->count;
    return has;
}

static enum kvt_err
make_plan_order(struct advisor_planner *planner, uint32_t tier, const struct advisor_orders *wanted)
{
    struct advisor_reranking *reranking = &planner->reranking;
    enum kvt_err rc;

    reranking->awaited = reranking->rerank != NULL;
    if (reranking->awaited || reranking->plan != ADVISOR_PLAN_NONE)
        return KVT_AGAIN; /* one at a time, and another plan's must have ended */
    if (planner->store == NULL)
        return KVT_PRECONDITION;
    rc = start(planner, tier, wanted, &reranking->planning);
    if (rc != KVT_OK)
        return rc;
    reranking->plan = ADVISOR_PLAN_MADE;
    reranking->plan_tier = tier;
    reranking->planned = (struct advisor_ranking){.orders = *wanted};
    return KVT_AGAIN;
}

enum kvt_err
advisor_planner_plan_order(struct advisor_planner *planner, const struct advisor_rules *rules,
                           uint32_t tier, struct advisor_ranking **ranking)
{
    struct advisor_reranking *reranking = &planner->reranking;
    const int32_t place = advisor_rules_tier(rules, planner->tiers[tier].name);
    struct advisor_orders wanted;
    enum kvt_err rc;
    bool cut;

    *ranking = &planner->tiers[tier].ranking;
    advisor_wanted_orderings(planner->options.ordering, rules, place, &wanted);
    if (reranking->plan != ADVISOR_PLAN_MADE || reranking->plan_tier != tier)
        return has_orders(&(*ranking)->orders, &wanted) ? KVT_OK
                                                        : make_plan_order(planner, tier, &wanted);
    rc = advisor_rerank_take(reranking->planning, reranking->planned.rosters, &cut);
    if (rc == KVT_AGAIN)
        return rc;
    (*ranking)->hear = NULL;
    if (rc != KVT_OK) {
        advisor_planner_end_plan_order(planner);
        return rc;
    }
    if (cut)
        advisor_planner_say_truncated(&planner->tiers[tier]);
    reranking->plan = ADVISOR_PLAN_TAKEN;
    *ranking = &reranking->planned;
    return KVT_OK;
}

void
advisor_planner_end_plan_order(struct advisor_planner *planner)
{
    struct advisor_reranking *reranking = &planner->reranking;

    reranking->awaited = false;
    if (reranking->plan != ADVISOR_PLAN_MADE && reranking->plan != ADVISOR_PLAN_TAKEN)
        return;
    if (reranking->plan == ADVISOR_PLAN_MADE)
        planner->tiers[reranking->plan_tier].ranking.hear = NULL;
    advisor_rerank_retire(reranking->planning, reranking->planned.rosters,
                          reranking->plan == ADVISOR_PLAN_TAKEN ? reranking->planned.orders.count
                                                                : 0);
    reranking->planned = (struct advisor_ranking){.orders = {.count = 0}};
    reranking->plan = ADVISOR_PLAN_ENDS;
}

/* ---- who looks ---- */

void
advisor_planner_show_reranking(struct advisor_planner *planner, uint32_t tier,
                               struct advisor_tier_view *view)
{
    const struct advisor_reranking *reranking = &planner->reranking;

    view->reranking = reranking->hears && reranking->tier == tier;
    view->ranked = view->to_rank = 0;
    if (view->reranking)
        advisor_rerank_progress(reranking->rerank, &view->ranked, &view->to_rank);
}

void
advisor_planner_count_reranking(struct advisor_planner *planner)
{
    const struct advisor_counters *counters = &planner->counters;
    struct advisor_orders wanted;
    uint64_t ranked = 0;
    uint64_t to_rank = 0;
    int64_t tiers = 0;

    for (uint32_t i = 0; i < planner->tier_count; i++) {
        advisor_wanted_orderings(planner->options.ordering, planner->rules, planner->tiers[i].place,
                                 &wanted);
        tiers += advisor_orders_alike(&wanted, &planner->tiers[i].ranking.orders) ? 0 : 1;
    }
    if (planner->reranking.hears)
        advisor_rerank_progress(planner->reranking.rerank, &ranked, &to_rank);
    kvt_metric_set(counters->reranking, tiers);
    kvt_metric_set(counters->ranked, (int64_t)ranked);
    kvt_metric_set(counters->to_rank, (int64_t)to_rank);
}

void
advisor_planner_free_reranking(struct advisor_planner *planner)
{
    advisor_planner_end_plan_order(planner);
    advisor_rerank_free(planner->reranking.planning);
    advisor_rerank_free(planner->reranking.rerank);
    advisor_planner_free_parting(planner); /* what was written last holds */
}
