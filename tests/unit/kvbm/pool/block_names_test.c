/*
 * What is tested: kvbm/pool/block_names.h against an array.  Most hashes are of four buckets, so
 * that chains are long: a name taken out of the middle of one must not lose those behind it.
 */
#include "base/core/alloc.h"
#include "base/core/random.h"
#include "kvbm/pool/block_names.h"

#include "tests/support/seed.h"

enum { BLOCKS = 64, NAMES = 200, CROWDED = 4, STEPS = 200000 };

/* Different ones, three of four in the first CROWDED buckets. */
static void
choose_hashes(const struct kvbm_block_names *names, uint64_t *hashes)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < NAMES; i++) {
        do
            hash++;
        while (i % 4 != 0 && kvbm_block_names_bucket(names, hash) >= names->first + CROWDED);
        hashes[i] = hash;
    }
}

static uint32_t
owner_of(const uint64_t *named, uint64_t hash)
{
    for (uint32_t block = 0; block < BLOCKS; block++)
        if (named[block] == hash)
            return block;
    return KVBM_BLOCK_NAMES_NONE;
}

static void
random_against_array(void **unused)
{
    uint64_t seed = test_seed();
    uint64_t named[BLOCKS] = {0}; /* 0: it has no name */
    uint64_t hashes[NAMES];
    struct kvbm_block_names names;
    uint32_t count = 0;
    uint32_t known = 0;

    (void)unused;
    assert_int_equal(kvbm_block_names_init(&names, BLOCKS), KVT_OK);
    choose_hashes(&names, hashes);
    for (int step = 0; step < STEPS; step++) {
        const uint64_t hash = hashes[kvt_random_below(&seed, NAMES)];
        const uint32_t block = (uint32_t)kvt_random_below(&seed, BLOCKS);
        const uint32_t owner = owner_of(named, hash);

        assert_int_equal(kvbm_block_names_get(&names, hash), owner);
        if (named[block] != 0) {
            kvbm_block_names_remove(&names, block);
            assert_int_equal(kvbm_block_names_get(&names, named[block]), KVBM_BLOCK_NAMES_NONE);
            named[block] = 0;
            count--;
        } else {
            assert_int_equal(kvbm_block_names_add(&names, hash, block), owner);
            if (owner == KVBM_BLOCK_NAMES_NONE) {
                named[block] = hash;
                count++;
            } else {
                known++;
            }
        }
        assert_int_equal(names.count, count);
    }
    assert_true(known > 0);
    for (uint32_t block = 0; block < BLOCKS; block++)
        if (named[block] != 0)
            assert_int_equal(kvbm_block_names_get(&names, named[block]), block);
    kvbm_block_names_release(&names);
    assert_int_equal(kvt_alloc_live(), 0);
}

static bool
attempt(void *arg)
{
    struct kvbm_block_names names;
    const enum kvt_err rc = kvbm_block_names_init(&names, *(const uint32_t *)arg);

    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    kvbm_block_names_release(&names);
    return rc == KVT_OK;
}

static void
init_survives_every_allocation_failure(void **unused)
{
    uint32_t capacity = BLOCKS;

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
