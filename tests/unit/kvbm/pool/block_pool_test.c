/*
 * What is tested: kvbm/pool/block_pool.h, its edges by hand: moves and refusals, all-or-none, the
 * order of eviction, duplicates, weak handles, discarded content, and what callbacks may count on.
 */
#include <pthread.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "kvbm/pool/block_pool.h"
#include "kvbm/pool/block_pool_internal.h"
#include "kvbm/pool/mutable_block.h"

#include "tests/support/seed.h"

enum { BLOCKS = 4 };

/* What the callbacks were told. */
static struct {
    unsigned stores;
    unsigned removes;
    uint64_t last_removed;
} heard;

static void
on_store(void *arg, const struct kvbm_label *label)
{
    (void)arg;
    (void)label;
    heard.stores++;
}

static void
on_remove(void *arg, const struct kvbm_label *label)
{
    (void)arg;
    heard.removes++;
    heard.last_removed = label->id.hash;
}

static struct kvbm_pool *
new_pool(enum kvt_pool_dedup dedup)
{
    struct kvbm_pool *pool;

    heard.stores = heard.removes = 0;
    heard.last_removed = 0;
    assert_int_equal(kvbm_pool_new(&pool, &(struct kvbm_pool_options){.block_count = BLOCKS,
                                                                      .dedup = dedup,
                                                                      .on_store = on_store,
                                                                      .on_remove = on_remove}),
                     KVT_OK);
    return pool;
}

static struct kvbm_label
label_of(uint64_t hash)
{
    return (struct kvbm_label){{hash, hash + 1000, (uint32_t)hash}, hash + 2000, 0};
}

/* A complete block of that name, held by us alone. */
static struct kvt_handle
make(struct kvbm_pool *pool, uint64_t hash)
{
    const struct kvbm_label label = label_of(hash);
    struct kvt_handle handle;

    assert_int_equal(kvbm_pool_allocate(pool, 1, &handle), KVT_OK);
    assert_int_equal(kvbm_block_begin(pool, handle, NULL), KVT_OK);
    assert_int_equal(kvbm_block_complete(pool, handle, &label, NULL), KVT_OK);
    return handle;
}

static struct kvt_handle
make_registered(struct kvbm_pool *pool, uint64_t hash)
{
    struct kvt_handle handle = make(pool, hash);

    assert_int_equal(kvbm_pool_register(pool, &handle, NULL), KVT_OK);
    return handle;
}

static void
counts_outside_limits(void **unused)
{
    struct kvbm_pool *pool;

    (void)unused;
    assert_int_equal(kvbm_pool_new(&pool, &(struct kvbm_pool_options){.block_count = 0}),
                     KVT_INVALID);
    assert_null(pool);
    assert_int_equal(
        kvbm_pool_new(&pool, &(struct kvbm_pool_options){.block_count = KVT_POOL_BLOCKS_MAX + 1}),
        KVT_INVALID);
    assert_null(pool);
    kvbm_pool_free(NULL);
}

static void
illegal_moves_are_refused(void **unused)
{
    struct kvbm_pool *pool = new_pool(KVT_POOL_DEDUP_REJECT);
    const struct kvbm_label label = label_of(1);
    struct kvt_handle handle;
    struct kvt_error err;

    (void)unused;
    assert_int_equal(kvbm_pool_allocate(pool, 1, &handle), KVT_OK);
    assert_int_equal(kvbm_pool_state(pool, handle), KVT_BLOCK_RESET);
    assert_int_equal(kvbm_block_complete(pool, handle, &label, &err), KVT_INVALID);
    assert_int_equal(kvbm_pool_register(pool, &handle, &err), KVT_INVALID);
    assert_int_equal(kvbm_block_reset(pool, handle, &err), KVT_INVALID);
    assert_int_equal(kvbm_block_begin(pool, handle, &err), KVT_OK);
    assert_int_equal(kvbm_block_begin(pool, handle, &err), KVT_INVALID);
    assert_int_equal(kvbm_pool_register(pool, &handle, &err), KVT_INVALID);
    assert_int_equal(kvbm_block_complete(pool, handle, &label, &err), KVT_OK);
    assert_int_equal(kvbm_block_complete(pool, handle, &label, &err), KVT_INVALID);
    assert_int_equal(kvbm_block_begin(pool, handle, &err), KVT_INVALID);
    assert_false(kvbm_pool_has(pool, 1)); /* complete is not yet to be found */
    assert_int_equal(kvbm_pool_register(pool, &handle, &err), KVT_OK);
    assert_true(kvbm_pool_has(pool, 1));
    assert_int_equal(kvbm_pool_register(pool, &handle, &err), KVT_INVALID);
    assert_int_equal(kvbm_block_begin(pool, handle, &err), KVT_INVALID);
    assert_int_equal(kvbm_block_complete(pool, handle, &label, &err), KVT_INVALID);
    assert_int_equal(kvbm_block_reset(pool, handle, &err), KVT_INVALID);
    assert_int_equal(kvbm_pool_state(pool, handle), KVT_BLOCK_REGISTERED);
    assert_int_equal(kvbm_pool_label(pool, handle).prefix_hash, 2001);
    kvbm_pool_drop(pool, handle);
    kvbm_pool_free(pool);
}

