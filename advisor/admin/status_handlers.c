#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advisor/admin/advisor_admin.h"
#include "advisor/admin/troubles.h"
#include "advisor/round/observed_reports.h"
#include "advisor/selection/tenant_quotas.h"
#include "advisor/selection/tier_kind.h"
#include "advisor/store/number_map.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/conditions.h"
#include "base/core/redact.h"
#include "kvtier/version.h"
#include "wire/nats/bus.h"

static void
add_stuck_tiers(struct advisor_admin *http, struct kvt_buffer *why)
{
    struct advisor_tier_view *tiers = kvt_calloc(ADVISOR_TIERS_MAX, sizeof(*tiers));
    const size_t count =
        tiers == NULL ? 0 : advisor_planner_tiers(http->planner, tiers, ADVISOR_TIERS_MAX);

    for (size_t i = 0; i < count; i++)
        if (tiers[i].stuck)
            kvt_buffer_printf(why,
                              "policy: %s is too full, and its gateway let none of the %" PRIu64
                              " blocks go that are left; %" PRIu64 " are of no rule that drains "
                              "it\n",
                              tiers[i].tier.name, tiers[i].refused_blocks, tiers[i].passed_blocks);
    kvt_free(tiers);
}

static void
add_stuck_quotas(struct advisor_admin *http, struct kvt_buffer *why)
{
    struct advisor_quota_view *quotas = kvt_calloc(ADVISOR_QUOTAS_MAX, sizeof(*quotas));
    const size_t count =
        quotas == NULL ? 0 : advisor_planner_quotas(http->planner, quotas, ADVISOR_QUOTAS_MAX);
    size_t stuck = 0;

    for (size_t i = 0; i < count; i++)
        stuck += quotas[i].stuck && quotas[i].over == ADVISOR_QUOTA_HARD;
    if (stuck > 0)
        kvt_buffer_printf(
            why,
            "policy: %zu quotas are exceeded, and nothing of their tenants may leave: "
            "kvtier tenant usage\n",
            stuck);
    kvt_free(quotas);
}

static void
add_condition_reasons(const struct advisor_admin *http, struct kvt_buffer *why)
{
    struct kvt_condition *rows = kvt_calloc(KVT_CONDITIONS_MAX, sizeof(*rows));
    const size_t count = rows == NULL || http->conditions == NULL
                             ? 0
                             : kvt_conditions_list(http->conditions, kvt_clock_unix_ms(), rows);

    for (size_t i = 0; i < count; i++)
        if (!rows[i].minor)
            kvt_buffer_printf(why, "condition %s: %s (%" PRIu64 " times)\n", rows[i].name,
                              rows[i].text, rows[i].count);
    kvt_free(rows);
}

/* ,"conditions":[{name, text, since_ms, last_ms, count, minor}] */
static void
add_conditions(const struct advisor_admin *http, struct kvt_buffer *out)
{
    struct kvt_condition *rows = kvt_calloc(KVT_CONDITIONS_MAX, sizeof(*rows));
    const size_t count = rows == NULL || http->conditions == NULL
                             ? 0
                             : kvt_conditions_list(http->conditions, kvt_clock_unix_ms(), rows);

    kvt_buffer_printf(out, ",\"conditions\":[");
    for (size_t i = 0; i < count; i++) {
        kvt_buffer_printf(out, "%s{", i > 0 ? "," : "");
        advisor_admin_text(out, "name", rows[i].name);
        kvt_buffer_printf(out, ",");
        advisor_admin_text(out, "text", rows[i].text);
        kvt_buffer_printf(
            out,
            ",\"since_ms\":%" PRIu64 ",\"last_ms\":%" PRIu64 ",\"count\":%" PRIu64 ",\"minor\":%s}",
            rows[i].since_ms, rows[i].last_ms, rows[i].count, rows[i].minor ? "true" : "false");
    }
    kvt_buffer_printf(out, "]");
    kvt_free(rows);
}

