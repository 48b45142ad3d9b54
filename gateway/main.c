/* kvtier-gateway: the S3 front of the KV cache tier, its hot volume and its mover. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/config/program.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "base/core/log.h"
#include "base/http/http.h"
#include "g4/s3/placement.h"
#include "gateway/admin/admin.h"
#include "gateway/admin/gateway_settings.h"
#include "gateway/admin/reload.h"
#include "gateway/block/backlog.h"
#include "gateway/block/context_open.h"
#include "gateway/block/recheck.h"
#include "gateway/bus/bus_report.h"
#include "gateway/bus/events.h"
#include "gateway/bus/orders.h"
#include "gateway/care/adoption.h"
#include "gateway/care/housekeeping.h"
#include "gateway/s3/listing_prefetch.h"
#include "gateway/s3/s3_server.h"
#include "gateway/tier/body_cache.h"
#include "gateway/tier/packer.h"

enum { TICK_MS = 500, EVENTS_DRAIN_MS = 2000 };
enum { BODY_CACHE_SHARE = 8 }; /* of memory.max is kept for bodies to come */

struct app {
    struct gateway_settings settings;
    struct kvt_metrics *metrics;
    struct gateway_stats stats;
    struct gateway_budget budget;
    struct gateway_context *context;
    struct wire_bus *bus;
    struct gateway_housekeeping *keeper;
    struct gateway_backlog *backlog;
    struct gateway_adoption *adoption;
    struct gateway_events *events;
    struct gateway_bus_report *report;
    struct gateway_orders *orders;
    struct gateway_client_buckets *buckets;
    struct gateway_listing_prefetch *prefetch;
    struct gateway_s3 s3;
    struct gateway_auth *auth;
    struct gateway_reload *reload;
    struct gateway_s3_server *front;
    struct gateway_admin admin;
    struct kvt_http *http;
};

static enum kvt_err
open_context(struct app *app, struct kvt_error *err)
{
    enum kvt_err rc = kvt_metrics_new(&app->metrics);

    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "metrics");
    gateway_stats_init(
        &app->stats, app->metrics,
        (struct gateway_stats_tiers){.warm = app->settings.context.warm_capacity != 0,
                                     .far = app->settings.context.far.kind != GATEWAY_FAR_NONE});
    app->budget.max = app->settings.memory_max;
    rc = gateway_body_cache_new(&app->budget.body_cache,
                                (size_t)(app->budget.max / BODY_CACHE_SHARE));
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "memory of bodies");
    app->settings.context.stats = &app->stats;
    app->settings.context.budget = &app->budget;
    rc = gateway_context_open(&app->context, &app->settings.context, err);
    if (rc == KVT_OK)
        rc = gateway_backlog_new(&app->backlog, app->context, &app->settings.backlog, err);
    return rc;
}

static enum kvt_err
start_bus(struct app *app, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;

    if (app->settings.bus.url[0] != '\0')
        rc = wire_bus_open(&app->bus, &app->settings.bus, err);
    if (rc == KVT_OK)
        rc = gateway_housekeeping_start(&app->keeper, app->context, &app->budget, app->bus, err);
    if (rc == KVT_OK)
        rc = gateway_backlog_start(app->backlog, err);
    if (rc == KVT_OK)
        rc = gateway_recheck_start(app->context, err);
    if (rc == KVT_OK)
        rc = gateway_adoption_open(&app->adoption, app->context, err);
    if (rc == KVT_OK && app->context->packer != NULL)
        rc = gateway_packer_start(app->context->packer, err);
    if (rc != KVT_OK || app->bus == NULL)
        return rc;
    rc = gateway_events_start(&app->events, app->context, app->bus, err);
    if (rc == KVT_OK)
        rc = gateway_bus_report_start(&app->report, app->context, app->bus,
                                      &app->settings.orders.keys, app->settings.report_ms, err);
    if (rc == KVT_OK && app->settings.orders.keys.count > 0)
        rc = gateway_orders_start(&app->orders, app->context, app->bus, app->report,
                                  &app->settings.orders, err);
    if (wire_key_ring_has_master(&app->settings.orders.keys))
        kvt_log_warn(
            "gateway", "master_key",
            "orders.key_file holds the advisor's master: give this gateway keys of its own "
            "(kvtier key derive --gateway %s)",
            app->context->identity.name);
    if (app->settings.orders.keys.count == 0)
        kvt_log_info("gateway", "no_orders", "orders.key_file is not set: no orders are taken");
    return rc;
}

