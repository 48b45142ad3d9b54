#include "advisor/admin/advisor_admin.h"

#include <inttypes.h>
#include <stdio.h>

#include "advisor/admin/nats_responder.h"
#include "advisor/index/index_load.h"
#include "advisor/round/outbox.h"
#include "base/core/alloc.h"
#include "base/core/redact.h"
#include "base/text/parse.h"
#include "wire/nats/bus.h"

enum { RETRY_AFTER_S = 5 };

/* Before and after a handler waits for the writer; false (and answered 503): so many wait already
 * that others would not be answered either. */
static bool
enter(struct advisor_admin *http, struct kvt_http_response *response)
{
    if (atomic_fetch_add(&http->waiting, 1) < ADVISOR_ADMIN_WAIT_MAX)
        return true;
    atomic_fetch_sub(&http->waiting, 1);
    kvt_http_fail(response, 503, KVT_AGAIN,
                  "%d requests wait for the engine; nothing was done: ask again later",
                  ADVISOR_ADMIN_WAIT_MAX);
    response->retry_after_s = RETRY_AFTER_S;
    return false;
}

static void
leave(struct advisor_admin *http)
{
    atomic_fetch_sub(&http->waiting, 1);
}

/* Handlers that hand something to the writer's thread, and wait. */
#define WAITS(name)                                                                                \
    static void name##_waiting(void *arg, const struct kvt_http_request *request,                  \
                               struct kvt_http_response *response)                                 \
    {                                                                                              \
        if (!enter(arg, response))                                                                 \
            return;                                                                                \
        name(arg, request, response);                                                              \
        leave(arg);                                                                                \
    }

WAITS(advisor_admin_explain)
WAITS(advisor_admin_plan)
WAITS(advisor_admin_submit)
WAITS(advisor_admin_job_command)
WAITS(advisor_admin_pause_all)
WAITS(advisor_admin_resume_all)
WAITS(advisor_admin_install)
WAITS(advisor_admin_rollback)

const struct kvt_http_route advisor_admin_routes[] = {
    {"GET", "/", false, advisor_admin_page},
    {"GET", "/v1/overview", false, advisor_admin_overview},
    {"GET", "/v1/stream", false, advisor_admin_stream},
    {"GET", "/v1/status", false, advisor_admin_status},
    {"GET", "/v1/publishers", false, advisor_admin_publishers},
    {"GET", "/v1/sources", false, advisor_admin_sources},
    {"GET", "/v1/sources/*", false, advisor_admin_source},
    {"GET", "/v1/blocks/*", false, advisor_admin_block},
    {"GET", "/v1/explain/*", false, advisor_admin_explain_waiting},
    {"POST", "/v1/find_matches", false, advisor_admin_find},
    {"POST", "/v1/match", false, advisor_admin_match},
    {"POST", "/v1/route", false, advisor_admin_route},
    {"GET", "/v1/route/workers", false, advisor_admin_route_workers},
    {"GET", "/v1/route/requests", false, advisor_admin_route_requests},
    {"POST", "/v1/route/requests", true, advisor_admin_route_add},
    {"POST", "/v1/route/requests/*", true, advisor_admin_route_step},
    {"GET", "/v1/index/stats", false, advisor_admin_stats},
    {"GET", "/v1/index/dump", false, advisor_admin_dump},
    {"GET", "/v1/index/export", false, advisor_admin_export},
    {"GET", "/v1/index/subtree", false, advisor_admin_subtree},
    {"GET", "/v1/index/candidates", false, advisor_admin_candidates},
    {"GET", "/v1/index/history", false, advisor_admin_history},
    {"GET", "/v1/usage", false, advisor_admin_usage},
    {"GET", "/v1/quotas", false, advisor_admin_quotas},
    {"GET", "/v1/orders", false, advisor_admin_orders},
    {"POST", "/v1/plan", true, advisor_admin_plan_waiting},
    {"POST", "/v1/plan/check", false, advisor_admin_plan_check},
    {"GET", "/v1/jobs", false, advisor_admin_jobs},
    {"GET", "/v1/jobs/*", false, advisor_admin_job},
    {"POST", "/v1/jobs", true, advisor_admin_submit_waiting},
    {"POST", "/v1/jobs/*", true, advisor_admin_job_command_waiting},
    {"POST", "/v1/planner/pause", true, advisor_admin_pause_all_waiting},
    {"POST", "/v1/planner/resume", true, advisor_admin_resume_all_waiting},
    {"GET", "/v1/policy", false, advisor_admin_policy},
    {"PUT", "/v1/policy", true, advisor_admin_install_waiting},
    {"GET", "/v1/policy/history", false, advisor_admin_policies},
    {"POST", "/v1/policy/rollback", true, advisor_admin_rollback_waiting},
    {"POST", "/v1/policy/mode", true, advisor_admin_set_mode},
};
const size_t advisor_admin_route_count =
    sizeof(advisor_admin_routes) / sizeof(advisor_admin_routes[0]);

