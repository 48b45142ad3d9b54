/*
 * tests/unit/advisor/support/history_model.h -- a history of event batches, and what must be known
 * after each.
 *
 * Why: the same history can be given to an advisor that is killed and to a model that is not.
 * Ownership: the test owns it.
 * Limits:    TEST_MODEL_BLOCKS blocks, TEST_MODEL_PUBLISHERS publishers with two tiers each.
 */
#ifndef TESTS_UNIT_ADVISOR_SUPPORT_HISTORY_MODEL_H
#define TESTS_UNIT_ADVISOR_SUPPORT_HISTORY_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "advisor/answer/finder.h"
#include "kvtier/event.h"

#define TEST_MODEL_BLOCKS     300
#define TEST_MODEL_PUBLISHERS 4
#define TEST_MODEL_EVENTS_MAX 40

struct test_model {
    uint64_t seed;
    uint64_t random;
    uint64_t step; /* batches made */
    uint64_t incarnation[TEST_MODEL_PUBLISHERS];
    uint64_t next_seq[TEST_MODEL_PUBLISHERS];
    uint32_t held[TEST_MODEL_PUBLISHERS][2][TEST_MODEL_BLOCKS]; /* ranks; 0 = not held */
    struct kvt_event events[TEST_MODEL_EVENTS_MAX];
    struct kvt_event_batch batch; /* the last one made */
};

void test_model_init(struct test_model *model, uint64_t seed);

/** Make the next batch, and be what must hold after it.  The same seed makes the same history. */
void test_model_next(struct test_model *model);

uint64_t test_model_hash(const struct test_model *model, uint32_t block);

/** Does the finder know exactly the model's places? */
bool test_model_same(const struct test_model *model, const struct advisor_finder *finder);

#endif /* TESTS_UNIT_ADVISOR_SUPPORT_HISTORY_MODEL_H */
