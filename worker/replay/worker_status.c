#include "worker/replay/worker_status.h"

#include <inttypes.h>

#include "base/core/clock.h"
#include "base/text/parse.h"
#include "kvbm/storage/disk.h"
#include "kvtier/version.h"

enum { DUMP_ROWS = 1000, DUMP_ROWS_MAX = 65536 };

static void
format_events(struct worker_stack *stack, struct kvt_buffer *out)
{
    struct wire_event_publisher_stats events = {0};

    if (stack->ledger.publisher != NULL)
        wire_event_publisher_stats(stack->ledger.publisher, &events);
    kvt_buffer_printf(out,
                      ",\"events\":{\"incarnation\":%" PRIu64 ",\"next_seq\":%" PRIu64
                      ",\"acked_seq\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"buffered\":%" PRIu64
                      ",\"connected\":%s}",
                      events.incarnation, events.next_seq, events.acked_seq, events.lost,
                      events.buffered, events.connected ? "true" : "false");
}

static void
format_pools(const struct worker_stack *stack, struct kvt_buffer *out)
{
    const struct kvbm_tier *tiers[WORKER_LEDGER_TIERS] = {&stack->g1, &stack->g2, &stack->g3};
    const char *comma = "";

    kvt_buffer_printf(out, ",\"pools\":[");
    for (size_t i = 0; i < WORKER_LEDGER_TIERS; i++) {
        struct kvbm_pool_stats pool;

        if (tiers[i]->pool == NULL)
            continue;
        pool = kvbm_pool_stats(tiers[i]->pool);
        kvt_buffer_printf(out,
                          "%s{\"tier\":\"G%zu\",\"storage\":\"%s\",\"blocks\":%" PRIu32
                          ",\"used\":%" PRIu32 ",\"registered\":%" PRIu32 ",\"active\":%" PRIu32
                          ",\"evictions\":%" PRIu64 ",\"evictions_unsaved\":%" PRIu64
                          ",\"duplicates\":%" PRIu64 "}",
                          comma, i + 1, kvbm_storage_kind_name(tiers[i]->storage->kind),
                          pool.blocks, pool.blocks - pool.free, pool.registered, pool.active,
                          pool.evictions, pool.evictions_unsaved, pool.duplicates);
        comma = ",";
    }
    kvt_buffer_printf(out, "]");
}

/* The tier whose blocks go to the object tier: G3, or G2 where there is no disk. */
static enum kvt_tier
last_tier(const struct worker_stack *stack)
{
    return stack->g3.pool != NULL ? KVT_TIER_G3 : KVT_TIER_G2;
}

static void
format_offload(struct worker_stack *stack, struct kvt_buffer *out)
{
    struct kvt_offload_stats from[KVT_TIER_G4]; /* by enum kvt_tier */
    struct kvt_offload_stats to_disk = {0};
    struct kvt_offload_stats to_remote = {0};
    uint64_t failed = 0;
    uint64_t full = 0;

    for (unsigned tier = KVT_TIER_G1; tier < KVT_TIER_G4; tier++) {
        (void)kvbm_manager_stats(stack->manager, (enum kvt_tier)tier, &from[tier]);
        failed += from[tier].failed;
        full += from[tier].full;
    }
    if (stack->g3.pool != NULL)
        to_disk = from[KVT_TIER_G2];
    if (stack->shared->remote != NULL)
        to_remote = from[last_tier(stack)];
    kvt_buffer_printf(out,
                      ",\"offloaded_g1_g2\":%" PRIu64 ",\"offloaded_g2_g3\":%" PRIu64
                      ",\"offloaded_g3_g4\":%" PRIu64 ",\"present_g4\":%" PRIu64
                      ",\"bytes_g1_g2\":%" PRIu64 ",\"bytes_g2_g3\":%" PRIu64
                      ",\"bytes_g3_g4\":%" PRIu64 ",\"failed_offloads\":%" PRIu64
                      ",\"full_offloads\":%" PRIu64,
                      from[KVT_TIER_G1].blocks, to_disk.blocks, to_remote.blocks, to_remote.present,
                      from[KVT_TIER_G1].bytes, to_disk.bytes, to_remote.bytes, failed, full);
}

