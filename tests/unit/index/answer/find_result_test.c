/*
 * What is tested: index/answer/find_result.h over run holders made by hand.
 * How: random ways through random runs, held by few and by thousands in all forms of
 * index_run_holders, against a table of flags; then the order of equal lengths, and every
 * allocation failed.
 */
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "index/answer/find_result.h"

#include "tests/support/seed.h"

enum { RUNS = 5, BLOCKS = 40, HOLDERS = 400, ROUNDS = 400, WAYS = 8 };

struct world {
    struct index_memory memory;
    struct index_epoch epoch;
    struct index_shards *shards;
    struct index_run_holders_context context;
    struct index_run_holders runs[RUNS];
    uint32_t stride;
    uint64_t state;
    bool held[RUNS][HOLDERS][BLOCKS];
};

static uint32_t
below(struct world *world, uint64_t bound)
{
    return (uint32_t)kvt_random_below(&world->state, bound);
}

static void
change(struct world *world, uint32_t run, uint32_t holder, bool add, uint32_t from, uint32_t to)
{
    struct index_run_holders_effect effect;
    const uint32_t ranks = below(world, 4) == 0 ? 2 : 1;
    uint32_t code;

    if (from >= to)
        return;
    assert_int_equal(index_shards_code(world->shards, ranks, &code), KVT_OK);
    assert_int_equal(add ? index_run_holders_add(&world->runs[run], &world->context,
                                                 holder * world->stride, code, from, to, &effect)
                         : index_run_holders_remove(&world->runs[run], &world->context,
                                                    holder * world->stride, UINT32_MAX, from, to,
                                                    &effect),
                     KVT_OK);
    for (uint32_t i = from; i < to; i++)
        world->held[run][holder][i] = add;
}

static struct world *
world_new(uint64_t seed)
{
    struct world *world = kvt_aligned(64, sizeof(*world));

    assert_non_null(world);
    memset(world, 0, sizeof(*world));
    world->state = seed;
    world->memory.max = UINT64_MAX;
    world->stride = 1 + below(world, 2) * 162;
    index_epoch_init(&world->epoch, &world->memory);
    assert_int_equal(index_shards_new(&world->shards, &world->memory), KVT_OK);
    world->context = (struct index_run_holders_context){
        .memory = &world->memory, .epoch = &world->epoch, .shards = world->shards};
    return world;
}

static void
world_free(struct world *world)
{
    for (uint32_t run = 0; run < RUNS; run++)
        index_run_holders_clear(&world->runs[run], &world->context);
    index_epoch_release(&world->epoch);
    index_shards_free(world->shards, &world->memory);
    assert_int_equal(world->memory.used, 0);
    kvt_free(world);
}

/* Some runs have a few holders, some nearly all, some parts that many have. */
static void
fill(struct world *world)
{
    for (uint32_t run = 0; run < RUNS; run++) {
        const uint32_t holders = below(world, 3) == 0 ? 1 + below(world, 4) : HOLDERS;
        const uint32_t style = below(world, 4);

        for (uint32_t i = 0; i < holders; i++) {
            const uint32_t holder = holders == HOLDERS ? i : below(world, HOLDERS);
            const uint32_t part = 8 * (1 + below(world, BLOCKS / 8));

            if (style == 0 || below(world, 8) == 0)
                change(world, run, holder, true, 0, BLOCKS);
            else if (style == 1)
                change(world, run, holder, true, 0, part);
            else if (style == 2)
                change(world, run, holder, true, 0, 1 + below(world, BLOCKS));
            else
                change(world, run, holder, true, below(world, BLOCKS / 2), BLOCKS);
            if (below(world, 6) == 0)
                change(world, run, holder, false, part, part + below(world, BLOCKS - part + 1));
            if (below(world, 6) == 0)
                change(world, run, holder, true, part / 2, part);
        }
    }
}

static uint32_t
model_length(const struct world *world, uint32_t holder, const uint32_t from[RUNS],
             const uint32_t to[RUNS])
{
    uint32_t length = 0;

    for (uint32_t run = 0; run < RUNS; run++)
        for (uint32_t i = from[run]; i < to[run]; i++, length++)
            if (!world->held[run][holder][i])
                return length;
    return length;
}

