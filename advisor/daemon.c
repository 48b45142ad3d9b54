#include "advisor/daemon.h"

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "advisor/admin/advisor_admin.h"
#include "advisor/admin/nats_responder.h"
#include "advisor/archive/nats_snapshot.h"
#include "advisor/job/jobs.h"
#include "advisor/round/outbox.h"
#include "advisor/round/round.h"
#include "advisor/route/presence.h"
#include "advisor/route/router_thread.h"
#include "advisor/rule/rulebook.h"
#include "advisor/source/sources.h"
#include "advisor/source/sources_file.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/conditions.h"
#include "base/core/file.h"
#include "base/core/log.h"
#include "base/http/http_stream.h"
#include "wire/message/subject.h"

#include "policy/ordering/ordering_table.h"

enum {
    STEP_WAIT_MS = 20,
    SETTLE_MS = 1000, /* the first connection may take this long before its absence is news */
    PORTS_FILE_MODE = 0644,
    STREAM_EVERY_MS = 1000,
    STREAM_HEARTBEAT_MS = 10000,
    STREAM_SLOW_MS = 10000,
    STREAM_SUBSCRIBERS_MAX = 32,
    RESTORE_WAIT_MS = 10000, /* for NATS, when the folder is empty and a snapshot may be there */
    SNAPSHOT_SHARE = 4,      /* a snapshot may be so many times as large as the database */
    HOST_MAX = 65,
};

struct advisor_daemon {
    struct kvt_metrics *metrics;
    struct advisor_counters counters;
    struct advisor_traffic *tally;
    struct advisor_store *store;
    struct advisor_rulebook *rulebook;
    const char *policy_file; /* of the settings, which stay; "": none */
    struct index *index;
    struct wire_bus *bus;
    struct advisor_planner *planner;
    struct advisor_jobs *jobs;
    struct advisor_round *round;
    struct advisor_source *events; /* of `sources` */
    struct advisor_source *reports;
    struct advisor_sources *sources;
    struct advisor_sources_file *sources_file; /* NULL: none */
    struct advisor_outbox *outbox;
    struct advisor_nats_snapshot *nats_snapshot; /* NULL: none */
    struct advisor_nats_responder *responder;
    struct advisor_router_thread *router_thread;
    struct advisor_router *router; /* NULL: requests are not routed */
    struct advisor_presence *presence;
    struct kvt_http *http;
    struct kvt_http_stream *stream;
    struct advisor_admin pages;
    struct wire_key_ring order_keys;
    struct kvt_conditions conditions;
    char *ports_file;            /* NULL: none written */
    char consumer[KVT_NAME_MAX]; /* of our events; "": not durable */
    pthread_t thread;
    bool threaded;
    struct kvt_error why; /* it failed; written before `failed` */
    _Atomic enum kvt_err failed;
    _Atomic bool stopping;
};

static void *
run(void *arg)
{
    struct advisor_daemon *daemon = arg;
    const uint64_t settled_ms = kvt_clock_mono_ms() + SETTLE_MS;
    bool connected = true;

    while (!atomic_load(&daemon->stopping) && atomic_load(&daemon->failed) == KVT_OK) {
        advisor_round_step(daemon->round, STEP_WAIT_MS);
        atomic_store(&daemon->failed, advisor_round_failed(daemon->round, &daemon->why));
        if (kvt_clock_mono_ms() >= settled_ms)
            wire_bus_tell(daemon->bus, "advisor.daemon", "no events come, no orders go",
                          &connected);
    }
    advisor_round_step(daemon->round, 0); /* what was changed in the last moment */
    advisor_round_flush(daemon->round);
    return NULL;
}

static enum kvt_err
open_rulebook(struct advisor_daemon *daemon, const struct advisor_settings *settings,
              struct kvt_error *err)
{
    const struct advisor_rulebook_options options = {
        .store = daemon->store,
        .settings = {.ordering = settings->ordering,
                     .hot_start_ppm = settings->hot_start_ppm,
                     .hot_stop_ppm = settings->hot_stop_ppm,
                     .cold_start_ppm = settings->cold_start_ppm,
                     .cold_stop_ppm = settings->cold_stop_ppm,
                     .promotes = settings->promote_after > 0},
        .file = settings->policy_file,
    };

