/*
 * What is tested: advisor/job/jobs_tiers.c: a plan that is applied and the rules in force do not
 * empty the same tier at once; other jobs have it for a while; a plan without progress holds
 * nobody up for ever; what a job moved is counted once (advisor/order/order_ledger.c).
 * How: a gateway that does at once what it is told; deletions are counted against the plan.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/job/jobs_private.h"
#include "advisor/order/traffic.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/job_scene.h"
#include "tests/unit/advisor/support/obedient_gateway.h"

#define RULES                                                                                      \
    "version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\ndefaults: {order_by: lru}\n"     \
    "rules:\n"                                                                                     \
    "  - {id: forget, in: cold, do: expire, when: depth > 5}\n"                                    \
    "  - {id: drain-cold, in: cold, do: expire, trigger: {start: 55%, stop: 50%}}\n"               \
    "modes: {mode: enforce}\n"
/* The same without a pass over the rows. */
#define DRAINS                                                                                     \
    "version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\ndefaults: {order_by: lru}\n"     \
    "rules:\n"                                                                                     \
    "  - {id: drain-cold, in: cold, do: expire, trigger: {start: 55%, stop: 50%}}\n"               \
    "modes: {mode: enforce}\n"

enum { BLOCKS = 3000, CHAIN = 10, PLANNED = 1280, SECOND = 1000 };

/* The bucket is full, and a policy is in force that wants it half full. */
static struct obedient *
full(const char *policy)
{
    struct obedient *gateway = obedient_new(policy, NULL, CHAIN);

    gateway->now_ms = kvt_clock_unix_ms();
    gateway->capacity[OBEDIENT_COLD] = (uint64_t)BLOCKS * OBEDIENT_SIZE;
    return gateway;
}

/* Blocks [from, to) are to be deleted.  What is asked is taken by the engine. */
static uint64_t
submit(struct obedient *gateway, const char *kind, uint32_t from, uint32_t to, uint32_t part,
       bool more)
{
    struct test_job_scene *scene = kvt_calloc(1, sizeof(*scene));
    struct kvt_order_item *items = kvt_calloc(to - from + 1, sizeof(*items));
    const struct advisor_job_moves moves = {.verb = KVT_ORDER_DELETE,
                                            .gateway = "gw0",
                                            .namespace_ = "acme/llama",
                                            .bytes = (uint64_t)(to - from) * OBEDIENT_SIZE,
                                            .items = items,
                                            .count = to - from};
    struct test_job_asking asking = {.scene = scene,
                                     .request = {.kind = kind,
                                                 .title = "test",
                                                 .key = "key",
                                                 .part = part,
                                                 .more = more,
                                                 .moves = &moves,
                                                 .move_count = to > from ? 1 : 0}};
    uint64_t id;

    assert_true(scene != NULL && items != NULL);
    for (uint32_t i = from; i < to; i++)
        items[i - from] = (struct kvt_order_item){
            .block = {.hash = i + 1, .parent = gateway->parent[i], .position = gateway->depth[i]},
            .ranks = 1};
    scene->rig = gateway->rig; /* borrowed */
    assert_int_equal(test_job_ask(&asking), KVT_OK);
    id = asking.row.id;
    kvt_free(items);
    kvt_free(scene);
    return id;
}

static size_t
cold(const struct obedient *gateway)
{
    return obedient_used(gateway, OBEDIENT_COLD) / OBEDIENT_SIZE;
}

static uint64_t
expect_job(struct obedient *gateway, uint64_t id, enum advisor_job_state state)
{
    const struct advisor_job *job = advisor_jobs_find(gateway->rig.jobs, id);

    assert_non_null(job);
    assert_int_equal(job->row.state, state);
    return job->row.done;
}

/* The gateway and its tiers are known; from the next step on the bucket is too full. */
static void
hear(struct obedient *gateway)
{
    const uint64_t capacity = gateway->capacity[OBEDIENT_COLD];

    obedient_store(gateway, OBEDIENT_COLD, 0, BLOCKS);
    gateway->capacity[OBEDIENT_COLD] = 0;
    (void)obedient_step(gateway, 0);
    gateway->capacity[OBEDIENT_COLD] = capacity;
}

