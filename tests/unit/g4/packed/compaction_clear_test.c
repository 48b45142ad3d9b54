/*
 * What is tested: g4_compaction_remains() and g4_compaction_clear(): what is counted is there, all
 * of it goes, whichever request or allocation was the last, and nothing of anybody else.
 * How: a bucket in memory whose client dies before, or behind, each request in turn.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "g4/packed/compaction.h"

#include "tests/support/seed.h"
#include "tests/unit/g4/support/helpers.h"
#include "tests/unit/g4/support/packing.h"

enum { REQUESTS_MAX = 2000, ALLOCATIONS_MAX = 4000 };

#define FOLDER    PACKING_NAMESPACE "/.kvt/"
#define SEGMENTS  FOLDER "segment/"
#define MANIFESTS FOLDER "manifest/"
#define STRANGER  PACKING_NAMESPACE "2/.kvt/segment/stranger"

/* `allocations`: so many are served. */
static enum kvt_err
clear_within(struct packing *packing, struct memory_bucket_client *client, size_t allocations,
             uint64_t *blocks)
{
    const struct g4_lock_clock clock = memory_bucket_clock(&packing->memory);
    struct g4_store *store = memory_bucket_open(client);
    struct g4_lock *held;
    enum kvt_err rc;

    *blocks = 0;
    kvt_alloc_fail_after(allocations);
    rc = packing_lock(store, &clock, &held);
    if (rc == KVT_OK) {
        const struct g4_compaction_options options = packing_options(packing, store, held, &clock);

        rc = g4_compaction_clear(&options, blocks, NULL);
        (void)g4_lock_release(held, NULL);
    }
    kvt_alloc_fail_after(SIZE_MAX);
    g4_store_close(store);
    return rc;
}

static enum kvt_err
clear(struct packing *packing, struct memory_bucket_client *client, uint64_t *blocks)
{
    return clear_within(packing, client, SIZE_MAX, blocks);
}

/* The bucket, counted the simple way. */
static struct g4_compaction_remains
model_of(const struct packing *packing)
{
    struct g4_compaction_remains model = {0};

    for (size_t i = 0; i < packing->memory.count; i++) {
        const struct memory_bucket_object *object = &packing->memory.objects[i];

        if (strncmp(object->key, SEGMENTS, strlen(SEGMENTS)) == 0) {
            model.segments++;
            model.segment_bytes += object->size;
        } else if (strncmp(object->key, MANIFESTS, strlen(MANIFESTS)) == 0) {
            model.manifests += object->size > G4_MANIFEST_HEADER_SIZE;
        }
    }
    return model;
}

static struct g4_compaction_remains
remains_of(struct packing *packing)
{
    const struct g4_compaction_remains model = model_of(packing);
    struct g4_compaction_remains remains;

    assert_int_equal(g4_compaction_remains(packing->store, PACKING_NAMESPACE, &remains, NULL),
                     KVT_OK);
    assert_int_equal(remains.segments, model.segments);
    assert_int_equal(remains.segment_bytes, model.segment_bytes);
    assert_int_equal(remains.manifests, model.manifests);
    return remains;
}

/* Objects of blocks that are not packed are no affair of the packer's. */
static size_t
blocks_of(const struct packing *packing)
{
    size_t count = 0;

    for (size_t i = 0; i < packing->memory.count; i++)
        count += packing_block(packing->memory.objects[i].key) < PACKING_BLOCKS;
    return count;
}

static struct packing *
prepared(uint64_t seed)
{
    struct packing *packing = packing_new(seed);

    packing_prepare(packing);
    assert_int_equal(put_absent(packing->store, STRANGER, "x", 1, NULL), KVT_OK);
    return packing;
}

static void
finish(struct packing *packing, size_t blocks)
{
    struct memory_bucket_client client = {.memory = &packing->memory};
    struct g4_compaction_remains remains;
    uint64_t cleared;

    packing_sleep(packing);
    assert_int_equal(clear(packing, &client, &cleared), KVT_OK);
    remains = remains_of(packing);
    assert_int_equal(remains.segments, 0);
    assert_int_equal(remains.manifests, 0);
    assert_non_null(memory_bucket_find(&packing->memory, STRANGER));
    assert_int_equal(blocks_of(packing), blocks);
    assert_int_equal(clear(packing, &client, &cleared), KVT_OK);
    assert_int_equal(cleared, 0);
}

