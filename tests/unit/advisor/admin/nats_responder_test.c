/*
 * What is tested: advisor/admin/nats_responder.h of a router that is one of a group, on a real
 * nats-server: when it is asked, and that nobody is any more behind its end.
 */
#include <string.h>

#include "advisor/admin/nats_responder.h"
#include "base/core/clock.h"
#include "base/core/metrics.h"
#include "wire/message/route.h"
#include "wire/message/subject.h"

#include "tests/support/seed.h"
#include "tests/unit/wire/support/test_bus.h"

enum { DEADLINE_MS = 20000, ANSWER_MS = 10000 };

static void
to_nobody(void *arg, const void *bytes, size_t size)
{
    (void)arg;
    (void)bytes;
    (void)size;
}

/* KVT_UNAVAILABLE: nobody is there to be asked. */
static enum kvt_err
ask(struct wire_bus *bus)
{
    struct kvt_buffer answer;
    enum kvt_err rc;

    kvt_buffer_init(&answer, WIRE_ROUTE_MAX);
    rc = wire_bus_request(bus, WIRE_SUBJECT_ROUTE, "junk", 4, ANSWER_MS, &answer);
    kvt_buffer_release(&answer);
    return rc;
}

static void
one_of_a_group_is_asked_from_its_join_to_its_end(void **state)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    struct advisor_router_options options = {.weights = router_weights_default(),
                                             .block_tokens = 16,
                                             .expiry_ms = 1000,
                                             .requests_max = 16,
                                             .number = 1,
                                             .send = to_nobody};
    const struct advisor_finder finder = {.memory = NULL};
    struct test_nats server;
    struct advisor_counters counters;
    struct advisor_nats_responder *responder;
    struct advisor_router *router;
    struct kvt_metrics *metrics;
    struct wire_bus *other;
    struct wire_bus *bus;

    (void)state;
    test_nats_start(&server);
    bus = test_bus_open(&server, true);
    other = test_bus_open(&server, true);
    assert_int_equal(kvt_metrics_new(&metrics), KVT_OK);
    advisor_counters_register(&counters, metrics);
    options.metrics = metrics;
    assert_int_equal(advisor_router_new(&router, &options, NULL), KVT_OK);
    assert_int_equal(
        advisor_nats_responder_start(&responder, bus, &finder, router, "g", &counters, NULL),
        KVT_OK);
    assert_false(advisor_nats_responder_listens(responder));
    assert_int_equal(ask(other), KVT_UNAVAILABLE);
    while (!advisor_nats_responder_listens(responder)) {
        assert_true(kvt_clock_mono_ms() < until_ms);
        advisor_router_tick(router, true);
        kvt_clock_sleep_ms(20);
    }
    assert_int_equal(ask(other), KVT_OK);
    advisor_nats_responder_stop(responder);
    assert_int_equal(ask(other), KVT_UNAVAILABLE);
    advisor_router_free(router);
    kvt_metrics_free(metrics);
    wire_bus_close(other);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_a_group_is_asked_from_its_join_to_its_end),
    };

    test_nats_require();
    return cmocka_run_group_tests_name("advisor/responder", tests, NULL, NULL);
}
