/*
 * What is tested: advisor/job/jobs.h and advisor/store/job_rows.h: every block of a job is ordered
 * until it has its result, whatever comes between; nothing is done twice because somebody asked
 * twice. How: an engine without network; a gateway that is an array of blocks, and which fails, is
 * silent or forgets at random; the advisor is ended between two steps without a chance to save
 * anything.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/job_scene.h"

/* ---- the tests ---- */

static void
a_job_runs_to_its_end(void **state)
{
    struct test_job_scene *scene = test_job_scene_new(ADVISOR_MODE_OBSERVE);
    const uint64_t id = test_job_submit(scene, 0, TEST_JOB_BLOCKS);
    struct advisor_job_row row;

    (void)state;
    assert_int_equal(test_job_serve(scene),
                     (TEST_JOB_BLOCKS + KVT_ORDER_ITEMS_MAX - 1) / KVT_ORDER_ITEMS_MAX);
    row = test_job_row_of(scene, id);
    assert_int_equal(row.state, ADVISOR_JOB_DONE);
    assert_int_equal(row.done, TEST_JOB_BLOCKS);
    assert_int_equal(row.bytes_moved, TEST_JOB_BLOCKS);
    assert_true(row.finished_ms >= row.created_ms);
    assert_int_equal(test_job_demoted(scene), TEST_JOB_BLOCKS);
    test_job_scene_free(scene);
}

static void
few_orders_of_a_job_are_outstanding(void **state)
{
    struct test_job_scene *scene = test_job_scene_new(ADVISOR_MODE_ENFORCE);
    unsigned count = 0;

    (void)state;
    (void)test_job_submit(scene, 0, TEST_JOB_BLOCKS);
    test_rig_run(&scene->rig);
    while (advisor_planner_next(scene->rig.planner, &scene->order, kvt_clock_unix_ms()))
        count++;
    assert_int_equal(count, ADVISOR_JOB_ORDERS_MAX);
    test_rig_run(&scene->rig);
    assert_false(advisor_planner_next(scene->rig.planner, &scene->order, kvt_clock_unix_ms()));
    test_job_scene_free(scene);
}

/* Large blocks make small batches. */
static void
an_order_is_not_of_any_size(void **state)
{
    struct test_job_scene *scene = test_job_scene_new(ADVISOR_MODE_OBSERVE);
    struct advisor_job_moves moves = test_job_moves_of(scene, 0, 100);
    struct test_job_asking asking = {
        .scene = scene,
        .request = {.kind = "test", .title = "large", .moves = &moves, .move_count = 1}};

    (void)state;
    moves.bytes = UINT64_C(100) << 28; /* 256 MiB each */
    assert_int_equal(test_job_ask(&asking), KVT_OK);
    assert_int_equal(asking.row.batches, 25);
    assert_int_equal(test_job_serve(scene), 25);
    test_job_scene_free(scene);
}

/* Whatever fails, is lost or ends in between: in the end each block has its result. */
static void
restarts_and_losses_change_nothing(void **state)
{
    struct test_job_scene *scene = test_job_scene_new(ADVISOR_MODE_OBSERVE);
    struct advisor_job_row row;
    uint64_t id;

    (void)state;
    scene->silent_percent = 20;
    id = test_job_submit(scene, 0, TEST_JOB_BLOCKS);
    for (unsigned round = 0; round < 200; round++) {
        const unsigned steps = (unsigned)kvt_random_below(&scene->random, 6);

        for (unsigned i = 0; i < steps; i++) {
            if (advisor_planner_next(scene->rig.planner, &scene->order, kvt_clock_unix_ms()))
                test_job_obey(scene);
            advisor_round_step(scene->rig.engine, 0);
        }
        test_job_restart(scene);
        row = test_job_row_of(scene, id);
        if (row.state == ADVISOR_JOB_DONE)
            break;
    }
    scene->silent_percent = 0;
    (void)test_job_serve(scene);
    row = test_job_row_of(scene, id);
    assert_int_equal(row.state, ADVISOR_JOB_DONE);
    assert_int_equal(row.done, TEST_JOB_BLOCKS);
    assert_int_equal(row.failed, 0);
    assert_int_equal(row.finished, row.batches);
    assert_int_equal(test_job_demoted(scene), TEST_JOB_BLOCKS);
    assert_int_equal(test_job_serve(scene), 0); /* and nothing more */
    test_job_scene_free(scene);
}