    daemon->policy_file = settings->policy_file == NULL ? "" : settings->policy_file;
    return advisor_rulebook_open(&daemon->rulebook, &options, err);
}

static enum kvt_err
open_planner(struct advisor_daemon *daemon, const struct advisor_settings *settings)
{
    const struct advisor_planner_options planner = {
        .ordering = policy_ordering_find(POLICY_ORDERING_DEFAULT),
        .ordering_options = {.prices = {.hot_read = 1, .cold_read = 10, .move = 1},
                             .idle_ticks = settings->idle_after_ms / ADVISOR_TICK_MS},
        .counters = &daemon->counters,
        .rulebook = daemon->rulebook,
        .index = daemon->index,
        .traffic = daemon->tally,
        .mode = settings->mode,
        .can_enforce = daemon->order_keys.count > 0,
        .hot_start_ppm = settings->hot_start_ppm,
        .hot_stop_ppm = settings->hot_stop_ppm,
        .cold_start_ppm = settings->cold_start_ppm,
        .cold_stop_ppm = settings->cold_stop_ppm,
        .promote_after = settings->promote_after,
        .expiry_ms = settings->order_expiry_ms,
        .interval_ms = settings->plan_interval_ms,
        .bytes_max = settings->index_max / 8,
    };

    return advisor_planner_new(&daemon->planner, &planner);
}

static enum kvt_err
open_tables(struct advisor_daemon *daemon, const struct advisor_settings *settings,
            struct kvt_error *err)
{
    const struct advisor_store_options store = {.path = settings->state_dir,
                                                .map_bytes = settings->db_max};
    enum kvt_err rc;

    if (policy_ordering_find(settings->ordering) == NULL)
        return kvt_error_set(err, KVT_INVALID, "no ordering is called %s", settings->ordering);
    if (settings->hot_stop_ppm > settings->hot_start_ppm ||
        settings->cold_stop_ppm > settings->cold_start_ppm)
        return kvt_error_set(err, KVT_INVALID,
                             "a stop watermark may not be above its start watermark");
    rc = advisor_store_open(&daemon->store, &store, err);
    if (rc == KVT_OK)
        rc = open_rulebook(daemon, settings, err);
    if (rc != KVT_OK)
        return rc;
    /* A quarter for the orderings: two tiers of an eighth each is the common case. */
    rc = index_new(&daemon->index, settings->index_max / 16 * 11);
    if (rc == KVT_OK)
        rc = open_planner(daemon, settings);
    if (rc == KVT_OK)
        rc = advisor_jobs_new(
            &daemon->jobs,
            &(struct advisor_jobs_options){.store = daemon->store, .planner = daemon->planner});
    return rc == KVT_OK ? KVT_OK : kvt_error_set(err, rc, "index: %s", kvt_err_text(rc));
}

static enum kvt_err
open_round(struct advisor_daemon *daemon, const struct advisor_settings *settings,
           struct kvt_error *err)
{
    const struct advisor_round_options options = {
        .store = daemon->store,
        .index = daemon->index,
        .planner = daemon->planner,
        .jobs = daemon->jobs,
        .order_keys = daemon->order_keys.count > 0 ? &daemon->order_keys : NULL,
        .conditions = &daemon->conditions,
        .observes_unsigned = settings->observes_unsigned,
        .counters = &daemon->counters,
        .cold_bytes = settings->index_max / 16,
        .commit_max_wait_ms = settings->commit_max_wait_ms,
        .silent_after_ms = settings->silent_after_ms,
        .gone_after_ms = settings->gone_after_ms,
        .give_up_after_ms = settings->give_up_after_ms,
        .plan_interval_ms = settings->plan_interval_ms,
        .volatile_places = settings->volatile_places,
    };

    return advisor_round_new(&daemon->round, &options, err);
}

static enum kvt_err
open_router(struct advisor_daemon *daemon, const struct advisor_route_settings *settings,
            struct kvt_error *err)
{
    struct advisor_router_options options = {
        .weights = settings->weights,
        .block_tokens = settings->block_tokens,
        .expiry_ms = settings->expiry_ms,
        .requests_max = settings->requests_max,
        .number = settings->router_id,
        .metrics = daemon->metrics,
    };
    enum kvt_err rc;

