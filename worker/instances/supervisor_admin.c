#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "base/core/metrics.h"
#include "base/text/json.h"
#include "kvtier/version.h"

#include "engine/leader/leader.h"
#include "worker/instances/leader_process.h"
#include "worker/instances/supervisor_internal.h"

enum { FIND_WAIT = 2000 /* ms for a leader */ };

/* ---- metrics ---- */

struct worker_supervisor_metrics {
    struct {
#define X(member, ...) struct kvt_metric *member;
        WORKER_INSTANCE_STATS(X)
        WORKER_INSTANCE_LEVELS(X)
#undef X
        struct kvt_metric *up;
        struct kvt_metric *starts;
    } instances[WORKER_INSTANCES_MAX];
};

#define PREFIX "kvtier_worker_instance_"

static void
add_metrics(struct worker_supervisor_metrics *metrics, struct kvt_metrics *registry,
            uint32_t number)
{
    char labels[64];

#define X(member, metric, more, help)                                                              \
    (void)snprintf(labels, sizeof(labels), "instance=\"%" PRIu32 "\"" more, number);               \
    metrics->instances[number].member =                                                            \
        kvt_metrics_add(registry, KVT_METRIC_COUNTER, PREFIX metric, labels, help);
    WORKER_INSTANCE_STATS(X)
    X(starts, "starts_total", "", "Times that the processes of an instance were started")
#undef X
#define X(member, metric, help)                                                                    \
    (void)snprintf(labels, sizeof(labels), "instance=\"%" PRIu32 "\"", number);                    \
    metrics->instances[number].member =                                                            \
        kvt_metrics_add(registry, KVT_METRIC_GAUGE, PREFIX metric, labels, help);
    WORKER_INSTANCE_LEVELS(X)
    X(up, "up", "1: the leader of an instance answers")
#undef X
}

static enum kvt_err
open_metrics(struct worker_supervisor *supervisor, struct kvt_error *err)
{
    enum kvt_err rc = kvt_metrics_new(&supervisor->registry);

    supervisor->metrics = kvt_calloc(1, sizeof(*supervisor->metrics));
    if (rc != KVT_OK || supervisor->metrics == NULL)
        return kvt_error_set(err, KVT_NOMEM, "metrics");
    for (uint32_t i = 0; i < supervisor->plan->instances; i++)
        add_metrics(supervisor->metrics, supervisor->registry, i);
    return KVT_OK;
}

static void
show_metrics(const struct worker_supervisor *supervisor)
{
    for (uint32_t i = 0; i < supervisor->plan->instances; i++) {
        const struct worker_instance_stats stats = worker_supervisor_stats_of(supervisor, i);

#define X(member, ...)                                                                             \
    kvt_metric_set(supervisor->metrics->instances[i].member, (int64_t)stats.member);
        WORKER_INSTANCE_STATS(X)
        WORKER_INSTANCE_LEVELS(X)
#undef X
        kvt_metric_set(supervisor->metrics->instances[i].up, supervisor->instances[i].up ? 1 : 0);
        kvt_metric_set(supervisor->metrics->instances[i].starts,
                       (int64_t)supervisor->instances[i].lives);
    }
}

/* ---- status ---- */

static void
format_stats(const struct worker_instance_stats *stats, struct kvt_buffer *out)
{
#define X(member, ...) kvt_buffer_printf(out, ",\"" #member "\":%" PRIu64, stats->member);
    WORKER_INSTANCE_STATS(X)
    WORKER_INSTANCE_LEVELS(X)
#undef X
}

static void
format_name(const struct worker_supervisor *supervisor, uint32_t number, struct kvt_buffer *out)
{
    char name[KVT_NAME_MAX];

    worker_instance_plan_name(supervisor->plan, number, name);
    kvt_buffer_printf(out, "%s{\"instance\":%" PRIu32 ",\"name\":", number == 0 ? "" : ",", number);
    kvt_buffer_json_string(out, name);
}