bool
advisor_admin_loaded(const struct advisor_admin *http, struct kvt_http_response *response)
{
    const struct advisor_index_load_progress *progress = advisor_round_progress(http->round);
    const uint64_t total = atomic_load(&progress->bytes_total);
    const uint64_t done = atomic_load(&progress->bytes_done);

    if (!atomic_load(&http->finder.memory->loading))
        return true;
    kvt_http_fail(response, 503, KVT_AGAIN,
                  "the advisor is reading its index into memory (%" PRIu64
                  " %% of the log): ask again soon",
                  total == 0 ? 0 : done * 100 / total);
    response->retry_after_s = RETRY_AFTER_S;
    return false;
}

struct advisor_gateway_view *
advisor_admin_gateways(const struct advisor_admin *http, size_t *count)
{
    struct advisor_gateway_view *views = kvt_calloc(ADVISOR_GATEWAYS_MAX, sizeof(*views));

    *count =
        views == NULL ? 0 : advisor_planner_gateways(http->planner, views, ADVISOR_GATEWAYS_MAX);
    return views;
}

bool
advisor_admin_number(const struct kvt_http_request *request, struct kvt_http_response *response,
                     const char *name, uint64_t fallback, uint64_t max, uint64_t *value)
{
    const char *text = kvt_http_query(request, name);

    *value = fallback;
    if (text == NULL)
        return true;
    if (kvt_parse_u64(text, value) != KVT_OK || *value > max) {
        kvt_http_fail(response, 400, KVT_INVALID, "%s: want a number of at most %llu", name,
                      (unsigned long long)max);
        return false;
    }
    return true;
}

void
advisor_admin_text(struct kvt_buffer *out, const char *key, const char *text)
{
    kvt_buffer_printf(out, "\"%s\":", key);
    kvt_buffer_json_string(out, text);
}

void
advisor_admin_hash(struct kvt_buffer *out, const char *key, uint64_t hash)
{
    char text[KVT_HASH_TEXT_MAX];

    kvt_hash_format(hash, text);
    kvt_buffer_printf(out, "\"%s\":\"%s\"", key, text);
}

/* While it is read into memory questions are answered from disk, and no events are taken. */
static bool
is_loading(const struct advisor_admin *http, struct kvt_buffer *why)
{
    const struct advisor_index_load_progress *progress = advisor_round_progress(http->round);
    const uint64_t total = atomic_load(&progress->bytes_total);
    const uint64_t done = atomic_load(&progress->bytes_done);

    if (!atomic_load(&http->finder.memory->loading))
        return false;
    kvt_buffer_printf(why,
                      "index: loading, %" PRIu64 " %% of the log and %" PRIu64
                      " places so far; answered from disk\n",
                      total == 0 ? 0 : done * 100 / total, atomic_load(&progress->blocks));
    return true;
}

/* A router that does not know what the others gave out gives it out again. */
static bool
is_alone(const struct advisor_admin *http, struct kvt_buffer *why)
{
    struct advisor_router_view view;

    if (http->router == NULL)
        return false;
    advisor_router_view(http->router, &view);
    if (!view.shared || (view.replica.ready && (http->responder == NULL ||
                                                advisor_nats_responder_listens(http->responder))))
        return false;
    kvt_buffer_puts(why,
                    view.replica.twin
                        ? "route: another advisor of this group has the same route.router_id\n"
                        : "route: has not heard yet what other advisors of the group gave out\n");
    return true;
}

bool
advisor_admin_ready(void *arg, struct kvt_buffer *why)
{
    const struct advisor_admin *http = arg;
    struct advisor_source_state source = {.running = true};
    char text[KVT_ERROR_TEXT_MAX];
    bool ready = true;

    if (http->events != NULL)
        advisor_source_state(http->events, &source);
    if (!wire_bus_connected(http->bus)) {
        kvt_redact_url(text, sizeof(text), http->nats_url);
        kvt_buffer_printf(why, "nats: no connection to %s\n", text);
        ready = false;
    } else if (!source.running) {
        kvt_buffer_printf(why, "events: %s\n", source.detail);
        ready = false;
    }
    if (is_loading(http, why))
        ready = false;
    if (is_alone(http, why))
        ready = false;
    if (advisor_round_blocked(http->round, text)) {
        kvt_buffer_printf(why, "index: takes nothing more: %s; raise db.max or free the disk\n",
                          text);
        ready = false;
    }
    if (ready && !advisor_round_caught_up(http->round)) {
        kvt_buffer_printf(why, "events: still reading what was sent before the start\n");
        ready = false;
    }
    return ready;
}
