#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "advisor/daemon.h"
#include "base/config/config.h"
#include "base/config/program.h"
#include "base/core/log.h"
#include "base/http/http.h"

enum {
#define PARAM(id, ...) ADVISOR_##id,
/* common.def comes first. */
/* clang-format off */
#include "config/common.def"
#include "config/advisor.def"
/* clang-format on */
#undef PARAM
    ADVISOR_PARAM_COUNT
};

static const struct kvt_param params[] = {
#define PARAM KVT_PARAM_ROW
/* common.def comes first. */
/* clang-format off */
#include "config/common.def"
#include "config/advisor.def"
/* clang-format on */
#undef PARAM
};

enum { WAIT_MS = 1000 };

static enum kvt_err
read_secrets(const struct kvt_config *config, struct advisor_settings *settings, char *token,
             size_t token_size, struct kvt_error *err)
{
    char text[WIRE_KEY_FILE_MAX];
    enum kvt_err rc;

    token[0] = '\0';
    if (kvt_config_is_set(config, ADVISOR_ADMIN_TOKEN_FILE)) {
        rc = kvt_config_secret(config, ADVISOR_ADMIN_TOKEN_FILE, token, token_size, err);
        if (rc != KVT_OK)
            return rc;
    }
    if (!kvt_config_is_set(config, ADVISOR_ORDERS_KEY_FILE))
        return KVT_OK;
    rc = kvt_config_secret_lines(config, ADVISOR_ORDERS_KEY_FILE, text, sizeof(text), err);
    if (rc == KVT_OK)
        rc = wire_key_ring_parse(&settings->order_keys, text, "orders.key_file", err);
    explicit_bzero(text, sizeof(text));
    for (size_t i = 0; i < settings->order_keys.count && rc == KVT_OK; i++)
        if (settings->order_keys.lines[i].master.size == 0)
            rc = kvt_error_set(
                err, KVT_INVALID,
                "orders.key_file: key %zu is one of gateway %s, and the advisor needs "
                "the master it was derived from",
                i + 1, settings->order_keys.lines[i].name);
    return rc;
}

static double
weight(const struct kvt_config *config, size_t index)
{
    enum { PPM = 1000000 };

    return (double)kvt_config_ppm(config, index) / PPM;
}

static struct advisor_route_settings
read_route(const struct kvt_config *config)
{
    return (struct advisor_route_settings){
        .workers = kvt_config_string(config, ADVISOR_ROUTE_WORKERS),
        .bucket = kvt_config_string(config, ADVISOR_ROUTE_BUCKET),
        .weights = {.overlap_score_weight = weight(config, ADVISOR_ROUTE_OVERLAP_SCORE_WEIGHT),
                    .tier = {weight(config, ADVISOR_ROUTE_G1_WEIGHT),
                             weight(config, ADVISOR_ROUTE_G2_WEIGHT),
                             weight(config, ADVISOR_ROUTE_G3_WEIGHT),
                             weight(config, ADVISOR_ROUTE_G4_WEIGHT)},
                    .active_request_weight = weight(config, ADVISOR_ROUTE_ACTIVE_REQUEST_WEIGHT),
                    .temperature = weight(config, ADVISOR_ROUTE_TEMPERATURE)},
        .block_tokens = (uint32_t)kvt_config_u64(config, ADVISOR_ROUTE_BLOCK_TOKENS),
        .expiry_ms = kvt_config_u64(config, ADVISOR_ROUTE_EXPIRY),
        .requests_max = (uint32_t)kvt_config_u64(config, ADVISOR_ROUTE_REQUESTS_MAX),
        .group = kvt_config_string(config, ADVISOR_ROUTE_GROUP),
        .router_id = kvt_config_u64(config, ADVISOR_ROUTE_ROUTER_ID),
    };
}

