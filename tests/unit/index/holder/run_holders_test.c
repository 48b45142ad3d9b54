/*
 * What is tested: index/holder/run_holders.h, and index/holder/shards.h below it.
 * How: by long random runs against a model that cannot be wrong in the same way, a table of
 * bitmaps by holder and block: every effect after every change, every answer every so often.  The
 * runs prove that they met sets of both kinds, several groups, ranges taken apart, a full index and
 * a heap that fails.  KVT_SEED=n replays.
 */
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "index/holder/holder_list.h"
#include "index/holder/run_holders.h"

#include "tests/support/seed.h"

enum { BLOCKS_MAX = 200, HOLDERS_MAX = 1500 };

struct shape {
    uint32_t holders;
    uint32_t stride; /* between numbers of holders */
    uint32_t blocks;
    uint32_t shards; /* bits of bitmaps in use */
    uint32_t whole;  /* of 100 changes, how many are of a part that many have */
    int steps;
    int check_every;
    uint64_t bytes_max; /* of memory; 0: no limit */
    bool heap_fails;
};

struct visited {
    uint32_t few;
    uint32_t bitmaps;
    uint32_t groups; /* the most at a time */
    uint32_t ranges;
    uint32_t closed;
    uint32_t full;
    uint32_t failed;
    uint32_t holes; /* holders with several ranges */
};

struct run {
    struct index_memory memory;
    struct index_epoch epoch;
    struct index_shards *shards;
    struct index_run_holders_context context;
    struct index_run_holders holders;
    struct shape shape;
    struct visited visited;
    uint64_t state;
    int steps;
    uint32_t held[BLOCKS_MAX]; /* holders of each block */
    uint32_t model[HOLDERS_MAX][BLOCKS_MAX];
};

/* Neither a range nor memory is left. */
static bool
is_empty(const struct index_run_holders *holders)
{
    return atomic_load(&holders->one) == 0 && index_holder_list_of(holders) == NULL;
}

static struct run *
run_new(const struct shape *shape)
{
    struct run *run = kvt_aligned(64, sizeof(*run));

    assert_non_null(run);
    assert_true(shape->holders <= HOLDERS_MAX && shape->blocks <= BLOCKS_MAX);
    memset(run, 0, sizeof(*run));
    run->shape = *shape;
    run->state = test_seed();
    run->memory.max = UINT64_MAX;
    index_epoch_init(&run->epoch, &run->memory);
    assert_int_equal(index_shards_new(&run->shards, &run->memory), KVT_OK);
    run->context = (struct index_run_holders_context){
        .memory = &run->memory, .epoch = &run->epoch, .shards = run->shards};
    if (shape->bytes_max != 0)
        run->memory.max = run->memory.used + shape->bytes_max;
    return run;
}

static uint32_t
below(struct run *run, uint64_t bound)
{
    return (uint32_t)kvt_random_below(&run->state, bound);
}

static uint32_t
number(const struct run *run, uint32_t holder)
{
    return holder * run->shape.stride;
}

static void
notice(struct run *run)
{
    const struct index_holder_list *list = index_holder_list_of(&run->holders);

    if (list == NULL) {
        run->visited.closed++;
        return;
    }
    if (index_holder_list_groups(list) > run->visited.groups)
        run->visited.groups = index_holder_list_groups(list);
    if (index_holder_list_ranges(list) > run->visited.ranges)
        run->visited.ranges = index_holder_list_ranges(list);
    for (uint32_t i = 0; i < index_holder_list_groups(list); i++) {
        run->visited.few += index_holder_list_set(list, i)->few != 0;
        run->visited.bitmaps += index_holder_list_set(list, i)->few == 0;
    }
}

static void
add(struct run *run, uint32_t holder, uint32_t ranks, uint32_t from, uint32_t to)
{
    struct index_run_holders_effect expected = {.pairs = 0};
    struct index_run_holders_effect effect;
    uint32_t code;
    enum kvt_err rc;

    assert_int_equal(index_shards_code(run->shards, ranks, &code), KVT_OK);
    if (run->shape.heap_fails && below(run, 2) == 0)
        kvt_alloc_fail_after(0);
    rc = index_run_holders_add(&run->holders, &run->context, number(run, holder), code, from, to,
                               &effect);
    kvt_alloc_fail_after(SIZE_MAX);
    notice(run);
    if (rc != KVT_OK) {
        assert_int_equal(rc, KVT_FULL);
        assert_true(run->shape.heap_fails || run->shape.bytes_max != 0);
        run->visited.full++;
        return;
    }
    for (uint32_t i = from; i < to; i++) {
        uint32_t *had = &run->model[holder][i];

        if (*had == 0) {
            expected.pairs++;
            expected.blocks += run->held[i]++ == 0;
        }
        expected.shards += (uint32_t)__builtin_popcount(ranks & ~*had);
        *had |= ranks;
    }
    assert_memory_equal(&effect, &expected, sizeof(effect));
}

