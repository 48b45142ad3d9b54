#include "worker/replay/replay.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/thread/queue.h"
#include "wire/message/trace.h"

#include "worker/replay/request_server.h"

enum {
    FEED_WAIT = 100,     /* ms between looks at the stop flag */
    TAKE_WAIT = 1000,    /* ms a worker waits before it looks whether its queue was closed */
    DRAIN_EXTRA = 30000, /* ms beyond the gateway's retry time that offloading may take to rest */
    DRAIN_SLICE = 2000,  /* ms between looks at the stop flag meanwhile */
    FLUSH_WAIT = 10000,  /* ms for the last events to be acknowledged */
};

/* A request on its way to its worker. */
struct job {
    uint32_t count;
    uint64_t hashes[];
};

struct lane {
    struct worker_replay *replay;
    struct worker_stack *stack;
    struct kvt_queue *queue;
    struct worker_request_server *serve;
    pthread_t thread;
    bool started;
};

struct worker_replay {
    const struct worker_settings *settings;
    struct lane *lanes;
    uint32_t lane_count;
    struct wire_trace *trace;
    pthread_t feeder;
    bool feeding;
    _Atomic bool stop;
    _Atomic uint64_t total;
    _Atomic uint64_t fed;
    _Atomic uint64_t bad_lines;
    _Atomic bool finished;
    _Atomic bool drained;
    _Atomic bool failed;

    struct {
        pthread_mutex_t lock; /* guards this struct */
        char error[KVT_ERROR_TEXT_MAX];
    } first;
};

static void
note_error(struct worker_replay *replay, const char *text)
{
    (void)pthread_mutex_lock(&replay->first.lock);
    if (replay->first.error[0] == '\0')
        (void)snprintf(replay->first.error, sizeof(replay->first.error), "%s", text);
    (void)pthread_mutex_unlock(&replay->first.lock);
}

static void *
run_lane(void *arg)
{
    struct lane *lane = arg;

    for (;;) {
        struct job *job;
        void *item;

        if (kvt_queue_take(lane->queue, &item, 1, TAKE_WAIT) == 0) {
            if (kvt_queue_closed(lane->queue) && kvt_queue_count(lane->queue) == 0)
                return NULL;
            continue;
        }
        job = item;
        if (atomic_load(&lane->replay->stop)) {
            kvt_free(job);
            continue;
        }
        if (worker_request_server_run(lane->serve, job->hashes, job->count) != KVT_OK)
            kvt_log_error("worker.replay", "no_memory",
                          "%s: a request of %" PRIu32 " blocks was not served", lane->stack->name,
                          job->count);
        kvt_free(job);
    }
}

/* Is request `number` one of this process's? */
static bool
ours(const struct worker_settings *settings, uint64_t number)
{
    return number % settings->shards == settings->shard;
}

/* How many requests there will be, for whoever shows progress: a read ahead of the whole file. */
static void
count_ahead(struct worker_replay *replay)
{
    const struct worker_settings *settings = replay->settings;
    struct wire_trace_request request;
    struct wire_trace *trace;
    uint64_t number = 0;
    uint64_t count = 0;
    enum kvt_err rc;

    if (strcmp(settings->trace, "-") == 0 ||
        wire_trace_open(&trace, settings->trace, NULL) != KVT_OK)
        return;
    for (;;) {
        rc = wire_trace_next(trace, &request, NULL);
        if (rc == KVT_INVALID || rc == KVT_RANGE)
            continue;
        if (rc != KVT_OK || atomic_load(&replay->stop) ||
            (settings->until_ms > 0 && request.timestamp_ms >= settings->until_ms))
            break;
        if (ours(settings, number++))
            count++;
    }
    wire_trace_close(trace);
    atomic_store(&replay->total, count);
}

/* Wait until trace time `timestamp_ms` has come; false when told to stop. */
static bool
keep_time(struct worker_replay *replay, uint64_t start_ms, uint64_t timestamp_ms)
{
    const double speed = replay->settings->speed;
    uint64_t due_ms;

    if (speed <= 0)
        return !atomic_load(&replay->stop);
    due_ms = start_ms + (uint64_t)((double)timestamp_ms / speed);
    while (!atomic_load(&replay->stop)) {
        const uint64_t now_ms = kvt_clock_mono_ms();

        if (now_ms >= due_ms)
            return true;
        kvt_clock_sleep_ms(due_ms - now_ms < FEED_WAIT ? due_ms - now_ms : FEED_WAIT);
    }
    return false;
}

