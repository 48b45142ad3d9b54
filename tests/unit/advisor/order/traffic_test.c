/*
 * What is tested: advisor/order/traffic.h.
 * How: cases by hand, and the hottest blocks against a count of every block.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/order/traffic.h"
#include "base/core/alloc.h"
#include "base/core/random.h"

#include "tests/support/seed.h"

enum { BLOCKS = 5000, READS = 200000 };

#define START_MS (UINT64_C(1700000000000) / ADVISOR_TRAFFIC_SLOT_MS * ADVISOR_TRAFFIC_SLOT_MS)

struct scene {
    struct kvt_metrics *metrics;
    struct advisor_traffic *tally;
    struct advisor_traffic_view view;
};

static struct scene *
scene_new(void)
{
    struct scene *scene = kvt_calloc(1, sizeof(*scene));

    assert_non_null(scene);
    assert_int_equal(kvt_metrics_new(&scene->metrics), KVT_OK);
    assert_int_equal(advisor_traffic_new(&scene->tally, scene->metrics), KVT_OK);
    return scene;
}

static void
scene_free(struct scene *scene)
{
    advisor_traffic_free(scene->tally);
    kvt_metrics_free(scene->metrics);
    kvt_free(scene);
    assert_int_equal(kvt_alloc_live(), 0);
}

static void
totals_stay_and_minutes_go(void **state)
{
    static const uint64_t reads[KVT_READ_RESULTS] = {3, 2, 1};
    static const struct advisor_traffic_moves moves = {
        .blocks = 10, .failed = 1, .bytes = 1000, .copied = 400};
    /* The first of the table, and one that nobody has. */
    static const struct advisor_traffic_flow none = {KVT_ORDER_DEMOTE, ADVISOR_TIER_KIND_FAR,
                                                     ADVISOR_TIER_KIND_HOT, false};
    const struct advisor_traffic_flow *down = &advisor_traffic_flows[0];
    struct scene *scene = scene_new();
    const struct advisor_traffic_slot *slots = scene->view.slots;
    const unsigned last = ADVISOR_TRAFFIC_SLOTS - 1;

    (void)state;
    advisor_traffic_reads(scene->tally, reads, START_MS);
    advisor_traffic_bytes(scene->tally, 1, 77, START_MS);
    advisor_traffic_moved(scene->tally, down, &moves, START_MS);
    advisor_traffic_moved(scene->tally, &none, &moves, START_MS);
    advisor_traffic_reads(scene->tally, reads, START_MS + ADVISOR_TRAFFIC_SLOT_MS - 1);
    advisor_traffic_reads(scene->tally, reads, START_MS + ADVISOR_TRAFFIC_SLOT_MS);
    advisor_traffic_look(scene->tally, START_MS + ADVISOR_TRAFFIC_SLOT_MS, &scene->view);
    assert_int_equal(scene->view.reads[0], 9);
    assert_int_equal(scene->view.reads[2], 3);
    assert_int_equal(scene->view.read_bytes[1], 77);
    assert_int_equal(slots[last].reads[0], 3);
    assert_int_equal(slots[last - 1].reads[1], 4);
    assert_int_equal(slots[last - 1].read_bytes[1], 77);
    assert_int_equal(slots[last - 1].flows[0].bytes, 1000);
    assert_int_equal(scene->view.flows[0].blocks, 10);
    assert_int_equal(slots[last - 2].reads[0], 0);
    /* An hour later nothing of it is of the last hour, though the slots are the same. */
    advisor_traffic_look(scene->tally,
                         START_MS + (ADVISOR_TRAFFIC_SLOTS + 1) * ADVISOR_TRAFFIC_SLOT_MS,
                         &scene->view);
    for (unsigned i = 0; i < ADVISOR_TRAFFIC_SLOTS; i++)
        assert_int_equal(slots[i].reads[0], 0);
    assert_int_equal(scene->view.moves[KVT_ORDER_DEMOTE].blocks, 20);
    assert_int_equal(scene->view.moves[KVT_ORDER_DEMOTE].failed, 2);
    assert_int_equal(scene->view.moves[KVT_ORDER_DEMOTE].copied, 800);
    assert_int_equal(scene->view.moves[KVT_ORDER_PROMOTE].blocks, 0);
    scene_free(scene);
}

static void
ages_fall_into_their_buckets(void **state)
{
    static const struct advisor_hot_block block = {.hash = 1, .reads = 1};
    struct scene *scene = scene_new();

    (void)state;
    advisor_traffic_block(scene->tally, &block, 0, START_MS);
    advisor_traffic_block(scene->tally, &block, 1000, START_MS);
    advisor_traffic_block(scene->tally, &block, 1001, START_MS);
    advisor_traffic_block(scene->tally, &block, UINT64_C(2592000000), START_MS);
    advisor_traffic_block(scene->tally, &block, UINT64_C(2592000001), START_MS);
    advisor_traffic_look(scene->tally, START_MS, &scene->view);
    assert_int_equal(scene->view.ages[0], 2);
    assert_int_equal(scene->view.ages[1], 1);
    assert_int_equal(scene->view.ages[ADVISOR_TRAFFIC_AGES - 1], 1);
    assert_int_equal(scene->view.ages[ADVISOR_TRAFFIC_AGES], 1);
    scene_free(scene);
}

