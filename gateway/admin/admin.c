#include "gateway/admin/admin.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/redact.h"
#include "base/text/json.h"
#include "g4/object/check.h"
#include "gateway/admin/admin_internal.h"
#include "gateway/block/backlog.h"
#include "gateway/block/repair.h"
#include "gateway/tier/body_read.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/gateway_tiers.h"
#include "gateway/tier/quarantine.h"
#include "kvtier/version.h"

enum {
    REASONS_MAX = 8,
    DELETES_REFUSED_MS = 600000, /* a deletion that was refused is a condition for so long */
};

/* ---- state ---- */

struct reasons {
    char text[REASONS_MAX][KVT_ERROR_TEXT_MAX];
    size_t count;
};

static void
add_reason(struct reasons *reasons, const char *text)
{
    if (reasons->count < REASONS_MAX)
        (void)snprintf(reasons->text[reasons->count++], KVT_ERROR_TEXT_MAX, "%s", text);
}

static void
add_backlog_reasons(const struct gateway_admin *admin, struct reasons *reasons)
{
    struct gateway_backlog_state state;
    char text[KVT_ERROR_TEXT_MAX];

    gateway_backlog_state(admin->backlog, &state);
    if (state.stuck) {
        (void)snprintf(text, sizeof(text),
                       "the backlog is stuck: %" PRIu64 " blocks wait for the bucket, the first "
                       "for %" PRIu64 " s: %s",
                       state.blocks, state.oldest_ms / 1000,
                       state.last == KVT_OK ? "the bucket does not answer"
                                            : kvt_err_text(state.last));
        add_reason(reasons, text);
    }
    if (gateway_stats_get(admin->context->stats, GATEWAY_STAT_BACKLOG_LOST) > 0)
        add_reason(reasons, "acknowledged blocks were lost before they were in the bucket: see the "
                            "quarantine and the log");
}

static void
add_delete_reasons(const struct gateway_admin *admin, struct reasons *reasons)
{
    struct gateway_delete_limits *limits = &admin->context->deletes;
    const uint64_t refused_ms = atomic_load(&limits->refused_ms);
    char text[KVT_ERROR_TEXT_MAX];

    if (refused_ms == 0 || kvt_clock_unix_ms() > refused_ms + DELETES_REFUSED_MS)
        return;
    (void)snprintf(
        text, sizeof(text),
        "deletes-refused: order %" PRIu64 " (cause %s) was to delete blocks that its "
        "cause does not cover; nothing was lost: is the advisor misled? See "
        "delete_refused in the log, and kvtier status of the advisor",
        atomic_load(&limits->refused_order),
        kvt_delete_cause_name((enum kvt_delete_cause_kind)atomic_load(&limits->refused_kind)));
    add_reason(reasons, text);
}

static void
add_reload_reasons(const struct gateway_admin *admin, struct reasons *reasons)
{
    char text[KVT_ERROR_TEXT_MAX];

    for (unsigned part = 0; part < GATEWAY_RELOAD_PARTS; part++)
        if (gateway_reload_reason(admin->reload, (enum gateway_reload_part)part,
                                  kvt_clock_unix_ms(), text))
            add_reason(reasons, text);
}

static bool
is_at_cap(const struct gateway_admin *admin, const struct gateway_catalog_stats *catalog,
          enum gateway_tier tier)
{
    const uint64_t capacity = admin->context->tiers.capacity[tier];

    return capacity != 0 && catalog->used[tier] >= capacity;
}