static void
format_instance(const struct worker_supervisor *supervisor, uint32_t number, struct kvt_buffer *out)
{
    const struct worker_supervisor_instance *instance = &supervisor->instances[number];
    const struct worker_instance_stats stats = worker_supervisor_stats_of(supervisor, number);

    format_name(supervisor, number, out);
    kvt_buffer_printf(out, ",\"up\":%s,\"starts\":%" PRIu64 ",\"leader\":%ld,\"ranks\":[",
                      instance->up ? "true" : "false", instance->lives,
                      (long)instance->life.leader);
    for (uint32_t rank = 0; rank < supervisor->plan->tp[number]; rank++)
        kvt_buffer_printf(out, "%s%ld", rank == 0 ? "" : ",", (long)instance->life.ranks[rank]);
    kvt_buffer_printf(out, "]");
    if (instance->broadcast.known) {
        kvt_buffer_printf(out, ",\"broadcast\":{\"way\":\"%s\",\"why\":",
                          engine_way_name(instance->broadcast.way));
        kvt_buffer_json_string(out, instance->broadcast.why);
        kvt_buffer_printf(out, "}");
    }
    format_stats(&stats, out);
    kvt_buffer_printf(out, "}");
}

static void
format_state(const struct worker_supervisor *supervisor, struct kvt_buffer *out)
{
    struct worker_supervisor_reasons reasons;

    worker_supervisor_reasons(supervisor, &reasons);
    kvt_buffer_printf(out, ",\"state\":\"%s\",\"reasons\":[",
                      reasons.count == 0 ? "ready" : "degraded");
    for (size_t i = 0; i < reasons.count; i++) {
        kvt_buffer_printf(out, "%s", i > 0 ? "," : "");
        kvt_buffer_json_string(out, reasons.lines[i]);
    }
    kvt_buffer_printf(out, "]");
}

void
worker_supervisor_format(const struct worker_supervisor *supervisor, struct kvt_buffer *out)
{
    const struct worker_instance_stats sum = worker_supervisor_sum(supervisor);
    uint64_t lives = 0;

    for (uint32_t i = 0; i < supervisor->plan->instances; i++)
        lives += supervisor->instances[i].lives;
    kvt_buffer_printf(out,
                      "{\"schema_version\":1,\"program\":\"kvtier-worker\",\"version\":\"%s\","
                      "\"uptime_ms\":%" PRIu64,
                      KVT_VERSION, kvt_clock_mono_ms() - supervisor->started_ms);
    format_state(supervisor, out);
    kvt_buffer_printf(out,
                      ",\"finished\":%s,\"fed\":%" PRIu64 ",\"served\":%" PRIu64
                      ",\"given_again\":%" PRIu64 ",\"bad_lines\":%" PRIu64
                      ",\"total\":{\"lives\":%" PRIu64,
                      supervisor->finished ? "true" : "false", supervisor->fed, supervisor->served,
                      supervisor->again, supervisor->bad_lines, lives);
    format_stats(&sum, out);
    kvt_buffer_printf(out, "},\"instances\":[");
    for (uint32_t i = 0; i < supervisor->plan->instances; i++)
        format_instance(supervisor, i, out);
    kvt_buffer_printf(out, "]}\n");
}

void
worker_supervisor_show(struct worker_supervisor *supervisor)
{
    struct kvt_buffer text;

    if (!supervisor->shown.open)
        return;
    show_metrics(supervisor);
    kvt_buffer_init(&text, 64 << 10);
    worker_supervisor_format(supervisor, &text);
    (void)pthread_mutex_lock(&supervisor->shown.lock);
    kvt_buffer_release(&supervisor->shown.text);
    supervisor->shown.text = text;
    worker_supervisor_reasons(supervisor, &supervisor->shown.reasons);
    (void)pthread_mutex_unlock(&supervisor->shown.lock);
}

static void
get_status(void *arg, const struct kvt_http_request *request, struct kvt_http_response *response)
{
    struct worker_supervisor *supervisor = arg;

    (void)request;
    (void)pthread_mutex_lock(&supervisor->shown.lock);
    kvt_buffer_append(&response->body, supervisor->shown.text.data, supervisor->shown.text.size);
    (void)pthread_mutex_unlock(&supervisor->shown.lock);
}