static void
a_silent_gateway_is_asked_again_and_then_given_up(void **state)
{
    struct test_job_scene *scene = test_job_scene_new(ADVISOR_MODE_OBSERVE);
    struct advisor_job_row row;
    uint64_t id;

    (void)state;
    scene->silent_percent = 100;
    id = test_job_submit(scene, 0, 10);
    for (unsigned round = 0; round < ADVISOR_JOB_ATTEMPTS_MAX; round++) {
        assert_int_equal(test_job_serve(scene), 1);
        assert_int_equal(test_job_row_of(scene, id).state, ADVISOR_JOB_RUNNING);
        test_job_pass_time(scene, round);
    }
    row = test_job_row_of(scene, id);
    assert_int_equal(row.state, ADVISOR_JOB_FAILED);
    assert_int_equal(row.failed, 10);
    assert_string_equal(row.text, "the gateway did not answer");
    test_job_scene_free(scene);
}

static void
much_that_fails_pauses_a_job(void **state)
{
    struct test_job_scene *scene = test_job_scene_new(ADVISOR_MODE_OBSERVE);
    struct advisor_job_row row;
    uint64_t id;

    (void)state;
    scene->fail_percent = 50;
    id = test_job_submit(scene, 0, TEST_JOB_BLOCKS);
    assert_int_equal(test_job_serve(scene), ADVISOR_JOB_ORDERS_MAX);
    test_job_pass_time(scene, 0); /* a second attempt at each */
    (void)test_job_serve(scene);
    row = test_job_row_of(scene, id);
    assert_int_equal(row.state, ADVISOR_JOB_PAUSED);
    assert_true(row.failed > 0 && row.done + row.failed < TEST_JOB_BLOCKS);
    assert_non_null(strstr(row.text, "pinned"));
    test_job_restart(scene);
    assert_int_equal(test_job_serve(scene), 0); /* it stays so */

    /* Somebody cured it, and all goes on; what failed is tried again when he says so. */
    scene->fail_percent = 0;
    assert_int_equal(test_job_command(scene, id, ADVISOR_JOB_RESUME), KVT_OK);
    (void)test_job_serve(scene);
    row = test_job_row_of(scene, id);
    assert_int_equal(row.state, ADVISOR_JOB_FAILED);
    assert_int_equal(row.done + row.failed, TEST_JOB_BLOCKS);
    assert_int_equal(test_job_command(scene, id, ADVISOR_JOB_RESUME), KVT_OK);
    assert_true(test_job_serve(scene) <= ADVISOR_JOB_ORDERS_MAX + 1);
    row = test_job_row_of(scene, id);
    assert_int_equal(row.state, ADVISOR_JOB_DONE);
    assert_int_equal(row.done, TEST_JOB_BLOCKS);
    assert_int_equal(row.failed, 0);
    assert_int_equal(row.finished, row.batches);
    assert_int_equal(test_job_demoted(scene), TEST_JOB_BLOCKS);
    test_job_scene_free(scene);
}

