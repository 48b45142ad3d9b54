/*
 * What is tested: the kvbm-zmq source: connectors of KVBM publish to a hub, and we are the hub.
 * How: publishers in this process that connect to it.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/source.h"
#include "base/clock.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/zmq_peer.h"

enum { PATIENCE_MS = 20000, STEP_MS = 50, QUICK_MS = 2000 };

static struct advisor_source_options
options_of(const char *endpoints)
{
    return (struct advisor_source_options){
        .name = "hub",
        .namespace_ = "t/m",
        .stream = "",
        .subject = "",
        .endpoints = endpoints,
        .replay = "",
        .topic = "",
        .dump_url = "",
        .discovery = "",
        .listen = "",
    };
}

static void
expect(struct advisor_source *source, const char *payload)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + PATIENCE_MS;
    struct advisor_item *item;

    while (advisor_source_poll(source, &item, 1, STEP_MS) == 0)
        assert_true(kvt_clock_mono_ms() < until_ms);
    assert_int_equal(item->kind, ADVISOR_ITEM_MESSAGE);
    assert_string_equal(item->subject, "kvbm.kv_index");
    assert_false(item->has_sequence);
    assert_int_equal(item->size, strlen(payload));
    assert_memory_equal(item->bytes, payload, item->size);
    advisor_item_free(item);
}

static void
connectors_publish_to_us(void **state)
{
    static const struct test_zmq_frame other[] = {{"velo.other", 10}, {"x", 1}};
    static const struct test_zmq_frame lone[] = {{"kvbm.kv_index", 13}};
    static const struct test_zmq_frame three[] = {{"kvbm.kv_index", 13}, {"x", 1}, {"y", 1}};
    struct test_zmq_publisher connectors[2];
    struct advisor_source_options options;
    struct advisor_source_state now = {0};
    struct advisor_source *source;
    uint64_t start_ms;
    char endpoint[64];

    (void)state;
    test_zmq_free_endpoint(endpoint, sizeof(endpoint));
    options = options_of(endpoint);
    assert_int_equal(advisor_source_open(&source, &advisor_source_kvbm_zmq, &options), KVT_OK);
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
    start_ms = kvt_clock_mono_ms();
    while (now.refused < 2 || !now.running) {
        advisor_source_state(source, &now);
        assert_true(kvt_clock_mono_ms() - start_ms < PATIENCE_MS);
    }
    assert_int_equal(now.refused, 2);
    start_ms = kvt_clock_mono_ms();
    advisor_source_close(source);
    assert_true(kvt_clock_mono_ms() - start_ms < QUICK_MS);
    test_zmq_publisher_close(&connectors[0]);
    test_zmq_publisher_close(&connectors[1]);
}

static bool
open_one(void *arg)
{
    const struct advisor_source_options *options = arg;
    struct advisor_source *source;
    const enum kvt_err rc = advisor_source_open(&source, &advisor_source_kvbm_zmq, options);

    if (rc == KVT_OK)
        advisor_source_close(source);
    else
        assert_int_equal(rc, KVT_NOMEM);
    return rc == KVT_OK;
}

static void
settings_are_checked(void **state)
{
    struct advisor_source_options options = options_of("");
    struct advisor_source *source;
    char endpoint[64];

    (void)state;
    assert_int_equal(advisor_source_open(&source, &advisor_source_kvbm_zmq, &options), KVT_INVALID);
    assert_null(source);
    test_zmq_free_endpoint(endpoint, sizeof(endpoint));
    options = options_of(endpoint);
    assert_true(test_sweep_allocations(open_one, &options) > 3);
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
