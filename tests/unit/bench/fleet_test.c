/*
 * What is tested: bench/route/fleet.h and cache.h: the model that ways to choose a worker are
 * compared in.
 * How: hours of a few requests whose outcome is known by hand; caches against a list.
 */
#include <math.h>
#include <string.h>

#include "base/core/random.h"

#include "bench/route/cache.h"
#include "bench/route/fleet.h"
#include "tests/support/seed.h"

enum { BLOCKS = 20, CHAIN_MAX = 8 };

static void
a_leaf_goes_before_its_root(void **state)
{
    static const uint32_t chain[] = {0, 1, 2};
    static const uint32_t other[] = {3};
    static const uint32_t third[] = {4};
    struct cache cache;

    (void)state;
    assert_int_equal(cache_new(&cache, BLOCKS, 3), KVT_OK);
    assert_int_equal(cache_prefix(&cache, chain, 3), 0);
    cache_use(&cache, chain, 3);
    assert_int_equal(cache_prefix(&cache, chain, 3), 3);
    cache_use(&cache, other, 1);
    assert_int_equal(cache_prefix(&cache, chain, 3), 2);
    cache_use(&cache, chain, 2);
    cache_use(&cache, third, 1); /* the other one was used before these two */
    assert_int_equal(cache_prefix(&cache, chain, 3), 2);
    assert_int_equal(cache_prefix(&cache, other, 1), 0);
    cache_release(&cache);
}

/* Blocks in the order of their use, the last one first. */
struct list {
    uint32_t blocks[BLOCKS + 1];
    uint32_t count;
};

static void
list_use(struct list *list, uint32_t block, uint32_t capacity)
{
    uint32_t at = 0;

    while (at < list->count && list->blocks[at] != block)
        at++;
    list->count += at == list->count;
    memmove(list->blocks + 1, list->blocks, at * sizeof(list->blocks[0]));
    list->blocks[0] = block;
    if (list->count > capacity)
        list->count = capacity;
}

static uint32_t
list_has(const struct list *list, uint32_t block)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (list->blocks[i] == block)
            return 1;
    return 0;
}

static void
the_least_recently_used_goes(void **state)
{
    uint64_t random = test_seed();

    (void)state;
    for (uint32_t capacity = 1; capacity <= BLOCKS; capacity++) {
        struct list list = {.count = 0};
        struct cache cache;

        assert_int_equal(cache_new(&cache, BLOCKS, capacity), KVT_OK);
        for (int step = 0; step < 2000; step++) {
            uint32_t first = (uint32_t)kvt_random_below(&random, BLOCKS);
            uint32_t count = (uint32_t)kvt_random_below(&random, CHAIN_MAX) + 1;
            uint32_t chain[CHAIN_MAX];

            for (uint32_t i = 0; i < count; i++)
                chain[i] = (first + i) % BLOCKS;
            cache_use(&cache, chain, count);
            for (uint32_t i = count; i-- > 0;)
                list_use(&list, chain[i], capacity);
            assert_int_equal(cache.count, list.count);
            for (uint32_t block = 0; block < BLOCKS; block++)
                assert_int_equal(cache_prefix(&cache, &block, 1), list_has(&list, block));
        }
        cache_release(&cache);
    }
}

/* ---- hours by hand ---- */

/* At 0 s blocks 0 and 1, at 10 s these and 2, at 20 s block 3. */
static struct hour_request requests[] = {
    {0, 1024, 0, 0, 2}, {10000000, 1536, 0, 2, 3}, {20000000, 512, 0, 5, 1}};
static uint32_t blocks[] = {0, 1, 0, 1, 2, 3};
static uint64_t hashes[] = {10, 11, 10, 11, 12, 13};
static const struct hour three = {requests, 3, blocks, hashes, 6, 4};

/* 512 ms a block computed, 128 ms a block loaded. */
static const struct fleet_options usual = {.workers = 2,
                                           .capacity = 100,
                                           .prefill_rate = 1000,
                                           .load_rate = 4000,
                                           .decode_us = 1000000,
                                           .seed = 1};

static struct fleet_result
outcome(const struct hour *hour, struct fleet_options options)
{
    struct fleet_result result;

    assert_int_equal(fleet_run(hour, &options, &result), KVT_OK);
    assert_int_equal(result.blocks, hour->accesses);
    return result;
}

