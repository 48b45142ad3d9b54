/*
 * What is tested: base/core/conditions.h: what is remembered of a condition, and when it is over.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/conditions.h"

#include "tests/support/seed.h"

static void
a_condition_counts_until_it_is_quiet(void **state)
{
    struct kvt_condition rows[KVT_CONDITIONS_MAX];
    struct kvt_conditions conditions;

    (void)state;
    kvt_conditions_init(&conditions);
    assert_int_equal(kvt_conditions_list(&conditions, 5, rows), 0);
    kvt_conditions_raise(&conditions, "a", 10, "first");
    kvt_conditions_raise(&conditions, "a", 20, "sec%s\nline", "ond");
    kvt_conditions_note(&conditions, "b", 30, "minor");
    assert_int_equal(kvt_conditions_list(&conditions, 40, rows), 2);
    assert_string_equal(rows[0].name, "a");
    assert_string_equal(rows[0].text, "second line");
    assert_int_equal(rows[0].since_ms, 10);
    assert_int_equal(rows[0].last_ms, 20);
    assert_int_equal(rows[0].count, 2);
    assert_false(rows[0].minor);
    assert_true(rows[1].minor);
    assert_int_equal(kvt_conditions_count(&conditions, 40), 2);
    assert_int_equal(kvt_conditions_count(&conditions, 30 + KVT_CONDITION_QUIET_MS), 0);
    kvt_conditions_raise(NULL, "a", 10, "nothing is kept");
    kvt_conditions_release(&conditions);
}

static void
there_are_no_more_than_the_limit(void **state)
{
    struct kvt_condition rows[KVT_CONDITIONS_MAX];
    struct kvt_conditions conditions;

    (void)state;
    kvt_conditions_init(&conditions);
    for (unsigned i = 0; i < 10 * KVT_CONDITIONS_MAX; i++) {
        char name[KVT_CONDITION_NAME_MAX];

        (void)snprintf(name, sizeof(name), "c%u", i);
        kvt_conditions_raise(&conditions, name, i, "x");
    }
    assert_int_equal(kvt_conditions_list(&conditions, 1000, rows), KVT_CONDITIONS_MAX);
    assert_int_equal(rows[KVT_CONDITIONS_MAX - 1].count, 9 * KVT_CONDITIONS_MAX + 1);
    kvt_conditions_release(&conditions);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_condition_counts_until_it_is_quiet),
        cmocka_unit_test(there_are_no_more_than_the_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
