/*
 * What is tested: kvbm/pool.h under many threads that make, find, evict and discard the same few
 * names: for each name the world hears Store and Remove strictly in turn, a found block has the
 * bytes of its name as long as it is held, and a walk beside it all never shows a stale name.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kvbm/pool.h"

#include "tests/support/seed.h"

enum { BLOCKS = 12, NAMES = 24, THREADS = 4, STEPS = 20000 };

static struct kvbm_pool *pool;
static _Atomic int told[NAMES + 1];
static _Atomic uint64_t content[BLOCKS]; /* the "bytes": the name they were made for */
static _Atomic unsigned wrong_turns;
static _Atomic unsigned wrong_bytes;
static _Atomic unsigned evictions;
static _Atomic unsigned found;

static void
on_store(void *arg, const struct kvbm_label *label)
{
    (void)arg;
    if (atomic_fetch_add(&told[label->id.hash], 1) != 0)
        atomic_fetch_add(&wrong_turns, 1);
}

static void
on_remove(void *arg, const struct kvbm_label *label)
{
    (void)arg;
    if (atomic_fetch_sub(&told[label->id.hash], 1) != 1)
        atomic_fetch_add(&wrong_turns, 1);
    atomic_fetch_add(&evictions, 1);
}

static void
make(uint64_t name)
{
    const struct kvbm_label label = {{name, 0, 0}, name};
    struct kvbm_handle handle;
    enum kvt_err rc;

    if (kvbm_pool_allocate(pool, 1, &handle) != KVT_OK)
        return;
    rc = kvbm_pool_begin(pool, handle, NULL);
    atomic_store(&content[handle.block], name);
    if (rc == KVT_OK)
        rc = kvbm_pool_complete(pool, handle, &label, NULL);
    if (rc == KVT_OK)
        rc = kvbm_pool_register(pool, &handle, NULL);
    if ((rc == KVT_OK || rc == KVT_EXISTS) && atomic_load(&content[handle.block]) != name)
        atomic_fetch_add(&wrong_bytes, 1);
    kvbm_pool_drop(pool, handle);
}

static void
look(uint64_t name, uint64_t how)
{
    struct kvbm_handle handle;

    if (kvbm_pool_find(pool, name, &handle) != KVT_OK)
        return;
    atomic_fetch_add(&found, 1);
    for (int i = 0; i < 20; i++)
        if (atomic_load(&content[handle.block]) != name)
            atomic_fetch_add(&wrong_bytes, 1);
    if (how == 0)
        (void)kvbm_pool_evict(pool, handle);
    else if (how == 1)
        kvbm_pool_discard(pool, handle);
    else
        kvbm_pool_drop(pool, handle);
}

static void *
run(void *arg)
{
    uint64_t seed = *(const uint64_t *)arg;

    for (int step = 0; step < STEPS; step++) {
        const uint64_t name = 1 + kvt_random_below(&seed, NAMES);

        if (kvt_random_below(&seed, 2) == 0)
            make(name);
        else
            look(name, kvt_random_below(&seed, 10));
    }
    return NULL;
}

static void
many_threads(void **unused)
{
    const uint64_t seed = test_seed();
    uint64_t seeds[THREADS];
    pthread_t threads[THREADS];
    struct kvbm_label labels[BLOCKS];
    uint32_t at = 0;
    size_t count;

    (void)unused;
    assert_int_equal(kvbm_pool_new(&pool, &(struct kvbm_pool_options){.block_count = BLOCKS,
                                                                      .on_store = on_store,
                                                                      .on_remove = on_remove}),
                     KVT_OK);
    for (size_t i = 0; i < THREADS; i++) {
        seeds[i] = seed + i;
        assert_int_equal(pthread_create(&threads[i], NULL, run, &seeds[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&wrong_turns), 0);
    assert_int_equal(atomic_load(&wrong_bytes), 0);
    assert_true(atomic_load(&evictions) > 0);
    assert_true(atomic_load(&found) > 0);
    count = kvbm_pool_walk(pool, &at, labels, BLOCKS);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(atomic_load(&told[labels[i].id.hash]), 1);
        atomic_store(&told[labels[i].id.hash], 0);
    }
    for (size_t name = 0; name <= NAMES; name++)
        assert_int_equal(atomic_load(&told[name]), 0); /* told and walked are the same names */
    assert_int_equal(kvbm_pool_stats(pool).active, 0);
    kvbm_pool_free(pool);
    assert_int_equal(kvt_alloc_live(), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(many_threads)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