    if (settings->block_tokens == 0)
        return KVT_OK;
    rc = advisor_router_thread_new(&daemon->router_thread, daemon->metrics);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "router: %s", kvt_err_text(rc));
    if (settings->group[0] != '\0') {
        options.send = advisor_router_thread_send;
        options.send_arg = daemon->router_thread;
    }
    return advisor_router_new(&daemon->router, &options, err);
}

static struct router_workers *
routed(struct advisor_daemon *daemon)
{
    return daemon->router == NULL ? NULL : advisor_router_workers(daemon->router);
}

static enum kvt_err
open_presence(struct advisor_daemon *daemon, const struct advisor_route_settings *settings,
              struct kvt_error *err)
{
    const struct advisor_presence_options options = {.workers = routed(daemon),
                                                     .bus = daemon->bus,
                                                     .configured = settings->workers,
                                                     .bucket = settings->bucket,
                                                     .metrics = daemon->metrics};

    return options.workers == NULL ? KVT_OK
                                   : advisor_presence_open(&daemon->presence, &options, err);
}

/* ---- snapshots in NATS ---- */

/* Two folders of a host are two advisors. */
static enum kvt_err
name_consumer(struct advisor_daemon *daemon, const struct advisor_settings *settings,
              struct kvt_error *err)
{
    char host[HOST_MAX] = "";
    char path[PATH_MAX];
    const char *folder = realpath(settings->state_dir, path);
    int size;

    (void)gethostname(host, sizeof(host) - 1);
    if (folder == NULL)
        folder = settings->state_dir; /* opening it says what is wrong */
    if (settings->consumer[0] != '\0')
        size = snprintf(daemon->consumer, sizeof(daemon->consumer), "%s", settings->consumer);
    else
        size =
            snprintf(daemon->consumer, sizeof(daemon->consumer), "kvtier-advisor-%.40s-%08" PRIx32,
                     host, (uint32_t)XXH3_64bits(folder, strlen(folder)));
    if (size < 0 || (size_t)size >= sizeof(daemon->consumer))
        return kvt_error_set(err, KVT_RANGE, "events.consumer: at most %d bytes", KVT_NAME_MAX - 1);
    return KVT_OK;
}

static enum kvt_err
check_durable(const struct advisor_settings *settings, struct kvt_error *err)
{
    if (settings->core)
        return kvt_error_set(err, KVT_INVALID,
                             "durable_kv_events needs events.transport jetstream");
    if (settings->volatile_places)
        return kvt_error_set(err, KVT_INVALID, "durable_kv_events needs index.durable");
    if (!wire_object_bucket_valid(settings->snapshot_bucket))
        return kvt_error_set(err, KVT_INVALID,
                             "snapshot.bucket: letters, digits, \"-\" and \"_\" are allowed");
    return KVT_OK;
}

/* Before anything of the folder is open. */
static enum kvt_err
restore(struct advisor_daemon *daemon, const struct advisor_settings *settings,
        struct kvt_error *err)
{
    const struct advisor_restore_options options = {
        .bus = daemon->bus,
        .bucket = settings->snapshot_bucket,
        .path = settings->state_dir,
        .map_bytes = settings->db_max,
        .size_max = settings->db_max * SNAPSHOT_SHARE,
        .wait_ms = RESTORE_WAIT_MS,
    };
    enum kvt_err rc;

    if (!settings->durable)
        return KVT_OK;
    rc = check_durable(settings, err);
    if (rc != KVT_OK)
        return rc;
    (void)advisor_nats_snapshot_restore(&options); /* what came of it is in the log */
    return name_consumer(daemon, settings, err);
}

static enum kvt_err
open_nats_snapshot(struct advisor_daemon *daemon, const struct advisor_settings *settings,
                   struct kvt_error *err)
{
    const struct advisor_nats_snapshot_options options = {
        .bus = daemon->bus,
        .store = daemon->store,
        .memory = advisor_round_memory(daemon->round),
        .counters = &daemon->counters,
        .bucket = settings->snapshot_bucket,
        .events = settings->snapshot_events,
        .every_ms = settings->snapshot_every_ms,
        .size_max = settings->db_max * SNAPSHOT_SHARE,
    };

    return settings->durable ? advisor_nats_snapshot_start(&daemon->nats_snapshot, &options, err)
                             : KVT_OK;
}

