/*
 * What is tested: kvbm/pool/block_map.h against an array, with hashes that collide on purpose:
 * removals must not cut a run in two.
 */
#include "base/core/alloc.h"
#include "base/core/random.h"
#include "kvbm/pool/block_map.h"

#include "tests/support/seed.h"

enum { CAPACITY = 64, NAMES = 200, STEPS = 200000 };

static void
random_against_array(void **unused)
{
    uint64_t seed = test_seed();
    bool known[NAMES] = {false};
    uint32_t blocks[NAMES] = {0};
    struct kvbm_block_map map;
    uint32_t count = 0;
    uint32_t full = 0;

    (void)unused;
    assert_int_equal(kvbm_block_map_init(&map, CAPACITY), KVT_OK);
    for (int step = 0; step < STEPS; step++) {
        const uint64_t name = kvt_random_below(&seed, NAMES);
        uint32_t block;

        assert_int_equal(kvbm_block_map_get(&map, name, &block), known[name]);
        assert_int_equal(block, known[name] ? blocks[name] : 0);
        if (known[name]) {
            assert_false(kvbm_block_map_add(&map, name, 7, &block));
            assert_int_equal(block, blocks[name]);
            kvbm_block_map_remove(&map, name);
            known[name] = false;
            count--;
        } else if (count < CAPACITY) {
            blocks[name] = (uint32_t)kvt_random_next(&seed);
            kvbm_block_map_put(&map, name, blocks[name]);
            known[name] = true;
            count++;
        } else {
            full++;
        }
        assert_int_equal(map.count, count);
    }
    assert_true(full > 0);
    kvbm_block_map_release(&map);
    assert_int_equal(kvt_alloc_live(), 0);
}

static bool
attempt(void *arg)
{
    struct kvbm_block_map map;
    const enum kvt_err rc = kvbm_block_map_init(&map, *(const uint32_t *)arg);

    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    kvbm_block_map_release(&map);
    return rc == KVT_OK;
}

static void
init_survives_every_allocation_failure(void **unused)
{
    uint32_t capacity = CAPACITY;

    (void)unused;
    assert_true(test_sweep_allocations(attempt, &capacity) > 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_against_array),
        cmocka_unit_test(init_survives_every_allocation_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
