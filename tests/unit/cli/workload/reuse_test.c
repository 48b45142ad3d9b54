/*
 * What is tested: cli/workload/reuse.h.
 * How: a long random run against an array of counters; gaps of a known distance; every allocation
 * failure, also while the table grows.
 */
#include <string.h>

#include "base/core/random.h"
#include "cli/workload/reuse.h"

#include "tests/support/seed.h"

enum { IDS = 5000, STEPS = 40000 };

static void
counts_match_a_model(void **state)
{
    static uint32_t uses[IDS];
    struct cli_reuse_stats stats;
    struct cli_reuse *reuse;
    uint64_t random = test_seed();
    uint64_t blocks = 0;
    uint64_t once = 0;
    uint64_t most = 0;
    uint64_t again = 0;

    (void)state;
    memset(uses, 0, sizeof(uses));
    assert_int_equal(cli_reuse_new(&reuse), KVT_OK);
    for (uint64_t i = 0; i < STEPS; i++) {
        /* Squaring makes low ids frequent and leaves many that come once. */
        const uint64_t draw = kvt_random_below(&random, IDS);
        const uint64_t id = draw * draw / IDS;
        bool seen;

        assert_int_equal(cli_reuse_add(reuse, id, i, i % 3 == 0, &seen), KVT_OK);
        assert_int_equal(seen, uses[id] > 0);
        uses[id]++;
    }
    for (size_t id = 0; id < IDS; id++) {
        blocks += uses[id] > 0;
        once += uses[id] == 1;
        most = uses[id] > most ? uses[id] : most;
    }
    cli_reuse_stats(reuse, &stats);
    assert_int_equal(stats.accesses, STEPS);
    assert_int_equal(stats.blocks, blocks);
    assert_int_equal(stats.used_once, once);
    assert_int_equal(stats.used_most, most);
    assert_int_equal(stats.again[0].whole, blocks);
    assert_int_equal(stats.again[0].part, blocks - once);
    assert_int_equal(stats.again_last.whole, (STEPS + 2) / 3);
    assert_int_equal(stats.again_last.whole + stats.again_other.whole, STEPS);
    assert_int_equal(stats.again_last.part + stats.again_other.part, STEPS - blocks);
    for (size_t i = 0; i < CLI_REUSE_AGAIN; i++)
        again += stats.again[i].part;
    assert_int_equal(again, STEPS - blocks);             /* every use but each block's first */
    assert_true(blocks > 1024 && once > 0 && most > 10); /* it grew, and saw both ends */
    cli_reuse_free(reuse);
}

static void
gaps_are_known_to_a_tenth(void **state)
{
    struct cli_reuse_stats stats;
    struct cli_reuse *reuse;
    bool seen;

    (void)state;
    assert_int_equal(cli_reuse_new(&reuse), KVT_OK);
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(cli_reuse_add(reuse, 1, i * 1000, false, &seen), KVT_OK);
    cli_reuse_stats(reuse, &stats);
    assert_in_range(stats.gap_p50_ms, 900, 1100);
    assert_in_range(stats.gap_p99_ms, 900, 1100);
    /* Time that runs backwards is a gap of nothing, not of ages. */
    assert_int_equal(cli_reuse_add(reuse, 1, 0, false, &seen), KVT_OK);
    cli_reuse_stats(reuse, &stats);
    assert_in_range(stats.gap_p99_ms, 900, 1100);
    cli_reuse_free(reuse);
}

static bool
attempt(void *arg)
{
    struct cli_reuse *reuse;
    enum kvt_err rc = cli_reuse_new(&reuse);
    bool seen;

    (void)arg;
    for (uint64_t id = 0; rc == KVT_OK && id < 3000; id++)
        rc = cli_reuse_add(reuse, id, id, false, &seen);
    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    cli_reuse_free(reuse);
    return rc == KVT_OK;
}

static void
every_failing_allocation_is_an_answer(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(attempt, NULL) >= 3);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_match_a_model),
        cmocka_unit_test(gaps_are_known_to_a_tenth),
        cmocka_unit_test(every_failing_allocation_is_an_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