static void
take(struct run *run, uint32_t holder, uint32_t ranks, uint32_t from, uint32_t to)
{
    struct index_run_holders_effect expected = {.pairs = 0};
    struct index_run_holders_effect effect;
    enum kvt_err rc;

    if (run->shape.heap_fails && below(run, 2) == 0)
        kvt_alloc_fail_after(0);
    rc = index_run_holders_remove(&run->holders, &run->context, number(run, holder), ranks, from,
                                  to, &effect);
    kvt_alloc_fail_after(SIZE_MAX);
    notice(run);
    if (rc != KVT_OK) {
        /* The ceiling alone never stops a removal. */
        assert_int_equal(rc, KVT_FULL);
        assert_true(run->shape.heap_fails);
        run->visited.failed++;
        return;
    }
    for (uint32_t i = from; i < to; i++) {
        uint32_t *had = &run->model[holder][i];

        expected.shards += (uint32_t)__builtin_popcount(ranks & *had);
        if (*had != 0 && (*had & ~ranks) == 0) {
            expected.pairs++;
            expected.blocks += --run->held[i] == 0;
        }
        *had &= ~ranks;
    }
    assert_memory_equal(&effect, &expected, sizeof(effect));
}

/* One past the last block the holder has. */
static uint32_t
end_of(const struct run *run, uint32_t holder)
{
    uint32_t end = run->shape.blocks;

    while (end > 0 && run->model[holder][end - 1] == 0)
        end--;
    return end;
}

static void
step(struct run *run)
{
    const uint32_t blocks = run->shape.blocks;
    const uint32_t holder = below(run, run->shape.holders);
    const uint32_t all = (1u << run->shape.shards) - 1;
    const uint32_t ranks = below(run, 3) == 0 ? 1 + below(run, all) : all;
    const uint32_t from = below(run, blocks);
    const uint32_t to = from + 1 + below(run, blocks - from);
    const uint32_t end = end_of(run, holder);
    /* It fills for a while, then it empties. */
    const bool filling = below(run, 100) < (run->steps++ / 3000 % 2 == 0 ? 85 : 30);

    if (below(run, 100) < run->shape.whole) {
        if (filling)
            add(run, holder, all, 0, below(run, 4) != 0 ? blocks : blocks / (2 + below(run, 3)));
        else
            take(run, holder, UINT32_MAX, 0, blocks);
    } else if (below(run, 2) == 0) { /* block by block */
        if (filling && end < blocks)
            add(run, holder, ranks, end, end + 1);
        else if (end > 0)
            take(run, holder, ranks, end - 1, end);
    } else if (filling) {
        add(run, holder, ranks, from, to);
    } else {
        take(run, holder, ranks, from, to);
    }
}

static void
check_places(struct run *run)
{
    struct index_run_holders_place place;
    uint64_t cursor = 0;
    uint64_t pairs = 0;
    uint64_t expected = 0;
    uint32_t last = UINT32_MAX;

    while (index_run_holders_next_read(&run->holders, &cursor, &place)) {
        const uint32_t holder = place.holder / run->shape.stride;

        assert_int_equal(place.holder % run->shape.stride, 0);
        assert_true(place.from < place.to && place.to <= run->shape.blocks);
        assert_true(last == UINT32_MAX || holder >= last);
        run->visited.holes += holder == last;
        last = holder;
        /* Now and then go on in the middle of it. */
        if (place.to - place.from > 1 && below(run, 8) == 0) {
            place.to = place.from + 1;
            cursor = (uint64_t)place.holder << 16 | place.to;
        }
        for (uint32_t i = place.from; i < place.to; i++)
            assert_int_equal(run->model[holder][i], index_shards_ranks(run->shards, place.code));
        pairs += place.to - place.from;
    }
    for (uint32_t i = 0; i < run->shape.blocks; i++)
        expected += run->held[i];
    assert_int_equal(pairs, expected);
}

