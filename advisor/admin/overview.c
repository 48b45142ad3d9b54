#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advisor/admin/advisor_admin.h"
#include "advisor/admin/age_lines.h"
#include "advisor/admin/troubles.h"
#include "advisor/selection/tier_kind.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "kvtier/version.h"
#include "wire/nats/bus.h"

/* One document for the page, `kvtier top` and whoever draws: every member of it is bounded. */

enum { PREFIXES_MAX = 192 };

static void
add_numbers(struct kvt_buffer *out, const char *key, const uint64_t *numbers, size_t count)
{
    kvt_buffer_printf(out, "\"%s\":[", key);
    for (size_t i = 0; i < count; i++)
        kvt_buffer_printf(out, "%s%" PRIu64, i > 0 ? "," : "", numbers[i]);
    kvt_buffer_printf(out, "]");
}

/* ---- what is read and moved ---- */

static void
add_reads(struct kvt_buffer *out, const struct advisor_traffic_view *view)
{
    kvt_buffer_printf(out,
                      "\"reads\":{\"hot\":%" PRIu64 ",\"cold\":%" PRIu64 ",\"miss\":%" PRIu64
                      ",\"hot_bytes\":%" PRIu64 ",\"cold_bytes\":%" PRIu64
                      ",\"warm_bytes\":%" PRIu64 "},",
                      view->reads[0], view->reads[1], view->reads[2], view->read_bytes[0],
                      view->read_bytes[1], view->read_bytes[2]);
}

static void
add_series(struct kvt_buffer *out, const struct advisor_traffic_view *view, size_t flow)
{
    uint64_t bytes[ADVISOR_TRAFFIC_SLOTS];
    uint64_t blocks[ADVISOR_TRAFFIC_SLOTS];

    for (unsigned i = 0; i < ADVISOR_TRAFFIC_SLOTS; i++) {
        bytes[i] = view->slots[i].flows[flow].bytes;
        blocks[i] = view->slots[i].flows[flow].blocks;
    }
    add_numbers(out, "bytes_by_minute", bytes, ADVISOR_TRAFFIC_SLOTS);
    kvt_buffer_printf(out, ",");
    add_numbers(out, "blocks_by_minute", blocks, ADVISOR_TRAFFIC_SLOTS);
}

static void
add_flow(struct kvt_buffer *out, const struct advisor_traffic_view *view)
{
    bool any = false;

    kvt_buffer_printf(out, "\"flow\":[");
    for (size_t i = 0; i < ADVISOR_TRAFFIC_FLOWS; i++) {
        const struct advisor_traffic_flow *flow = &advisor_traffic_flows[i];
        const struct advisor_traffic_moves *moves = &view->flows[i];

        if (!flow->always && moves->blocks == 0 && moves->failed == 0 && moves->copied == 0)
            continue;
        kvt_buffer_printf(out,
                          "%s{\"verb\":\"%s\",\"from\":\"%s\",\"to\":\"%s\",\"blocks\":%" PRIu64
                          ",\"failed\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"copied_bytes\":%" PRIu64
                          ",",
                          any ? "," : "", kvt_order_verb_name(flow->verb),
                          advisor_tier_kind_name(flow->from), advisor_tier_kind_name(flow->to),
                          moves->blocks, moves->failed, moves->bytes, moves->copied);
        any = true;
        add_series(out, view, i);
        kvt_buffer_printf(out, "}");
    }
    kvt_buffer_printf(out, "],");
}

static void
add_history(struct kvt_buffer *out, const struct advisor_traffic_view *view)
{
    static const char *const keys[KVT_READ_RESULTS] = {"hot", "cold", "miss"};

    kvt_buffer_printf(out, "\"reads_by_minute\":{");
    for (unsigned result = 0; result < KVT_READ_RESULTS; result++) {
        uint64_t reads[ADVISOR_TRAFFIC_SLOTS];

        for (unsigned i = 0; i < ADVISOR_TRAFFIC_SLOTS; i++)
            reads[i] = view->slots[i].reads[result];
        kvt_buffer_printf(out, "%s", result > 0 ? "," : "");
        add_numbers(out, keys[result], reads, ADVISOR_TRAFFIC_SLOTS);
    }
    kvt_buffer_printf(out, "},");
}

