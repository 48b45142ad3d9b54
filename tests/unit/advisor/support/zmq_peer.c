#include "tests/unit/advisor/support/zmq_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "base/core/clock.h"

#include "tests/support/seed.h"

enum { PATIENCE_MS = 20000, POLL_MS = 50 };

void
test_zmq_be64(uint8_t bytes[8], uint64_t value)
{
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(value >> (56 - 8 * i));
}

void
test_zmq_free_endpoint(char *endpoint, size_t size)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t at_size = sizeof(at);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &at_size), 0);
    (void)close(fd);
    (void)snprintf(endpoint, size, "tcp://127.0.0.1:%u", ntohs(at.sin_port));
}

static void
set(void *socket, int option, int value)
{
    assert_int_equal(zmq_setsockopt(socket, option, &value, sizeof(value)), 0);
}

static void
open_publisher(struct test_zmq_publisher *publisher, int waiting_max)
{
    memset(publisher, 0, sizeof(*publisher));
    publisher->context = zmq_ctx_new();
    assert_non_null(publisher->context);
    publisher->socket = zmq_socket(publisher->context, ZMQ_XPUB);
    assert_non_null(publisher->socket);
    set(publisher->socket, ZMQ_LINGER, 0);
    set(publisher->socket, ZMQ_XPUB_VERBOSE, 1);
    set(publisher->socket, ZMQ_RCVTIMEO, PATIENCE_MS);
    set(publisher->socket, ZMQ_SNDHWM, waiting_max == 0 ? 1000 : waiting_max);
}

void
test_zmq_publisher_bind(struct test_zmq_publisher *publisher, const char *endpoint, int waiting_max)
{
    size_t size = sizeof(publisher->endpoint);
    char copy[64];

    (void)snprintf(copy, sizeof(copy), "%s", endpoint == NULL ? "tcp://127.0.0.1:*" : endpoint);
    open_publisher(publisher, waiting_max);
    for (int tries = 0; zmq_bind(publisher->socket, copy) != 0; tries++) {
        assert_true(tries < 200); /* the port of one that was just closed */
        kvt_clock_sleep_ms(20);
    }
    assert_int_equal(
        zmq_getsockopt(publisher->socket, ZMQ_LAST_ENDPOINT, publisher->endpoint, &size), 0);
}

void
test_zmq_publisher_connect(struct test_zmq_publisher *publisher, const char *endpoint)
{
    open_publisher(publisher, 0);
    assert_int_equal(zmq_connect(publisher->socket, endpoint), 0);
    (void)snprintf(publisher->endpoint, sizeof(publisher->endpoint), "%s", endpoint);
}

void
test_zmq_publisher_close(struct test_zmq_publisher *publisher)
{
    assert_int_equal(zmq_close(publisher->socket), 0);
    assert_int_equal(zmq_ctx_term(publisher->context), 0);
    publisher->socket = NULL;
}

void
test_zmq_publisher_await(struct test_zmq_publisher *publisher, size_t count)
{
    char bytes[256];

    for (size_t i = 0; i < count;) {
        const int size = zmq_recv(publisher->socket, bytes, sizeof(bytes), 0);

        assert_true(size > 0);
        i += bytes[0] == 1 ? 1 : 0; /* 0: one that left */
    }
}

bool
test_zmq_publisher_subscribed(struct test_zmq_publisher *publisher)
{
    char bytes[256];

    while (zmq_recv(publisher->socket, bytes, sizeof(bytes), ZMQ_DONTWAIT) > 0)
        if (bytes[0] == 1)
            return true;
    return false;
}

void
test_zmq_send(struct test_zmq_publisher *publisher, const struct test_zmq_frame *frames,
              size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(zmq_send(publisher->socket, frames[i].bytes, frames[i].size,
                                  i + 1 < count ? ZMQ_SNDMORE : 0),
                         (int)frames[i].size);
}