static void
unregistered_blocks_return_to_reset(void **unused)
{
    struct kvbm_pool *pool = new_pool(KVT_POOL_DEDUP_REJECT);
    struct kvt_handle handle = make(pool, 1);

    (void)unused;
    assert_int_equal(kvbm_block_reset(pool, handle, NULL), KVT_OK);
    assert_int_equal(kvbm_pool_label(pool, handle).id.hash, 0);
    kvbm_pool_drop(pool, handle);
    kvbm_pool_drop(pool, make(pool, 2)); /* dropped while complete */
    assert_int_equal(kvbm_pool_stats(pool).free, BLOCKS);
    assert_int_equal(heard.stores + heard.removes, 0);
    kvbm_pool_free(pool);
}

static void
allocation_is_all_or_none(void **unused)
{
    struct kvbm_pool *pool = new_pool(KVT_POOL_DEDUP_REJECT);
    struct kvt_handle handles[BLOCKS + 1];

    (void)unused;
    assert_int_equal(kvbm_pool_allocate(pool, BLOCKS + 1, handles), KVT_AGAIN);
    assert_int_equal(kvbm_pool_stats(pool).free, BLOCKS);
    assert_int_equal(kvbm_pool_allocate(pool, 3, handles), KVT_OK);
    assert_int_equal(kvbm_pool_allocate(pool, 2, handles + 3), KVT_AGAIN);
    assert_int_equal(kvbm_pool_stats(pool).free, 1);
    assert_int_equal(kvbm_pool_allocate(pool, 1, handles + 3), KVT_OK);
    assert_int_equal(kvbm_pool_allocate(pool, 0, handles), KVT_OK);
    for (size_t i = 0; i < BLOCKS; i++)
        kvbm_pool_drop(pool, handles[i]);
    kvbm_pool_free(pool);
}

static void
the_coldest_goes_first(void **unused)
{
    struct kvbm_pool *pool = new_pool(KVT_POOL_DEDUP_REJECT);
    struct kvt_handle handle;

    (void)unused;
    for (uint64_t hash = 1; hash <= BLOCKS; hash++)
        kvbm_pool_drop(pool, make_registered(pool, hash));
    assert_int_equal(kvbm_pool_stats(pool).inactive, BLOCKS);
    assert_int_equal(kvbm_pool_stats(pool).registered, BLOCKS);
    assert_int_equal(kvbm_pool_find(pool, 1, &handle), KVT_OK); /* 1 is warm now */
    kvbm_pool_drop(pool, handle);
    assert_int_equal(kvbm_pool_find(pool, 4, &handle), KVT_OK);
    kvbm_pool_drop_cold(pool, handle); /* 4 is cold now */
    for (unsigned i = 0; i < BLOCKS; i++) {
        static const uint64_t order[BLOCKS] = {4, 2, 3, 1};
        struct kvt_handle held = make(pool, 100 + i);

        assert_int_equal(heard.last_removed, order[i]);
        assert_int_equal(heard.removes, i + 1);
        assert_int_equal(kvbm_pool_register(pool, &held, NULL), KVT_OK);
        kvbm_pool_share(pool, held);
        kvbm_pool_drop(pool, held); /* one holder stays: not evictable */
    }
    assert_int_equal(kvbm_pool_allocate(pool, 1, &handle), KVT_AGAIN);
    assert_int_equal(kvbm_pool_stats(pool).evictions, BLOCKS);
    assert_int_equal(kvbm_pool_stats(pool).evictions_unsaved, BLOCKS);
    for (unsigned i = 0; i < BLOCKS; i++) {
        assert_int_equal(kvbm_pool_find(pool, 100 + i, &handle), KVT_OK);
        kvbm_pool_drop(pool, handle);
        kvbm_pool_drop(pool, handle);
    }
    kvbm_pool_free(pool);
}