/* Everything that keeps the gateway from doing all it should.  `starting`: it never could yet. */
static void
judge(const struct gateway_admin *admin, struct reasons *reasons, bool *starting)
{
    struct gateway_catalog_stats catalog;
    struct gateway_bucket_tier_state cold;
    struct gateway_bucket_tier_state far;
    char text[KVT_ERROR_TEXT_MAX];

    reasons->count = 0;
    gateway_bucket_tier_state(admin->context->tiers.buckets, &cold);
    gateway_catalog_stats(admin->context->catalog, &catalog);
    *starting = !cold.tested && cold.latency_ms == 0 && !cold.healthy;
    if (cold.reason[0] != '\0')
        add_reason(reasons, cold.reason);
    if (catalog.full)
        add_reason(reasons, "the catalog is full: new blocks are refused (catalog.max)");
    if (catalog.failed)
        add_reason(reasons, "the catalog cannot be written: is the disk full?");
    if (gateway_admin_adoption_reason(admin, text, sizeof(text)))
        add_reason(reasons, text);
    else if (is_at_cap(admin, &catalog, GATEWAY_TIER_COLD))
        add_reason(reasons, "the bucket is at cold.capacity: new blocks are refused");
    if (gateway_bucket_tier_far_state(admin->context->tiers.buckets, &far) && far.reason[0] != '\0')
        add_reason(reasons, far.reason);
    else if (is_at_cap(admin, &catalog, GATEWAY_TIER_FAR))
        add_reason(reasons, "the far bucket is at far.capacity: no block is moved there");
    if (admin->bus != NULL && !wire_bus_connected(admin->bus))
        add_reason(reasons, "NATS is away: events wait in the outbox");
    add_delete_reasons(admin, reasons);
    add_backlog_reasons(admin, reasons);
    add_reload_reasons(admin, reasons);
    if (catalog.events_lost > 0)
        add_reason(reasons, "events were given up unsent; the advisor reads a dump instead");
}

bool
gateway_admin_ready(void *arg, struct kvt_buffer *why)
{
    struct gateway_admin *admin = arg;
    struct gateway_catalog_stats catalog;
    struct reasons reasons;
    bool starting;

    judge(admin, &reasons, &starting);
    for (size_t i = 0; i < reasons.count; i++)
        kvt_buffer_printf(why, "%s\n", reasons.text[i]);
    /* A hot block can be served and an event can wait; what makes a gateway useless is a bucket
     * that takes nothing, once the backlog is full too, or a catalog that cannot be written. */
    gateway_catalog_stats(admin->context->catalog, &catalog);
    return !catalog.failed && (gateway_bucket_tier_writable(admin->context->tiers.buckets) ||
                               (admin->context->write_back.allowed &&
                                gateway_bucket_tier_proven(admin->context->tiers.buckets) &&
                                catalog.owed_bytes < admin->context->write_back.backlog_max));
}

static void
append_flag(struct kvt_buffer *out, const char *name, bool value, const char *behind)
{
    kvt_buffer_printf(out, "\"%s\":%s%s", name, value ? "true" : "false", behind);
}

/* Those that not every gateway has. */
static void
append_more_tiers(const struct gateway_admin *admin, const struct gateway_catalog_stats *catalog,
                  struct kvt_buffer *out)
{
    static const enum gateway_tier tiers[] = {GATEWAY_TIER_WARM, GATEWAY_TIER_FAR};
    const struct gateway_context *context = admin->context;
    struct gateway_bucket_tier_state far;

    for (size_t i = 0; i < sizeof(tiers) / sizeof(tiers[0]); i++) {
        const enum gateway_tier tier = tiers[i];

        if (!gateway_tier_exists(&context->tiers, tier))
            continue;
        kvt_buffer_printf(out, "\"%s\":{\"holder\":", gateway_tier_name(tier));
        kvt_buffer_json_string(out, context->tiers.holder[tier]);
        kvt_buffer_printf(
            out, ",\"used_bytes\":%" PRIu64 ",\"capacity_bytes\":%" PRIu64 ",\"blocks\":%" PRIu64,
            catalog->used[tier], context->tiers.capacity[tier], catalog->blocks[tier]);
        if (tier == GATEWAY_TIER_FAR &&
            gateway_bucket_tier_far_state(context->tiers.buckets, &far)) {
            kvt_buffer_printf(out, ",\"endpoint\":");
            kvt_buffer_json_string(out, admin->settings->far_endpoint);
            kvt_buffer_printf(
                out, ",\"healthy\":%s,\"latency_ms\":%" PRIu64 ",\"clock_skew_ms\":%" PRId64,
                far.healthy ? "true" : "false", far.latency_ms, far.skew_ms);
        }
        kvt_buffer_printf(out, "},");
    }
}