/* Hand one request over; false when told to stop, or out of memory. */
static bool
feed(struct worker_replay *replay, const struct wire_trace_request *request, uint64_t number)
{
    struct lane *lane = &replay->lanes[number / replay->settings->shards % replay->lane_count];
    struct job *job = kvt_calloc(1, sizeof(*job) + request->hash_count * sizeof(job->hashes[0]));
    enum kvt_err rc;

    if (job == NULL) {
        note_error(replay, "out of memory");
        return false;
    }
    job->count = request->hash_count;
    wire_trace_chain(request, replay->settings->salt, job->hashes);
    do
        rc = kvt_queue_put_wait(lane->queue, job, FEED_WAIT);
    while (rc == KVT_TIMEOUT && !atomic_load(&replay->stop));
    if (rc != KVT_OK) {
        kvt_free(job);
        return false;
    }
    atomic_fetch_add(&replay->fed, 1);
    return true;
}

static void
feed_all(struct worker_replay *replay)
{
    const struct worker_settings *settings = replay->settings;
    const uint64_t start_ms = kvt_clock_mono_ms();
    struct wire_trace_request request;
    struct kvt_error err;
    uint64_t number = 0;

    for (;;) {
        const enum kvt_err rc = wire_trace_next(replay->trace, &request, &err);

        if (rc == KVT_NOTFOUND)
            return;
        if (rc == KVT_INVALID || rc == KVT_RANGE) {
            atomic_fetch_add(&replay->bad_lines, 1);
            note_error(replay, err.text);
            kvt_log_error("worker.replay", "bad_line", "%s", err.text);
            continue;
        }
        if (rc != KVT_OK) {
            atomic_store(&replay->failed, true);
            note_error(replay, err.text);
            kvt_log_error("worker.replay", "trace_unreadable", "%s", err.text);
            return;
        }
        if (settings->until_ms > 0 && request.timestamp_ms >= settings->until_ms)
            return;
        if (ours(settings, number) &&
            (!keep_time(replay, start_ms, request.timestamp_ms) || !feed(replay, &request, number)))
            return;
        number++;
    }
}

/* Wait until nothing of this worker is on its way down; not when told to stop. */
static bool
drain(const struct worker_replay *replay, const struct lane *lane)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + replay->settings->retry_ms + DRAIN_EXTRA;

    while (!atomic_load(&replay->stop) && kvt_clock_mono_ms() < until_ms)
        if (kvbm_manager_drain(lane->stack->manager, DRAIN_SLICE))
            return true;
    return false;
}

/* Everything on its way down lands, and every event is handed over. */
static bool
settle(struct worker_replay *replay)
{
    bool drained = true;

    for (uint32_t i = 0; i < replay->lane_count; i++)
        drained = drain(replay, &replay->lanes[i]) && drained;
    for (uint32_t i = 0; i < replay->lane_count; i++) {
        struct wire_event_publisher *publisher = replay->lanes[i].stack->ledger.publisher;

        if (publisher != NULL && wire_event_publisher_flush(publisher, FLUSH_WAIT) != KVT_OK) {
            kvt_log_warn("worker.replay", "events_waiting", "%s: not every event is acknowledged",
                         replay->lanes[i].stack->name);
            drained = false;
        }
    }
    return drained;
}

static void *
run_feeder(void *arg)
{
    struct worker_replay *replay = arg;

    count_ahead(replay);
    feed_all(replay);
    for (uint32_t i = 0; i < replay->lane_count; i++)
        kvt_queue_close(replay->lanes[i].queue);
    for (uint32_t i = 0; i < replay->lane_count; i++) {
        if (replay->lanes[i].started)
            (void)pthread_join(replay->lanes[i].thread, NULL);
        replay->lanes[i].started = false;
    }
    atomic_store(&replay->drained, settle(replay));
    atomic_store(&replay->finished, true);
    return NULL;
}