static void
match_stops_at_the_first_hole(void **unused)
{
    struct kvbm_pool *pool = new_pool(KVT_POOL_DEDUP_REJECT);
    const uint64_t hashes[] = {1, 2, 9, 3};
    struct kvt_handle handles[4];

    (void)unused;
    for (uint64_t hash = 1; hash <= 3; hash++)
        kvbm_pool_drop(pool, make_registered(pool, hash));
    assert_int_equal(kvbm_pool_match(pool, hashes, 4, handles), 2);
    assert_int_equal(kvbm_pool_stats(pool).active, 2);
    kvbm_pool_drop(pool, handles[0]);
    kvbm_pool_drop(pool, handles[1]);
    assert_int_equal(kvbm_pool_match(pool, hashes + 2, 2, handles), 0);
    kvbm_pool_free(pool);
}

static void
a_known_name_gives_back_its_block(void **unused)
{
    struct kvbm_pool *pool = new_pool(KVT_POOL_DEDUP_REJECT);
    const struct kvt_handle first = make_registered(pool, 1);
    struct kvt_handle second = make(pool, 1);

    (void)unused;
    assert_int_not_equal(second.block, first.block);
    assert_int_equal(kvbm_pool_register(pool, &second, NULL), KVT_EXISTS);
    assert_int_equal(second.block, first.block);
    assert_int_equal(kvbm_pool_stats(pool).free, BLOCKS - 1);
    kvbm_pool_drop(pool, first);
    kvbm_pool_drop(pool, second);
    assert_int_equal(heard.stores, 1);
    assert_int_equal(kvbm_pool_stats(pool).duplicates, 1);
    kvbm_pool_free(pool);
}

static void
a_duplicate_ends_with_its_last_holder(void **unused)
{
    struct kvbm_pool *pool = new_pool(KVT_POOL_DEDUP_ALLOW);
    const struct kvt_handle first = make_registered(pool, 1);
    struct kvt_handle second = make(pool, 1);

    (void)unused;
    assert_int_equal(kvbm_pool_register(pool, &second, NULL), KVT_OK);
    assert_int_not_equal(second.block, first.block);
    kvbm_pool_share(pool, second);
    kvbm_pool_drop(pool, second);
    assert_int_equal(kvbm_pool_stats(pool).active, 2);
    assert_int_equal(kvbm_pool_evict(pool, second), KVT_BUSY); /* not the one the name stands for */
    assert_int_equal(kvbm_pool_stats(pool).free, BLOCKS - 1);
    assert_true(kvbm_pool_has(pool, 1));
    kvbm_pool_drop(pool, first);
    assert_int_equal(heard.stores, 1);
    assert_int_equal(heard.removes, 0);
    kvbm_pool_free(pool);
}

static void
weak_handles_end_with_the_block(void **unused)
{
    struct kvbm_pool *pool = new_pool(KVT_POOL_DEDUP_REJECT);
    struct kvt_handle handles[BLOCKS];
    const struct kvt_handle weak = make_registered(pool, 1);

    (void)unused;
    kvbm_pool_drop(pool, weak);
    assert_int_equal(kvbm_pool_upgrade(pool, weak), KVT_OK);
    kvbm_pool_drop(pool, weak);
    assert_int_equal(kvbm_pool_allocate(pool, BLOCKS, handles), KVT_OK); /* evicts it */
    assert_int_equal(kvbm_pool_upgrade(pool, weak), KVT_NOTFOUND);
    for (size_t i = 0; i < BLOCKS; i++)
        kvbm_pool_drop(pool, handles[i]);
    /* The same block under the same name is another life. */
    kvbm_pool_drop(pool, make_registered(pool, 1));
    assert_int_equal(kvbm_pool_upgrade(pool, weak), KVT_NOTFOUND);
    kvbm_pool_free(pool);
}

