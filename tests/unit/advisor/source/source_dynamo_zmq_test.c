/*
 * What is tested: the dynamo-zmq source: publishers in the settings, brokers, and publishers found
 *                 in a discovery folder.
 * How: publishers in this process; messages framed as releases 1.3.1 and 1.6.1 do; a folder made by
 *      hand.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "advisor/source/source.h"
#include "base/core/clock.h"
#include "base/core/file.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/zmq_peer.h"
#include "tests/unit/advisor/support/zmq_source.h"

enum { STEP_MS = 50, PATH_SIZE = 512 };

static struct advisor_source_options
options_of(const char *endpoints, const char *discovery)
{
    struct advisor_source_options options = test_zmq_source_options("cluster", endpoints);

    options.discovery = discovery;
    return options;
}

static struct advisor_source *
open_source(const struct advisor_source_options *options)
{
    return test_zmq_source_open(&advisor_source_dynamo_zmq, options);
}

/* Four frames: topic, publisher, number, version and length and envelope. */
static void
publish(struct test_zmq_publisher *publisher, const char *topic, uint64_t number,
        const char *envelope)
{
    const size_t size = strlen(envelope);
    uint8_t who[8];
    uint8_t which[8];
    uint8_t body[256];
    const struct test_zmq_frame frames[] = {
        {topic, strlen(topic)}, {who, sizeof(who)}, {which, sizeof(which)}, {body, 5 + size}};

    assert_true(size < sizeof(body) - 5);
    test_zmq_be64(who, 42);
    test_zmq_be64(which, number);
    body[0] = 1;
    body[1] = 0;
    body[2] = 0;
    body[3] = (uint8_t)(size >> 8);
    body[4] = (uint8_t)size;
    memcpy(body + 5, envelope, size);
    test_zmq_send(publisher, frames, 4);
}

static void
expect(struct advisor_source *source, const char *subject, const char *envelope)
{
    struct advisor_inbox_item *item = test_zmq_source_take(source);

    assert_int_equal(item->kind, ADVISOR_INBOX_ITEM_MESSAGE);
    assert_string_equal(item->subject, subject);
    assert_int_equal(item->size, strlen(envelope));
    assert_memory_equal(item->bytes, envelope, item->size);
    assert_false(item->has_sequence);
    advisor_inbox_item_free(item);
}

/* Direct: the bare topic.  Other topics of the same plane are none of ours. */
static void
direct_publishers_are_heard(void **state)
{
    struct test_zmq_publisher publishers[2];
    struct advisor_source_options options;
    struct advisor_source *source;
    char endpoints[160];

    (void)state;
    test_zmq_publisher_bind(&publishers[0], NULL, 0);
    test_zmq_publisher_bind(&publishers[1], NULL, 0);
    (void)snprintf(endpoints, sizeof(endpoints), "%s,%s", publishers[0].endpoint,
                   publishers[1].endpoint);
    options = options_of(endpoints, "");
    source = open_source(&options);
    test_zmq_publisher_await(&publishers[0], 1);
    test_zmq_publisher_await(&publishers[1], 1);
    publish(&publishers[0], "kv-events", 0, "one");
    expect(source, "kv-events", "one");
    publish(&publishers[1], "kv_events", 0, "two");
    expect(source, "kv_events", "two");
    publish(&publishers[0], "kv_metrics", 1, "not ours");
    publish(&publishers[0], "forward-pass-metrics", 2, "not ours");
    publish(&publishers[0], "xkv-events", 3, "not ours");
    publish(&publishers[0], "", 4, "not ours");
    publish(&publishers[0], "kv-events", 5, "three");
    expect(source, "kv-events", "three");
    test_zmq_source_wait_refused(source, 0);
    test_zmq_source_close(source);
    test_zmq_publisher_close(&publishers[0]);
    test_zmq_publisher_close(&publishers[1]);
}

/* Two brokers bring everything twice; each copy says the same. */
static void
brokers_bring_it_twice(void **state)
{
    static const char topic[] = "namespace.ns1.component.back-end.endpoint.generate.kv-events";
    static const char other[] = "namespace.ns2.component.back-end.endpoint.generate.kv-events";
    struct test_zmq_publisher brokers[2];
    struct advisor_source_options options;
    struct advisor_source *source;
    char endpoints[160];

    (void)state;
    test_zmq_publisher_bind(&brokers[0], NULL, 0);
    test_zmq_publisher_bind(&brokers[1], NULL, 0);
    (void)snprintf(endpoints, sizeof(endpoints), "%s,%s", brokers[0].endpoint, brokers[1].endpoint);
    options = options_of(endpoints, "");
    options.topic = "namespace.ns1.";
    source = open_source(&options);
    for (size_t i = 0; i < 2; i++) {
        test_zmq_publisher_await(&brokers[i], 1);
        publish(&brokers[i], topic, 7, "same");
        publish(&brokers[i], other, 8, "of another namespace");
        publish(&brokers[i], "namespace.ns1.component.back-end.kv_metrics", 9, "of another topic");
        expect(source, topic, "same");
    }
    test_zmq_source_expect_nothing(source);
    test_zmq_publisher_close(&brokers[0]); /* one is enough */
    test_zmq_source_wait_detail(source, "1 of 2");
    publish(&brokers[1], topic, 8, "more");
    expect(source, topic, "more");
    test_zmq_source_close(source);
    test_zmq_publisher_close(&brokers[1]);
}

