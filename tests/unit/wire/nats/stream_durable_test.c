/*
 * What is tested: wire/nats/stream.h read in order by a durable consumer, on a real nats-server.
 * What is handed out is what the stream has, once and in order, whatever happens to server and
 * consumer; the server never hears that more was applied than was. And wire/nats/ack_marks.h
 * beside a list of all.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "wire/message/subject.h"
#include "wire/nats/ack_marks.h"
#include "wire/nats/bus_state.h"
#include "wire/nats/stream.h"

#include "tests/support/seed.h"
#include "tests/unit/wire/support/test_bus.h"

enum { DEADLINE_MS = 20000 };

static const char *const subject = "kvtier.v1.events.ns.0.w1";
static const char durable[] = "advisor-a.b";         /* as it is asked for */
static const char durable_there[] = "advisor-a=2Eb"; /* as the server knows it */

static struct wire_stream *
open_durable(struct wire_bus *bus, uint64_t start_seq)
{
    const struct wire_stream_options options = {.stream = WIRE_STREAM_EVENTS,
                                                .subject = "",
                                                .durable = durable,
                                                .ordered = true,
                                                .start_seq = start_seq};
    struct wire_stream *stream = NULL;

    assert_int_equal(wire_stream_open(&stream, bus, &options), KVT_OK);
    return stream;
}

/* Numbers are sequences here. */
static void
read_until(struct wire_stream *stream, uint32_t *next, uint32_t last, size_t max)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    struct wire_message *messages[WIRE_STREAM_FETCH_MAX];
    size_t count;

    while (*next <= last) {
        const enum kvt_err rc = wire_stream_fetch(stream, messages, max, 100, &count);

        assert_true(kvt_clock_mono_ms() < deadline_ms);
        assert_true(rc == KVT_OK || (rc == KVT_UNAVAILABLE && count == 0));
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(wire_message_stream_seq(messages[i]), *next);
            (*next)++;
            wire_message_free(messages[i]);
        }
    }
}

struct floor {
    uint64_t acked; /* of the stream */
    uint64_t unacked;
    uint64_t pending;
};

static struct floor
look(struct wire_bus *bus)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    jsConsumerInfo *info = NULL;
    struct floor floor;

    wire_bus_settle(bus);
    while (js_GetConsumerInfo(&info, bus->js, WIRE_STREAM_EVENTS, durable_there, NULL, NULL) !=
           NATS_OK) {
        assert_true(kvt_clock_mono_ms() < deadline_ms);
        kvt_clock_sleep_ms(20);
    }
    floor = (struct floor){.acked = info->AckFloor.Stream,
                           .unacked = (uint64_t)info->NumAckPending,
                           .pending = info->NumPending};
    jsConsumerInfo_Destroy(info);
    return floor;
}

/* The server hears of it a moment later. */
static struct floor
wait_acked(struct wire_bus *bus, uint64_t seq)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    struct floor floor = look(bus);

    while (floor.acked < seq) {
        assert_true(kvt_clock_mono_ms() < deadline_ms);
        kvt_clock_sleep_ms(20);
        floor = look(bus);
    }
    assert_int_equal(floor.acked, seq);
    return floor;
}

