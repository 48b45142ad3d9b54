/*
 * What is tested: advisor/route/router.h: running requests of several namespaces.
 * How: two models whose blocks have the same hashes; what the explanation says of the worker that
 * runs one of them.
 */
#include <string.h>

#include "advisor/route/router.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/metrics.h"

#include "tests/support/seed.h"

enum { BLOCKS = 8 };

static const char ours[] = "tenant/model";
static const char other[] = "tenant/another";

struct scene {
    struct index *index;
    struct advisor_ram_index memory;
    struct advisor_finder finder;
    struct kvt_metrics *metrics;
    struct advisor_router *router;
    uint64_t hashes[BLOCKS];
};

static void
begin(struct scene *scene)
{
    const struct router_worker worker = {.name = "a"};
    struct advisor_router_options options = {
        .weights = router_weights_default(),
        .block_tokens = 4,
        .expiry_ms = 100000,
        .requests_max = 1024,
        .seed = 1,
    };
    struct kvt_error err;
    uint32_t ns;

    *scene = (struct scene){.index = NULL};
    assert_int_equal(index_new(&scene->index, 64u << 20), KVT_OK);
    scene->memory.index = scene->index;
    scene->finder.memory = &scene->memory;
    assert_int_equal(index_namespace(scene->index, ours, &ns), KVT_OK);
    assert_int_equal(index_namespace(scene->index, other, &ns), KVT_OK);
    assert_int_equal(kvt_metrics_new(&scene->metrics), KVT_OK);
    options.metrics = scene->metrics;
    assert_int_equal(advisor_router_new(&scene->router, &options, &err), KVT_OK);
    assert_int_equal(
        router_workers_seen(advisor_router_workers(scene->router), &worker, ROUTER_ORIGIN_EVENTS),
        KVT_OK);
    for (uint32_t i = 0; i < BLOCKS; i++)
        scene->hashes[i] = 1000 + i;
}

static void
end(struct scene *scene)
{
    advisor_router_free(scene->router);
    kvt_metrics_free(scene->metrics);
    index_free(scene->index);
}

/* What the worker would have to keep with these blocks of the namespace. */
static double
kept_with(struct scene *scene, const char *namespace_, const char *id)
{
    struct wire_route_question question = {
        .kind = WIRE_ROUTE_HASHES, .values = scene->hashes, .value_count = BLOCKS};
    struct wire_route_answer answer;
    struct kvt_error err;
    double blocks;

    memcpy(question.namespace_, namespace_, strlen(namespace_) + 1);
    memcpy(question.id, id, strlen(id) + 1);
    assert_int_equal(advisor_router_ask(scene->router, &scene->finder, &question, &answer, &err),
                     KVT_OK);
    blocks = answer.chosen.decode_blocks;
    wire_route_answer_release(&answer);
    return blocks;
}

static void
equal_hashes_of_two_namespaces_are_two_blocks(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    assert_true(kept_with(&scene, ours, "r1") == BLOCKS);
    assert_true(kept_with(&scene, ours, "") == BLOCKS); /* it runs there: nothing is added */
    assert_true(kept_with(&scene, other, "") == 2 * BLOCKS);
    assert_true(kept_with(&scene, other, "r2") == 2 * BLOCKS);
    assert_true(kept_with(&scene, ours, "") == 2 * BLOCKS);
    end(&scene);
}

/* Somebody else chose the worker, and says of which namespace the blocks are, or does not. */
static void
steps_say_of_which_namespace_they_are(void **state)
{
    struct scene scene;
    struct wire_route_step add = {.kind = WIRE_ROUTE_ADD,
                                  .id = "r1",
                                  .worker = "a",
                                  .blocks = BLOCKS,
                                  .hash_count = BLOCKS,
                                  .hashes = scene.hashes};
    struct kvt_error err;
    bool changed;

    (void)state;
    begin(&scene);
    memcpy(add.namespace_, ours, sizeof(ours));
    assert_int_equal(advisor_router_step(scene.router, &add, &changed, &err), KVT_OK);
    assert_true(changed);
    assert_int_equal(advisor_router_step(scene.router, &add, &changed, &err), KVT_OK);
    assert_false(changed); /* told again */
    assert_true(kept_with(&scene, ours, "") == BLOCKS);
    assert_true(kept_with(&scene, other, "") == 2 * BLOCKS);
    memcpy(add.namespace_, other, sizeof(other));
    kvt_clock_sleep_ms(2); /* of two requests of one id the earlier one stays */
    assert_int_equal(advisor_router_step(scene.router, &add, &changed, &err), KVT_EXISTS);
    add.namespace_[0] = '\0';
    memcpy(add.id, "r2", sizeof("r2"));
    assert_int_equal(advisor_router_step(scene.router, &add, &changed, &err), KVT_OK);
    assert_true(kept_with(&scene, ours, "") == 2 * BLOCKS);
    assert_true(kept_with(&scene, other, "") == 3 * BLOCKS);
    assert_true(kept_with(&scene, "", "") == 2 * BLOCKS);
    end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_hashes_of_two_namespaces_are_two_blocks),
        cmocka_unit_test(steps_say_of_which_namespace_they_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