/* Our own events, from where they are applied. */
static enum kvt_err
open_ours(struct advisor_daemon *daemon, const struct advisor_source_ops *ops, const char *name,
          struct kvt_error *err)
{
    struct advisor_source_options options = {
        .bus = daemon->bus, .stream = WIRE_STREAM_EVENTS, .subject = WIRE_SUBJECT_EVENTS_ALL};
    struct advisor_position events;
    struct advisor_position reports;
    enum kvt_err rc;

    advisor_round_positions(daemon->round, &events, &reports);
    (void)snprintf(options.name, sizeof(options.name), "%s", name);
    options.seq = events.seq;
    options.created_ms = events.created_ms;
    options.durable = daemon->consumer;
    rc = advisor_source_open(&daemon->events, ops, &options);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "read from NATS: %s", kvt_err_text(rc));
    rc = advisor_sources_adopt(daemon->sources, daemon->events, 0);
    if (rc == KVT_OK)
        return KVT_OK;
    advisor_source_close(daemon->events);
    return kvt_error_set(err, rc, "source %s: %s", name, kvt_err_text(rc));
}

static enum kvt_err
open_other(struct advisor_daemon *daemon, const struct advisor_source_entry *entry,
           struct kvt_error *err)
{
    struct advisor_source_options options = entry->options;
    struct advisor_position position;
    struct wire_bus *bus = NULL;
    uint32_t number;
    enum kvt_err rc = advisor_round_source(daemon->round, options.name, &number, &position);

    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "source %s: too many names of sources were used",
                             options.name);
    options.seq = position.seq;
    options.created_ms = position.created_ms;
    options.bus = daemon->bus;
    if (entry->over_nats && entry->bus.url[0] != '\0') {
        rc = wire_bus_open(&bus, &entry->bus, err);
        if (rc != KVT_OK)
            return rc;
        options.bus = bus;
    }
    rc = advisor_sources_add(daemon->sources, entry->ops, &options, bus, number, err);
    if (rc != KVT_OK)
        wire_bus_close(bus);
    return rc;
}

static enum kvt_err
open_sources(struct advisor_daemon *daemon, const struct advisor_settings *settings,
             struct kvt_error *err)
{
    enum kvt_err rc = advisor_sources_new(&daemon->sources, daemon->metrics);

    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "sources: %s", kvt_err_text(rc));
    if (settings->sources_file == NULL || settings->sources_file[0] == '\0')
        return open_ours(daemon, settings->core ? &advisor_source_core : &advisor_source_jetstream,
                         "kvtier", err);
    rc = advisor_sources_file_load(&daemon->sources_file, settings->sources_file, err);
    for (size_t i = 0; rc == KVT_OK && i < advisor_sources_file_count(daemon->sources_file); i++) {
        const struct advisor_source_entry *entry = advisor_sources_file_at(daemon->sources_file, i);

        rc = advisor_source_is_canonical(entry->ops)
                 ? open_ours(daemon, entry->ops, entry->options.name, err)
                 : open_other(daemon, entry, err);
    }
    return rc;
}

static enum kvt_err
open_feeds(struct advisor_daemon *daemon, bool core, struct kvt_error *err)
{
    struct advisor_source_options reports = {
        .bus = daemon->bus, .stream = WIRE_STREAM_REPORTS, .subject = WIRE_SUBJECT_REPORTS_ALL};
    struct advisor_position events_at;
    struct advisor_position reports_at;
    struct advisor_feeds feeds;
    enum kvt_err rc;

    advisor_round_positions(daemon->round, &events_at, &reports_at);
    reports.seq = reports_at.seq;
    reports.created_ms = reports_at.created_ms;
    rc = advisor_source_open(&daemon->reports,
                             core ? &advisor_source_core : &advisor_source_jetstream, &reports);
    if (rc == KVT_OK)
        rc = advisor_outbox_new(&daemon->outbox, daemon->bus);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "read from NATS: %s", kvt_err_text(rc));
    feeds = (struct advisor_feeds){.sources = daemon->sources,
                                   .reports = daemon->reports,
                                   .outbox = daemon->outbox,
                                   .bus = daemon->bus,
                                   .workers = routed(daemon)};
    advisor_round_attach(daemon->round, &feeds);
    if (pthread_create(&daemon->thread, NULL, run, daemon) != 0)
        return kvt_error_set(err, KVT_NOMEM, "no thread for the engine");
    daemon->threaded = true;
    return KVT_OK;
}

