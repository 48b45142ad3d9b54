/*
 * What is tested: how long blocks rest in a pool (kvbm/pool/block_pool.h): those taken to be
 * looked at come back to where they were, whatever else moved meanwhile, in every order; what was
 * used comes back as used; what was fetched early is counted; and what is free can be had without
 * evicting.
 */
#include "base/core/random.h"
#include "kvbm/pool/block_pool.h"
#include "kvbm/pool/mutable_block.h"

#include "policy/ordering/ordering_table.h"
#include "tests/support/seed.h"

enum { BLOCKS = 64, ROUNDS = 200 };

static struct kvbm_pool *
new_pool(enum kvt_pool_order order)
{
    struct kvbm_pool *pool;

    assert_int_equal(
        kvbm_pool_new(&pool, &(struct kvbm_pool_options){.block_count = BLOCKS,
                                                         .order = order,
                                                         .ordering = policy_ordering_find("lru")}),
        KVT_OK);
    return pool;
}

static struct kvt_handle
make_held(struct kvbm_pool *pool, uint64_t hash)
{
    const struct kvbm_label label = {{hash, 0, 0}, hash, 0};
    struct kvt_handle handle;

    assert_int_equal(kvbm_pool_allocate(pool, 1, &handle), KVT_OK);
    assert_int_equal(kvbm_block_begin(pool, handle, NULL), KVT_OK);
    assert_int_equal(kvbm_block_complete(pool, handle, &label, NULL), KVT_OK);
    assert_int_equal(kvbm_pool_register(pool, &handle, NULL), KVT_OK);
    return handle;
}

static void
make(struct kvbm_pool *pool, uint64_t hash, uint32_t priority)
{
    const struct kvt_handle handle = make_held(pool, hash);

    kvbm_pool_set_priority(pool, handle, priority);
    kvbm_pool_drop(pool, handle);
}

/* The whole order, coldest first; the pool is empty then. */
static size_t
take_apart(struct kvbm_pool *pool, uint64_t *hashes)
{
    struct kvt_handle handle;
    size_t count = 0;

    while (kvbm_pool_coldest(pool, 1, &handle) == 1) {
        hashes[count++] = kvbm_pool_label(pool, handle).id.hash;
        assert_int_equal(kvbm_pool_evict(pool, handle), KVT_OK);
    }
    return count;
}

static void
time_passes(struct kvbm_pool *pool)
{
    static uint32_t iteration = UINT32_MAX - 20; /* and wraps around */

    kvbm_pool_set_iteration(pool, iteration += 10);
}

/* Two pools with the same life; in one of them idle blocks are taken and given back all the time.
 * At the end both have the same order. */
static void
the_order_is_as_if_nobody_had_looked(void **unused)
{
    uint64_t random = test_seed();

    (void)unused;
    for (unsigned round = 0; round < ROUNDS; round++) {
        const enum kvt_pool_order order = (enum kvt_pool_order)(round % 4);
        struct kvbm_pool *pools[2] = {new_pool(order), new_pool(order)};
        uint64_t orders[2][BLOCKS];
        uint32_t at = 0;

        for (uint64_t hash = 1; hash <= BLOCKS; hash++) {
            const uint32_t priority = (uint32_t)kvt_random_below(&random, 3);

            for (size_t i = 0; i < 2; i++)
                make(pools[i], hash, priority);
        }
        time_passes(pools[0]);
        for (unsigned step = 0; step < 30; step++) {
            struct kvt_handle looked[8];
            const size_t max = 1 + kvt_random_below(&random, 8);
            const size_t count = kvbm_pool_idle(pools[0], 1, &at, BLOCKS, max, looked);

            const uint64_t hash = 1 + kvt_random_below(&random, BLOCKS);

            for (size_t i = 0; i < 2; i++) {
                struct kvt_handle handle;

                assert_int_equal(kvbm_pool_find(pools[i], hash, &handle), KVT_OK);
                kvbm_pool_drop(pools[i], handle);
            }
            /* Used while it was looked at: it is as warm as if it had been found there. */
            for (size_t i = 0; i < count; i++)
                kvbm_pool_drop_same(pools[0], looked[i]);
        }
        for (size_t i = 0; i < 2; i++)
            assert_int_equal(take_apart(pools[i], orders[i]), BLOCKS);
        for (size_t i = 0; i < BLOCKS; i++)
            assert_int_equal(orders[0][i], orders[1][i]);
        kvbm_pool_free(pools[0]);
        kvbm_pool_free(pools[1]);
    }
}

static void
only_what_rests_long_enough(void **unused)
{
    struct kvbm_pool *pool = new_pool(KVT_POOL_ORDER_LRU);
    struct kvt_handle handles[BLOCKS];
    uint32_t at = 0;

    (void)unused;
    make(pool, 1, 0);
    kvbm_pool_set_iteration(pool, 5);
    make(pool, 2, 0);
    kvbm_pool_set_iteration(pool, 10);
    assert_int_equal(kvbm_pool_idle(pool, 11, &at, BLOCKS, BLOCKS, handles), 0);
    assert_int_equal(kvbm_pool_idle(pool, 6, &at, BLOCKS, BLOCKS, handles), 1);
    assert_int_equal(kvbm_pool_label(pool, handles[0]).id.hash, 1);
    assert_int_equal(kvbm_pool_idle(pool, 6, &at, BLOCKS, BLOCKS, handles + 1), 0); /* held */
    kvbm_pool_drop_same(pool, handles[0]);
    assert_int_equal(kvbm_pool_idle(pool, 6, &at, BLOCKS, BLOCKS, handles), 1); /* still rests */
    kvbm_pool_mark_saved(pool, handles[0]);
    kvbm_pool_drop_same(pool, handles[0]);
    assert_int_equal(kvbm_pool_idle(pool, 5, &at, BLOCKS, BLOCKS, handles), 1);
    assert_int_equal(kvbm_pool_label(pool, handles[0]).id.hash, 2);
    kvbm_pool_set_aside(pool, handles[0]);
    kvbm_pool_drop_same(pool, handles[0]);
    assert_int_equal(kvbm_pool_idle(pool, 5, &at, BLOCKS, BLOCKS, handles), 0);
    /* It looks at no more than it may, and goes on where it ended. */
    at = 0;
    assert_int_equal(kvbm_pool_idle(pool, 5, &at, BLOCKS / 2, BLOCKS, handles), 0);
    assert_int_equal(at, BLOCKS / 2);
    kvbm_pool_free(pool);
}