/* ,"observed":[{gateway, last_report_ms, tiers: [{name, used_bytes, capacity_bytes, blocks}]}] */
static void
add_observed(const struct advisor_admin *http, struct kvt_buffer *out)
{
    struct advisor_observed_report *rows = kvt_calloc(ADVISOR_OBSERVED_MAX, sizeof(*rows));
    const size_t count =
        rows == NULL ? 0 : advisor_observed_reports_list(advisor_round_observed(http->round), rows);

    kvt_buffer_printf(out, ",\"observed\":[");
    for (size_t i = 0; i < count; i++) {
        kvt_buffer_printf(out, "%s{", i > 0 ? "," : "");
        advisor_admin_text(out, "gateway", rows[i].gateway);
        kvt_buffer_printf(out, ",\"last_report_ms\":%" PRIu64 ",\"tiers\":[",
                          rows[i].last_report_ms);
        for (uint32_t n = 0; n < rows[i].tier_count; n++) {
            kvt_buffer_printf(out, "%s{", n > 0 ? "," : "");
            advisor_admin_text(out, "name", rows[i].tiers[n].name);
            kvt_buffer_printf(out,
                              ",\"used_bytes\":%" PRIu64 ",\"capacity_bytes\":%" PRIu64
                              ",\"blocks\":%" PRIu64 "}",
                              rows[i].tiers[n].used_bytes, rows[i].tiers[n].capacity_bytes,
                              rows[i].tiers[n].blocks);
        }
        kvt_buffer_printf(out, "]}");
    }
    kvt_buffer_printf(out, "]");
    kvt_free(rows);
}

/* Lines of readiness; what does not stop readiness is added here. */
bool
advisor_admin_reasons(struct advisor_admin *http, struct kvt_buffer *why)
{
    const uint64_t now_ms = kvt_clock_unix_ms();
    const bool ready = advisor_admin_ready(http, why);
    struct kvt_error wrong;
    size_t uncertain;
    size_t silent;
    size_t live;
    uint64_t event_ms = (uint64_t)kvt_metric_get(http->counters->event_ms);

    /* Somebody's own doing, and soon forgotten: tiers fill until PUTs are refused. */
    if (advisor_planner_paused(http->planner))
        kvt_buffer_printf(why, "orders: all are paused, of the policy and of jobs: tiers fill "
                               "until kvtier migrate resume\n");
    advisor_publishers_doubts(advisor_round_publishers(http->round), &live, &uncertain, &silent);
    if (uncertain > 0)
        kvt_buffer_printf(why, "publishers: %zu uncertain\n", uncertain);
    if (silent > 0)
        kvt_buffer_printf(why, "publishers: no events from %zu\n", silent);
    if (live > 0 && event_ms != 0 && now_ms > event_ms + http->silent_after_ms)
        kvt_buffer_printf(why, "events: none since %" PRIu64 " s\n", (now_ms - event_ms) / 1000);
    if (kvt_metric_get(http->counters->ns_full) != 0)
        kvt_buffer_printf(why,
                          "index: takes no new namespace, %" PRId64 " of %" PRId64
                          " are in use or one source has its half; messages of others are refused, "
                          "%" PRId64 " so far: find out who publishes so many, kvtier sources ls\n",
                          kvt_metric_get(http->counters->ns_used),
                          kvt_metric_get(http->counters->ns_max),
                          kvt_metric_get(http->counters->ns_refused));
    if (atomic_load(&http->finder.memory->spilled))
        kvt_buffer_printf(why,
                          "index: does not fit in memory, answered from disk; its log grows, by "
                          "%" PRId64 " bytes so far\n",
                          kvt_metric_get(http->counters->log_bytes));
    if (advisor_planner_mode(http->planner) == ADVISOR_MODE_ENFORCE &&
        !advisor_planner_settings(http->planner)->can_enforce)
        kvt_buffer_printf(why, "policy: enforce without orders.key_file orders nothing\n");
    advisor_rulebook_file_error(http->rulebook, &wrong);
    if (wrong.text[0] != '\0')
        kvt_buffer_printf(why, "policy: the file was not taken, what was in force stays: %s\n",
                          wrong.text);
    add_stuck_tiers(http, why);
    add_stuck_quotas(http, why);
    add_condition_reasons(http, why);
    return ready;
}

