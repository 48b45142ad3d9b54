/*
 * What is tested: what has run out of room comes back: a store that a half-written snapshot keeps
 * full takes events again, in the same process and after a restart; and what RAM refuses does
 * not cost the rest its place there, nor is it there after a restart.
 * How: an engine with a small store and small snapshots.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/index/shape_limits.h"
#include "advisor/round/round_private.h"
#include "base/core/random.h"
#include "index/holder/shards.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/rig.h"

enum {
    BATCH = 2000,
    BATCHES_MAX = 300,
    MAP = 6 << 20,
    LOG_MIN = 2700 << 10,
    SLICE_MIN = 64 << 10,
};

struct scene {
    char folder[256];
    struct test_rig_options options;
    struct test_rig rig;
    uint64_t seq;
};

static void
begin(struct scene *scene, const struct test_rig_options *options)
{
    *scene = (struct scene){.options = *options, .seq = 1};
    scene->options.mode = ADVISOR_MODE_OFF;
    scene->options.path = test_folder_make(scene->folder, sizeof(scene->folder));
    test_rig_open(&scene->rig, &scene->options);
}

static void
end(struct scene *scene)
{
    test_rig_close(&scene->rig);
    test_folder_remove(scene->folder);
}

static void
send(struct scene *scene, const char *worker, uint64_t seq, struct kvt_event *events,
     uint32_t count)
{
    struct kvt_event_batch batch = {.incarnation = 1,
                                    .first_seq = seq,
                                    .location_count = 1,
                                    .locations = {{.tier = KVT_TIER_G2}},
                                    .events = events,
                                    .event_count = count};

    (void)snprintf(batch.worker, sizeof(batch.worker), "%s", worker);
    test_rig_batch(&scene->rig, 0, &batch);
}

/* ---- a store that is full ---- */

static void
send_random(struct scene *scene, const char *worker, uint64_t seq, uint64_t *random)
{
    static struct kvt_event events[BATCH];

    for (uint32_t i = 0; i < BATCH; i++)
        events[i] = (struct kvt_event){.type = KVT_EVENT_STORE,
                                       .sequence_hash = kvt_random_next(random) | 1,
                                       .block_size = 9,
                                       .ranks = 1};
    send(scene, worker, seq, events, BATCH);
}

static bool
is_blocked(struct scene *scene)
{
    char text[KVT_ERROR_TEXT_MAX];

    return advisor_round_blocked(scene->rig.engine, text);
}

/* Blocks come until the snapshot has rows. */
static void
half_build(struct scene *scene, uint64_t *random)
{
    const struct advisor_store_log *log = &scene->rig.engine->log;

    advisor_ram_snapshot_sizes(scene->rig.engine->snapshot, LOG_MIN, SLICE_MIN);
    for (unsigned i = 0; i < BATCHES_MAX && log->building_bytes < (uint64_t)MAP / 5; i++) {
        send_random(scene, "w", scene->seq, random);
        scene->seq += BATCH;
        advisor_round_step(scene->rig.engine, 0);
    }
    assert_false(is_blocked(scene));
    assert_int_not_equal(log->building, 0);
    assert_int_not_equal(log->building_rows, 0);
}

/* Blocks come until a group does not fit beside the snapshot; it fits in its place. */
static void
fill(struct scene *scene, const char *worker, uint64_t seq, uint64_t *random)
{
    const struct advisor_store_log *log = &scene->rig.engine->log;

    for (unsigned i = 0; i < BATCHES_MAX && log->building != 0 && !is_blocked(scene); i++) {
        send_random(scene, worker, seq, random);
        seq += BATCH;
        advisor_round_step(scene->rig.engine, 0);
    }
    assert_false(is_blocked(scene));
    assert_int_equal(log->building, 0);
    assert_int_equal(log->building_bytes, 0);
    assert_int_equal(log->whole, 0);
}

static void
a_half_snapshot_makes_room(void **state)
{
    uint64_t random = test_seed();
    struct scene scene;

    (void)state;
    begin(&scene, &(struct test_rig_options){.map_bytes = MAP});
    half_build(&scene, &random);
    fill(&scene, "w", scene.seq, &random);
    end(&scene);
}

static void
one_of_before_a_restart_makes_room(void **state)
{
    uint64_t random = test_seed();
    struct scene scene;

    (void)state;
    begin(&scene, &(struct test_rig_options){.map_bytes = MAP});
    half_build(&scene, &random);
    test_rig_close(&scene.rig);
    test_rig_open(&scene.rig, &scene.options);
    assert_int_not_equal(scene.rig.engine->log.building, 0);
    fill(&scene, "v", 1, &random);
    end(&scene);
}

