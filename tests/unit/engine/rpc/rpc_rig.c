#include "tests/unit/engine/rpc/rpc_rig.h"

#include <string.h>

#include "base/core/clock.h"
#include "base/thread/cond.h"

#include "tests/support/seed.h"

enum { PATIENCE_MS = 30000, SLOW_MS = 5, THREADS = 2 };

static uint32_t
word_of(const struct engine_rpc_call *call)
{
    uint32_t word = 0;
    size_t size;
    const uint8_t *bytes = engine_rpc_call_bytes(call, &size);

    if (size == sizeof(word))
        memcpy(&word, bytes, sizeof(word));
    return word;
}

static void
count(struct rpc_rig *rig, const struct engine_rpc_call *call)
{
    (void)atomic_fetch_add(&rig->runs[word_of(call) % RPC_RIG_NAMES], 1);
    (void)atomic_fetch_add(&rig->run, 1);
}

static void
answer_same(struct engine_rpc_call *call)
{
    size_t size;
    const uint8_t *bytes = engine_rpc_call_bytes(call, &size);

    engine_rpc_answer(call, KVT_OK, bytes, size);
}

static void
on_echo(void *arg, struct engine_rpc_call *call)
{
    struct rpc_rig *rig = arg;

    (void)atomic_fetch_add(&rig->run, 1);
    answer_same(call);
}

static void
on_count(void *arg, struct engine_rpc_call *call)
{
    count(arg, call);
    answer_same(call);
}

static void
on_slow(void *arg, struct engine_rpc_call *call)
{
    count(arg, call);
    kvt_clock_sleep_ms(SLOW_MS);
    answer_same(call);
}

static void
on_later(void *arg, struct engine_rpc_call *call)
{
    struct rpc_rig *rig = arg;

    count(rig, call);
    (void)pthread_mutex_lock(&rig->lock);
    rig->later[rig->later_count++] = call;
    (void)pthread_cond_broadcast(&rig->came);
    (void)pthread_mutex_unlock(&rig->lock);
}

static void
on_hold(void *arg, struct engine_rpc_call *call)
{
    struct rpc_rig *rig = arg;

    count(rig, call);
    (void)pthread_mutex_lock(&rig->lock);
    rig->held[rig->held_count++] = call;
    (void)pthread_cond_broadcast(&rig->came);
    (void)pthread_mutex_unlock(&rig->lock);
}

static void
on_status(void *arg, struct engine_rpc_call *call)
{
    struct rpc_rig *rig = arg;

    (void)atomic_fetch_add(&rig->run, 1);
    engine_rpc_answer(call, (enum kvt_err)word_of(call), NULL, 0);
}

static void
on_gone(void *arg, uint64_t link)
{
    struct rpc_rig *rig = arg;

    atomic_store(&rig->gone_link, link);
    (void)atomic_fetch_add(&rig->gone, 1);
}

static void *
answer_later(void *arg)
{
    struct rpc_rig *rig = arg;

    (void)pthread_mutex_lock(&rig->lock);
    while (!rig->ending || rig->later_count > 0) {
        struct engine_rpc_call *call;

        if (rig->later_count == 0) {
            (void)pthread_cond_wait(&rig->came, &rig->lock);
            continue;
        }
        call = rig->later[--rig->later_count];
        (void)pthread_mutex_unlock(&rig->lock);
        answer_same(call);
        (void)pthread_mutex_lock(&rig->lock);
    }
    (void)pthread_mutex_unlock(&rig->lock);
    return NULL;
}

static const struct engine_rpc_method methods[] = {
    {RPC_ECHO, "echo", on_echo, false},       {RPC_COUNT, "count", on_count, false},
    {RPC_LATER, "later", on_later, false},    {RPC_HOLD, "hold", on_hold, false},
    {RPC_STATUS, "status", on_status, false}, {RPC_SLOW, "slow", on_slow, true},
};

void
rpc_rig_begin(struct rpc_rig *rig, const struct engine_rpc_server_options *wanted)
{
    struct engine_rpc_server_options options = {.endpoint = "tcp://127.0.0.1:0"};
    struct kvt_error err;

    memset(rig, 0, sizeof(*rig));
    if (wanted != NULL)
        options = *wanted;
    options.methods = methods;
    options.method_count = sizeof(methods) / sizeof(methods[0]);
    options.arg = rig;
    options.gone = on_gone;
    options.threads = THREADS;
    assert_int_equal(pthread_mutex_init(&rig->lock, NULL), 0);
    assert_true(kvt_cond_init(&rig->came));
    assert_int_equal(pthread_create(&rig->answerer, NULL, answer_later, rig), 0);
    if (engine_rpc_server_open(&rig->server, &options, &err) != KVT_OK)
        fail_msg("%s", err.text);
}

void
rpc_rig_end(struct rpc_rig *rig)
{
    engine_rpc_server_close(rig->server);
    (void)pthread_mutex_lock(&rig->lock);
    assert_int_equal(rig->held_count, 0);
    rig->ending = true;
    (void)pthread_cond_broadcast(&rig->came);
    (void)pthread_mutex_unlock(&rig->lock);
    (void)pthread_join(rig->answerer, NULL);
    (void)pthread_cond_destroy(&rig->came);
    (void)pthread_mutex_destroy(&rig->lock);
}

size_t
rpc_rig_release(struct rpc_rig *rig)
{
    struct engine_rpc_call *held[RPC_RIG_HELD];
    size_t held_count;

    (void)pthread_mutex_lock(&rig->lock);
    held_count = rig->held_count;
    memcpy(held, rig->held, held_count * sizeof(held[0]));
    rig->held_count = 0;
    (void)pthread_mutex_unlock(&rig->lock);
    for (size_t i = 0; i < held_count; i++)
        answer_same(held[i]);
    return held_count;
}

void
rpc_rig_wait_held(struct rpc_rig *rig, size_t wanted)
{
    const struct timespec deadline = kvt_cond_deadline(PATIENCE_MS);
    bool came = true;

    (void)pthread_mutex_lock(&rig->lock);
    while (rig->held_count < wanted && came)
        came = kvt_cond_wait(&rig->came, &rig->lock, &deadline);
    (void)pthread_mutex_unlock(&rig->lock);
    assert_true(came);
}

struct engine_rpc_client *
rpc_rig_client(const char *endpoint, uint64_t silence_ms)
{
    const struct engine_rpc_client_options options = {.endpoint = endpoint,
                                                      .silence_ms = silence_ms};
    struct engine_rpc_client *client;
    struct kvt_error err;

    if (engine_rpc_client_open(&client, &options, &err) != KVT_OK)
        fail_msg("%s", err.text);
    return client;
}

void
rpc_rig_wait_for(const _Atomic uint32_t *counter, uint32_t wanted)
{
    for (uint32_t i = 0; i < PATIENCE_MS && atomic_load(counter) < wanted; i++)
        kvt_clock_sleep_ms(1);
    assert_true(atomic_load(counter) >= wanted);
}