/* The same as elements of a JSON array. */
static size_t
add_reasons(struct advisor_admin *http, struct kvt_buffer *out, bool *ready)
{
    struct kvt_buffer why;
    size_t count = 0;
    char *rest;

    kvt_buffer_init(&why, 4096);
    *ready = advisor_admin_reasons(http, &why);
    rest = kvt_strdup(kvt_buffer_text(&why));
    for (char *line = rest; line != NULL && *line != '\0';) {
        char *end = strchr(line, '\n');

        if (end != NULL)
            *end = '\0';
        kvt_buffer_printf(out, "%s", count++ > 0 ? "," : "");
        kvt_buffer_json_string(out, line);
        line = end == NULL ? NULL : end + 1;
    }
    kvt_free(rest);
    kvt_buffer_release(&why);
    return count;
}

static void
add_index(const struct advisor_admin *http, struct kvt_buffer *out)
{
    const struct advisor_counters *counters = http->counters;
    struct index_stats stats;
    uint64_t used;
    uint64_t max;

    index_stats(http->finder.memory->index, &stats);
    advisor_store_size(http->store, &used, &max);
    kvt_buffer_printf(
        out,
        "\"index\":{\"blocks\":%" PRId64 ",\"places\":%" PRIu64 ",\"holders\":%" PRIu64
        ",\"ram_bytes\":%" PRIu64 ",\"ram_max_bytes\":%" PRIu64 ",\"db_bytes\":%" PRIu64
        ",\"db_max_bytes\":%" PRIu64 ",\"collisions\":%" PRId64 ",\"namespaces\":%" PRId64
        ",\"namespaces_max\":%" PRId64 ",\"namespaces_full\":%s,\"namespaces_refused\":%" PRId64
        "}",
        kvt_metric_get(counters->blocks), stats.places, stats.holders,
        stats.bytes + (uint64_t)kvt_metric_get(counters->policy_bytes), http->index_max, used, max,
        kvt_metric_get(counters->collisions), kvt_metric_get(counters->ns_used),
        kvt_metric_get(counters->ns_max), kvt_metric_get(counters->ns_full) != 0 ? "true" : "false",
        kvt_metric_get(counters->ns_refused));
}

/* How many there are, and how many are exceeded. */
static void
add_quotas(const struct advisor_admin *http, struct kvt_buffer *out)
{
    struct advisor_quota_view *quotas = kvt_calloc(ADVISOR_QUOTAS_MAX, sizeof(*quotas));
    const size_t count =
        quotas == NULL ? 0 : advisor_planner_quotas(http->planner, quotas, ADVISOR_QUOTAS_MAX);
    size_t over[ADVISOR_QUOTA_HARD + 1] = {0};

    for (size_t i = 0; i < count; i++)
        over[quotas[i].over]++;
    kvt_buffer_printf(out, "\"quotas\":{\"count\":%zu,\"above_soft\":%zu,\"above_hard\":%zu},",
                      count, over[ADVISOR_QUOTA_SOFT], over[ADVISOR_QUOTA_HARD]);
    kvt_free(quotas);
}

static void
add_events(const struct advisor_admin *http, struct kvt_buffer *out)
{
    const struct advisor_counters *counters = http->counters;
    const int64_t last = kvt_metric_get(counters->events_last);
    const int64_t committed = kvt_metric_get(counters->events_seq);
    const int64_t done = kvt_metric_get(counters->events_done);

    kvt_buffer_printf(out,
                      "\"events\":{\"applied\":%" PRId64 ",\"skipped\":%" PRId64
                      ",\"malformed\":%" PRId64 ",\"duplicates\":%" PRId64 ",\"conflicts\":%" PRId64
                      ",\"unproven\":%" PRId64 ",\"intruders\":%" PRId64 ",\"gaps\":%" PRId64
                      ",\"resyncs\":%" PRId64 ",\"publishers\":%" PRId64 ",\"uncertain\":%" PRId64
                      ",\"stream_seq\":%" PRId64 ",\"committed_seq\":%" PRId64 ",\"lag\":%" PRId64
                      ",\"lag_ms\":%" PRId64 ",\"last_event_ms\":%" PRId64 "}",
                      kvt_metric_get(counters->applied), kvt_metric_get(counters->unknown),
                      kvt_metric_get(counters->malformed), kvt_metric_get(counters->duplicates),
                      kvt_metric_get(counters->conflicts), kvt_metric_get(counters->unproven),
                      kvt_metric_get(counters->intruders), kvt_metric_get(counters->gaps),
                      kvt_metric_get(counters->resyncs), kvt_metric_get(counters->publishers),
                      kvt_metric_get(counters->uncertain), last, committed,
                      last > done ? last - done : 0, kvt_metric_get(counters->lag_ms),
                      kvt_metric_get(counters->event_ms));
}

