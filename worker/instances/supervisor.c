#include "worker/instances/supervisor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config/program.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "base/core/log.h"
#include "base/thread/queue.h"
#include "kvbm/cuda/cuda_driver.h"
#include "wire/message/trace.h"

#include "engine/rpc/rpc.h"
#include "worker/instances/instance_stats.h"
#include "worker/instances/leader_process.h"
#include "worker/instances/run_folder.h"
#include "worker/instances/supervisor_internal.h"

enum {
    TICK = 20,           /* ms between looks at processes and trace */
    SERVE_WAIT = 600000, /* ms for one request */
};

/* ---- requests ---- */

/* engine_rpc_done_fn */
static void
on_answer(void *arg, const struct engine_rpc_reply *reply)
{
    struct worker_supervisor_slot *slot = arg;
    struct worker_message message = {.bytes = reply->bytes, .size = reply->size};

    slot->status = reply->status;
    if (reply->status == KVT_OK) {
        worker_instance_stats_get(&slot->stats, &message);
        if (!worker_message_end(&message))
            slot->status = KVT_INVALID;
    }
    if (kvt_queue_put(slot->supervisor->answers, slot) != KVT_OK)
        abort(); /* it has room for all slots */
}

static bool
give(struct worker_supervisor *supervisor, struct worker_supervisor_slot *slot)
{
    struct worker_supervisor_instance *instance = &supervisor->instances[slot->instance];
    struct kvt_buffer question;
    enum kvt_err rc = KVT_NOMEM;

    if (!instance->up || instance->busy >= WORKER_SUPERVISOR_WINDOW ||
        kvt_clock_mono_ms() < slot->rests_ms)
        return false;
    kvt_buffer_init(&question, ENGINE_RPC_PAYLOAD_MAX);
    worker_message_put(&question, slot->count);
    for (size_t i = 0; i < slot->count; i++)
        worker_message_put(&question, slot->ids[i]);
    slot->life = instance->life.number;
    if (kvt_buffer_ok(&question))
        rc = engine_rpc_start(instance->client,
                              &(struct engine_rpc_request){.method = WORKER_SUPERVISOR_SERVE,
                                                           .bytes = question.data,
                                                           .size = question.size,
                                                           .wait_ms = SERVE_WAIT,
                                                           .done = on_answer,
                                                           .arg = slot},
                              NULL);
    kvt_buffer_release(&question);
    if (rc != KVT_OK)
        return false;
    slot->state = WORKER_SUPERVISOR_SLOT_AWAY;
    instance->busy++;
    return true;
}

uint64_t
worker_supervisor_rest_ms(uint32_t failures)
{
    uint64_t rest_ms = WORKER_SUPERVISOR_REST_MIN_MS;

    for (uint32_t i = 1; i < failures && rest_ms < WORKER_SUPERVISOR_REST_MAX_MS; i++)
        rest_ms *= 2;
    return rest_ms < WORKER_SUPERVISOR_REST_MAX_MS ? rest_ms : WORKER_SUPERVISOR_REST_MAX_MS;
}

/* It is given again, later each time: what refuses it is not helped by being asked at once. */
static void
rest(struct worker_supervisor *supervisor, struct worker_supervisor_slot *slot)
{
    slot->rests_ms = kvt_clock_mono_ms() + worker_supervisor_rest_ms(++slot->failures);
    slot->state = WORKER_SUPERVISOR_SLOT_WAITS;
    supervisor->again++;
}

/* It was served by one instance: by the next one now, or it is done. */
static void
go_on(struct worker_supervisor *supervisor, struct worker_supervisor_slot *slot)
{
    if (supervisor->plan->split && slot->instance % 2 == 0) {
        slot->instance++;
        slot->state = WORKER_SUPERVISOR_SLOT_WAITS;
        return;
    }
    slot->state = WORKER_SUPERVISOR_SLOT_FREE;
    supervisor->served++;
    kvt_free(slot->ids);
    slot->ids = NULL;
}

static void
take_answers(struct worker_supervisor *supervisor, uint64_t wait_ms)
{
    void *items[16];
    const size_t count = kvt_queue_take(supervisor->answers, items, 16, wait_ms);

    for (size_t i = 0; i < count; i++) {
        struct worker_supervisor_slot *slot = items[i];
        struct worker_supervisor_instance *instance = &supervisor->instances[slot->instance];

        instance->busy--;
        if (slot->status != KVT_OK) {
            rest(supervisor, slot);
            continue;
        }
        slot->failures = 0;
        slot->rests_ms = 0;
        if (slot->life == instance->life.number && slot->stats.requests >= instance->stats.requests)
            instance->stats = slot->stats;
        instance->starts = 0;
        go_on(supervisor, slot);
    }
}

