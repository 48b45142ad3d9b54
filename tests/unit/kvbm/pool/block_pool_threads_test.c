/*
 * What is tested: kvbm/pool/block_pool.h under many threads that make, find, evict, discard and
 * clear the same few names, in every order: for each name the world hears Store and Remove
 * strictly in turn, a found block has the bytes of its name as long as it is held, and a walk
 * beside it all never shows a stale name.  What must have happened is counted.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "kvbm/pool/block_pool.h"
#include "kvbm/pool/mutable_block.h"

#include "policy/ordering/ordering_table.h"
#include "tests/support/seed.h"

enum { BLOCKS = 12, NAMES = 24, DEPTH = 5, BATCH = 3, THREADS = 4, STEPS = 20000 };

/* What happened. */
enum met {
    REGISTERED,
    KNOWN,
    BUSY,
    REFUSED,
    FULL,
    FOUND,
    EVICTED,
    EVICT_BUSY,
    UPGRADED,
    ALONG,
    NOT_ALONG,
    COLDEST,
    CLEARED,
    MET_COUNT
};

static struct kvbm_pool *pool;
static _Atomic int told[NAMES + 1];
static _Atomic uint64_t content[BLOCKS]; /* the "bytes": the name they were made for */
static _Atomic unsigned wrong_turns;
static _Atomic unsigned wrong_bytes;
static _Atomic unsigned met[MET_COUNT];

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
}

/* Names are the nodes of a binary tree: 1 is the root, and name continues name / 2. */
static struct kvbm_label
label_of(uint64_t name)
{
    struct kvbm_label label = {{name, name / 2, 0}, name, 0};

    for (uint64_t at = name; at > 1; at /= 2)
        label.id.position++;
    return label;
}

static void
note(struct kvt_handle handle, uint64_t name)
{
    for (int i = 0; i < 20; i++)
        if (atomic_load(&content[handle.block]) != name)
            atomic_fetch_add(&wrong_bytes, 1);
}

static void
make(uint64_t name)
{
    struct kvt_handle handles[BATCH];
    enum kvt_err results[BATCH];
    const size_t count = 1 + name % BATCH;

    if (kvbm_pool_allocate(pool, count, handles) != KVT_OK) {
        atomic_fetch_add(&met[FULL], 1);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const struct kvbm_label label = label_of(1 + (name + i) % NAMES);
        enum kvt_err rc = kvbm_block_begin(pool, handles[i], NULL);

        atomic_store(&content[handles[i].block], label.id.hash);
        if (rc == KVT_OK && name % 7 == 0)
            rc = kvbm_block_reset(pool, handles[i], NULL);
        else if (rc == KVT_OK)
            rc = kvbm_block_complete(pool, handles[i], &label, NULL);
        if (rc != KVT_OK)
            atomic_fetch_add(&wrong_bytes, 1);
    }
    (void)kvbm_pool_register_all(pool, handles, count, results);
    for (size_t i = 0; i < count; i++) {
        atomic_fetch_add(&met[results[i] == KVT_OK       ? REGISTERED
                              : results[i] == KVT_EXISTS ? KNOWN
                              : results[i] == KVT_BUSY   ? BUSY
                                                         : REFUSED],
                         1);
        if (results[i] == KVT_OK || results[i] == KVT_EXISTS)
            note(handles[i], 1 + (name + i) % NAMES);
    }
    kvbm_pool_drop_all(pool, handles, count);
}

static void
look(uint64_t name, uint64_t how)
{
    struct kvt_handle handle;

    if (kvbm_pool_find(pool, name, &handle) != KVT_OK)
        return;
    atomic_fetch_add(&met[FOUND], 1);
    note(handle, name);
    if (how == 0) {
        atomic_fetch_add(&met[kvbm_pool_evict(pool, handle) == KVT_OK ? EVICTED : EVICT_BUSY], 1);
    } else if (how == 1) {
        kvbm_pool_discard(pool, handle);
    } else if (how == 2) {
        kvbm_pool_set_priority(pool, handle, (uint32_t)name % (KVT_PRIORITY_MAX + 1));
        kvbm_pool_drop_cold(pool, handle);
    } else {
        kvbm_pool_drop(pool, handle);
        if (how == 3 && kvbm_pool_upgrade(pool, handle) == KVT_OK) {
            atomic_fetch_add(&met[UPGRADED], 1);
            note(handle, name);
            kvbm_pool_drop(pool, handle);
        }
    }
}

