/*
 * What is tested: advisor/route/coverage.h and advisor/route/worker_set.h.
 * How: cases by hand, and random holdings with holes against a model that goes through the blocks
 * one by one.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/publisher/publishers.h"
#include "advisor/route/coverage.h"
#include "base/core/alloc.h"
#include "base/core/random.h"

#include "tests/support/seed.h"

enum { WORKERS = 12, RANKS = 2, ROWS = WORKERS * RANKS, BLOCKS = 40, ROUNDS = 200, TIERS = 4 };

static const char space[] = "tenant/model";

struct scene {
    struct index *index;
    struct advisor_ram_index memory;
    struct advisor_finder finder;
    struct router_workers *workers;
    struct advisor_worker_set *crew;
    struct advisor_coverage *coverage;
    uint64_t hashes[BLOCKS];
    uint32_t ns;
};

static void
name_of(uint32_t worker, char name[KVT_NAME_MAX])
{
    (void)snprintf(name, KVT_NAME_MAX, "w%02u", worker);
}

static void
begin(struct scene *scene)
{
    *scene = (struct scene){.index = NULL};
    assert_int_equal(index_new(&scene->index, 64u << 20), KVT_OK);
    scene->memory.index = scene->index;
    scene->finder.memory = &scene->memory;
    assert_int_equal(index_namespace(scene->index, space, &scene->ns), KVT_OK);
    assert_int_equal(router_workers_new(&scene->workers), KVT_OK);
    for (uint32_t i = 0; i < ROWS; i++) {
        struct router_worker worker = {.dp_rank = i % RANKS};

        name_of(i / RANKS, worker.name);
        assert_int_equal(router_workers_seen(scene->workers, &worker, ROUTER_ORIGIN_CONFIG),
                         KVT_OK);
    }
    assert_int_equal(advisor_worker_set_new(&scene->crew, scene->workers), KVT_OK);
    assert_int_equal(scene->crew->count, ROWS);
    assert_int_equal(advisor_coverage_new(&scene->coverage), KVT_OK);
    for (uint32_t i = 0; i < BLOCKS; i++)
        scene->hashes[i] = 1000 + i;
}

static void
end(struct scene *scene)
{
    advisor_coverage_free(scene->coverage);
    advisor_worker_set_leave(scene->crew);
    router_workers_free(scene->workers);
    index_free(scene->index);
}

static void
store(struct scene *scene, const char *name, uint32_t rank, enum kvt_tier tier, uint32_t at)
{
    struct index_holder key = {.dp_rank = rank, .tier = tier};
    const struct index_block block = {.id = {.hash = scene->hashes[at],
                                             .parent = at == 0 ? 0 : scene->hashes[at - 1],
                                             .position = at},
                                      .size = 1,
                                      .ranks = 1};
    uint32_t holder;

    (void)snprintf(key.name, sizeof(key.name), "%s", name);
    assert_int_equal(index_holder(scene->index, &key, &holder), KVT_OK);
    assert_int_equal(index_store(scene->index, scene->ns, holder, &block, NULL), KVT_OK);
}

static void
store_range(struct scene *scene, const char *name, uint32_t rank, enum kvt_tier tier, uint32_t from,
            uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        store(scene, name, rank, tier, i);
}

static void
look(struct scene *scene)
{
    assert_int_equal(advisor_coverage_look(scene->coverage, &scene->finder, scene->crew, space,
                                           scene->hashes, BLOCKS),
                     KVT_OK);
}

static void
assert_row(const struct scene *scene, const char *name, uint32_t rank, const uint32_t wanted[TIERS])
{
    const size_t row = advisor_worker_set_find(scene->crew, name, rank);

    assert_int_not_equal(row, scene->crew->count);
    for (size_t i = 0; i < TIERS; i++)
        assert_int_equal(scene->coverage->cached[i][row], wanted[i]);
    assert_false(scene->coverage->uncertain[row]);
}

static void
a_block_counts_once_in_the_nearest_tier(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    /* G2 has all of G1 and more: one question is enough. */
    store_range(&scene, "w00", 0, KVT_TIER_G1, 0, 10);
    store_range(&scene, "w00", 0, KVT_TIER_G2, 0, 14);
    store_range(&scene, "w00", 0, KVT_TIER_G3, 0, 16);
    store_range(&scene, "hot@g1", 0, KVT_TIER_G4, 0, 20);
    store_range(&scene, "cold@b", 0, KVT_TIER_G4, 18, 25);
    store_range(&scene, "w01", 1, KVT_TIER_G1, 0, 30);
    look(&scene);
    assert_row(&scene, "w00", 0, (uint32_t[]){10, 4, 2, 9});
    assert_row(&scene, "w00", 1, (uint32_t[]){0, 0, 0, 25});
    assert_row(&scene, "w01", 1, (uint32_t[]){30, 0, 0, 0});
    assert_row(&scene, "w02", 0, (uint32_t[]){0, 0, 0, 25});
    assert_int_equal(advisor_coverage_asked(scene.coverage), 1);
    end(&scene);
}

