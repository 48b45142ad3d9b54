/*
 * What is tested: base/text/parse.h, spelling by spelling.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/core/random.h"
#include "base/text/parse.h"

#include "tests/support/seed.h"

struct row {
    const char *text;
    enum kvt_err rc;
    uint64_t value;
};

static void
check(const struct row *rows, size_t count, enum kvt_err (*parse)(const char *, uint64_t *))
{
    for (size_t i = 0; i < count; i++) {
        uint64_t value = 99;

        if (parse(rows[i].text, &value) != rows[i].rc || value != rows[i].value)
            fail_msg("\"%s\" gave %" PRIu64, rows[i].text, value);
    }
}

#define CHECK(rows, parse) check(rows, sizeof(rows) / sizeof((rows)[0]), parse)

static void
sizes(void **state)
{
    static const struct row rows[] = {
        {"0", KVT_OK, 0},
        {"1536", KVT_OK, 1536},
        {"10B", KVT_OK, 10},
        {"1.5KiB", KVT_OK, 1536},
        {"1.5 KB", KVT_OK, 1500},
        {"2mib", KVT_OK, 2097152},
        {"3GB", KVT_OK, 3000000000u},
        {"4GiB", KVT_OK, 4294967296u},
        {"1TB", KVT_OK, 1000000000000u},
        {"1TiB", KVT_OK, 1099511627776u},
        {"0.1B", KVT_OK, 0},
        {"18446744073709551615", KVT_OK, UINT64_MAX},
        {"18446744073709551616", KVT_RANGE, 0},
        {"16777216TiB", KVT_RANGE, 0},
        {"", KVT_INVALID, 0},
        {"B", KVT_INVALID, 0},
        {"-1", KVT_INVALID, 0},
        {"+1", KVT_INVALID, 0},
        {" 1", KVT_INVALID, 0},
        {"1 ", KVT_OK, 1},
        {"1.", KVT_INVALID, 0},
        {".5", KVT_INVALID, 0},
        {"1.0000000000", KVT_INVALID, 0},
        {"1KiBs", KVT_INVALID, 0},
        {"1XB", KVT_INVALID, 0},
        {"1e3", KVT_INVALID, 0},
        {"0x10", KVT_INVALID, 0},
    };

    (void)state;
    CHECK(rows, kvt_parse_size);
}

static void
durations(void **state)
{
    static const struct row rows[] = {
        {"250", KVT_OK, 250},      {"250ms", KVT_OK, 250},          {"1.5s", KVT_OK, 1500},
        {"2 m", KVT_OK, 120000},   {"1h", KVT_OK, 3600000},         {"30d", KVT_OK, 2592000000u},
        {"1us", KVT_INVALID, 0},   {"forever", KVT_INVALID, 0},     {"-5s", KVT_INVALID, 0},
        {"1h30m", KVT_INVALID, 0}, {"213503982335d", KVT_RANGE, 0},
    };

    (void)state;
    CHECK(rows, kvt_parse_duration);
}

static void
nanos(void **state)
{
    static const struct row rows[] = {
        {"0", KVT_OK, 0},
        {"0.0004", KVT_OK, 400000},
        {"12", KVT_OK, 12000000000u},
        {"-1", KVT_INVALID, 0},
        {"0.0000000001", KVT_INVALID, 0},
        {"1 EUR", KVT_INVALID, 0},
        {"99999999999", KVT_RANGE, 0},
    };

    (void)state;
    CHECK(rows, kvt_parse_nano);
}

static enum kvt_err
parse_ratio(const char *text, uint64_t *value)
{
    uint32_t ppm;
    const enum kvt_err rc = kvt_parse_ratio(text, &ppm);

    *value = ppm;
    return rc;
}

static void
ratios(void **state)
{
    static const struct row rows[] = {
        {"85%", KVT_OK, 850000}, {"0.85", KVT_OK, 850000},   {"1", KVT_OK, 1000000},
        {"0%", KVT_OK, 0},       {"12.5 %", KVT_OK, 125000}, {"0.0000019", KVT_OK, 1},
        {"%", KVT_INVALID, 0},   {"85%%", KVT_INVALID, 0},   {"5000", KVT_RANGE, 0},
        {"1/2", KVT_INVALID, 0},
    };

    (void)state;
    CHECK(rows, parse_ratio);
}

static void
whole_numbers(void **state)
{
    static const struct row rows[] = {
        {"0", KVT_OK, 0},
        {"007", KVT_OK, 7},
        {"18446744073709551615", KVT_OK, UINT64_MAX},
        {"18446744073709551616", KVT_RANGE, 0},
        {"99999999999999999999", KVT_RANGE, 0},
        {"1.0", KVT_INVALID, 0},
        {"1 ", KVT_INVALID, 0},
        {"", KVT_INVALID, 0},
        {"12a", KVT_INVALID, 0},
    };
    uint64_t seed = test_seed();

    (void)state;
    CHECK(rows, kvt_parse_u64);
    for (int i = 0; i < 10000; i++) {
        const uint64_t value = kvt_random_next(&seed) >> kvt_random_below(&seed, 64);
        char text[32];
        uint64_t back;

        (void)snprintf(text, sizeof(text), "%" PRIu64, value);
        assert_int_equal(kvt_parse_u64(text, &back), KVT_OK);
        assert_int_equal(back, value);
    }
}

static void
sizes_for_people(void **state)
{
    static const struct row rows[] = {
        {"0 B", KVT_OK, 0},
        {"1023 B", KVT_OK, 1023},
        {"1.00 KiB", KVT_OK, 1024},
        {"1.50 GiB", KVT_OK, 1610612736},
        {"1.00 MiB", KVT_OK, 1048575}, /* never "1024.00 KiB" */
        {"16.00 EiB", KVT_OK, UINT64_MAX},
    };
    char text[KVT_SIZE_TEXT_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        kvt_size_format(rows[i].value, text);
        assert_string_equal(text, rows[i].text);
    }
}

static void
suggestions(void **state)
{
    static const char *const words[] = {"admin.port", "admin.bind", "log.level", "show", "a"};
    static const char *const near[][2] = {
        {"admin.prot", "admin.port"},
        {"Admin.Port", "admin.port"},
        {"adminport", "admin.port"},
        {"log.lvl", "log.level"},
        {"shwo", "show"},
        {"sho", "show"},
    };
    static const char *const far[] = {"", "x", "zzzzzz", "nats.url", "b"};
    char long_word[300];

    (void)state;
    for (size_t i = 0; i < sizeof(near) / sizeof(near[0]); i++) {
        const char *word = kvt_suggest(near[i][0], words, 5);

        assert_non_null(word);
        assert_string_equal(word, near[i][1]);
    }
    for (size_t i = 0; i < sizeof(far) / sizeof(far[0]); i++)
        assert_null(kvt_suggest(far[i], words, 5));
    for (size_t i = 0; i + 1 < sizeof(long_word); i++)
        long_word[i] = 'a';
    long_word[sizeof(long_word) - 1] = '\0';
    assert_null(kvt_suggest(long_word, words, 5));
    assert_null(kvt_suggest("show", words, 0));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),         cmocka_unit_test(durations),
        cmocka_unit_test(nanos),         cmocka_unit_test(ratios),
        cmocka_unit_test(whole_numbers), cmocka_unit_test(sizes_for_people),
        cmocka_unit_test(suggestions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
