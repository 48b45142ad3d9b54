/*
 * What is tested: index/index.h: totals of a large subtree, while writers go on.
 * How: a stem with more children than a step takes, counted exactly; the same while another thread
 * stores, which must not wait until it is over.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/core/alloc.h"
#include "index/index.h"

#include "tests/support/seed.h"

enum { CHILDREN = 60000, STEM = 3, LEAVES = 2, STORED_LEAST = 6, ROUNDS = 20, TOP = 10 };

struct scene {
    struct index *index;
    uint32_t ns;
    uint32_t holder;
    _Atomic bool over;
    _Atomic uint64_t stored;
};

static void
store(const struct scene *scene, uint64_t parent, uint32_t position, uint64_t first, uint32_t count)
{
    uint64_t hashes[STEM + LEAVES];
    struct index_change change = {.hashes = hashes,
                                  .parent = parent,
                                  .size = 100,
                                  .position = position,
                                  .count = count,
                                  .ns = scene->ns,
                                  .holder = scene->holder,
                                  .ranks = 1,
                                  .kind = INDEX_STORE};

    for (uint32_t i = 0; i < count; i++)
        hashes[i] = first + i;
    index_apply(scene->index, &change, 1);
    assert_int_equal(change.status, KVT_OK);
}

/* Two thirds of the children hang on the stem's end, the others on the block before. */
static void
begin(struct scene *scene)
{
    const struct index_holder holder = {.name = "w", .tier = KVT_TIER_G2};

    memset(scene, 0, sizeof(*scene));
    assert_int_equal(index_new(&scene->index, UINT64_C(256) << 20), KVT_OK);
    assert_int_equal(index_namespace(scene->index, "ns", &scene->ns), KVT_OK);
    assert_int_equal(index_holder(scene->index, &holder, &scene->holder), KVT_OK);
    store(scene, 0, 0, TOP, STEM);
    for (uint32_t i = 0; i < CHILDREN; i++)
        store(scene, TOP + (i % 3 == 0 ? 1 : 2), i % 3 == 0 ? 2 : 3, 1000 + i * LEAVES, LEAVES);
}

static void
every_child_is_counted_once(void **state)
{
    struct index_totals totals;
    struct scene scene;

    (void)state;
    begin(&scene);
    for (uint64_t top = 0; top < 2; top++) {
        assert_int_equal(index_subtree(scene.index, scene.ns, TOP + top, UINT64_MAX, NULL, &totals),
                         KVT_OK);
        assert_int_equal(totals.blocks, STEM - top + (uint64_t)CHILDREN * LEAVES);
        assert_int_equal(totals.places, totals.blocks);
        assert_int_equal(totals.tier_bytes[KVT_TIER_G2], totals.blocks * 100);
    }
    assert_int_equal(index_subtree(scene.index, scene.ns, TOP + 2, UINT64_MAX, NULL, &totals),
                     KVT_OK);
    assert_int_equal(totals.blocks, 1 + (uint64_t)CHILDREN / 3 * 2 * LEAVES);
    assert_int_equal(index_subtree(scene.index, scene.ns, TOP, 5000, NULL, &totals), KVT_FULL);
    assert_true(totals.blocks > 5000 && totals.blocks < 6000);
    assert_int_equal(index_subtree(scene.index, scene.ns, 9, UINT64_MAX, NULL, &totals),
                     KVT_NOTFOUND);
    index_free(scene.index);
}

/* Somewhere else, and not so often that it keeps the lock from others itself. */
static void *
write_on(void *arg)
{
    const struct timespec nap = {.tv_nsec = 50000};
    struct scene *scene = arg;

    for (uint64_t i = 0; !atomic_load(&scene->over); i++) {
        store(scene, 0, 0, UINT64_C(1) << 40 | i % 1000, 1);
        atomic_fetch_add(&scene->stored, 1);
        (void)nanosleep(&nap, NULL);
    }
    return NULL;
}

static void
writers_go_on_meanwhile(void **state)
{
    int served = 0;
    struct scene scene;
    pthread_t writer;

    (void)state;
    begin(&scene);
    assert_int_equal(pthread_create(&writer, NULL, write_on, &scene), 0);
    while (atomic_load(&scene.stored) == 0) {
    }
    for (int round = 0; round < ROUNDS; round++) {
        struct index_totals totals;
        const uint64_t before = atomic_load(&scene.stored);
        uint64_t during;

        assert_int_equal(index_subtree(scene.index, scene.ns, TOP, UINT64_MAX, NULL, &totals),
                         KVT_OK);
        during = atomic_load(&scene.stored) - before;
        assert_int_equal(totals.blocks, STEM + (uint64_t)CHILDREN * LEAVES);
        served += during >= STORED_LEAST;
    }
    atomic_store(&scene.over, true);
    assert_int_equal(pthread_join(writer, NULL), 0);
    print_message("stores went on in %d of %d rounds\n", served, ROUNDS);
    assert_true(served > ROUNDS / 2);
    index_free(scene.index);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_child_is_counted_once),
        cmocka_unit_test(writers_go_on_meanwhile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