static bool
ready(void *arg, struct kvt_buffer *why)
{
    struct worker_supervisor *supervisor = arg;
    struct worker_supervisor_reasons reasons;

    (void)pthread_mutex_lock(&supervisor->shown.lock);
    reasons = supervisor->shown.reasons;
    (void)pthread_mutex_unlock(&supervisor->shown.lock);
    for (size_t i = 0; i < reasons.count; i++)
        kvt_buffer_printf(why, "%s\n", reasons.lines[i]);
    return reasons.ready;
}

/* ---- what leaders say of a prefix ---- */

/* {"hash_ids": [...]} as a leader is asked; false: answered. */
static bool
read_ids(const struct kvt_http_request *request, struct kvt_http_response *response,
         struct kvt_buffer *question, size_t *count)
{
    struct json_object *json;
    struct json_object *ids;
    struct kvt_error err;
    bool good = true;

    if (kvt_json_parse(&json, (const char *)request->body, request->body_size, "body", &err) !=
        KVT_OK) {
        kvt_http_fail(response, 400, KVT_INVALID, "%s", err.text);
        return false;
    }
    ids = kvt_json_array(json, "hash_ids");
    *count = ids != NULL ? json_object_array_length(ids) : 0;
    if (ids == NULL || *count > ENGINE_FIND_MAX) {
        kvt_http_fail(response, ids == NULL ? 400 : 413, ids == NULL ? KVT_INVALID : KVT_RANGE,
                      "body: want {\"hash_ids\": [...]} of at most %d blocks", ENGINE_FIND_MAX);
        good = false;
    }
    worker_message_put(question, *count);
    for (size_t i = 0; i < *count && good; i++) {
        uint64_t id;

        if (!kvt_json_to_u64(json_object_array_get_idx(ids, i), &id)) {
            kvt_http_fail(response, 400, KVT_INVALID, "hash_ids[%zu]: want a whole number", i);
            good = false;
        }
        worker_message_put(question, id);
    }
    json_object_put(json);
    return good;
}

/* By a client of its own: those of the instances are the main thread's. */
static enum kvt_err
ask_leader(const struct worker_instance_plan *plan, uint32_t number,
           const struct kvt_buffer *question, struct kvt_buffer *answer)
{
    struct engine_rpc_client *client;
    char endpoint[WORKER_INSTANCE_ENDPOINT];
    enum kvt_err rc;

    worker_instance_plan_endpoint(plan, WORKER_DOOR_FRONT, number, WORKER_INSTANCE_LEADER,
                                  endpoint);
    rc = engine_rpc_client_open(&client, &(struct engine_rpc_client_options){.endpoint = endpoint},
                                NULL);
    if (rc != KVT_OK)
        return rc;
    rc = engine_rpc_run(client,
                        &(struct engine_rpc_request){.method = WORKER_SUPERVISOR_FIND,
                                                     .bytes = question->data,
                                                     .size = question->size,
                                                     .wait_ms = FIND_WAIT},
                        answer, NULL);
    engine_rpc_client_close(client);
    return rc;
}

/* What a leader said, read. */
struct found {
    uint64_t all, g2, g3; /* blocks from the first on */
};

/* `hashes` gets the names of the blocks, if it has none yet; false: it said nothing of use. */
static bool
read_found(const struct kvt_buffer *answer, size_t count, struct found *found,
           struct kvt_buffer *hashes)
{
    struct worker_message message = {.bytes = answer->data, .size = answer->size};
    const bool first = hashes->size == 0;

    if (answer->size != (3 + count) * sizeof(uint64_t))
        return false;
    found->all = worker_message_get(&message);
    found->g2 = worker_message_get(&message);
    found->g3 = worker_message_get(&message);
    for (size_t i = 0; i < count && first; i++) {
        char text[KVT_HASH_TEXT_MAX];

        kvt_hash_format(worker_message_get(&message), text);
        kvt_buffer_printf(hashes, "%s\"%s\"", i > 0 ? "," : "", text);
    }
    return true;
}

