/*
 * What is tested: advisor/jobs.h and advisor/store_jobs.h: every block of a job is ordered until it
 * has its result, whatever comes between; nothing is done twice because somebody asked twice.
 * How: an engine without network; a gateway that is an array of blocks, and which fails, is silent
 * or forgets at random; the advisor is ended between two steps without a chance to save anything.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "advisor/http.h"
#include "advisor/jobs_private.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/rig.h"

enum { BLOCKS = 6000, MOVES = 8, LATER_MS = 700000 };

struct scene {
    struct test_rig rig;
    char folder[256];
    uint64_t reports;
    uint64_t random;
    unsigned fail_percent;   /* blocks of an order that cannot be done */
    unsigned silent_percent; /* orders that are done, and nobody hears of it */
    unsigned orders;
    unsigned outstanding_max;
    bool demoted[BLOCKS + 1];
    struct kvt_order_item items[BLOCKS];
    struct kvt_order order;
};

static void
open_rig(struct scene *scene, enum advisor_mode mode)
{
    const struct test_rig_options options = {.path = scene->folder, .mode = mode};

    test_rig_open(&scene->rig, &options);
}

static struct scene *
scene_new(enum advisor_mode mode)
{
    struct scene *scene = kvt_calloc(1, sizeof(*scene));

    assert_non_null(scene);
    (void)test_folder_make(scene->folder, sizeof(scene->folder));
    scene->random = test_seed();
    for (uint32_t i = 0; i < BLOCKS; i++)
        scene->items[i] =
            (struct kvt_order_item){.block = {.hash = i + 1, .position = i}, .ranks = 1};
    open_rig(scene, mode);
    return scene;
}

static void
scene_free(struct scene *scene)
{
    test_rig_close(&scene->rig);
    test_folder_remove(scene->folder);
    kvt_free(scene);
}

/* As after kill -9: nothing but the store is left. */
static void
restart(struct scene *scene)
{
    test_rig_close(&scene->rig);
    open_rig(scene, ADVISOR_MODE_OBSERVE);
}

/* ---- asking, while the engine goes on ---- */

struct asking {
    struct scene *scene;
    struct advisor_job_request request;
    uint64_t id; /* of a command */
    enum advisor_job_command command;
    int what; /* 0: submit, 1: command, 2: stop, 3: go on */
    enum kvt_err rc;
    struct advisor_job_row row;
    struct kvt_error err;
    _Atomic bool done;
};

static void *
ask_main(void *arg)
{
    struct asking *asking = arg;
    struct advisor_jobs *jobs = asking->scene->rig.jobs;

    if (asking->what == 0)
        asking->rc = advisor_jobs_submit(jobs, &asking->request, &asking->row, &asking->err);
    else if (asking->what == 1)
        asking->rc =
            advisor_jobs_command(jobs, asking->id, asking->command, &asking->row, &asking->err);
    else
        asking->rc = advisor_jobs_stop_all(jobs, asking->what == 2, &asking->err);
    atomic_store(&asking->done, true);
    return NULL;
}