static void
append_tiers(const struct gateway_admin *admin, const struct gateway_catalog_stats *catalog,
             struct kvt_buffer *out)
{
    const struct gateway_context *context = admin->context;
    struct gateway_bucket_tier_state cold;

    gateway_bucket_tier_state(context->tiers.buckets, &cold);
    kvt_buffer_printf(out, "\"hot\":{\"holder\":");
    kvt_buffer_json_string(out, context->tiers.holder[GATEWAY_TIER_HOT]);
    kvt_buffer_printf(out,
                      ",\"used_bytes\":%" PRIu64 ",\"capacity_bytes\":%" PRIu64
                      ",\"blocks\":%" PRIu64 "},\"cold\":{\"holder\":",
                      catalog->used[0], context->tiers.capacity[GATEWAY_TIER_HOT],
                      catalog->blocks[0]);
    kvt_buffer_json_string(out, context->tiers.holder[GATEWAY_TIER_COLD]);
    kvt_buffer_printf(out, ",\"kind\":\"%s\",\"endpoint\":",
                      gateway_bucket_tier_kind_name(admin->settings->context.cold.kind));
    kvt_buffer_json_string(out, admin->settings->cold_endpoint);
    kvt_buffer_printf(
        out,
        ",\"used_bytes\":%" PRIu64 ",\"capacity_bytes\":%" PRIu64 ",\"blocks\":%" PRIu64
        ",\"healthy\":%s,\"latency_ms\":%" PRIu64 ",\"clock_skew_ms\":%" PRId64 ",\"selftest\":{",
        catalog->used[1], context->tiers.capacity[GATEWAY_TIER_COLD], catalog->blocks[1],
        gateway_bucket_tier_healthy(context->tiers.buckets) ? "true" : "false", cold.latency_ms,
        cold.skew_ms);
    append_flag(out, "put_if_absent", cold.selftest.put_if_absent, ",");
    append_flag(out, "put_if_match", cold.selftest.put_if_match, ",");
    append_flag(out, "if_match_missing", cold.selftest.if_match_missing, ",");
    append_flag(out, "delete_if_match", cold.selftest.delete_if_match, ",");
    append_flag(out, "list_after_write", cold.selftest.list_after_write, ",");
    append_flag(out, "meta_kept", cold.selftest.meta_kept, "}},");
    append_more_tiers(admin, catalog, out);
}

static void
append_counts(const struct gateway_admin *admin, struct kvt_buffer *out)
{
    static const struct {
        const char *name;
        enum gateway_stat stat;
    } rows[] = {
        {"\"requests\":{\"get\":", GATEWAY_STAT_GET},
        {",\"put\":", GATEWAY_STAT_PUT},
        {",\"has\":", GATEWAY_STAT_HAS},
        {",\"delete\":", GATEWAY_STAT_DELETE},
        {",\"list\":", GATEWAY_STAT_LIST},
        {",\"hits_hot\":", GATEWAY_STAT_HITS_HOT},
        {",\"hits_cold\":", GATEWAY_STAT_HITS_COLD},
        {",\"misses\":", GATEWAY_STAT_MISSES},
        {",\"bytes_in\":", GATEWAY_STAT_BYTES_IN},
        {",\"bytes_out\":", GATEWAY_STAT_BYTES_OUT},
        {"},\"orders\":{\"executed\":", GATEWAY_STAT_ORDERS_DONE},
        {",\"refused\":", GATEWAY_STAT_ORDERS_REFUSED},
        {",\"failed\":", GATEWAY_STAT_ORDERS_FAILED},
    };
    struct gateway_stats *stats = admin->context->stats;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        kvt_buffer_printf(out, "%s%" PRIu64, rows[i].name, gateway_stats_get(stats, rows[i].stat));
    kvt_buffer_printf(out,
                      ",\"queued\":%zu},\"integrity\":{\"corrupt\":%" PRIu64 ",\"foreign\":%" PRIu64
                      ",\"quarantined\":%zu},",
                      gateway_orders_queued(admin->orders),
                      gateway_stats_get(stats, GATEWAY_STAT_CORRUPT_HOT) +
                          gateway_stats_get(stats, GATEWAY_STAT_CORRUPT_COLD) +
                          gateway_stats_get(stats, GATEWAY_STAT_CORRUPT_WARM) +
                          gateway_stats_get(stats, GATEWAY_STAT_CORRUPT_FAR),
                      gateway_stats_get(stats, GATEWAY_STAT_FOREIGN),
                      gateway_quarantine_count(admin->context->quarantine));
}