/* ---- RAM that is full ---- */

static bool is_whole(struct scene *scene);
static uint64_t block_count(struct scene *scene);

static void
try_to_recover(struct scene *scene)
{
    advisor_round_step(scene->rig.engine, 0); /* it sets the time */
    scene->rig.engine->recover_at_ms = 0;
    advisor_round_step(scene->rig.engine, 0);
}

static void
what_is_no_copy_is_read_again(void **state)
{
    uint64_t random = test_seed();
    uint64_t hash = 99;
    struct kvt_event last = {
        .type = KVT_EVENT_STORE, .sequence_hash = hash, .block_size = 9, .ranks = 1};
    struct index_holder key = {.name = "v", .tier = KVT_TIER_G2};
    struct advisor_publisher *publisher;
    struct scene scene;
    uint32_t holder;

    (void)state;
    begin(&scene, &(struct test_rig_options){.map_bytes = 64 << 20});
    send_random(&scene, "w", 1, &random);
    send(&scene, "v", 1, &last, 1);
    test_rig_run(&scene.rig);
    assert_int_equal(index_holder(scene.rig.index, &key, &holder), KVT_OK);
    assert_int_equal(index_remove(scene.rig.index, 0, holder, hash, 1), KVT_OK);
    atomic_store(&scene.rig.finder.memory->spilled, true);
    assert_int_equal(block_count(&scene), BATCH);
    advisor_round_step(scene.rig.engine, 0);
    assert_false(is_whole(&scene)); /* it is not tried at once */
    publisher = advisor_publishers_at(scene.rig.engine->publishers, 0);
    publisher->doubt_ms = 1;
    try_to_recover(&scene);
    assert_true(is_whole(&scene));
    assert_true(publisher->doubt_ms > 1); /* the time it took is not held against who was asked */
    assert_int_equal(block_count(&scene), BATCH + 1);
    last.sequence_hash++;
    send(&scene, "v", 2, &last, 1);
    test_rig_run(&scene.rig);
    assert_int_equal(block_count(&scene), BATCH + 2);
    end(&scene);
}