static void
what_is_applied_is_acknowledged_and_no_more(void **state)
{
    struct test_nats server;
    struct wire_bus *bus = test_bus_start(&server);
    struct wire_stream *stream = open_durable(bus, 1);
    uint32_t next = 1;
    struct floor floor;

    (void)state;
    test_bus_publish(bus, subject, 1, 100);
    read_until(stream, &next, 90, 10);
    floor = look(bus);
    assert_int_equal(floor.acked, 0);
    assert_int_equal(floor.unacked, 90);
    assert_int_equal(floor.pending, 10);
    wire_stream_applied(stream, 5); /* in the middle of what came together */
    assert_int_equal(look(bus).acked, 0);
    wire_stream_applied(stream, 55);
    floor = wait_acked(bus, 50);
    assert_int_equal(floor.unacked, 40);
    read_until(stream, &next, 100, 10);
    wire_stream_applied(stream, 100);
    floor = wait_acked(bus, 100);
    assert_int_equal(floor.unacked, 0);
    assert_int_equal(floor.pending, 0);

    /* It stays, and its lag grows. */
    wire_stream_close(stream);
    test_bus_publish(bus, subject, 101, 107);
    assert_int_equal(look(bus).pending, 7);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

static void
reading_begins_where_the_reader_says(void **state)
{
    struct test_nats server;
    struct wire_bus *bus = test_bus_start(&server);
    struct wire_stream *stream = open_durable(bus, 1);
    uint32_t next = 1;

    (void)state;
    test_bus_publish(bus, subject, 1, 60);
    read_until(stream, &next, 60, 16);
    wire_stream_applied(stream, 40);
    wire_stream_close(stream);
    /* What was applied is known to who reads, not to the server: more than it heard ... */
    stream = open_durable(bus, 51);
    next = 51;
    read_until(stream, &next, 60, 16);
    assert_int_equal(look(bus).unacked, 10);
    wire_stream_close(stream);
    /* ... or less, as with a folder that was lost. */
    stream = open_durable(bus, 1);
    next = 1;
    read_until(stream, &next, 60, 16);
    assert_int_equal(look(bus).unacked, 60);
    wire_stream_close(stream);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

static void
order_holds_when_server_and_consumer_go(void **state)
{
    enum { ROUNDS = 4, EACH = 300 };
    struct test_nats server;
    struct wire_bus *bus = test_bus_start(&server);
    struct wire_stream *stream = open_durable(bus, 1);
    uint64_t random = test_seed();
    uint32_t last = 0;
    uint32_t next = 1;
    uint64_t applied = 0;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        test_bus_publish(bus, subject, last + 1, last + EACH);
        last += EACH;
        read_until(stream, &next, last - (uint32_t)kvt_random_below(&random, EACH), 64);
        applied += kvt_random_below(&random, next - applied);
        wire_stream_applied(stream, applied);
        assert_true(look(bus).acked <= applied);
        if (round % 2 == 0) {
            test_nats_kill(&server);
            test_nats_restart(&server);
        } else {
            (void)js_DeleteConsumer(bus->js, WIRE_STREAM_EVENTS, durable_there, NULL, NULL);
        }
        test_bus_publish(bus, subject, last + 1,
                         last + 1); /* something to ask for: the consumer is needed again */
        last++;
        read_until(stream, &next, last, 64);
        assert_true(look(bus).acked <= applied);
        /* What was handed out before, and not applied, can be acknowledged all the same. */
        applied = next - 1;
        wire_stream_applied(stream, applied);
        assert_int_equal(wait_acked(bus, applied).unacked, 0);
    }
    wire_stream_close(stream);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

struct other {
    struct wire_stream *stream;
    _Atomic bool stop;
};

static void *
keep_reading(void *arg)
{
    struct other *other = arg;
    struct wire_message *message;
    size_t count;

    while (!atomic_load(&other->stop)) {
        if (wire_stream_fetch(other->stream, &message, 1, 100, &count) == KVT_OK && count == 1)
            wire_message_free(message);
    }
    return NULL;
}

static void
a_durable_that_somebody_reads_by_is_told(void **state)
{
    struct test_nats server;
    struct wire_bus *bus = test_bus_start(&server);
    struct wire_bus *others = test_bus_open(&server, true);
    struct other other = {.stream = open_durable(others, 1)};
    pthread_t thread;

    (void)state;
    assert_int_equal(wire_stream_durable_free(bus, WIRE_STREAM_EVENTS, durable), KVT_OK);
    assert_int_equal(pthread_create(&thread, NULL, keep_reading, &other), 0);
    (void)look(bus); /* until it is there */
    assert_int_equal(wire_stream_durable_free(bus, WIRE_STREAM_EVENTS, durable), KVT_BUSY);
    assert_int_equal(wire_stream_durable_free(bus, WIRE_STREAM_EVENTS, "another"), KVT_OK);
    atomic_store(&other.stop, true);
    (void)pthread_join(thread, NULL);
    wire_stream_close(other.stream);
    wire_bus_close(others);
    assert_int_equal(wire_stream_durable_free(bus, WIRE_STREAM_EVENTS, durable), KVT_OK);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

static void
marks_never_acknowledge_more_than_is_applied(void **state)
{
    struct wire_ack_marks marks = {.count = 0};
    uint64_t random = test_seed();
    uint64_t last = 0;
    uint64_t taken = 0;

    (void)state;
    for (int step = 0; step < 20000; step++) {
        char text[32];

        if (kvt_random_below(&random, 400) != 0) {
            last += 1 + kvt_random_below(&random, 3);
            (void)snprintf(text, sizeof(text), "%" PRIu64, last);
            wire_ack_marks_add(&marks, last, text);
            assert_true(marks.count <= WIRE_ACK_MARKS_MAX);
        } else {
            const uint64_t upto = taken + kvt_random_below(&random, last - taken + 1);
            const struct wire_ack_mark mark = wire_ack_marks_take(&marks, upto);

            assert_true(mark.subject == NULL || (mark.seq <= upto && mark.seq > taken));
            assert_true(mark.subject != NULL || upto < last);
            if (mark.subject != NULL) {
                (void)snprintf(text, sizeof(text), "%" PRIu64, mark.seq);
                assert_string_equal(mark.subject, text);
                taken = mark.seq;
            }
            kvt_free(mark.subject);
        }
    }
    { /* All of them: the newest is there, however many were thinned out. */
        const struct wire_ack_mark mark = wire_ack_marks_take(&marks, UINT64_MAX);

        assert_true(mark.subject == NULL || mark.seq == last);
        kvt_free(mark.subject);
        assert_int_equal(marks.count, 0);
    }
    wire_ack_marks_clear(&marks);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_never_acknowledge_more_than_is_applied),
        cmocka_unit_test(what_is_applied_is_acknowledged_and_no_more),
        cmocka_unit_test(reading_begins_where_the_reader_says),
        cmocka_unit_test(order_holds_when_server_and_consumer_go),
        cmocka_unit_test(a_durable_that_somebody_reads_by_is_told),
    };

    test_nats_require();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
