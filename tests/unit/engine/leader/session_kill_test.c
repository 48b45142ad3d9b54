/*
 * What is tested: sessions between processes, one of which is killed or stopped in each state of a
 * session: the other side ends in its time, says why, has right bytes or none, and holds nothing
 * for it any more; a third instance notices nothing.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"

#include "tests/support/seed.h"
#include "tests/unit/engine/leader/session_child.h"

enum { LATE_MS = 10000, MORE_ROUNDS = 3, MY_BLOCKS = CHILD_OWN };

/* What a session is in when somebody dies. */
enum moment { SEARCHING, PREPARED, HOLDING, STAGING, PULLED, DONE, MOMENTS };

static const enum engine_mode modes[MOMENTS] = {
    [SEARCHING] = ENGINE_FULL, [PREPARED] = ENGINE_PREPARE, [HOLDING] = ENGINE_HOLD,
    [STAGING] = ENGINE_FULL,   [PULLED] = ENGINE_FULL,      [DONE] = ENGINE_FULL,
};

/* The test's instance, whose own chain is held by the test, and the one that goes on. */
struct scene {
    struct children children;
    struct node node;
    struct kvt_handle mine[MY_BLOCKS];
    struct child_page *puller;
    struct child_page *pages[MOMENTS];
    struct engine_match *matches[MOMENTS];
    uint64_t begun_ms[MOMENTS];
    uint64_t rounds;
};