static void
a_hole_ends_a_tier_and_the_next_goes_on(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    store_range(&scene, "w00", 0, KVT_TIER_G1, 0, 4);
    store_range(&scene, "w00", 0, KVT_TIER_G1, 5, 9); /* behind a hole: of no use */
    store_range(&scene, "w00", 0, KVT_TIER_G2, 4, 6); /* without the root */
    store_range(&scene, "w00", 0, KVT_TIER_G3, 6, 8);
    store_range(&scene, "hot@g1", 0, KVT_TIER_G4, 8, 10);
    /* G1 begins at the root or not at all; G2 and the others, too, if nothing is before them. */
    store_range(&scene, "w01", 0, KVT_TIER_G1, 1, 40);
    store_range(&scene, "w01", 0, KVT_TIER_G3, 0, 2);
    look(&scene);
    assert_row(&scene, "w00", 0, (uint32_t[]){4, 2, 2, 2});
    assert_row(&scene, "w01", 0, (uint32_t[]){0, 0, 2, 0});
    assert_row(&scene, "w02", 0, (uint32_t[]){0, 0, 0, 0});
    assert_int_equal(advisor_coverage_asked(scene.coverage), 3);
    scene.coverage->by_name = true;
    look(&scene);
    assert_row(&scene, "w00", 0, (uint32_t[]){4, 2, 2, 2});
    end(&scene);
}

/* ---- missing events ---- */

static void
doubt(struct scene *scene, const char *name, bool gateway)
{
    struct advisor_publisher *publisher;

    assert_int_equal(
        advisor_publishers_get(scene->finder.publishers, scene->ns, space, name, &publisher),
        KVT_OK);
    publisher->row.need_dump = 1;
    publisher->row.holds_g4 = gateway;
    publisher->shown = false;
    advisor_publishers_show(scene->finder.publishers);
}

/* What is known is the same, it is as quick, and it is told what may be wrong. */
static void
who_is_uncertain_is_told(void **state)
{
    const size_t questions = 2; /* none for w00, whose own G2 has nothing */
    struct scene scene;

    (void)state;
    begin(&scene);
    assert_int_equal(advisor_publishers_new(&scene.finder.publishers), KVT_OK);
    store_range(&scene, "w00", 0, KVT_TIER_G1, 0, 4);
    store_range(&scene, "w01", 0, KVT_TIER_G1, 0, 6);
    store_range(&scene, "w01", 0, KVT_TIER_G2, 4, 8);
    store_range(&scene, "hot@g1", 0, KVT_TIER_G4, 0, 10);
    look(&scene);
    assert_row(&scene, "w01", 0, (uint32_t[]){6, 2, 0, 2});
    assert_int_equal(advisor_coverage_asked(scene.coverage), questions);
    doubt(&scene, "w01", false);
    for (int i = 0; i < 2; i++) {
        look(&scene);
        assert_row(&scene, "w00", 0, (uint32_t[]){4, 0, 0, 6});
        assert_true(scene.coverage->uncertain[advisor_worker_set_find(scene.crew, "w01", 0)]);
        assert_int_equal(scene.coverage->cached[0][advisor_worker_set_find(scene.crew, "w01", 0)],
                         6);
        assert_int_equal(scene.coverage->cold_uncertain, i == 1);
        assert_int_equal(advisor_coverage_asked(scene.coverage), questions);
        doubt(&scene, "g1", true);
    }
    scene.coverage->by_name = true;
    look(&scene);
    assert_true(scene.coverage->cold_uncertain);
    assert_true(advisor_coverage_asked(scene.coverage) > questions);
    advisor_publishers_free(scene.finder.publishers);
    end(&scene);
}