static void
check(struct world *world, struct index_find_result *found, const uint32_t from[RUNS],
      const uint32_t to[RUNS])
{
    struct index_match matches[HOLDERS];
    struct index_match part[HOLDERS];
    const size_t capacity = 1 + below(world, HOLDERS);
    uint32_t longest = 0;
    size_t expected = 0;
    size_t count;

    count = index_find_result_best(found, matches, HOLDERS);
    assert_int_equal(count, index_find_result_count(found));
    for (uint32_t holder = 0; holder < HOLDERS; holder++) {
        const uint32_t length = model_length(world, holder, from, to);

        expected += length > 0;
        longest = length > longest ? length : longest;
    }
    assert_int_equal(count, expected);
    assert_int_equal(index_find_result_length(found), longest);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(matches[i].blocks,
                         model_length(world, matches[i].holder / world->stride, from, to));
        if (i > 0)
            assert_true(matches[i - 1].blocks > matches[i].blocks ||
                        (matches[i - 1].blocks == matches[i].blocks &&
                         matches[i - 1].holder < matches[i].holder));
    }
    assert_int_equal(index_find_result_best(found, part, capacity),
                     count < capacity ? count : capacity);
    assert_memory_equal(part, matches, sizeof(*part) * (count < capacity ? count : capacity));
}

/* Go through all runs; each is read twice sometimes, as if it had changed. */
static void
go(struct world *world, struct index_find_result *found)
{
    uint32_t from[RUNS] = {0};
    uint32_t to[RUNS] = {0};
    uint32_t depth = 0;
    bool more = true;

    for (uint32_t run = 0; run < RUNS; run++) {
        from[run] = below(world, 2) == 0 ? 0 : below(world, BLOCKS);
        to[run] = from[run] + 1 + below(world, BLOCKS - from[run]);
    }
    index_find_result_begin(found);
    for (uint32_t run = 0; run < RUNS && more; run++) {
        if (below(world, 4) == 0)
            assert_int_equal(index_find_result_narrow(found, &world->runs[below(world, RUNS)],
                                                      below(world, 4), 5 + below(world, 9), depth),
                             KVT_OK);
        assert_int_equal(
            index_find_result_narrow(found, &world->runs[run], from[run], to[run], depth), KVT_OK);
        depth += to[run] - from[run];
        index_find_result_accept(found, depth);
        more = index_find_result_followers(found) > 0;
    }
    check(world, found, from, to);
}

static void
random_ways(void **state)
{
    uint64_t seed = test_seed();
    struct index_find_result *found;

    (void)state;
    assert_int_equal(index_find_result_new(&found), KVT_OK);
    for (int round = 0; round < ROUNDS; round++) {
        struct world *world = world_new(kvt_random_next(&seed));

        fill(world);
        for (int way = 0; way < WAYS; way++)
            go(world, found);
        world_free(world);
    }
    index_find_result_free(found);
}

static bool
ask(void *arg)
{
    struct world *world = arg;
    struct index_find_result *found;
    bool done = false;

    if (index_find_result_new(&found) != KVT_OK) {
        assert_null(found);
        return false;
    }
    done = index_find_result_narrow(found, &world->runs[0], 0, BLOCKS, 0) == KVT_OK;
    if (done) {
        index_find_result_accept(found, BLOCKS);
        done = index_find_result_narrow(found, &world->runs[1], 0, BLOCKS, BLOCKS) == KVT_OK;
    }
    if (done) {
        index_find_result_accept(found, 2 * BLOCKS);
        assert_int_equal(index_find_result_count(found), HOLDERS);
        assert_int_equal(index_find_result_length(found), BLOCKS);
    }
    index_find_result_free(found);
    return done;
}

static void
every_failing_allocation(void **state)
{
    struct world *world = world_new(1);

    (void)state;
    for (uint32_t i = 0; i < HOLDERS; i++)
        change(world, 0, i, true, 0, i % 2 == 0 ? BLOCKS : 1 + i % 30);
    assert_true(test_sweep_allocations(ask, world) >= 4);
    world_free(world);
}

static void
nobody_and_nothing(void **state)
{
    struct world *world = world_new(1);
    struct index_match match;
    struct index_find_result *found;

    (void)state;
    index_find_result_free(NULL);
    assert_int_equal(index_find_result_new(&found), KVT_OK);
    assert_int_equal(index_find_result_count(found), 0);
    assert_int_equal(index_find_result_length(found), 0);
    assert_int_equal(index_find_result_best(found, &match, 1), 0);
    assert_int_equal(index_find_result_narrow(found, &world->runs[0], 0, 1, 0), KVT_OK);
    index_find_result_accept(found, 1);
    assert_int_equal(index_find_result_followers(found), 0);
    assert_int_equal(index_find_result_count(found), 0);
    assert_int_equal(index_find_result_length(found), 0);
    index_find_result_free(found);
    world_free(world);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_ways),
        cmocka_unit_test(every_failing_allocation),
        cmocka_unit_test(nobody_and_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
