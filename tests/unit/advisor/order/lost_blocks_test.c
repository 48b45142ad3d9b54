/*
 * What is tested: advisor/order/lost_blocks.c: rules with `on: last_holder_removed` and with
 * `on: session_end` are asked once about each block that the last worker let go of, or left with,
 * and no other; and workers that leave with many are gone through a bounded piece a round.
 * How: workers that store, remove and leave, a gateway that does at once what it is told, and a
 * clock of the test's; in the end at random, beside a model that asks of each block who has it.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/order/planner_private.h"
#include "advisor/selection/active_rules.h"
#include "base/core/random.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/obedient_gateway.h"

#define HEAD     "version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\n"
#define ENFORCED "modes: {mode: enforce}\n"

enum { CHAIN = 10, BLOCKS = 200, SECOND = 1000, WORKERS = 3 };

struct scene {
    struct obedient *gateway;
    uint64_t seq[WORKERS];
    uint64_t life[WORKERS];         /* incarnation, less one */
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

/* A message of a worker, without events. */
static struct kvt_event_batch
message(const struct scene *scene, int worker)
{
    struct obedient *gateway = scene->gateway;
    struct kvt_event_batch batch = {.incarnation = scene->life[worker] + 1,
                                    .first_seq = scene->seq[worker] + 1,
                                    .time_ms = gateway->now_ms,
                                    .location_count = 1,
                                    .events = gateway->events};

    (void)snprintf(batch.worker, sizeof(batch.worker), "w%d", worker);
    (void)snprintf(batch.namespace_, sizeof(batch.namespace_), "%s", obedient_owners[0]);
    batch.locations[0].tier = KVT_TIER_G2;
    (void)snprintf(batch.locations[0].name, sizeof(batch.locations[0].name), "w%d", worker);
    return batch;
}