/* How far the policy in force goes, beside what the operator allows. */
static void
add_rules(const struct advisor_admin *http, struct kvt_buffer *out)
{
    const struct advisor_rules *rules = advisor_rulebook_take(http->rulebook);
    const enum advisor_mode mode = advisor_planner_mode(http->planner);

    kvt_buffer_printf(out,
                      "\"effective_mode\":\"%s\",\"paused\":%s,\"policy_version\":%" PRIu64 ",",
                      advisor_mode_name(advisor_rules_mode(rules, mode)),
                      advisor_planner_paused(http->planner) ? "true" : "false", rules->version);
    advisor_rulebook_give(http->rulebook, rules);
}

void
advisor_admin_status(void *arg, const struct kvt_http_request *request,
                     struct kvt_http_response *response)
{
    struct advisor_admin *http = arg;
    const struct advisor_counters *counters = http->counters;
    struct kvt_buffer *out = &response->body;
    struct kvt_buffer reasons;
    const char *state = "ready";
    char shown[KVT_REDACT_URL_MAX];
    bool ready;

    (void)request;
    kvt_buffer_init(&reasons, 16384);
    if (add_reasons(http, &reasons, &ready) > 0)
        state = advisor_round_caught_up(http->round) ? "degraded" : "starting";
    kvt_buffer_printf(out,
                      "{\"schema_version\":1,\"program\":\"kvtier-advisor\",\"version\":\"%s\","
                      "\"uptime_ms\":%" PRIu64 ",\"state\":\"%s\",\"reasons\":[%s],"
                      "\"mode\":\"%s\",",
                      KVT_VERSION, kvt_clock_mono_ms() - http->started_ms, state,
                      kvt_buffer_text(&reasons),
                      advisor_mode_name(advisor_planner_mode(http->planner)));
    kvt_buffer_release(&reasons);
    add_rules(http, out);
    add_index(http, out);
    kvt_buffer_printf(out, ",");
    advisor_admin_add_tiers(http, true, out);
    kvt_buffer_printf(out, ",");
    add_quotas(http, out);
    add_events(http, out);
    kvt_buffer_printf(
        out,
        ",\"orders\":{\"issued\":%" PRId64 ",\"pending\":%" PRId64 ",\"done\":%" PRId64
        ",\"failed\":%" PRId64 ",\"expired\":%" PRId64 ",\"observed\":%" PRId64 "},\"nats\":{",
        kvt_metric_get(counters->orders_issued), kvt_metric_get(counters->orders_pending),
        kvt_metric_get(counters->orders_done), kvt_metric_get(counters->orders_failed),
        kvt_metric_get(counters->orders_expired), kvt_metric_get(counters->orders_observed));
    kvt_redact_url(shown, sizeof(shown), http->nats_url);
    advisor_admin_text(out, "url", shown);
    kvt_buffer_printf(out, ",\"connected\":%s,\"reconnects\":%" PRIu64 "},",
                      wire_bus_connected(http->bus) ? "true" : "false",
                      wire_bus_reconnects(http->bus));
    advisor_admin_add_route(http, out);
    advisor_admin_add_gateways(http, true, out);
    add_conditions(http, out);
    add_observed(http, out);
    kvt_buffer_printf(out, "}");
}

/* ---- publishers ---- */

/* Blocks in each publisher's own tiers, over its dp ranks and namespaces: one pass over the
 * holders. NULL: no memory. */
