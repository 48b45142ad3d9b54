/*
 * What is tested: the order in which each plain ordering lets blocks go.
 * How: a model that writes down when each block came, was used and how often, and looks through all
 * of them for the next; random calls must make both choose the same block each time.
 */
#include <string.h>

#include "base/core/random.h"

#include "policy/ordering/ordering_table.h"
#include "tests/support/seed.h"
#include "tests/unit/policy/ordering/ordering_tier.h"

enum { STEPS = 30000, FULL = 60 };

struct record {
    uint64_t entered; /* step */
    uint64_t used;    /* step */
    uint64_t uses;    /* since it entered */
    double weight;
};

struct model {
    struct record records[TIER_BLOCKS];
    double floor; /* weight of what left last */
    uint64_t step;
};

static double
by_entry(const struct record *record)
{
    return (double)record->entered;
}

static double
by_use(const struct record *record)
{
    return (double)record->used;
}

static double
by_count(const struct record *record)
{
    return (double)record->uses;
}

static double
by_weight(const struct record *record)
{
    return record->weight;
}

struct rule {
    const char *name;
    double (*key)(const struct record *record);
    double a_use; /* what one adds to the weight */
};

static const struct rule rules[] = {
    {"fifo", by_entry, 0}, {"lru", by_use, 0},       {"idle", by_use, 0},
    {"lfu", by_count, 0},  {"prefix", by_weight, 1}, {"gdsf", by_weight, 9},
};

/* Lowest key, among equals the one used longest ago. */
static uint32_t
lowest(const struct model *model, const struct tier *tier, const struct rule *rule)
{
    uint32_t best = TIER_BLOCKS;

    for (uint32_t i = 0; i < TIER_BLOCKS; i++) {
        const struct record *record = &model->records[i];
        double key;

        if (tier->places[i] != TIER_HOT)
            continue;
        key = rule->key(record);
        if (best == TIER_BLOCKS || key < rule->key(&model->records[best]) ||
            (!(key > rule->key(&model->records[best])) && record->used < model->records[best].used))
            best = i;
    }
    return best;
}

static void
use(struct model *model, struct tier *tier, const struct rule *rule, uint32_t block)
{
    struct record *record = &model->records[block];

    model->step++;
    tier->now = model->step;
    if (tier->places[block] != TIER_HOT)
        *record = (struct record){.entered = model->step};
    record->used = model->step;
    record->uses++;
    record->weight = model->floor + (double)record->uses * rule->a_use;
    tier_use(tier, block, true);
}

static void
compare(const struct rule *rule)
{
    struct model model = {.floor = 0};
    struct tier tier;
    uint32_t victim;

    tier_init(&tier, policy_ordering_find(rule->name), test_seed());
    for (uint32_t i = 0; i < STEPS; i++) {
        /* Skewed, so that counts differ. */
        uint32_t block = (uint32_t)kvt_random_below(&tier.random, TIER_BLOCKS);

        if (kvt_random_below(&tier.random, 2) == 0)
            block = (uint32_t)kvt_random_below(&tier.random, block + 1);
        if (tier.places[block] != TIER_HOT && tier.counts[TIER_HOT] == FULL) {
            const uint32_t expected = lowest(&model, &tier, rule);

            assert_true(tier_victim(&tier, &victim));
            assert_int_equal(victim, expected);
            if (model.records[victim].weight > model.floor)
                model.floor = model.records[victim].weight;
            tier_leave(&tier, victim);
        }
        use(&model, &tier, rule, block);
        assert_true(tier.counts[TIER_HOT] <= FULL);
    }
    tier_free(&tier);
}

static void
each_lets_go_what_its_model_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        compare(&rules[i]);
}

/* idle: due is what nobody used for longer than 50 ticks, and nothing else. */
static void
idle_blocks_are_due(void **state)
{
    struct tier tier;
    uint32_t block;

    (void)state;
    tier_init(&tier, policy_ordering_find("idle"), test_seed());
    tier.now = 10;
    tier_use(&tier, 3, true);
    tier.now = 20;
    tier_use(&tier, 4, true);
    assert_false(tier.ordering->due(tier.order, 60, &block));
    assert_true(tier.ordering->due(tier.order, 61, &block));
    assert_int_equal(block, 3);
    assert_false(tier.ordering->due(tier.order, 70, &block));
    tier_free(&tier);
}

/* s3fifo: who was read on probation stays, who was not goes; who returns is in main. */
static void
probation_is_passed_by_a_read(void **state)
{
    struct tier tier;
    uint32_t block;

    (void)state;
    tier_init(&tier, policy_ordering_find("s3fifo"), test_seed());
    for (uint32_t i = 0; i < 4; i++)
        tier_use(&tier, i, true);
    tier_use(&tier, 0, true); /* read again */
    assert_true(tier_victim(&tier, &block));
    assert_int_equal(block, 1); /* 0 went to main */
    tier_leave(&tier, 1);
    tier_use(&tier, 1, true); /* remembered: to main as well */
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(tier_victim(&tier, &block));
        assert_int_equal(block, i + 2);
        tier_leave(&tier, block);
    }
    assert_true(tier_victim(&tier, &block));
    assert_int_equal(block, 0);
    tier_free(&tier);
}

/* arc: a return of what was read once makes room for what is read once. */
static void
returns_move_the_balance(void **state)
{
    struct tier tier;
    uint32_t block;

    (void)state;
    tier_init(&tier, policy_ordering_find("arc"), test_seed());
    for (uint32_t i = 0; i < 4; i++)
        tier_use(&tier, i, true);
    tier_use(&tier, 0, true);
    tier_use(&tier, 1, true); /* 0 and 1 were read again; 2 and 3 once */
    assert_true(tier_victim(&tier, &block));
    assert_int_equal(block, 2);
    tier_leave(&tier, 2);
    tier_use(&tier, 2, false); /* it would have been of use: once gets a place */
    tier_use(&tier, 4, true);
    assert_true(tier_victim(&tier, &block));
    assert_int_equal(block, 3); /* two are there, one is its share */
    tier_leave(&tier, 3);
    assert_true(tier_victim(&tier, &block));
    assert_int_equal(block, 0); /* now read again is what has too many */
    tier_free(&tier);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_lets_go_what_its_model_does),
        cmocka_unit_test(idle_blocks_are_due),
        cmocka_unit_test(probation_is_passed_by_a_read),
        cmocka_unit_test(returns_move_the_balance),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