static enum kvt_err
ask(struct asking *asking)
{
    pthread_t thread;

    atomic_store(&asking->done, false);
    assert_int_equal(pthread_create(&thread, NULL, ask_main, asking), 0);
    while (!atomic_load(&asking->done)) {
        advisor_engine_step(asking->scene->rig.engine, 0);
        kvt_clock_sleep_ms(1);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    return asking->rc;
}

static struct advisor_job_moves
moves_of(const struct scene *scene, size_t from, size_t count)
{
    return (struct advisor_job_moves){.verb = KVT_ORDER_DEMOTE,
                                      .gateway = "gw0",
                                      .namespace_ = "ns",
                                      .bytes = count * 10,
                                      .items = scene->items + from,
                                      .count = count};
}

static uint64_t
submit(struct scene *scene, size_t from, size_t count)
{
    const struct advisor_job_moves moves = moves_of(scene, from, count);
    struct asking asking = {
        .scene = scene,
        .request = {.kind = "test", .title = "some blocks", .moves = &moves, .move_count = 1}};

    assert_int_equal(ask(&asking), KVT_OK);
    assert_int_equal(asking.row.blocks, count);
    return asking.row.id;
}

static enum kvt_err
command(struct scene *scene, uint64_t id, enum advisor_job_command what)
{
    struct asking asking = {.scene = scene, .what = 1, .id = id, .command = what};

    return ask(&asking);
}

static struct advisor_job_row
row_of(struct scene *scene, uint64_t id)
{
    struct advisor_job_row row;
    struct advisor_txn txn;

    assert_int_equal(advisor_store_read(scene->rig.store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_store_job(&txn, id, &row), KVT_OK);
    advisor_store_end(&txn);
    return row;
}

/* ---- the gateway ---- */

static void
report(struct scene *scene, struct kvt_order_result *result)
{
    struct kvt_report message = {.gateway = "gw0",
                                 .namespace_ = "ns",
                                 .incarnation = 1,
                                 .seq = ++scene->reports,
                                 .time_ms = kvt_clock_unix_ms(),
                                 .healthy = true,
                                 .results = result,
                                 .result_count = 1};

    test_rig_report(&scene->rig, scene->reports, &message);
    test_rig_run(&scene->rig);
}

/* What came of an order.  Some blocks fail for this time, which is for all of an order the same. */
static void
obey(struct scene *scene)
{
    struct kvt_order_result result = {.epoch = scene->order.epoch,
                                      .id = scene->order.id,
                                      .verb = scene->order.verb,
                                      .code = KVT_OK};

    for (uint32_t i = 0; i < scene->order.item_count; i++) {
        if (kvt_random_below(&scene->random, 100) < scene->fail_percent) {
            result.failed++;
            (void)snprintf(result.text, sizeof(result.text), "%u: pinned", i);
            continue;
        }
        scene->demoted[scene->order.items[i].block.hash] = true;
        result.done++;
    }
    result.bytes_moved = result.done;
    if (kvt_random_below(&scene->random, 100) >= scene->silent_percent)
        report(scene, &result);
}

/* Take orders until there is none; each is obeyed.  Returns how many. */
static unsigned
serve(struct scene *scene)
{
    unsigned count = 0;

    test_rig_run(&scene->rig);
    while (advisor_planner_next(scene->rig.planner, &scene->order, kvt_clock_unix_ms())) {
        scene->orders++;
        count++;
        obey(scene);
        test_rig_run(&scene->rig);
    }
    return count;
}

/* Time in which what was silent expires, and is tried again. */
static void
pass_time(struct scene *scene, unsigned round)
{
    const uint64_t later_ms = kvt_clock_unix_ms() + (uint64_t)LATER_MS * (round + 1);

    advisor_planner_tick(scene->rig.planner, later_ms);
    advisor_jobs_tick(scene->rig.jobs, later_ms);
    advisor_jobs_tick(scene->rig.jobs, later_ms + LATER_MS / 10);
    test_rig_run(&scene->rig);
}

static uint64_t
demoted(const struct scene *scene)
{
    uint64_t count = 0;

    for (size_t i = 1; i <= BLOCKS; i++)
        count += scene->demoted[i] ? 1 : 0;
    return count;
}

/* ---- the tests ---- */

static void
a_job_runs_to_its_end(void **state)
{
    struct scene *scene = scene_new(ADVISOR_MODE_OBSERVE);
    const uint64_t id = submit(scene, 0, BLOCKS);
    struct advisor_job_row row;

    (void)state;
    assert_int_equal(serve(scene), (BLOCKS + KVT_ORDER_ITEMS_MAX - 1) / KVT_ORDER_ITEMS_MAX);
    row = row_of(scene, id);
    assert_int_equal(row.state, ADVISOR_JOB_DONE);
    assert_int_equal(row.done, BLOCKS);
    assert_int_equal(row.bytes_moved, BLOCKS);
    assert_true(row.finished_ms >= row.created_ms);
    assert_int_equal(demoted(scene), BLOCKS);
    scene_free(scene);
}

static void
few_orders_of_a_job_are_outstanding(void **state)
{
    struct scene *scene = scene_new(ADVISOR_MODE_ENFORCE);
    unsigned count = 0;

    (void)state;
    (void)submit(scene, 0, BLOCKS);
    test_rig_run(&scene->rig);
    while (advisor_planner_next(scene->rig.planner, &scene->order, kvt_clock_unix_ms()))
        count++;
    assert_int_equal(count, ADVISOR_JOB_ORDERS_MAX);
    test_rig_run(&scene->rig);
    assert_false(advisor_planner_next(scene->rig.planner, &scene->order, kvt_clock_unix_ms()));
    scene_free(scene);
}

/* Large blocks make small batches. */
static void
an_order_is_not_of_any_size(void **state)
{
    struct scene *scene = scene_new(ADVISOR_MODE_OBSERVE);
    struct advisor_job_moves moves = moves_of(scene, 0, 100);
    struct asking asking = {
        .scene = scene,
        .request = {.kind = "test", .title = "large", .moves = &moves, .move_count = 1}};

    (void)state;
    moves.bytes = UINT64_C(100) << 28; /* 256 MiB each */
    assert_int_equal(ask(&asking), KVT_OK);
    assert_int_equal(asking.row.batches, 25);
    assert_int_equal(serve(scene), 25);
    scene_free(scene);
}

/* Whatever fails, is lost or ends in between: in the end each block has its result. */
static void
restarts_and_losses_change_nothing(void **state)
{
    struct scene *scene = scene_new(ADVISOR_MODE_OBSERVE);
    struct advisor_job_row row;
    uint64_t id;

    (void)state;
    scene->silent_percent = 20;
    id = submit(scene, 0, BLOCKS);
    for (unsigned round = 0; round < 200; round++) {
        const unsigned steps = (unsigned)kvt_random_below(&scene->random, 6);

        for (unsigned i = 0; i < steps; i++) {
            if (advisor_planner_next(scene->rig.planner, &scene->order, kvt_clock_unix_ms()))
                obey(scene);
            advisor_engine_step(scene->rig.engine, 0);
        }
        restart(scene);
        row = row_of(scene, id);
        if (row.state == ADVISOR_JOB_DONE)
            break;
    }
    scene->silent_percent = 0;
    (void)serve(scene);
    row = row_of(scene, id);
    assert_int_equal(row.state, ADVISOR_JOB_DONE);
    assert_int_equal(row.done, BLOCKS);
    assert_int_equal(row.failed, 0);
    assert_int_equal(row.finished, row.batches);
    assert_int_equal(demoted(scene), BLOCKS);
    assert_int_equal(serve(scene), 0); /* and nothing more */
    scene_free(scene);
}

static void
a_silent_gateway_is_asked_again_and_then_given_up(void **state)
{
    struct scene *scene = scene_new(ADVISOR_MODE_OBSERVE);
    struct advisor_job_row row;
    uint64_t id;

    (void)state;
    scene->silent_percent = 100;
    id = submit(scene, 0, 10);
    for (unsigned round = 0; round < ADVISOR_JOB_ATTEMPTS_MAX; round++) {
        assert_int_equal(serve(scene), 1);
        assert_int_equal(row_of(scene, id).state, ADVISOR_JOB_RUNNING);
        pass_time(scene, round);
    }
    row = row_of(scene, id);
    assert_int_equal(row.state, ADVISOR_JOB_FAILED);
    assert_int_equal(row.failed, 10);
    assert_string_equal(row.text, "the gateway did not answer");
    scene_free(scene);
}

static void
much_that_fails_pauses_a_job(void **state)
{
    struct scene *scene = scene_new(ADVISOR_MODE_OBSERVE);
    struct advisor_job_row row;
    uint64_t id;

    (void)state;
    scene->fail_percent = 50;
    id = submit(scene, 0, BLOCKS);
    assert_int_equal(serve(scene), ADVISOR_JOB_ORDERS_MAX);
    pass_time(scene, 0); /* a second attempt at each */
    (void)serve(scene);
    row = row_of(scene, id);
    assert_int_equal(row.state, ADVISOR_JOB_PAUSED);
    assert_true(row.failed > 0 && row.done + row.failed < BLOCKS);
    assert_non_null(strstr(row.text, "pinned"));
    restart(scene);
    assert_int_equal(serve(scene), 0); /* it stays so */

    /* Somebody cured it, and all goes on; what failed is tried again when he says so. */
    scene->fail_percent = 0;
    assert_int_equal(command(scene, id, ADVISOR_JOB_RESUME), KVT_OK);
    (void)serve(scene);
    row = row_of(scene, id);
    assert_int_equal(row.state, ADVISOR_JOB_FAILED);
    assert_int_equal(row.done + row.failed, BLOCKS);
    assert_int_equal(command(scene, id, ADVISOR_JOB_RESUME), KVT_OK);
    assert_true(serve(scene) <= ADVISOR_JOB_ORDERS_MAX + 1);
    row = row_of(scene, id);
    assert_int_equal(row.state, ADVISOR_JOB_DONE);
    assert_int_equal(row.done, BLOCKS);
    assert_int_equal(row.failed, 0);
    assert_int_equal(row.finished, row.batches);
    assert_int_equal(demoted(scene), BLOCKS);
    scene_free(scene);
}

static void
people_pause_resume_and_cancel(void **state)
{
    struct scene *scene = scene_new(ADVISOR_MODE_OBSERVE);
    uint64_t id;

    (void)state;
    id = submit(scene, 0, BLOCKS);
    assert_int_equal(command(scene, id, ADVISOR_JOB_PAUSE), KVT_OK);
    (void)serve(scene); /* what was under way comes to its end */
    assert_int_equal(row_of(scene, id).state, ADVISOR_JOB_PAUSED);
    assert_true(row_of(scene, id).done <= 2 * ADVISOR_JOB_ORDERS_MAX * KVT_ORDER_ITEMS_MAX);
    restart(scene);
    assert_int_equal(serve(scene), 0);
    assert_int_equal(command(scene, id, ADVISOR_JOB_PAUSE), KVT_OK); /* it is */
    assert_int_equal(command(scene, id, ADVISOR_JOB_RESUME), KVT_OK);
    (void)serve(scene);
    assert_int_equal(row_of(scene, id).state, ADVISOR_JOB_DONE);
    assert_int_equal(command(scene, id, ADVISOR_JOB_CANCEL), KVT_PRECONDITION);
    assert_int_equal(command(scene, id, ADVISOR_JOB_RESUME), KVT_PRECONDITION);

    id = submit(scene, 0, BLOCKS);
    assert_int_equal(command(scene, id, ADVISOR_JOB_CANCEL), KVT_OK);
    restart(scene);
    assert_int_equal(serve(scene), 0);
    assert_int_equal(row_of(scene, id).state, ADVISOR_JOB_CANCELLED);
    assert_int_equal(command(scene, id, ADVISOR_JOB_RESUME), KVT_PRECONDITION);
    assert_int_equal(command(scene, id + 1, ADVISOR_JOB_CANCEL), KVT_NOTFOUND);
    scene_free(scene);
}

/* Orders that wait for the bus do not leave when somebody stopped the job meanwhile. */
static void
what_did_not_leave_is_taken_back(void **state)
{
    struct scene *scene = scene_new(ADVISOR_MODE_OBSERVE);
    uint64_t id;

    (void)state;
    id = submit(scene, 0, BLOCKS);
    test_rig_run(&scene->rig);
    assert_int_equal(command(scene, id, ADVISOR_JOB_CANCEL), KVT_OK);
    assert_int_equal(serve(scene), 0);
    assert_int_equal(demoted(scene), 0);
    assert_int_equal(row_of(scene, id).state, ADVISOR_JOB_CANCELLED);

    id = submit(scene, 0, BLOCKS);
    test_rig_run(&scene->rig);
    assert_true(advisor_planner_next(scene->rig.planner, &scene->order, kvt_clock_unix_ms()));
    assert_int_equal(command(scene, id, ADVISOR_JOB_PAUSE), KVT_OK);
    obey(scene); /* it had left */
    assert_int_equal(serve(scene), 0);
    assert_int_equal(row_of(scene, id).done, KVT_ORDER_ITEMS_MAX);
    assert_int_equal(demoted(scene), KVT_ORDER_ITEMS_MAX);
    assert_int_equal(command(scene, id, ADVISOR_JOB_RESUME), KVT_OK);
    (void)serve(scene);
    assert_int_equal(row_of(scene, id).state, ADVISOR_JOB_DONE);
    assert_int_equal(row_of(scene, id).done, BLOCKS);
    assert_int_equal(demoted(scene), BLOCKS);
    scene_free(scene);
}

static void
nothing_leaves_while_all_is_stopped(void **state)
{
    struct scene *scene = scene_new(ADVISOR_MODE_ENFORCE);
    struct asking stop = {.scene = scene, .what = 2};
    uint64_t id;

    (void)state;
    id = submit(scene, 0, BLOCKS); /* with orders that did not leave yet */
    assert_int_equal(ask(&stop), KVT_OK);
    assert_int_equal(serve(scene), 0);
    restart(scene);
    assert_true(advisor_planner_paused(scene->rig.planner));
    assert_int_equal(serve(scene), 0);
    stop.what = 3;
    assert_int_equal(ask(&stop), KVT_OK);
    assert_true(serve(scene) > 0);
    assert_int_equal(row_of(scene, id).state, ADVISOR_JOB_DONE);
    restart(scene);
    assert_false(advisor_planner_paused(scene->rig.planner));
    scene_free(scene);
}

static void
a_job_waits_while_the_mode_is_off(void **state)
{
    struct scene *scene = scene_new(ADVISOR_MODE_OFF);
    const uint64_t id = submit(scene, 0, 100);

    (void)state;
    assert_int_equal(serve(scene), 0);
    assert_int_equal(row_of(scene, id).state, ADVISOR_JOB_QUEUED);
    assert_int_equal(advisor_planner_set_mode(scene->rig.planner, ADVISOR_MODE_OBSERVE), KVT_OK);
    assert_int_equal(serve(scene), 1);
    assert_int_equal(row_of(scene, id).state, ADVISOR_JOB_DONE);
    scene_free(scene);
}

static void
a_job_in_parts_begins_when_it_is_whole(void **state)
{
    struct scene *scene = scene_new(ADVISOR_MODE_OBSERVE);
    struct advisor_job_moves moves = moves_of(scene, 0, 3000);
    struct asking asking = {.scene = scene,
                            .request = {.kind = "plan",
                                        .title = "parts",
                                        .key = "k",
                                        .more = true,
                                        .moves = &moves,
                                        .move_count = 1}};
    uint64_t id;

    (void)state;
    assert_int_equal(ask(&asking), KVT_OK);
    id = asking.row.id;
    assert_int_equal(serve(scene), 0);
    restart(scene); /* and whoever gave it begins anew */
    assert_int_equal(ask(&asking), KVT_OK);
    assert_int_equal(asking.row.id, id);
    assert_int_equal(asking.row.parts, 1);
    asking.request.part = 2;
    assert_int_equal(ask(&asking), KVT_RANGE);
    asking.request.part = 1;
    asking.request.more = false;
    moves = moves_of(scene, 3000, 3000);
    assert_int_equal(ask(&asking), KVT_OK);
    assert_int_equal(asking.row.blocks, BLOCKS);
    assert_int_equal(asking.row.state, ADVISOR_JOB_QUEUED);
    assert_int_equal(ask(&asking), KVT_OK); /* said twice, done once */
    (void)serve(scene);
    assert_int_equal(row_of(scene, id).state, ADVISOR_JOB_DONE);
    assert_int_equal(row_of(scene, id).done, BLOCKS);
    asking.request.part = 0;
    assert_int_equal(ask(&asking), KVT_OK);
    assert_int_equal(asking.row.state, ADVISOR_JOB_DONE);
    assert_int_equal(serve(scene), 0);
    scene_free(scene);
}

/* Whoever was to give the rest is gone for good. */
static void
a_job_that_never_becomes_whole_ends(void **state)
{
    struct scene *scene = scene_new(ADVISOR_MODE_OBSERVE);
    const struct advisor_job_moves moves = moves_of(scene, 0, 10);
    struct asking asking = {.scene = scene,
                            .request = {.kind = "plan",
                                        .title = "half",
                                        .key = "k",
                                        .more = true,
                                        .moves = &moves,
                                        .move_count = 1}};
    const uint64_t now_ms = kvt_clock_unix_ms();

    (void)state;
    assert_int_equal(ask(&asking), KVT_OK);
    advisor_jobs_tick(scene->rig.jobs, now_ms + ADVISOR_JOB_FILLING_MS / 2);
    test_rig_run(&scene->rig);
    assert_int_equal(row_of(scene, asking.row.id).state, ADVISOR_JOB_FILLING);
    advisor_jobs_tick(scene->rig.jobs, now_ms + ADVISOR_JOB_FILLING_MS + 1000);
    assert_int_equal(serve(scene), 0);
    assert_int_equal(row_of(scene, asking.row.id).state, ADVISOR_JOB_CANCELLED);
    scene_free(scene);
}

static void
what_makes_no_sense_is_refused(void **state)
{
    struct scene *scene = scene_new(ADVISOR_MODE_OBSERVE);
    const struct advisor_job_moves good = moves_of(scene, 0, 1);
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
    scene_free(scene);
}

static void
many_jobs_are_bounded(void **state)
{
    struct scene *scene = scene_new(ADVISOR_MODE_OFF);
    const struct advisor_job_moves moves = moves_of(scene, 0, 1);
    struct asking asking = {
        .scene = scene,
        .request = {.kind = "test", .title = "one more", .moves = &moves, .move_count = 1}};
    uint64_t first = 0;
    struct advisor_job_row row;
    struct advisor_txn txn;

    (void)state;
    for (int i = 0; i < ADVISOR_JOBS_OPEN_MAX; i++) {
        const uint64_t id = submit(scene, 0, 1);

        first = first == 0 ? id : first;
    }
    assert_int_equal(ask(&asking), KVT_FULL);
    assert_int_equal(advisor_planner_set_mode(scene->rig.planner, ADVISOR_MODE_OBSERVE), KVT_OK);
    (void)serve(scene);
    for (int i = 0; i < ADVISOR_JOBS_KEPT; i++) {
        (void)submit(scene, 0, 1);
        (void)serve(scene);
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
    restart(scene);
    assert_int_equal(submit(scene, 0, 1), first + ADVISOR_JOBS_OPEN_MAX + ADVISOR_JOBS_KEPT);
    scene_free(scene);
}

/* Events come first: a job that would fill the store is not taken. */
static void
the_store_keeps_room(void **state)
{
    struct scene *scene = scene_new(ADVISOR_MODE_OFF);
    const size_t count = 900000;
    struct kvt_order_item *items = kvt_calloc(count, sizeof(*items));
    struct advisor_job_moves moves = moves_of(scene, 0, 1);
    struct asking asking = {
        .scene = scene,
        .request = {.kind = "test", .title = "huge", .moves = &moves, .move_count = 1}};

    (void)state;
    assert_non_null(items);
    for (size_t i = 0; i < count; i++)
        items[i] = (struct kvt_order_item){.block = {.hash = i + 1}, .ranks = 1};
    moves.items = items;
    moves.count = count;
    assert_int_equal(ask(&asking), KVT_FULL);
    assert_non_null(strstr(asking.err.text, "db.max"));
    kvt_free(items);
    scene_free(scene);
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

/* ---- what failed ---- */

/* The gateway says how many, and of the first why; the index says which. */
static void
failures_are_named(void **state)
{
    struct scene *scene = scene_new(ADVISOR_MODE_OBSERVE);
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
    id = submit(scene, 0, 20);
    test_rig_run(&scene->rig);
    /* 3 and 7 stay where they are, twice. */
    for (int attempt = 0; attempt < 2; attempt++) {
        assert_true(advisor_planner_next(scene->rig.planner, &scene->order, kvt_clock_unix_ms()));
        result.epoch = scene->order.epoch;
        result.id = scene->order.id;
        result.done = 18;
        result.failed = 2;
        report(scene, &result);
        pass_time(scene, 0);
    }
    batch.first_seq = 21;
    batch.event_count = 0;
    for (uint32_t i = 0; i < 20; i++)
        if (i + 1 != 3 && i + 1 != 7)
            events[batch.event_count++] =
                (struct kvt_event){.type = KVT_EVENT_REMOVE, .sequence_hash = i + 1, .ranks = 1};
    test_rig_batch(&scene->rig, 2, &batch);
    test_rig_run(&scene->rig);
    row = row_of(scene, id);
    assert_int_equal(row.state, ADVISOR_JOB_FAILED);
    assert_int_equal(row.failed, 2);
    kvt_buffer_init(&out, 1u << 16);
    assert_int_equal(advisor_store_read(scene->rig.store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_http_failures(&out, &txn, &row), KVT_OK);
    advisor_store_end(&txn);
    assert_string_equal(
        kvt_buffer_text(&out),
        "{\"batch\":0,\"verb\":\"demote\",\"gateway\":\"gw0\",\"namespace\":\"ns\",\"blocks\":20,"
        "\"done\":18,\"failed\":2,\"attempts\":2,\"text\":\"0/0:k: pinned\","
        "\"hashes\":[\"0000000000000003\",\"0000000000000007\"]}");
    kvt_buffer_release(&out);
    scene_free(scene);
}

/* ---- memory ---- */

static void
every_allocation_may_fail(void **state)
{
    struct scene *scene = scene_new(ADVISOR_MODE_OBSERVE);
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
    id = submit(scene, 0, 3 * KVT_ORDER_ITEMS_MAX);
    restart(scene);
    for (n = 0; n < 20; n++) {
        kvt_alloc_fail_after(n);
        advisor_jobs_tick(scene->rig.jobs, kvt_clock_unix_ms());
        kvt_alloc_fail_after(SIZE_MAX);
    }
    (void)serve(scene);
    assert_int_equal(row_of(scene, id).state, ADVISOR_JOB_DONE);
    assert_int_equal(row_of(scene, id).done, 3 * KVT_ORDER_ITEMS_MAX);
    scene_free(scene);
}

/* What passes stops no job. */
static void
a_job_waits_while_it_cannot_be_read(void **state)
{
    enum { READERS_MAX = 4096 };
    struct scene *scene = scene_new(ADVISOR_MODE_OFF);
    struct advisor_txn *readers = kvt_calloc(READERS_MAX, sizeof(*readers));
    const uint64_t id = submit(scene, 0, 10);
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
    (void)serve(scene);
    assert_int_equal(row_of(scene, id).state, ADVISOR_JOB_DONE);
    scene_free(scene);
}

/* What is gone does not come back: a person is to look. */
static void
a_job_without_its_moves_is_paused(void **state)
{
    struct scene *scene = scene_new(ADVISOR_MODE_OFF);
    const uint64_t id = submit(scene, 0, 10);
    struct advisor_job_row row = row_of(scene, id);
    struct advisor_txn txn;

    (void)state;
    assert_int_equal(advisor_store_write(scene->rig.store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_store_delete_job(&txn, id, row.batches), KVT_OK);
    assert_int_equal(advisor_store_put_job(&txn, &row), KVT_OK);
    assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
    assert_int_equal(advisor_planner_set_mode(scene->rig.planner, ADVISOR_MODE_OBSERVE), KVT_OK);
    assert_int_equal(serve(scene), 0);
    row = row_of(scene, id);
    assert_int_equal(row.state, ADVISOR_JOB_PAUSED);
    assert_non_null(strstr(row.text, "cannot be read"));
    scene_free(scene);
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
    struct scene *scene = scene_new(ADVISOR_MODE_OBSERVE);
    struct advisor_jobs *jobs = scene->rig.jobs;
    const struct advisor_job_moves moves = moves_of(scene, 0, 10);
    struct asking asking = {
        .scene = scene,
        .request = {.kind = "test", .title = "some", .moves = &moves, .move_count = 1}};
    size_t n = 0;

    (void)state;
    do {
        pthread_t thread;

        assert_true(n < 10);
        atomic_store(&asking.done, false);
        assert_int_equal(pthread_create(&thread, NULL, ask_main, &asking), 0);
        while (!is_queued(jobs))
            kvt_clock_sleep_ms(1);
        kvt_alloc_fail_after(n++);
        advisor_jobs_take(jobs, kvt_clock_unix_ms());
        kvt_alloc_fail_after(SIZE_MAX);
        assert_int_equal(jobs->count, jobs->taken == NULL ? 0 : 1);
        while (!atomic_load(&asking.done)) {
            advisor_engine_step(scene->rig.engine, 0);
            kvt_clock_sleep_ms(1);
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
    } while (asking.rc == KVT_NOMEM);
    assert_int_equal(asking.rc, KVT_OK);
    assert_true(n > 2);
    (void)serve(scene);
    assert_int_equal(row_of(scene, asking.row.id).state, ADVISOR_JOB_DONE);
    scene_free(scene);
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
        cmocka_unit_test(failures_are_named),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(what_was_not_taken_is_not_there),
        cmocka_unit_test(a_job_waits_while_it_cannot_be_read),
        cmocka_unit_test(a_job_without_its_moves_is_paused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