static void
find_matches(void *arg, const struct kvt_http_request *request, struct kvt_http_response *response)
{
    struct worker_supervisor *supervisor = arg;
    struct kvt_buffer question;
    struct kvt_buffer answer;
    struct kvt_buffer found;
    struct kvt_buffer hashes;
    size_t count;

    kvt_buffer_init(&question, ENGINE_RPC_PAYLOAD_MAX);
    kvt_buffer_init(&answer, ENGINE_RPC_PAYLOAD_MAX);
    kvt_buffer_init(&found, 64 << 10);
    kvt_buffer_init(&hashes, ENGINE_RPC_PAYLOAD_MAX);
    if (read_ids(request, response, &question, &count)) {
        for (uint32_t i = 0; i < supervisor->plan->instances; i++) {
            struct found one;

            kvt_buffer_clear(&answer);
            format_name(supervisor, i, &found);
            if (ask_leader(supervisor->plan, i, &question, &answer) == KVT_OK &&
                read_found(&answer, count, &one, &hashes))
                kvt_buffer_printf(&found,
                                  ",\"answered\":true,\"blocks\":%" PRIu64 ",\"blocks_g2\":%" PRIu64
                                  ",\"blocks_g3\":%" PRIu64 "}",
                                  one.all, one.g2, one.g3);
            else
                kvt_buffer_printf(&found, ",\"answered\":false}");
        }
        kvt_buffer_printf(&response->body, "{\"schema_version\":1,\"namespace\":");
        kvt_buffer_json_string(&response->body, supervisor->plan->settings->namespace_);
        kvt_buffer_printf(&response->body, ",\"hashes\":[");
        kvt_buffer_append(&response->body, hashes.data, hashes.size);
        kvt_buffer_printf(&response->body, "],\"instances\":[");
        kvt_buffer_append(&response->body, found.data, found.size);
        kvt_buffer_printf(&response->body, "]}\n");
    }
    kvt_buffer_release(&question);
    kvt_buffer_release(&answer);
    kvt_buffer_release(&found);
    kvt_buffer_release(&hashes);
}

/* ---- the port ---- */

enum kvt_err
worker_supervisor_open_admin(struct worker_supervisor *supervisor, struct kvt_error *err)
{
    static const struct kvt_http_route routes[] = {
        {.method = "GET", .path = "/v1/status", .handler = get_status},
        {.method = "POST", .path = "/v1/find_matches", .handler = find_matches},
    };
    const struct worker_settings *settings = supervisor->plan->settings;
    char text[128];
    enum kvt_err rc = open_metrics(supervisor, err);
    int size;

    if (rc != KVT_OK)
        return rc;
    if (pthread_mutex_init(&supervisor->shown.lock, NULL) != 0)
        return kvt_error_set(err, KVT_NOMEM, "status");
    supervisor->started_ms = kvt_clock_mono_ms();
    supervisor->shown.open = true;
    kvt_buffer_init(&supervisor->shown.text, 64 << 10);
    worker_supervisor_show(supervisor);
    rc =
        kvt_http_start(&supervisor->http,
                       &(struct kvt_http_options){.bind = settings->admin_bind,
                                                  .port = settings->admin_port,
                                                  .token = settings->admin_token,
                                                  .routes = routes,
                                                  .route_count = sizeof(routes) / sizeof(routes[0]),
                                                  .arg = supervisor,
                                                  .ready = ready,
                                                  .metrics = supervisor->registry},
                       err);
    if (rc != KVT_OK || settings->ports_file[0] == '\0')
        return rc;
    size = snprintf(text, sizeof(text), "{\"pid\":%ld,\"admin\":%u,\"front\":0}\n", (long)getpid(),
                    (unsigned)kvt_http_port(supervisor->http));
    return kvt_file_write(settings->ports_file, text, (size_t)size, 0600, err);
}

void
worker_supervisor_close_admin(struct worker_supervisor *supervisor)
{
    kvt_http_stop(supervisor->http);
    if (supervisor->shown.open) {
        kvt_buffer_release(&supervisor->shown.text);
        (void)pthread_mutex_destroy(&supervisor->shown.lock);
        supervisor->shown.open = false;
    }
    kvt_free(supervisor->metrics);
    kvt_metrics_free(supervisor->registry);
}
