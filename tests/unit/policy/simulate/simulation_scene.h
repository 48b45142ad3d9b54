/*
 * tests/unit/policy/simulate/simulation_scene.h -- a simulation under a policy of three tiers, to
 * be asked by hand.
 *
 * Why: what all of policy/simulate/policy_simulation.h's tests begin with.
 * Ownership: test_scene_close() ends what test_scene_open() made.
 * Limits:    TEST_CHAIN_MAX blocks a request.
 */
#ifndef TESTS_UNIT_POLICY_SIMULATE_SIMULATION_SCENE_H
#define TESTS_UNIT_POLICY_SIMULATE_SIMULATION_SCENE_H

#include "policy/simulate/policy_simulation.h"

enum { TEST_BLOCK_BYTES = 1000, TEST_CHAIN_MAX = 24, TEST_STEP_MS = 10000 };

#define TEST_TIERS_TEXT                                                                            \
    "version: 1\ntiers:\n  hot: {level: G3}\n  warm: {level: G3, holders: \"warm@*\"}\n"           \
    "  cold: {level: G4}\nmodes: {mode: enforce}\n"

struct test_scene {
    struct policy *policy;
    struct policy_workload *workload;
    struct policy_simulation *simulation;
    uint64_t now_ms; /* of the next request */
};

/** The policy of a text, which is right. */
struct policy *test_policy(const char *text);

/** A simulation with so many blocks in the first two tiers, 0: endless. */
void test_scene_open(struct test_scene *scene, const char *policy, const char *ordering,
                     uint64_t hot, uint64_t warm);
void test_scene_close(struct test_scene *scene);

/** A request for a chain in a namespace: a letter is a block.  The next is TEST_STEP_MS later. */
void test_scene_ask(struct test_scene *scene, const char *namespace_, const char *ids);

#endif /* TESTS_UNIT_POLICY_SIMULATE_SIMULATION_SCENE_H */