static void
check(struct run *run)
{
    struct index_run_holders_place *places = kvt_calloc(run->shape.holders, sizeof(*places));
    const uint32_t capacity = 1 + below(run, run->shape.holders);
    const uint32_t block = below(run, run->shape.blocks);
    uint32_t end = run->shape.blocks;
    uint32_t holders = 0;
    uint32_t sole = 0;
    uint32_t given = 0;
    uint32_t answer;
    size_t count;

    assert_non_null(places);
    check_places(run);
    while (end > 0 && run->held[end - 1] == 0)
        end--;
    assert_int_equal(index_run_holders_end(&run->holders), end);
    assert_int_equal(is_empty(&run->holders), end == 0);
    count = index_run_holders_block_read(&run->holders, block, places, capacity);
    assert_int_equal(count, run->held[block]);
    for (uint32_t holder = 0; holder < run->shape.holders; holder++) {
        const uint32_t ranks = run->model[holder][block];
        const uint32_t code =
            index_run_holders_code_read(&run->holders, number(run, holder), block);

        if (end_of(run, holder) > 0) {
            holders++;
            sole = holder;
        }
        assert_int_equal(code == 0 ? 0 : index_shards_ranks(run->shards, code), ranks);
        if (ranks == 0 || given >= capacity)
            continue;
        assert_int_equal(places[given].holder, number(run, holder));
        assert_int_equal(places[given++].code, code);
    }
    assert_int_equal(index_run_holders_sole(&run->holders, &answer), holders == 1);
    if (holders == 1)
        assert_int_equal(answer, number(run, sole));
    kvt_free(places);
}

static void
walk(struct run *run)
{
    for (int i = 0; i < run->shape.steps; i++) {
        step(run);
        if (i % run->shape.check_every == 0)
            check(run);
    }
    check(run);
}

/* Remove everything, holder by holder; all memory must come back. */
static void
run_free(struct run *run)
{
    const uint64_t max = run->memory.max;

    run->memory.max = 0; /* not even a byte is needed for it */
    for (uint32_t holder = 0; holder < run->shape.holders; holder++)
        take(run, holder, UINT32_MAX, 0, run->shape.blocks);
    assert_true(is_empty(&run->holders));
    assert_int_equal(index_run_holders_end(&run->holders), 0);
    run->memory.max = max;
    index_epoch_release(&run->epoch);
    index_shards_free(run->shards, &run->memory);
    assert_int_equal(run->memory.used, 0);
    kvt_free(run);
}

static void
few_holders_with_holes(void **state)
{
    const struct shape shape = {.holders = 3,
                                .stride = 1,
                                .blocks = 70,
                                .shards = 3,
                                .whole = 0,
                                .steps = 60000,
                                .check_every = 7};
    struct run *run = run_new(&shape);

    (void)state;
    walk(run);
    assert_true(run->visited.closed > 0);
    assert_true(run->visited.holes > 0);
    assert_true(run->visited.ranges > 8);
    run_free(run);
}

static void
hundred_holders(void **state)
{
    const struct shape shape = {.holders = 100,
                                .stride = 650,
                                .blocks = 130,
                                .shards = 2,
                                .whole = 80,
                                .steps = 60000,
                                .check_every = 101};
    struct run *run = run_new(&shape);

    (void)state;
    walk(run);
    assert_true(run->visited.few + run->visited.bitmaps > 0);
    run_free(run);
}

static void
thousands_of_holders(void **state)
{
    const struct shape shape = {.holders = HOLDERS_MAX,
                                .stride = 7,
                                .blocks = 24,
                                .shards = 1,
                                .whole = 50,
                                .steps = 60000,
                                .check_every = 997};
    struct run *run = run_new(&shape);

    (void)state;
    walk(run);
    assert_true(run->visited.bitmaps > 0);
    assert_true(run->visited.groups > 1);
    run_free(run);
}

static void
a_full_index_still_removes(void **state)
{
    const struct shape shape = {.holders = 300,
                                .stride = 1,
                                .blocks = 100,
                                .shards = 2,
                                .whole = 30,
                                .steps = 30000,
                                .check_every = 101,
                                .bytes_max = 1500};
    struct run *run = run_new(&shape);

    (void)state;
    walk(run);
    assert_true(run->visited.full > 0);
    assert_true(run->visited.ranges > 8);
    run_free(run);
}

static void
a_failing_heap_changes_nothing(void **state)
{
    const struct shape shape = {.holders = 200,
                                .stride = 100,
                                .blocks = 60,
                                .shards = 2,
                                .whole = 40,
                                .steps = 60000,
                                .check_every = 31,
                                .heap_fails = true};
    struct run *run = run_new(&shape);

    (void)state;
    walk(run);
    assert_true(run->visited.full > 0);
    run->shape.heap_fails = false;
    run_free(run);
}

static void
taking_apart_needs_the_heap_alone(void **state)
{
    const struct shape shape = {.holders = 1, .stride = 1, .blocks = 64};
    struct run *run = run_new(&shape);

    (void)state;
    add(run, 0, 1, 0, 64);
    run->shape.heap_fails = true;
    while (run->visited.failed == 0) {
        take(run, 0, 1, 20, 30);
        check(run);
        add(run, 0, 1, 20, 30);
    }
    run->shape.heap_fails = false;
    run->memory.max = 0;
    take(run, 0, 1, 20, 30);
    check(run);
    run_free(run);
}