static void
people_pause_resume_and_cancel(void **state)
{
    struct test_job_scene *scene = test_job_scene_new(ADVISOR_MODE_OBSERVE);
    uint64_t id;

    (void)state;
    id = test_job_submit(scene, 0, TEST_JOB_BLOCKS);
    assert_int_equal(test_job_command(scene, id, ADVISOR_JOB_PAUSE), KVT_OK);
    (void)test_job_serve(scene); /* what was under way comes to its end */
    assert_int_equal(test_job_row_of(scene, id).state, ADVISOR_JOB_PAUSED);
    assert_true(test_job_row_of(scene, id).done <=
                2 * ADVISOR_JOB_ORDERS_MAX * KVT_ORDER_ITEMS_MAX);
    test_job_restart(scene);
    assert_int_equal(test_job_serve(scene), 0);
    assert_int_equal(test_job_command(scene, id, ADVISOR_JOB_PAUSE), KVT_OK); /* it is */
    assert_int_equal(test_job_command(scene, id, ADVISOR_JOB_RESUME), KVT_OK);
    (void)test_job_serve(scene);
    assert_int_equal(test_job_row_of(scene, id).state, ADVISOR_JOB_DONE);
    assert_int_equal(test_job_command(scene, id, ADVISOR_JOB_CANCEL), KVT_PRECONDITION);
    assert_int_equal(test_job_command(scene, id, ADVISOR_JOB_RESUME), KVT_PRECONDITION);

    id = test_job_submit(scene, 0, TEST_JOB_BLOCKS);
    assert_int_equal(test_job_command(scene, id, ADVISOR_JOB_CANCEL), KVT_OK);
    test_job_restart(scene);
    assert_int_equal(test_job_serve(scene), 0);
    assert_int_equal(test_job_row_of(scene, id).state, ADVISOR_JOB_CANCELLED);
    assert_int_equal(test_job_command(scene, id, ADVISOR_JOB_RESUME), KVT_PRECONDITION);
    assert_int_equal(test_job_command(scene, id + 1, ADVISOR_JOB_CANCEL), KVT_NOTFOUND);
    test_job_scene_free(scene);
}

/* Orders that wait for the bus do not leave when somebody stopped the job meanwhile. */
static void
what_did_not_leave_is_taken_back(void **state)
{
    struct test_job_scene *scene = test_job_scene_new(ADVISOR_MODE_OBSERVE);
    uint64_t id;

    (void)state;
    id = test_job_submit(scene, 0, TEST_JOB_BLOCKS);
    test_rig_run(&scene->rig);
    assert_int_equal(test_job_command(scene, id, ADVISOR_JOB_CANCEL), KVT_OK);
    assert_int_equal(test_job_serve(scene), 0);
    assert_int_equal(test_job_demoted(scene), 0);
    assert_int_equal(test_job_row_of(scene, id).state, ADVISOR_JOB_CANCELLED);

    id = test_job_submit(scene, 0, TEST_JOB_BLOCKS);
    test_rig_run(&scene->rig);
    assert_true(advisor_planner_next(scene->rig.planner, &scene->order, kvt_clock_unix_ms()));
    assert_int_equal(test_job_command(scene, id, ADVISOR_JOB_PAUSE), KVT_OK);
    test_job_obey(scene); /* it had left */
    assert_int_equal(test_job_serve(scene), 0);
    assert_int_equal(test_job_row_of(scene, id).done, KVT_ORDER_ITEMS_MAX);
    assert_int_equal(test_job_demoted(scene), KVT_ORDER_ITEMS_MAX);
    assert_int_equal(test_job_command(scene, id, ADVISOR_JOB_RESUME), KVT_OK);
    (void)test_job_serve(scene);
    assert_int_equal(test_job_row_of(scene, id).state, ADVISOR_JOB_DONE);
    assert_int_equal(test_job_row_of(scene, id).done, TEST_JOB_BLOCKS);
    assert_int_equal(test_job_demoted(scene), TEST_JOB_BLOCKS);
    test_job_scene_free(scene);
}

