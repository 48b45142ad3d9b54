/*
 * What is tested: the kvbm-zmq source: connectors of KVBM publish to a hub, and we are the hub.
 * How: publishers in this process that connect to it.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/source/source.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/zmq_peer.h"
#include "tests/unit/advisor/support/zmq_source.h"

static void
expect(struct advisor_source *source, const char *payload)
{
    struct advisor_inbox_item *item = test_zmq_source_take(source);

    assert_int_equal(item->kind, ADVISOR_INBOX_ITEM_MESSAGE);
    assert_string_equal(item->subject, "kvbm.kv_index");
    assert_false(item->has_sequence);
    assert_int_equal(item->size, strlen(payload));
    assert_memory_equal(item->bytes, payload, item->size);
    advisor_inbox_item_free(item);
}

static void
connectors_publish_to_us(void **state)
{
    static const struct test_zmq_frame other[] = {{"velo.other", 10}, {"x", 1}};
    static const struct test_zmq_frame lone[] = {{"kvbm.kv_index", 13}};
    static const struct test_zmq_frame three[] = {{"kvbm.kv_index", 13}, {"x", 1}, {"y", 1}};
    struct test_zmq_publisher connectors[2];
    struct advisor_source_options options;
    struct advisor_source *source;
    char endpoint[64];

    (void)state;
    test_zmq_free_endpoint(endpoint, sizeof(endpoint));
    options = test_zmq_source_options("hub", endpoint);
    source = test_zmq_source_open(&advisor_source_kvbm_zmq, &options);
    assert_null(advisor_source_dialect(source)->ask); /* nothing can be asked for again */
    for (size_t i = 0; i < 2; i++) {
        const struct test_zmq_frame fine[] = {{"kvbm.kv_index", 13}, {i == 0 ? "a" : "b", 1}};

        test_zmq_publisher_connect(&connectors[i], endpoint);
        test_zmq_publisher_await(&connectors[i], 1);
        test_zmq_send(&connectors[i], fine, 2);
        expect(source, i == 0 ? "a" : "b");
    }
    {
        const struct test_zmq_frame fine[] = {{"kvbm.kv_index", 13}, {"last", 4}};

        test_zmq_send(&connectors[0], other, 2);
        test_zmq_send(&connectors[0], lone, 1);
        test_zmq_send(&connectors[0], three, 3);
        test_zmq_send(&connectors[0], fine, 2);
        expect(source, "last");
    }
    test_zmq_source_wait_refused(source, 2);
    test_zmq_source_wait_running(source, true);
    test_zmq_source_close(source);
    test_zmq_publisher_close(&connectors[0]);
    test_zmq_publisher_close(&connectors[1]);
}

static void
settings_are_checked(void **state)
{
    struct advisor_source_options options = test_zmq_source_options("hub", "");
    struct advisor_source *source;
    char endpoint[64];

    (void)state;
    assert_int_equal(advisor_source_open(&source, &advisor_source_kvbm_zmq, &options), KVT_INVALID);
    assert_null(source);
    test_zmq_free_endpoint(endpoint, sizeof(endpoint));
    options = test_zmq_source_options("hub", endpoint);
    test_zmq_source_sweep(&advisor_source_kvbm_zmq, &options);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connectors_publish_to_us),
        cmocka_unit_test(settings_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