#define AWAIT(condition)                                                                           \
    do {                                                                                           \
        const uint64_t end_ms_ = kvt_clock_mono_ms() + CHILD_PATIENCE;                             \
                                                                                                   \
        while (!(condition)) {                                                                     \
            if (kvt_clock_mono_ms() > end_ms_)                                                     \
                fail_msg("line %d: " #condition, __LINE__);                                        \
            kvt_clock_sleep_ms(1);                                                                 \
        }                                                                                          \
    } while (0)

static uint64_t
number_of(enum moment moment)
{
    return 10 + (uint64_t)moment;
}

static void
open_scene(struct scene *scene, bool far)
{
    struct kvbm_label labels[MY_BLOCKS];
    char endpoint[256];

    memset(scene, 0, sizeof(*scene));
    children_open(&scene->children);
    child_endpoint(&scene->children, CHILD_TEST, endpoint, sizeof(endpoint));
    assert_int_equal(node_open(&scene->node, &(struct node_options){.number = CHILD_TEST,
                                                                    .endpoint = endpoint,
                                                                    .far = far,
                                                                    .hold_ms = CHILD_HOLD_MS}),
                     KVT_OK);
    assert_true(node_make(&scene->node, KVT_TIER_G2, CHILD_TEST, 0, MY_BLOCKS));
    node_labels(labels, CHILD_TEST, MY_BLOCKS);
    for (size_t i = 0; i < MY_BLOCKS; i++)
        assert_int_equal(
            kvbm_pool_find(scene->node.pools[KVT_TIER_G2], labels[i].id.hash, &scene->mine[i]),
            KVT_OK);
    scene->puller = child_begin(&scene->children, CHILD_PULLER, 2, far);
}

/* From now on rounds of the one that goes on are counted. */
static void
note_rounds(struct scene *scene)
{
    scene->rounds = atomic_load(&scene->puller->rounds);
}

/* It has gone on, and nothing is held here once it has paused. */
static void
close_scene(struct scene *scene)
{
    AWAIT(atomic_load(&scene->puller->rounds) >= scene->rounds + MORE_ROUNDS);
    atomic_store(&scene->puller->pause, 1);
    AWAIT(atomic_load(&scene->puller->paused) != 0);
    assert_int_equal(atomic_load(&scene->puller->failed), 0);
    AWAIT(node_is_idle(&scene->node, MY_BLOCKS));
    assert_int_equal(node_has(&scene->node, CHILD_TEST), MY_BLOCKS);
    kvbm_pool_drop_all(scene->node.pools[KVT_TIER_G2], scene->mine, MY_BLOCKS);
    node_close(&scene->node);
    children_close(&scene->children);
}

/* ---- whoever has the blocks ---- */

static void
find(struct scene *scene, enum moment moment)
{
    struct kvbm_label labels[CHILD_BLOCKS];

    node_labels(labels, number_of(moment), CHILD_BLOCKS);
    scene->begun_ms[moment] = kvt_clock_mono_ms();
    assert_int_equal(engine_leader_find(scene->node.leader,
                                        &(struct engine_find){.labels = labels,
                                                              .count = CHILD_BLOCKS,
                                                              .mode = modes[moment],
                                                              .peers = true,
                                                              .wait_ms = CHILD_FIND_MS},
                                        &scene->matches[moment]),
                     KVT_OK);
}

static struct engine_match_view
view_of(const struct scene *scene, enum moment moment)
{
    struct engine_match_view view;

    engine_match_view(scene->matches[moment], &view);
    return view;
}

static struct engine_match_view
end_of(const struct scene *scene, enum moment moment)
{
    struct engine_match_view view;

    assert_int_equal(engine_match_wait(scene->matches[moment], ENGINE_STATE_BIT(ENGINE_READY),
                                       CHILD_PATIENCE, &view),
                     KVT_OK);
    return view;
}

static void
begin_holders(struct scene *scene, bool far)
{
    char endpoint[256];

    for (enum moment moment = SEARCHING; moment < MOMENTS; moment++)
        scene->pages[moment] = child_begin(&scene->children, CHILD_HOLDER, number_of(moment), far);
    for (enum moment moment = SEARCHING; moment < MOMENTS; moment++) {
        AWAIT(atomic_load(&scene->pages[moment]->up) != 0);
        child_endpoint(&scene->children, number_of(moment), endpoint, sizeof(endpoint));
        assert_int_equal(engine_leader_add_peer(scene->node.leader, number_of(moment), endpoint,
                                                CHILD_PATIENCE, NULL),
                         KVT_OK);
    }
    AWAIT(atomic_load(&scene->puller->rounds) > 0);
}

/* A session in each state: those that need pulls first. */
static void
bring_about(struct scene *scene)
{
    atomic_store(&scene->pages[STAGING]->shut, ENGINE_COPY);
    kvt_clock_sleep_ms(50); /* its gate is shut */
    find(scene, DONE);
    assert_int_equal(end_of(scene, DONE).ready, CHILD_BLOCKS);
    find(scene, PREPARED);
    assert_int_equal(end_of(scene, PREPARED).found, CHILD_BLOCKS);
    find(scene, HOLDING);
    AWAIT(view_of(scene, HOLDING).state == ENGINE_HOLDING);
    find(scene, STAGING);
    AWAIT(view_of(scene, STAGING).ready == CHILD_BLOCKS / 2);
    node_gate(&scene->node, ENGINE_PULL);
    find(scene, PULLED);
    AWAIT(node_gated(&scene->node) > 0);
    child_signal(&scene->children, scene->pages[SEARCHING], SIGSTOP);
    find(scene, SEARCHING);
    kvt_clock_sleep_ms(20);
}

/* It has ended in its time, with a reason if anything is missing, and what is there is right. */
static void
check_end(struct scene *scene, enum moment moment, struct engine_match_view view)
{
    struct kvt_handle handles[CHILD_BLOCKS];

    assert_true(kvt_clock_mono_ms() - scene->begun_ms[moment] < CHILD_FIND_MS + LATE_MS);
    if (view.state == ENGINE_FAILED) {
        assert_int_equal(view.why, KVT_TIMEOUT);
        assert_int_equal(view.ready, 0);
    } else {
        assert_int_equal(view.state, ENGINE_READY);
        assert_int_equal(view.shortened, view.ready < view.found);
    }
    if (view.shortened) {
        assert_true(view.why == KVT_UNAVAILABLE || view.why == KVT_TIMEOUT);
        assert_true(view.text[0] != '\0');
    }
    assert_int_equal(engine_match_blocks(scene->matches[moment], handles, CHILD_BLOCKS),
                     view.ready);
    assert_true(node_are(&scene->node, number_of(moment), handles, view.ready));
    engine_match_release(scene->matches[moment]);
}

/* One that waits for nothing hears of it all the same. */
static void
check_lost(struct scene *scene, enum moment moment)
{
    AWAIT(view_of(scene, moment).shortened);
    assert_int_equal(engine_match_stage(scene->matches[moment], ENGINE_FULL, CHILD_FIND_MS),
                     KVT_OK);
    check_end(scene, moment, end_of(scene, moment));
    assert_int_equal(node_has(&scene->node, number_of(moment)), 0);
}

static void
holders_go(int signal, bool far)
{
    struct engine_match_view view;
    struct scene scene;

    open_scene(&scene, far);
    begin_holders(&scene, far);
    bring_about(&scene);
    for (enum moment moment = SEARCHING; moment < MOMENTS; moment++)
        if (moment != SEARCHING || signal != SIGSTOP)
            child_signal(&scene.children, scene.pages[moment], signal);
    node_gate(&scene.node, (enum engine_verb)0);
    note_rounds(&scene);
    check_end(&scene, DONE, end_of(&scene, DONE));
    check_lost(&scene, PREPARED);
    check_lost(&scene, HOLDING);
    view = end_of(&scene, STAGING);
    assert_int_equal(view.ready, CHILD_BLOCKS / 2);
    assert_true(view.shortened);
    check_end(&scene, STAGING, view);
    assert_int_equal(node_has(&scene.node, number_of(STAGING)), CHILD_BLOCKS / 2);
    view = end_of(&scene, SEARCHING);
    assert_int_equal(view.found, 0);
    check_end(&scene, SEARCHING, view);
    view = end_of(&scene, PULLED);
    print_message("%s, %s: %u of %u blocks came from it\n", far ? "far" : "near",
                  signal == SIGKILL ? "killed" : "stopped", view.ready, view.found);
    check_end(&scene, PULLED, view);
    assert_true(node_has(&scene.node, number_of(PULLED)) <= CHILD_BLOCKS);
    engine_leader_remove_peer(scene.node.leader, number_of(HOLDING));
    for (enum moment moment = SEARCHING; signal == SIGSTOP && moment < MOMENTS; moment++)
        child_signal(&scene.children, scene.pages[moment], SIGCONT);
    if (signal == SIGSTOP) {
        atomic_store(&scene.pages[STAGING]->shut, 0);
        kvt_clock_sleep_ms(50);
        for (enum moment moment = SEARCHING; moment < MOMENTS; moment++)
            AWAIT(atomic_load(&scene.pages[moment]->idle) != 0);
    }
    close_scene(&scene);
}

static void
holders_are_killed_near(void **unused)
{
    (void)unused;
    holders_go(SIGKILL, false);
}

static void
holders_are_killed_far(void **unused)
{
    (void)unused;
    holders_go(SIGKILL, true);
}

static void
holders_are_stopped(void **unused)
{
    (void)unused;
    holders_go(SIGSTOP, test_seed() % 2 == 0);
}

/* ---- whoever asks for them ---- */

static void
begin_askers(struct scene *scene, bool far)
{
    for (enum moment moment = SEARCHING; moment < DONE; moment++) {
        const uint64_t number = number_of(moment);

        assert_true(
            node_make(&scene->node, KVT_TIER_G2, number, 0, CHILD_BLOCKS / 2) &&
            node_make(&scene->node, KVT_TIER_G3, number, CHILD_BLOCKS / 2, CHILD_BLOCKS / 2));
        scene->pages[moment] = child_begin(&scene->children, CHILD_ASKER, number, far);
    }
    for (enum moment moment = SEARCHING; moment < DONE; moment++)
        AWAIT(atomic_load(&scene->pages[moment]->up) != 0);
    AWAIT(atomic_load(&scene->puller->rounds) > 0);
}

static void
ask(const struct scene *scene, enum moment moment)
{
    atomic_store(&scene->pages[moment]->find, 1 + (uint32_t)modes[moment]);
}

static bool
is_in(const struct scene *scene, enum moment moment, enum engine_state state)
{
    return atomic_load(&scene->pages[moment]->state) == 1 + (uint32_t)state;
}

static void
askers_go(int signal, bool far)
{
    uint64_t random = test_seed();
    struct engine_leader_stats stats;
    struct scene scene;
    uint64_t since_ms;

    open_scene(&scene, far);
    begin_askers(&scene, far);
    atomic_store(&scene.pages[PULLED]->shut, ENGINE_PULL);
    kvt_clock_sleep_ms(50);
    ask(&scene, PREPARED);
    AWAIT(is_in(&scene, PREPARED, ENGINE_READY));
    ask(&scene, HOLDING);
    AWAIT(is_in(&scene, HOLDING, ENGINE_HOLDING));
    ask(&scene, PULLED);
    AWAIT(atomic_load(&scene.pages[PULLED]->gated) > 0);
    node_gate(&scene.node, ENGINE_COPY);
    ask(&scene, STAGING);
    AWAIT(atomic_load(&scene.pages[STAGING]->ready) == CHILD_BLOCKS / 2);
    AWAIT(node_gated(&scene.node) > 0);
    ask(&scene, SEARCHING);
    kvt_clock_sleep_ms(kvt_random_below(&random, 4));
    for (enum moment moment = SEARCHING; moment < DONE; moment++)
        child_signal(&scene.children, scene.pages[moment], signal);
    since_ms = kvt_clock_mono_ms();
    note_rounds(&scene);
    AWAIT(atomic_load(&scene.puller->rounds) >= scene.rounds + MORE_ROUNDS);
    AWAIT((engine_leader_stats(scene.node.leader, &stats), stats.peer_sessions <= 1));
    node_gate(&scene.node, (enum engine_verb)0);
    assert_true(kvt_clock_mono_ms() - since_ms < 3 * CHILD_HOLD_MS / 2 + LATE_MS);
    for (enum moment moment = SEARCHING; signal == SIGSTOP && moment < DONE; moment++) {
        child_signal(&scene.children, scene.pages[moment], SIGCONT);
        atomic_store(&scene.pages[moment]->shut, 0);
        atomic_store(&scene.pages[moment]->release, 1);
    }
    for (enum moment moment = SEARCHING; signal == SIGSTOP && moment < DONE; moment++) {
        AWAIT(atomic_load(&scene.pages[moment]->released) != 0);
        AWAIT(atomic_load(&scene.pages[moment]->idle) != 0);
        assert_int_equal(atomic_load(&scene.pages[moment]->failed), 0);
    }
    for (enum moment moment = SEARCHING; moment < DONE; moment++)
        assert_true(node_has(&scene.node, number_of(moment)) <= CHILD_BLOCKS);
    close_scene(&scene);
}

static void
askers_are_killed(void **unused)
{
    (void)unused;
    askers_go(SIGKILL, test_seed() % 2 != 0);
}

static void
askers_are_stopped(void **unused)
{
    (void)unused;
    askers_go(SIGSTOP, false);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holders_are_killed_near), cmocka_unit_test(holders_are_killed_far),
        cmocka_unit_test(holders_are_stopped),     cmocka_unit_test(askers_are_killed),
        cmocka_unit_test(askers_are_stopped),
    };
    int failed;

    child_main(argc, argv);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed != 0 || kvt_alloc_live() != 0;
}
