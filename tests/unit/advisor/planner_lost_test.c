/*
 * What is tested: advisor/planner_lost.c: rules with `on: last_holder_removed` and with
 * `on: session_end` are asked once about each block that the last worker let go of, and no other.
 * How: workers that store and remove, a gateway that does at once what it is told, and a clock of
 * the test's.
 */
#include <stdio.h>

#include "tests/support/seed.h"
#include "tests/unit/advisor/obedient.h"

#define HEAD     "version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\n"
#define ENFORCED "modes: {mode: enforce}\n"

enum { CHAIN = 10, BLOCKS = 200, SECOND = 1000, WORKERS = 2 };

struct scene {
    struct obedient *gateway;
    uint64_t seq[WORKERS];
    uint32_t told[OBEDIENT_BLOCKS]; /* orders that named the block */
};

static void
look(void *arg, const struct kvt_order *order, size_t block)
{
    struct scene *scene = arg;

    assert_int_equal(order->verb, KVT_ORDER_DEMOTE);
    scene->told[block]++;
}

static void
run(struct scene *scene)
{
    for (int i = 0; i < 4; i++)
        (void)obedient_step(scene->gateway, SECOND);
}

/* Blocks come to a worker's host memory, or go. */
static void
work(struct scene *scene, int worker, uint32_t from, uint32_t to, bool store)
{
    struct obedient *gateway = scene->gateway;
    struct kvt_event_batch batch = {.incarnation = 1,
                                    .first_seq = scene->seq[worker] + 1,
                                    .time_ms = gateway->now_ms,
                                    .location_count = 1,
                                    .events = gateway->events};

    (void)snprintf(batch.worker, sizeof(batch.worker), "w%d", worker);
    (void)snprintf(batch.namespace_, sizeof(batch.namespace_), "%s", obedient_owners[0]);
    batch.locations[0].tier = KVT_TIER_G2;
    (void)snprintf(batch.locations[0].name, sizeof(batch.locations[0].name), "w%d", worker);
    for (uint32_t i = from; i < to; i++)
        gateway->events[batch.event_count++] =
            (struct kvt_event){.type = store ? KVT_EVENT_STORE : KVT_EVENT_REMOVE,
                               .sequence_hash = i + 1,
                               .parent = gateway->parent[i],
                               .position = gateway->depth[i],
                               .block_size = OBEDIENT_SIZE,
                               .ranks = 1};
    scene->seq[worker] += batch.event_count;
    test_rig_batch(&gateway->rig, ++gateway->stream_seq, &batch);
    test_rig_run(&gateway->rig);
}

/* BLOCKS in both tiers, and at worker 0. */
static void
begin(struct scene *scene, const char *policy)
{
    *scene = (struct scene){.gateway = obedient_new(policy, NULL, CHAIN)};
    scene->gateway->capacity[OBEDIENT_HOT] = (uint64_t)OBEDIENT_BLOCKS * OBEDIENT_SIZE;
    scene->gateway->look = look;
    scene->gateway->arg = scene;
    work(scene, 0, 0, BLOCKS, true);
    obedient_store(scene->gateway, OBEDIENT_COLD, 0, BLOCKS);
    obedient_store(scene->gateway, OBEDIENT_HOT, 0, BLOCKS);
    run(scene);
    assert_int_equal(scene->gateway->orders, 0);
}

static void
told_are(const struct scene *scene, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < BLOCKS; i++)
        assert_int_equal(scene->told[i], i >= from && i < to);
}

static void
what_the_last_worker_let_go_of(void **state)
{
    static struct scene scene;

    (void)state;
    begin(&scene, HEAD "rules:\n"
                       "  - {id: gone, from: hot, to: cold, on: last_holder_removed}\n" ENFORCED);
    work(&scene, 1, 20, 60, true);
    work(&scene, 0, 0, 40, false);
    run(&scene);
    told_are(&scene, 0, 20); /* the other worker has the others */
    /* Both in one group: it is one event. */
    work(&scene, 1, 20, 60, false);
    run(&scene);
    told_are(&scene, 0, 40); /* 40 to 60 are worker 0's */
    /* What is not in the volume is nobody's business. */
    work(&scene, 0, 0, 40, true);
    work(&scene, 0, 0, 40, false);
    run(&scene);
    told_are(&scene, 0, 40);
    obedient_free(scene.gateway);
}

static void
where_nobody_can_go_on(void **state)
{
    static struct scene scene;

    (void)state;
    begin(&scene, HEAD "rules:\n"
                       "  - {id: over, from: hot, to: cold, on: session_end}\n" ENFORCED);
    /* The middle of a chain is let go of: what comes behind it is still there. */
    work(&scene, 0, 2, 5, false);
    run(&scene);
    told_are(&scene, 0, 0);
    /* Then its end: with it goes what was kept for it alone. */
    work(&scene, 0, 5, 10, false);
    run(&scene);
    told_are(&scene, 2, 10);
    work(&scene, 0, 0, 2, false);
    run(&scene);
    told_are(&scene, 0, 10);
    /* Another worker goes on from there. */
    work(&scene, 1, 10, 20, true);
    work(&scene, 0, 10, 20, false);
    run(&scene);
    told_are(&scene, 0, 10);
    work(&scene, 1, 10, 20, false);
    run(&scene);
    told_are(&scene, 0, 20);
    obedient_free(scene.gateway);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_last_worker_let_go_of),
        cmocka_unit_test(where_nobody_can_go_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
