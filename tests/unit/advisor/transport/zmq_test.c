/*
 * What is tested: advisor/transport/zmq.h: bounds, turns, connections that come and go.
 * How: publishers in this process over loopback TCP; peers that stall are plain sockets.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "advisor/transport/zmq.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/zmq_peer.h"

enum { PATIENCE_MS = 20000, STEP_MS = 50, QUICK_MS = 2000 };

static struct advisor_zmq *
open_set(void)
{
    struct advisor_zmq *zmq;

    assert_int_equal(advisor_zmq_new(&zmq), KVT_OK);
    return zmq;
}

static uint32_t
subscribe(struct advisor_zmq *zmq, const char *endpoint, const char *topic)
{
    struct kvt_error err;
    uint32_t socket;

    assert_int_equal(advisor_zmq_open(zmq, ADVISOR_ZMQ_SUBSCRIBER, topic, &socket, &err), KVT_OK);
    assert_int_equal(advisor_zmq_connect(zmq, socket, endpoint, &err), KVT_OK);
    return socket;
}

static void
receive(struct advisor_zmq *zmq, struct advisor_zmq_message *message)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + PATIENCE_MS;

    while (advisor_zmq_receive(zmq, STEP_MS, message) != KVT_OK)
        assert_true(kvt_clock_mono_ms() < until_ms);
}

/* Subscriptions travel again with every connection, while somebody reads. */
static void
await(struct advisor_zmq *zmq, struct test_zmq_publisher *publisher)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + PATIENCE_MS;
    struct advisor_zmq_message message;

    while (!test_zmq_publisher_subscribed(publisher)) {
        assert_int_equal(advisor_zmq_receive(zmq, STEP_MS, &message), KVT_TIMEOUT);
        assert_true(kvt_clock_mono_ms() < until_ms);
    }
}

static bool
is_text(const struct advisor_zmq_frame *frame, const char *text)
{
    return frame->size == strlen(text) && memcmp(frame->bytes, text, frame->size) == 0;
}

static void
frames_arrive_as_they_were_sent(void **state)
{
    struct advisor_zmq *zmq = open_set();
    struct test_zmq_publisher publisher;
    struct advisor_zmq_message message;
    struct advisor_zmq_state now;

    (void)state;
    test_zmq_publisher_bind(&publisher, NULL, 0);
    assert_int_equal(subscribe(zmq, publisher.endpoint, "kv"), 0);
    test_zmq_publisher_await(&publisher, 1);
    test_zmq_publish(&publisher, "other", 1, "not for us");
    test_zmq_publish(&publisher, "kv@pod", 7, "payload");
    receive(zmq, &message);
    assert_int_equal(message.count, 3);
    assert_true(is_text(&message.frames[0], "kv@pod"));
    assert_int_equal(message.frames[1].size, 8);
    assert_int_equal(message.frames[1].bytes[7], 7);
    assert_true(is_text(&message.frames[2], "payload"));
    assert_string_equal(message.peer, "127.0.0.1");
    assert_int_equal(message.connection, 1);
    assert_int_equal(advisor_zmq_receive(zmq, 0, &message), KVT_TIMEOUT);
    advisor_zmq_state(zmq, &now);
    assert_int_equal(now.wanted, 1);
    assert_int_equal(now.connected, 1);
    assert_string_equal(now.away, "");
    test_zmq_publisher_close(&publisher);
    advisor_zmq_free(zmq);
}

/* A publisher that never stops talking does not keep the others from being heard. */
static void
sockets_have_their_turn(void **state)
{
    struct advisor_zmq *zmq = open_set();
    struct test_zmq_publisher publishers[3];
    struct advisor_zmq_message message;
    uint32_t heard[3] = {0};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        test_zmq_publisher_bind(&publishers[i], NULL, 0);
        assert_int_equal(subscribe(zmq, publishers[i].endpoint, ""), i);
        test_zmq_publisher_await(&publishers[i], 1);
    }
    for (uint64_t n = 0; n < 500; n++)
        test_zmq_publish(&publishers[0], "", n, "loud");
    test_zmq_publish(&publishers[1], "", 0, "quiet");
    test_zmq_publish(&publishers[2], "", 0, "quiet");
    kvt_clock_sleep_ms(200); /* everything is here before the first is read */
    for (size_t n = 0; n < 200; n++) {
        receive(zmq, &message);
        heard[message.socket]++;
    }
    assert_int_equal(heard[1], 1);
    assert_int_equal(heard[2], 1);
    for (size_t n = 0; n < 302; n++)
        receive(zmq, &message);
    assert_int_equal(advisor_zmq_receive(zmq, STEP_MS, &message), KVT_TIMEOUT);
    for (size_t i = 0; i < 3; i++)
        test_zmq_publisher_close(&publishers[i]);
    advisor_zmq_free(zmq);
}