static bool
is_ours(const struct worker_supervisor *supervisor, uint64_t number)
{
    const struct worker_settings *settings = supervisor->plan->settings;

    return number % settings->shards == settings->shard;
}

/* The next request of the trace into a free slot; false: there is none now, or no more. */
static bool
read_one(struct worker_supervisor *supervisor, struct worker_supervisor_slot *slot)
{
    const struct worker_settings *settings = supervisor->plan->settings;
    const uint32_t targets =
        supervisor->plan->split ? supervisor->plan->instances / 2 : supervisor->plan->instances;
    struct wire_trace_request request;
    struct kvt_error err;
    enum kvt_err rc;

    do {
        rc = wire_trace_next(supervisor->trace, &request, &err);
        if (rc == KVT_INVALID || rc == KVT_RANGE) {
            supervisor->bad_lines++;
            kvt_log_error("worker.instance", "bad_line", "%s", err.text);
        }
    } while (rc == KVT_INVALID || rc == KVT_RANGE ||
             (rc == KVT_OK && !is_ours(supervisor, supervisor->read++)));
    supervisor->ended =
        rc != KVT_OK || (settings->until_ms > 0 && request.timestamp_ms >= settings->until_ms);
    if (rc != KVT_OK && rc != KVT_NOTFOUND) {
        supervisor->rc = rc;
        supervisor->err = err;
    }
    if (supervisor->ended)
        return false;
    slot->ids = kvt_calloc(request.hash_count + 1, sizeof(*slot->ids));
    if (slot->ids == NULL) {
        supervisor->rc = kvt_error_set(&supervisor->err, KVT_NOMEM, "a request");
        supervisor->ended = true;
        return false;
    }
    memcpy(slot->ids, request.hash_ids, request.hash_count * sizeof(*slot->ids));
    slot->count = request.hash_count;
    slot->instance = (uint32_t)(supervisor->fed++ % targets) * (supervisor->plan->split ? 2 : 1);
    slot->state = WORKER_SUPERVISOR_SLOT_WAITS;
    return true;
}

/* Whoever waits is given; true: something is under way, or will be. */
static bool
feed(struct worker_supervisor *supervisor)
{
    bool busy = false;

    for (size_t i = 0; i < supervisor->slot_count; i++) {
        struct worker_supervisor_slot *slot = &supervisor->slots[i];

        if (slot->state == WORKER_SUPERVISOR_SLOT_FREE && !supervisor->ended)
            (void)read_one(supervisor, slot);
        if (slot->state == WORKER_SUPERVISOR_SLOT_WAITS)
            (void)give(supervisor, slot);
        busy = busy || slot->state != WORKER_SUPERVISOR_SLOT_FREE;
    }
    return busy || !supervisor->ended;
}

/* ---- the end ---- */

static void
say_finished(const struct worker_supervisor *supervisor)
{
    const struct worker_instance_stats sum = worker_supervisor_sum(supervisor);

    kvt_log_info("worker.instance", "finished",
                 "%" PRIu64 " requests served, %" PRIu64
                 " blocks pulled from other instances, %" PRIu64 " shards compared, %" PRIu64
                 " wrong bytes",
                 supervisor->served, sum.hits_peer, sum.compared, sum.wrong_bytes);
}

static enum kvt_err
write_report(const struct worker_supervisor *supervisor, struct kvt_error *err)
{
    struct kvt_buffer text;
    enum kvt_err rc = KVT_NOMEM;

    if (supervisor->plan->settings->report[0] == '\0')
        return KVT_OK;
    kvt_buffer_init(&text, 64 << 10);
    worker_supervisor_format(supervisor, &text);
    if (kvt_buffer_ok(&text))
        rc = kvt_file_write(supervisor->plan->settings->report, text.data, text.size, 0644, err);
    else
        (void)kvt_error_set(err, rc, "report");
    kvt_buffer_release(&text);
    return rc;
}

static enum kvt_err
verdict(const struct worker_supervisor *supervisor, struct kvt_error *err)
{
    const struct worker_instance_stats sum = worker_supervisor_sum(supervisor);

    if (sum.wrong_bytes > 0)
        return kvt_error_set(err, KVT_CORRUPT, "%" PRIu64 " wrong bytes were read",
                             sum.wrong_bytes);
    if (supervisor->rc != KVT_OK) {
        *err = supervisor->err;
        return supervisor->rc;
    }
    if (supervisor->bad_lines > 0)
        return kvt_error_set(err, KVT_INVALID, "%" PRIu64 " bad lines in the trace",
                             supervisor->bad_lines);
    return KVT_OK;
}