/* What the page follows. */
static enum kvt_err
open_stream(struct advisor_daemon *daemon)
{
    const struct kvt_http_stream_options options = {
        .render = advisor_admin_render_overview,
        .arg = &daemon->pages,
        .every_ms = STREAM_EVERY_MS,
        .heartbeat_ms = STREAM_HEARTBEAT_MS,
        .slow_ms = STREAM_SLOW_MS,
        .subscriber_max = STREAM_SUBSCRIBERS_MAX,
        .current =
            kvt_metrics_add(daemon->metrics, KVT_METRIC_GAUGE, "kvtier_advisor_stream_subscribers",
                            "", "Who follows /v1/stream."),
        .dropped = kvt_metrics_add(daemon->metrics, KVT_METRIC_COUNTER,
                                   "kvtier_advisor_stream_dropped_total", "",
                                   "Followers of /v1/stream that were too slow."),
    };

    return kvt_http_stream_new(&daemon->stream, &options);
}

static enum kvt_err
open_fronts(struct advisor_daemon *daemon, const struct advisor_settings *settings,
            struct kvt_error *err)
{
    const struct kvt_http_options options = {
        .bind = settings->admin_bind,
        .port = settings->admin_port,
        .token = settings->admin_token,
        .routes = advisor_admin_routes,
        .route_count = advisor_admin_route_count,
        .arg = &daemon->pages,
        .ready = advisor_admin_ready,
        .metrics = daemon->metrics,
        .more_metrics = advisor_admin_more_metrics,
    };
    enum kvt_err rc;

    daemon->pages = (struct advisor_admin){
        .round = daemon->round,
        .router = daemon->router,
        .presence = daemon->presence,
        .planner = daemon->planner,
        .rulebook = daemon->rulebook,
        .jobs = daemon->jobs,
        .events = daemon->events,
        .sources = daemon->sources,
        .store = daemon->store,
        .finder = {.memory = advisor_round_memory(daemon->round),
                   .store = daemon->store,
                   .publishers = advisor_round_publishers(daemon->round)},
        .bus = daemon->bus,
        .counters = &daemon->counters,
        .conditions = &daemon->conditions,
        .tally = daemon->tally,
        .nats_url = settings->bus.url,
        .started_ms = kvt_clock_mono_ms(),
        .silent_after_ms = settings->silent_after_ms,
        .index_max = settings->index_max,
    };
    rc = open_stream(daemon);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "the stream of the page: %s", kvt_err_text(rc));
    daemon->pages.stream = daemon->stream;
    if (daemon->router != NULL)
        rc = advisor_router_thread_start(daemon->router_thread, daemon->router, daemon->bus,
                                         settings->route.group, err);
    if (rc == KVT_OK)
        rc = advisor_nats_responder_start(&daemon->responder, daemon->bus, &daemon->pages.finder,
                                          daemon->router, settings->route.group, &daemon->counters,
                                          err);
    daemon->pages.responder = daemon->responder;
    if (rc == KVT_OK)
        rc = kvt_http_start(&daemon->http, &options, err);
    return rc;
}

static enum kvt_err
write_ports(struct advisor_daemon *daemon, const char *path, struct kvt_error *err)
{
    char text[64];
    int size;

    if (path[0] == '\0')
        return KVT_OK;
    daemon->ports_file = kvt_strdup(path);
    if (daemon->ports_file == NULL)
        return kvt_error_set(err, KVT_NOMEM, "%s", path);
    size = snprintf(text, sizeof(text), "{\"pid\":%ld,\"admin\":%u}\n", (long)getpid(),
                    kvt_http_port(daemon->http));
    return kvt_file_write(path, text, (size_t)size, PORTS_FILE_MODE, err);
}

enum kvt_err
advisor_daemon_open(struct advisor_daemon **out, const struct advisor_settings *settings,
                    struct kvt_error *err)
{
    struct advisor_daemon *daemon = kvt_calloc(1, sizeof(*daemon));
    enum kvt_err rc;

