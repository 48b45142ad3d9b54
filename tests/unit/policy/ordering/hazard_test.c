/*
 * What is tested: policy/ordering/hazard.h and policy/ordering/wait_counts.h: what is learned of
 * how soon blocks are used. How: processes whose chances are known beforehand, at random; and a
 * count of every wait by hand.
 */
#include <math.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

#include "policy/ordering/hazard.h"
#include "policy/ordering/wait_counts.h"
#include "tests/support/seed.h"

enum { POPULATION = 400, TICKS = 6000 };

/* Each tick, each block that waits is used with a chance that its kind and age give. */
static void
live(struct policy_hazard *hazard, uint32_t kind, double (*chance)(uint64_t age), uint64_t ticks)
{
    uint64_t since[POPULATION] = {0};
    uint64_t random = test_seed();

    for (uint32_t i = 0; i < POPULATION; i++)
        policy_hazard_wait(hazard, kind, 0);
    for (uint64_t now = 1; now <= ticks; now++) {
        policy_hazard_refresh(hazard, now);
        for (uint32_t i = 0; i < POPULATION; i++) {
            if (kvt_random_unit(&random) >= chance(now - since[i]))
                continue;
            policy_hazard_end(hazard, kind, since[i], now, true);
            policy_hazard_wait(hazard, kind, now);
            since[i] = now;
        }
    }
}

static double
one_in_fifty(uint64_t age)
{
    (void)age;
    return 0.02;
}

static void
a_constant_chance_is_found(void **state)
{
    struct policy_hazard *hazard;

    (void)state;
    assert_int_equal(policy_hazard_new(&hazard), KVT_OK);
    live(hazard, 8, one_in_fifty, TICKS);
    for (uint32_t age = 1; age < 100; age *= 2) {
        assert_true(policy_hazard_index(hazard, 8, age) > 0.0145); /* it is rounded down */
        assert_true(policy_hazard_index(hazard, 8, age) < 0.0235);
        assert_true(fabs(policy_hazard_chance(hazard, 8, age, 50) - (1 - pow(0.98, 50))) < 0.05);
    }
    assert_true(policy_hazard_chance(hazard, 8, 10, 0) < 1e-9);
    policy_hazard_free(hazard);
}

/* A pause, then a good chance: the index looks ahead, and does not wait for the pause to end. */
static double
after_a_pause(uint64_t age)
{
    return age >= 60 && age < 80 ? 0.2 : 0;
}

static void
a_pause_is_looked_through(void **state)
{
    struct policy_hazard *hazard;

    (void)state;
    assert_int_equal(policy_hazard_new(&hazard), KVT_OK);
    live(hazard, 8, after_a_pause, TICKS);
    assert_true(policy_hazard_chance(hazard, 8, 1, 30) < 0.05);
    assert_true(policy_hazard_chance(hazard, 8, 1, 100) > 0.9);
    assert_true(policy_hazard_index(hazard, 8, 1) > 0.01); /* one use in about 65 ticks */
    assert_true(policy_hazard_index(hazard, 8, 60) > 3 * policy_hazard_index(hazard, 8, 1));
    policy_hazard_free(hazard);
}

/* Most never return.  Only those that wait can say so: finished waits all ended with a use. */
static void
waiting_blocks_count(void **state)
{
    struct policy_hazard *hazard;
    uint64_t random = test_seed();
    uint64_t returns[64] = {0};

    (void)state;
    assert_int_equal(policy_hazard_new(&hazard), KVT_OK);
    for (uint64_t now = 1; now < TICKS; now++) {
        policy_hazard_refresh(hazard, now);
        for (uint64_t k = returns[now % 64]; k > 0; k--)
            policy_hazard_end(hazard, 7, now - 40, now, true);
        returns[now % 64] = 0;
        for (uint32_t i = 0; i < 10; i++) {
            policy_hazard_wait(hazard, 7, now);
            returns[(now + 40) % 64] += kvt_random_below(&random, 10) == 0;
        }
    }
    assert_true(fabs(policy_hazard_chance(hazard, 7, 0, 100) - 0.1) < 0.03);
    assert_true(policy_hazard_chance(hazard, 7, 60, 1000) < 0.02);
    policy_hazard_free(hazard);
}