/* Too many frames, or too many bytes in all: dropped and counted, and what follows is read. */
static void
messages_above_the_limits_are_refused(void **state)
{
    struct advisor_zmq *zmq = open_set();
    struct test_zmq_frame frames[ADVISOR_ZMQ_FRAMES_MAX + 1];
    struct test_zmq_publisher publisher;
    struct advisor_zmq_message message;
    struct advisor_zmq_state now;
    const size_t large = 12u << 20;
    char *bytes = kvt_calloc(large, 1);

    (void)state;
    assert_non_null(bytes);
    test_zmq_publisher_bind(&publisher, NULL, 0);
    (void)subscribe(zmq, publisher.endpoint, "");
    test_zmq_publisher_await(&publisher, 1);
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++)
        frames[i] = (struct test_zmq_frame){"x", 1};
    test_zmq_send(&publisher, frames, ADVISOR_ZMQ_FRAMES_MAX + 1);
    test_zmq_send(&publisher, frames, ADVISOR_ZMQ_FRAMES_MAX);
    receive(zmq, &message);
    assert_int_equal(message.count, ADVISOR_ZMQ_FRAMES_MAX);
    for (size_t i = 0; i < 3; i++)
        frames[i] = (struct test_zmq_frame){bytes, large};
    test_zmq_send(&publisher, frames, 3);
    test_zmq_publish(&publisher, "", 1, "after");
    receive(zmq, &message);
    assert_int_equal(message.count, 3);
    assert_true(is_text(&message.frames[2], "after"));
    advisor_zmq_state(zmq, &now);
    assert_int_equal(now.refused, 2);
    advisor_zmq_state(zmq, &now);
    assert_int_equal(now.refused, 0);
    kvt_free(bytes);
    test_zmq_publisher_close(&publisher);
    advisor_zmq_free(zmq);
}

/* One frame above the limit ends the connection, and the next one brings what follows. */
static void
huge_frames_end_the_connection(void **state)
{
    struct advisor_zmq *zmq = open_set();
    const size_t huge = ADVISOR_ZMQ_FRAME_MAX + 1;
    char *bytes = kvt_calloc(huge, 1);
    struct test_zmq_frame frame = {bytes, huge};
    struct test_zmq_publisher publisher;
    struct advisor_zmq_message message;

    (void)state;
    assert_non_null(bytes);
    test_zmq_publisher_bind(&publisher, NULL, 0);
    (void)subscribe(zmq, publisher.endpoint, "");
    test_zmq_publisher_await(&publisher, 1);
    test_zmq_send(&publisher, &frame, 1);
    await(zmq, &publisher);
    test_zmq_publish(&publisher, "", 1, "after");
    receive(zmq, &message);
    assert_true(is_text(&message.frames[2], "after"));
    assert_int_equal(message.connection, 2);
    kvt_free(bytes);
    test_zmq_publisher_close(&publisher);
    advisor_zmq_free(zmq);
}

static void
connections_come_back(void **state)
{
    struct advisor_zmq *zmq = open_set();
    struct test_zmq_publisher publisher;
    struct advisor_zmq_message message;
    struct advisor_zmq_state now;
    char endpoint[64];

    (void)state;
    test_zmq_free_endpoint(endpoint, sizeof(endpoint));
    (void)subscribe(zmq, endpoint, ""); /* nobody is there yet */
    assert_int_equal(advisor_zmq_receive(zmq, STEP_MS, &message), KVT_TIMEOUT);
    advisor_zmq_state(zmq, &now);
    assert_int_equal(now.connected, 0);
    assert_string_equal(now.away, endpoint);
    for (uint64_t life = 1; life <= 3; life++) {
        test_zmq_publisher_bind(&publisher, endpoint, 0);
        await(zmq, &publisher);
        test_zmq_publish(&publisher, "", life, "x");
        receive(zmq, &message);
        assert_int_equal(message.frames[1].bytes[7], life);
        assert_int_equal(message.connection, life);
        assert_int_equal(advisor_zmq_connections(zmq, 0), life);
        test_zmq_publisher_close(&publisher);
    }
    advisor_zmq_free(zmq);
}