/* Several at once: a path from the root, or whatever is there. */
static void
look_along(uint64_t name, bool over_holes)
{
    struct kvt_handle handles[DEPTH];
    uint64_t hashes[DEPTH];
    size_t depth = label_of(name).id.position + 1u;
    size_t count;

    for (size_t i = depth; i > 0; i--, name /= 2)
        hashes[i - 1] = name;
    count = over_holes ? kvbm_pool_scan(pool, hashes, depth, handles)
                       : kvbm_pool_match(pool, hashes, depth, handles);
    atomic_fetch_add(&met[count > 1 ? ALONG : NOT_ALONG], 1);
    if (!over_holes)
        depth = count;
    for (size_t i = 0; i < depth; i++)
        if (handles[i].generation != 0)
            note(handles[i], hashes[i]);
    kvbm_pool_drop_all(pool, handles, depth);
}

static void
lower(void)
{
    struct kvt_handle handles[BATCH];
    const size_t count = kvbm_pool_coldest(pool, BATCH, handles);

    atomic_fetch_add(&met[COLDEST], (unsigned)count);
    for (size_t i = 0; i < count; i++)
        (void)kvbm_pool_evict(pool, handles[i]);
}

static void *
run(void *arg)
{
    uint64_t seed = *(const uint64_t *)arg;

    for (int step = 0; step < STEPS; step++) {
        const uint64_t name = 1 + kvt_random_below(&seed, NAMES);
        const uint64_t what = kvt_random_below(&seed, 100);

        if (what < 45)
            make(name);
        else if (what < 80)
            look(name, kvt_random_below(&seed, 10));
        else if (what < 97)
            look_along(name, what % 2 == 0);
        else if (what < 99)
            lower();
        else
            atomic_fetch_add(&met[CLEARED], kvbm_pool_clear(pool) > 0);
    }
    return NULL;
}

static void
run_threads(uint64_t seed)
{
    uint64_t seeds[THREADS];
    pthread_t threads[THREADS];

    for (size_t i = 0; i < THREADS; i++) {
        seeds[i] = seed + i;
        assert_int_equal(pthread_create(&threads[i], NULL, run, &seeds[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void
many_threads(enum kvt_pool_order order, const char *ordering)
{
    const struct kvbm_pool_options options = {
        .block_count = BLOCKS,
        .order = order,
        .ordering = ordering == NULL ? NULL : policy_ordering_find(ordering),
        .ordering_options = {.prices = {1, 10, 5}, .idle_ticks = 100},
        .on_store = on_store,
        .on_remove = on_remove,
    };
    struct kvbm_label labels[BLOCKS];
    uint32_t at = 0;
    size_t count;

    assert_int_equal(kvbm_pool_new(&pool, &options), KVT_OK);
    run_threads(test_seed());
    assert_int_equal(atomic_load(&wrong_turns), 0);
    assert_int_equal(atomic_load(&wrong_bytes), 0);
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

static void
every_order(void **unused)
{
    (void)unused;
    many_threads(KVT_POOL_ORDER_LRU, NULL);
    many_threads(KVT_POOL_ORDER_PRIORITY, NULL);
    many_threads(KVT_POOL_ORDER_LINEAGE, NULL);
    many_threads(KVT_POOL_ORDER_ORDERING, POLICY_ORDERING_DEFAULT);
    for (size_t i = 0; i < MET_COUNT; i++) {
        if (i == BUSY || i == FULL || i == EVICT_BUSY)
            continue; /* only where two threads meet, which a machine may not let them */
        if (atomic_load(&met[i]) == 0)
            fail_msg("event %zu was never met", i);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_order)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
