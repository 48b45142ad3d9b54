#include <inttypes.h>

#include "advisor/admin/advisor_admin.h"
#include "advisor/selection/tenant_quotas.h"
#include "base/core/alloc.h"

/* Numbers of those that are shown, in the policy's order within each state. */
static size_t
choose(const struct advisor_quota_view *views, size_t count,
       size_t chosen[ADVISOR_METRIC_QUOTAS_MAX])
{
    size_t picked = 0;

    for (int over = ADVISOR_QUOTA_HARD; over >= ADVISOR_QUOTA_WITHIN; over--)
        for (size_t i = 0; i < count && picked < ADVISOR_METRIC_QUOTAS_MAX; i++)
            if (views[i].over == (enum advisor_quota_over)over)
                chosen[picked++] = i;
    return picked;
}

static void
add_label(struct kvt_buffer *out, const char *name, const char *value)
{
    kvt_buffer_printf(out, "%s=\"", name);
    for (; *value != '\0'; value++) {
        if (*value == '\n') {
            kvt_buffer_append(out, "\\n", 2);
            continue;
        }
        if (*value == '\\' || *value == '"')
            kvt_buffer_append(out, "\\", 1);
        kvt_buffer_append(out, value, 1);
    }
    kvt_buffer_append(out, "\"", 1);
}

static void
add_series(struct kvt_buffer *out, const char *name, const struct advisor_quota_view *view,
           uint64_t value)
{
    kvt_buffer_printf(out, "%s{", name);
    add_label(out, "tenant", view->tenant);
    if (view->tier[0] != '\0') {
        kvt_buffer_append(out, ",", 1);
        add_label(out, "tier", view->tier);
    }
    kvt_buffer_printf(out, "} %" PRIu64 "\n", value);
}

static void
add_head(struct kvt_buffer *out, const char *name, const char *help)
{
    kvt_buffer_printf(out, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
}

void
advisor_admin_format_quotas(const struct advisor_quota_view *views, size_t count,
                            struct kvt_buffer *out)
{
    size_t chosen[ADVISOR_METRIC_QUOTAS_MAX];
    const size_t shown = choose(views, count, chosen);

    if (shown == 0)
        return;
    add_head(out, "kvtier_advisor_quota_used_bytes", "What a tenant has of what a quota counts.");
    for (size_t i = 0; i < shown; i++)
        add_series(out, "kvtier_advisor_quota_used_bytes", &views[chosen[i]],
                   views[chosen[i]].used);
    add_head(out, "kvtier_advisor_quota_soft_bytes", "Beyond it blocks of the tenant leave.");
    for (size_t i = 0; i < shown; i++)
        add_series(out, "kvtier_advisor_quota_soft_bytes", &views[chosen[i]],
                   views[chosen[i]].soft);
    add_head(out, "kvtier_advisor_quota_hard_bytes", "Beyond it nothing more is promoted.");
    for (size_t i = 0; i < shown; i++)
        add_series(out, "kvtier_advisor_quota_hard_bytes", &views[chosen[i]],
                   views[chosen[i]].hard);
}

void
advisor_admin_more_metrics(void *arg, struct kvt_buffer *out)
{
    const struct advisor_admin *http = arg;
    struct advisor_quota_view *views = kvt_calloc(ADVISOR_QUOTAS_MAX, sizeof(*views));

    /* Without memory they are missing from this scrape, as they are from /v1/status. */
    if (views != NULL)
        advisor_admin_format_quotas(
            views, advisor_planner_quotas(http->planner, views, ADVISOR_QUOTAS_MAX), out);
    kvt_free(views);
}