static void
eviction_waits_for_holders(void **unused)
{
    struct kvbm_pool *pool = new_pool(KVT_POOL_DEDUP_REJECT);
    const struct kvt_handle handle = make_registered(pool, 1);

    (void)unused;
    kvbm_pool_share(pool, handle);
    assert_int_equal(kvbm_pool_evict(pool, handle), KVT_BUSY);
    assert_true(kvbm_pool_has(pool, 1));
    assert_int_equal(kvbm_pool_evict(pool, handle), KVT_OK);
    assert_false(kvbm_pool_has(pool, 1));
    assert_int_equal(heard.removes, 1);
    assert_int_equal(kvbm_pool_stats(pool).free, BLOCKS);
    kvbm_pool_free(pool);
}

static void
discarded_content_is_never_found_again(void **unused)
{
    struct kvbm_pool *pool = new_pool(KVT_POOL_DEDUP_REJECT);
    const struct kvt_handle wrong = make_registered(pool, 1);
    struct kvt_handle right;
    struct kvt_handle found;

    (void)unused;
    kvbm_pool_share(pool, wrong);
    kvbm_pool_discard(pool, wrong);
    assert_false(kvbm_pool_has(pool, 1));
    assert_int_equal(heard.removes, 1);
    assert_int_equal(kvbm_pool_stats(pool).free, BLOCKS - 1); /* the other holder still reads it */
    right = make_registered(pool, 1);                         /* the name is free again */
    assert_int_not_equal(right.block, wrong.block);
    kvbm_pool_discard(pool, wrong); /* the second holder found it wrong, too */
    assert_int_equal(heard.removes, 1);
    assert_int_equal(kvbm_pool_stats(pool).free, BLOCKS - 1);
    assert_int_equal(kvbm_pool_find(pool, 1, &found), KVT_OK);
    assert_int_equal(found.block, right.block);
    kvbm_pool_drop(pool, found);
    kvbm_pool_drop(pool, right);
    kvbm_pool_free(pool);
}

static void
coldest_skips_what_was_set_aside(void **unused)
{
    struct kvbm_pool *pool = new_pool(KVT_POOL_DEDUP_REJECT);
    struct kvt_handle handles[BLOCKS];
    struct kvt_handle found;

    (void)unused;
    for (uint64_t hash = 1; hash <= BLOCKS; hash++)
        kvbm_pool_drop(pool, make_registered(pool, hash));
    assert_int_equal(kvbm_pool_coldest(pool, 2, handles), 2);
    assert_int_equal(kvbm_pool_label(pool, handles[0]).id.hash, 1);
    assert_int_equal(kvbm_pool_label(pool, handles[1]).id.hash, 2);
    kvbm_pool_set_aside(pool, handles[0]);
    kvbm_pool_drop_cold(pool, handles[0]);
    kvbm_pool_drop_cold(pool, handles[1]);
    assert_int_equal(kvbm_pool_coldest(pool, BLOCKS, handles), BLOCKS - 1);
    assert_int_equal(kvbm_pool_label(pool, handles[0]).id.hash, 2);
    for (size_t i = 0; i < BLOCKS - 1; i++)
        kvbm_pool_drop(pool, handles[i]);
    assert_int_equal(kvbm_pool_find(pool, 1, &found), KVT_OK); /* found anew: offered again */
    kvbm_pool_drop(pool, found);
    assert_int_equal(kvbm_pool_coldest(pool, BLOCKS, handles), BLOCKS);
    for (size_t i = 0; i < BLOCKS; i++)
        kvbm_pool_drop(pool, handles[i]);
    kvbm_pool_free(pool);
}

static void
walk_shows_every_name_once(void **unused)
{
    struct kvbm_pool *pool = new_pool(KVT_POOL_DEDUP_REJECT);
    struct kvbm_label labels[2];
    unsigned seen = 0;
    uint32_t at = 0;
    size_t count;

    (void)unused;
    for (uint64_t hash = 1; hash <= 3; hash++)
        kvbm_pool_drop(pool, make_registered(pool, hash));
    do {
        count = kvbm_pool_walk(pool, &at, labels, 2);
        for (size_t i = 0; i < count; i++)
            seen |= 1u << labels[i].id.hash;
    } while (count == 2);
    assert_int_equal(seen, 0xe);
    assert_int_equal(at, BLOCKS);
    kvbm_pool_free(pool);
}