/* Most reads go to few blocks: those are found, in their order as far as it is clear, and no count
 * is above the true one. */
static void
the_hottest_are_the_hottest(void **state)
{
    struct scene *scene = scene_new();
    uint64_t *counts = kvt_calloc(BLOCKS, sizeof(*counts));
    struct advisor_hot_block top[32];
    uint64_t random = test_seed();
    size_t count;

    (void)state;
    assert_non_null(counts);
    for (unsigned i = 0; i < READS; i++) {
        const uint64_t at = kvt_random_below(&random, 4) > 0 ? kvt_random_below(&random, 16)
                                                             : kvt_random_below(&random, BLOCKS);
        const struct advisor_hot_block block = {
            .hash = at + 1, .parent = at, .reads = 1, .ns = 7, .position = 1};

        counts[at]++;
        advisor_traffic_block(scene->tally, &block, 0, START_MS);
    }
    count = advisor_traffic_hottest(scene->tally, top, 32);
    assert_int_equal(count, 32);
    for (size_t i = 0; i < count; i++) {
        const uint64_t sure = top[i].reads - top[i].uncertain;

        assert_true(sure <= counts[top[i].hash - 1]);
        assert_true(top[i].reads >= counts[top[i].hash - 1]);
        assert_int_equal(top[i].ns, 7);
        if (i < 16)
            assert_true(top[i].hash <= 16);
        if (i > 0)
            assert_true(sure <= top[i - 1].reads - top[i - 1].uncertain);
    }
    kvt_free(counts);
    scene_free(scene);
}

static void
what_was_hot_cools_down(void **state)
{
    static const struct advisor_hot_block old = {.hash = 1, .reads = 40};
    static const struct advisor_hot_block new = {.hash = 2, .reads = 11};
    struct scene *scene = scene_new();
    struct advisor_hot_block top[4];

    (void)state;
    advisor_traffic_block(scene->tally, &old, 0, START_MS);
    advisor_traffic_block(scene->tally, &new, 0, START_MS + 2 * ADVISOR_HOT_BLOCKS_HALVE_MS);
    assert_int_equal(advisor_traffic_hottest(scene->tally, top, 4), 2);
    assert_int_equal(top[0].hash, 2);
    assert_int_equal(top[1].reads, 10);
    /* A clock that steps back or far ahead breaks nothing. */
    advisor_traffic_block(scene->tally, &new, 0, START_MS - 1);
    advisor_traffic_block(scene->tally, &new, 0, START_MS + (UINT64_C(1) << 40));
    assert_int_equal(advisor_traffic_hottest(scene->tally, top, 4), 1);
    assert_int_equal(top[0].reads, 11);
    scene_free(scene);
}

static void
nothing_happens_without_one(void **state)
{
    static const uint64_t reads[KVT_READ_RESULTS] = {1, 1, 1};
    static const struct advisor_traffic_moves moves = {.blocks = 1};
    static const struct advisor_hot_block block = {.hash = 1, .reads = 1};
    struct advisor_traffic_view view;
    struct advisor_hot_block top;

    (void)state;
    advisor_traffic_reads(NULL, reads, 1);
    advisor_traffic_bytes(NULL, 0, 1, 1);
    advisor_traffic_block(NULL, &block, 1, 1);
    advisor_traffic_moved(NULL, &advisor_traffic_flows[0], &moves, 1);
    advisor_traffic_look(NULL, 1, &view);
    assert_int_equal(view.reads[0], 0);
    assert_int_equal(advisor_traffic_hottest(NULL, &top, 1), 0);
}

static bool
make(void *arg)
{
    struct advisor_traffic *tally;
    enum kvt_err rc;

    rc = advisor_traffic_new(&tally, arg);
    if (rc != KVT_OK)
        assert_null(tally);
    advisor_traffic_free(tally);
    return rc == KVT_OK;
}

static void
it_is_made_or_not(void **state)
{
    struct scene *scene = scene_new(); /* its series are registered already */

    (void)state;
    assert_true(test_sweep_allocations(make, scene->metrics) > 0);
    scene_free(scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(totals_stay_and_minutes_go),
        cmocka_unit_test(ages_fall_into_their_buckets),
        cmocka_unit_test(the_hottest_are_the_hottest),
        cmocka_unit_test(what_was_hot_cools_down),
        cmocka_unit_test(nothing_happens_without_one),
        cmocka_unit_test(it_is_made_or_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
