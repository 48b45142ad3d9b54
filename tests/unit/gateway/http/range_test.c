/*
 * What is tested: gateway/http/range.h, by hand at the edges, and every range of small numbers
 * against what HTTP says of it, byte by byte.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "gateway/http/range.h"

#include "tests/support/seed.h"

struct row {
    const char *text;
    uint64_t length;
    enum gateway_range range;
    uint64_t from;
    uint64_t to;
};

static void
edges(void **state)
{
    static const struct row rows[] = {
        {"bytes=0-0", 1, GATEWAY_RANGE_PART, 0, 0},
        {"bytes=4-7", 11, GATEWAY_RANGE_PART, 4, 7},
        {"bytes=4-", 11, GATEWAY_RANGE_PART, 4, 10},
        {"bytes=-7", 11, GATEWAY_RANGE_PART, 4, 10},
        {"bytes=-100", 11, GATEWAY_RANGE_PART, 0, 10},
        {"bytes=10-18446744073709551615", 11, GATEWAY_RANGE_PART, 10, 10},
        {"bytes=10-99999999999999999999999", 11, GATEWAY_RANGE_PART, 10, 10},
        {"bytes=-99999999999999999999999", 11, GATEWAY_RANGE_PART, 0, 10},
        {"bytes=11-", 11, GATEWAY_RANGE_OUTSIDE, 0, 0},
        {"bytes=99999999999999999999999-", 11, GATEWAY_RANGE_OUTSIDE, 0, 0},
        {"bytes=40-50", 11, GATEWAY_RANGE_OUTSIDE, 0, 0},
        {"bytes=-0", 11, GATEWAY_RANGE_OUTSIDE, 0, 0},
        {"bytes=0-", 0, GATEWAY_RANGE_OUTSIDE, 0, 0},
        {"bytes=-1", 0, GATEWAY_RANGE_OUTSIDE, 0, 0},
        {"bytes=7-4", 11, GATEWAY_RANGE_NONE, 0, 0},
        {"bytes=-", 11, GATEWAY_RANGE_NONE, 0, 0},
        {"bytes=", 11, GATEWAY_RANGE_NONE, 0, 0},
        {"bytes=4", 11, GATEWAY_RANGE_NONE, 0, 0},
        {"bytes= 4-7", 11, GATEWAY_RANGE_NONE, 0, 0},
        {"bytes=+4-7", 11, GATEWAY_RANGE_NONE, 0, 0},
        {"bytes=4-7 ", 11, GATEWAY_RANGE_NONE, 0, 0},
        {"bytes=4--7", 11, GATEWAY_RANGE_NONE, 0, 0},
        {"bytes=0-3,5-7", 11, GATEWAY_RANGE_NONE, 0, 0},
        {"bytes=a-b", 11, GATEWAY_RANGE_NONE, 0, 0},
        {"bytes=1.0-2", 11, GATEWAY_RANGE_NONE, 0, 0},
        {"Bytes=4-7", 11, GATEWAY_RANGE_NONE, 0, 0},
        {"octets=4-7", 11, GATEWAY_RANGE_NONE, 0, 0},
        {"4-7", 11, GATEWAY_RANGE_NONE, 0, 0},
        {"", 11, GATEWAY_RANGE_NONE, 0, 0},
        {"bytes=000000000000000000000000004-7", 11, GATEWAY_RANGE_NONE, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t from = 1;
        uint64_t to = 1;

        if (gateway_range_parse(rows[i].text, rows[i].length, &from, &to) != rows[i].range ||
            from != rows[i].from || to != rows[i].to)
            fail_msg("%s", rows[i].text);
    }
}

static void
exact(void **state)
{
    static const struct row rows[] = {
        {"bytes=0-4", 5, GATEWAY_RANGE_PART, 0, 4},
        {"bytes=0-5", 5, GATEWAY_RANGE_OUTSIDE, 0, 0},
        {"bytes=5-9", 5, GATEWAY_RANGE_OUTSIDE, 0, 0},
        {"bytes=0-99999999999999999999999", 5, GATEWAY_RANGE_OUTSIDE, 0, 0},
        {"bytes=0-", 5, GATEWAY_RANGE_NONE, 0, 0},
        {"bytes=-3", 5, GATEWAY_RANGE_NONE, 0, 0},
        {"bytes=3-1", 5, GATEWAY_RANGE_NONE, 0, 0},
        {"bytes=0-2,3-4", 5, GATEWAY_RANGE_NONE, 0, 0},
        {"bytes 0-2", 5, GATEWAY_RANGE_NONE, 0, 0},
        {"bytes=0", 5, GATEWAY_RANGE_NONE, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t from = 1;
        uint64_t to = 1;

        if (gateway_range_exact(rows[i].text, rows[i].length, &from, &to) != rows[i].range ||
            from != rows[i].from || to != rows[i].to)
            fail_msg("%s", rows[i].text);
    }
}

/* Is byte `at` asked for?  As RFC 9110 says it, one byte at a time. */
static bool
is_asked(int first, int last, int length, int at)
{
    if (first < 0)
        return at >= length - last;
    return at >= first && (last < 0 || at <= last);
}

static void
try_range(int first, int last, int length)
{
    uint64_t from;
    uint64_t to;
    char text[64];
    char left[16] = "";
    char right[16] = "";
    enum gateway_range range;
    bool any = false;

    if (first >= 0)
        (void)snprintf(left, sizeof(left), "%d", first);
    if (last >= 0)
        (void)snprintf(right, sizeof(right), "%d", last);
    (void)snprintf(text, sizeof(text), "bytes=%s-%s", left, right);
    range = gateway_range_parse(text, (uint64_t)length, &from, &to);
    if ((first < 0 && last < 0) || (first >= 0 && last >= 0 && last < first)) {
        assert_int_equal(range, GATEWAY_RANGE_NONE);
        return;
    }
    for (int at = 0; at < length; at++) {
        const bool given =
            range == GATEWAY_RANGE_PART && (uint64_t)at >= from && (uint64_t)at <= to;

        assert_int_equal(given, is_asked(first, last, length, at));
        any = any || given;
    }
    assert_int_equal(range, any ? GATEWAY_RANGE_PART : GATEWAY_RANGE_OUTSIDE);
}

static void
all_small_ones(void **state)
{
    (void)state;
    for (int length = 0; length < 12; length++)
        for (int first = -1; first < 14; first++)
            for (int last = -1; last < 14; last++)
                try_range(first, last, length);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges),
        cmocka_unit_test(exact),
        cmocka_unit_test(all_small_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