/* What the policy in force asks of ages. */
static void
add_lines(const struct advisor_admin *http, struct kvt_buffer *out)
{
    const struct advisor_rules *rules = advisor_rulebook_take(http->rulebook);

    advisor_admin_add_lines(out, rules->policy);
    advisor_rulebook_give(http->rulebook, rules);
}

static void
add_ages(const struct advisor_admin *http, struct kvt_buffer *out,
         const struct advisor_traffic_view *view)
{
    kvt_buffer_printf(out, "\"reuse\":{");
    add_numbers(out, "up_to_seconds", advisor_traffic_bounds, ADVISOR_TRAFFIC_AGES);
    kvt_buffer_printf(out, ",");
    add_numbers(out, "reads", view->ages, ADVISOR_TRAFFIC_AGES + 1);
    kvt_buffer_printf(out, ",");
    add_lines(http, out);
    kvt_buffer_printf(out, "},");
}

/* A gateway may not know what a block continues; workers do. */
static uint64_t
parent_of(struct index *index, const struct advisor_hot_block *block)
{
    struct index_view view;

    if (block->parent != 0 || block->position == 0 ||
        index_get(index, block->index_ns, block->hash, &view) != KVT_OK)
        return block->parent;
    return view.block.id.parent;
}

static void
add_prefixes(const struct advisor_admin *http, struct kvt_buffer *out)
{
    struct advisor_hot_block *blocks = kvt_calloc(PREFIXES_MAX, sizeof(*blocks));
    const size_t count =
        blocks == NULL ? 0 : advisor_traffic_hottest(http->tally, blocks, PREFIXES_MAX);

    kvt_buffer_printf(out, "\"prefixes\":[");
    for (size_t i = 0; i < count; i++) {
        char namespace_[KVT_NAMESPACE_MAX];

        index_namespace_name(http->finder.memory->index, blocks[i].index_ns, namespace_);
        kvt_buffer_printf(out, "%s{", i > 0 ? "," : "");
        advisor_admin_text(out, "namespace", namespace_);
        kvt_buffer_printf(out, ",");
        advisor_admin_hash(out, "hash", blocks[i].hash);
        kvt_buffer_printf(out, ",");
        advisor_admin_hash(out, "parent", parent_of(http->finder.memory->index, &blocks[i]));
        kvt_buffer_printf(out, ",\"position\":%u,\"reads\":%" PRIu64 ",\"bytes\":%" PRIu64 "%s}",
                          blocks[i].position, blocks[i].reads - blocks[i].uncertain,
                          blocks[i].bytes,
                          advisor_planner_pinned(http->planner, blocks[i].ns, blocks[i].hash,
                                                 kvt_clock_unix_ms(), NULL)
                              ? ",\"pinned\":true"
                              : "");
    }
    kvt_buffer_printf(out, "],");
    kvt_free(blocks);
}

/* ---- where it stands ---- */

