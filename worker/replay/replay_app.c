#include "worker/replay/replay_app.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/config/program.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "base/core/log.h"

#include "worker/replay/attached_engines.h"
#include "worker/replay/worker_status.h"
#include "worker/settings/gpu.h"

enum {
    TICK_WAIT = 200,          /* ms */
    PROGRESS_EVERY = 10000,   /* ms between log lines */
    TRANSFER_QUEUE_MAX = 128, /* tickets on one path, of all logical workers */
};

struct app {
    struct worker_settings settings;
    struct worker_shared shared;
    struct kvbm_cost cost; /* where shared.cost is not NULL */
    struct kvt_metrics *registry;
    struct worker_stack **stacks;
    uint32_t stack_count;
    struct worker_status status;
    struct kvt_http *http;
    uint64_t streams_at; /* wire_bus_keep_streams() */
    bool nats_away;      /* and it was said */
    uint64_t logged_ms;
};

static bool
ready(void *arg, struct kvt_buffer *why)
{
    const struct worker_status *status = arg;

    if (status->replay != NULL)
        return true;
    kvt_buffer_printf(why, "starting\n");
    return false;
}

/* Both settings at 0: there is nothing to weigh. */
static enum kvt_err
open_cost(struct app *app, struct kvt_error *err)
{
    const struct worker_settings *settings = &app->settings;
    enum kvt_err rc;

    if (settings->prefill_rate == 0 && settings->deadline_ms == 0)
        return KVT_OK;
    rc = kvbm_cost_init(&app->cost, &(struct kvbm_cost_options){
                                        .prefill_rate = (double)settings->prefill_rate,
                                        .block_bytes = settings->layout.block_size,
                                        .block_tokens = settings->block_tokens,
                                    });
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "cost of onboarding");
    app->shared.cost = &app->cost;
    return KVT_OK;
}

static enum kvt_err
open_shared(struct app *app, struct kvt_error *err)
{
    enum kvt_err rc;

    app->shared.settings = &app->settings;
    rc = worker_pool_order_open(&app->shared.order, app->settings.pool_order, err);
    if (rc == KVT_OK)
        rc = open_cost(app, err);
    if (rc == KVT_OK)
        rc = worker_gpu_open(&app->shared.cuda, app->settings.gpu, 0, "worker", err);
    if (rc == KVT_OK)
        rc = kvbm_transfer_new(&app->shared.transfer, TRANSFER_QUEUE_MAX, err);
    if (rc == KVT_OK)
        rc = worker_object_tier_open(&app->shared.remote, &app->settings, err);
    if (rc == KVT_OK && app->settings.bus.url[0] != '\0')
        rc = wire_bus_open(&app->shared.bus, &app->settings.bus, err);
    return rc;
}

static enum kvt_err
open_stacks(struct app *app, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;

    if (app->settings.g3_blocks > 0)
        rc = kvt_folder_make(app->settings.g3_dir, err);
    if (rc != KVT_OK)
        return rc;
    app->stacks = kvt_calloc(app->settings.workers, sizeof(struct worker_stack *));
    if (app->stacks == NULL)
        return kvt_error_set(err, KVT_NOMEM, "%" PRIu32 " workers", app->settings.workers);
    for (; app->stack_count < app->settings.workers; app->stack_count++) {
        rc = worker_stack_open(&app->stacks[app->stack_count], &app->shared, app->stack_count, err);
        if (rc != KVT_OK)
            return rc;
    }
    return KVT_OK;
}

static enum kvt_err
open_admin(struct app *app, struct kvt_error *err)
{
    enum kvt_err rc;

    rc = kvt_metrics_new(&app->registry);
    if (rc == KVT_OK)
        rc = worker_metrics_new(&app->status.metrics, app->registry);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "metrics");
    return kvt_http_start(&app->http,
                          &(struct kvt_http_options){
                              .bind = app->settings.admin_bind,
                              .port = app->settings.admin_port,
                              .token = app->settings.admin_token,
                              .routes = worker_status_routes,
                              .route_count = WORKER_STATUS_ROUTES,
                              .arg = &app->status,
                              .ready = ready,
                              .metrics = app->registry,
                          },
                          err);
}

static enum kvt_err
write_ports(const struct app *app, struct kvt_error *err)
{
    char text[128];
    int size;

    if (app->settings.ports_file[0] == '\0')
        return KVT_OK;
    size = snprintf(text, sizeof(text), "{\"pid\":%ld,\"admin\":%u,\"front\":0}\n", (long)getpid(),
                    (unsigned)kvt_http_port(app->http));
    return kvt_file_write(app->settings.ports_file, text, (size_t)size, 0600, err);
}

static void
keep_streams(struct app *app)
{
    bool connected = !app->nats_away;
    struct kvt_error err;

    wire_bus_tell(app->shared.bus, "worker",
                  app->settings.stay ? "events wait" : "events wait, and the run ends behind them",
                  &connected);
    app->nats_away = !connected;
    if (app->shared.bus != NULL && wire_bus_connected(app->shared.bus) &&
        wire_bus_keep_streams(app->shared.bus, &app->streams_at, &err) != KVT_OK)
        kvt_log_warn("worker", "streams", "%s", err.text);
}

static void
log_progress(struct app *app, const struct worker_replay_status *replay)
{
    const uint64_t now_ms = kvt_clock_mono_ms();

    if (now_ms - app->logged_ms < PROGRESS_EVERY)
        return;
    app->logged_ms = now_ms;
    kvt_log_info("worker", "progress", "%" PRIu64 " of %" PRIu64 " requests", replay->requests_done,
                 replay->requests_total);
}

