/*
 * What is tested: wire/nats/bus.h and wire/nats/stream.h against a real nats-server that is killed
 * with -9, brought back, emptied and replaced.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "wire/message/subject.h"
#include "wire/nats/bus.h"
#include "wire/nats/bus_state.h"
#include "wire/nats/stream.h"

#include "tests/support/seed.h"
#include "tests/unit/wire/support/test_bus.h"

enum { DEADLINE_MS = 20000, SUBJECT_COUNT = 3 };

static const char *const subject = "kvtier.v1.events.ns.0.w1";

static uint32_t
number_in(const struct wire_message *message)
{
    uint32_t number;
    size_t size;
    const void *bytes = wire_message_bytes(message, &size);

    assert_int_equal(size, sizeof(number));
    memcpy(&number, bytes, sizeof(number));
    return number;
}

struct reading {
    uint32_t next; /* number expected next */
    uint32_t gaps;
    uint32_t missing; /* a number that was removed in the middle; 0 = none */
};

/* Read until `last` was seen; numbers must follow each other. */
static void
read_until(struct wire_stream *stream, struct reading *reading, uint32_t last)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    struct wire_message *messages[WIRE_STREAM_FETCH_MAX];
    size_t count;

    while (reading->next <= last) {
        const enum kvt_err rc =
            wire_stream_fetch(stream, messages, WIRE_STREAM_FETCH_MAX, 100, &count);

        assert_true(kvt_clock_mono_ms() < deadline_ms);
        assert_true(rc == KVT_OK || count == 0);
        assert_true(rc == KVT_OK || rc == KVT_NOTFOUND || rc == KVT_UNAVAILABLE);
        reading->gaps += rc == KVT_NOTFOUND;
        for (size_t i = 0; i < count; i++) {
            if (reading->next == reading->missing)
                reading->next++;
            assert_int_equal(number_in(messages[i]), reading->next);
            assert_string_equal(wire_message_subject(messages[i]), subject);
            reading->next++;
            wire_message_free(messages[i]);
        }
    }
}

/* Fetch until a gap is told. */
static void
wait_gap(struct wire_stream *stream)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    struct wire_message *message;
    enum kvt_err rc;
    size_t count;

    do {
        rc = wire_stream_fetch(stream, &message, 1, 100, &count);
        assert_int_equal(count, 0);
        assert_true(kvt_clock_mono_ms() < deadline_ms);
    } while (rc != KVT_NOTFOUND);
}

static struct wire_stream *
open_ordered(struct wire_bus *bus, uint64_t start_seq)
{
    const struct wire_stream_options options = {
        .stream = WIRE_STREAM_EVENTS, .subject = "", .durable = "", .start_seq = start_seq};
    struct wire_stream *stream = NULL;

    assert_int_equal(wire_stream_open(&stream, bus, &options), KVT_OK);
    return stream;
}