/* ---- random holdings ---- */

struct model {
    bool own[ROWS][TIERS - 1][BLOCKS];
    bool cold[BLOCKS];
};

static void
model_of(const struct model *model, size_t row, uint32_t wanted[TIERS])
{
    uint32_t depth = 0;

    for (size_t tier = 0; tier < TIERS; tier++) {
        wanted[tier] = 0;
        while (depth < BLOCKS &&
               (tier < TIERS - 1 ? model->own[row][tier][depth] : model->cold[depth])) {
            wanted[tier]++;
            depth++;
        }
    }
}

/* A holder has pieces, mostly from the root on. */
static void
scatter(struct scene *scene, struct model *model, uint64_t *random)
{
    for (uint32_t row = 0; row < ROWS; row++) {
        char name[KVT_NAME_MAX];

        name_of(row / RANKS, name);
        for (uint32_t tier = 0; tier < TIERS - 1; tier++) {
            const uint64_t pieces = kvt_random_below(random, 3);

            for (uint64_t p = 0; p < pieces; p++) {
                const uint32_t from = p == 0 ? 0 : (uint32_t)kvt_random_below(random, BLOCKS);
                const uint32_t to = from + (uint32_t)kvt_random_below(random, BLOCKS - from) + 1;

                store_range(scene, name, row % RANKS, KVT_TIER_G1 + tier, from, to);
                for (uint32_t i = from; i < to; i++)
                    model->own[row][tier][i] = true;
            }
        }
    }
    for (uint32_t i = 0; i < BLOCKS; i++) {
        if (kvt_random_below(random, 4) == 0)
            continue;
        store(scene, kvt_random_below(random, 2) == 0 ? "hot@g1" : "cold@b", 0, KVT_TIER_G4, i);
        model->cold[i] = true;
    }
}

static void
random_holdings_are_counted_as_block_by_block(void **state)
{
    uint64_t random = test_seed();
    size_t lower = 0;

    (void)state;
    for (uint32_t round = 0; round < ROUNDS / TEST_ALONE_SHARE; round++) {
        struct model model = {.cold = {false}};
        struct scene scene;

        begin(&scene);
        scatter(&scene, &model, &random);
        for (int again = 0; again < 3; again++) {
            scene.coverage->by_name = again == 1;
            look(&scene);
            for (size_t row = 0; row < ROWS; row++) {
                uint32_t wanted[TIERS];

                model_of(&model, row, wanted);
                for (size_t tier = 0; tier < TIERS; tier++)
                    assert_int_equal(scene.coverage->cached[tier][row], wanted[tier]);
                lower += wanted[1] > 0 && wanted[2] > 0;
            }
        }
        assert_in_range(advisor_coverage_asked(scene.coverage), 0, BLOCKS);
        end(&scene);
    }
    assert_true(lower > 0);
}

static void
what_is_not_known_is_nothing(void **state)
{
    struct advisor_coverage *coverage;
    struct scene scene;

    (void)state;
    begin(&scene);
    look(&scene);
    assert_row(&scene, "w00", 0, (uint32_t[]){0, 0, 0, 0});
    assert_int_equal(advisor_coverage_asked(scene.coverage), 0);
    coverage = scene.coverage;
    assert_int_equal(
        advisor_coverage_look(coverage, &scene.finder, scene.crew, "other", scene.hashes, BLOCKS),
        KVT_OK);
    assert_int_equal(
        advisor_coverage_look(coverage, &scene.finder, scene.crew, space, scene.hashes, 0), KVT_OK);
    assert_int_equal(advisor_coverage_look(coverage, &scene.finder, scene.crew, space, scene.hashes,
                                           WIRE_QUERY_HASHES_MAX + 1),
                     KVT_RANGE);
    assert_int_equal(advisor_worker_set_find(scene.crew, "w00", RANKS), scene.crew->count);
    assert_int_equal(advisor_worker_set_find(scene.crew, "stranger", 0), scene.crew->count);
    end(&scene);
}