static void
malformed_messages_are_counted(void **state)
{
    static const struct test_zmq_frame three[] = {{"kv-events", 9}, {"12345678", 8}, {"x", 1}};
    static const struct test_zmq_frame five[] = {
        {"kv-events", 9}, {"12345678", 8}, {"12345678", 8}, {"\1\0\0\0\1p", 6}, {"x", 1}};
    static const struct test_zmq_frame short_who[] = {
        {"kv-events", 9}, {"1234567", 7}, {"12345678", 8}, {"\1\0\0\0\1p", 6}};
    static const struct test_zmq_frame long_which[] = {
        {"kv-events", 9}, {"12345678", 8}, {"123456789", 9}, {"\1\0\0\0\1p", 6}};
    static const struct test_zmq_frame version[] = {
        {"kv-events", 9}, {"12345678", 8}, {"12345678", 8}, {"\2\0\0\0\1p", 6}};
    static const struct test_zmq_frame cut[] = {
        {"kv-events", 9}, {"12345678", 8}, {"12345678", 8}, {"\1\0\0\0\2p", 6}};
    static const struct test_zmq_frame empty[] = {
        {"kv-events", 9}, {"12345678", 8}, {"12345678", 8}, {"", 0}};
    struct test_zmq_publisher publisher;
    struct advisor_source_options options;
    struct advisor_source *source;

    (void)state;
    test_zmq_publisher_bind(&publisher, NULL, 0);
    options = options_of(publisher.endpoint, "");
    source = open_source(&options);
    test_zmq_publisher_await(&publisher, 1);
    test_zmq_send(&publisher, three, 3);
    test_zmq_send(&publisher, five, 5);
    test_zmq_send(&publisher, short_who, 4);
    test_zmq_send(&publisher, long_which, 4);
    test_zmq_send(&publisher, version, 4);
    test_zmq_send(&publisher, cut, 4);
    test_zmq_send(&publisher, empty, 4);
    {
        char topic[2000];
        struct test_zmq_frame frames[] = {
            {topic, sizeof(topic)}, {"12345678", 8}, {"12345678", 8}, {"\1\0\0\0\1p", 6}};

        memset(topic, 't', sizeof(topic));
        test_zmq_send(&publisher, frames, 4);
    }
    publish(&publisher, "kv-events", 1, "fine");
    expect(source, "kv-events", "fine");
    test_zmq_source_wait_refused(source, 8);
    test_zmq_source_expect_nothing(source);
    test_zmq_source_close(source);
    test_zmq_publisher_close(&publisher);
}

/* ---- the folder ---- */

static void
put(const char *folder, const char *bucket, const char *name, const char *text)
{
    char path[PATH_SIZE + 128];

    (void)snprintf(path, sizeof(path), "%s/v1/%s", folder, bucket);
    assert_int_equal(kvt_folder_make(path, NULL), KVT_OK);
    (void)snprintf(path, sizeof(path), "%s/v1/%s/%s", folder, bucket, name);
    assert_int_equal(kvt_file_write(path, text, strlen(text), 0600, NULL), KVT_OK);
}

static void
drop(const char *folder, const char *bucket, const char *name)
{
    char path[PATH_SIZE + 128];

    (void)snprintf(path, sizeof(path), "%s/v1/%s/%s", folder, bucket, name);
    assert_int_equal(unlink(path), 0);
}

static void
put_channel(const char *folder, const char *name, const char *endpoint)
{
    char text[512];

    (void)snprintf(text, sizeof(text),
                   "{\"scope\":{\"kind\":\"endpoint\",\"endpoint\":{\"namespace\":\"ns1\","
                   "\"component\":\"b\",\"name\":\"generate\"}},\"topic\":\"kv-events\","
                   "\"instance_id\":7,\"transport\":{\"kind\":\"Zmq\",\"config\":{\"endpoint\":"
                   "\"%s\"}}}",
                   endpoint);
    put(folder, "event_channels", name, text);
}

