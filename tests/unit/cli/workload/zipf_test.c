/*
 * What is tested: cli/workload/zipf.h.
 * How: shares of a long seeded run against 1 / (r + 1)^s; the limits; every allocation failure.
 */
#include <math.h>
#include <stdbool.h>

#include "cli/workload/zipf.h"

#include "tests/support/seed.h"

enum { RANKS = 5, DRAWS = 200000 };

static void
shares_follow_the_law(void **state)
{
    static const double exponents[] = {0.0, 1.0, 2.5};
    uint64_t random = test_seed();

    (void)state;
    for (size_t e = 0; e < sizeof(exponents) / sizeof(exponents[0]); e++) {
        struct cli_zipf *zipf;
        size_t counts[RANKS] = {0};
        double total = 0.0;

        assert_int_equal(cli_zipf_new(&zipf, RANKS, exponents[e]), KVT_OK);
        for (int i = 0; i < DRAWS; i++) {
            const size_t rank = cli_zipf_draw(zipf, &random);

            assert_true(rank < RANKS);
            counts[rank]++;
        }
        for (int r = 0; r < RANKS; r++)
            total += pow(r + 1, -exponents[e]);
        for (int r = 0; r < RANKS; r++) {
            const double expected = pow(r + 1, -exponents[e]) / total;
            const double slack = 6.0 * sqrt(expected * (1.0 - expected) / DRAWS);

            assert_true(fabs((double)counts[r] / DRAWS - expected) <= slack);
        }
        cli_zipf_free(zipf);
    }
}

static void
limits_are_refused(void **state)
{
    struct cli_zipf *zipf;

    (void)state;
    assert_int_equal(cli_zipf_new(&zipf, 0, 1.0), KVT_INVALID);
    assert_null(zipf);
    assert_int_equal(cli_zipf_new(&zipf, CLI_ZIPF_MAX + 1, 1.0), KVT_INVALID);
    assert_int_equal(cli_zipf_new(&zipf, 3, -0.1), KVT_INVALID);
    assert_int_equal(cli_zipf_new(&zipf, 3, 4.1), KVT_INVALID);
    assert_int_equal(cli_zipf_new(&zipf, 3, nan("")), KVT_INVALID);
}

static bool
attempt(void *arg)
{
    struct cli_zipf *zipf;
    const enum kvt_err rc = cli_zipf_new(&zipf, RANKS, 1.0);

    (void)arg;
    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && zipf == NULL));
    cli_zipf_free(zipf);
    return rc == KVT_OK;
}

static void
every_failing_allocation_is_an_answer(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(attempt, NULL) >= 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_follow_the_law),
        cmocka_unit_test(limits_are_refused),
        cmocka_unit_test(every_failing_allocation_is_an_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