static void
read_settings(const struct kvt_config *config, struct advisor_settings *settings)
{
    *settings = (struct advisor_settings){
        .state_dir = kvt_config_string(config, ADVISOR_STATE_DIR),
        .db_max = kvt_config_u64(config, ADVISOR_DB_MAX),
        .index_max = kvt_config_u64(config, ADVISOR_INDEX_MAX),
        .commit_max_wait_ms = kvt_config_u64(config, ADVISOR_COMMIT_MAX_WAIT),
        .volatile_places = !kvt_config_bool(config, ADVISOR_INDEX_DURABLE),
        .observes_unsigned =
            strcmp(kvt_config_string(config, ADVISOR_REPORTS_UNSIGNED), "observe") == 0,
        .core = strcmp(kvt_config_string(config, ADVISOR_EVENTS_TRANSPORT), "core") == 0,
        .durable = kvt_config_bool(config, ADVISOR_DURABLE_KV_EVENTS),
        .consumer = kvt_config_string(config, ADVISOR_EVENTS_CONSUMER),
        .snapshot_bucket = kvt_config_string(config, ADVISOR_SNAPSHOT_BUCKET),
        .snapshot_events = kvt_config_u64(config, ADVISOR_SNAPSHOT_EVENTS),
        .snapshot_every_ms = kvt_config_u64(config, ADVISOR_SNAPSHOT_EVERY),
        .sources_file = kvt_config_string(config, ADVISOR_SOURCES_FILE),
        .silent_after_ms = kvt_config_u64(config, ADVISOR_PUBLISHERS_SILENT_AFTER),
        .gone_after_ms = kvt_config_u64(config, ADVISOR_PUBLISHERS_GONE_AFTER),
        .give_up_after_ms = kvt_config_u64(config, ADVISOR_PUBLISHERS_GIVE_UP_AFTER),
        .ordering = kvt_config_string(config, ADVISOR_POLICY_ORDERING),
        .idle_after_ms = kvt_config_u64(config, ADVISOR_POLICY_IDLE_AFTER),
        .hot_start_ppm = kvt_config_ppm(config, ADVISOR_POLICY_HOT_START),
        .hot_stop_ppm = kvt_config_ppm(config, ADVISOR_POLICY_HOT_STOP),
        .cold_start_ppm = kvt_config_ppm(config, ADVISOR_POLICY_COLD_START),
        .cold_stop_ppm = kvt_config_ppm(config, ADVISOR_POLICY_COLD_STOP),
        .promote_after = kvt_config_u64(config, ADVISOR_POLICY_PROMOTE_AFTER),
        .policy_file = kvt_config_string(config, ADVISOR_POLICY_FILE),
        .plan_interval_ms = kvt_config_u64(config, ADVISOR_POLICY_INTERVAL),
        .order_expiry_ms = kvt_config_u64(config, ADVISOR_ORDER_EXPIRY),
        .route = read_route(config),
        .admin_bind = kvt_config_string(config, ADVISOR_ADMIN_BIND),
        .admin_port = (uint16_t)kvt_config_u64(config, ADVISOR_ADMIN_PORT),
        .ports_file = kvt_config_string(config, ADVISOR_PORTS_FILE),
        .bus = wire_bus_options_of(config, ADVISOR_NATS_URL),
    };
    settings->bus.name = "kvtier-advisor";
    /* The table's words are the planner's. */
    (void)advisor_mode_parse(kvt_config_string(config, ADVISOR_POLICY_MODE), &settings->mode);
}

/* What SIGHUP reads again. */
static void
reload_when_asked(struct advisor_daemon *daemon, const sigset_t *hangup)
{
    const struct timespec at_once = {0};

    if (sigtimedwait(hangup, NULL, &at_once) == SIGHUP)
        advisor_daemon_reload(daemon);
}

static enum kvt_err
run(const struct kvt_config *config, struct kvt_error *err)
{
    char token[KVT_HTTP_TOKEN_MAX + 1];
    struct advisor_settings settings;
    struct advisor_daemon *daemon;
    sigset_t hangup;
    enum kvt_err rc;

    (void)sigemptyset(&hangup); /* before there are threads, which inherit it */
    (void)sigaddset(&hangup, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &hangup, NULL);

    read_settings(config, &settings);
    rc = read_secrets(config, &settings, token, sizeof(token), err);
    if (rc != KVT_OK)
        return rc;
    settings.admin_token = token;
    rc = advisor_daemon_open(&daemon, &settings, err);
    explicit_bzero(token, sizeof(token));
    wire_key_ring_wipe(&settings.order_keys);
    if (rc != KVT_OK)
        return rc;
    kvt_log_info("advisor.daemon", "started", "admin port %u, policy mode %s",
                 advisor_daemon_port(daemon), advisor_mode_name(settings.mode));
    kvt_program_ready("taking events");
    while (rc == KVT_OK && !kvt_program_wait(WAIT_MS)) {
        reload_when_asked(daemon, &hangup);
        rc = advisor_daemon_failed(daemon, err);
    }
    kvt_log_info("advisor.daemon", "stopping", "%s", rc == KVT_OK ? "asked to stop" : err->text);
    advisor_daemon_close(daemon);
    return rc;
}

int
main(int argc, char **argv)
{
    static const struct kvt_program program = {
        .name = "kvtier-advisor",
        .summary = "keeps the index of who holds which KV block, and decides what moves where",
        .usage = "",
        .params = params,
        .param_count = sizeof(params) / sizeof(params[0]),
        .run = run,
    };

    return kvt_program_main(argc, argv, &program);
}