static void
nothing_leaves_while_all_is_stopped(void **state)
{
    struct test_job_scene *scene = test_job_scene_new(ADVISOR_MODE_ENFORCE);
    struct test_job_asking stop = {.scene = scene, .what = 2};
    uint64_t id;

    (void)state;
    id = test_job_submit(scene, 0, TEST_JOB_BLOCKS); /* with orders that did not leave yet */
    assert_int_equal(test_job_ask(&stop), KVT_OK);
    assert_int_equal(test_job_serve(scene), 0);
    test_job_restart(scene);
    assert_true(advisor_planner_paused(scene->rig.planner));
    assert_int_equal(test_job_serve(scene), 0);
    stop.what = 3;
    assert_int_equal(test_job_ask(&stop), KVT_OK);
    assert_true(test_job_serve(scene) > 0);
    assert_int_equal(test_job_row_of(scene, id).state, ADVISOR_JOB_DONE);
    test_job_restart(scene);
    assert_false(advisor_planner_paused(scene->rig.planner));
    test_job_scene_free(scene);
}

static void
a_job_waits_while_the_mode_is_off(void **state)
{
    struct test_job_scene *scene = test_job_scene_new(ADVISOR_MODE_OFF);
    const uint64_t id = test_job_submit(scene, 0, 100);

    (void)state;
    assert_int_equal(test_job_serve(scene), 0);
    assert_int_equal(test_job_row_of(scene, id).state, ADVISOR_JOB_QUEUED);
    assert_int_equal(advisor_planner_set_mode(scene->rig.planner, ADVISOR_MODE_OBSERVE), KVT_OK);
    assert_int_equal(test_job_serve(scene), 1);
    assert_int_equal(test_job_row_of(scene, id).state, ADVISOR_JOB_DONE);
    test_job_scene_free(scene);
}

static void
a_job_in_parts_begins_when_it_is_whole(void **state)
{
    struct test_job_scene *scene = test_job_scene_new(ADVISOR_MODE_OBSERVE);
    struct advisor_job_moves moves = test_job_moves_of(scene, 0, 3000);
    struct test_job_asking asking = {.scene = scene,
                                     .request = {.kind = "plan",
                                                 .title = "parts",
                                                 .key = "k",
                                                 .more = true,
                                                 .moves = &moves,
                                                 .move_count = 1}};
    uint64_t id;

    (void)state;
    assert_int_equal(test_job_ask(&asking), KVT_OK);
    id = asking.row.id;
    assert_int_equal(test_job_serve(scene), 0);
    test_job_restart(scene); /* and whoever gave it begins anew */
    assert_int_equal(test_job_ask(&asking), KVT_OK);
    assert_int_equal(asking.row.id, id);
    assert_int_equal(asking.row.parts, 1);
    asking.request.part = 2;
    assert_int_equal(test_job_ask(&asking), KVT_RANGE);
    asking.request.part = 1;
    asking.request.more = false;
    moves = test_job_moves_of(scene, 3000, 3000);
    assert_int_equal(test_job_ask(&asking), KVT_OK);
    assert_int_equal(asking.row.blocks, TEST_JOB_BLOCKS);
    assert_int_equal(asking.row.state, ADVISOR_JOB_QUEUED);
    assert_int_equal(test_job_ask(&asking), KVT_OK); /* said twice, done once */
    (void)test_job_serve(scene);
    assert_int_equal(test_job_row_of(scene, id).state, ADVISOR_JOB_DONE);
    assert_int_equal(test_job_row_of(scene, id).done, TEST_JOB_BLOCKS);
    asking.request.part = 0;
    assert_int_equal(test_job_ask(&asking), KVT_OK);
    assert_int_equal(asking.row.state, ADVISOR_JOB_DONE);
    assert_int_equal(test_job_serve(scene), 0);
    test_job_scene_free(scene);
}