static void
assert_near(double found, double wanted)
{
    if (!(fabs(found - wanted) < 1e-5))
        fail_msg("%f, not %f", found, wanted);
}

static void
by_cost_a_request_goes_where_its_blocks_are(void **state)
{
    struct fleet_options options = usual;
    struct fleet_result result;

    (void)state;
    for (options.seed = 0; options.seed < 20; options.seed++) {
        result = outcome(&three, options);
        assert_int_equal(result.found, 2);
        assert_int_equal(result.loaded, 0);
        assert_int_equal(result.computed, 1024 + 512 + 512);
        assert_near(result.wait_mean_s, 0);
        assert_near(result.first_mean_s, (1.024 + 0.512 + 0.512) / 3);
        assert_near(result.first_p99_s, 1.024);
    }
}

static void
in_turn_it_goes_elsewhere(void **state)
{
    struct fleet_options options = usual;
    struct fleet_result result;

    (void)state;
    options.way = FLEET_ROUND_ROBIN;
    result = outcome(&three, options);
    assert_int_equal(result.found, 0);
    assert_int_equal(result.computed, 1024 + 1536 + 512);
    assert_near(result.tokens_most, 1);
    assert_near(result.tokens_cv, 0);
    assert_near(result.requests_most, 2 / 1.5);
    assert_near(result.requests_cv, 1 / 3.);
}

static void
g4_has_what_was_computed_anywhere(void **state)
{
    struct fleet_options options = usual;
    struct fleet_result result;

    (void)state;
    options.way = FLEET_ROUND_ROBIN;
    options.g4 = true;
    result = outcome(&three, options);
    assert_int_equal(result.found, 0);
    assert_int_equal(result.loaded, 2);
    assert_int_equal(result.computed, 1024 + 512 + 512);
    assert_near(result.first_mean_s, (1.024 + 0.256 + 0.512 + 0.512) / 3);
}

static void
a_worker_computes_one_prompt_after_another(void **state)
{
    static struct hour_request at_once[] = {{0, 1024, 0, 0, 2}, {0, 1536, 0, 2, 3}};
    static const struct hour two = {at_once, 2, blocks, hashes, 5, 4};
    struct fleet_options options = usual;
    struct fleet_result result;

    (void)state;
    options.workers = 1;
    result = outcome(&two, options);
    assert_int_equal(result.found, 2); /* of the first, which was computed when it began */
    assert_near(result.wait_mean_s, 1.024 / 2);
    assert_near(result.wait_p99_s, 1.024);
    assert_near(result.first_p99_s, 1.024 + 0.512);
}

static void
a_cache_that_is_too_small_forgets(void **state)
{
    struct fleet_options options = usual;

    (void)state;
    options.workers = 1;
    assert_int_equal(outcome(&three, options).found, 2);
    options.capacity = 1; /* the root stays */
    assert_int_equal(outcome(&three, options).found, 1);
}

/* Requests that decode for long, without a block in common: the second goes to who is idle. */
static void
by_load_a_request_goes_to_who_has_less(void **state)
{
    static struct hour_request apart[] = {
        {0, 1024, 100, 0, 2}, {10000000, 512, 100, 5, 1}, {20000000, 512, 100, 5, 1}};
    static const struct hour busy = {apart, 3, blocks, hashes, 6, 4};
    struct fleet_options options = usual;
    struct fleet_result result;

    (void)state;
    options.way = FLEET_LOAD;
    for (options.seed = 0; options.seed < 20; options.seed++) {
        /* 2 blocks against 0, then 2 against 1: that one again, which has its block */
        result = outcome(&busy, options);
        assert_int_equal(result.found, 1);
        assert_near(result.requests_most, 2 / 1.5);
        assert_near(result.tokens_most, 1024 / 768.);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leaf_goes_before_its_root),
        cmocka_unit_test(the_least_recently_used_goes),
        cmocka_unit_test(by_cost_a_request_goes_where_its_blocks_are),
        cmocka_unit_test(in_turn_it_goes_elsewhere),
        cmocka_unit_test(g4_has_what_was_computed_anywhere),
        cmocka_unit_test(a_worker_computes_one_prompt_after_another),
        cmocka_unit_test(a_cache_that_is_too_small_forgets),
        cmocka_unit_test(by_load_a_request_goes_to_who_has_less),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
