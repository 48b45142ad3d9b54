/*
 * What is tested: base/core/clock.h.
 */
#include "base/core/clock.h"

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
reads_what_rfc_3339_allows(void **state)
{
    static const struct {
        const char *text;
        uint64_t unix_ms;
    } rows[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2000-02-28T23:59:59.123Z", 951782399123},
        {"2000-02-28T23:59:59.1239Z", 951782399123},
        {"2000-02-29t02:00:00+02:00", 951782400000},
        {"2000-02-28 22:00:00-02:00", 951782400000},
        {"2016-12-31T23:59:60Z", 1483228800000}, /* a leap second */
    };
    static const char *const others[] = {
        "",
        "2000-02-30T00:00:00Z",
        "1969-12-31T23:59:59Z",
        "1970-01-01T00:00:00+00:01",
        "2000-02-28T24:00:00Z",
        "2000-02-28T23:59:59",
        "2000-02-28T23:59:59.Z",
        "2000-02-28T23:59:59Z ",
        "2000-2-28T23:59:59Z",
    };
    uint64_t unix_ms;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_true(kvt_clock_parse(rows[i].text, &unix_ms));
        assert_true(unix_ms == rows[i].unix_ms);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        unix_ms = 1;
        assert_false(kvt_clock_parse(others[i], &unix_ms));
        assert_true(unix_ms == 0);
    }
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

static void
signatures_dates_come_back(void **state)
{
    static const char *const others[] = {"",
                                         "20000228T235959",
                                         "20000228T235959ZZ",
                                         "20000228 235959Z",
                                         "20000230T000000Z",
                                         "20000228T2359 5Z",
                                         "2000-02-28T23:5Z"};
    uint64_t unix_ms;

    (void)state;
    assert_true(kvt_clock_parse_basic("20000228T235959Z", &unix_ms));
    assert_true(unix_ms == 951782399000);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_false(kvt_clock_parse_basic(others[i], &unix_ms));
        assert_true(unix_ms == 0);
    }
}

static void
headers_dates_come_back(void **state)
{
    static const char *const others[] = {"",
                                         "Sun, 06 Nov 1994 08:49:37",
                                         "Sun, 06 Nov 1994 08:49:37 UTC",
                                         "Sun, 06 ovD 1994 08:49:37 GMT",
                                         "Sun, 06 No 1994 08:49:37 GMT",
                                         "Sun, 32 Nov 1994 08:49:37 GMT",
                                         "Sun, 06 Nov 1969 08:49:37 GMT",
                                         "Sun, 06 Nov 1994 24:49:37 GMT",
                                         "1994-11-06T08:49:37Z"};
    char text[KVT_CLOCK_HTTP_MAX];
    uint64_t unix_ms;

    (void)state;
    for (uint64_t day = 0; day < 800; day++) {
        const uint64_t at_ms = (day * 86400 + day * 100) * 1000;

        kvt_clock_format_http(at_ms + 999, text);
        assert_true(kvt_clock_parse_http(text, &unix_ms));
        assert_true(unix_ms == at_ms);
    }
    kvt_clock_format_http(784111777000, text);
    assert_string_equal(text, "Sun, 06 Nov 1994 08:49:37 GMT");
    kvt_clock_format_http(UINT64_MAX, text);
    assert_string_equal(text, "Fri, 31 Dec 9999 23:59:59 GMT");
    assert_true(kvt_clock_parse_http("Sun, 6 Nov 1994 08:49:37 GMT", &unix_ms));
    assert_true(unix_ms == 784111777000);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_false(kvt_clock_parse_http(others[i], &unix_ms));
        assert_true(unix_ms == 0);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_utc_with_milliseconds),
        cmocka_unit_test(reads_what_rfc_3339_allows),
        cmocka_unit_test(signatures_dates_come_back),
        cmocka_unit_test(headers_dates_come_back),
        cmocka_unit_test(monotonic_time_moves_with_sleep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