/* Kinds of more uses never have a lower index at the same age, whatever the counts say. */
static void
more_uses_are_never_worth_less(void **state)
{
    struct policy_hazard *hazard;
    uint64_t random = test_seed();

    (void)state;
    assert_int_equal(policy_hazard_new(&hazard), KVT_OK);
    for (uint64_t now = 1; now < TICKS; now++) {
        const uint32_t kind = (uint32_t)kvt_random_below(&random, POLICY_HAZARD_KINDS);

        policy_hazard_refresh(hazard, now);
        policy_hazard_wait(hazard, kind, now);
        if (kvt_random_below(&random, 3) > 0) {
            policy_hazard_wait(hazard, kind, now);
            policy_hazard_end(hazard, kind, now, now, kvt_random_below(&random, 2) == 0);
        }
    }
    for (uint32_t age = 0; age < TICKS; age = age * 2 + 1)
        for (uint32_t kind = 1; kind < POLICY_HAZARD_KINDS; kind++)
            if (kind != POLICY_HAZARD_COUNTS)
                assert_true(policy_hazard_index(hazard, kind, age) >=
                            policy_hazard_index(hazard, kind - 1, age) * (1 - 1e-9));
    policy_hazard_free(hazard);
}

/* Every block that waits is in one span, near its age, and leaves the one it is in. */
static void
waits_are_counted_by_age(void **state)
{
    enum { LAST = 20000 };
    static struct policy_wait_counts waits;
    static uint8_t there[LAST];
    uint64_t random = test_seed();
    uint64_t total = 0;
    uint64_t counted = 0;

    (void)state;
    memset(&waits, 0, sizeof(waits));
    for (uint64_t now = 0; now < LAST; now++) {
        const uint64_t other = kvt_random_below(&random, now + 1);

        policy_wait_counts_add(&waits, 3, now, 1);
        there[now] = 1;
        total++;
        if (there[other] != 0 && kvt_random_below(&random, 2) == 0) {
            policy_wait_counts_remove(&waits, 3, other);
            there[other] = 0;
            total--;
        }
    }
    assert_true(waits.count < 200);
    for (uint32_t i = 0; i < waits.count; i++) {
        const uint64_t begin = waits.slots[i].first;
        const uint64_t end = i + 1 < waits.count ? waits.slots[i + 1].first : LAST;
        uint64_t expected = 0;

        for (uint64_t tick = begin; tick < end; tick++)
            expected += there[tick];
        assert_int_equal(waits.slots[i].waiting[3], expected);
        assert_true(4 * (end - begin - 1) <= LAST - begin); /* coarse only where it is old */
        counted += expected;
    }
    assert_int_equal(counted, total);
}

/* A later life counts other ticks, and is told of blocks that have waited since long before it:
 * neither takes away what was learned. */
static void
a_new_life_forgets_nothing(void **state)
{
    const uint64_t start = UINT64_C(17000000000);
    struct policy_hazard *hazard;
    void *bytes;
    size_t size;

    (void)state;
    assert_int_equal(policy_hazard_new(&hazard), KVT_OK);
    live(hazard, 8, one_in_fifty, TICKS);
    size = policy_hazard_save(hazard, NULL, 0);
    bytes = kvt_calloc(1, size);
    assert_int_equal(policy_hazard_save(hazard, bytes, size), size);
    policy_hazard_free(hazard);
    assert_int_equal(policy_hazard_new(&hazard), KVT_OK);
    assert_int_equal(policy_hazard_load(hazard, bytes, size), KVT_OK);
    kvt_free(bytes);
    policy_hazard_rest(hazard);
    for (uint64_t i = 0; i < POPULATION; i++) {
        policy_hazard_wait(hazard, 8, start - 1000000 + i);
        policy_hazard_wait(hazard, 8, start - 50);
    }
    for (uint64_t now = start; now < start + 3 * POLICY_HAZARD_REFRESH_TICKS; now++)
        policy_hazard_refresh(hazard, now);
    for (uint32_t age = 1; age < 32; age *= 2) {
        assert_true(policy_hazard_index(hazard, 8, age) > 0.0145);
        assert_true(policy_hazard_index(hazard, 8, age) < 0.0235);
    }
    policy_hazard_free(hazard);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_constant_chance_is_found),
        cmocka_unit_test(a_pause_is_looked_through),
        cmocka_unit_test(waiting_blocks_count),
        cmocka_unit_test(more_uses_are_never_worth_less),
        cmocka_unit_test(waits_are_counted_by_age),
        cmocka_unit_test(a_new_life_forgets_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