static enum kvt_err
start_admin(struct app *app, struct kvt_error *err)
{
    app->admin = (struct gateway_admin){.settings = &app->settings,
                                        .context = app->context,
                                        .budget = &app->budget,
                                        .bus = app->bus,
                                        .orders = app->orders,
                                        .backlog = app->backlog,
                                        .adoption = app->adoption,
                                        .reload = app->reload,
                                        .started_ms = kvt_clock_mono_ms()};
    return kvt_http_start(&app->http,
                          &(struct kvt_http_options){.bind = app->settings.admin_bind,
                                                     .port = app->settings.admin_port,
                                                     .token = app->settings.admin_token,
                                                     .routes = gateway_admin_routes,
                                                     .route_count = GATEWAY_ADMIN_ROUTES,
                                                     .arg = &app->admin,
                                                     .ready = gateway_admin_ready,
                                                     .metrics = app->metrics},
                          err);
}

/* Who may come, and what they are shown. */
static enum kvt_err
let_in(struct app *app, const struct kvt_config *config, struct kvt_error *err)
{
    enum kvt_err rc = gateway_auth_new(&app->auth, app->settings.credentials, err);

    app->settings.credentials = NULL;
    if (rc != KVT_OK)
        return rc;
    rc = gateway_reload_new(&app->reload,
                            &(struct gateway_reload_options){.config = config,
                                                             .auth = app->auth,
                                                             .tls = app->settings.front_tls,
                                                             .stats = &app->stats});
    return rc == KVT_OK ? KVT_OK : kvt_error_set(err, rc, "credentials of the S3 port");
}

static enum kvt_err
start_ports(struct app *app, const struct kvt_config *config, struct kvt_error *err)
{
    struct gateway_catalog_stats stats;
    enum kvt_err rc;

    gateway_catalog_stats(app->context->catalog, &stats);
    rc = gateway_client_buckets_new(&app->buckets, app->settings.bucket, "kvtier",
                                    stats.incarnation, app->settings.front_buckets_max);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "buckets of the S3 port");
    rc = gateway_listing_prefetch_new(&app->prefetch);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "listings of the S3 port");
    app->s3 = (struct gateway_s3){.context = app->context,
                                  .budget = &app->budget,
                                  .buckets = app->buckets,
                                  .prefetch = app->prefetch,
                                  .bucket = app->settings.bucket,
                                  .region = app->settings.region,
                                  .batch_max = app->settings.batch_max};
    rc = let_in(app, config, err);
    if (rc == KVT_OK)
        rc = start_admin(app, err);
    if (rc != KVT_OK)
        return rc;
    return gateway_s3_server_start(
        &app->front,
        &(struct gateway_s3_server_options){.bind = app->settings.front_bind,
                                            .port = app->settings.front_port,
                                            .http_threads = app->settings.front_threads,
                                            .io_threads = app->settings.io_threads,
                                            .connections_max = app->settings.front_connections,
                                            .patience_ms = app->settings.front_patience_ms,
                                            .domains = app->settings.front_domains,
                                            .tls = app->settings.front_tls,
                                            .auth = app->auth,
                                            .s3 = &app->s3},
        err);
}

static enum kvt_err
write_ports(const struct app *app, struct kvt_error *err)
{
    char text[128];
    int size;

    if (app->settings.ports_file[0] == '\0')
        return KVT_OK;
    size =
        snprintf(text, sizeof(text), "{\"pid\":%ld,\"admin\":%u,\"front\":%u}\n", (long)getpid(),
                 (unsigned)kvt_http_port(app->http), (unsigned)gateway_s3_server_port(app->front));
    return kvt_file_write(app->settings.ports_file, text, (size_t)size, 0600, err);
}

