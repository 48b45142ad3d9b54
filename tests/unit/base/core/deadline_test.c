/* What is tested: deadlines come, never wrap around, and never come where there is no end. */
#include "base/core/clock.h"
#include "base/core/deadline.h"

#include "tests/support/seed.h"

static void
what_is_left_grows_less(void **state)
{
    const uint64_t deadline_ms = kvt_deadline_in(10000);
    const uint64_t left_ms = kvt_deadline_left(deadline_ms);

    (void)state;
    assert_in_range(left_ms, 1, 10000);
    kvt_clock_sleep_ms(5);
    assert_true(kvt_deadline_left(deadline_ms) < left_ms);
}

static void
what_is_over_stays_over(void **state)
{
    const uint64_t deadline_ms = kvt_deadline_in(0);

    (void)state;
    assert_int_equal(kvt_deadline_left(deadline_ms), 0);
    assert_int_equal(kvt_deadline_left(0), 0);
}

static void
without_end_there_is_none(void **state)
{
    (void)state;
    assert_true(kvt_deadline_in(UINT64_MAX) == UINT64_MAX);
    assert_true(kvt_deadline_in(UINT64_MAX - 1) == UINT64_MAX); /* later than there is time */
    assert_true(kvt_deadline_left(UINT64_MAX) == UINT64_MAX);
    assert_true(kvt_deadline_left(UINT64_MAX - 1) < UINT64_MAX - 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_grows_less),
        cmocka_unit_test(what_is_over_stays_over),
        cmocka_unit_test(without_end_there_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