/* Whoever was to give the rest is gone for good. */
static void
a_job_that_never_becomes_whole_ends(void **state)
{
    struct test_job_scene *scene = test_job_scene_new(ADVISOR_MODE_OBSERVE);
    const struct advisor_job_moves moves = test_job_moves_of(scene, 0, 10);
    struct test_job_asking asking = {.scene = scene,
                                     .request = {.kind = "plan",
                                                 .title = "half",
                                                 .key = "k",
                                                 .more = true,
                                                 .moves = &moves,
                                                 .move_count = 1}};
    const uint64_t now_ms = kvt_clock_unix_ms();

    (void)state;
    assert_int_equal(test_job_ask(&asking), KVT_OK);
    advisor_jobs_tick(scene->rig.jobs, now_ms + ADVISOR_JOB_FILLING_MS / 2);
    test_rig_run(&scene->rig);
    assert_int_equal(test_job_row_of(scene, asking.row.id).state, ADVISOR_JOB_FILLING);
    advisor_jobs_tick(scene->rig.jobs, now_ms + ADVISOR_JOB_FILLING_MS + 1000);
    assert_int_equal(test_job_serve(scene), 0);
    assert_int_equal(test_job_row_of(scene, asking.row.id).state, ADVISOR_JOB_CANCELLED);
    test_job_scene_free(scene);
}

static void
what_makes_no_sense_is_refused(void **state)
{
    struct test_job_scene *scene = test_job_scene_new(ADVISOR_MODE_OBSERVE);
    const struct advisor_job_moves good = test_job_moves_of(scene, 0, 1);
    const struct kvt_order_item rankless = {.block = {.hash = 1}};
    struct advisor_job_moves moves = good;
    struct advisor_job_row row;
    struct advisor_job_request request = {
        .kind = "test", .title = "bad", .moves = &moves, .move_count = 1};
    struct kvt_error err;

    (void)state;
    moves.verb = KVT_ORDER_NONE;
    assert_int_equal(advisor_jobs_submit(scene->rig.jobs, &request, &row, &err), KVT_INVALID);
    moves = good;
    moves.gateway = "";
    assert_int_equal(advisor_jobs_submit(scene->rig.jobs, &request, &row, &err), KVT_INVALID);
    moves = good;
    moves.count = 0;
    assert_int_equal(advisor_jobs_submit(scene->rig.jobs, &request, &row, &err), KVT_INVALID);
    moves = good;
    moves.items = &rankless;
    assert_int_equal(advisor_jobs_submit(scene->rig.jobs, &request, &row, &err), KVT_INVALID);
    moves = good;
    request.kind = "a kind that is far too long";
    assert_int_equal(advisor_jobs_submit(scene->rig.jobs, &request, &row, &err), KVT_INVALID);
    request.kind = "test";
    request.more = true; /* nobody could say what it belongs to */
    assert_int_equal(advisor_jobs_submit(scene->rig.jobs, &request, &row, &err), KVT_INVALID);
    assert_non_null(strstr(err.text, "key"));
    test_job_scene_free(scene);
}