static void
a_plan_deletes_what_it_says(void **state)
{
    struct obedient *gateway = full(RULES);
    uint64_t id;

    (void)state;
    hear(gateway);
    id = submit(gateway, "plan", 0, PLANNED, 0, true);
    obedient_run(gateway, 20, SECOND); /* the policy is in force, and the plan is not whole */
    assert_int_equal(cold(gateway), BLOCKS);
    (void)submit(gateway, "plan", 0, 0, 1, false);
    for (int i = 0; i < 20 && cold(gateway) > BLOCKS - PLANNED; i++)
        obedient_run(gateway, 1, SECOND / 10);
    /* Nothing twice, and nothing besides, though the rules wanted more all the time. */
    assert_int_equal(gateway->moved[KVT_ORDER_DELETE], PLANNED);
    assert_int_equal(cold(gateway), BLOCKS - PLANNED);
    assert_int_equal(expect_job(gateway, id, ADVISOR_JOB_DONE), PLANNED);
    obedient_run(gateway, 60,
                 SECOND); /* and then they have it: to the stop, and the pass over the rows */
    assert_true(cold(gateway) < BLOCKS - PLANNED);
    for (size_t i = PLANNED; i < BLOCKS; i++)
        assert_true(i % CHAIN <= 5 || !gateway->held[OBEDIENT_COLD][i]);
    obedient_free(gateway);
}

static void
the_tier_ends_at_its_stop(void **state)
{
    struct obedient *gateway = full(DRAINS);

    (void)state;
    hear(gateway);
    (void)submit(gateway, "plan", 0, PLANNED, 0, true);
    (void)submit(gateway, "plan", 0, 0, 1, false);
    obedient_run(gateway, 60, SECOND);
    assert_int_equal(gateway->moved[KVT_ORDER_DELETE], BLOCKS / 2);
    assert_int_equal(cold(gateway), BLOCKS / 2);
    obedient_free(gateway);
}

/* A plan that nobody completes. */
static void
without_progress_the_rules_go_on(void **state)
{
    struct obedient *gateway = full(DRAINS);
    uint64_t id;

    (void)state;
    hear(gateway);
    id = submit(gateway, "plan", 0, 100, 0, true);
    obedient_run(gateway, 20, SECOND);
    assert_int_equal(cold(gateway), BLOCKS);
    advisor_jobs_find(gateway->rig.jobs, id)->progress_ms -= ADVISOR_JOB_HOLD_MS;
    obedient_run(gateway, 20, SECOND);
    assert_int_equal(cold(gateway), BLOCKS / 2);
    assert_int_equal(expect_job(gateway, id, ADVISOR_JOB_FILLING), 0);
    obedient_free(gateway);
}

/* One that was stopped by somebody keeps the rules out as long, and no longer. */
static void
a_paused_plan_holds_for_a_while(void **state)
{
    struct obedient *gateway = full(DRAINS);
    struct advisor_job *job;
    uint64_t id;

    (void)state;
    hear(gateway);
    id = submit(gateway, "plan", 0, 100, 0, true);
    job = advisor_jobs_find(gateway->rig.jobs, id);
    job->row.state = ADVISOR_JOB_PAUSED;
    advisor_planner_set_paused(gateway->rig.planner, true);
    job->progress_ms -= ADVISOR_JOB_HOLD_MS;
    obedient_run(gateway, 5, SECOND); /* while all is stopped no time passes */
    advisor_planner_set_paused(gateway->rig.planner, false);
    obedient_run(gateway, 20, SECOND);
    assert_int_equal(cold(gateway), BLOCKS);
    job->progress_ms -= ADVISOR_JOB_HOLD_MS;
    obedient_run(gateway, 20, SECOND);
    assert_int_equal(cold(gateway), BLOCKS / 2);
    obedient_free(gateway);
}

/* What a restart reads says the same. */
static void
an_open_plan_holds_after_a_restart(void **state)
{
    struct obedient *gateway = full(DRAINS);
    struct advisor_txn txn;
    uint64_t id;

    (void)state;
    hear(gateway);
    id = submit(gateway, "plan", 0, PLANNED, 0, true);
    obedient_run(gateway, 1, SECOND);
    memset(advisor_jobs_find(gateway->rig.jobs, id)->places, 0, ADVISOR_GATEWAYS_MAX);
    assert_int_equal(advisor_store_read(gateway->rig.store, &txn, NULL), KVT_OK);
    advisor_jobs_load_places(gateway->rig.jobs, &txn);
    advisor_store_end(&txn);
    obedient_run(gateway, 20, SECOND);
    assert_int_equal(cold(gateway), BLOCKS);
    obedient_free(gateway);
}

