/*
 * What is tested: base/clock.h.
 */
#include "base/clock.h"

#include "tests/support/seed.h"

static void
formats_utc_with_milliseconds(void **state)
{
    char text[KVT_CLOCK_TEXT_MAX];

    (void)state;
    kvt_clock_format(0, text);
    assert_string_equal(text, "1970-01-01T00:00:00.000Z");
    kvt_clock_format(951782399123u, text); /* a leap day's eve in a century year that has one */
    assert_string_equal(text, "2000-02-28T23:59:59.123Z");
    kvt_clock_format(951782400000u, text);
    assert_string_equal(text, "2000-02-29T00:00:00.000Z");
    kvt_clock_format(UINT64_MAX, text);
    assert_string_equal(text, "9999-12-31T23:59:59.999Z");
    kvt_clock_format_basic(951782399123u, text);
    assert_string_equal(text, "20000228T235959Z");
    kvt_clock_format_basic(UINT64_MAX, text);
    assert_string_equal(text, "99991231T235959Z");
}

static void
monotonic_time_moves_with_sleep(void **state)
{
    const uint64_t start_ns = kvt_clock_mono_ns();
    const uint64_t start_ms = kvt_clock_mono_ms();

    (void)state;
    kvt_clock_sleep_ms(20);
    assert_true(kvt_clock_mono_ns() - start_ns >= 20000000u);
    assert_true(kvt_clock_mono_ms() - start_ms >= 19);
    assert_true(kvt_clock_unix_ms() > 1700000000000u);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_utc_with_milliseconds),
        cmocka_unit_test(monotonic_time_moves_with_sleep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