    *out = NULL;
    if (daemon == NULL)
        return kvt_error_set(err, KVT_NOMEM, "advisor");
    daemon->order_keys = settings->order_keys;
    kvt_conditions_init(&daemon->conditions);
    rc = kvt_metrics_new(&daemon->metrics);
    if (rc != KVT_OK) {
        rc = kvt_error_set(err, rc, "metrics");
        goto fail;
    }
    advisor_counters_register(&daemon->counters, daemon->metrics);
    kvt_metric_set(daemon->counters.ram_max, (int64_t)settings->index_max);
    kvt_metric_set(daemon->counters.db_max, (int64_t)settings->db_max);
    rc = advisor_traffic_new(&daemon->tally, daemon->metrics);
    if (rc != KVT_OK) {
        rc = kvt_error_set(err, rc, "metrics");
        goto fail;
    }
    rc = wire_bus_open(&daemon->bus, &settings->bus, err);
    if (rc == KVT_OK)
        rc = restore(daemon, settings, err);
    if (rc == KVT_OK)
        rc = open_tables(daemon, settings, err);
    if (rc == KVT_OK)
        rc = open_router(daemon, &settings->route, err);
    if (rc == KVT_OK)
        rc = open_round(daemon, settings, err);
    if (rc == KVT_OK)
        rc = open_presence(daemon, &settings->route, err);
    if (rc == KVT_OK)
        rc = open_sources(daemon, settings, err);
    if (rc == KVT_OK)
        rc = open_feeds(daemon, settings->core, err);
    if (rc == KVT_OK)
        rc = open_nats_snapshot(daemon, settings, err);
    if (rc == KVT_OK)
        rc = open_fronts(daemon, settings, err);
    if (rc == KVT_OK)
        rc = write_ports(daemon, settings->ports_file, err);
    if (rc != KVT_OK)
        goto fail;
    *out = daemon;
    return KVT_OK;

fail:
    advisor_daemon_close(daemon);
    return rc;
}

void
advisor_daemon_close(struct advisor_daemon *daemon)
{
    if (daemon == NULL)
        return;
    if (daemon->ports_file != NULL)
        (void)unlink(daemon->ports_file);
    atomic_store(&daemon->pages.stopping, true);
    kvt_http_stream_close(daemon->stream);
    kvt_http_stop(daemon->http);
    kvt_http_stream_free(daemon->stream);
    advisor_nats_responder_stop(daemon->responder);
    advisor_router_thread_free(daemon->router_thread);
    advisor_nats_snapshot_stop(daemon->nats_snapshot);
    atomic_store(&daemon->stopping, true);
    if (daemon->round != NULL)
        advisor_round_cancel(daemon->round);
    if (daemon->threaded)
        (void)pthread_join(daemon->thread, NULL);
    advisor_sources_stop(daemon->sources); /* the outbox may be asking one */
    advisor_outbox_free(daemon->outbox);
    advisor_source_close(daemon->reports);
    advisor_sources_free(daemon->sources);
    advisor_sources_file_free(daemon->sources_file);
    advisor_presence_close(daemon->presence);
    wire_bus_close(daemon->bus);
    advisor_round_free(daemon->round);
    advisor_router_free(daemon->router);
    advisor_jobs_free(daemon->jobs);
    advisor_planner_free(daemon->planner);
    advisor_traffic_free(daemon->tally);
    index_free(daemon->index);
    advisor_rulebook_free(daemon->rulebook);
    advisor_store_close(daemon->store);
    kvt_metrics_free(daemon->metrics);
    kvt_free(daemon->ports_file);
    wire_key_ring_wipe(&daemon->order_keys);
    kvt_conditions_release(&daemon->conditions);
    kvt_free(daemon);
}

void
advisor_daemon_reload(struct advisor_daemon *daemon)
{
    struct kvt_error err;

    if (daemon->policy_file[0] == '\0') {
        kvt_log_info("advisor.daemon", "reloaded", "nothing: there is no policy.file");
        return;
    }
    if (advisor_rulebook_reload(daemon->rulebook, advisor_round_writer_calls(daemon->round),
                                daemon->policy_file, &err) != KVT_OK)
        return; /* it is in the log, and in the status */
}

uint16_t
advisor_daemon_port(const struct advisor_daemon *daemon)
{
    return kvt_http_port(daemon->http);
}

enum kvt_err
advisor_daemon_failed(struct advisor_daemon *daemon, struct kvt_error *err)
{
    const enum kvt_err rc = atomic_load(&daemon->failed);

    if (rc != KVT_OK)
        *err = daemon->why;
    return rc;
}