static void
append_backlog(const struct gateway_admin *admin, struct kvt_buffer *out)
{
    struct gateway_stats *stats = admin->context->stats;
    struct gateway_backlog_state state;

    gateway_backlog_state(admin->backlog, &state);
    kvt_buffer_printf(out,
                      "\"backlog\":{\"mode\":\"%s\",\"blocks\":%" PRIu64 ",\"bytes\":%" PRIu64
                      ",\"max_bytes\":%" PRIu64 ",\"oldest_ms\":%" PRIu64 ",\"stuck\":%s",
                      admin->context->write_back.allowed ? "back" : "through", state.blocks,
                      state.bytes, admin->context->write_back.backlog_max, state.oldest_ms,
                      state.stuck ? "true" : "false");
    kvt_buffer_printf(out,
                      ",\"added\":%" PRIu64 ",\"uploaded\":%" PRIu64 ",\"failed\":%" PRIu64
                      ",\"lost\":%" PRIu64 ",\"full\":%" PRIu64 "},",
                      gateway_stats_get(stats, GATEWAY_STAT_BACKLOG_ADDED),
                      gateway_stats_get(stats, GATEWAY_STAT_BACKLOG_UPLOADED),
                      gateway_stats_get(stats, GATEWAY_STAT_BACKLOG_FAILED),
                      gateway_stats_get(stats, GATEWAY_STAT_BACKLOG_LOST),
                      gateway_stats_get(stats, GATEWAY_STAT_BACKLOG_FULL));
}

static void
append_pins(const struct gateway_admin *admin, const struct gateway_catalog_stats *catalog,
            struct kvt_buffer *out)
{
    kvt_buffer_printf(out,
                      "\"pins\":{\"blocks\":%" PRIu64 ",\"bytes\":%" PRIu64
                      ",\"max_bytes\":%" PRIu64 ",\"refused\":%" PRIu64 "},",
                      catalog->pinned_blocks, catalog->pinned_bytes, catalog->pinned_max,
                      gateway_stats_get(admin->context->stats, GATEWAY_STAT_ITEMS_PINNED));
}

static void
append_deletes(const struct gateway_admin *admin, struct kvt_buffer *out)
{
    struct gateway_delete_limits *limits = &admin->context->deletes;
    uint64_t refused = 0;

    for (unsigned kind = 0; kind < KVT_DELETE_CAUSE_COUNT; kind++)
        refused += gateway_stats_get(
            admin->context->stats, (enum gateway_stat)(GATEWAY_STAT_DELETES_REFUSED_OTHER + kind));
    kvt_buffer_printf(
        out, "\"deletes\":{\"refused\":%" PRIu64 ",\"refused_ms\":%" PRIu64 ",\"cause\":\"%s\"},",
        refused, atomic_load(&limits->refused_ms),
        refused == 0 ? ""
                     : kvt_delete_cause_name(
                           (enum kvt_delete_cause_kind)atomic_load(&limits->refused_kind)));
}

static void
append_state(const struct gateway_admin *admin, struct kvt_buffer *out)
{
    struct reasons reasons;
    bool starting;

    judge(admin, &reasons, &starting);
    kvt_buffer_printf(out, "\"state\":\"%s\",\"reasons\":[",
                      starting            ? "starting"
                      : reasons.count > 0 ? "degraded"
                                          : "ready");
    for (size_t i = 0; i < reasons.count; i++) {
        kvt_buffer_printf(out, i > 0 ? "," : "");
        kvt_buffer_json_string(out, reasons.text[i]);
    }
    kvt_buffer_printf(out, "],");
}