/* Something else had the port for a while: the library takes it for a breach and gives up. */
static void
strangers_are_outlived(void **state)
{
    static const char greeting[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
    const int stranger = socket(AF_INET, SOCK_STREAM, 0);
    const int yes = 1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct advisor_zmq *zmq = open_set();
    struct test_zmq_publisher publisher;
    struct advisor_zmq_message message;
    socklen_t size = sizeof(at);
    char endpoint[64];
    int visitor;

    (void)state;
    assert_int_equal(setsockopt(stranger, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)), 0);
    assert_int_equal(bind(stranger, (const struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(stranger, 4), 0);
    assert_int_equal(getsockname(stranger, (struct sockaddr *)&at, &size), 0);
    (void)snprintf(endpoint, sizeof(endpoint), "tcp://127.0.0.1:%u", ntohs(at.sin_port));
    (void)subscribe(zmq, endpoint, "");
    visitor = accept(stranger, NULL, NULL);
    assert_true(visitor >= 0);
    assert_true(write(visitor, greeting, sizeof(greeting) - 1) > 0);
    assert_int_equal(advisor_zmq_receive(zmq, STEP_MS * 4, &message), KVT_TIMEOUT);
    (void)close(visitor);
    (void)close(stranger);
    test_zmq_publisher_bind(&publisher, endpoint, 0);
    await(zmq, &publisher);
    test_zmq_publish(&publisher, "", 1, "at last");
    receive(zmq, &message);
    assert_true(is_text(&message.frames[2], "at last"));
    test_zmq_publisher_close(&publisher);
    advisor_zmq_free(zmq);
}

static void
publishers_connect_to_us(void **state)
{
    struct advisor_zmq *zmq = open_set();
    struct test_zmq_publisher publishers[2];
    struct advisor_zmq_message message;
    struct advisor_zmq_state now;
    struct kvt_error err;
    char endpoint[64];
    uint32_t socket;

    (void)state;
    test_zmq_free_endpoint(endpoint, sizeof(endpoint));
    assert_int_equal(advisor_zmq_open(zmq, ADVISOR_ZMQ_SUBSCRIBER, "", &socket, &err), KVT_OK);
    assert_int_equal(advisor_zmq_bind(zmq, socket, endpoint, &err), KVT_OK);
    for (size_t i = 0; i < 2; i++) {
        test_zmq_publisher_connect(&publishers[i], endpoint);
        await(zmq, &publishers[i]);
        test_zmq_publish(&publishers[i], i == 0 ? "a" : "b", 1, "x");
        receive(zmq, &message);
        assert_true(is_text(&message.frames[0], i == 0 ? "a" : "b"));
    }
    advisor_zmq_state(zmq, &now);
    assert_int_equal(now.bound, 1);
    assert_int_equal(now.wanted, 0);
    assert_int_equal(now.connected, 2);
    {
        struct advisor_zmq *other = open_set();

        assert_int_equal(advisor_zmq_open(other, ADVISOR_ZMQ_SUBSCRIBER, "", &socket, &err),
                         KVT_OK);
        assert_int_equal(advisor_zmq_bind(other, socket, endpoint, &err), KVT_BUSY);
        assert_non_null(strstr(err.text, endpoint));
        advisor_zmq_free(other);
    }
    test_zmq_publisher_close(&publishers[0]);
    test_zmq_publisher_close(&publishers[1]);
    advisor_zmq_free(zmq);
}

/* One socket, many connections; ended ones bring nothing more. */
static void
connections_are_ended(void **state)
{
    struct advisor_zmq *zmq = open_set();
    struct test_zmq_publisher publishers[2];
    struct advisor_zmq_message message;
    struct advisor_zmq_state now;
    struct kvt_error err;
    uint32_t socket;

    (void)state;
    test_zmq_publisher_bind(&publishers[0], NULL, 0);
    test_zmq_publisher_bind(&publishers[1], NULL, 0);
    socket = subscribe(zmq, publishers[0].endpoint, "");
    assert_int_equal(advisor_zmq_connect(zmq, socket, publishers[1].endpoint, &err), KVT_OK);
    test_zmq_publisher_await(&publishers[0], 1);
    test_zmq_publisher_await(&publishers[1], 1);
    advisor_zmq_disconnect(zmq, socket, publishers[0].endpoint);
    for (uint64_t n = 0; n < 20; n++) {
        test_zmq_publish(&publishers[0], "", n, "gone");
        test_zmq_publish(&publishers[1], "", n, "here");
    }
    for (uint64_t n = 0; n < 20; n++) {
        receive(zmq, &message);
        assert_true(is_text(&message.frames[2], "here"));
    }
    assert_int_equal(advisor_zmq_receive(zmq, STEP_MS, &message), KVT_TIMEOUT);
    advisor_zmq_state(zmq, &now);
    assert_int_equal(now.wanted, 1);
    assert_int_equal(now.connected, 1);
    test_zmq_publisher_close(&publishers[0]);
    test_zmq_publisher_close(&publishers[1]);
    advisor_zmq_free(zmq);
}

static void
addresses_are_refused(void **state)
{
    static const char *const wrong[] = {"", "tcp://", "nonsense", "tcp://127.0.0.1", "tcp://h:x"};
    struct advisor_zmq *zmq = open_set();
    struct kvt_error err;
    uint32_t socket;

    (void)state;
    assert_int_equal(advisor_zmq_open(zmq, ADVISOR_ZMQ_SUBSCRIBER, "", &socket, &err), KVT_OK);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(advisor_zmq_connect(zmq, socket, wrong[i], &err), KVT_INVALID);
        assert_true(err.text[0] != '\0');
    }
    for (uint32_t n = 1; n < ADVISOR_ZMQ_SOCKETS_MAX; n++)
        assert_int_equal(advisor_zmq_open(zmq, ADVISOR_ZMQ_SUBSCRIBER, "", &socket, &err), KVT_OK);
    assert_int_equal(advisor_zmq_open(zmq, ADVISOR_ZMQ_SUBSCRIBER, "", &socket, &err), KVT_FULL);
    advisor_zmq_free(zmq);
}

/* A peer that accepts and says nothing, one that is away, and one that nobody reads: closing waits
 * for none of them. */
static void
closing_is_quick(void **state)
{
    const int stalled = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct advisor_zmq *zmq = open_set();
    struct test_zmq_publisher publisher;
    struct advisor_zmq_message message;
    socklen_t size = sizeof(at);
    uint64_t start_ms;
    char endpoint[64];

    (void)state;
    assert_int_equal(bind(stalled, (const struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(stalled, 4), 0);
    assert_int_equal(getsockname(stalled, (struct sockaddr *)&at, &size), 0);
    (void)snprintf(endpoint, sizeof(endpoint), "tcp://127.0.0.1:%u", ntohs(at.sin_port));
    (void)subscribe(zmq, endpoint, "");
    test_zmq_free_endpoint(endpoint, sizeof(endpoint));
    (void)subscribe(zmq, endpoint, "");
    test_zmq_publisher_bind(&publisher, NULL, 0);
    (void)subscribe(zmq, publisher.endpoint, "");
    test_zmq_publisher_await(&publisher, 1);
    for (uint64_t n = 0; n < 3000; n++)
        test_zmq_publish(&publisher, "", n, "nobody reads this");
    receive(zmq, &message);
    start_ms = kvt_clock_mono_ms();
    advisor_zmq_free(zmq);
    assert_true(kvt_clock_mono_ms() - start_ms < QUICK_MS);
    test_zmq_publisher_close(&publisher);
    (void)close(stalled);
}

static bool
make_one(void *arg)
{
    struct advisor_zmq *zmq;

    (void)arg;
    if (advisor_zmq_new(&zmq) != KVT_OK) {
        assert_null(zmq);
        return false;
    }
    advisor_zmq_free(zmq);
    return true;
}

static void
memory_is_short(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(make_one, NULL) > 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_arrive_as_they_were_sent),
        cmocka_unit_test(sockets_have_their_turn),
        cmocka_unit_test(messages_above_the_limits_are_refused),
        cmocka_unit_test(huge_frames_end_the_connection),
        cmocka_unit_test(connections_come_back),
        cmocka_unit_test(strangers_are_outlived),
        cmocka_unit_test(publishers_connect_to_us),
        cmocka_unit_test(connections_are_ended),
        cmocka_unit_test(addresses_are_refused),
        cmocka_unit_test(closing_is_quick),
        cmocka_unit_test(memory_is_short),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