static void
early_blocks_are_counted_once(void **unused)
{
    struct kvbm_pool *pool = new_pool(KVT_POOL_ORDER_LRU);
    struct kvbm_pool_stats stats;

    (void)unused;
    for (uint64_t hash = 1; hash <= 4; hash++) {
        const struct kvt_handle handle = make_held(pool, hash);

        kvbm_pool_mark_early(pool, handle);
        kvbm_pool_drop(pool, handle);
    }
    for (int i = 0; i < 2; i++) {
        struct kvt_handle handle;

        assert_int_equal(kvbm_pool_find(pool, 2, &handle), KVT_OK);
        kvbm_pool_drop(pool, handle);
    }
    assert_true(kvbm_pool_has(pool, 3)); /* nobody has asked for it */
    stats = kvbm_pool_stats(pool);
    assert_int_equal(stats.early_used, 1);
    assert_int_equal(stats.early_unused, 0);
    assert_int_equal(kvbm_pool_clear(pool), 4);
    make(pool, 5, 0); /* in a block that was early in another life */
    assert_int_equal(kvbm_pool_clear(pool), 1);
    stats = kvbm_pool_stats(pool);
    assert_int_equal(stats.early_used, 1);
    assert_int_equal(stats.early_unused, 3);
    kvbm_pool_free(pool);
}

static void
what_is_free_can_be_had_alone(void **unused)
{
    struct kvbm_pool *pool = new_pool(KVT_POOL_ORDER_LRU);
    struct kvt_handle handles[BLOCKS];

    (void)unused;
    make(pool, 1, 0);
    assert_int_equal(kvbm_pool_allocate_free(pool, BLOCKS, handles), KVT_AGAIN);
    assert_int_equal(kvbm_pool_allocate_free(pool, BLOCKS - 1, handles), KVT_OK);
    assert_int_equal(kvbm_pool_allocate_free(pool, 1, handles + BLOCKS - 1), KVT_AGAIN);
    assert_true(kvbm_pool_has(pool, 1));
    kvbm_pool_drop_all(pool, handles, BLOCKS - 1);
    kvbm_pool_free(pool);
}

/* Held or not, each once, and its rest is not disturbed. */
static void
what_is_not_stored_is_found(void **unused)
{
    struct kvbm_pool *pool = new_pool(KVT_POOL_ORDER_LRU);
    struct kvt_handle handles[BLOCKS];
    uint64_t hashes[BLOCKS];
    struct kvt_handle held;
    uint32_t at = 0;

    (void)unused;
    for (uint64_t hash = 1; hash <= 6; hash++)
        make(pool, hash, 0);
    held = make_held(pool, 7);
    assert_int_equal(kvbm_pool_allocate(pool, 1, handles), KVT_OK); /* of no name */
    assert_int_equal(kvbm_pool_stats(pool).unstored, 7);
    kvbm_pool_mark_stored(pool, 3);
    kvbm_pool_mark_stored(pool, 3);
    kvbm_pool_mark_stored(pool, 99);
    assert_int_equal(kvbm_pool_stats(pool).unstored, 6);
    kvbm_pool_drop(pool, handles[0]);
    assert_int_equal(kvbm_pool_unstored(pool, &at, BLOCKS, 4, handles), 4);
    assert_true(at < BLOCKS);
    assert_int_equal(kvbm_pool_unstored(pool, &at, BLOCKS, BLOCKS, handles + 4), 2);
    assert_int_equal(at, BLOCKS);
    assert_int_equal(kvbm_pool_unstored(pool, &at, BLOCKS, BLOCKS, handles + 6), 0);
    for (size_t i = 0; i < 6; i++) {
        assert_int_not_equal(kvbm_pool_label(pool, handles[i]).id.hash, 3);
        kvbm_pool_drop_same(pool, handles[5 - i]);
    }
    kvbm_pool_drop(pool, held);
    kvbm_pool_mark_stored(pool, 7);
    assert_int_equal(take_apart(pool, hashes), 7);
    for (uint64_t i = 0; i < 7; i++)
        assert_int_equal(hashes[i], i + 1); /* as if nobody had looked */
    assert_int_equal(kvbm_pool_stats(pool).unstored, 0);
    make(pool, 3, 0); /* another life */
    assert_int_equal(kvbm_pool_stats(pool).unstored, 1);
    assert_int_equal(kvbm_pool_clear(pool), 1);
    assert_int_equal(kvbm_pool_stats(pool).unstored, 0);
    kvbm_pool_free(pool);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_is_as_if_nobody_had_looked),
        cmocka_unit_test(only_what_rests_long_enough),
        cmocka_unit_test(early_blocks_are_counted_once),
        cmocka_unit_test(what_is_free_can_be_had_alone),
        cmocka_unit_test(what_is_not_stored_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