/* What cannot be whole any more is not read to its end. */
static void
read_in_vain(struct scene *scene)
{
    struct advisor_index_load_progress progress = {.bytes_done = 0};
    struct advisor_ram_index fresh = {.quiet = true};
    struct advisor_name_table *names;
    struct advisor_txn txn;

    assert_int_equal(index_new(&fresh.index, 11 << 18), KVT_OK); /* the smallest there is */
    assert_int_equal(advisor_name_table_new(&names, fresh.index, INDEX_HOLDERS_MAX), KVT_OK);
    fresh.names = names;
    assert_int_equal(advisor_store_read(scene->rig.store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_name_table_load(names, &txn), KVT_OK);
    assert_int_equal(advisor_index_load_parts(&fresh, &txn, 64, &progress, NULL), KVT_FULL);
    assert_true(progress.bytes_done < progress.bytes_total);
    advisor_store_end(&txn);
    advisor_ram_index_release(&fresh);
    advisor_name_table_free(names);
    index_free(fresh.index);
}

static void
what_does_not_fit_stays_on_disk(void **state)
{
    uint64_t random = test_seed();
    struct scene scene;

    (void)state;
    begin(&scene, &(struct test_rig_options){.map_bytes = 64 << 20, .index_bytes = 8 << 20});
    for (uint64_t seq = 1; seq < (uint64_t)BATCH * BATCHES_MAX && is_whole(&scene); seq += BATCH) {
        send_random(&scene, "w", seq, &random);
        test_rig_run(&scene.rig);
    }
    assert_false(is_whole(&scene));
    try_to_recover(&scene);
    assert_false(is_whole(&scene));
    read_in_vain(&scene);
    end(&scene);
}

static void
send_bye(struct scene *scene, const char *worker, uint64_t seq)
{
    struct kvt_event bye = {.type = KVT_EVENT_BYE, .ranks = 1};

    send(scene, worker, seq, &bye, 1);
    test_rig_run(&scene->rig);
}

/* It is read once there is room, not again and again before; and then all of it is there, also what
 * came when it did not fit. */
static void
what_did_not_fit_comes_back(void **state)
{
    uint64_t random = test_seed();
    uint64_t seq = 1;
    uint64_t kept;
    uint64_t wait_ms;
    struct scene scene;

    (void)state;
    begin(&scene, &(struct test_rig_options){.map_bytes = 128 << 20, .index_bytes = 8 << 20});
    for (; is_whole(&scene); seq += BATCH) {
        assert_true(seq < (uint64_t)BATCH * BATCHES_MAX);
        send_random(&scene, seq % (2 * BATCH) == 1 ? "v" : "w", 1 + seq / 2 / BATCH * BATCH,
                    &random);
        test_rig_run(&scene.rig);
    }
    advisor_round_step(scene.rig.engine, 0);
    wait_ms = scene.rig.engine->recover_after_ms;
    assert_true(wait_ms > 0);
    for (int i = 0; i < 3; i++)
        try_to_recover(&scene);
    assert_int_equal(scene.rig.engine->recover_after_ms, wait_ms); /* there is no room */
    kept = (seq - 1) / BATCH / 2 * BATCH;
    send_random(&scene, "w", kept + 1, &random);
    kept += BATCH;
    send_bye(&scene, "v", 1 + ((seq - 1) / BATCH + 1) / 2 * BATCH);
    try_to_recover(&scene);
    assert_true(is_whole(&scene));
    assert_int_equal(block_count(&scene), kept);
    advisor_round_step(scene.rig.engine, 0);
    assert_int_equal(scene.rig.engine->recover_after_ms, 0);
    end(&scene);
}

/* ---- bitmaps of shards ---- */

static void
store_masks(struct scene *scene, uint32_t first_ranks, uint32_t count)
{
    static struct kvt_event events[BATCH];

    assert_true(count <= BATCH);
    for (uint32_t i = 0; i < count; i++)
        events[i] = (struct kvt_event){.type = KVT_EVENT_STORE,
                                       .sequence_hash = scene->seq + i,
                                       .block_size = 9,
                                       .ranks = first_ranks + i};
    send(scene, "w", scene->seq, events, count);
    scene->seq += count;
    test_rig_run(&scene->rig);
}

static uint64_t
block_count(struct scene *scene)
{
    struct index_stats stats;

    index_stats(scene->rig.index, &stats);
    return stats.blocks;
}

static bool
is_whole(struct scene *scene)
{
    return advisor_ram_index_whole(scene->rig.finder.memory);
}

static void
one_publisher_cannot_use_up_all_bitmaps(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene, &(struct test_rig_options){.map_bytes = 64 << 20});
    for (uint32_t i = 0; i < 5; i++)
        store_masks(&scene, 1 + i * 1000, 1000);
    assert_true(is_whole(&scene));
    assert_int_equal(block_count(&scene), ADVISOR_SHAPE_LIMITS_RANKS);
    assert_int_equal(test_rig_value(scene.rig.counters.refused), 5000 - ADVISOR_SHAPE_LIMITS_RANKS);
    assert_int_equal(test_rig_value(scene.rig.counters.uncertain), 0);
    store_masks(&scene, 1, 2); /* those it has said before are taken */
    assert_int_equal(block_count(&scene), ADVISOR_SHAPE_LIMITS_RANKS + 2);
    test_rig_close(&scene.rig);
    test_rig_open(&scene.rig, &scene.options);
    test_rig_run(&scene.rig);
    assert_true(is_whole(&scene));
    assert_int_equal(block_count(&scene), ADVISOR_SHAPE_LIMITS_RANKS + 2);
    end(&scene);
}

/* What is left of a block makes bitmaps too. */
static void
what_is_left_without_a_bitmap_goes(void **state)
{
    enum { BLOCKS = 6000 };
    static struct kvt_event events[BLOCKS];
    struct index_holder key = {.name = "w", .tier = KVT_TIER_G2};
    struct scene scene;
    uint64_t held;
    uint32_t holder;

    (void)state;
    begin(&scene, &(struct test_rig_options){.map_bytes = 64 << 20});
    for (uint32_t i = 0; i < BLOCKS; i++)
        events[i] = (struct kvt_event){
            .type = KVT_EVENT_STORE, .sequence_hash = i + 1, .block_size = 9, .ranks = UINT32_MAX};
    for (uint32_t i = 0; i < BLOCKS; i += BATCH)
        send(&scene, "w", 1 + i, events + i, BATCH);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        events[i].type = KVT_EVENT_REMOVE;
        events[i].ranks = i + 1;
    }
    for (uint32_t i = 0; i < BLOCKS; i += BATCH)
        send(&scene, "w", 1 + BLOCKS + i, events + i, BATCH);
    test_rig_run(&scene.rig);
    assert_true(is_whole(&scene));
    assert_int_equal(block_count(&scene), INDEX_SHARDS_MAX - 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(index_holder(scene.rig.index, &key, &holder), KVT_OK);
        index_holder_info(scene.rig.index, holder, NULL, &held, NULL);
        assert_int_equal(held, INDEX_SHARDS_MAX - 1);
        test_rig_close(&scene.rig);
        test_rig_open(&scene.rig, &scene.options);
        test_rig_run(&scene.rig);
        assert_true(is_whole(&scene));
    }
    end(&scene);
}