static void
many_jobs_are_bounded(void **state)
{
    struct test_job_scene *scene = test_job_scene_new(ADVISOR_MODE_OFF);
    const struct advisor_job_moves moves = test_job_moves_of(scene, 0, 1);
    struct test_job_asking asking = {
        .scene = scene,
        .request = {.kind = "test", .title = "one more", .moves = &moves, .move_count = 1}};
    uint64_t first = 0;
    struct advisor_job_row row;
    struct advisor_txn txn;

    (void)state;
    for (int i = 0; i < ADVISOR_JOBS_OPEN_MAX; i++) {
        const uint64_t id = test_job_submit(scene, 0, 1);

        first = first == 0 ? id : first;
    }
    assert_int_equal(test_job_ask(&asking), KVT_FULL);
    assert_int_equal(advisor_planner_set_mode(scene->rig.planner, ADVISOR_MODE_OBSERVE), KVT_OK);
    (void)test_job_serve(scene);
    for (int i = 0; i < ADVISOR_JOBS_KEPT; i++) {
        (void)test_job_submit(scene, 0, 1);
        (void)test_job_serve(scene);
    }
    /* The oldest are gone, with what they had to do; numbers are never used twice. */
    assert_int_equal(advisor_store_read(scene->rig.store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_store_job(&txn, first, &row), KVT_NOTFOUND);
    assert_int_equal(advisor_store_job(&txn, first + ADVISOR_JOBS_OPEN_MAX, &row), KVT_OK);
    {
        struct advisor_job_batch batch;

        assert_int_equal(advisor_store_batch(&txn, first, 0, &batch, NULL), KVT_NOTFOUND);
    }
    advisor_store_end(&txn);
    test_job_restart(scene);
    assert_int_equal(test_job_submit(scene, 0, 1),
                     first + ADVISOR_JOBS_OPEN_MAX + ADVISOR_JOBS_KEPT);
    test_job_scene_free(scene);
}

/* Events come first: a job that would fill the store is not taken. */
static void
the_store_keeps_room(void **state)
{
    struct test_job_scene *scene = test_job_scene_new(ADVISOR_MODE_OFF);
    const size_t count = 900000;
    struct kvt_order_item *items = kvt_calloc(count, sizeof(*items));
    struct advisor_job_moves moves = test_job_moves_of(scene, 0, 1);
    struct test_job_asking asking = {
        .scene = scene,
        .request = {.kind = "test", .title = "huge", .moves = &moves, .move_count = 1}};

    (void)state;
    assert_non_null(items);
    for (size_t i = 0; i < count; i++)
        items[i] = (struct kvt_order_item){.block = {.hash = i + 1}, .ranks = 1};
    moves.items = items;
    moves.count = count;
    assert_int_equal(test_job_ask(&asking), KVT_FULL);
    assert_non_null(strstr(asking.err.text, "db.max"));
    kvt_free(items);
    test_job_scene_free(scene);
}

static void
without_a_key_no_job_is_taken(void **state)
{
    struct kvt_metrics *metrics;
    struct advisor_counters counters;
    struct advisor_planner_options options = {.counters = &counters, .can_enforce = false};
    struct advisor_job_request request = {.kind = "test", .title = "t"};
    struct advisor_jobs_options of = {.store = NULL};
    struct advisor_job_row row;
    struct advisor_jobs *jobs;
    struct kvt_error err;

    (void)state;
    assert_int_equal(kvt_metrics_new(&metrics), KVT_OK);
    advisor_counters_register(&counters, metrics);
    assert_int_equal(advisor_planner_new(&of.planner, &options), KVT_OK);
    assert_int_equal(advisor_jobs_new(&jobs, &of), KVT_OK);
    assert_int_equal(advisor_jobs_submit(jobs, &request, &row, &err), KVT_PRECONDITION);
    assert_non_null(strstr(err.text, "orders.key_file"));
    advisor_jobs_free(jobs);
    advisor_planner_free(of.planner);
    kvt_metrics_free(metrics);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_runs_to_its_end),
        cmocka_unit_test(few_orders_of_a_job_are_outstanding),
        cmocka_unit_test(an_order_is_not_of_any_size),
        cmocka_unit_test(restarts_and_losses_change_nothing),
        cmocka_unit_test(a_silent_gateway_is_asked_again_and_then_given_up),
        cmocka_unit_test(much_that_fails_pauses_a_job),
        cmocka_unit_test(people_pause_resume_and_cancel),
        cmocka_unit_test(what_did_not_leave_is_taken_back),
        cmocka_unit_test(nothing_leaves_while_all_is_stopped),
        cmocka_unit_test(a_job_waits_while_the_mode_is_off),
        cmocka_unit_test(a_job_in_parts_begins_when_it_is_whole),
        cmocka_unit_test(a_job_that_never_becomes_whole_ends),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(many_jobs_are_bounded),
        cmocka_unit_test(the_store_keeps_room),
        cmocka_unit_test(without_a_key_no_job_is_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