void
worker_replay_stop(struct worker_replay *replay)
{
    atomic_store(&replay->stop, true);
    if (replay->feeding)
        (void)pthread_join(replay->feeder, NULL);
    replay->feeding = false;
}

void
worker_replay_free(struct worker_replay *replay)
{
    if (replay == NULL)
        return;
    worker_replay_stop(replay);
    for (uint32_t i = 0; replay->lanes != NULL && i < replay->lane_count; i++) {
        struct lane *lane = &replay->lanes[i];

        /* A lane still runs only when starting failed half-way: nobody else closes its queue. */
        if (lane->queue != NULL)
            kvt_queue_close(lane->queue);
        if (lane->started)
            (void)pthread_join(lane->thread, NULL);
        worker_request_server_free(lane->serve);
        kvt_queue_free(lane->queue);
    }
    wire_trace_close(replay->trace);
    (void)pthread_mutex_destroy(&replay->first.lock);
    kvt_free(replay->lanes);
    kvt_free(replay);
}

static enum kvt_err
start_lane(struct lane *lane, struct kvt_error *err)
{
    enum kvt_err rc;
    int sys;

    rc = kvt_queue_new(&lane->queue, WORKER_REPLAY_QUEUE);
    if (rc == KVT_OK)
        rc = worker_request_server_new(&lane->serve, lane->stack);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "%s", lane->stack->name);
    sys = pthread_create(&lane->thread, NULL, run_lane, lane);
    if (sys != 0)
        return kvt_error_sys(err, sys, "%s: thread", lane->stack->name);
    lane->started = true;
    return KVT_OK;
}

enum kvt_err
worker_replay_start(struct worker_replay **out, const struct worker_settings *settings,
                    struct worker_stack *const *stacks, uint32_t count, struct kvt_error *err)
{
    struct worker_replay *replay;
    enum kvt_err rc;
    int sys;

    *out = NULL;
    replay = kvt_calloc(1, sizeof(*replay));
    if (replay == NULL)
        return kvt_error_set(err, KVT_NOMEM, "replay");
    replay->settings = settings;
    if (pthread_mutex_init(&replay->first.lock, NULL) != 0) {
        kvt_free(replay);
        return kvt_error_set(err, KVT_NOMEM, "replay");
    }
    replay->lanes = kvt_calloc(count, sizeof(*replay->lanes));
    if (replay->lanes == NULL) {
        rc = kvt_error_set(err, KVT_NOMEM, "replay");
        goto fail;
    }
    replay->lane_count = count;
    rc = wire_trace_open(&replay->trace, settings->trace, err);
    for (uint32_t i = 0; rc == KVT_OK && i < count; i++) {
        replay->lanes[i].replay = replay;
        replay->lanes[i].stack = stacks[i];
        rc = start_lane(&replay->lanes[i], err);
    }
    if (rc != KVT_OK)
        goto fail;
    sys = pthread_create(&replay->feeder, NULL, run_feeder, replay);
    if (sys != 0) {
        rc = kvt_error_sys(err, sys, "replay thread");
        goto fail;
    }
    replay->feeding = true;
    *out = replay;
    return KVT_OK;

fail:
    worker_replay_free(replay);
    return rc;
}

void
worker_replay_status(struct worker_replay *replay, struct worker_replay_status *status)
{
    memset(status, 0, sizeof(*status));
    status->requests_total = atomic_load(&replay->total);
    status->requests_fed = atomic_load(&replay->fed);
    for (uint32_t i = 0; i < replay->lane_count; i++)
        status->requests_done += worker_counter_read(&replay->lanes[i].stack->counters.requests);
    status->bad_lines = atomic_load(&replay->bad_lines);
    status->finished = atomic_load(&replay->finished);
    status->drained = atomic_load(&replay->drained);
    status->failed = atomic_load(&replay->failed);
    (void)pthread_mutex_lock(&replay->first.lock);
    (void)snprintf(status->error, sizeof(status->error), "%s", replay->first.error);
    (void)pthread_mutex_unlock(&replay->first.lock);
}
