/*
 * What is tested: advisor/job/jobs.h when something is amiss: what failed is named, and without
 * memory, readers or its moves a job neither is lost nor takes what it has no use for.
 * How: as jobs_test.c.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "advisor/admin/advisor_admin.h"
#include "advisor/job/jobs_private.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/job_scene.h"

/* ---- what failed ---- */

/* The gateway says how many, and of the first why; the index says which. */
static void
failures_are_named(void **state)
{
    struct test_job_scene *scene = test_job_scene_new(ADVISOR_MODE_OBSERVE);
    struct kvt_event_batch batch = {.incarnation = 1,
                                    .first_seq = 1,
                                    .time_ms = kvt_clock_unix_ms(),
                                    .worker = "gateway:gw0",
                                    .namespace_ = "ns",
                                    .location_count = 1};
    struct kvt_event events[20];
    struct kvt_order_result result = {.verb = KVT_ORDER_DEMOTE, .text = "0/0:k: pinned"};
    struct advisor_job_row row;
    struct kvt_buffer out;
    struct advisor_txn txn;
    uint64_t id;

    (void)state;
    batch.locations[0] = (struct kvt_location){.tier = KVT_TIER_G4, .name = "hot@gw0"};
    batch.events = events;
    batch.event_count = 20;
    for (uint32_t i = 0; i < 20; i++)
        events[i] = (struct kvt_event){.type = KVT_EVENT_STORE,
                                       .sequence_hash = i + 1,
                                       .position = i,
                                       .parent = i,
                                       .block_size = 10,
                                       .ranks = 1};
    test_rig_batch(&scene->rig, 1, &batch);
    test_rig_run(&scene->rig);
    id = test_job_submit(scene, 0, 20);
    test_rig_run(&scene->rig);
    /* 3 and 7 stay where they are, twice. */
    for (int attempt = 0; attempt < 2; attempt++) {
        assert_true(advisor_planner_next(scene->rig.planner, &scene->order, kvt_clock_unix_ms()));
        result.epoch = scene->order.epoch;
        result.id = scene->order.id;
        result.done = 18;
        result.failed = 2;
        test_job_report(scene, &result);
        test_job_pass_time(scene, 0);
    }
    batch.first_seq = 21;
    batch.event_count = 0;
    for (uint32_t i = 0; i < 20; i++)
        if (i + 1 != 3 && i + 1 != 7)
            events[batch.event_count++] =
                (struct kvt_event){.type = KVT_EVENT_REMOVE, .sequence_hash = i + 1, .ranks = 1};
    test_rig_batch(&scene->rig, 2, &batch);
    test_rig_run(&scene->rig);
    row = test_job_row_of(scene, id);
    assert_int_equal(row.state, ADVISOR_JOB_FAILED);
    assert_int_equal(row.failed, 2);
    kvt_buffer_init(&out, 1u << 16);
    assert_int_equal(advisor_store_read(scene->rig.store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_admin_failures(&out, &txn, &row), KVT_OK);
    advisor_store_end(&txn);
    assert_string_equal(
        kvt_buffer_text(&out),
        "{\"batch\":0,\"verb\":\"demote\",\"gateway\":\"gw0\",\"namespace\":\"ns\",\"blocks\":20,"
        "\"done\":18,\"failed\":2,\"attempts\":2,\"text\":\"0/0:k: pinned\","
        "\"hashes\":[\"0000000000000003\",\"0000000000000007\"]}");
    kvt_buffer_release(&out);
    test_job_scene_free(scene);
}

/* ---- memory ---- */

static void
every_allocation_may_fail(void **state)
{
    struct test_job_scene *scene = test_job_scene_new(ADVISOR_MODE_OBSERVE);
    const struct advisor_jobs_options options = {.store = scene->rig.store,
                                                 .planner = scene->rig.planner};
    enum kvt_err rc = KVT_NOMEM;
    struct advisor_jobs *jobs;
    uint64_t id;
    size_t n;

    (void)state;
    for (n = 0; rc != KVT_OK; n++) {
        assert_true(n < 10);
        kvt_alloc_fail_after(n);
        rc = advisor_jobs_new(&jobs, &options);
        kvt_alloc_fail_after(SIZE_MAX);
        assert_true(rc == KVT_OK || (rc == KVT_NOMEM && jobs == NULL));
    }
    assert_true(n > 1);
    advisor_jobs_free(jobs);

    /* Ticks without memory: nothing is lost, it goes on later. */
    id = test_job_submit(scene, 0, 3 * KVT_ORDER_ITEMS_MAX);
    test_job_restart(scene);
    for (n = 0; n < 20; n++) {
        kvt_alloc_fail_after(n);
        advisor_jobs_tick(scene->rig.jobs, kvt_clock_unix_ms());
        kvt_alloc_fail_after(SIZE_MAX);
    }
    (void)test_job_serve(scene);
    assert_int_equal(test_job_row_of(scene, id).state, ADVISOR_JOB_DONE);
    assert_int_equal(test_job_row_of(scene, id).done, 3 * KVT_ORDER_ITEMS_MAX);
    test_job_scene_free(scene);
}

/* What passes stops no job. */
static void
a_job_waits_while_it_cannot_be_read(void **state)
{
    enum { READERS_MAX = 4096 };
    struct test_job_scene *scene = test_job_scene_new(ADVISOR_MODE_OFF);
    struct advisor_txn *readers = kvt_calloc(READERS_MAX, sizeof(*readers));
    const uint64_t id = test_job_submit(scene, 0, 10);
    enum kvt_err rc = KVT_OK;
    size_t count = 0;

    (void)state;
    assert_non_null(readers);
    assert_int_equal(advisor_planner_set_mode(scene->rig.planner, ADVISOR_MODE_OBSERVE), KVT_OK);
    while (rc == KVT_OK) {
        assert_true(count < READERS_MAX);
        rc = advisor_store_read(scene->rig.store, &readers[count], NULL);
        count += rc == KVT_OK ? 1 : 0;
    }
    assert_int_equal(rc, KVT_AGAIN);
    advisor_jobs_tick(scene->rig.jobs, kvt_clock_unix_ms());
    for (size_t i = 0; i < count; i++)
        advisor_store_end(&readers[i]);
    kvt_free(readers);
    (void)test_job_serve(scene);
    assert_int_equal(test_job_row_of(scene, id).state, ADVISOR_JOB_DONE);
    test_job_scene_free(scene);
}

/* What is gone does not come back: a person is to look. */
static void
a_job_without_its_moves_is_paused(void **state)
{
    struct test_job_scene *scene = test_job_scene_new(ADVISOR_MODE_OFF);
    const uint64_t id = test_job_submit(scene, 0, 10);
    struct advisor_job_row row = test_job_row_of(scene, id);
    struct advisor_txn txn;

    (void)state;
    assert_int_equal(advisor_store_write(scene->rig.store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_store_delete_job(&txn, id, row.batches), KVT_OK);
    assert_int_equal(advisor_store_put(&txn, ADVISOR_ROW_JOB, &row), KVT_OK);
    assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
    assert_int_equal(advisor_planner_set_mode(scene->rig.planner, ADVISOR_MODE_OBSERVE), KVT_OK);
    assert_int_equal(test_job_serve(scene), 0);
    row = test_job_row_of(scene, id);
    assert_int_equal(row.state, ADVISOR_JOB_PAUSED);
    assert_non_null(strstr(row.text, "cannot be read"));
    test_job_scene_free(scene);
}

static bool
is_queued(struct advisor_jobs *jobs)
{
    bool queued;

    (void)pthread_mutex_lock(&jobs->shared.lock);
    queued = jobs->shared.first != NULL;
    (void)pthread_mutex_unlock(&jobs->shared.lock);
    return queued;
}

/* A job that could not be taken takes no place. */
static void
what_was_not_taken_is_not_there(void **state)
{
    struct test_job_scene *scene = test_job_scene_new(ADVISOR_MODE_OBSERVE);
    struct advisor_jobs *jobs = scene->rig.jobs;
    const struct advisor_job_moves moves = test_job_moves_of(scene, 0, 10);
    struct test_job_asking asking = {
        .scene = scene,
        .request = {.kind = "test", .title = "some", .moves = &moves, .move_count = 1}};
    size_t n = 0;

    (void)state;
    do {
        pthread_t thread;

        assert_true(n < 10);
        atomic_store(&asking.done, false);
        assert_int_equal(pthread_create(&thread, NULL, test_job_ask_main, &asking), 0);
        while (!is_queued(jobs))
            kvt_clock_sleep_ms(1);
        kvt_alloc_fail_after(n++);
        advisor_jobs_take(jobs, kvt_clock_unix_ms());
        kvt_alloc_fail_after(SIZE_MAX);
        assert_int_equal(jobs->count, jobs->taken == NULL ? 0 : 1);
        while (!atomic_load(&asking.done)) {
            advisor_round_step(scene->rig.engine, 0);
            kvt_clock_sleep_ms(1);
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
    } while (asking.rc == KVT_NOMEM);
    assert_int_equal(asking.rc, KVT_OK);
    assert_true(n > 2);
    (void)test_job_serve(scene);
    assert_int_equal(test_job_row_of(scene, asking.row.id).state, ADVISOR_JOB_DONE);
    test_job_scene_free(scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_are_named),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(what_was_not_taken_is_not_there),
        cmocka_unit_test(a_job_waits_while_it_cannot_be_read),
        cmocka_unit_test(a_job_without_its_moves_is_paused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