/* What somebody who tries it wants to know, without a report. */
static void
log_finished(const struct app *app, const struct worker_replay_status *replay)
{
    struct worker_found found;

    worker_status_found(&app->status, &found);
    kvt_log_info("worker", "finished",
                 "%" PRIu64 " requests served; blocks: %" PRIu64 " from G1, %" PRIu64
                 " from G2, %" PRIu64 " from G3, %" PRIu64 " from G4, %" PRIu64
                 " computed; %" PRIu64 " checked, %" PRIu64 " wrong bytes",
                 replay->requests_done, found.tier[0], found.tier[1], found.tier[2], found.tier[3],
                 found.computed, found.checked, worker_status_wrong_bytes(&app->status));
}

static enum kvt_err
write_report(const struct app *app, struct kvt_error *err)
{
    struct kvt_buffer text;
    enum kvt_err rc = KVT_NOMEM;

    if (app->settings.report[0] == '\0')
        return KVT_OK;
    kvt_buffer_init(&text, KVT_HTTP_RESPONSE_MAX);
    worker_status_format(&app->status, &text);
    if (kvt_buffer_ok(&text))
        rc = kvt_file_write(app->settings.report, text.data, text.size, 0644, err);
    else
        (void)kvt_error_set(err, rc, "report");
    kvt_buffer_release(&text);
    return rc;
}

/* Until the trace is through (and, with `stay`, beyond), or somebody says stop. */
static bool
watch(struct app *app)
{
    bool reported = false;
    struct kvt_error err;

    for (;;) {
        struct worker_replay_status replay;
        const bool stop = kvt_program_wait(TICK_WAIT);

        keep_streams(app);
        worker_status_sample(&app->status);
        worker_replay_status(app->status.replay, &replay);
        if (stop) {
            worker_object_tier_stop(app->shared.remote);
            return replay.finished;
        }
        if (!replay.finished) {
            log_progress(app, &replay);
            continue;
        }
        if (!reported) {
            log_finished(app, &replay);
            if (app->settings.stay && write_report(app, &err) != KVT_OK)
                kvt_log_error("worker", "report", "%s", err.text);
            reported = true;
        }
        if (!app->settings.stay)
            return true;
    }
}

static void
app_close(struct app *app)
{
    kvt_http_stop(app->http);
    worker_replay_free(app->status.replay);
    worker_engines_close(app->status.engines);
    for (uint32_t i = 0; i < app->stack_count; i++)
        worker_stack_close(app->stacks[i]);
    kvt_free(app->stacks);
    worker_pool_order_close(&app->shared.order);
    wire_bus_close(app->shared.bus);
    worker_object_tier_close(app->shared.remote);
    kvbm_transfer_free(app->shared.transfer);
    kvbm_cuda_close(app->shared.cuda);
    if (app->shared.cost != NULL)
        kvbm_cost_release(app->shared.cost);
    worker_metrics_free(app->status.metrics);
    kvt_metrics_free(app->registry);
}

static enum kvt_err
start(struct app *app, struct kvt_error *err)
{
    enum kvt_err rc;

    app->status = (struct worker_status){.shared = &app->shared, .started_ms = kvt_clock_mono_ms()};
    rc = open_shared(app, err);
    if (rc == KVT_OK) {
        keep_streams(app);
        rc = open_stacks(app, err);
    }
    app->status.stacks = app->stacks;
    app->status.stack_count = app->stack_count;
    if (rc == KVT_OK)
        rc = worker_replay_start(&app->status.replay, &app->settings, app->stacks, app->stack_count,
                                 err);
    if (rc == KVT_OK && app->settings.attach_engines > 0)
        rc = worker_engines_open(&app->status.engines, app->stacks[0], err);
    if (rc == KVT_OK)
        rc = open_admin(app, err);
    if (rc == KVT_OK)
        rc = write_ports(app, err);
    return rc;
}

/* What an operator must not overlook is an error, however well the rest went. */
static enum kvt_err
verdict(const struct app *app, bool complete, struct kvt_error *err)
{
    const uint64_t wrong = worker_status_wrong_bytes(&app->status);
    struct worker_replay_status replay;

    worker_replay_status(app->status.replay, &replay);
    if (wrong > 0)
        return kvt_error_set(err, KVT_CORRUPT, "%" PRIu64 " wrong bytes were read", wrong);
    if (replay.failed)
        return kvt_error_set(err, KVT_IO, "%s", replay.error);
    if (replay.bad_lines > 0)
        return kvt_error_set(err, KVT_INVALID,
                             "bad lines in the trace: %" PRIu64
                             ", the rest was replayed; the first: %.160s",
                             replay.bad_lines, replay.error);
    if (complete && replay.requests_done < replay.requests_fed)
        return kvt_error_set(err, KVT_NOMEM, "not every request was served");
    return KVT_OK;
}

enum kvt_err
worker_app_run(const struct kvt_config *config, struct kvt_error *err)
{
    struct app app = {.stack_count = 0};
    enum kvt_err rc;
    bool complete;

    rc = worker_settings_load(&app.settings, config, err);
    if (rc != KVT_OK)
        return rc;
    rc = start(&app, err);
    if (rc != KVT_OK) {
        app_close(&app);
        return rc;
    }
    kvt_program_ready("replaying");
    kvt_log_info("worker", "started", "%" PRIu32 " worker%s, admin port %u", app.stack_count,
                 app.stack_count == 1 ? "" : "s", (unsigned)kvt_http_port(app.http));
    complete = watch(&app);
    worker_replay_stop(app.status.replay); /* while the admin port still answers */
    rc = write_report(&app, err);
    if (rc == KVT_OK)
        rc = verdict(&app, complete, err);
    app_close(&app);
    return rc;
}