/* Clients first, then those who change things, then those who tell about it, then the store. */
static void
stop(struct app *app)
{
    if (app->context != NULL) {
        atomic_store(&app->context->stopping, true);
        gateway_packer_cancel(app->context->packer); /* clients may wait for what it does */
    }
    gateway_s3_server_stop(app->front);
    gateway_listing_prefetch_free(app->prefetch);
    gateway_client_buckets_free(app->buckets);
    kvt_http_stop(app->http);
    gateway_reload_free(app->reload);
    gateway_auth_free(app->auth);
    gateway_client_credentials_drop(app->settings.credentials);
    kvt_tls_free(app->settings.front_tls);
    if (app->context != NULL)
        gateway_packer_stop(app->context->packer);
    gateway_orders_stop(app->orders);
    gateway_adoption_close(app->adoption);
    gateway_backlog_stop(app->backlog);
    if (app->context != NULL)
        gateway_recheck_stop(app->context);
    gateway_housekeeping_stop(app->keeper);
    gateway_bus_report_stop(app->report);
    gateway_events_stop(app->events, EVENTS_DRAIN_MS);
    wire_bus_close(app->bus);
    gateway_context_close(app->context);
    g4_placement_free(app->settings.placement); /* the buckets' stores ask them for every PUT */
    g4_placement_free(app->settings.far_placement);
    gateway_body_cache_free(app->budget.body_cache);
    kvt_metrics_free(app->metrics);
    explicit_bzero(&app->settings, sizeof(app->settings));
    kvt_free(app);
}

static void
hangup_signal(sigset_t *set)
{
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGHUP);
}

static void
reload_when_asked(struct app *app)
{
    const struct timespec at_once = {0};
    sigset_t set;

    hangup_signal(&set);
    if (sigtimedwait(&set, NULL, &at_once) == SIGHUP)
        gateway_reload_run(app->reload);
}

/* Start, wait for SIGTERM, drain, stop. */
static enum kvt_err
run_gateway(const struct kvt_config *config, struct kvt_error *err)
{
    struct app *app = kvt_calloc(1, sizeof(*app));
    bool connected = true;
    sigset_t hangup;
    enum kvt_err rc;

    if (app == NULL)
        return kvt_error_set(err, KVT_NOMEM, "gateway");
    hangup_signal(&hangup); /* before there are threads, which inherit it */
    (void)pthread_sigmask(SIG_BLOCK, &hangup, NULL);
    rc = gateway_settings_load(&app->settings, config, err);
    if (rc == KVT_OK)
        rc = open_context(app, err);
    if (rc == KVT_OK)
        rc = start_bus(app, err);
    if (rc == KVT_OK)
        rc = start_ports(app, config, err);
    if (rc == KVT_OK)
        rc = write_ports(app, err);
    if (rc == KVT_OK) {
        kvt_log_info("gateway", "ready", "%s: S3 on %s:%u, admin on %s:%u",
                     app->context->identity.name, app->settings.front_bind,
                     (unsigned)gateway_s3_server_port(app->front), app->settings.admin_bind,
                     (unsigned)kvt_http_port(app->http));
        kvt_program_ready("serving");
        while (!kvt_program_wait(TICK_MS)) {
            wire_bus_tell(app->bus, "gateway", "events wait in the outbox, no orders come",
                          &connected);
            reload_when_asked(app);
        }
        kvt_log_info("gateway", "stopping", "draining");
    }
    stop(app);
    return rc;
}

static const struct kvt_program program = {
    .name = "kvtier-gateway",
    .summary = "serve KV cache blocks from a hot volume and an S3 bucket",
    .usage = "",
    .params = gateway_settings_table,
    .param_count = GATEWAY_SETTING_COUNT,
    .run = run_gateway,
};

int
main(int argc, char **argv)
{
    return kvt_program_main(argc, argv, &program);
}
