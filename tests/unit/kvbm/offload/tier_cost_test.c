/*
 * What is tested: kvbm/offload/tier_cost.h: estimates come near what a tier does, follow it when
 * it changes, are not thrown by one stall and forget; and the choice is the best one there is, by
 * trying all.
 */
#include <math.h>
#include <string.h>

#include "base/core/random.h"
#include "kvbm/offload/tier_cost.h"

#include "tests/support/seed.h"

enum { BLOCK = 256 << 10, TOKENS = 512, RUNS = 12 };

static void
make(struct kvbm_cost *cost, double prefill_rate)
{
    assert_int_equal(kvbm_cost_init(cost, &(struct kvbm_cost_options){.prefill_rate = prefill_rate,
                                                                      .block_bytes = BLOCK,
                                                                      .block_tokens = TOKENS}),
                     KVT_OK);
}

/* A tier as it really is. */
struct truth {
    double latency_ms;
    double bytes_per_ms;
};

static double
real_ms(const struct truth *truth, uint64_t bytes)
{
    return truth->latency_ms + (double)bytes / truth->bytes_per_ms;
}

static void
measure(struct kvbm_cost *cost, enum kvt_tier tier, uint64_t bytes, double elapsed_ms,
        uint64_t now_ms)
{
    const uint64_t ahead = kvbm_cost_begin(cost, tier, bytes);

    kvbm_cost_end(cost, tier, bytes, ahead, elapsed_ms, true, now_ms);
}

static void
watch(struct kvbm_cost *cost, enum kvt_tier tier, const struct truth *truth, uint64_t *random,
      uint64_t *now_ms)
{
    for (int i = 0; i < 400; i++) {
        const uint64_t bytes = (1 + kvt_random_below(random, 32)) * BLOCK;
        const double noise = 0.9 + 0.2 * kvt_random_unit(random);

        *now_ms += 10;
        measure(cost, tier, bytes, real_ms(truth, bytes) * noise, *now_ms);
    }
}

static void
expect_near(struct kvbm_cost *cost, enum kvt_tier tier, const struct truth *truth, uint64_t now_ms,
            double factor)
{
    for (uint64_t blocks = 1; blocks <= 32; blocks *= 2) {
        const double estimate = kvbm_cost_estimate(cost, tier, blocks * BLOCK, now_ms);
        const double real = real_ms(truth, blocks * BLOCK);

        if (estimate > real * factor || estimate < real / factor)
            fail_msg("%d blocks of G%d: %.3f ms estimated, %.3f real", (int)blocks, (int)tier,
                     estimate, real);
    }
}

static void
learns_and_follows(void **state)
{
    static const struct truth tiers[][2] = {
        {{1, 3e6}, {0.3, 5e5}}, {{30, 1e5}, {3, 1e6}}, {{0.1, 2e7}, {5, 3e3}}};
    uint64_t random = test_seed();

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct kvbm_cost cost;
        uint64_t now_ms = 1000;

        make(&cost, 0);
        for (size_t life = 0; life < 2; life++) {
            watch(&cost, KVT_TIER_G3, &tiers[i][life], &random, &now_ms);
            expect_near(&cost, KVT_TIER_G3, &tiers[i][life], now_ms, 2);
        }
        kvbm_cost_release(&cost);
    }
}

static void
one_stall_is_one_stall(void **state)
{
    const struct truth truth = {1, 1e6};
    uint64_t random = test_seed();
    uint64_t now_ms = 1000;
    struct kvbm_cost cost;
    double before;

    (void)state;
    make(&cost, 0);
    watch(&cost, KVT_TIER_G4, &truth, &random, &now_ms);
    before = kvbm_cost_estimate(&cost, KVT_TIER_G4, 8 * BLOCK, now_ms);
    measure(&cost, KVT_TIER_G4, 8 * BLOCK, 60000, now_ms);
    assert_true(kvbm_cost_estimate(&cost, KVT_TIER_G4, 8 * BLOCK, now_ms) < 4 * before);

    /* A failure says nothing of how long a success takes. */
    watch(&cost, KVT_TIER_G4, &truth, &random, &now_ms);
    before = kvbm_cost_estimate(&cost, KVT_TIER_G4, 8 * BLOCK, now_ms);
    kvbm_cost_end(&cost, KVT_TIER_G4, BLOCK, kvbm_cost_begin(&cost, KVT_TIER_G4, BLOCK), 60000,
                  false, now_ms);
    assert_true(kvbm_cost_estimate(&cost, KVT_TIER_G4, 8 * BLOCK, now_ms) == before);
    kvbm_cost_release(&cost);
}

static void
stays_in_bounds_and_forgets(void **state)
{
    struct kvbm_cost cost;
    struct kvbm_cost fresh;
    uint64_t now_ms = 1000;

    (void)state;
    make(&cost, 0);
    make(&fresh, 0);
    for (int i = 0; i < 2000; i++)
        measure(&cost, KVT_TIER_G4, BLOCK, i < 1000 ? 1e12 : 0, now_ms);
    assert_true(cost.paths[KVT_TIER_G4].latency_ms >= 0 &&
                cost.paths[KVT_TIER_G4].bytes_per_ms <= KVBM_COST_BYTES_MAX);
    for (int i = 0; i < 2000; i++)
        measure(&cost, KVT_TIER_G4, 64 * BLOCK, 1e12, now_ms);
    assert_true(cost.paths[KVT_TIER_G4].latency_ms <= KVBM_COST_LATENCY_MAX &&
                cost.paths[KVT_TIER_G4].bytes_per_ms >= KVBM_COST_BYTES_MIN);
    assert_true(kvbm_cost_estimate(&cost, KVT_TIER_G4, BLOCK, now_ms) > 1000);

    /* Given up, it is tried again some time. */
    now_ms += 40 * (uint64_t)KVBM_COST_HALF_LIFE_MS;
    assert_true(fabs(kvbm_cost_estimate(&cost, KVT_TIER_G4, BLOCK, now_ms) /
                         kvbm_cost_estimate(&fresh, KVT_TIER_G4, BLOCK, now_ms) -
                     1) < 0.01);
    kvbm_cost_release(&cost);
    kvbm_cost_release(&fresh);
}