static void
add_numbers_of_state(const struct advisor_admin *http, struct kvt_buffer *out)
{
    const struct advisor_counters *counters = http->counters;
    struct index_stats stats;
    uint64_t used;
    uint64_t max;

    index_stats(http->finder.memory->index, &stats);
    advisor_store_size(http->store, &used, &max);
    kvt_buffer_printf(
        out,
        "\"index\":{\"blocks\":%" PRId64 ",\"places\":%" PRIu64 ",\"ram_bytes\":%" PRIu64
        ",\"ram_max_bytes\":%" PRIu64 ",\"db_bytes\":%" PRIu64 ",\"db_max_bytes\":%" PRIu64
        "},\"events\":{\"applied\":%" PRId64 ",\"gaps\":%" PRId64 ",\"publishers\":%" PRId64
        ",\"uncertain\":%" PRId64 ",\"silent\":%" PRId64 ",\"lag_ms\":%" PRId64
        "},\"orders\":{\"issued\":%" PRId64 ",\"pending\":%" PRId64 ",\"done\":%" PRId64
        ",\"failed\":%" PRId64 ",\"expired\":%" PRId64 ",\"observed\":%" PRId64 "},",
        kvt_metric_get(counters->blocks), stats.places,
        stats.bytes + (uint64_t)kvt_metric_get(counters->policy_bytes), http->index_max, used, max,
        kvt_metric_get(counters->applied), kvt_metric_get(counters->gaps),
        kvt_metric_get(counters->publishers), kvt_metric_get(counters->uncertain),
        kvt_metric_get(counters->silent), kvt_metric_get(counters->lag_ms),
        kvt_metric_get(counters->orders_issued), kvt_metric_get(counters->orders_pending),
        kvt_metric_get(counters->orders_done), kvt_metric_get(counters->orders_failed),
        kvt_metric_get(counters->orders_expired), kvt_metric_get(counters->orders_observed));
}

/* What the operator allows, how far the policy goes with it, and whether all is stopped. */
static void
add_mode(const struct advisor_admin *http, struct kvt_buffer *out)
{
    const struct advisor_rules *rules = advisor_rulebook_take(http->rulebook);
    const enum advisor_mode mode = advisor_planner_mode(http->planner);

    kvt_buffer_printf(out, "\"mode\":\"%s\",\"effective_mode\":\"%s\",\"paused\":%s,",
                      advisor_mode_name(mode), advisor_mode_name(advisor_rules_mode(rules, mode)),
                      advisor_planner_paused(http->planner) ? "true" : "false");
    advisor_rulebook_give(http->rulebook, rules);
}

static void
add_version(const struct advisor_admin *http, struct kvt_buffer *out)
{
    const struct advisor_rules *rules = advisor_rulebook_take(http->rulebook);
    struct advisor_admin_ordering ordering;

    advisor_admin_find_ordering(http, rules, &ordering);
    kvt_buffer_printf(out, "\"version\":\"%s\",\"ordering\":\"%s\",", KVT_VERSION, ordering.now);
    advisor_rulebook_give(http->rulebook, rules);
}

void
advisor_admin_render_overview(void *arg, struct kvt_buffer *out)
{
    struct advisor_admin *http = arg;
    struct advisor_traffic_view *view = kvt_calloc(1, sizeof(*view));
    const uint64_t now_ms = kvt_clock_unix_ms();

    if (view == NULL)
        return;
    advisor_traffic_look(http->tally, now_ms, view);
    /* A stream does not send it again because the first line differs: base/http/http_stream.h. */
    kvt_buffer_printf(out,
                      "{\"schema_version\":1,\"time_ms\":%" PRIu64 ",\"uptime_ms\":%" PRIu64 ",\n",
                      now_ms, kvt_clock_mono_ms() - http->started_ms);
    add_version(http, out);
    add_mode(http, out);
    advisor_admin_add_troubles(http, out);
    kvt_buffer_printf(out, ",");
    add_numbers_of_state(http, out);
    advisor_admin_add_gateways(http, false, out);
    kvt_buffer_printf(out, ",");
    add_reads(out, view);
    add_history(out, view);
    add_flow(out, view);
    add_ages(http, out, view);
    add_prefixes(http, out);
    advisor_admin_add_tiers(http, false, out);
    kvt_buffer_printf(out, "}");
    kvt_free(view);
}

void
advisor_admin_overview(void *arg, const struct kvt_http_request *request,
                       struct kvt_http_response *response)
{
    (void)request;
    advisor_admin_render_overview(arg, &response->body);
    if (response->body.size == 0)
        kvt_http_fail(response, 503, KVT_NOMEM, "no memory for the overview");
}