static void
get_status(void *arg, const struct kvt_http_request *request, struct kvt_http_response *response)
{
    const struct gateway_admin *admin = arg;
    struct kvt_buffer *out = &response->body;
    struct gateway_catalog_stats catalog;
    struct gateway_stream stream;
    char shown[KVT_REDACT_URL_MAX];

    (void)request;
    gateway_catalog_stats(admin->context->catalog, &catalog);
    if (!gateway_catalog_stream(admin->context->catalog, 0, &stream))
        stream.next_seq = 1;
    kvt_buffer_printf(out,
                      "{\"schema_version\":1,\"program\":\"kvtier-gateway\",\"version\":\"%s\","
                      "\"uptime_ms\":%" PRIu64 ",",
                      KVT_VERSION, kvt_clock_mono_ms() - admin->started_ms);
    append_state(admin, out);
    kvt_buffer_printf(out, "\"name\":");
    kvt_buffer_json_string(out, admin->context->identity.name);
    kvt_buffer_printf(out, ",\"bucket\":");
    kvt_buffer_json_string(out, admin->settings->bucket);
    kvt_buffer_printf(out, ",");
    append_tiers(admin, &catalog, out);
    append_counts(admin, out);
    append_pins(admin, &catalog, out);
    append_deletes(admin, out);
    append_backlog(admin, out);
    gateway_admin_packing_status(admin->context->packer, out);
    kvt_buffer_printf(out, "\"adoption\":");
    gateway_admin_adoption_append(admin, out);
    kvt_buffer_printf(
        out,
        ",\"events\":{\"incarnation\":%" PRIu64 ",\"next_seq\":%" PRIu64 ",\"acked_seq\":%" PRIu64
        ",\"pending\":%" PRIu64 ",\"lost\":%" PRIu64 "},\"catalog\":{\"entries\":%" PRIu64
        ",\"bytes\":%" PRIu64 ",\"max_bytes\":%" PRIu64 ",\"intents\":%" PRIu64
        "},\"memory\":{\"used_bytes\":%" PRIu64 ",\"max_bytes\":%" PRIu64 "},\"nats\":{\"url\":",
        catalog.incarnation, stream.next_seq, stream.acked_seq,
        catalog.events - catalog.events_acked, catalog.events_lost, catalog.entries, catalog.bytes,
        catalog.bytes_max, catalog.pending, atomic_load(&admin->budget->used), admin->budget->max);
    kvt_redact_url(shown, sizeof(shown), admin->settings->bus.url);
    kvt_buffer_json_string(out, shown);
    kvt_buffer_printf(out, ",\"connected\":%s}}\n",
                      admin->bus != NULL && wire_bus_connected(admin->bus) ? "true" : "false");
}

/* ---- objects ---- */

static void
append_row(struct kvt_buffer *out, const struct gateway_row *row, unsigned tier)
{
    kvt_buffer_printf(out, "{\"key\":");
    kvt_buffer_json_string(out, row->key);
    kvt_buffer_printf(out,
                      ",\"length\":%" PRIu64 ",\"crc32c\":\"%08" PRIx32
                      "\",\"tier\":\"%s\",\"state\":\"%s\",\"etag\":",
                      row->record.length, row->record.crc32c, gateway_tier_name(tier),
                      gateway_record_state_name(row->record.state));
    kvt_buffer_json_string(out, row->record.etag);
    kvt_buffer_printf(out, ",\"kind\":\"%s\",\"modified_ms\":%" PRIu64 "}\n",
                      gateway_record_kind_name(&row->record), row->record.modified_ms);
}