static void
waits_end_on_time(void **unused)
{
    struct kvbm_pool *pool = new_pool(KVT_POOL_DEDUP_REJECT);
    struct kvt_handle handles[BLOCKS];
    struct kvt_handle more;
    uint64_t start_ms;

    (void)unused;
    assert_int_equal(kvbm_pool_allocate(pool, BLOCKS, handles), KVT_OK);
    start_ms = kvt_clock_mono_ms();
    assert_int_equal(kvbm_pool_allocate_wait(pool, 1, &more, 30), KVT_AGAIN);
    assert_false(kvbm_pool_wait_free(pool, 1, 30));
    assert_true(kvt_clock_mono_ms() - start_ms >= 60);
    for (size_t i = 0; i < BLOCKS; i++)
        kvbm_pool_drop(pool, handles[i]);
    assert_true(kvbm_pool_wait_free(pool, BLOCKS, 0));
    kvbm_pool_free(pool);
}

enum { WAIT_MS = 60000 };

static void *
wait_for_one(void *arg)
{
    static struct kvt_handle handle;

    return kvbm_pool_allocate_wait(arg, 1, &handle, WAIT_MS) == KVT_OK ? &handle : NULL;
}

static bool
somebody_waits(struct kvbm_pool *pool)
{
    bool waits;

    (void)pthread_mutex_lock(&pool->shared.lock);
    waits = pool->shared.waiters > 0;
    (void)pthread_mutex_unlock(&pool->shared.lock);
    return waits;
}

/* A parent may go when its last child loses its name: whoever waits for room hears of it, though
 * the child itself is still held. */
static void
a_discarded_child_wakes_who_waits(void **unused)
{
    struct kvbm_pool *pool;
    struct kvt_handle handles[2];
    struct kvt_handle *got;
    pthread_t thread;

    (void)unused;
    assert_int_equal(
        kvbm_pool_new(
            &pool, &(struct kvbm_pool_options){.block_count = 2, .order = KVT_POOL_ORDER_LINEAGE}),
        KVT_OK);
    assert_int_equal(kvbm_pool_allocate(pool, 2, handles), KVT_OK);
    for (uint32_t i = 0; i < 2; i++) {
        const struct kvbm_label label = {{i + 1, i, i}, 1, 0};

        assert_int_equal(kvbm_block_begin(pool, handles[i], NULL), KVT_OK);
        assert_int_equal(kvbm_block_complete(pool, handles[i], &label, NULL), KVT_OK);
        assert_int_equal(kvbm_pool_register(pool, &handles[i], NULL), KVT_OK);
    }
    kvbm_pool_share(pool, handles[1]);
    kvbm_pool_drop(pool, handles[0]);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_one, pool), 0);
    while (!somebody_waits(pool))
        kvt_clock_sleep_ms(1);
    kvbm_pool_discard(pool, handles[1]);
    assert_int_equal(pthread_join(thread, (void **)&got), 0);
    assert_non_null(got);
    assert_int_equal(got->block, handles[0].block);
    kvbm_pool_drop(pool, *got);
    kvbm_pool_drop(pool, handles[1]);
    kvbm_pool_free(pool);
}

static bool
attempt(void *arg)
{
    struct kvbm_pool *pool;
    const enum kvt_err rc = kvbm_pool_new(&pool, arg);

    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && pool == NULL));
    kvbm_pool_free(pool);
    return rc == KVT_OK;
}

static void
new_survives_every_allocation_failure(void **unused)
{
    struct kvbm_pool_options options = {.block_count = BLOCKS};

    (void)unused;
    assert_true(test_sweep_allocations(attempt, &options) > 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_outside_limits),
        cmocka_unit_test(illegal_moves_are_refused),
        cmocka_unit_test(unregistered_blocks_return_to_reset),
        cmocka_unit_test(allocation_is_all_or_none),
        cmocka_unit_test(the_coldest_goes_first),
        cmocka_unit_test(match_stops_at_the_first_hole),
        cmocka_unit_test(a_known_name_gives_back_its_block),
        cmocka_unit_test(a_duplicate_ends_with_its_last_holder),
        cmocka_unit_test(weak_handles_end_with_the_block),
        cmocka_unit_test(eviction_waits_for_holders),
        cmocka_unit_test(discarded_content_is_never_found_again),
        cmocka_unit_test(coldest_skips_what_was_set_aside),
        cmocka_unit_test(walk_shows_every_name_once),
        cmocka_unit_test(waits_end_on_time),
        cmocka_unit_test(a_discarded_child_wakes_who_waits),
        cmocka_unit_test(new_survives_every_allocation_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