void
test_zmq_publish(struct test_zmq_publisher *publisher, const char *topic, uint64_t sequence,
                 const char *payload)
{
    uint8_t number[8];
    const struct test_zmq_frame frames[] = {
        {topic, strlen(topic)}, {number, sizeof(number)}, {payload, strlen(payload)}};

    test_zmq_be64(number, sequence);
    test_zmq_send(publisher, frames, 3);
}

/* ---- replay ---- */

static void
reply(struct test_zmq_replay *replay, const void *peer, size_t peer_size, uint64_t sequence,
      const char *payload)
{
    uint8_t number[8];

    test_zmq_be64(number, sequence);
    (void)zmq_send(replay->socket, peer, peer_size, ZMQ_SNDMORE);
    if (replay->mode == TEST_REPLAY_ODD) {
        (void)zmq_send(replay->socket, "what", 4, 0);
        return;
    }
    (void)zmq_send(replay->socket, "", 0, ZMQ_SNDMORE);
    if (replay->with_topic)
        (void)zmq_send(replay->socket, payload[0] == '\0' ? "" : "kv", payload[0] == '\0' ? 0 : 2,
                       ZMQ_SNDMORE);
    (void)zmq_send(replay->socket, number, sizeof(number), ZMQ_SNDMORE);
    (void)zmq_send(replay->socket, payload, strlen(payload), 0);
}

static void
answer(struct test_zmq_replay *replay, const uint8_t *peer, size_t peer_size, uint64_t from)
{
    for (size_t i = 0; i < replay->count; i++) {
        if (replay->mode == TEST_REPLAY_CUT && i >= replay->count / 2)
            return;
        if (replay->mode == TEST_REPLAY_HOLES && (replay->first + i - from) % 3 == 2)
            continue;
        if (replay->first + i >= from)
            reply(replay, peer, peer_size, replay->first + i, replay->messages[i]);
    }
    reply(replay, peer, peer_size, UINT64_MAX, "");
}

static void *
run_replay(void *arg)
{
    struct test_zmq_replay *replay = arg;

    while (!atomic_load(&replay->stopping)) {
        uint8_t peer[256];
        uint8_t number[8] = {0};
        uint64_t from = 0;
        const int peer_size = zmq_recv(replay->socket, peer, sizeof(peer), 0);

        if (peer_size < 0)
            continue;
        (void)zmq_recv(replay->socket, number, sizeof(number), 0); /* empty */
        (void)zmq_recv(replay->socket, number, sizeof(number), 0);
        for (int i = 0; i < 8; i++)
            from = from << 8 | number[i];
        atomic_fetch_add(&replay->questions, 1);
        if (replay->mode != TEST_REPLAY_SILENT)
            answer(replay, peer, (size_t)peer_size, from);
    }
    return NULL;
}

void
test_zmq_replay_start(struct test_zmq_replay *replay)
{
    size_t size = sizeof(replay->endpoint);

    atomic_store(&replay->stopping, false);
    replay->context = zmq_ctx_new();
    assert_non_null(replay->context);
    replay->socket = zmq_socket(replay->context, ZMQ_ROUTER);
    assert_non_null(replay->socket);
    set(replay->socket, ZMQ_LINGER, 0);
    set(replay->socket, ZMQ_RCVTIMEO, POLL_MS);
    assert_int_equal(zmq_bind(replay->socket, "tcp://127.0.0.1:*"), 0);
    assert_int_equal(zmq_getsockopt(replay->socket, ZMQ_LAST_ENDPOINT, replay->endpoint, &size), 0);
    assert_int_equal(pthread_create(&replay->thread, NULL, run_replay, replay), 0);
}

void
test_zmq_replay_stop(struct test_zmq_replay *replay)
{
    atomic_store(&replay->stopping, true);
    assert_int_equal(pthread_join(replay->thread, NULL), 0);
    assert_int_equal(zmq_close(replay->socket), 0);
    assert_int_equal(zmq_ctx_term(replay->context), 0);
}
