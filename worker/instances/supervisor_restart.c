#include <inttypes.h>
#include <string.h>

#include "base/core/clock.h"
#include "base/core/log.h"

#include "worker/instances/leader_process.h"
#include "worker/instances/supervisor_internal.h"

enum {
    ASK_EVERY = 500,  /* ms between questions for figures */
    ASK_WAIT = 300,   /* ms */
    TELL_EVERY = 500, /* ms, of what was refused */
    TELL_WAIT = 10000,
};

/* ---- starting and ending ---- */

static enum kvt_err
start(struct worker_supervisor *supervisor, uint32_t number, struct kvt_error *err)
{
    struct worker_supervisor_instance *instance = &supervisor->instances[number];
    char endpoint[WORKER_INSTANCE_ENDPOINT];
    enum kvt_err rc;

    if (instance->starts++ >= WORKER_SUPERVISOR_STARTS)
        return kvt_error_set(err, KVT_UNAVAILABLE,
                             "instance %" PRIu32 " ended %d times without a request served", number,
                             WORKER_SUPERVISOR_STARTS);
    rc = worker_processes_start(&instance->life, err);
    if (rc != KVT_OK)
        return rc;
    instance->lives++;
    worker_instance_plan_endpoint(supervisor->plan, WORKER_DOOR_FRONT, number,
                                  WORKER_INSTANCE_LEADER, endpoint);
    return engine_rpc_client_open(&instance->client,
                                  &(struct engine_rpc_client_options){.endpoint = endpoint}, err);
}

/* What its last answers say, which nobody has taken yet.  All of its calls have come back. */
static void
hear_last(const struct worker_supervisor *supervisor, uint64_t life,
          struct worker_supervisor_instance *instance)
{
    for (size_t i = 0; i < supervisor->slot_count && supervisor->slots != NULL; i++) {
        const struct worker_supervisor_slot *slot = &supervisor->slots[i];

        if (slot->state == WORKER_SUPERVISOR_SLOT_AWAY && slot->life == life &&
            slot->status == KVT_OK && slot->stats.requests >= instance->stats.requests)
            instance->stats = slot->stats;
    }
}

void
worker_supervisor_stop(struct worker_supervisor *supervisor, uint32_t number)
{
    struct worker_supervisor_instance *instance = &supervisor->instances[number];
    const uint64_t life = instance->life.number;

    worker_processes_end(&instance->life);
    engine_rpc_client_close(instance->client); /* calls that go on come back */
    instance->client = NULL;
    instance->up = false;
    instance->silent_ms = 0;
    hear_last(supervisor, life, instance);
    worker_instance_stats_end(&instance->stats);
    worker_instance_stats_add(&instance->past, &instance->stats);
    instance->stats = (struct worker_instance_stats){0};
    instance->broadcast.known = false;
    for (uint32_t i = 0; i < WORKER_INSTANCES_MAX; i++)
        atomic_store(&instance->peers[i].known, 0);
}

/* ---- who knows whom ---- */

/* engine_rpc_done_fn */
static void
on_told(void *arg, const struct engine_rpc_reply *reply)
{
    struct worker_supervisor_word *word = arg;

    if (reply->status == KVT_OK)
        atomic_store(&word->known, word->life);
    atomic_store(&word->away, false);
}

static void
tell(struct worker_supervisor_instance *instance, uint32_t number, uint64_t life)
{
    struct worker_supervisor_word *word = &instance->peers[number];
    const uint64_t now_ms = kvt_clock_mono_ms();
    struct kvt_buffer question;
    enum kvt_err rc = KVT_NOMEM;

    if (atomic_load(&word->away) || atomic_load(&word->known) == life ||
        (word->life == life && now_ms - word->told_ms < TELL_EVERY))
        return;
    word->told_ms = now_ms;
    kvt_buffer_init(&question, 64);
    worker_message_put(&question, number);
    worker_message_put(&question, life);
    word->life = life;
    atomic_store(&word->away, true);
    if (kvt_buffer_ok(&question))
        rc = engine_rpc_start(instance->client,
                              &(struct engine_rpc_request){.method = WORKER_SUPERVISOR_PEER,
                                                           .bytes = question.data,
                                                           .size = question.size,
                                                           .wait_ms = TELL_WAIT,
                                                           .done = on_told,
                                                           .arg = word},
                              NULL);
    if (rc != KVT_OK)
        atomic_store(&word->away, false);
    kvt_buffer_release(&question);
}