static void
others_are_waited_for(void **state)
{
    struct kvbm_cost cost;
    double alone;
    uint64_t ahead;

    (void)state;
    make(&cost, 0);
    alone = kvbm_cost_estimate(&cost, KVT_TIER_G3, BLOCK, 1);
    assert_int_equal(kvbm_cost_begin(&cost, KVT_TIER_G3, 100 * BLOCK), 0);
    assert_true(kvbm_cost_estimate(&cost, KVT_TIER_G3, BLOCK, 1) > 10 * alone);
    ahead = kvbm_cost_begin(&cost, KVT_TIER_G3, BLOCK);
    assert_int_equal(ahead, 100 * BLOCK);
    kvbm_cost_end(&cost, KVT_TIER_G3, BLOCK, ahead, 1, false, 1);
    kvbm_cost_end(&cost, KVT_TIER_G3, 100 * BLOCK, 0, 1, false, 1);
    assert_true(kvbm_cost_estimate(&cost, KVT_TIER_G3, BLOCK, 1) == alone);
    kvbm_cost_release(&cost);
}

/* What taking the first `blocks` of the runs takes, one estimate after the other. */
static double
take_ms(struct kvbm_cost *cost, const struct kvbm_cost_run *runs, uint32_t blocks, uint64_t now_ms)
{
    double sum = 0;

    for (size_t i = 0; blocks > 0; i++) {
        const uint32_t part = blocks < runs[i].blocks ? blocks : runs[i].blocks;

        sum += kvbm_cost_estimate(cost, runs[i].tier, (uint64_t)part * BLOCK, now_ms);
        if (runs[i].tier > KVT_TIER_G2)
            sum += kvbm_cost_estimate(cost, KVT_TIER_G2, (uint64_t)part * BLOCK, now_ms);
        blocks -= part;
    }
    return sum;
}

static void
chooses_the_best(void **state)
{
    static const double rates[] = {0, 2000, 100000, 3000000};
    uint64_t random = test_seed();
    uint32_t seen[3] = {0};

    (void)state;
    for (int round = 0; round < 2000; round++) {
        const double rate = rates[kvt_random_below(&random, 4)];
        const uint64_t deadline_ms = kvt_random_below(&random, 3) * 40;
        const uint64_t spent_ms = kvt_random_below(&random, 60);
        struct kvbm_cost_run runs[RUNS];
        struct kvbm_cost cost;
        enum kvbm_cost_reason reason;
        uint32_t total = 0;
        uint32_t chosen;
        double most = 0;

        make(&cost, rate);
        for (int i = 0; i < 20; i++)
            measure(&cost, (enum kvt_tier)(KVT_TIER_G2 + kvt_random_below(&random, 3)), 4 * BLOCK,
                    100 * kvt_random_unit(&random), 1000);
        for (size_t i = 0; i < RUNS; i++) {
            runs[i] = (struct kvbm_cost_run){
                .tier = (enum kvt_tier)(KVT_TIER_G1 + kvt_random_below(&random, 4)),
                .blocks = 1 + (uint32_t)kvt_random_below(&random, 16)};
            total += runs[i].blocks;
        }
        chosen = kvbm_cost_choose(&cost, runs, RUNS,
                                  deadline_ms > 0 ? (double)deadline_ms - (double)spent_ms
                                                  : (double)INFINITY,
                                  1000, &reason);
        assert_true(chosen <= total);
        seen[reason]++;
        assert_int_equal(reason == KVBM_COST_TAKEN, chosen == total);
        if (deadline_ms > 0 && chosen > 0)
            assert_true((double)spent_ms + take_ms(&cost, runs, chosen, 1000) <=
                        (double)deadline_ms + 1e-6);
        for (uint32_t blocks = 0; blocks <= total; blocks++) {
            const double time_ms = take_ms(&cost, runs, blocks, 1000);
            const double saved_ms = rate > 0 ? blocks * (TOKENS * 1000.0 / rate) - time_ms : blocks;

            if (deadline_ms > 0 && (double)spent_ms + time_ms > (double)deadline_ms)
                break;
            most = saved_ms > most ? saved_ms : most;
        }
        assert_true(
            fabs((rate > 0 ? chosen * (TOKENS * 1000.0 / rate) - take_ms(&cost, runs, chosen, 1000)
                           : chosen) -
                 most) < 1e-6 * (1 + most));
        kvbm_cost_release(&cost);
    }
    assert_true(seen[KVBM_COST_TAKEN] > 0 && seen[KVBM_COST_DEARER] > 0 &&
                seen[KVBM_COST_LATE] > 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learns_and_follows),
        cmocka_unit_test(one_stall_is_one_stall),
        cmocka_unit_test(stays_in_bounds_and_forgets),
        cmocka_unit_test(others_are_waited_for),
        cmocka_unit_test(chooses_the_best),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
