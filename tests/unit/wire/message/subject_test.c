/*
 * What is tested: wire/message/subject.h.
 */
#include <string.h>

#include "wire/message/subject.h"

#include "tests/support/seed.h"

static void
names_become_tokens(void **state)
{
    static const struct {
        const char *namespace_;
        const char *worker;
        const char *subject;
    } cases[] = {
        {"tenant/model-1_b", "w1", "kvtier.v1.events.tenant/model-1_b.7.w1"},
        {"", "w1", "kvtier.v1.events._.7.w1"},
        {"_", "w1", "kvtier.v1.events.%5F.7.w1"},
        {"__", "_", "kvtier.v1.events.__.7._"},
        {"a.b*c>d e%", "host.1", "kvtier.v1.events.a%2Eb%2Ac%3Ed%20e%25.7.host%2E1"},
        {"\xc3\xa9\n", "w", "kvtier.v1.events.%C3%A9%0A.7.w"},
    };
    static const char *const not_bare[] = {"",      "w1",  "a/b_c-d", ".a",     "a.",     "a..b",
                                           "a b.c", "a.*", "a.>",     "a%2E.b", "\xc3.a", "a.\n"};
    char out[WIRE_SUBJECT_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(
            wire_subject_events(out, sizeof(out), cases[i].namespace_, 7, cases[i].worker), KVT_OK);
        assert_string_equal(out, cases[i].subject);
    }
    assert_int_equal(wire_subject_named(WIRE_SUBJECT_ORDERS, out, sizeof(out), "gw.1"), KVT_OK);
    assert_string_equal(out, "kvtier.v1.orders.gw%2E1");
    assert_int_equal(wire_subject_named(WIRE_SUBJECT_REPORTS, out, sizeof(out), "gw1"), KVT_OK);
    assert_string_equal(out, "kvtier.v1.reports.gw1");
    assert_int_equal(wire_subject_named(WIRE_SUBJECT_DUMP, out, sizeof(out), "w1"), KVT_OK);
    assert_string_equal(out, "kvtier.v1.query.dump.w1");
    assert_int_equal(wire_subject_bare(WIRE_SUBJECT_DUMP, out, sizeof(out), "host.a:1"), KVT_OK);
    assert_string_equal(out, "kvtier.v1.query.dump.host.a:1");
    assert_int_equal(wire_subject_bare(WIRE_SUBJECT_RANGE, out, sizeof(out), "a.b.c"), KVT_OK);
    assert_string_equal(out, "kvtier.v1.query.range.a.b.c");
    for (size_t i = 0; i < sizeof(not_bare) / sizeof(not_bare[0]); i++) {
        assert_int_equal(wire_subject_bare(WIRE_SUBJECT_DUMP, out, sizeof(out), not_bare[i]),
                         KVT_INVALID);
        assert_string_equal(out, "");
    }
    assert_int_equal(wire_subject_named(WIRE_SUBJECT_RANGE, out, sizeof(out), "w1"), KVT_OK);
    assert_string_equal(out, "kvtier.v1.query.range.w1");
    assert_int_equal(wire_subject_named(WIRE_SUBJECT_ROUTE_SYNC, out, sizeof(out), "llama 70b.eu"),
                     KVT_OK);
    assert_string_equal(out, "kvtier.v1.route.sync.llama%2070b%2Eeu");
}

static void
empty_names_and_long_ones_are_refused(void **state)
{
    char out[WIRE_SUBJECT_MAX];
    char dots[KVT_NAMESPACE_MAX];

    (void)state;
    assert_int_equal(wire_subject_events(out, sizeof(out), "ns", 0, ""), KVT_INVALID);
    assert_string_equal(out, "");
    assert_int_equal(wire_subject_named(WIRE_SUBJECT_ORDERS, out, sizeof(out), ""), KVT_INVALID);
    assert_int_equal(wire_subject_named(WIRE_SUBJECT_ROUTE_SYNC, out, sizeof(out), ""),
                     KVT_INVALID);
    memset(dots, '.', sizeof(dots) - 1);
    dots[sizeof(dots) - 1] = '\0';
    assert_int_equal(wire_subject_events(out, sizeof(out), dots, 0, dots), KVT_RANGE);
    assert_string_equal(out, "");

    /* Exactly fitting, and one byte less. */
    assert_int_equal(
        wire_subject_named(WIRE_SUBJECT_ORDERS, out, sizeof("kvtier.v1.orders.gw"), "gw"), KVT_OK);
    assert_int_equal(
        wire_subject_named(WIRE_SUBJECT_ORDERS, out, sizeof("kvtier.v1.orders.gw") - 1, "gw"),
        KVT_RANGE);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_become_tokens),
        cmocka_unit_test(empty_names_and_long_ones_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
