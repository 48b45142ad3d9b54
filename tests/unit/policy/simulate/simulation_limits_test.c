/*
 * What is tested: what limits, max_delete and canary keep back in
 * policy/simulate/policy_simulation.h. How: small workloads counted by hand; ladder_test compares
 * with a model.
 */
#include "policy/decide/decision.h"
#include "policy/simulate/policy_simulation.h"
#include "tests/support/seed.h"
#include "tests/unit/policy/simulate/simulation_scene.h"

enum { HOT, WARM, COLD };

/* What is not in the share stays where it came to, whatever else moves. */
static void
the_canary_share_alone_moves(void **state)
{
    static const char text[] =
        "version: 1\ntiers:\n  hot: {level: G3}\n  warm: {level: G3, holders: \"warm@*\"}\n"
        "  cold: {level: G4}\nmodes: {mode: enforce, canary: 60%}\n"
        "rules:\n  - {id: down, from: hot, to: warm, trigger: {start: 80%, stop: 50%}}\n";
    bool came[100] = {false};
    char chain[] = "?";
    struct test_scene scene;
    uint32_t left = 0;

    (void)state;
    test_scene_open(&scene, text, "lru", 20, 100);
    for (uint32_t number = 0; number < 50; number++) {
        chain[0] = (char)('A' + number);
        test_scene_ask(&scene, "", chain);
        for (uint32_t block = 0; block <= number; block++) {
            const bool has = policy_simulation_has(scene.simulation, HOT, block);

            left += came[block] && !has;
            assert_true(!came[block] || has ||
                        policy_is_enforced(scene.policy, (uint64_t)block + 1));
            came[block] = has;
        }
    }
    assert_true(left > 10 && policy_simulation_result(scene.simulation).observed > 0);
    test_scene_close(&scene);
}

/* A run deletes two, and the next comes a minute later. */
static void
deletions_of_a_run_are_bounded(void **state)
{
    static const char text[] =
        "version: 1\ntiers:\n  hot: {level: G3}\n  warm: {level: G3, holders: \"warm@*\"}\n"
        "  cold: {level: G4}\nmodes: {mode: enforce, max_delete: 2}\n"
        "rules:\n  - {id: old, in: cold, do: expire, when: last_access > 5m}\n";
    struct policy_simulation_figures figures;
    struct test_scene scene;

    (void)state;
    test_scene_open(&scene, text, "lru", 100, 100);
    test_scene_ask(&scene, "", "abcde");
    for (uint64_t run = 1; run <= 3; run++) {
        scene.now_ms += 400000;
        test_scene_ask(&scene, "", "xyz"); /* reads enough that all blocks are looked at again */
        assert_int_equal(policy_simulation_result(scene.simulation).expired, run < 3 ? 2 * run : 5);
    }
    figures = policy_simulation_figures(scene.simulation, 0);
    assert_int_equal(figures.blocks, 5);
    assert_int_equal(figures.stops[POLICY_SIMULATION_MAX_DELETE], 2);
    test_scene_close(&scene);
}

/* What a rate keeps back of a pass goes on between two requests. */
static void
a_pass_goes_on_at_its_rate(void **state)
{
    static const char text[] =
        TEST_TIERS_TEXT "rules:\n  - {id: old, from: hot, to: warm, when: last_access > 5m, "
                        "limits: {rate: 500B/s}}\n";
    struct policy_simulation_figures figures;
    struct test_scene scene;

    (void)state;
    test_scene_open(&scene, text, "lru", 100, 100);
    test_scene_ask(&scene, "", "abcdefgh");
    scene.now_ms += 400000;
    test_scene_ask(&scene, "", "xyz");
    assert_int_equal(policy_simulation_result(scene.simulation).edges[HOT][WARM].blocks,
                     3); /* what five seconds saved, and half a block on credit */
    scene.now_ms -= TEST_STEP_MS - 2950;
    test_scene_ask(
        &scene, "",
        "xyz"); /* one at 1.1 s, and the next would be at 3.1 s: what is owed is paid first */
    assert_int_equal(policy_simulation_result(scene.simulation).edges[HOT][WARM].blocks, 4);
    figures = policy_simulation_figures(scene.simulation, 0);
    assert_int_equal(figures.waited_ms[POLICY_SIMULATION_RATE], 2950);
    test_scene_ask(&scene, "", "xyz");
    assert_int_equal(policy_simulation_result(scene.simulation).edges[HOT][WARM].blocks, 8);
    figures = policy_simulation_figures(scene.simulation, 0);
    assert_int_equal(figures.blocks, 8);
    test_scene_close(&scene);
}

/* A rule with a watermark begins as often as its schedule says, and no sooner. */
static void
a_drain_begins_when_it_is_due(void **state)
{
    static const char text[] =
        TEST_TIERS_TEXT "rules:\n  - {id: down, from: hot, to: cold, schedule: {every: 5m}, "
                        "trigger: {start: 80%, stop: 40%}}\n";
    struct test_scene scene;

    (void)state;
    test_scene_open(&scene, text, "lru", 10, 100);
    test_scene_ask(&scene, "", "abcdefgh");
    assert_int_equal(policy_simulation_result(scene.simulation).tiers[HOT].blocks, 4);
    test_scene_ask(&scene, "", "ijkl");
    assert_int_equal(policy_simulation_result(scene.simulation).tiers[HOT].blocks, 8);
    scene.now_ms += 300000; /* in which its time comes */
    test_scene_ask(&scene, "", "m");
    assert_int_equal(policy_simulation_result(scene.simulation).tiers[HOT].blocks, 5);
    assert_int_equal(policy_simulation_figures(scene.simulation, 0).blocks, 8);
    test_scene_close(&scene);
}

/* The run of a rule on an event goes on while passes begin. */
static void
a_pass_ends_no_run_of_an_event(void **state)
{
    static const char text[] =
        TEST_TIERS_TEXT "rules:\n  - {id: up, from: cold, to: hot, on: second_cold_hit, "
                        "limits: {per_run: 1}}\n"
                        "  - {id: idle, from: hot, to: cold, when: last_access > 5m}\n";
    struct policy_simulation_figures figures;
    struct test_scene scene;

    (void)state;
    test_scene_open(&scene, text, "lru", 100, 100);
    test_scene_ask(&scene, "", "ab");
    scene.now_ms += 400000;
    test_scene_ask(&scene, "", "x"); /* a and b go down */
    test_scene_ask(&scene, "", "a");
    test_scene_ask(&scene, "", "a"); /* up, and the run is at its end */
    scene.now_ms += 100000;
    test_scene_ask(&scene, "", "b");
    test_scene_ask(&scene, "", "b");
    figures = policy_simulation_figures(scene.simulation, 0);
    assert_int_equal(figures.blocks, 1);
    assert_int_equal(figures.dropped, 1);
    test_scene_close(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_canary_share_alone_moves),
        cmocka_unit_test(deletions_of_a_run_are_bounded),
        cmocka_unit_test(a_pass_goes_on_at_its_rate),
        cmocka_unit_test(a_drain_begins_when_it_is_due),
        cmocka_unit_test(a_pass_ends_no_run_of_an_event),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
