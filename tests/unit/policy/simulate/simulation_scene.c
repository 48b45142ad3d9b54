#include "tests/unit/policy/simulate/simulation_scene.h"

#include <string.h>

#include "base/core/alloc.h"

#include "policy/file/policy_parse.h"
#include "policy/ordering/ordering_table.h"
#include "tests/support/seed.h"

struct policy *
test_policy(const char *text)
{
    struct policy_problems *problems = kvt_calloc(1, sizeof(*problems));
    struct policy *policy;
    struct kvt_error err = {0};

    assert_non_null(problems);
    if (policy_parse(&policy, "test", text, strlen(text), problems, &err) != KVT_OK)
        fail_msg("%s%s", err.text, problems->count > 0 ? problems->list[0].text : "");
    kvt_free(problems);
    return policy;
}

void
test_scene_open(struct test_scene *scene, const char *policy, const char *ordering, uint64_t hot,
                uint64_t warm)
{
    struct policy_simulation_options options = {
        .ordering = policy_ordering_find(ordering),
        .ordering_options = {.prices = {.hot_read = 1, .cold_read = 10, .move = 1}},
        .capacity = {hot * TEST_BLOCK_BYTES, warm * TEST_BLOCK_BYTES},
        .block_bytes = TEST_BLOCK_BYTES,
        .tick_ms = 100,
        .cold_reads = 2,
        .roster_bytes = 1 << 24};

    *scene = (struct test_scene){.policy = test_policy(policy)};
    assert_int_equal(policy_workload_new(&scene->workload), KVT_OK);
    options.policy = scene->policy;
    options.workload = scene->workload;
    assert_int_equal(policy_simulation_new(&scene->simulation, &options), KVT_OK);
}

void
test_scene_close(struct test_scene *scene)
{
    policy_simulation_free(scene->simulation);
    policy_workload_free(scene->workload);
    policy_free(scene->policy);
}

/* A letter is a block; of a namespace. */
void
test_scene_ask(struct test_scene *scene, const char *namespace_, const char *ids)
{
    struct policy_workload_request request;
    uint64_t chain[TEST_CHAIN_MAX];
    uint32_t count = 0;
    uint32_t tenant;

    for (; ids[count] != '\0'; count++)
        chain[count] = (uint64_t)ids[count];
    assert_int_equal(policy_workload_name(scene->workload, namespace_, &tenant), KVT_OK);
    assert_int_equal(policy_workload_add_of(scene->workload, tenant, scene->now_ms, chain, count),
                     KVT_OK);
    request =
        policy_workload_request(scene->workload, policy_workload_requests(scene->workload) - 1);
    assert_int_equal(policy_simulation_request(scene->simulation, &request), KVT_OK);
    scene->now_ms += TEST_STEP_MS;
}