static uint64_t *
count_blocks(const struct advisor_admin *http, const struct advisor_publisher_view *views,
             size_t count)
{
    struct index *index = http->finder.memory->index;
    const uint32_t holder_count = index_holder_count(index);
    uint64_t *blocks = kvt_calloc(count + 1, sizeof(*blocks));
    struct advisor_number_map *slots = NULL;
    uint32_t slot;

    if (blocks == NULL || advisor_number_map_new(&slots) != KVT_OK)
        goto fail;
    for (size_t i = 0; i < count; i++)
        if (advisor_number_map_put(slots, views[i].row.worker, strlen(views[i].row.worker),
                                   (uint32_t)i) != KVT_OK)
            goto fail;
    for (uint32_t i = 0; i < holder_count; i++) {
        struct index_holder key;
        uint64_t held;
        uint64_t bytes;

        index_holder_info(index, i, &key, &held, &bytes);
        if (key.tier != KVT_TIER_G4 &&
            advisor_number_map_get(slots, key.name, strlen(key.name), &slot))
            blocks[slot] += held;
    }
    /* The same name in several namespaces has one holder: each shows its sum. */
    for (size_t i = 0; i < count; i++)
        if (advisor_number_map_get(slots, views[i].row.worker, strlen(views[i].row.worker), &slot))
            blocks[i] = blocks[slot];
    advisor_number_map_free(slots);
    return blocks;

fail:
    advisor_number_map_free(slots);
    kvt_free(blocks);
    return NULL;
}

static const char *
state_name(enum advisor_publisher_state state)
{
    switch (state) {
    case ADVISOR_LIVE: return "live";
    case ADVISOR_UNCERTAIN: return "uncertain";
    case ADVISOR_GONE: return "gone";
    }
    return "gone";
}

/* What only publishers of other systems have. */
static void
add_foreign(const struct advisor_admin *http, struct kvt_buffer *out,
            const struct advisor_publisher_view *view)
{
    const struct advisor_intake *intake =
        http->sources == NULL ? NULL
                              : advisor_sources_by_number(http->sources, view->foreign.source);

    kvt_buffer_printf(out, ",");
    advisor_admin_text(out, "source", intake == NULL ? "" : intake->name);
    kvt_buffer_printf(out, ",\"dp_rank\":%u,\"given_up\":%s", view->foreign.dp_rank,
                      view->foreign.lost != 0 ? "true" : "false");
}

void
advisor_admin_publishers(void *arg, const struct kvt_http_request *request,
                         struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    struct kvt_buffer *out = &response->body;
    struct advisor_publisher_view *views;
    const size_t count = advisor_publishers_views(advisor_round_publishers(http->round), &views);
    uint64_t *blocks = count_blocks(http, views, count);

    (void)request;
    if (blocks == NULL) {
        kvt_http_fail(response, 503, KVT_NOMEM, "no memory for %zu publishers", count);
        kvt_free(views);
        return;
    }
    kvt_buffer_printf(out, "{\"schema_version\":1,\"publishers\":[");
    for (size_t i = 0; i < count; i++) {
        const struct advisor_publisher_view *view = &views[i];

        kvt_buffer_printf(out, "%s{", i > 0 ? "," : "");
        advisor_admin_text(out, "worker", view->row.worker);
        kvt_buffer_printf(out, ",");
        advisor_admin_text(out, "namespace", view->namespace_);
        kvt_buffer_printf(out,
                          ",\"incarnation\":%" PRIu64 ",\"last_seq\":%" PRIu64
                          ",\"state\":\"%s\",\"silent\":%s,\"gaps\":%" PRIu64
                          ",\"conflicts\":%" PRIu64 ",\"resyncs\":%" PRIu64 ",\"blocks\":%" PRIu64
                          ",\"last_event_ms\":%" PRIu64 ",",
                          view->row.incarnation, view->row.last_seq, state_name(view->state),
                          view->silent ? "true" : "false", view->row.gaps, view->conflicts,
                          view->row.resyncs, blocks[i], view->row.last_event_ms);
        advisor_admin_text(out, "last_error", view->error);
        add_foreign(http, out, view);
        kvt_buffer_printf(out, "}");
    }
    kvt_buffer_printf(out, "]}");
    kvt_free(blocks);
    kvt_free(views);
}

/* ---- gateways and tiers ---- */

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

        if (view->kind != i / count)
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
            advisor_tier_kind_name(view->kind), view->tier.used_bytes, view->tier.capacity_bytes,
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