static enum kvt_err
open_supervisor(struct worker_supervisor *supervisor, struct kvt_error *err)
{
    const struct worker_instance_plan *plan = supervisor->plan;
    enum kvt_err rc = wire_trace_open(&supervisor->trace, plan->settings->trace, err);

    supervisor->slot_count = (size_t)plan->instances * WORKER_SUPERVISOR_WINDOW * 2;
    if (rc == KVT_OK)
        rc = kvt_queue_new(&supervisor->answers, supervisor->slot_count + 1);
    supervisor->slots = kvt_calloc(supervisor->slot_count, sizeof(*supervisor->slots));
    if (rc == KVT_OK && supervisor->slots == NULL)
        rc = kvt_error_set(err, KVT_NOMEM, "requests");
    for (size_t i = 0; i < supervisor->slot_count && rc == KVT_OK; i++)
        supervisor->slots[i].supervisor = supervisor;
    for (uint32_t i = 0; i < plan->instances && rc == KVT_OK; i++)
        supervisor->instances[i].life = (struct worker_processes){.plan = plan, .instance = i};
    return rc;
}

static void
close_supervisor(struct worker_supervisor *supervisor)
{
    struct worker_processes *lives[WORKER_INSTANCES_MAX];

    for (uint32_t i = 0; i < supervisor->plan->instances; i++)
        lives[i] = &supervisor->instances[i].life;
    worker_processes_ask(lives, supervisor->plan->instances, WORKER_SUPERVISOR_END_MS);
    for (uint32_t i = 0; i < supervisor->plan->instances; i++)
        worker_supervisor_stop(supervisor, i);
    for (size_t i = 0; i < supervisor->slot_count && supervisor->slots != NULL; i++)
        kvt_free(supervisor->slots[i].ids);
    kvt_free(supervisor->slots);
    kvt_queue_free(supervisor->answers);
    wire_trace_close(supervisor->trace);
}

/* What all ranks would stumble over is said once, before there are any. */
static enum kvt_err
open_disk(const struct worker_instance_plan *plan, struct kvt_error *err)
{
    const struct worker_settings *settings = plan->settings;
    struct kvt_error why;
    enum kvt_err rc;

    if (settings->g3_blocks == 0)
        return KVT_OK;
    rc = kvt_folder_make(settings->g3_dir, &why);
    if (rc == KVT_OK && access(settings->g3_dir, W_OK | X_OK) != 0)
        return kvt_error_sys(err, errno, "g3.dir: no files can be made in %s", settings->g3_dir);
    return rc == KVT_OK ? KVT_OK : kvt_error_set(err, rc, "g3.dir: %s", why.text);
}

static enum kvt_err
check_gpu(const struct worker_instance_plan *plan, struct kvt_error *err)
{
    struct kvbm_cuda *cuda;
    enum kvt_err rc;

    if (plan->settings->gpu != WORKER_GPU_REQUIRE)
        return KVT_OK;
    rc = kvbm_cuda_open(&cuda, KVBM_CUDA_LIBRARY, 0, err);
    kvbm_cuda_close(cuda); /* ranks open their own */
    return rc;
}

enum kvt_err
worker_supervisor_run(const struct worker_instance_plan *given, struct kvt_error *err)
{
    struct worker_instance_plan plan = *given;
    struct worker_supervisor supervisor = {.plan = &plan};
    struct worker_run_folder folder;
    bool going = true;
    enum kvt_err rc = worker_run_folder_open(&folder, given->folder, err);

    plan.folder = folder.path;
    if (rc == KVT_OK)
        rc = open_disk(&plan, err);
    if (rc == KVT_OK)
        rc = check_gpu(&plan, err);
    if (rc == KVT_OK)
        rc = open_supervisor(&supervisor, err);
    if (rc == KVT_OK)
        rc = worker_supervisor_open_admin(&supervisor, err);
    if (rc == KVT_OK)
        kvt_program_ready("starting instances");
    while (rc == KVT_OK && going && !kvt_program_wait(0)) {
        rc = worker_supervisor_look_after(&supervisor, err);
        going = feed(&supervisor) && supervisor.rc == KVT_OK;
        worker_supervisor_show(&supervisor);
        take_answers(&supervisor, TICK);
    }
    supervisor.finished = rc == KVT_OK && !going;
    worker_supervisor_show(&supervisor);
    if (supervisor.finished)
        say_finished(&supervisor);
    while (rc == KVT_OK && plan.settings->stay && !kvt_program_wait(TICK)) {
        rc = worker_supervisor_look_after(&supervisor, err);
        worker_supervisor_show(&supervisor);
    }
    if (rc == KVT_OK)
        rc = write_report(&supervisor, err);
    if (rc == KVT_OK)
        rc = verdict(&supervisor, err);
    worker_supervisor_close_admin(&supervisor);
    if (supervisor.slots != NULL || supervisor.trace != NULL)
        close_supervisor(&supervisor);
    worker_run_folder_close(&folder);
    return rc;
}
