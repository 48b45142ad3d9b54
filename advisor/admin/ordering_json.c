#include <inttypes.h>

#include "advisor/admin/advisor_admin.h"
#include "advisor/selection/ranking.h"
#include "advisor/selection/wanted_orderings.h"
#include "base/core/alloc.h"

/* By which orderings blocks leave, and by which they are to. */

static void
add_names(struct kvt_buffer *out, const char *key, const struct advisor_orders *orders)
{
    kvt_buffer_printf(out, "\"%s\":[", key);
    for (uint32_t i = 0; i < orders->count; i++)
        kvt_buffer_printf(out, "%s\"%s\"", i == 0 ? "" : ",", orders->list[i]->name);
    kvt_buffer_puts(out, "]");
}

bool
advisor_admin_next_orders(const struct advisor_admin *http, const struct advisor_rules *rules,
                          const char *holder, const struct advisor_orders *now,
                          struct advisor_orders *next)
{
    advisor_wanted_orderings(advisor_planner_settings(http->planner)->ordering, rules,
                             advisor_rules_tier(rules, holder), next);
    if (!advisor_orders_alike(now, next))
        return true;
    next->count = 0;
    return false;
}

void
advisor_admin_tier_order(const struct advisor_admin *http, const struct advisor_rules *rules,
                         const struct advisor_tier_view *tier, struct kvt_buffer *out)
{
    struct advisor_orders next;

    add_names(out, "order_by", &tier->orders);
    kvt_buffer_puts(out, ",");
    (void)advisor_admin_next_orders(http, rules, tier->tier.name, &tier->orders, &next);
    add_names(out, "next_order_by", &next);
    kvt_buffer_printf(out, ",\"reranking\":%s,\"ranked\":%" PRIu64 ",\"to_rank\":%" PRIu64 ",",
                      tier->reranking ? "true" : "false", tier->ranked, tier->to_rank);
}

/* Is this one nearer to what is to be shown: one that is changed now, before one that waits? */
static bool
shows_more(const struct advisor_tier_view *tier, const struct advisor_admin_ordering *ordering)
{
    return ordering->next[0] == '\0' || (tier->reranking && !ordering->reranking);
}

void
advisor_admin_find_ordering(const struct advisor_admin *http, const struct advisor_rules *rules,
                            struct advisor_admin_ordering *ordering)
{
    struct advisor_tier_view *tiers = kvt_calloc(ADVISOR_TIERS_MAX, sizeof(*tiers));
    const size_t count =
        tiers == NULL ? 0 : advisor_planner_tiers(http->planner, tiers, ADVISOR_TIERS_MAX);
    const struct kvt_ordering *own = advisor_planner_settings(http->planner)->ordering;

    *ordering = (struct advisor_admin_ordering){
        .now = advisor_wanted_ordering(own, &rules->policy->defaults)->name, .next = ""};
    for (size_t i = 0; i < count; i++) {
        struct advisor_orders next;

        if (!advisor_admin_next_orders(http, rules, tiers[i].tier.name, &tiers[i].orders, &next))
            continue;
        ordering->waiting++;
        if (!shows_more(&tiers[i], ordering))
            continue;
        ordering->now = tiers[i].orders.list[0]->name;
        ordering->next = next.list[0]->name;
        ordering->reranking = tiers[i].reranking;
        ordering->ranked = tiers[i].ranked;
        ordering->to_rank = tiers[i].to_rank;
    }
    kvt_free(tiers);
}