static void
put_instance(const char *folder, const char *name, uint64_t worker)
{
    char text[512];

    (void)snprintf(text, sizeof(text),
                   "{\"component\":\"b\",\"endpoint\":\"generate\",\"namespace\":\"ns1\","
                   "\"instance_id\":%llu,\"transport\":{\"tcp\":\"10.0.0.1:2/x\"}}",
                   (unsigned long long)worker);
    put(folder, "instances", name, text);
}

static void
publishers_come_and_go(void **state)
{
    struct test_zmq_publisher publishers[3];
    struct advisor_source_options options;
    struct advisor_source *source;
    struct advisor_inbox_item *item;
    char folder[PATH_SIZE];
    char name[16];

    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    options = options_of("", folder);
    source = open_source(&options);
    test_zmq_source_wait_detail(source, "no records in /");
    put(folder, "event_channels", "garbage", "{\"topic\":");
    test_zmq_source_wait_detail(source, "no publisher is known");
    for (size_t i = 0; i < 3; i++) {
        test_zmq_publisher_bind(&publishers[i], NULL, 0);
        (void)snprintf(name, sizeof(name), "w%zu", i);
        put_channel(folder, name, publishers[i].endpoint);
        put_instance(folder, name, 100 + i);
    }
    for (size_t i = 0; i < 3; i++) {
        test_zmq_publisher_await(&publishers[i], 1);
        publish(&publishers[i], "kv-events", 0, "hello");
        expect(source, "kv-events", "hello");
    }
    /* A worker leaves: it is told, its address is dialled no more, and the others are heard. */
    drop(folder, "event_channels", "w1");
    drop(folder, "instances", "w1");
    item = test_zmq_source_take(source);
    assert_int_equal(item->kind, ADVISOR_INBOX_ITEM_GONE);
    assert_int_equal(item->worker_id, 101);
    advisor_inbox_item_free(item);
    kvt_clock_sleep_ms(STEP_MS * 4);
    publish(&publishers[1], "kv-events", 1, "to nobody");
    publish(&publishers[2], "kv-events", 1, "still here");
    expect(source, "kv-events", "still here");
    test_zmq_source_expect_nothing(source);
    /* It comes back at another address. */
    test_zmq_publisher_close(&publishers[1]);
    test_zmq_publisher_bind(&publishers[1], NULL, 0);
    put_channel(folder, "w1", publishers[1].endpoint);
    put_instance(folder, "w1", 201);
    test_zmq_publisher_await(&publishers[1], 1);
    publish(&publishers[1], "kv-events", 0, "again");
    expect(source, "kv-events", "again");
    test_zmq_source_close(source);
    for (size_t i = 0; i < 3; i++)
        test_zmq_publisher_close(&publishers[i]);
    test_folder_remove(folder);
}

/* An address that is in the settings and in the folder is heard once. */
static void
nobody_is_heard_twice(void **state)
{
    struct test_zmq_publisher publishers[2];
    struct advisor_source_options options;
    struct advisor_source *source;
    char folder[PATH_SIZE];

    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    test_zmq_publisher_bind(&publishers[0], NULL, 0);
    test_zmq_publisher_bind(&publishers[1], NULL, 0);
    put_channel(folder, "a", publishers[0].endpoint);
    put_channel(folder, "b", publishers[1].endpoint);
    options = options_of(publishers[0].endpoint, folder);
    source = open_source(&options);
    test_zmq_publisher_await(&publishers[0], 1);
    test_zmq_publisher_await(&publishers[1], 1);
    publish(&publishers[0], "kv-events", 0, "once");
    expect(source, "kv-events", "once");
    publish(&publishers[1], "kv-events", 0, "other");
    expect(source, "kv-events", "other");
    test_zmq_source_expect_nothing(source);
    test_zmq_source_close(source);
    test_zmq_publisher_close(&publishers[0]);
    test_zmq_publisher_close(&publishers[1]);
    test_folder_remove(folder);
}

static void
settings_are_checked(void **state)
{
    struct advisor_source_options options = options_of("", "");
    struct advisor_source *source;
    char endpoint[64];

    (void)state;
    assert_int_equal(advisor_source_open(&source, &advisor_source_dynamo_zmq, &options),
                     KVT_INVALID);
    assert_null(source);
    options = options_of("127.0.0.1:1", "");
    assert_int_equal(advisor_source_open(&source, &advisor_source_dynamo_zmq, &options),
                     KVT_INVALID);
    test_zmq_free_endpoint(endpoint, sizeof(endpoint));
    options = options_of(endpoint, "");
    test_zmq_source_sweep(&advisor_source_dynamo_zmq, &options);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(direct_publishers_are_heard),    cmocka_unit_test(brokers_bring_it_twice),
        cmocka_unit_test(malformed_messages_are_counted), cmocka_unit_test(publishers_come_and_go),
        cmocka_unit_test(nobody_is_heard_twice),          cmocka_unit_test(settings_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
