#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advisor/admin/advisor_admin.h"
#include "base/core/alloc.h"

/* What the router knows: workers, running requests, itself. */

static const char *const origins[ROUTER_ORIGINS] = {
    [ROUTER_ORIGIN_CONFIG] = "config",
    [ROUTER_ORIGIN_EVENTS] = "events",
    [ROUTER_ORIGIN_BUCKET] = "bucket",
};

bool
advisor_admin_routed(const struct advisor_admin *http, struct kvt_http_response *response)
{
    if (http->router != NULL)
        return true;
    kvt_http_fail(response, 503, KVT_UNSUPPORTED, "this advisor routes no requests");
    return false;
}

static void
add_worker(struct kvt_buffer *out, const struct advisor_router_load *load)
{
    const char *comma = "";

    kvt_buffer_puts(out, "{");
    advisor_admin_text(out, "worker", load->worker.name);
    kvt_buffer_printf(out,
                      ",\"dp_rank\":%u,\"active_requests\":%u,\"active_prefill_tokens\":%" PRIu64
                      ",\"active_blocks\":%" PRIu64 ",\"origins\":[",
                      load->worker.dp_rank, load->active_requests, load->active_prefill_tokens,
                      load->decode_blocks);
    for (size_t i = 0; i < ROUTER_ORIGINS; i++) {
        if ((load->origins & (1u << i)) == 0)
            continue;
        kvt_buffer_printf(out, "%s\"%s\"", comma, origins[i]);
        comma = ",";
    }
    kvt_buffer_puts(out, "]}");
}

void
advisor_admin_route_workers(void *arg, const struct kvt_http_request *request,
                            struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    struct advisor_router_load *loads;
    size_t count;
    enum kvt_err rc;

    (void)request;
    if (!advisor_admin_routed(http, response))
        return;
    rc = advisor_router_loads(http->router, &loads, &count);
    if (rc != KVT_OK) {
        kvt_http_fail(response, 503, rc, "%s", kvt_err_text(rc));
        return;
    }
    kvt_buffer_printf(&response->body, "{\"schema_version\":1,\"workers\":[");
    for (size_t i = 0; i < count; i++) {
        kvt_buffer_puts(&response->body, i > 0 ? "," : "");
        add_worker(&response->body, &loads[i]);
    }
    kvt_buffer_puts(&response->body, "]}");
    kvt_free(loads);
}

/* ---- requests ---- */

struct page {
    struct router_request *rows;
    size_t count;
    size_t capacity;
};

/* Under the router's lock: those that run. */
static bool
take_request(void *arg, const struct router_request *request)
{
    struct page *page = arg;

    if (request->worker.name[0] == '\0')
        return true; /* it ended, or was not added yet */
    if (page->count == page->capacity)
        return false;
    page->rows[page->count] = *request;
    page->rows[page->count++].hashes = NULL; /* the table's */
    return true;
}

void
advisor_admin_route_requests(void *arg, const struct kvt_http_request *request,
                             struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    struct kvt_buffer *out = &response->body;
    struct page page = {.count = 0};
    uint64_t limit;
    uint64_t cursor;
    bool more = true;

    if (!advisor_admin_routed(http, response) ||
        !advisor_admin_number(request, response, "limit", 1000, ADVISOR_ADMIN_ROWS_MAX, &limit) ||
        !advisor_admin_number(request, response, "cursor", 0, UINT64_MAX, &cursor))
        return;
    page.capacity = limit == 0 ? 1 : limit;
    page.rows = kvt_calloc(page.capacity, sizeof(*page.rows));
    if (page.rows == NULL) {
        kvt_http_fail(response, 503, KVT_NOMEM, "no memory for %zu requests", page.capacity);
        return;
    }
    while (more && page.count < page.capacity)
        more = advisor_router_requests(http->router, &cursor, take_request, &page);
    kvt_buffer_printf(out, "{\"schema_version\":1,\"requests\":[");
    for (size_t i = 0; i < page.count; i++) {
        const struct router_request *row = &page.rows[i];

        kvt_buffer_puts(out, i > 0 ? ",{" : "{");
        advisor_admin_text(out, "request_id", row->id);
        kvt_buffer_puts(out, ",");
        advisor_admin_text(out, "worker", row->worker.name);
        kvt_buffer_printf(out,
                          ",\"dp_rank\":%u,\"state\":\"%s\",\"age_ms\":%" PRIu64
                          ",\"blocks\":%u,\"prefill_tokens\":%" PRIu64 ",\"router\":\"%016" PRIx64
                          "\"}",
                          row->worker.dp_rank, row->state == ROUTER_ADDED ? "added" : "prefilled",
                          row->age_ms, row->blocks, row->prefill_tokens, row->router);
    }
    if (more)
        kvt_buffer_printf(out, "],\"next_cursor\":\"%" PRIu64 "\"}", cursor);
    else
        kvt_buffer_puts(out, "],\"next_cursor\":\"\"}");
    kvt_free(page.rows);
}

