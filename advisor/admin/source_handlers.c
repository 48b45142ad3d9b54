#include <inttypes.h>
#include <stdio.h>

#include "advisor/admin/advisor_admin.h"
#include "advisor/publisher/publishers.h"
#include "base/core/alloc.h"

/* Which event planes are followed, and how well. */

static void
add_number(struct kvt_buffer *out, const char *key, uint64_t number)
{
    kvt_buffer_printf(out, ",\"%s\":%" PRIu64, key, number);
}

static void
add_skipped(struct kvt_buffer *out, const struct advisor_source_counts *counts)
{
    const char *comma = "";

    kvt_buffer_printf(out, ",\"skipped\":{");
    for (unsigned why = WIRE_RAW_FINE + 1; why < WIRE_RAW_WHY_COUNT; why++) {
        kvt_buffer_printf(out, "%s\"%s\":%" PRIu64, comma,
                          advisor_source_why_name((enum wire_raw_why)why), counts->skipped[why]);
        comma = ",";
    }
    kvt_buffer_printf(out, "}");
}

/* Its members, without the braces. */
static void
add_source(struct kvt_buffer *out, const struct advisor_source_view *view)
{
    const struct advisor_source_counts *counts = &view->counts;

    advisor_admin_text(out, "name", view->name);
    kvt_buffer_printf(out, ",");
    advisor_admin_text(out, "kind", view->kind);
    kvt_buffer_printf(out, ",");
    advisor_admin_text(out, "namespace", view->namespace_);
    kvt_buffer_printf(out, ",\"state\":\"%s\",", advisor_source_status_name(view->status));
    advisor_admin_text(out, "detail", view->detail);
    add_number(out, "received", view->received);
    add_number(out, "waiting", view->waiting);
    add_number(out, "dropped", view->dropped);
    add_number(out, "discovery_skipped", view->discovery_skipped);
    add_number(out, "messages", counts->messages);
    add_number(out, "malformed", counts->malformed);
    add_number(out, "events", counts->events);
    add_number(out, "events_per_second", view->events_per_second);
    add_number(out, "duplicates", counts->duplicates);
    add_number(out, "number_conflicts", counts->number_conflicts);
    add_number(out, "gaps", counts->gaps);
    add_skipped(out, counts);
    add_number(out, "unmatched", counts->unmatched);
    add_number(out, "orphans", counts->orphans);
    add_number(out, "conflicts", counts->conflicts);
    add_number(out, "applied_seq", view->applied_seq);
    add_number(out, "committed_seq", view->committed_seq);
    add_number(out, "last_seq", view->last_seq);
    add_number(out, "lag", view->lag);
    add_number(out, "publishers", view->publishers);
    add_number(out, "uncertain", view->uncertain);
    add_number(out, "last_message_ms", counts->last_message_ms);
    kvt_buffer_printf(out, ",");
    advisor_admin_text(out, "last_error", counts->last_error);
}

void
advisor_admin_sources(void *arg, const struct kvt_http_request *request,
                      struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    struct kvt_buffer *out = &response->body;
    struct advisor_source_view *views = kvt_calloc(ADVISOR_SOURCES_MAX, sizeof(*views));
    size_t count = 0;

    (void)request;
    if (views == NULL) {
        kvt_http_fail(response, 503, KVT_NOMEM, "no memory for the list of sources");
        return;
    }
    if (http->sources != NULL)
        count = advisor_sources_views(http->sources, views);
    kvt_buffer_printf(out, "{\"schema_version\":1,\"sources\":[");
    for (size_t i = 0; i < count; i++) {
        kvt_buffer_printf(out, "%s{", i > 0 ? "," : "");
        add_source(out, &views[i]);
        kvt_buffer_printf(out, "}");
    }
    kvt_buffer_printf(out, "]}");
    kvt_free(views);
}

/* ---- one of them ---- */

static const char *
state_name(enum advisor_publisher_state state)
{
    switch (state) {
    case ADVISOR_LIVE: return "live";
    case ADVISOR_UNCERTAIN: return "uncertain";
    case ADVISOR_GONE: break;
    }
    return "gone";
}

static void
add_publisher(struct kvt_buffer *out, const struct advisor_publisher_view *view)
{
    advisor_admin_text(out, "worker", view->row.worker);
    kvt_buffer_printf(out, ",");
    advisor_admin_text(out, "namespace", view->namespace_);
    add_number(out, "worker_id", view->foreign.worker_id);
    add_number(out, "dp_rank", view->foreign.dp_rank);
    add_number(out, "incarnation", view->row.incarnation);
    add_number(out, "last_seq", view->row.last_seq);
    kvt_buffer_printf(out, ",\"state\":\"%s\",\"silent\":%s", state_name(view->state),
                      view->silent ? "true" : "false");
    add_number(out, "gaps", view->row.gaps);
    add_number(out, "conflicts", view->conflicts);
    add_number(out, "resyncs", view->row.resyncs);
    add_number(out, "last_event_ms", view->row.last_event_ms);
    kvt_buffer_printf(out, ",");
    /* Why it is not to be trusted: given up for good, or what the last attempt came to. */
    advisor_admin_text(out, "reason", view->foreign.lost != 0 ? view->foreign.reason : view->error);
}

static void
add_publishers(const struct advisor_admin *http, struct kvt_buffer *out, uint32_t number)
{
    struct advisor_publisher_view *views;
    const size_t count = advisor_publishers_views(advisor_round_publishers(http->round), &views);
    const char *comma = "";

    kvt_buffer_printf(out, ",\"publisher_list\":[");
    for (size_t i = 0; i < count; i++) {
        if (views[i].foreign.source != number)
            continue;
        kvt_buffer_printf(out, "%s{", comma);
        add_publisher(out, &views[i]);
        kvt_buffer_printf(out, "}");
        comma = ",";
    }
    kvt_buffer_printf(out, "]");
    kvt_free(views);
}

void
advisor_admin_source(void *arg, const struct kvt_http_request *request,
                     struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    struct kvt_buffer *out = &response->body;
    struct advisor_source_view view;

    if (http->sources == NULL || !advisor_sources_view(http->sources, request->tail, &view)) {
        kvt_http_fail(response, 404, KVT_NOTFOUND, "no source is called \"%s\"", request->tail);
        return;
    }
    kvt_buffer_printf(out, "{\"schema_version\":1,");
    add_source(out, &view);
    add_publishers(http, out, view.number);
    kvt_buffer_printf(out, "}");
}