static void
tell_all(struct worker_supervisor *supervisor)
{
    for (uint32_t i = 0; i < supervisor->plan->instances; i++)
        for (uint32_t k = 0; k < supervisor->plan->instances; k++)
            if (i != k && supervisor->instances[i].up && supervisor->instances[k].up)
                tell(&supervisor->instances[i], k, supervisor->instances[k].life.number);
}

static void
read_broadcast(struct worker_message *message, struct worker_supervisor_broadcast *out)
{
    const uint8_t *why;
    uint64_t way;
    size_t size;

    *out = (struct worker_supervisor_broadcast){.known = worker_message_get(message) == 1};
    if (!out->known)
        return;
    way = worker_message_get(message);
    why = worker_message_get_bytes(message, &size);
    message->bad = message->bad || way >= ENGINE_WAYS || size >= sizeof(out->why);
    if (message->bad)
        return;
    out->way = (enum engine_way)way;
    if (size > 0)
        memcpy(out->why, why, size);
}

static void
ask(struct worker_supervisor_instance *instance)
{
    struct worker_supervisor_broadcast broadcast;
    struct worker_instance_stats stats;
    struct kvt_buffer answer;
    struct worker_message message;

    kvt_buffer_init(&answer, 4096);
    if (engine_rpc_run(
            instance->client,
            &(struct engine_rpc_request){.method = WORKER_SUPERVISOR_STATUS, .wait_ms = ASK_WAIT},
            &answer, NULL) == KVT_OK) {
        message = (struct worker_message){.bytes = answer.data, .size = answer.size};
        worker_instance_stats_get(&stats, &message);
        read_broadcast(&message, &broadcast);
        if (worker_message_end(&message)) {
            instance->stats = stats;
            instance->broadcast = broadcast;
        }
    }
    kvt_buffer_release(&answer);
}

/* Is its leader there, and since when is it not? */
static void
listen_to(struct worker_supervisor_instance *instance, uint32_t number, uint64_t now_ms)
{
    const bool linked = engine_rpc_client_link(instance->client) != 0;

    if (linked)
        instance->silent_ms = 0;
    else if (instance->up && instance->silent_ms == 0)
        instance->silent_ms = now_ms;
    if (instance->up || !linked)
        return;
    instance->up = instance->was_up = true;
    kvt_log_info("worker.instance", "up", "instance %" PRIu32 ", start %" PRIu64, number,
                 instance->lives);
}

/* Processes that are there and do not go on would keep their requests for good. */
static bool
is_silent(const struct worker_supervisor_instance *instance, uint32_t number, uint64_t now_ms)
{
    if (instance->silent_ms == 0 || now_ms - instance->silent_ms < WORKER_SUPERVISOR_SILENCE_MS)
        return false;
    kvt_log_warn("worker.instance", "silent", "instance %" PRIu32 ": its leader says nothing",
                 number);
    return true;
}

enum kvt_err
worker_supervisor_look_after(struct worker_supervisor *supervisor, struct kvt_error *err)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    const bool ask_now = now_ms - supervisor->asked_ms >= ASK_EVERY;

    for (uint32_t i = 0; i < supervisor->plan->instances; i++) {
        struct worker_supervisor_instance *instance = &supervisor->instances[i];
        enum kvt_err rc = KVT_OK;

        if (instance->life.number != 0 &&
            (worker_processes_is_over(&instance->life) || is_silent(instance, i, now_ms))) {
            worker_supervisor_stop(supervisor, i);
            if (instance->life.gave_up && !instance->was_up)
                return kvt_error_set(
                    err, KVT_UNAVAILABLE,
                    "instance %" PRIu32 " cannot be started; a process of it has said why", i);
        }
        if (instance->life.number == 0)
            rc = start(supervisor, i, err);
        if (rc != KVT_OK)
            return rc;
        listen_to(instance, i, now_ms);
        if (instance->up && ask_now)
            ask(instance);
    }
    if (ask_now)
        supervisor->asked_ms = now_ms;
    tell_all(supervisor);
    return KVT_OK;
}

/* ---- what they have done ---- */

struct worker_instance_stats
worker_supervisor_stats_of(const struct worker_supervisor *supervisor, uint32_t number)
{
    struct worker_instance_stats sum = supervisor->instances[number].past;

    worker_instance_stats_add(&sum, &supervisor->instances[number].stats);
    return sum;
}

struct worker_instance_stats
worker_supervisor_sum(const struct worker_supervisor *supervisor)
{
    struct worker_instance_stats sum = {0};

    for (uint32_t i = 0; i < supervisor->plan->instances; i++) {
        const struct worker_instance_stats one = worker_supervisor_stats_of(supervisor, i);

        worker_instance_stats_add(&sum, &one);
    }
    return sum;
}