static void
all_of_it_is_counted_and_goes(void **state)
{
    struct packing *packing = prepared(test_seed());
    const size_t blocks = blocks_of(packing);
    struct memory_bucket_client client = {.memory = &packing->memory};
    struct g4_compaction_remains remains = remains_of(packing);
    uint64_t cleared;

    (void)state;
    assert_true(remains.segments > 0 && remains.manifests > 0);
    assert_int_equal(clear(packing, &client, &cleared), KVT_OK);
    assert_int_equal(cleared, PACKING_BLOCKS / 2 - PACKING_BLOCKS / 6);
    finish(packing, blocks);
    /* The namespace is packed again as ever. */
    for (unsigned i = 0; i < PACKING_BLOCKS; i++) {
        if (packing->truth[i] == PACKING_STORED && i < PACKING_BLOCKS / 2)
            packing->truth[i] = PACKING_ABSENT;
    }
    packing_settle(packing);
    packing_check(packing);
    packing_free(packing);
}

static void
one_that_was_killed_is_finished_by_the_next(void **state)
{
    static const enum memory_bucket_death deaths[] = {
        MEMORY_BUCKET_DIES_BEFORE, MEMORY_BUCKET_DIES_AFTER, MEMORY_BUCKET_STUMBLES};
    const uint64_t seed = test_seed();

    (void)state;
    for (size_t d = 0; d < sizeof(deaths) / sizeof(deaths[0]); d++) {
        bool through = false;

        for (uint64_t n = 1 + seed % TEST_LONG_SHARE; n < REQUESTS_MAX && !through;
             n += TEST_LONG_SHARE) {
            struct packing *packing = prepared(seed);
            const size_t blocks = blocks_of(packing);
            struct memory_bucket_client client = {
                .memory = &packing->memory, .at = n, .death = deaths[d]};
            uint64_t cleared;
            const enum kvt_err rc = clear(packing, &client, &cleared);

            through = client.calls < n;
            if (through)
                assert_int_equal(rc, KVT_OK);
            (void)remains_of(packing);
            finish(packing, blocks);
            packing_free(packing);
        }
        assert_true(through);
    }
}

/* Who holds the lock alone may. */
static void
without_the_lock_nothing_goes(void **state)
{
    struct packing *packing = prepared(test_seed());
    const struct g4_lock_clock clock = memory_bucket_clock(&packing->memory);
    const struct g4_compaction_remains before = remains_of(packing);
    struct memory_bucket_client client = {.memory = &packing->memory};
    struct g4_compaction_remains after;
    struct g4_lock *held;
    uint64_t cleared;

    (void)state;
    assert_int_equal(packing_lock(packing->store, &clock, &held), KVT_OK);
    assert_int_equal(clear(packing, &client, &cleared), KVT_BUSY);
    after = remains_of(packing);
    assert_int_equal(after.segments, before.segments);
    assert_int_equal(after.manifests, before.manifests);
    (void)g4_lock_release(held, NULL);
    finish(packing, blocks_of(packing));
    packing_free(packing);
}

static void
memory_that_runs_out_is_told(void **state)
{
    uint64_t random = test_seed();
    const uint64_t seed = random;
    size_t failed = 0;
    bool through = false;

    (void)state;
    for (size_t n = 0; n < ALLOCATIONS_MAX && !through;
         n += 1 + (size_t)kvt_random_below(&random, 7)) {
        struct packing *packing = prepared(seed);
        const size_t blocks = blocks_of(packing);
        struct memory_bucket_client client = {.memory = &packing->memory};
        uint64_t cleared;
        enum kvt_err rc;

        rc = clear_within(packing, &client, n, &cleared);
        through = rc == KVT_OK;
        failed += !through;
        finish(packing, blocks);
        packing_free(packing);
    }
    assert_true(through && failed > 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it_is_counted_and_goes),
        cmocka_unit_test(one_that_was_killed_is_finished_by_the_next),
        cmocka_unit_test(without_the_lock_nothing_goes),
        cmocka_unit_test(memory_that_runs_out_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
