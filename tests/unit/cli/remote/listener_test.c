/*
 * What is tested: cli/remote/listener.h over ZMQ, and what it refuses.
 * How: a publisher in a thread of the test that numbers its messages as engines do.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/config/config.h"
#include "base/core/clock.h"
#include "cli/frame/interrupt.h"
#include "cli/remote/listener.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/zmq_peer.h"

enum { MESSAGES = 20, WAIT_MS = 20000 };

struct heard {
    unsigned count;
    unsigned pauses;
    unsigned enough;
    char last[64];
    uint64_t last_sequence;
};

static bool
hear(void *arg, const struct wire_recording *message)
{
    struct heard *heard = arg;

    assert_string_equal(message->dialect, "engine");
    assert_string_equal(message->source, "zmq");
    assert_string_equal(message->subject, "kvtier:0"); /* its source and endpoint */
    assert_true(message->size < sizeof(heard->last) && message->time_ns > 0);
    (void)snprintf(heard->last, sizeof(heard->last), "%.*s", (int)message->size,
                   (const char *)message->bytes);
    heard->last_sequence = message->sequence;
    return ++heard->count != heard->enough;
}

static bool
rest(void *arg)
{
    struct heard *heard = arg;

    heard->pauses++;
    return true;
}

static void *
publish(void *arg)
{
    struct test_zmq_publisher *publisher = arg;

    test_zmq_publisher_await(publisher, 1);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        char text[32];

        (void)snprintf(text, sizeof(text), "message %u", (unsigned)i);
        test_zmq_publish(publisher, "kv", i, text);
    }
    return NULL;
}

static void
messages_of_an_engine_come_in_order(void **state)
{
    struct heard heard = {.enough = MESSAGES};
    struct cli_listener listener = {.dialect = WIRE_DIALECT_ENGINE,
                                    .deadline_ms = kvt_clock_mono_ms() + WAIT_MS,
                                    .each = hear,
                                    .pause = rest,
                                    .arg = &heard};
    struct test_zmq_publisher publisher;
    pthread_t thread;

    (void)state;
    test_zmq_publisher_bind(&publisher, NULL, 0);
    assert_int_equal(pthread_create(&thread, NULL, publish, &publisher), 0);
    assert_int_equal(cli_listener_zmq(&listener, publisher.endpoint, false, NULL), KVT_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(heard.count, MESSAGES);
    assert_string_equal(heard.last, "message 19");
    assert_int_equal(heard.last_sequence, MESSAGES - 1);
    assert_int_equal(listener.dropped, 0);
    test_zmq_publisher_close(&publisher);
}

static void
it_ends_when_its_time_is_over(void **state)
{
    struct heard heard = {0};
    struct cli_listener listener = {.dialect = WIRE_DIALECT_ENGINE,
                                    .deadline_ms = kvt_clock_mono_ms() + 300,
                                    .each = hear,
                                    .pause = rest,
                                    .arg = &heard};
    const uint64_t start = kvt_clock_mono_ms();

    (void)state;
    assert_int_equal(cli_listener_zmq(&listener, "tcp://127.0.0.1:9", false, NULL), KVT_OK);
    assert_true(kvt_clock_mono_ms() - start >= 300);
    assert_int_equal(heard.count, 0);
    assert_true(heard.pauses > 0);
}

static void
what_nobody_publishes_over_zmq_is_refused(void **state)
{
    struct cli_listener listener = {.each = hear, .pause = rest};
    struct kvt_error err = {0};

    (void)state;
    listener.dialect = WIRE_DIALECT_KVTIER;
    assert_int_equal(cli_listener_zmq(&listener, "tcp://127.0.0.1:9", false, &err),
                     KVT_UNSUPPORTED);
    listener.dialect = WIRE_DIALECT_MINIO;
    assert_int_equal(cli_listener_zmq(&listener, "tcp://127.0.0.1:9", false, &err),
                     KVT_UNSUPPORTED);
    listener.dialect = WIRE_DIALECT_ENGINE;
    assert_int_not_equal(cli_listener_zmq(&listener, "nonsense", false, &err), KVT_OK);
    assert_non_null(strstr(err.text, "nonsense"));
}

static void
usual_subjects_are_those_of_the_dialect(void **state)
{
    (void)state;
    assert_string_equal(cli_listener_subjects(WIRE_DIALECT_KVTIER), "kvtier.v1.events.>");
    assert_non_null(strstr(cli_listener_subjects(WIRE_DIALECT_DYNAMO), "kv-events"));
    assert_string_equal(cli_listener_subjects(WIRE_DIALECT_KVBM), "kvbm.events");
    assert_null(cli_listener_subjects(WIRE_DIALECT_MINIO));
    assert_null(cli_listener_subjects(WIRE_DIALECT_ENGINE));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_an_engine_come_in_order),
        cmocka_unit_test(it_ends_when_its_time_is_over),
        cmocka_unit_test(what_nobody_publishes_over_zmq_is_refused),
        cmocka_unit_test(usual_subjects_are_those_of_the_dialect),
    };

    cli_interrupt_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
