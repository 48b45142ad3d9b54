/*
 * What is tested: base/core/random.h: the published sequence, bounds, and that two draws from the
 * system differ.
 */
#include <string.h>

#include "base/core/random.h"

#include "tests/support/seed.h"

static void
is_splitmix64(void **state)
{
    uint64_t seed = 1234567;

    (void)state;
    assert_int_equal(kvt_random_next(&seed), 6457827717110365317u);
    assert_int_equal(kvt_random_next(&seed), 3203168211198807973u);
    assert_int_equal(kvt_random_next(&seed), 9817491932198370423u);
}

static void
below_reaches_every_value_and_no_other(void **state)
{
    uint64_t seed = test_seed();
    unsigned counts[7] = {0};

    (void)state;
    assert_int_equal(kvt_random_below(&seed, 0), 0);
    assert_int_equal(kvt_random_below(&seed, 1), 0);
    for (int i = 0; i < 70000; i++) {
        const uint64_t value = kvt_random_below(&seed, 7);

        assert_true(value < 7);
        counts[value]++;
    }
    for (int i = 0; i < 7; i++)
        assert_in_range(counts[i], 9400, 10600); /* six standard deviations around 10,000 */
    for (int i = 0; i < 1000; i++)
        assert_true(kvt_random_below(&seed, (1ull << 63) + 1) <= 1ull << 63);
}

static void
unit_is_half_open(void **state)
{
    uint64_t seed = test_seed();
    double sum = 0;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        const double value = kvt_random_unit(&seed);

        assert_true(value >= 0 && value < 1);
        sum += value;
    }
    assert_true(sum > 49000 && sum < 51000);
}

static void
system_bytes_differ(void **state)
{
    static const unsigned char zeroes[64];
    unsigned char a[64] = {0};
    unsigned char b[64] = {0};

    (void)state;
    kvt_random_system(a, sizeof(a));
    kvt_random_system(b, sizeof(b));
    assert_memory_not_equal(a, b, sizeof(a));
    assert_memory_not_equal(a, zeroes, sizeof(a));
    kvt_random_system(a, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_splitmix64),
        cmocka_unit_test(below_reaches_every_value_and_no_other),
        cmocka_unit_test(unit_is_half_open),
        cmocka_unit_test(system_bytes_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