/* Blocks come to a worker's host memory, or go. */
static void
work(struct scene *scene, int worker, uint32_t from, uint32_t to, bool store)
{
    struct obedient *gateway = scene->gateway;
    struct kvt_event_batch batch = message(scene, worker);

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

/* All that a worker has goes at once: it began anew, or says that it is empty. */
static void
leave(struct scene *scene, int worker, bool anew)
{
    struct kvt_event_batch batch;

    if (anew) {
        scene->life[worker]++;
        scene->seq[worker] = 0;
    }
    batch = message(scene, worker);
    if (!anew)
        batch.events[batch.event_count++] = (struct kvt_event){.type = KVT_EVENT_CLEAR};
    scene->seq[worker] += batch.event_count;
    test_rig_batch(&scene->gateway->rig, ++scene->gateway->stream_seq, &batch);
    test_rig_run(&scene->gateway->rig);
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

/* Both events happen to a block at once: it is ordered, and counted, once. */
static void
one_rule_on_both(void **state)
{
    static struct scene scene;
    struct advisor_rule_view view;

    (void)state;
    begin(&scene, HEAD "rules:\n"
                       "  - {id: both, from: hot, to: cold,\n"
                       "     on: [last_holder_removed, session_end]}\n" ENFORCED);
    work(&scene, 0, 0, 2 * CHAIN, false);
    run(&scene);
    told_are(&scene, 0, 2 * CHAIN);
    assert_int_equal(advisor_planner_rules(scene.gateway->rig.planner, &view, 1), 1);
    assert_int_equal(view.ordered, 2 * CHAIN);
    obedient_free(scene.gateway);
}

/* Of two rules the one of the event that was told first has the block. */
static void
a_rule_on_each(void **state)
{
    static struct scene scene;
    struct advisor_rule_view views[2];

    (void)state;
    begin(&scene, HEAD "rules:\n"
                       "  - {id: over, from: hot, to: cold, on: session_end}\n"
                       "  - {id: gone, from: hot, to: cold, on: last_holder_removed}\n" ENFORCED);
    work(&scene, 0, 0, CHAIN, false);
    run(&scene);
    told_are(&scene, 0, CHAIN);
    assert_int_equal(advisor_planner_rules(scene.gateway->rig.planner, views, 2), 2);
    assert_int_equal(views[0].ordered + views[1].ordered, CHAIN);
    obedient_free(scene.gateway);
}

static void
who_leaves_as_a_whole(void **state)
{
    static struct scene scene;

    (void)state;
    for (int anew = 0; anew < 2; anew++) {
        begin(&scene,
              HEAD "rules:\n"
                   "  - {id: gone, from: hot, to: cold, on: last_holder_removed}\n" ENFORCED);
        work(&scene, 1, 20, 60, true);
        leave(&scene, 0, anew != 0);
        for (int i = 0; i < 2; i++)
            run(&scene);
        for (uint32_t i = 0; i < BLOCKS; i++)
            assert_int_equal(scene.told[i], i < 20 || i >= 60);
        leave(&scene, 1, anew != 0);
        run(&scene);
        told_are(&scene, 0, BLOCKS);
        obedient_free(scene.gateway);
    }
}

static void
sessions_of_who_leaves(void **state)
{
    static struct scene scene;

    (void)state;
    begin(&scene, HEAD "rules:\n"
                       "  - {id: over, from: hot, to: cold, on: session_end}\n" ENFORCED);
    /* The first chain goes on at worker 1, the second ends there in its middle. */
    work(&scene, 1, 0, CHAIN, true);
    work(&scene, 1, CHAIN, CHAIN + 4, true);
    leave(&scene, 0, true);
    run(&scene);
    told_are(&scene, CHAIN + 4, BLOCKS);
    leave(&scene, 1, true);
    run(&scene);
    told_are(&scene, 0, BLOCKS);
    obedient_free(scene.gateway);
}

/* What one had that is in no other tier ended what comes before it all the same. */
static void
the_end_is_in_no_other_tier(void **state)
{
    static struct scene scene;

    (void)state;
    begin(&scene, HEAD "rules:\n"
                       "  - {id: over, from: hot, to: cold, on: session_end}\n" ENFORCED);
    /* Worker 1 goes on behind what all have, to where nobody else is. */
    work(&scene, 1, BLOCKS, BLOCKS + CHAIN, true);
    obedient_store(scene.gateway, OBEDIENT_COLD, BLOCKS, BLOCKS + 4);
    obedient_store(scene.gateway, OBEDIENT_HOT, BLOCKS, BLOCKS + 4);
    work(&scene, 1, BLOCKS, BLOCKS + 4, false);
    run(&scene);
    told_are(&scene, 0, 0);
    leave(&scene, 1, true);
    run(&scene);
    for (uint32_t i = 0; i < BLOCKS + CHAIN; i++)
        assert_int_equal(scene.told[i], i >= BLOCKS && i < BLOCKS + 4);
    obedient_free(scene.gateway);
}

/* A round looks at a bounded piece, and takes in what comes meanwhile. */
static void
many_leave_a_piece_at_a_time(void **state)
{
    enum { ALL = OBEDIENT_BLOCKS };
    static struct scene scene;
    struct advisor_planner *planner;
    struct kvt_event_batch batch;
    size_t before;
    int rounds = 0;

    (void)state;
    scene =
        (struct scene){.gateway = obedient_new(HEAD "rules:\n  - {id: gone, from: hot, to: cold, "
                                                    "on: last_holder_removed}\n" ENFORCED,
                                               NULL, CHAIN)};
    scene.gateway->capacity[OBEDIENT_HOT] = (uint64_t)ALL * OBEDIENT_SIZE;
    scene.gateway->look = look;
    scene.gateway->arg = &scene;
    for (uint32_t i = 0; i < ALL; i += 1024)
        work(&scene, 0, i, i + 1024, true);
    work(&scene, 1, 0, 100, true);
    obedient_store(scene.gateway, OBEDIENT_COLD, 0, ALL);
    obedient_store(scene.gateway, OBEDIENT_HOT, 0, ALL);
    run(&scene);
    planner = scene.gateway->rig.planner;
    scene.life[0]++;
    scene.seq[0] = 0;
    batch = message(&scene, 0);
    test_rig_batch(&scene.gateway->rig, ++scene.gateway->stream_seq, &batch);
    while (advisor_departed_blocks_count(advisor_planner_departed(planner)) == 0)
        advisor_round_step(scene.gateway->rig.engine, 0);
    before = advisor_departed_blocks_count(advisor_planner_departed(planner));
    assert_in_range(before, ALL - 4096 - 2000, ALL * 2);
    while (before > 0) {
        size_t left;

        advisor_round_step(scene.gateway->rig.engine, 0);
        left = advisor_departed_blocks_count(advisor_planner_departed(planner));
        /* At most two looks a round, of 4,096 blocks and a piece, two words a piece apart. */
        assert_true(before - left <= 2 * (4096 + INDEX_DROPPED_MAX) * 2);
        before = left;
        if (++rounds % 8 == 0) /* what was told finds room for more */
            run(&scene);
        assert_true(rounds < 10000);
    }
    for (int i = 0; i < 12; i++)
        run(&scene);
    for (uint32_t i = 0; i < ALL; i++)
        assert_int_equal(scene.told[i], i >= 100);
    obedient_free(scene.gateway);
}

/* How often a block was told of, by tier and event. */
typedef uint8_t heard_row[OBEDIENT_TIERS][2];

/* What the planner heard since it was asked last, as if it had asked its rules. */
static void
take_news(struct scene *scene, heard_row *heard)
{
    struct advisor_planner *planner = scene->gateway->rig.planner;

    for (uint32_t i = 0; i < planner->news_count; i++) {
        const struct advisor_news *news = &planner->news[i];
        const bool volume = planner->tiers[news->tier].volume;

        heard[news->hash - 1][volume ? OBEDIENT_HOT : OBEDIENT_COLD]
             [news->event == POLICY_ON_SESSION_END]++;
    }
    planner->news_count = 0;
}

/* One chain, of which a worker has all from `from`; it leaves.  In how many rounds the planner went
 * through that. */
static int
leave_a_chain(uint32_t from, heard_row *heard)
{
    enum { ALL = OBEDIENT_BLOCKS };
    static struct scene scene;
    struct kvt_event_batch batch;
    size_t left;
    int rounds = 0;

    memset(heard, 0, ALL * sizeof(*heard));
    scene = (struct scene){
        .gateway = obedient_new(HEAD "rules:\n"
                                     "  - {id: gone, from: hot, to: cold, "
                                     "on: last_holder_removed}\n"
                                     "  - {id: over, from: hot, to: cold, on: session_end}\n",
                                NULL, ALL)};
    scene.gateway->capacity[OBEDIENT_HOT] = (uint64_t)ALL * OBEDIENT_SIZE;
    for (uint32_t i = from; i < ALL; i += 1024)
        work(&scene, 0, i, i + 1024, true);
    obedient_store(scene.gateway, OBEDIENT_COLD, 0, ALL);
    obedient_store(scene.gateway, OBEDIENT_HOT, 0, ALL);
    run(&scene);
    scene.life[0]++;
    scene.seq[0] = 0;
    batch = message(&scene, 0);
    test_rig_batch(&scene.gateway->rig, ++scene.gateway->stream_seq, &batch);
    do {
        advisor_round_step(scene.gateway->rig.engine, 0);
        take_news(&scene, heard);
        left = advisor_departed_blocks_count(advisor_planner_departed(scene.gateway->rig.planner));
        assert_true(++rounds < 10000);
    } while (heard[ALL - 1][OBEDIENT_HOT][0] == 0 || left > 0);
    obedient_free(scene.gateway);
    return rounds;
}

/* What is many pieces of who left is told of once, with both events. */
static void
a_long_chain_is_told_of_once(void **state)
{
    static heard_row heard[OBEDIENT_BLOCKS];

    (void)state;
    assert_true(leave_a_chain(0, heard) > 1);
    for (uint32_t i = 0; i < OBEDIENT_BLOCKS; i++)
        for (int tier = 0; tier < OBEDIENT_TIERS; tier++)
            for (int event = 0; event < 2; event++)
                assert_int_equal(heard[i][tier][event], 1);
}

/* More than there is room for ended with a piece: its own blocks come first. */
static void
what_lies_before_takes_no_room_from_who_left(void **state)
{
    enum { FROM = OBEDIENT_BLOCKS - 1024 };
    static heard_row heard[OBEDIENT_BLOCKS];
    uint32_t ended = 0;

    (void)state;
    (void)leave_a_chain(FROM, heard);
    for (uint32_t i = 0; i < OBEDIENT_BLOCKS; i++) {
        for (int tier = 0; tier < OBEDIENT_TIERS; tier++)
            assert_int_equal(heard[i][tier][0], i >= FROM);
        ended += heard[i][OBEDIENT_HOT][1];
        assert_in_range(heard[i][OBEDIENT_HOT][1], i >= FROM, 1);
    }
    assert_in_range(ended, OBEDIENT_BLOCKS / 2, OBEDIENT_BLOCKS - 1);
}

/* ---- beside a model ---- */

struct model {
    bool has[WORKERS][BLOCKS];
};

static bool
is_held(const struct model *model, uint32_t block)
{
    for (int i = 0; i < WORKERS; i++)
        if (model->has[i][block])
            return true;
    return false;
}

/* By anybody, it or what comes behind it in its chain. */
static bool
goes_on(const struct model *model, uint32_t block)
{
    for (uint32_t i = block; i < (block / CHAIN + 1) * CHAIN; i++)
        if (is_held(model, i))
            return true;
    return false;
}

/* One thing that happens, to both. */
static void
act(struct scene *scene, struct model *model, uint64_t *random)
{
    const int worker = (int)(kvt_random_next(random) % WORKERS);
    const uint32_t from = (uint32_t)(kvt_random_next(random) % (BLOCKS / 4));
    const uint32_t to = from + 1 + (uint32_t)(kvt_random_next(random) % (2 * CHAIN));
    const uint32_t what = (uint32_t)(kvt_random_next(random) % 8);

    if (what < 2) {
        leave(scene, worker, what == 0);
        memset(model->has[worker], 0, sizeof(model->has[worker]));
        return;
    }
    for (uint32_t i = from; i < to; i++) {
        /* Nobody lets go of what it has not. */
        if (what >= 6 && model->has[worker][i])
            work(scene, worker, i, i + 1, false);
        model->has[worker][i] = what < 6;
    }
    if (what < 6)
        work(scene, worker, from, to, true);
}

static void
as_a_model_says(void **state, const char *policy, bool ends)
{
    enum { STEPS = 120 };
    static struct scene scene;
    static struct model model;
    uint64_t random = test_seed();

    (void)state;
    begin(&scene, policy);
    memset(&model, 0, sizeof(model));
    memset(model.has[0], 1, sizeof(model.has[0]));
    for (int step = 0; step < STEPS; step++) {
        const struct model former = model;
        uint32_t told[BLOCKS];

        memcpy(told, scene.told, sizeof(told));
        act(&scene, &model, &random);
        run(&scene);
        for (uint32_t i = 0; i < BLOCKS; i++) {
            const bool was = ends ? goes_on(&former, i) : is_held(&former, i);
            const bool is = ends ? goes_on(&model, i) : is_held(&model, i);

            assert_int_equal(scene.told[i] - told[i], was && !is);
        }
        obedient_store(scene.gateway, OBEDIENT_HOT, 0, BLOCKS);
        run(&scene);
    }
    obedient_free(scene.gateway);
}

static void
holders_as_a_model_says(void **state)
{
    as_a_model_says(state,
                    HEAD "rules:\n"
                         "  - {id: gone, from: hot, to: cold, on: last_holder_removed}\n" ENFORCED,
                    false);
}

static void
sessions_as_a_model_says(void **state)
{
    as_a_model_says(state,
                    HEAD "rules:\n"
                         "  - {id: over, from: hot, to: cold, on: session_end}\n" ENFORCED,
                    true);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_last_worker_let_go_of),
        cmocka_unit_test(where_nobody_can_go_on),
        cmocka_unit_test(one_rule_on_both),
        cmocka_unit_test(a_rule_on_each),
        cmocka_unit_test(who_leaves_as_a_whole),
        cmocka_unit_test(sessions_of_who_leaves),
        cmocka_unit_test(the_end_is_in_no_other_tier),
        cmocka_unit_test(many_leave_a_piece_at_a_time),
        cmocka_unit_test(a_long_chain_is_told_of_once),
        cmocka_unit_test(what_lies_before_takes_no_room_from_who_left),
        cmocka_unit_test(holders_as_a_model_says),
        cmocka_unit_test(sessions_as_a_model_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
