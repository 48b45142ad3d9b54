#include "tests/unit/advisor/support/job_scene.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"

#include "tests/support/seed.h"

enum { LATER_MS = 700000 };

static void
open_rig(struct test_job_scene *scene, enum advisor_mode mode)
{
    const struct test_rig_options options = {.path = scene->folder, .mode = mode};

    test_rig_open(&scene->rig, &options);
}

struct test_job_scene *
test_job_scene_new(enum advisor_mode mode)
{
    struct test_job_scene *scene = kvt_calloc(1, sizeof(*scene));

    assert_non_null(scene);
    (void)test_folder_make(scene->folder, sizeof(scene->folder));
    scene->random = test_seed();
    for (uint32_t i = 0; i < TEST_JOB_BLOCKS; i++)
        scene->items[i] =
            (struct kvt_order_item){.block = {.hash = i + 1, .position = i}, .ranks = 1};
    open_rig(scene, mode);
    return scene;
}

void
test_job_scene_free(struct test_job_scene *scene)
{
    test_rig_close(&scene->rig);
    test_folder_remove(scene->folder);
    kvt_free(scene);
}

/* As after kill -9: nothing but the store is left. */
void
test_job_restart(struct test_job_scene *scene)
{
    test_rig_close(&scene->rig);
    open_rig(scene, ADVISOR_MODE_OBSERVE);
}

/* ---- asking, while the engine goes on ---- */

void *
test_job_ask_main(void *arg)
{
    struct test_job_asking *asking = arg;
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

enum kvt_err
test_job_ask(struct test_job_asking *asking)
{
    pthread_t thread;

    atomic_store(&asking->done, false);
    assert_int_equal(pthread_create(&thread, NULL, test_job_ask_main, asking), 0);
    while (!atomic_load(&asking->done)) {
        advisor_round_step(asking->scene->rig.engine, 0);
        kvt_clock_sleep_ms(1);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    return asking->rc;
}

struct advisor_job_moves
test_job_moves_of(const struct test_job_scene *scene, size_t from, size_t count)
{
    return (struct advisor_job_moves){.verb = KVT_ORDER_DEMOTE,
                                      .gateway = "gw0",
                                      .namespace_ = "ns",
                                      .bytes = count * 10,
                                      .items = scene->items + from,
                                      .count = count};
}

uint64_t
test_job_submit(struct test_job_scene *scene, size_t from, size_t count)
{
    const struct advisor_job_moves moves = test_job_moves_of(scene, from, count);
    struct test_job_asking asking = {
        .scene = scene,
        .request = {.kind = "test", .title = "some blocks", .moves = &moves, .move_count = 1}};

    assert_int_equal(test_job_ask(&asking), KVT_OK);
    assert_int_equal(asking.row.blocks, count);
    return asking.row.id;
}

enum kvt_err
test_job_command(struct test_job_scene *scene, uint64_t id, enum advisor_job_command what)
{
    struct test_job_asking asking = {.scene = scene, .what = 1, .id = id, .command = what};

    return test_job_ask(&asking);
}

struct advisor_job_row
test_job_row_of(struct test_job_scene *scene, uint64_t id)
{
    struct advisor_job_row row;
    struct advisor_txn txn;

    assert_int_equal(advisor_store_read(scene->rig.store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_store_job(&txn, id, &row), KVT_OK);
    advisor_store_end(&txn);
    return row;
}

/* ---- the gateway ---- */

void
test_job_report(struct test_job_scene *scene, struct kvt_order_result *result)
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
void
test_job_obey(struct test_job_scene *scene)
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
        test_job_report(scene, &result);
}

/* Take orders until there is none; each is obeyed.  Returns how many. */
unsigned
test_job_serve(struct test_job_scene *scene)
{
    unsigned count = 0;

    test_rig_run(&scene->rig);
    while (advisor_planner_next(scene->rig.planner, &scene->order, kvt_clock_unix_ms())) {
        scene->orders++;
        count++;
        test_job_obey(scene);
        test_rig_run(&scene->rig);
    }
    return count;
}

/* Time in which what was silent expires, and is tried again. */
void
test_job_pass_time(struct test_job_scene *scene, unsigned round)
{
    const uint64_t later_ms = kvt_clock_unix_ms() + (uint64_t)LATER_MS * (round + 1);

    advisor_planner_tick(scene->rig.planner, later_ms);
    advisor_jobs_tick(scene->rig.jobs, later_ms);
    advisor_jobs_tick(scene->rig.jobs, later_ms + LATER_MS / 10);
    test_rig_run(&scene->rig);
}

uint64_t
test_job_demoted(const struct test_job_scene *scene)
{
    uint64_t count = 0;

    for (size_t i = 1; i <= TEST_JOB_BLOCKS; i++)
        count += scene->demoted[i] ? 1 : 0;
    return count;
}
