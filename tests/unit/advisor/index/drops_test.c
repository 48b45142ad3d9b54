/*
 * What is tested: advisor/index/ram_index.h: losses that follow each other are one pass over the
 * index, and what comes before, between and behind them keeps its place.
 * How: bursts of losses, most of them of a few holders again and again, among random changes,
 * against a set.
 */
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/keeper.h"

enum { ROUNDS = 60, CHANGES = 400, BURST = 3 * INDEX_DROPS_MAX };

struct story {
    struct keeper keeper;
    uint64_t random;
    struct log_step steps[CHANGES]; /* the index reads their blocks until it is flushed */
};

static void
change(struct story *story, struct log_step *step)
{
    memset(step, 0, sizeof(*step));
    log_step_next(step, &story->random, false);
    if (step->op.kind == ADVISOR_EVENT_LOG_STORE) /* as the keeper's blocks are */
        step->op.place.size = UINT64_C(4096) << (step->first / LOG_MODEL_LENGTH % 3);
    advisor_ram_index_op(&story->keeper.memory, &step->op);
    log_set_apply(&story->keeper.saved->workers, &step->op);
}

/* Two holders in one namespace, now and then any. */
static void
lose(struct story *story)
{
    const bool any = kvt_random_below(&story->random, 8) == 0;
    const struct advisor_event_log_op op = {
        .kind = ADVISOR_EVENT_LOG_DROP,
        .place = {.holder = (uint32_t)kvt_random_below(&story->random, any ? LOG_MODEL_HOLDERS : 2),
                  .ns =
                      any ? (uint32_t)kvt_random_below(&story->random, LOG_MODEL_NAMESPACES) : 0}};

    advisor_ram_index_op(&story->keeper.memory, &op);
    log_set_apply(&story->keeper.saved->workers, &op);
}

static void
losses_again_and_again(void **state)
{
    struct story *story = kvt_calloc(1, sizeof(*story));

    (void)state;
    assert_non_null(story);
    story->random = test_seed();
    keeper_begin(&story->keeper);
    for (int round = 0; round < ROUNDS; round++) {
        size_t at = 0;

        while (at < CHANGES) {
            const uint64_t some = kvt_random_below(&story->random, 40);

            for (uint64_t i = 0; i < some && at < CHANGES; i++)
                change(story, &story->steps[at++]);
            for (uint64_t i = kvt_random_below(&story->random, some < 4 ? BURST : 4); i > 0; i--)
                lose(story);
        }
        advisor_ram_index_flush(&story->keeper.memory);
        assert_true(advisor_ram_index_whole(&story->keeper.memory));
        keeper_check(&story->keeper);
    }
    keeper_end(&story->keeper);
    kvt_free(story);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(losses_again_and_again)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
