/*
 * What is tested: index.durable=false: what workers hold is in memory alone, what is in G4 is not,
 * and after every start, also the first durable one, whoever may hold something is asked for it.
 * How: an engine that is stopped and started with and without it.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/store/event_log_table.h"
#include "base/core/alloc.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/rig.h"

enum { BATCHES = 200, COMMITS_MAX = 20 };

struct scene {
    char folder[256];
    struct test_rig_options options;
    struct test_rig rig;
};

static void
begin(struct scene *scene, bool volatile_places)
{
    *scene =
        (struct scene){.options = {.mode = ADVISOR_MODE_OFF, .volatile_places = volatile_places}};
    scene->options.path = test_folder_make(scene->folder, sizeof(scene->folder));
    test_rig_open(&scene->rig, &scene->options);
}

static void
restart(struct scene *scene, bool volatile_places)
{
    test_rig_close(&scene->rig);
    scene->options.volatile_places = volatile_places;
    test_rig_open(&scene->rig, &scene->options);
    test_rig_run(&scene->rig);
}

static void
end(struct scene *scene)
{
    test_rig_close(&scene->rig);
    test_folder_remove(scene->folder);
}

/* `worker` stores block `hash` in a tier, as its `seq`-th event. */
static void
store(struct scene *scene, const char *worker, uint64_t seq, uint64_t hash, enum kvt_tier tier)
{
    struct kvt_event event = {
        .type = KVT_EVENT_STORE, .sequence_hash = hash, .block_size = 9, .ranks = 1};
    struct kvt_event_batch batch = {.incarnation = 1,
                                    .first_seq = seq,
                                    .location_count = 1,
                                    .locations = {{.tier = tier, .name = "hot@gw"}},
                                    .events = &event,
                                    .event_count = 1};

    (void)snprintf(batch.worker, sizeof(batch.worker), "%s", worker);
    test_rig_batch(&scene->rig, 0, &batch);
}

static bool
is_held(struct scene *scene, uint64_t hash)
{
    uint8_t mask;

    assert_true(advisor_ram_index_whole(scene->rig.finder.memory));
    assert_int_equal(advisor_finder_masks(&scene->rig.finder, "", &hash, 1, &mask), KVT_OK);
    return mask != 0;
}

static struct advisor_publisher_view
view_of(struct scene *scene, const char *worker)
{
    struct advisor_publishers *table = advisor_round_publishers(scene->rig.engine);
    struct advisor_publisher_view view = {.state = ADVISOR_GONE};
    struct advisor_publisher_view *views;
    const size_t count = advisor_publishers_views(table, &views);
    bool found = false;

    for (size_t i = 0; i < count; i++)
        if (strcmp(views[i].row.worker, worker) == 0) {
            view = views[i];
            found = true;
        }
    kvt_free(views);
    assert_true(found);
    return view;
}

static struct advisor_store_log
log_of(struct scene *scene)
{
    struct advisor_store_log log;
    struct advisor_txn txn;

    assert_int_equal(advisor_store_read(scene->rig.store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_store_log_get(&txn, &log), KVT_OK);
    advisor_store_end(&txn);
    return log;
}

/* Answers follow at once, without a transaction for each round and without a log. */
static void
nothing_is_written_for_it(void **state)
{
    struct scene scene;
    int64_t commits;

    (void)state;
    begin(&scene, true);
    store(&scene, "w", 1, 1, KVT_TIER_G2);
    advisor_round_step(scene.rig.engine, 0); /* names are durable before they are used */
    commits = test_rig_value(scene.rig.counters.commits);
    for (uint64_t i = 2; i <= BATCHES; i++) {
        store(&scene, "w", i, i, KVT_TIER_G2);
        advisor_round_step(scene.rig.engine, 0);
        assert_true(is_held(&scene, i));
    }
    assert_in_range(test_rig_value(scene.rig.counters.commits) - commits, 0, COMMITS_MAX);
    assert_int_equal(log_of(&scene).bytes, 0);
    store(&scene, "gw", 1, 7, KVT_TIER_G4); /* a row: written at once */
    commits = test_rig_value(scene.rig.counters.commits);
    advisor_round_step(scene.rig.engine, 0);
    assert_int_equal(test_rig_value(scene.rig.counters.commits), commits + 1);
    assert_int_equal(log_of(&scene).bytes, 0);
    end(&scene);
}

static void
all_are_asked_after_a_start(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene, false);
    store(&scene, "w", 1, 1, KVT_TIER_G2);
    store(&scene, "gw", 1, 2, KVT_TIER_G4);
    test_rig_run(&scene.rig);
    assert_true(log_of(&scene).bytes > 0);
    for (int start = 0; start < 3; start++) {
        /* The first one forgets what the log has; the last one is durable, and cannot know what
         * the one before was told. */
        restart(&scene, start < 2);
        assert_int_equal(log_of(&scene).bytes, 0);
        assert_false(is_held(&scene, 1));
        assert_true(is_held(&scene, 2));
        assert_int_equal(view_of(&scene, "w").state, ADVISOR_UNCERTAIN);
        assert_int_equal(view_of(&scene, "w").row.need_dump, 1);
        assert_int_equal(view_of(&scene, "gw").row.need_dump, 1);
    }
    end(&scene);
}

/* From then on the log is kept, and the doubt is not begun again. */
static void
durable_again(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene, true);
    test_rig_run(&scene.rig);
    restart(&scene, false);
    store(&scene, "w", 1, 1, KVT_TIER_G2);
    test_rig_run(&scene.rig);
    restart(&scene, false);
    assert_true(is_held(&scene, 1));
    assert_int_equal(view_of(&scene, "w").state, ADVISOR_LIVE);
    end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_written_for_it),
        cmocka_unit_test(all_are_asked_after_a_start),
        cmocka_unit_test(durable_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