/* The patterns that matter for speed keep their shape: whole runs are one group, whatever order
 * holders come and go in. */
static void
patterns_stay_small(void **state)
{
    const struct shape shape = {
        .holders = 1000, .stride = 1, .blocks = 64, .shards = 1, .whole = 0};
    struct run *run = run_new(&shape);
    const struct index_holder_list *list;

    (void)state;
    for (uint32_t i = 0; i < 1000; i++)
        add(run, i, 1, 0, 64);
    list = index_holder_list_of(&run->holders);
    assert_non_null(list);
    assert_int_equal(index_holder_list_groups(list), 1);
    assert_int_equal(index_holder_list_ranges(list), 0);
    assert_true(index_holder_list_bytes(list) +
                    index_holder_set_bytes(index_holder_list_set(list, 0)) <
                512);
    /* Block by block, all holders in step. */
    for (uint32_t block = 64; block-- > 32;)
        for (uint32_t i = 0; i < 1000; i++)
            take(run, i, UINT32_MAX, block, block + 1);
    for (uint32_t block = 32; block < 64; block++)
        for (uint32_t i = 1000; i-- > 0;)
            add(run, i, 1, block, block + 1);
    check(run);
    assert_true(run->visited.groups <= 3);
    assert_true(run->visited.ranges <= 130);
    index_run_holders_clear(&run->holders, &run->context);
    assert_true(is_empty(&run->holders));
    memset(run->model, 0, sizeof(run->model));
    memset(run->held, 0, sizeof(run->held));
    run_free(run);
}

/* A dozen holders with numbers far apart are no bitmap, and become one when they are many. */
static void
few_are_numbers_and_many_a_bitmap(void **state)
{
    const struct shape shape = {.holders = 100, .stride = 600, .blocks = 64, .shards = 1};
    struct run *run = run_new(&shape);
    const struct index_holder_list *list;

    (void)state;
    for (uint32_t i = 0; i < 40; i++)
        add(run, 39 - i, 1, 0, 64);
    list = index_holder_list_of(&run->holders);
    assert_int_equal(index_holder_list_groups(list), 1);
    assert_true(index_holder_list_set(list, 0)->few >= 8);
    check(run);
    for (uint32_t i = 40; i < 100; i++)
        add(run, i, 1, 0, 64);
    list = index_holder_list_of(&run->holders);
    assert_int_equal(index_holder_list_set(list, 0)->few, 0);
    check(run);
    for (uint32_t i = 0; i < 95; i++)
        take(run, i, 1, 0, 64);
    assert_true(index_holder_list_set(index_holder_list_of(&run->holders), 0)->few > 0);
    check(run);
    run_free(run);
}

static void
codes_of_shards(void **state)
{
    struct index_memory memory = {.max = 1 << 20};
    struct index_shards *shards;
    uint32_t code;
    uint32_t again;

    (void)state;
    assert_int_equal(index_shards_new(&shards, &memory), KVT_OK);
    for (uint32_t ranks = 1; ranks <= INDEX_SHARDS_MAX; ranks++) {
        assert_int_equal(index_shards_code(shards, ranks << 20 | ranks, &code), KVT_OK);
        assert_true(code != 0 && code <= INDEX_SHARDS_MAX);
        assert_int_equal(index_shards_ranks(shards, code), ranks << 20 | ranks);
        assert_int_equal(index_shards_code(shards, ranks << 20 | ranks, &again), KVT_OK);
        assert_int_equal(code, again);
    }
    assert_int_equal(index_shards_code(shards, UINT32_MAX, &code), KVT_RANGE);
    assert_int_equal(code, 0);
    assert_int_equal(index_shards_ranks(shards, 0), 0);
    index_shards_free(shards, &memory);
    assert_int_equal(memory.used, 0);
    memory.max = 0;
    assert_int_equal(index_shards_new(&shards, &memory), KVT_NOMEM);
    assert_null(shards);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_holders_with_holes),
        cmocka_unit_test(hundred_holders),
        cmocka_unit_test(thousands_of_holders),
        cmocka_unit_test(a_full_index_still_removes),
        cmocka_unit_test(a_failing_heap_changes_nothing),
        cmocka_unit_test(taking_apart_needs_the_heap_alone),
        cmocka_unit_test(patterns_stay_small),
        cmocka_unit_test(few_are_numbers_and_many_a_bitmap),
        cmocka_unit_test(codes_of_shards),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
