#include "tests/unit/engine/support/rpc_proxy.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/core/clock.h"
#include "base/core/random.h"

#include "tests/support/seed.h"

enum { MILLION = 1000000, NAME_MAX_SIZE = 16, TICK_MS = 1, TEXT = 256 };

struct held {
    uint64_t due_ms; /* 0: free */
    size_t client;
    bool up; /* to the server */
    zmq_msg_t message;
};

struct rpc_proxy {
    struct rpc_proxy_faults faults;
    uint64_t random;
    char server[TEXT];
    char endpoint[TEXT];
    void *context;
    void *front;
    zmq_pollitem_t items[RPC_PROXY_CLIENTS + 1]; /* 0: the front; then a connection each client */
    uint8_t names[RPC_PROXY_CLIENTS][NAME_MAX_SIZE];
    size_t sizes[RPC_PROXY_CLIENTS];
    size_t clients;
    struct held held[RPC_PROXY_HELD];
    _Atomic bool mute;
    _Atomic bool stop;
    pthread_t thread;
};

static bool
happens(struct rpc_proxy *proxy, uint32_t share)
{
    return kvt_random_below(&proxy->random, MILLION) < share;
}

static void
deliver(struct rpc_proxy *proxy, size_t client, bool up, zmq_msg_t *message)
{
    if (!up && zmq_send(proxy->front, proxy->names[client], proxy->sizes[client],
                        ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0)
        return;
    (void)zmq_msg_send(message, up ? proxy->items[client + 1].socket : proxy->front, ZMQ_DONTWAIT);
}

static void
hold(struct rpc_proxy *proxy, size_t client, bool up, zmq_msg_t *message)
{
    for (size_t i = 0; i < RPC_PROXY_HELD; i++) {
        struct held *held = &proxy->held[i];

        if (held->due_ms != 0)
            continue;
        held->due_ms =
            kvt_clock_mono_ms() + kvt_random_below(&proxy->random, proxy->faults.late_ms + 1);
        held->client = client;
        held->up = up;
        (void)zmq_msg_init(&held->message);
        (void)zmq_msg_copy(&held->message, message);
        return;
    }
}

static void
pass(struct rpc_proxy *proxy, size_t client, bool up, zmq_msg_t *message)
{
    if (atomic_load(&proxy->mute) || happens(proxy, proxy->faults.lost))
        return;
    if (happens(proxy, proxy->faults.twice))
        hold(proxy, client, up, message);
    if (happens(proxy, proxy->faults.late))
        hold(proxy, client, up, message);
    else
        deliver(proxy, client, up, message);
}

static void *
open_socket(struct rpc_proxy *proxy, int kind)
{
    const int zero = 0;
    void *socket = zmq_socket(proxy->context, kind);

    assert_non_null(socket);
    assert_int_equal(zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof(zero)), 0);
    return socket;
}

static size_t
find_client(struct rpc_proxy *proxy, const void *name, size_t size)
{
    size_t at = 0;
    void *socket;

    while (at < proxy->clients &&
           (proxy->sizes[at] != size || memcmp(proxy->names[at], name, size) != 0))
        at++;
    if (at < proxy->clients)
        return at;
    assert_true(at < RPC_PROXY_CLIENTS && size <= NAME_MAX_SIZE);
    memcpy(proxy->names[at], name, size);
    proxy->sizes[at] = size;
    socket = open_socket(proxy, ZMQ_DEALER);
    assert_int_equal(zmq_connect(socket, proxy->server), 0);
    proxy->items[at + 1] = (zmq_pollitem_t){.socket = socket, .events = ZMQ_POLLIN};
    proxy->clients++;
    return at;
}

static void
take_all(struct rpc_proxy *proxy)
{
    zmq_msg_t part;

    (void)zmq_msg_init(&part);
    while (zmq_msg_recv(&part, proxy->front, ZMQ_DONTWAIT) >= 0) {
        const size_t client = find_client(proxy, zmq_msg_data(&part), zmq_msg_size(&part));

        assert_true(zmq_msg_recv(&part, proxy->front, ZMQ_DONTWAIT) >= 0);
        pass(proxy, client, true, &part);
    }
    for (size_t i = 0; i < proxy->clients; i++)
        while (zmq_msg_recv(&part, proxy->items[i + 1].socket, ZMQ_DONTWAIT) >= 0)
            pass(proxy, i, false, &part);
    (void)zmq_msg_close(&part);
}

static void
deliver_due(struct rpc_proxy *proxy, uint64_t now_ms)
{
    for (size_t i = 0; i < RPC_PROXY_HELD; i++) {
        struct held *held = &proxy->held[i];

        if (held->due_ms == 0 || held->due_ms > now_ms)
            continue;
        held->due_ms = 0;
        if (now_ms != UINT64_MAX)
            deliver(proxy, held->client, held->up, &held->message);
        (void)zmq_msg_close(&held->message);
    }
}

static void *
run(void *arg)
{
    struct rpc_proxy *proxy = arg;

    while (!atomic_load(&proxy->stop)) {
        (void)zmq_poll(proxy->items, (int)proxy->clients + 1, TICK_MS);
        take_all(proxy);
        deliver_due(proxy, kvt_clock_mono_ms());
    }
    return NULL;
}

struct rpc_proxy *
rpc_proxy_open(const char *server, uint64_t seed, const struct rpc_proxy_faults *faults)
{
    struct rpc_proxy *proxy = calloc(1, sizeof(*proxy)); /* tidy-allow: raw-heap, not counted */
    size_t size = sizeof(proxy->endpoint);

    assert_non_null(proxy);
    proxy->faults = *faults;
    proxy->random = seed;
    (void)snprintf(proxy->server, sizeof(proxy->server), "%s", server);
    proxy->context = zmq_ctx_new();
    proxy->front = open_socket(proxy, ZMQ_ROUTER);
    assert_int_equal(zmq_bind(proxy->front, "tcp://127.0.0.1:*"), 0);
    assert_int_equal(zmq_getsockopt(proxy->front, ZMQ_LAST_ENDPOINT, proxy->endpoint, &size), 0);
    proxy->items[0] = (zmq_pollitem_t){.socket = proxy->front, .events = ZMQ_POLLIN};
    assert_int_equal(pthread_create(&proxy->thread, NULL, run, proxy), 0);
    return proxy;
}

const char *
rpc_proxy_endpoint(const struct rpc_proxy *proxy)
{
    return proxy->endpoint;
}

void
rpc_proxy_mute(struct rpc_proxy *proxy, bool mute)
{
    atomic_store(&proxy->mute, mute);
}

void
rpc_proxy_close(struct rpc_proxy *proxy)
{
    atomic_store(&proxy->stop, true);
    (void)pthread_join(proxy->thread, NULL);
    deliver_due(proxy, UINT64_MAX);
    for (size_t i = 0; i < proxy->clients; i++)
        (void)zmq_close(proxy->items[i + 1].socket);
    (void)zmq_close(proxy->front);
    (void)zmq_ctx_term(proxy->context);
    free(proxy); /* tidy-allow: raw-heap, not counted */
}
