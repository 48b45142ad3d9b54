/*
 * What is tested: what an engine makes of all that a cluster keeps of its workers
 * (ADVISOR_INBOX_ITEM_HOLDS, ADVISOR_INBOX_ITEM_HELD) in front of a stream. They are certain,
 * whatever number is next, and nobody is asked; also when the program ends anywhere between.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/answer/finder.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/foreign_cluster.h"
#include "tests/unit/advisor/support/foreign_scene.h"

enum { CREATED_MS = 77, FIRST_SEQ = 500 };

static void
push(struct test_scene *scene, enum advisor_inbox_item_kind kind)
{
    struct advisor_inbox_item *item;

    assert_int_equal(
        advisor_inbox_item_new(&item, kind, "stream", scene->bytes.data, scene->bytes.size),
        KVT_OK);
    if (kind == ADVISOR_INBOX_ITEM_START) {
        item->stream_seq = FIRST_SEQ;
        item->created_ms = CREATED_MS;
    }
    test_rig_foreign_item(&scene->rig, item);
    test_rig_run(&scene->rig);
    kvt_buffer_clear(&scene->bytes);
}

/* Two blocks of a chain, from `depth` on. */
static void
store(struct test_scene *scene, uint64_t worker, uint32_t depth, uint64_t id)
{
    const struct test_router_head head = {.worker = worker, .tier = KVT_TIER_G1, .id = id};
    const struct test_router_blocks blocks = {.chain = 1, .depth = depth, .count = 2};

    test_router_store(&scene->bytes, &head, &blocks);
}

static void
hold(struct test_scene *scene, uint64_t worker)
{
    store(scene, worker, 0, 0);
    push(scene, ADVISOR_INBOX_ITEM_HOLDS);
}

static void
say(struct test_scene *scene, uint64_t seq, uint64_t worker, uint64_t id)
{
    store(scene, worker, 2, id);
    test_rig_foreign(&scene->rig, seq, UINT64_MAX, &scene->bytes);
    test_rig_run(&scene->rig);
    kvt_buffer_clear(&scene->bytes);
}

/* Of the chain's first `depth` blocks: how many workers have all, and are certain. */
static size_t
certain(const struct test_scene *scene, uint32_t depth)
{
    const struct advisor_finder finder = {.memory = scene->rig.finder.memory,
                                          .store = scene->rig.finder.store,
                                          .publishers =
                                              advisor_round_publishers(scene->rig.engine)};
    uint64_t hashes[] = {test_router_name(1, 0), test_router_name(1, 1), test_router_name(1, 2),
                         test_router_name(1, 3)};
    const struct wire_query query = {.namespace_ = "ns0", .hashes = hashes, .hash_count = depth};
    struct wire_query_holder holders[8];
    size_t sure = 0;
    size_t count;

    assert_int_equal(advisor_finder_matches(&finder, &query, holders, 8, &count), KVT_OK);
    for (size_t i = 0; i < count; i++)
        sure += !holders[i].uncertain && holders[i].blocks == depth ? 1 : 0;
    return sure;
}

static void
who_was_told_is_certain(void **state)
{
    struct test_scene scene;

    (void)state;
    test_scene_begin(&scene, &test_scene_dynamo, true);
    hold(&scene, 1);
    assert_int_equal(certain(&scene, 2), 0); /* it may not be all yet */
    hold(&scene, 2);
    push(&scene, ADVISOR_INBOX_ITEM_HELD);
    push(&scene, ADVISOR_INBOX_ITEM_START);
    assert_int_equal(certain(&scene, 2), 2);
    say(&scene, FIRST_SEQ + 1, 1, 4711); /* as it comes, the first time */
    assert_int_equal(certain(&scene, 4), 1);
    test_scene_restart(&scene);
    test_rig_run(&scene.rig);
    say(&scene, FIRST_SEQ + 2, 2, 815); /* also behind a restart */
    assert_int_equal(certain(&scene, 4), 2);
    say(&scene, FIRST_SEQ + 3, 2, 817); /* but not the second time */
    assert_int_equal(certain(&scene, 4), 1);
    test_scene_end(&scene);
}

static void
half_of_it_is_told_again(void **state)
{
    struct test_scene scene;

    (void)state;
    test_scene_begin(&scene, &test_scene_dynamo, true);
    hold(&scene, 1);
    test_scene_restart(&scene);
    test_rig_run(&scene.rig); /* nobody can be asked: it is given up */
    assert_int_equal(certain(&scene, 2), 0);
    hold(&scene, 1);
    push(&scene, ADVISOR_INBOX_ITEM_HELD);
    push(&scene, ADVISOR_INBOX_ITEM_START);
    assert_int_equal(certain(&scene, 2), 1);
    say(&scene, FIRST_SEQ + 1, 1, 4711);
    assert_int_equal(certain(&scene, 4), 1);
    test_scene_end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_was_told_is_certain),
        cmocka_unit_test(half_of_it_is_told_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