static void
format_worker(struct worker_stack *stack, struct kvt_buffer *out)
{
    const struct worker_counters *counters = &stack->counters;
    struct kvbm_disk_stats disk = {0};

    if (stack->g3.storage != NULL)
        kvbm_disk_stats(stack->g3.storage, &disk);
    kvt_buffer_printf(out, "{\"name\":");
    kvt_buffer_json_string(out, stack->name);
#define X(member)                                                                                  \
    kvt_buffer_printf(out, ",\"" #member "\":%" PRIu64, worker_counter_read(&counters->member));
    WORKER_COUNTERS(X)
#undef X
    kvt_buffer_printf(out, ",\"disk_corrupt\":%" PRIu64 ",\"disk_failed\":%" PRIu64, disk.corrupt,
                      disk.failed);
    format_offload(stack, out);
    format_events(stack, out);
    format_pools(stack, out);
    kvt_buffer_printf(out, "}");
}

/* The object tier is a bucket, without a gateway. */
static bool
has_bucket(const struct worker_shared *shared)
{
    return shared->settings->s3.endpoint[0] != '\0';
}

static void
format_gateway(const struct worker_shared *shared, struct kvt_buffer *out)
{
    struct worker_object_tier_stats remote = {0};

    if (shared->remote != NULL)
        worker_object_tier_stats(shared->remote, &remote);
    kvt_buffer_printf(out, ",\"gateway\":{\"endpoint\":");
    kvt_buffer_json_string(out, has_bucket(shared) ? shared->settings->s3.endpoint
                                                   : shared->settings->endpoint);
    kvt_buffer_printf(out,
                      ",\"away\":%s,\"has_keys\":%" PRIu64 ",\"get_keys\":%" PRIu64
                      ",\"put_keys\":%" PRIu64 ",\"acked\":%" PRIu64 ",\"refused\":%" PRIu64
                      ",\"failed_calls\":%" PRIu64 "}",
                      remote.away ? "true" : "false", remote.has_keys, remote.get_keys,
                      remote.put_keys, remote.acked, remote.refused, remote.failed);
}

static void
format_engines(const struct worker_status *status, struct kvt_buffer *out)
{
    struct kvbm_attach_stats stats;

    if (status->engines == NULL)
        return;
    worker_engines_stats(status->engines, &stats);
    kvt_buffer_printf(out,
                      ",\"engines\":{\"present\":%" PRIu64 ",\"attached\":%" PRIu64
                      ",\"refused\":%" PRIu64 ",\"broken\":%" PRIu64 "}",
                      stats.engines, stats.attached, stats.refused, stats.broken);
}

/* "degraded" while a peer is away: the worker goes on, but caches less or is seen less. */
static void
format_state(const struct worker_status *status, struct kvt_buffer *out)
{
    const struct worker_shared *shared = status->shared;
    struct worker_object_tier_stats remote = {0};
    const bool nats_away = shared->bus != NULL && !wire_bus_connected(shared->bus);

    if (shared->remote != NULL)
        worker_object_tier_stats(shared->remote, &remote);
    kvt_buffer_printf(out, ",\"state\":\"%s\",\"reasons\":[%s%s%s]",
                      nats_away || remote.away ? "degraded" : "ready",
                      nats_away ? "\"NATS is away\"" : "", nats_away && remote.away ? "," : "",
                      !remote.away         ? ""
                      : has_bucket(shared) ? "\"the bucket is away\""
                                           : "\"the gateway is away\"");
}

void
worker_status_format(const struct worker_status *status, struct kvt_buffer *out)
{
    const struct worker_settings *settings = status->shared->settings;
    struct worker_replay_status replay;

    worker_replay_status(status->replay, &replay);
    kvt_buffer_printf(out,
                      "{\"schema_version\":1,\"program\":\"kvtier-worker\",\"version\":\"%s\","
                      "\"uptime_ms\":%" PRIu64,
                      KVT_VERSION, kvt_clock_mono_ms() - status->started_ms);
    format_state(status, out);
    kvt_buffer_printf(out, ",\"name\":");
    kvt_buffer_json_string(out, settings->name);
    kvt_buffer_printf(out, ",\"namespace\":");
    kvt_buffer_json_string(out, settings->namespace_);
    kvt_buffer_printf(out,
                      ",\"block_size\":%" PRIu64 ",\"fingerprint\":\"%016" PRIx64 "\",\"gpu\":",
                      settings->layout.block_size, settings->layout.fingerprint);
    kvt_buffer_json_string(out, status->shared->cuda != NULL ? status->shared->cuda->name : "");
    kvt_buffer_printf(out, ",\"workers\":[");
    for (uint32_t i = 0; i < status->stack_count; i++) {
        if (i > 0)
            kvt_buffer_printf(out, ",");
        format_worker(status->stacks[i], out);
    }
    kvt_buffer_printf(out, "]");
    format_gateway(status->shared, out);
    format_engines(status, out);
    kvt_buffer_printf(out,
                      ",\"trace\":{\"requests_done\":%" PRIu64 ",\"requests_total\":%" PRIu64
                      ",\"bad_lines\":%" PRIu64 ",\"finished\":%s,\"drained\":%s}}\n",
                      replay.requests_done, replay.requests_total, replay.bad_lines,
                      replay.finished ? "true" : "false", replay.drained ? "true" : "false");
}

void
worker_status_found(const struct worker_status *status, struct worker_found *out)
{
    *out = (struct worker_found){.computed = 0};
    for (uint32_t i = 0; i < status->stack_count; i++) {
        const struct worker_counters *counters = &status->stacks[i]->counters;

        out->tier[0] += worker_counter_read(&counters->hits_g1);
        out->tier[1] += worker_counter_read(&counters->hits_g2);
        out->tier[2] += worker_counter_read(&counters->hits_g3);
        out->tier[3] += worker_counter_read(&counters->hits_g4);
        out->computed += worker_counter_read(&counters->computed);
        out->checked += worker_counter_read(&counters->verified_blocks);
    }
}

uint64_t
worker_status_wrong_bytes(const struct worker_status *status)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < status->stack_count; i++)
        sum += worker_counter_read(&status->stacks[i]->counters.wrong_bytes);
    return sum;
}