static void
list_objects(void *arg, const struct kvt_http_request *request, struct kvt_http_response *response)
{
    const struct gateway_admin *admin = arg;
    const char *tier = kvt_http_query(request, "tier");
    const char *cursor = kvt_http_query(request, "cursor");
    struct gateway_scan scan = {.capacity = gateway_admin_limit(request, 100, GATEWAY_ADMIN_ROWS),
                                .prefix = kvt_http_query(request, "prefix")};
    enum gateway_tier number = GATEWAY_TIER_HOT;

    if (cursor == NULL) /* a page's is further on than where the walk began */
        cursor = kvt_http_query(request, "after");

    if (tier != NULL && (!gateway_tier_find(tier, &number) ||
                         !gateway_tier_exists(&admin->context->tiers, number))) {
        kvt_http_fail(
            response, 400, KVT_INVALID, "tier is hot or cold%s%s",
            gateway_tier_exists(&admin->context->tiers, GATEWAY_TIER_WARM) ? " or warm" : "",
            gateway_tier_exists(&admin->context->tiers, GATEWAY_TIER_FAR) ? " or far" : "");
        return;
    }
    if (cursor != NULL && strlen(cursor) >= sizeof(scan.after)) {
        kvt_http_fail(response, 400, KVT_INVALID, "cursor or after is longer than a key");
        return;
    }
    (void)snprintf(scan.after, sizeof(scan.after), "%s", cursor == NULL ? "" : cursor);
    scan.tiers = tier == NULL ? 0 : 1u << number;
    scan.rows = kvt_calloc(scan.capacity, sizeof(*scan.rows));
    if (scan.rows == NULL || gateway_catalog_scan(admin->context->catalog, &scan) != KVT_OK) {
        kvt_http_fail(response, 500, KVT_IO, "the catalog could not be read");
        kvt_free(scan.rows);
        return;
    }
    response->content_type = "application/x-ndjson";
    for (size_t i = 0; i < scan.count; i++) {
        const unsigned shown = scan.rows[i].record.tiers & (scan.tiers == 0 ? ~0u : scan.tiers);

        for (unsigned at = 0; at < GATEWAY_TIERS; at++)
            if ((shown & (1u << at)) != 0)
                append_row(&response->body, &scan.rows[i], at);
    }
    kvt_buffer_printf(&response->body, "{\"next_cursor\":");
    kvt_buffer_json_string(&response->body, scan.end ? "" : scan.after);
    kvt_buffer_printf(&response->body, "}\n");
    kvt_free(scan.rows);
}

static void
get_object(void *arg, const struct kvt_http_request *request, struct kvt_http_response *response)
{
    const struct gateway_admin *admin = arg;
    struct kvt_buffer *out = &response->body;
    struct gateway_record record;
    uint64_t until_ms;

    if (gateway_catalog_get(admin->context->catalog, request->tail, &record) != KVT_OK) {
        kvt_http_fail(response, 404, KVT_NOTFOUND, "the catalog does not know this key");
        return;
    }
    kvt_buffer_printf(out, "{\"schema_version\":1,\"key\":");
    kvt_buffer_json_string(out, request->tail);
    kvt_buffer_printf(out,
                      ",\"length\":%" PRIu64 ",\"crc32c\":\"%08" PRIx32
                      "\",\"fingerprint\":\"%016" PRIx64 "\",\"etag\":",
                      record.length, record.crc32c, record.fingerprint);
    kvt_buffer_json_string(out, record.etag);
    kvt_buffer_printf(out, ",\"tiers\":[");
    for (unsigned tier = 0; tier < GATEWAY_TIERS; tier++)
        if ((record.tiers & (1u << tier)) != 0)
            kvt_buffer_printf(out, "%s\"%s\"", (record.tiers & ((1u << tier) - 1)) != 0 ? "," : "",
                              gateway_tier_name(tier));
    kvt_buffer_printf(out,
                      "],\"state\":\"%s\",\"writer\":", gateway_record_state_name(record.state));
    kvt_buffer_json_string(out, record.writer);
    kvt_buffer_printf(out, ",\"kind\":\"%s\",\"modified_ms\":%" PRIu64,
                      gateway_record_kind_name(&record), record.modified_ms);
    if (gateway_catalog_pinned(admin->context->catalog, request->tail, kvt_clock_unix_ms(),
                               &until_ms) == KVT_OK)
        kvt_buffer_printf(out, ",\"pinned_until_ms\":%" PRIu64, until_ms);
    kvt_buffer_printf(out, "}\n");
}

/* ---- verify ---- */

/* Read one copy and say what is wrong with it; a bad one is dealt with as if a client had read
 * it. */
