/*
 * What is tested: advisor/index/sweeper.h: every sweep ends after as many steps as there are rows
 * to look at, whatever else goes on: others' sweeps, sweeps that are called for again, groups that
 * have hardly any room.
 * How: rows of two reporters, written by hand; steps are counted.
 */
#include <string.h>

#include "advisor/index/sweeper.h"
#include "base/core/clock.h"

#include "tests/support/seed.h"

enum {
    OTHERS = 0, /* who reports all that is not swept */
    OURS = 1,
    STEPS = 4, /* of a sweep */
    ROWS = STEPS * ADVISOR_SWEEP_ROWS - 1,
};

struct scene {
    char folder[256];
    struct advisor_store *store;
    struct advisor_sweeper *sweeper;
    struct advisor_change_group *group;
    uint32_t removed;
    uint64_t begun_ms;
};

static void
begin(struct scene *scene)
{
    struct advisor_store_options options = {.map_bytes = 64u << 20};
    struct kvt_error err;

    memset(scene, 0, sizeof(*scene));
    scene->begun_ms = kvt_clock_unix_coarse_ms();
    options.path = test_folder_make(scene->folder, sizeof(scene->folder));
    assert_int_equal(advisor_store_open(&scene->store, &options, &err), KVT_OK);
    assert_int_equal(advisor_sweeper_new(&scene->sweeper), KVT_OK);
    assert_int_equal(advisor_change_group_new(&scene->group), KVT_OK);
}

static void
end(struct scene *scene)
{
    advisor_change_group_free(scene->group);
    advisor_sweeper_free(scene->sweeper);
    advisor_store_close(scene->store);
    test_folder_remove(scene->folder);
}

static bool
no_hot(void *arg, uint32_t reporter, uint32_t holder)
{
    (void)arg;
    (void)reporter;
    (void)holder;
    return false;
}

/* The history says when something went, also of what nobody reported gone. */
static void
check_times(struct scene *scene)
{
    size_t count;
    const struct advisor_effect *effects = advisor_change_group_effects(scene->group, &count);

    for (size_t i = 0; i < count; i++)
        if (effects[i].op.kind == ADVISOR_OP_REMOVE)
            assert_true(effects[i].op.time_ms >= scene->begun_ms);
}

static void
commit(struct scene *scene)
{
    struct advisor_txn txn;

    assert_int_equal(advisor_store_write(scene->store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_change_group_write(scene->group, &txn, NULL, no_hot, NULL), KVT_OK);
    check_times(scene);
    assert_int_equal(advisor_sweeper_save(scene->sweeper, &txn), KVT_OK);
    assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
    advisor_sweeper_saved(scene->sweeper);
    advisor_change_group_clear(scene->group);
}

/* Every `share`th is ours, and swept by all that sweeps. */
static void
put_rows(struct scene *scene, uint32_t holder, uint32_t share)
{
    for (uint32_t i = 1; i <= ROWS; i++) {
        const struct advisor_op op = {.kind = ADVISOR_OP_STORE,
                                      .hash = i,
                                      .holder = holder,
                                      .ranks = 1,
                                      .size = 1,
                                      .reporter = i % share == 0 ? OURS : OTHERS,
                                      .gen = 1};

        assert_int_equal(advisor_change_group_add(scene->group, &op), KVT_OK);
    }
    commit(scene);
}

static void
add(struct scene *scene, uint32_t holder, uint32_t floor)
{
    const struct advisor_sweep_row row = {.publisher = OURS, .holder = holder, .floor = floor};

    assert_int_equal(advisor_sweeper_add(scene->sweeper, &row), KVT_OK);
}

/* A step of the next round; what it finds is not committed yet. */
static void
step(struct scene *scene)
{
    struct advisor_txn txn;

    assert_int_equal(advisor_store_read(scene->store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_sweeper_step(scene->sweeper, &txn, scene->group), KVT_OK);
    advisor_store_end(&txn);
    scene->removed += (uint32_t)advisor_change_group_ops(scene->group);
}

static void
a_sweep_takes_as_many_steps_as_there_are_rows(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    put_rows(&scene, 0, 3);
    add(&scene, 0, 2);
    step(&scene);
    assert_int_equal(scene.removed, 0); /* it is not in the store yet */
    commit(&scene);
    for (int i = 0; i < STEPS; i++) {
        assert_true(advisor_sweeper_busy(scene.sweeper));
        step(&scene);
        commit(&scene);
    }
    assert_false(advisor_sweeper_busy(scene.sweeper));
    assert_int_equal(scene.removed, ROWS / 3);
    end(&scene);
}

/* It goes on behind what it has looked at, and looks at that again at the end. */
static void
one_that_is_called_for_again_ends(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    put_rows(&scene, 0, ROWS); /* the last one */
    for (uint32_t i = 0; i < STEPS; i++) {
        add(&scene, 0, 2 + i);
        commit(&scene);
        step(&scene);
        commit(&scene);
    }
    assert_int_equal(scene.removed, 1);
    put_rows(&scene, 0, 1); /* void ones on both sides of where it is */
    add(&scene, 0, 2 + STEPS);
    for (uint32_t i = 0; i < STEPS + 2 && advisor_sweeper_busy(scene.sweeper); i++) {
        commit(&scene);
        step(&scene);
    }
    commit(&scene);
    assert_false(advisor_sweeper_busy(scene.sweeper));
    assert_int_equal(scene.removed, 1 + ROWS);
    end(&scene);
}

static void
sweeps_take_turns(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    put_rows(&scene, 0, ROWS + 1);
    put_rows(&scene, 1, 1);
    add(&scene, 0, 2);
    add(&scene, 1, 2);
    commit(&scene);
    for (uint32_t i = 0; i < 2 * STEPS; i++) {
        add(&scene, 0, 2 + i); /* this one never ends */
        commit(&scene);
        step(&scene);
        commit(&scene);
    }
    assert_false(advisor_sweeper_sweeps(scene.sweeper, 1));
    assert_int_equal(scene.removed, ROWS);
    end(&scene);
}

/* Beside changes of workers' places; no more than there is room for. */
static void
a_group_that_is_nearly_full_takes_some(void **state)
{
    enum { ROOM = 100 };
    static uint64_t hashes[ADVISOR_CHANGE_GROUP_OPS_MAX];
    const struct advisor_event_log_place place = {.holder = 1, .ranks = 1, .size = 1};
    struct scene scene;

    (void)state;
    begin(&scene);
    put_rows(&scene, 0, 1);
    add(&scene, 0, 2);
    commit(&scene);
    assert_int_equal(advisor_change_group_remove(scene.group, &place, hashes,
                                                 ADVISOR_CHANGE_GROUP_OPS_MAX - ROOM),
                     KVT_OK);
    step(&scene);
    assert_int_equal(scene.removed, ROOM);
    commit(&scene);
    assert_int_equal(
        advisor_change_group_remove(scene.group, &place, hashes, ADVISOR_CHANGE_GROUP_OPS_MAX),
        KVT_OK);
    step(&scene);
    assert_int_equal(scene.removed, ROOM);
    commit(&scene);
    for (int i = 0; i < STEPS; i++) {
        step(&scene);
        commit(&scene);
    }
    assert_false(advisor_sweeper_busy(scene.sweeper));
    assert_int_equal(scene.removed, ROWS);
    end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sweep_takes_as_many_steps_as_there_are_rows),
        cmocka_unit_test(one_that_is_called_for_again_ends),
        cmocka_unit_test(sweeps_take_turns),
        cmocka_unit_test(a_group_that_is_nearly_full_takes_some),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