/* ---- collisions ---- */

static void
send_one(struct scene *scene, const char *worker, uint64_t seq, enum kvt_event_type type,
         uint64_t hash, uint64_t parent)
{
    struct kvt_event event = {.type = type,
                              .sequence_hash = hash,
                              .parent = parent,
                              .position = parent == 0 ? 0 : 1,
                              .block_size = 9,
                              .ranks = 1};

    send(scene, worker, seq, &event, 1);
    advisor_round_step(scene->rig.engine, 0);
}

static bool
is_held(struct scene *scene, uint64_t hash)
{
    uint8_t mask;

    assert_int_equal(advisor_finder_masks(&scene->rig.finder, "", &hash, 1, &mask), KVT_OK);
    return mask != 0;
}

/* A slice that is younger than a collision does not let a restart accept what was refused. */
static void
a_collision_stays_refused(void **state)
{
    uint64_t random = test_seed();
    struct scene scene;

    (void)state;
    begin(&scene, &(struct test_rig_options){.map_bytes = 64 << 20});
    send_random(&scene, "filler", 1, &random); /* slices come before the block */
    test_rig_run(&scene.rig);
    send_one(&scene, "a", 1, KVT_EVENT_STORE, 77, 1);
    advisor_ram_snapshot_sizes(scene.rig.engine->snapshot, 1, 1);
    send_one(&scene, "c", 1, KVT_EVENT_STORE, 5, 0);
    assert_int_not_equal(scene.rig.engine->log.building, 0);
    send_one(&scene, "b", 1, KVT_EVENT_STORE, 77, 2);
    send_one(&scene, "a", 2, KVT_EVENT_REMOVE, 77, 0);
    assert_int_not_equal(scene.rig.engine->log.building, 0);
    advisor_ram_snapshot_sizes(scene.rig.engine->snapshot, 1u << 30, 1);
    test_rig_run(&scene.rig);
    assert_int_not_equal(scene.rig.engine->log.whole, 0);
    assert_int_equal(test_rig_value(scene.rig.counters.collisions), 1);
    assert_false(is_held(&scene, 77));
    test_rig_close(&scene.rig);
    test_rig_open(&scene.rig, &scene.options);
    test_rig_run(&scene.rig);
    assert_false(is_held(&scene, 77));
    assert_true(is_held(&scene, 5));
    end(&scene);
}

/* A block whose parent is not known does not go on behind a block whose hash is 0. */
static void
an_unknown_parent_is_not_a_hash(void **state)
{
    struct kvt_event events[2] = {
        {.type = KVT_EVENT_STORE, .sequence_hash = 0, .block_size = 9, .ranks = 1},
        {.type = KVT_EVENT_STORE, .sequence_hash = 3, .position = 1, .block_size = 9, .ranks = 1},
    };
    struct index_totals totals;
    struct scene scene;

    (void)state;
    begin(&scene, &(struct test_rig_options){.map_bytes = 64 << 20});
    send(&scene, "w", 1, events, 2);
    test_rig_run(&scene.rig);
    assert_int_equal(block_count(&scene), 2);
    assert_int_equal(index_subtree(scene.rig.index, 0, 0, 10, NULL, &totals), KVT_OK);
    assert_int_equal(totals.blocks, 1);
    end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_half_snapshot_makes_room),
        cmocka_unit_test(one_of_before_a_restart_makes_room),
        cmocka_unit_test(what_is_no_copy_is_read_again),
        cmocka_unit_test(what_does_not_fit_stays_on_disk),
        cmocka_unit_test(what_did_not_fit_comes_back),
        cmocka_unit_test(one_publisher_cannot_use_up_all_bitmaps),
        cmocka_unit_test(what_is_left_without_a_bitmap_goes),
        cmocka_unit_test(a_collision_stays_refused),
        cmocka_unit_test(an_unknown_parent_is_not_a_hash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