static void
answer_status(void *arg, const struct kvt_http_request *request, struct kvt_http_response *response)
{
    (void)request;
    worker_status_format(arg, &response->body);
}

/* A number in the query, or `fallback` when it is not there; false when it is no number. */
static bool
query_number(const struct kvt_http_request *request, const char *name, uint64_t fallback,
             uint64_t *number)
{
    const char *text = kvt_http_query(request, name);

    *number = fallback;
    return text == NULL || kvt_parse_u64(text, number) == KVT_OK;
}

/* The cursor is (worker, cursor in its index), the worker in the high half. */
static void
answer_dump(void *arg, const struct kvt_http_request *request, struct kvt_http_response *response)
{
    const struct worker_status *status = arg;
    uint64_t cursor;
    uint64_t limit;
    uint64_t number;
    uint64_t at;

    if (!query_number(request, "cursor", 0, &cursor) ||
        !query_number(request, "limit", DUMP_ROWS, &limit)) {
        kvt_http_fail(response, 400, KVT_INVALID, "cursor and limit are numbers");
        return;
    }
    if (limit == 0 || limit > DUMP_ROWS_MAX)
        limit = DUMP_ROWS_MAX;
    response->content_type = "application/x-ndjson";
    number = cursor >> 32;
    at = cursor & UINT32_MAX;
    while (number < status->stack_count && limit > 0) {
        limit -= worker_ledger_dump(&status->stacks[number]->ledger, &at, limit, &response->body);
        if (at == 0)
            number++;
    }
    if (number >= status->stack_count)
        cursor = 0;
    else
        cursor = number << 32 | at;
    kvt_buffer_printf(&response->body, "{\"next_cursor\":%" PRIu64 "}\n", cursor);
}

const struct kvt_http_route worker_status_routes[WORKER_STATUS_ROUTES] = {
    {"GET", "/v1/status", false, answer_status},
    {"GET", "/v1/index/dump", false, answer_dump},
};