/* A job of another kind: while its orders are outstanding the tier waits, but not for ever. */
static void
rules_wait_for_orders_of_jobs(void **state)
{
    struct obedient *gateway = full(DRAINS);
    struct advisor_tier *tier;

    (void)state;
    hear(gateway);
    obedient_run(gateway, 1, 0); /* heard of: the drain begins */
    obedient_run(gateway, 5, SECOND);
    assert_int_equal(cold(gateway), BLOCKS / 2);
    obedient_store(gateway, OBEDIENT_COLD, 0, BLOCKS);
    tier = &gateway->rig.planner->tiers[gateway->rig.planner->gateways[0].cold];
    (void)submit(gateway, "prefix", 0, 200, 0, false);
    test_rig_run(&gateway->rig);
    assert_int_equal(tier->job_leaving, 1);
    gateway->now_ms += 4 * SECOND;
    obedient_run(gateway, 1, SECOND);
    assert_int_equal(gateway->moved[KVT_ORDER_DELETE], BLOCKS / 2 + 200); /* the job's alone */
    obedient_run(gateway, 2, SECOND);
    assert_int_equal(gateway->moved[KVT_ORDER_DELETE], BLOCKS / 2 + 200);
    obedient_run(gateway, 10, SECOND);
    assert_int_equal(tier->job_leaving, 0);
    assert_int_equal(cold(gateway), BLOCKS / 2);
    /* As if there were always another order. */
    obedient_store(gateway, OBEDIENT_COLD, 0, BLOCKS);
    tier->job_leaving++;
    obedient_run(gateway, 50, SECOND);
    assert_int_equal(cold(gateway), BLOCKS);
    obedient_run(gateway, 30, SECOND);
    assert_int_equal(cold(gateway), BLOCKS / 2);
    obedient_free(gateway);
}

/* A part fails and all of it is ordered again: what was moved before is not moved once more. */
static void
what_is_moved_is_counted_once(void **state)
{
    struct obedient *gateway = full(DRAINS);
    struct advisor_traffic_view *view = kvt_calloc(1, sizeof(*view));
    struct advisor_traffic *tally;

    (void)state;
    assert_non_null(view);
    assert_int_equal(advisor_traffic_new(&tally, gateway->rig.metrics), KVT_OK);
    gateway->rig.planner->options.traffic = tally;
    obedient_store(gateway, OBEDIENT_COLD, 0, 100);
    gateway->pinned[7] = true;
    (void)submit(gateway, "prefix", 0, 120, 0, false); /* 20 of them are not there */
    obedient_run(gateway, 2, SECOND);
    gateway->pinned[7] = false;
    advisor_jobs_tick(gateway->rig.jobs, kvt_clock_unix_ms() + (uint64_t)60 * SECOND);
    obedient_run(gateway, 2, SECOND);
    assert_int_equal(gateway->orders, 2);
    assert_int_equal(cold(gateway), 0);
    advisor_traffic_look(tally, kvt_clock_unix_ms(), view);
    assert_int_equal(view->moves[KVT_ORDER_DELETE].blocks, 120);
    assert_int_equal(view->moves[KVT_ORDER_DELETE].bytes, 100 * OBEDIENT_SIZE);
    gateway->rig.planner->options.traffic = NULL;
    advisor_traffic_free(tally);
    kvt_free(view);
    obedient_free(gateway);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_deletes_what_it_says),
        cmocka_unit_test(the_tier_ends_at_its_stop),
        cmocka_unit_test(without_progress_the_rules_go_on),
        cmocka_unit_test(a_paused_plan_holds_for_a_while),
        cmocka_unit_test(an_open_plan_holds_after_a_restart),
        cmocka_unit_test(rules_wait_for_orders_of_jobs),
        cmocka_unit_test(what_is_moved_is_counted_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