static bool
verify_copy(struct gateway_context *context, const char *key, const struct gateway_record *record,
            unsigned tier, struct kvt_buffer *out)
{
    struct g4_request request;
    struct kvt_error err = {.code = KVT_OK};
    struct g4_meta expected;
    enum kvt_err rc;

    gateway_record_meta(record, &expected);
    rc = gateway_body_read(&context->body_limits, gateway_tier_store(&context->tiers, 1u << tier),
                           key, record->length, &request);
    request.place = tier == GATEWAY_TIER_FAR ? 1 : 0;
    err = request.error;
    if (rc == KVT_OK)
        rc = g4_check_body(&request.meta, record->opaque ? NULL : &expected, request.buffer,
                           request.buffer_size, &err);
    kvt_buffer_printf(out, "{\"tier\":\"%s\",\"ok\":%s,\"reason\":", gateway_tier_name(tier),
                      rc == KVT_OK ? "true" : "false");
    kvt_buffer_json_string(out, rc == KVT_OK ? "" : err.text);
    kvt_buffer_printf(out, "}");
    if ((rc == KVT_CORRUPT || rc == KVT_RANGE) && !record->opaque) {
        if (((1u << tier) & GATEWAY_VOLUMES) != 0)
            gateway_repair_file(context, key, (enum gateway_tier)tier, request.buffer,
                                request.buffer_size, err.text);
        else
            gateway_repair_cold(context, key, &request, request.buffer, request.buffer_size,
                                err.text);
    }
    gateway_body_release(&context->body_limits, &request);
    return rc == KVT_OK;
}

static void
post_verify(void *arg, const struct kvt_http_request *request, struct kvt_http_response *response)
{
    const struct gateway_admin *admin = arg;
    struct json_object *question = NULL;
    struct gateway_record record;
    struct kvt_error err;
    const char *key;
    enum kvt_err rc;
    bool first = true;

    rc = kvt_json_parse(&question, (const char *)request->body, request->body_size, "body", &err);
    key = rc == KVT_OK ? kvt_json_string(question, "key") : NULL;
    if (key == NULL) {
        kvt_http_fail(response, 400, KVT_INVALID, "send {\"key\": \"...\"}%s%s",
                      rc == KVT_OK ? "" : ": ", rc == KVT_OK ? "" : err.text);
    } else if (gateway_catalog_get(admin->context->catalog, key, &record) != KVT_OK) {
        kvt_http_fail(response, 404, KVT_NOTFOUND, "the catalog does not know this key");
    } else {
        kvt_buffer_printf(&response->body, "{\"schema_version\":1,\"key\":");
        kvt_buffer_json_string(&response->body, key);
        kvt_buffer_printf(&response->body, ",\"copies\":[");
        for (unsigned tier = 0; tier < GATEWAY_TIERS; tier++) {
            if ((record.tiers & (1u << tier)) == 0 ||
                gateway_tier_store(&admin->context->tiers, 1u << tier) == NULL)
                continue;
            kvt_buffer_printf(&response->body, "%s", first ? "" : ",");
            first = false;
            (void)verify_copy(admin->context, key, &record, tier, &response->body);
        }
        kvt_buffer_printf(&response->body, "]}\n");
    }
    json_object_put(question);
}

const struct kvt_http_route gateway_admin_routes[GATEWAY_ADMIN_ROUTES] = {
    {"GET", "/v1/status", false, get_status},
    {"GET", "/v1/objects", false, list_objects},
    {"GET", "/v1/objects/*", false, get_object},
    {"GET", "/v1/quarantine", false, gateway_admin_quarantine_list},
    {"POST", "/v1/verify", true, post_verify},
    {"GET", "/v1/store", false, gateway_admin_store_list},
    {"GET", "/v1/inspect/*", false, gateway_admin_store_inspect},
    {"POST", "/v1/repair", true, gateway_admin_store_repair},
    {"POST", "/v1/quarantine", true, gateway_admin_quarantine_act},
    {"GET", "/v1/adoption", false, gateway_admin_adoption_get},
    {"POST", "/v1/adoption", true, gateway_admin_adoption_post},
    {"POST", "/v1/compact", true, gateway_admin_packing_ask},
    {"POST", "/v1/purge", true, gateway_admin_purge},
};
