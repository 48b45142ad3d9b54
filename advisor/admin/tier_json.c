#include <inttypes.h>

#include "advisor/admin/advisor_admin.h"
#include "advisor/admin/troubles.h"
#include "advisor/choice/tier_kind.h"
#include "base/core/alloc.h"

/* Gateways and their tiers, alike wherever they are listed. */

void
advisor_admin_add_gateways(const struct advisor_admin *http, bool timed, struct kvt_buffer *out)
{
    size_t count;
    struct advisor_gateway_view *gateways = advisor_admin_gateways(http, &count);

    kvt_buffer_printf(out, "\"gateways\":[");
    for (size_t i = 0; i < count; i++) {
        kvt_buffer_printf(out, "%s{", i > 0 ? "," : "");
        advisor_admin_text(out, "name", gateways[i].name);
        kvt_buffer_printf(out, ",\"healthy\":%s,\"reports\":%s",
                          gateways[i].healthy ? "true" : "false",
                          advisor_admin_reports(&gateways[i]) ? "true" : "false");
        if (timed)
            kvt_buffer_printf(out, ",\"last_report_ms\":%" PRIu64, gateways[i].last_report_ms);
        kvt_buffer_printf(out, "}");
    }
    kvt_buffer_printf(out, "]");
    kvt_free(gateways);
}

void
advisor_admin_add_tiers(const struct advisor_admin *http, bool timed, struct kvt_buffer *out)
{
    struct advisor_tier_view *tiers = kvt_calloc(ADVISOR_TIERS_MAX, sizeof(*tiers));
    const size_t count =
        tiers == NULL ? 0 : advisor_planner_tiers(http->planner, tiers, ADVISOR_TIERS_MAX);
    const struct advisor_rules *rules = advisor_rulebook_take(http->rulebook);
    const char *comma = "";

    kvt_buffer_printf(out, "\"tiers\":[");
    for (size_t i = 0; i < ADVISOR_TIER_KIND_COUNT * count; i++) { /* from the top down */
        const struct advisor_tier_view *view = &tiers[i % count];

        if (view->rung != i / count)
            continue;
        kvt_buffer_printf(out, "%s{", comma);
        comma = ",";
        advisor_admin_text(out, "name", view->tier.name);
        kvt_buffer_printf(
            out,
            ",\"rung\":\"%s\",\"used_bytes\":%" PRIu64 ",\"capacity_bytes\":%" PRIu64
            ",\"limit_bytes\":%" PRIu64 ",\"blocks\":%" PRIu64 ",\"start_ppm\":%u,\"stop_ppm\":%u"
            ",\"refused_blocks\":%" PRIu64 ",\"passed_blocks\":%" PRIu64
            ",\"stuck\":%s,\"draining\":%s,",
            advisor_tier_kind_name(view->rung), view->tier.used_bytes, view->tier.capacity_bytes,
            view->limit_bytes, view->tier.blocks, view->start_ppm, view->stop_ppm,
            view->refused_blocks, view->passed_blocks, view->stuck ? "true" : "false",
            view->draining ? "true" : "false");
        if (timed)
            kvt_buffer_printf(out, "\"last_report_ms\":%" PRIu64 ",", view->last_report_ms);
        if (timed)
            advisor_admin_tier_order(http, rules, view, out);
        advisor_admin_text(out, "gateway", view->gateway);
        kvt_buffer_printf(out, "}");
    }
    kvt_buffer_printf(out, "]");
    advisor_rulebook_give(http->rulebook, rules);
    kvt_free(tiers);
}