/* A crew stays as it was while somebody has it. */
static void
a_crew_is_of_one_instant(void **state)
{
    struct scene scene;
    struct advisor_worker_set *kept;

    (void)state;
    begin(&scene);
    kept = advisor_worker_set_keep(scene.crew);
    router_workers_free(scene.workers);
    assert_int_equal(router_workers_new(&scene.workers), KVT_OK);
    advisor_worker_set_leave(scene.crew);
    assert_int_equal(advisor_worker_set_find(kept, "w00", 0), 0);
    advisor_worker_set_leave(kept);
    assert_int_equal(advisor_worker_set_new(&scene.crew, scene.workers), KVT_OK);
    assert_int_equal(scene.crew->count, 0);
    assert_int_equal(advisor_worker_set_find(scene.crew, "w00", 0), 0);
    end(&scene);
}

/* Numbers of holders are learned once; a new holder, and one that got another's number, are met. */
static void
numbers_may_change_between_looks(void **state)
{
    struct index_holder key = {.tier = KVT_TIER_G1};
    struct scene scene;
    uint32_t holder;

    (void)state;
    begin(&scene);
    store_range(&scene, "w00", 0, KVT_TIER_G1, 0, 10);
    look(&scene);
    assert_row(&scene, "w00", 0, (uint32_t[]){10, 0, 0, 0});
    store_range(&scene, "w01", 0, KVT_TIER_G1, 0, 5);
    look(&scene);
    assert_row(&scene, "w01", 0, (uint32_t[]){5, 0, 0, 0});
    memcpy(key.name, "w00", sizeof("w00"));
    assert_int_equal(index_holder(scene.index, &key, &holder), KVT_OK);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(index_remove(scene.index, scene.ns, holder, scene.hashes[i], UINT32_MAX),
                         KVT_OK);
    memcpy(key.name, "w02", sizeof("w02"));
    assert_int_equal(index_holder_rename(scene.index, holder, &key), KVT_OK);
    store_range(&scene, "w02", 0, KVT_TIER_G1, 0, 7);
    look(&scene);
    assert_row(&scene, "w00", 0, (uint32_t[]){0, 0, 0, 0});
    assert_row(&scene, "w02", 0, (uint32_t[]){7, 0, 0, 0});
    end(&scene);
}

static bool
attempt(void *arg)
{
    struct scene *scene = arg;
    struct advisor_coverage *coverage = NULL;
    struct advisor_worker_set *crew = NULL;
    enum kvt_err rc = advisor_worker_set_new(&crew, scene->workers);

    if (rc == KVT_OK)
        rc = advisor_coverage_new(&coverage);
    if (rc == KVT_OK)
        rc = advisor_coverage_look(coverage, &scene->finder, crew, space, scene->hashes, BLOCKS);
    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    if (rc == KVT_OK)
        assert_int_equal(coverage->cached[0][0], 10);
    advisor_coverage_free(coverage);
    advisor_worker_set_leave(crew);
    return rc == KVT_OK;
}

static void
every_allocation_may_fail(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    store_range(&scene, "w00", 0, KVT_TIER_G1, 0, 10);
    assert_true(test_sweep_allocations(attempt, &scene) > 10);
    end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_counts_once_in_the_nearest_tier),
        cmocka_unit_test(a_hole_ends_a_tier_and_the_next_goes_on),
        cmocka_unit_test(who_is_uncertain_is_told),
        cmocka_unit_test(random_holdings_are_counted_as_block_by_block),
        cmocka_unit_test(what_is_not_known_is_nothing),
        cmocka_unit_test(a_crew_is_of_one_instant),
        cmocka_unit_test(numbers_may_change_between_looks),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