/* ---- itself ---- */

static void
add_bucket(const struct advisor_admin *http, struct kvt_buffer *out)
{
    struct advisor_presence_view view;

    if (http->presence == NULL)
        return;
    advisor_presence_view(http->presence, &view);
    if (view.has_bucket)
        kvt_buffer_printf(out,
                          ",\"bucket\":{\"there\":%s,\"listed\":%s,\"keys\":%" PRIu64
                          ",\"odd\":%" PRIu64 ",\"refused\":%" PRIu64 "}",
                          view.bucket.there ? "true" : "false",
                          view.bucket.listed ? "true" : "false", view.bucket.keys,
                          view.odd + view.bucket.over, view.refused);
}

void
advisor_admin_add_route(const struct advisor_admin *http, struct kvt_buffer *out)
{
    struct advisor_router_view view;

    if (http->router == NULL)
        return;
    advisor_router_view(http->router, &view);
    kvt_buffer_printf(out,
                      "\"route\":{\"workers\":%" PRIu64 ",\"decisions\":%" PRIu64
                      ",\"ties\":%" PRIu64 ",\"requests\":%" PRIu64 ",\"requests_max\":%u,"
                      "\"active_blocks\":%" PRIu64 ",\"expired\":%" PRIu64 ",\"untracked\":%" PRIu64
                      ",\"block_tokens\":%u,\"expiry_ms\":%" PRIu64
                      ",\"weights\":{\"overlap_score_weight\":%.15g,\"router_temperature\":%.15g,"
                      "\"g1_weight\":%.15g,\"g2_weight\":%.15g,\"g3_weight\":%.15g,"
                      "\"g4_weight\":%.15g,\"active_request_weight\":%.15g}",
                      view.workers, view.decisions, view.ties, view.slots.requests,
                      view.requests_max, view.slots.blocks, view.slots.expired,
                      view.slots.untracked, view.block_tokens, view.expiry_ms,
                      view.weights.overlap_score_weight, view.weights.temperature,
                      view.weights.tier[0], view.weights.tier[1], view.weights.tier[2],
                      view.weights.tier[3], view.weights.active_request_weight);
    if (view.shared)
        kvt_buffer_printf(
            out,
            ",\"replica\":{\"router\":\"%016" PRIx64
            "\",\"ready\":%s,\"converged\":%s,\"twin\":%s,\"peers\":%u,"
            "\"sent\":%" PRIu64 ",\"received\":%" PRIu64 ",\"gaps\":%" PRIu64 ",\"asks\":%" PRIu64
            ",\"tables\":%" PRIu64 ",\"malformed\":%" PRIu64 ",\"unsupported\":%" PRIu64 "}",
            view.number, view.replica.ready ? "true" : "false",
            view.replica.converged ? "true" : "false", view.replica.twin ? "true" : "false",
            view.replica.peers, view.replica.sent, view.replica.received, view.replica.gaps,
            view.replica.asks, view.replica.tables, view.replica.malformed,
            view.replica.unsupported);
    add_bucket(http, out);
    kvt_buffer_puts(out, "},");
}
