/*
 * What is tested: a block of another system's worker is named by its parent's position, wherever
 * the parent is: in RAM, read again after a start, or evicted from RAM.
 * How: a chain whose parents are known by their place in the index alone.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/index/evicted.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/foreign_cluster.h"
#include "tests/unit/advisor/support/rig.h"

enum { MESSAGE_MAX = 1u << 16, EVENTS = 1000, BATCHES_MAX = 200, LATER_MS = 5000, PARENTS = 6 };

static const struct advisor_source_ops dynamo = {.name = "dynamo-test",
                                                 .dialect = WIRE_DIALECT_DYNAMO,
                                                 .open = test_rig_source_open,
                                                 .close = test_rig_source_close};

struct scene {
    char folder[256];
    struct test_rig_options options;
    struct test_rig rig;
    uint64_t id;
};

static void
begin(struct scene *scene)
{
    *scene = (struct scene){.options = {.mode = ADVISOR_MODE_OFF,
                                        .index_bytes = 1u << 20,
                                        .cold_bytes = 1u << 20,
                                        .foreign = &dynamo,
                                        .kept = true}};
    scene->options.path = test_folder_make(scene->folder, sizeof(scene->folder));
    test_rig_open(&scene->rig, &scene->options);
}

static void
end(struct scene *scene)
{
    test_rig_close(&scene->rig);
    test_folder_remove(scene->folder);
}

/* Worker 0 stores blocks of chain 0; its engine's hashes are the names, so no row has them. */
static void
store(struct scene *scene, uint32_t depth, uint32_t count)
{
    const struct test_router_head head = {.tier = KVT_TIER_G1, .id = scene->id++};
    const struct test_router_blocks blocks = {.depth = depth, .count = count};
    struct kvt_buffer bytes;

    kvt_buffer_init(&bytes, MESSAGE_MAX);
    test_router_store(&bytes, &head, &blocks);
    test_rig_foreign(&scene->rig, head.id + 1, UINT64_MAX, &bytes);
    kvt_buffer_release(&bytes);
    test_rig_run(&scene->rig);
}

static bool
in_ram(const struct scene *scene, uint64_t hash)
{
    struct index_view view;
    uint32_t ns;

    assert_int_equal(index_namespace_find(scene->rig.index, "ns0", &ns), KVT_OK);
    return index_get(scene->rig.index, ns, hash, &view) == KVT_OK;
}

/* Others store until the chain's last block has no room any more. */
static void
evict(struct scene *scene)
{
    struct kvt_event *events = kvt_calloc(EVENTS, sizeof(*events));
    struct kvt_event_batch batch = {.worker = "w",
                                    .namespace_ = "ns0",
                                    .incarnation = 1,
                                    .first_seq = 1,
                                    .time_ms = kvt_clock_unix_ms() + LATER_MS,
                                    .location_count = 1,
                                    .locations = {{.tier = KVT_TIER_G2, .name = "host"}},
                                    .events = events,
                                    .event_count = EVENTS};
    uint32_t sent = 0;

    assert_non_null(events);
    while (in_ram(scene, test_router_name(0, PARENTS - 1))) {
        assert_true(sent++ < BATCHES_MAX);
        for (uint64_t i = 0; i < EVENTS; i++)
            events[i] = (struct kvt_event){.type = KVT_EVENT_STORE,
                                           .sequence_hash = batch.first_seq + i,
                                           .block_size = 1,
                                           .ranks = 1};
        test_rig_batch(&scene->rig, 0, &batch);
        test_rig_run(&scene->rig);
        batch.first_seq += EVENTS;
    }
    kvt_free(events);
}

static void
assert_named(struct scene *scene, uint32_t depth)
{
    struct advisor_finder_block *block = kvt_calloc(1, sizeof(*block));

    assert_non_null(block);
    assert_int_equal(
        advisor_finder_block(&scene->rig.finder, "ns0", test_router_name(0, depth), block), KVT_OK);
    assert_int_equal(block->id.position, depth);
    assert_int_equal(block->place_count, 1);
    kvt_free(block);
}

static void
wherever_the_parent_is(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    store(&scene, 0, PARENTS - 1);
    test_rig_close(&scene.rig);
    test_rig_open(&scene.rig, &scene.options); /* what was met of late is forgotten */
    store(&scene, PARENTS - 1, 1);
    assert_named(&scene, PARENTS - 1);
    evict(&scene);
    assert_true(advisor_ram_index_whole(scene.rig.finder.memory));
    test_rig_close(&scene.rig);
    test_rig_open(&scene.rig, &scene.options);
    assert_false(in_ram(&scene, test_router_name(0, PARENTS - 1)));
    store(&scene, PARENTS, 1);
    assert_named(&scene, PARENTS);
    assert_named(&scene, PARENTS - 1); /* it is still there, too */
    end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(wherever_the_parent_is)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
