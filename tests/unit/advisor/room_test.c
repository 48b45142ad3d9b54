/*
 * What is tested: what has run out of room comes back: a store that a half-written snapshot keeps
 * full takes events again, in the same process and after a restart.
 * How: an engine with a small store and small snapshots.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/engine_private.h"
#include "base/random.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/rig.h"

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

    return advisor_engine_blocked(scene->rig.engine, text);
}

/* Blocks come until the snapshot has rows. */
static void
half_build(struct scene *scene, uint64_t *random)
{
    const struct advisor_store_log *log = &scene->rig.engine->log;

    advisor_snapshot_sizes(scene->rig.engine->snapshot, LOG_MIN, SLICE_MIN);
    for (unsigned i = 0; i < BATCHES_MAX && log->building_bytes < (uint64_t)MAP / 5; i++) {
        send_random(scene, "w", scene->seq, random);
        scene->seq += BATCH;
        advisor_engine_step(scene->rig.engine, 0);
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
        advisor_engine_step(scene->rig.engine, 0);
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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_half_snapshot_makes_room),
        cmocka_unit_test(one_of_before_a_restart_makes_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