static void
opening_without_a_server_fails_or_keeps_trying(void **state)
{
    struct test_nats server;
    struct wire_bus_options options = {.connect_now = true};
    struct wire_bus *bus = NULL;
    struct kvt_error err;
    bool told = true;

    (void)state;
    test_nats_start(&server);
    test_nats_kill(&server);
    options.url = server.url;
    assert_int_equal(wire_bus_open(&bus, &options, &err), KVT_UNAVAILABLE);
    assert_null(bus);
    assert_non_null(strstr(err.text, server.url));

    /* Closing a bus that never found a server does not hang. */
    bus = test_bus_open(&server, false);
    wire_bus_close(bus);

    bus = test_bus_open(&server, false);
    assert_false(wire_bus_connected(bus));
    wire_bus_tell(NULL, "test", "nothing", &told);
    assert_true(told);
    wire_bus_tell(bus, "test", "nothing", &told);
    assert_false(told);
    assert_int_equal(wire_bus_publish(bus, "a", "x", 1), KVT_UNAVAILABLE);
    assert_int_equal(wire_bus_ensure_streams(bus, NULL), KVT_UNAVAILABLE);
    test_nats_restart(&server);
    test_bus_wait(bus, true);
    wire_bus_tell(bus, "test", "nothing", &told);
    assert_true(told);
    assert_int_equal(wire_bus_publish(bus, "a", "x", 1), KVT_OK);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

static void
a_repeated_message_id_is_stored_once(void **state)
{
    struct test_nats server;
    struct wire_stream_state info;
    struct wire_bus *bus;
    uint64_t first = 0;
    uint64_t second = 0;

    (void)state;
    test_nats_start(&server);
    bus = test_bus_open(&server, true);
    assert_int_equal(wire_stream_state(bus, WIRE_STREAM_EVENTS, &info), KVT_NOTFOUND);
    assert_int_equal(wire_bus_publish_acked(bus, subject, "id", "x", 1, 1000, &first),
                     KVT_UNAVAILABLE);
    test_bus_ensure_streams(bus);
    test_bus_ensure_streams(bus);
    assert_int_equal(wire_bus_publish_acked(bus, subject, "id", "x", 1, 1000, &first), KVT_OK);
    assert_int_equal(wire_bus_publish_acked(bus, subject, "id", "x", 1, 1000, &second), KVT_OK);
    assert_int_equal(first, 1);
    assert_int_equal(second, 1);
    assert_int_equal(wire_stream_state(bus, WIRE_STREAM_EVENTS, &info), KVT_OK);
    assert_int_equal(info.last_seq, 1);
    assert_true(info.created_ms > 0);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

/* A server that was started anew, without what it had. */
static void
streams_are_kept_where_the_server_forgets_them(void **state)
{
    struct test_nats server;
    struct wire_stream_state info;
    struct wire_bus *bus;
    uint64_t made_at = 0;

    (void)state;
    test_nats_start(&server);
    bus = test_bus_open(&server, true);
    while (wire_bus_keep_streams(bus, &made_at, NULL) != KVT_OK) /* JetStream is not there yet */
        assert_int_equal(made_at, 0);
    assert_int_equal(wire_stream_state(bus, WIRE_STREAM_EVENTS, &info), KVT_OK);
    test_nats_kill(&server);
    test_bus_wait(bus, false);
    assert_int_equal(wire_bus_keep_streams(bus, &made_at, NULL), KVT_UNAVAILABLE);
    test_nats_forget(&server);
    test_nats_restart(&server);
    test_bus_wait(bus, true);
    /* That it is another server is counted a moment after it is there. */
    while (wire_bus_keep_streams(bus, &made_at, NULL) != KVT_OK ||
           wire_stream_state(bus, WIRE_STREAM_EVENTS, &info) != KVT_OK)
        kvt_clock_sleep_ms(10);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

static void
asking_for_the_right_to_publish_leaves_nothing(void **state)
{
    struct test_nats server;
    struct wire_stream_state info;
    struct wire_bus *bus;

    (void)state;
    test_nats_start(&server);
    bus = test_bus_open(&server, true);
    assert_int_equal(wire_bus_may_publish(bus, subject, 1000), KVT_UNAVAILABLE);
    test_bus_ensure_streams(bus);
    assert_int_equal(wire_bus_may_publish(bus, subject, 1000), KVT_OK);
    assert_int_equal(wire_stream_state(bus, WIRE_STREAM_EVENTS, &info), KVT_OK);
    assert_int_equal(info.last_seq, 0);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

static void
an_ordered_reader_survives_kill_and_restart(void **state)
{
    struct test_nats server;
    struct reading reading = {.next = 1};
    struct wire_stream *stream;
    struct wire_bus *bus;

    (void)state;
    bus = test_bus_start(&server);
    stream = open_ordered(bus, 1);
    test_bus_publish(bus, subject, 1, 700);
    read_until(stream, &reading, 700);
    for (uint32_t round = 0; round < 3; round++) {
        test_nats_kill(&server);
        test_bus_wait(bus, false);
        {
            struct wire_message *message;
            size_t count;

            assert_int_equal(wire_stream_fetch(stream, &message, 1, 10, &count), KVT_UNAVAILABLE);
            assert_int_equal(count, 0);
        }
        test_nats_restart(&server);
        test_bus_wait(bus, true);
        test_bus_publish(bus, subject, reading.next, reading.next + 299);
        read_until(stream, &reading, reading.next + 299);
    }
    assert_int_equal(reading.gaps, 0);
    assert_true(wire_bus_reconnects(bus) >= 3);
    wire_stream_close(stream);

    /* A reader that committed up to 1000 goes on behind it. */
    stream = open_ordered(bus, 1001);
    reading.next = 1001;
    read_until(stream, &reading, 1600);
    assert_int_equal(reading.gaps, 0);
    wire_stream_close(stream);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

/* The consumer is ephemeral: the server may forget it while the stream lives. */
static void
an_ordered_reader_makes_a_lost_consumer_again(void **state)
{
    struct test_nats server;
    struct reading reading = {.next = 1};
    struct wire_stream *stream;
    struct wire_bus *bus;
    jsConsumerNamesList *names = NULL;

    (void)state;
    bus = test_bus_start(&server);
    stream = open_ordered(bus, 1);
    test_bus_publish(bus, subject, 1, 10);
    read_until(stream, &reading, 10);
    assert_int_equal(js_ConsumerNames(&names, bus->js, WIRE_STREAM_EVENTS, NULL, NULL), NATS_OK);
    assert_int_equal(names->Count, 1);
    assert_int_equal(js_DeleteConsumer(bus->js, WIRE_STREAM_EVENTS, names->List[0], NULL, NULL),
                     NATS_OK);
    jsConsumerNamesList_Destroy(names);
    test_bus_publish(bus, subject, 11, 20);
    read_until(stream, &reading, 20);
    assert_int_equal(reading.gaps, 0);
    wire_stream_close(stream);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

/* It is there, and says that there is nothing, though the stream has messages: as if the server had
 * made it without looking. */
static void
an_ordered_reader_does_not_believe_a_stuck_consumer(void **state)
{
    struct test_nats server;
    struct reading reading = {.next = 1};
    struct wire_stream *stream;
    struct wire_bus *bus;
    jsConsumerNamesList *names = NULL;
    jsConsumerConfig config;

    (void)state;
    bus = test_bus_start(&server);
    stream = open_ordered(bus, 1);
    test_bus_publish(bus, subject, 1, 10);
    read_until(stream, &reading, 10);
    assert_int_equal(js_ConsumerNames(&names, bus->js, WIRE_STREAM_EVENTS, NULL, NULL), NATS_OK);
    assert_int_equal(names->Count, 1);
    assert_int_equal(js_DeleteConsumer(bus->js, WIRE_STREAM_EVENTS, names->List[0], NULL, NULL),
                     NATS_OK);
    test_bus_publish(bus, subject, 11, 20);
    assert_int_equal(jsConsumerConfig_Init(&config), NATS_OK);
    config.Name = names->List[0];
    config.DeliverPolicy = js_DeliverNew;
    config.AckPolicy = js_AckNone;
    config.MemoryStorage = true;
    config.InactiveThreshold = INT64_C(600) * 1000000000;
    assert_int_equal(js_AddConsumer(NULL, bus->js, WIRE_STREAM_EVENTS, &config, NULL, NULL),
                     NATS_OK);
    jsConsumerNamesList_Destroy(names);
    read_until(stream, &reading, 20);
    assert_int_equal(reading.gaps, 0);
    wire_stream_close(stream);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

static void
what_the_stream_dropped_is_a_gap(void **state)
{
    struct test_nats server;
    struct reading reading = {.next = 1};
    struct wire_stream *stream;
    struct wire_bus *bus;
    jsOptions purge;

    (void)state;
    bus = test_bus_start(&server);
    test_bus_publish(bus, subject, 1, 100);
    (void)jsOptions_Init(&purge);
    purge.Stream.Purge.Sequence = 51;
    assert_int_equal(js_PurgeStream(bus->js, WIRE_STREAM_EVENTS, &purge, NULL), NATS_OK);

    /* Before the reader's first fetch. */
    stream = open_ordered(bus, 1);
    reading.next = 51;
    read_until(stream, &reading, 100);
    assert_int_equal(reading.gaps, 1);

    /* While it is reading. */
    test_bus_publish(bus, subject, 101, 200);
    purge.Stream.Purge.Sequence = 151;
    assert_int_equal(js_PurgeStream(bus->js, WIRE_STREAM_EVENTS, &purge, NULL), NATS_OK);
    reading.next = 151;
    read_until(stream, &reading, 200);
    assert_int_equal(reading.gaps, 2);

    /* Messages removed in the middle are not a gap: nothing was dropped at the front. */
    test_bus_publish(bus, subject, 201, 203);
    assert_int_equal(js_DeleteMsg(bus->js, WIRE_STREAM_EVENTS, 202, NULL, NULL), NATS_OK);
    reading.missing = 202;
    read_until(stream, &reading, 203);
    assert_int_equal(reading.gaps, 2);
    wire_stream_close(stream);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

static void
a_stream_made_anew_is_a_gap(void **state)
{
    struct test_nats server;
    struct reading reading = {.next = 1};
    struct wire_stream *stream;
    struct wire_bus *bus;

    (void)state;
    bus = test_bus_start(&server);
    stream = open_ordered(bus, 1);
    test_bus_publish(bus, subject, 1, 50);
    read_until(stream, &reading, 50);

    /* Deleted under a running server; the new one is shorter than what was read. */
    assert_int_equal(js_DeleteStream(bus->js, WIRE_STREAM_EVENTS, NULL, NULL), NATS_OK);
    test_bus_ensure_streams(bus);
    test_bus_publish(bus, subject, 51, 55);
    read_until(stream, &reading, 55);
    assert_int_equal(reading.gaps, 1);

    /* The server loses its whole store; nobody but the reader makes the streams again. */
    test_nats_kill(&server);
    test_nats_forget(&server);
    test_nats_restart(&server);
    test_bus_wait(bus, true);
    wait_gap(stream);
    test_bus_publish(bus, subject, 56, 60);
    read_until(stream, &reading, 60);
    assert_int_equal(reading.gaps, 1);
    wire_stream_close(stream);

    /* A reader that starts behind the end of the present stream was reading another one. */
    stream = open_ordered(bus, 1000);
    reading = (struct reading){.next = 56};
    read_until(stream, &reading, 60);
    assert_int_equal(reading.gaps, 1);
    wire_stream_close(stream);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

/* Messages larger than one request may bring, taken a few at a time: all come once, in order. */
static void
a_reader_far_behind_gets_everything_once(void **state)
{
    enum { LARGE = 60, LARGE_BYTES = 900000, SMALL = 1500 };
    static unsigned char bytes[LARGE_BYTES];
    struct wire_message *messages[WIRE_STREAM_FETCH_MAX];
    uint64_t deadline_ms;
    struct test_nats server;
    struct wire_stream *stream;
    struct wire_bus *bus;
    uint64_t seq = 0;

    (void)state;
    bus = test_bus_start(&server);
    stream = open_ordered(bus, 1);
    for (uint32_t i = 1; i <= LARGE; i++)
        assert_int_equal(
            wire_bus_publish_acked(bus, subject, NULL, bytes, sizeof(bytes), 5000, NULL), KVT_OK);
    test_bus_publish(bus, subject, 1, SMALL);
    deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    for (size_t turn = 0; seq < LARGE + SMALL; turn++) {
        const size_t max = 1 + turn * 37 % WIRE_STREAM_FETCH_MAX;
        size_t count;

        assert_int_equal(wire_stream_fetch(stream, messages, max, turn % 3 * 5, &count), KVT_OK);
        assert_true(count <= max);
        for (size_t i = 0; i < count; i++) {
            size_t size;

            (void)wire_message_bytes(messages[i], &size);
            assert_int_equal(wire_message_stream_seq(messages[i]), ++seq);
            assert_int_equal(size, seq <= LARGE ? LARGE_BYTES : sizeof(uint32_t));
            wire_message_free(messages[i]);
        }
        assert_true(kvt_clock_mono_ms() < deadline_ms);
    }
    wire_stream_close(stream);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

static struct wire_stream *
open_queue(struct wire_bus *bus, const char *gateway, uint64_t ack_wait_ms)
{
    struct wire_stream *stream = NULL;
    char filter[WIRE_SUBJECT_MAX];
    struct wire_stream_options options = {
        .stream = WIRE_STREAM_ORDERS, .durable = gateway, .ack_wait_ms = ack_wait_ms};

    assert_int_equal(wire_subject_named(WIRE_SUBJECT_ORDERS, filter, sizeof(filter), gateway),
                     KVT_OK);
    options.subject = filter;
    assert_int_equal(wire_stream_open(&stream, bus, &options), KVT_OK);
    return stream;
}

static struct wire_message *
fetch_one(struct wire_stream *stream)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    struct wire_message *message = NULL;
    size_t count = 0;

    while (count == 0) {
        const enum kvt_err rc = wire_stream_fetch(stream, &message, 1, 100, &count);

        assert_true(rc == KVT_OK || rc == KVT_UNAVAILABLE);
        assert_true(kvt_clock_mono_ms() < deadline_ms);
    }
    return message;
}

static void
a_work_queue_repeats_what_was_not_acknowledged(void **state)
{
    struct test_nats server;
    struct wire_stream *stream;
    struct wire_message *message;
    struct wire_bus *bus;
    char orders[WIRE_SUBJECT_MAX];
    uint64_t seq;
    uint64_t unacknowledged;

    (void)state;
    bus = test_bus_start(&server);
    assert_int_equal(wire_subject_named(WIRE_SUBJECT_ORDERS, orders, sizeof(orders), "gw.1"),
                     KVT_OK);
    stream = open_queue(bus, "gw.1", 500);
    assert_int_equal(wire_bus_publish_acked(bus, orders, "1:1", "one", 3, 1000, NULL), KVT_OK);
    assert_int_equal(wire_bus_publish_acked(bus, orders, "1:2", "two", 3, 1000, NULL), KVT_OK);
    /* Another gateway's order is not ours. */
    assert_int_equal(wire_bus_publish_acked(bus, "kvtier.v1.orders.gw2", "1:3", "x", 1, 1000, NULL),
                     KVT_OK);

    message = fetch_one(stream);
    seq = wire_message_stream_seq(message);
    assert_int_equal(wire_stream_ack(stream, message), KVT_OK);
    assert_int_equal(wire_stream_ack(stream, message), KVT_OK); /* twice is harmless */
    wire_message_free(message);

    /* Not acknowledged in time, it comes again. */
    message = fetch_one(stream);
    unacknowledged = wire_message_stream_seq(message);
    assert_true(unacknowledged > seq);
    wire_message_free(message);
    message = fetch_one(stream);
    assert_int_equal(wire_message_stream_seq(message), unacknowledged);
    wire_message_free(message);

    /* Taken, then the server dies, then it is delivered again. */
    message = fetch_one(stream);
    assert_true(wire_message_stream_seq(message) > seq);
    seq = wire_message_stream_seq(message);
    test_nats_kill(&server);
    test_bus_wait(bus, false);
    assert_int_equal(wire_stream_ack(stream, message), KVT_UNAVAILABLE);
    wire_message_free(message);
    test_nats_restart(&server);
    test_bus_wait(bus, true);
    message = fetch_one(stream);
    if (wire_message_stream_seq(message) != seq) {
        /* The killed server forgot an acknowledgement it had given: effects must be repeatable. */
        assert_true(wire_message_stream_seq(message) < seq);
        assert_int_equal(wire_stream_ack(stream, message), KVT_OK);
        wire_message_free(message);
        message = fetch_one(stream);
    }
    assert_int_equal(wire_message_stream_seq(message), seq);
    wire_stream_working(stream, message);
    assert_int_equal(wire_stream_ack(stream, message), KVT_OK);
    wire_message_free(message);

    wire_stream_close(stream);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

static void
what_was_rejected_is_gone(void **state)
{
    struct test_nats server;
    struct wire_stream *stream;
    struct wire_message *message;
    struct wire_bus *bus;
    char orders[WIRE_SUBJECT_MAX];
    size_t count;

    (void)state;
    bus = test_bus_start(&server);
    assert_int_equal(wire_subject_named(WIRE_SUBJECT_ORDERS, orders, sizeof(orders), "gw1"),
                     KVT_OK);
    stream = open_queue(bus, "gw1", 500);
    assert_int_equal(wire_bus_publish_acked(bus, orders, "1:1", "bad", 3, 1000, NULL), KVT_OK);
    message = fetch_one(stream);
    wire_stream_reject(stream, message);
    wire_message_free(message);
    wire_stream_close(stream);

    /* For a later reader too, also one with another setting than the consumer was made with. */
    stream = open_queue(bus, "gw1", 700);
    assert_int_equal(wire_stream_fetch(stream, &message, 1, 1500, &count), KVT_OK);
    assert_int_equal(count, 0);
    assert_int_equal(wire_bus_publish_acked(bus, orders, "1:2", "good", 4, 1000, NULL), KVT_OK);
    message = fetch_one(stream);
    assert_int_equal(wire_stream_ack(stream, message), KVT_OK);
    wire_message_free(message);
    wire_stream_close(stream);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

struct echo {
    struct wire_bus *bus;
    _Atomic uint32_t calls;
};

static void
on_question(void *arg, const char *asked, const char *reply, const void *bytes, size_t size)
{
    struct echo *echo = arg;

    (void)asked;
    atomic_fetch_add(&echo->calls, 1);
    if (reply != NULL)
        assert_int_equal(wire_bus_publish(echo->bus, reply, bytes, size), KVT_OK);
}

static void
requests_are_answered_until_nobody_listens(void **state)
{
    struct test_nats server;
    struct kvt_buffer answer;
    struct echo echo;

    (void)state;
    test_nats_start(&server);
    echo = (struct echo){.bus = test_bus_open(&server, true)};
    kvt_buffer_init(&answer, 16);
    assert_int_equal(wire_bus_request(echo.bus, "q", "hi", 2, 1000, &answer), KVT_UNAVAILABLE);
    assert_int_equal(wire_bus_subscribe(echo.bus, "q", on_question, &echo, NULL), KVT_OK);
    assert_int_equal(wire_bus_request(echo.bus, "q", "hi", 2, 1000, &answer), KVT_OK);
    assert_string_equal(kvt_buffer_text(&answer), "hi");
    assert_int_equal(wire_bus_request(echo.bus, "q", "longer than the buffer", 22, 1000, &answer),
                     KVT_RANGE);

    /* The subscription outlives the server. */
    test_nats_kill(&server);
    test_bus_wait(echo.bus, false);
    test_nats_restart(&server);
    test_bus_wait(echo.bus, true);
    kvt_buffer_clear(&answer);
    assert_int_equal(wire_bus_request(echo.bus, "q", "again", 5, 1000, &answer), KVT_OK);
    assert_int_equal(atomic_load(&echo.calls), 3);

    wire_bus_unsubscribe(echo.bus, "q", &echo);
    assert_int_equal(wire_bus_request(echo.bus, "q", "hi", 2, 1000, &answer), KVT_UNAVAILABLE);
    kvt_buffer_release(&answer);
    wire_bus_close(echo.bus);
    test_nats_stop(&server);
}

static void
subscriptions_are_bounded(void **state)
{
    struct test_nats server;
    struct echo echo;
    struct kvt_error err;

    (void)state;
    test_nats_start(&server);
    echo = (struct echo){.bus = test_bus_open(&server, true)};
    for (int i = 0; i < WIRE_BUS_SUBSCRIPTIONS_MAX; i++)
        assert_int_equal(wire_bus_subscribe(echo.bus, "s", on_question, &echo, NULL), KVT_OK);
    assert_int_equal(wire_bus_subscribe(echo.bus, "s", on_question, &echo, &err), KVT_FULL);
    wire_bus_unsubscribe(echo.bus, "s", &echo);
    assert_int_equal(wire_bus_subscribe(echo.bus, "s", on_question, &echo, NULL), KVT_OK);
    wire_bus_close(echo.bus);
    test_nats_stop(&server);
}

static bool
attempt_bus(void *options)
{
    struct wire_bus *bus = NULL;
    const enum kvt_err rc = wire_bus_open(&bus, options, NULL);

    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && bus == NULL));
    wire_bus_close(bus);
    return rc == KVT_OK;
}

static bool
attempt_stream(void *bus)
{
    const struct wire_stream_options options = {.stream = WIRE_STREAM_EVENTS, .subject = "a.>"};
    struct wire_stream *stream = NULL;
    const enum kvt_err rc = wire_stream_open(&stream, bus, &options);

    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && stream == NULL));
    wire_stream_close(stream);
    return rc == KVT_OK;
}

static bool
attempt_subscribe(void *bus)
{
    struct echo echo = {.bus = bus};
    const enum kvt_err rc = wire_bus_subscribe(bus, "s", on_question, &echo, NULL);

    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    wire_bus_unsubscribe(bus, "s", &echo);
    return rc == KVT_OK;
}

static void
every_failing_allocation_is_survived(void **state)
{
    struct test_nats server;
    struct wire_bus_options options = {.name = "test"};
    struct wire_bus *bus;

    (void)state;
    test_nats_start(&server);
    options.url = server.url;
    assert_true(test_sweep_allocations(attempt_bus, &options) >= 1);
    bus = test_bus_open(&server, true);
    assert_true(test_sweep_allocations(attempt_stream, bus) >= 3);
    assert_true(test_sweep_allocations(attempt_subscribe, bus) >= 2);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

/* A server that refuses us is told from one that is away: only a person can help. */
static void
refused_credentials_are_told(void **state)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    struct test_nats server;
    struct wire_bus_options options = {.name = "test"};
    struct wire_bus *bus = NULL;
    struct kvt_error err;
    char path[300];

    (void)state;
    test_nats_start_with_token(&server, "right");
    (void)snprintf(path, sizeof(path), "%s/token", server.folder);
    assert_int_equal(kvt_file_write(path, "wrong\n", 6, 0600, NULL), KVT_OK);
    options.url = server.url;
    options.token_file = path;
    options.connect_now = true;
    assert_int_equal(wire_bus_open(&bus, &options, &err), KVT_DENIED);
    options.connect_now = false;
    assert_int_equal(wire_bus_open(&bus, &options, &err), KVT_OK);
    while (!wire_bus_refused(bus)) {
        assert_true(kvt_clock_mono_ms() < deadline_ms);
        kvt_clock_sleep_ms(20);
    }
    assert_false(wire_bus_connected(bus));
    wire_bus_close(bus);

    assert_int_equal(kvt_file_write(path, "right\n", 6, 0600, NULL), KVT_OK);
    options.connect_now = true;
    assert_int_equal(wire_bus_open(&bus, &options, &err), KVT_OK);
    assert_false(wire_bus_refused(bus));
    wire_bus_close(bus);
    test_nats_stop(&server);
}

static void
credential_files_are_used(void **state)
{
    struct test_nats server;
    struct wire_bus_options options = {.connect_now = true, .user_file = "/nonexistent/user"};
    struct wire_bus *bus = NULL;
    struct kvt_error err;

    (void)state;
    test_nats_start(&server);
    options.url = server.url;
    assert_int_equal(wire_bus_open(&bus, &options, &err), KVT_NOTFOUND);
    assert_non_null(strstr(err.text, "/nonexistent/user"));
    test_nats_stop(&server);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_without_a_server_fails_or_keeps_trying),
        cmocka_unit_test(a_repeated_message_id_is_stored_once),
        cmocka_unit_test(streams_are_kept_where_the_server_forgets_them),
        cmocka_unit_test(asking_for_the_right_to_publish_leaves_nothing),
        cmocka_unit_test(an_ordered_reader_survives_kill_and_restart),
        cmocka_unit_test(an_ordered_reader_makes_a_lost_consumer_again),
        cmocka_unit_test(an_ordered_reader_does_not_believe_a_stuck_consumer),
        cmocka_unit_test(what_the_stream_dropped_is_a_gap),
        cmocka_unit_test(a_stream_made_anew_is_a_gap),
        cmocka_unit_test(a_reader_far_behind_gets_everything_once),
        cmocka_unit_test(a_work_queue_repeats_what_was_not_acknowledged),
        cmocka_unit_test(what_was_rejected_is_gone),
        cmocka_unit_test(requests_are_answered_until_nobody_listens),
        cmocka_unit_test(subscriptions_are_bounded),
        cmocka_unit_test(credential_files_are_used),
        cmocka_unit_test(refused_credentials_are_told),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };

    test_nats_require();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
