#include <inttypes.h>
#include <string.h>

#include "advisor/admin/advisor_admin.h"
#include "advisor/order/usage.h"
#include "advisor/selection/tenant_quotas.h"
#include "base/core/alloc.h"

/* "p<number>" among places, "b<number>" among rows of blocks. */
static bool
read_cursor(const char *text, struct advisor_usage_cursor *cursor)
{
    *cursor = (struct advisor_usage_cursor){.blocks = false};
    if (text == NULL || text[0] == '\0')
        return true;
    cursor->blocks = text[0] == 'b';
    return strchr("pb", text[0]) != NULL && kvt_hash_parse(text + 1, &cursor->at);
}

static void
add_row(struct kvt_buffer *out, const struct advisor_usage_row *row)
{
    unsigned tier = 0;

    kvt_buffer_printf(out, "{");
    advisor_admin_text(out, "namespace", row->namespace_);
    kvt_buffer_printf(out, ",\"blocks\":%" PRIu64 ",\"reads\":%" PRIu64 ",\"cold_reads\":%" PRIu64,
                      row->blocks, row->reads, row->cold_reads);
#define X(name)                                                                                    \
    kvt_buffer_printf(out, ",\"" #name "_places\":%" PRIu64 ",\"" #name "_bytes\":%" PRIu64,       \
                      row->places[tier], row->bytes[tier]);                                        \
    tier++;
    ADVISOR_USAGE_TIERS(X)
#undef X
    kvt_buffer_printf(out, "}\n");
}

void
advisor_admin_usage(void *arg, const struct kvt_http_request *request,
                    struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    struct kvt_buffer *out = &response->body;
    struct advisor_usage_cursor cursor;
    struct advisor_usage usage;
    enum kvt_err rc;

    if (!read_cursor(kvt_http_query(request, "cursor"), &cursor)) {
        kvt_http_fail(response, 400, KVT_INVALID, "cursor: want what the page before gave");
        return;
    }
    rc = advisor_usage_init(&usage, http->planner, kvt_http_query(request, "namespace"));
    if (rc == KVT_OK)
        rc = advisor_usage_page(&http->finder, &cursor, &usage);
    if (rc == KVT_AGAIN) {
        kvt_http_fail(response, 503, rc, "the index is being read into memory: try again soon");
    } else if (rc != KVT_OK) {
        kvt_http_fail(response, 503, rc, "%s", kvt_err_text(rc));
    } else {
        response->content_type = "application/x-ndjson";
        for (size_t i = 0; i < usage.count; i++)
            add_row(out, &usage.rows[i]);
        if (cursor.done)
            kvt_buffer_printf(out, "{\"next_cursor\":\"\"}\n");
        else
            kvt_buffer_printf(out, "{\"next_cursor\":\"%c%016" PRIx64 "\"}\n",
                              cursor.blocks ? 'b' : 'p', cursor.at);
    }
    advisor_usage_release(&usage);
}

void
advisor_admin_quotas(void *arg, const struct kvt_http_request *request,
                     struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    struct kvt_buffer *out = &response->body;
    struct advisor_quota_view *quotas = kvt_calloc(ADVISOR_QUOTAS_MAX, sizeof(*quotas));
    size_t count;

    (void)request;
    if (quotas == NULL) {
        kvt_http_fail(response, 503, KVT_NOMEM, "%s", kvt_err_text(KVT_NOMEM));
        return;
    }
    count = advisor_planner_quotas(http->planner, quotas, ADVISOR_QUOTAS_MAX);
    kvt_buffer_printf(out, "{\"schema_version\":1,\"quotas\":[");
    for (size_t i = 0; i < count; i++) {
        kvt_buffer_printf(out, "%s{", i > 0 ? "," : "");
        advisor_admin_text(out, "tenant", quotas[i].tenant);
        kvt_buffer_printf(out, ",");
        advisor_admin_text(out, "tier", quotas[i].tier);
        kvt_buffer_printf(out,
                          ",\"soft_bytes\":%" PRIu64 ",\"hard_bytes\":%" PRIu64
                          ",\"used_bytes\":%" PRIu64 ",\"above\":\"%s\",\"stuck\":%s}",
                          quotas[i].soft, quotas[i].hard, quotas[i].used,
                          advisor_quota_word(quotas[i].over), quotas[i].stuck ? "true" : "false");
    }
    kvt_buffer_printf(out, "]}");
    kvt_free(quotas);
}
