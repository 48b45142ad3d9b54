/*
 * What is tested: advisor/index/departed_blocks.h: what was put in comes out, of each worker in
 * its order, of settled workers alone; the limits hold, and what is beyond them is counted; and so
 * it is whichever allocation fails.
 * How: at random beside a counter a worker (seed printed), and by hand.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/index/departed_blocks.h"
#include "base/core/alloc.h"
#include "base/core/random.h"

#include "tests/support/seed.h"

enum { WORKERS = 5, STEPS = 20000 };

struct model {
    uint64_t put[WORKERS]; /* hashes of a worker are counted up */
    uint64_t got[WORKERS];
    bool settled[WORKERS];
};

static bool
is_settled(void *arg, uint32_t ns, const char *worker)
{
    const struct model *model = arg;

    assert_int_equal(ns, (uint32_t)(worker[1] - '0') + 10);
    return model->settled[worker[1] - '0'];
}

static void
put(struct advisor_departed_blocks *departed, struct model *model, int worker, uint32_t count)
{
    uint64_t hashes[INDEX_DROPPED_MAX];
    char name[KVT_NAME_MAX];

    (void)snprintf(name, sizeof(name), "w%d", worker);
    for (uint32_t i = 0; i < count; i++)
        hashes[i] = ++model->put[worker];
    advisor_departed_blocks_add(
        departed, name,
        &(const struct advisor_departed_blocks_piece){.hashes = hashes,
                                                      .parent = model->put[worker],
                                                      .count = count,
                                                      .ns = (uint32_t)worker + 10});
}

static void
check(struct model *model, const struct advisor_departed_blocks_piece *piece)
{
    const uint32_t worker = piece->ns - 10;

    for (uint32_t i = 0; i < piece->count; i++)
        assert_int_equal(piece->hashes[i], ++model->got[worker]);
    assert_int_equal(piece->parent, model->got[worker]);
    assert_true(model->settled[worker]);
}

static void
what_is_put_in_comes_out(void **state)
{
    struct model model = {.settled = {false}};
    struct advisor_departed_blocks_piece piece;
    struct advisor_departed_blocks *departed;
    uint64_t random = test_seed();

    (void)state;
    assert_int_equal(advisor_departed_blocks_new(&departed), KVT_OK);
    for (int step = 0; step < STEPS; step++) {
        const int worker = (int)kvt_random_below(&random, WORKERS);

        switch (kvt_random_below(&random, 4)) {
        case 0:
            put(departed, &model, worker,
                (uint32_t)kvt_random_below(&random, step % 50 == 0 ? INDEX_DROPPED_MAX + 1 : 20));
            break;
        case 1: model.settled[worker] = !model.settled[worker]; break;
        default:
            if (advisor_departed_blocks_turn(departed, is_settled, &model))
                for (uint64_t n = kvt_random_below(&random, 5);
                     n > 0 && advisor_departed_blocks_next(departed, &piece); n--)
                    check(&model, &piece);
        }
    }
    memset(model.settled, 1, sizeof(model.settled));
    while (advisor_departed_blocks_turn(departed, is_settled, &model))
        while (advisor_departed_blocks_next(departed, &piece))
            check(&model, &piece);
    assert_memory_equal(model.put, model.got, sizeof(model.put));
    assert_int_equal(advisor_departed_blocks_count(departed), 0);
    assert_int_equal(advisor_departed_blocks_left_out(departed), 0);
    advisor_departed_blocks_free(departed);
}

static void
what_is_too_much_is_counted(void **state)
{
    struct model model = {.settled = {true, true}};
    struct advisor_departed_blocks *departed;
    uint64_t put_in = 0;

    (void)state;
    assert_int_equal(advisor_departed_blocks_new(&departed), KVT_OK);
    for (; advisor_departed_blocks_left_out(departed) == 0; put_in += INDEX_DROPPED_MAX)
        put(departed, &model, 0, INDEX_DROPPED_MAX);
    assert_true(put_in <= ADVISOR_DEPARTED_BLOCKS_MAX &&
                advisor_departed_blocks_count(departed) <= ADVISOR_DEPARTED_BLOCKS_MAX);
    assert_true(put_in > ADVISOR_DEPARTED_BLOCKS_MAX - 10 * INDEX_DROPPED_MAX);
    advisor_departed_blocks_clear(departed);
    assert_int_equal(advisor_departed_blocks_count(departed), 0);
    for (int i = 0; i <= ADVISOR_LEAVERS_MAX; i++) {
        char name[KVT_NAME_MAX];

        (void)snprintf(name, sizeof(name), "worker-%d", i);
        advisor_departed_blocks_add(departed, name,
                                    &(const struct advisor_departed_blocks_piece){
                                        .hashes = (uint64_t[]){1, 2}, .count = 2});
    }
    assert_int_equal(advisor_departed_blocks_left_out(departed), 2);
    advisor_departed_blocks_free(departed);
}

static bool
attempt(void *arg)
{
    struct model model = {.settled = {true, true}};
    struct advisor_departed_blocks_piece piece;
    struct advisor_departed_blocks *departed;
    uint64_t got = 0;
    bool whole;

    (void)arg;
    if (advisor_departed_blocks_new(&departed) != KVT_OK) {
        assert_null(departed);
        return false;
    }
    for (int i = 0; i < 20; i++)
        put(departed, &model, i % 2, 900);
    while (advisor_departed_blocks_turn(departed, is_settled, &model))
        while (advisor_departed_blocks_next(departed, &piece))
            got += piece.count;
    whole = got == model.put[0] + model.put[1];
    assert_int_equal(got + advisor_departed_blocks_left_out(departed), model.put[0] + model.put[1]);
    advisor_departed_blocks_free(departed);
    return whole;
}

static void
failing_allocations_leave_out(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(attempt, NULL) > 10);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_in_comes_out),
        cmocka_unit_test(what_is_too_much_is_counted),
        cmocka_unit_test(failing_allocations_leave_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
