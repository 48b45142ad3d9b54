/*
 * What is tested: router/cost.h.
 * How: cases by hand, each term of them; then columns at random, whose costs must be those of the
 * explanation to the last bit, and those of the formula written down once more.
 */
#include <math.h>
#include <string.h>

#include "base/core/random.h"

#include "router/cost.h"
#include "tests/support/seed.h"

enum { COUNT_MAX = 100, ROUNDS = 20000 };

struct by_hand {
    const char *what;
    struct router_weights weights;
    struct router_load load;
    uint64_t active_prefill_tokens;
    uint64_t decode_blocks;
    uint32_t active_requests;
    uint32_t cached[ROUTER_TIERS];
    struct router_terms terms;
};

#define USUAL                                                                                      \
    {                                                                                              \
        1, {1, 0.75, 0.25, 0.1}, 0, 0                                                              \
    }

static const struct by_hand cases[] = {
    {"an idle worker without a block: the prompt", USUAL, {640, 64}, 0, 0, 0, {0}, {0, 10, 0, 10}},
    {"a part of a block is a part", USUAL, {100, 64}, 0, 0, 0, {0}, {0, 1.5625, 0, 1.5625}},
    {"a size that is no power of two", USUAL, {96, 48}, 48, 0, 0, {0}, {0, 3, 0, 3}},
    {"what it has yet to compute counts", USUAL, {640, 64}, 6400, 0, 0, {0}, {0, 110, 0, 110}},
    {"what it holds counts", USUAL, {640, 64}, 0, 33, 0, {0}, {0, 10, 33, 43}},
    {"G1 in full", USUAL, {640, 64}, 0, 0, 0, {4, 0, 0, 0}, {4, 6, 0, 6}},
    {"G2 for three quarters", USUAL, {640, 64}, 0, 0, 0, {0, 4, 0, 0}, {3, 7, 0, 7}},
    {"G3 for a quarter", USUAL, {640, 64}, 0, 0, 0, {0, 0, 4, 0}, {1, 9, 0, 9}},
    {"G4 for a tenth", USUAL, {640, 64}, 0, 0, 0, {0, 0, 0, 5}, {0.5, 9.5, 0, 9.5}},
    {"all together", USUAL, {640, 64}, 64, 7, 9, {2, 4, 4, 0}, {6, 5, 7, 12}},
    {"credit beyond the prompt is not a gift",
     {1, {3, 0, 0, 0}, 0, 0},
     {640, 64},
     0,
     5,
     0,
     {10, 0, 0, 0},
     {30, 0, 5, 5}},
    {"but it is one against others' prompts",
     {1, {3, 0, 0, 0}, 0, 0},
     {640, 64},
     1920,
     5,
     0,
     {10, 0, 0, 0},
     {30, 10, 5, 15}},
    {"prefill weighs more",
     {2, {1, 0, 0, 0}, 0, 0},
     {640, 64},
     0,
     3,
     0,
     {4, 0, 0, 0},
     {4, 6, 3, 15}},
    {"prefill weighs nothing",
     {0, {1, 0, 0, 0}, 0, 0},
     {640, 64},
     0,
     3,
     0,
     {4, 0, 0, 0},
     {4, 6, 3, 3}},
    {"requests weigh something",
     {1, {1, 0, 0, 0}, 32, 0},
     {0, 16},
     0,
     100,
     4,
     {0},
     {0, 0, 100, 228}},
    {"an empty prompt", USUAL, {0, 64}, 0, 0, 0, {0}, {0, 0, 0, 0}},
};

static void
assert_bits(const char *what, double found, double wanted)
{
    if (memcmp(&found, &wanted, sizeof found) != 0)
        fail_msg("%s: %a, not %a", what, found, wanted);
}

static void
each_term_is_that_of_the_formula(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct by_hand *one = &cases[i];
        const struct router_candidates candidates = {
            1,
            &one->active_prefill_tokens,
            &one->decode_blocks,
            &one->active_requests,
            {&one->cached[0], &one->cached[1], &one->cached[2], &one->cached[3]}};
        const struct router_terms terms =
            router_cost_terms(&one->weights, &one->load, &candidates, 0);
        double cost;

        router_cost(&one->weights, &one->load, &candidates, &cost);
        assert_bits(one->what, terms.credit_blocks, one->terms.credit_blocks);
        assert_bits(one->what, terms.prefill_blocks, one->terms.prefill_blocks);
        assert_bits(one->what, terms.decode_blocks, one->terms.decode_blocks);
        assert_bits(one->what, terms.cost, one->terms.cost);
        assert_bits(one->what, cost, one->terms.cost);
    }
}

/* Columns with room behind them that must stay as it is. */
struct columns {
    size_t count;
    bool there[ROUTER_TIERS];
    uint64_t active[COUNT_MAX];
    uint64_t decode[COUNT_MAX];
    uint32_t requests[COUNT_MAX];
    uint32_t cached[ROUTER_TIERS][COUNT_MAX];
    double costs[COUNT_MAX + 1];
};

/* Of any length in bits, so that small and huge ones are as frequent. */
static uint64_t
any(uint64_t *random, unsigned bits)
{
    uint64_t length = kvt_random_below(random, bits + 1);

    return length == 0 ? 0 : kvt_random_next(random) >> (64 - length);
}

static double
any_weight(uint64_t *random)
{
    static const double usual[] = {0, 0.1, 0.25, 0.75, 1, 2, 1e6};

    return kvt_random_below(random, 2) == 0 ? usual[kvt_random_below(random, 7)]
                                            : 3 * kvt_random_unit(random);
}

static struct router_candidates
fill(struct columns *columns, uint64_t *random)
{
    unsigned bits = kvt_random_below(random, 2) == 0 ? 20 : 64;
    struct router_candidates candidates = {0};

    columns->count = kvt_random_below(random, COUNT_MAX) + 1;
    for (size_t i = 0; i < columns->count; i++) {
        columns->active[i] = any(random, bits);
        columns->decode[i] = any(random, bits);
        columns->requests[i] = (uint32_t)any(random, 32);
        for (int tier = 0; tier < ROUTER_TIERS; tier++)
            columns->cached[tier][i] = (uint32_t)any(random, 32);
    }
    candidates.count = columns->count;
    candidates.active_prefill_tokens = columns->active;
    candidates.decode_blocks = columns->decode;
    candidates.active_requests = columns->requests;
    for (int tier = 0; tier < ROUTER_TIERS; tier++)
        if (kvt_random_below(random, 3) > 0)
            candidates.cached[tier] = columns->cached[tier];
    return candidates;
}

static struct router_weights
any_weights(uint64_t *random)
{
    struct router_weights weights = {.overlap_score_weight = any_weight(random),
                                     .active_request_weight = any_weight(random)};

    for (int tier = 0; tier < ROUTER_TIERS; tier++)
        weights.tier[tier] = any_weight(random);
    return weights;
}

/* The formula, one rounding a step. */
static double
formula(const struct router_weights *weights, const struct router_load *load,
        const struct router_candidates *candidates, size_t at)
{
    volatile double credit = 0;
    volatile double blocks;
    volatile double cost;
    volatile double step;

    for (int tier = 0; tier < ROUTER_TIERS; tier++) {
        step = weights->tier[tier] *
               (candidates->cached[tier] == NULL ? 0.0 : (double)candidates->cached[tier][at]);
        credit = credit + step;
    }
    blocks = (double)(candidates->active_prefill_tokens[at] + load->isl_tokens);
    blocks = blocks / (double)load->block_tokens;
    blocks = blocks - credit;
    blocks = fmax(blocks, 0.0);
    cost = weights->overlap_score_weight * blocks;
    step = (double)candidates->decode_blocks[at];
    cost = cost + step;
    step = weights->active_request_weight * (double)candidates->active_requests[at];
    return cost + step;
}

static void
the_cost_is_the_explanation_to_the_last_bit(void **state)
{
    static struct columns columns;
    uint64_t random = test_seed();
    size_t beyond = 0; /* costs that a double cannot hold without rounding */

    (void)state;
    for (int round = 0; round < ROUNDS / TEST_ALONE_SHARE; round++) {
        const struct router_candidates candidates = fill(&columns, &random);
        const struct router_weights weights = any_weights(&random);
        const struct router_load load = {any(&random, 40), kvt_random_below(&random, 2) == 0
                                                               ? 1U << kvt_random_below(&random, 32)
                                                               : (uint32_t)any(&random, 31) + 1};

        columns.costs[columns.count] = -7;
        router_cost(&weights, &load, &candidates, columns.costs);
        assert_bits("beyond the end", columns.costs[columns.count], -7);
        for (size_t i = 0; i < columns.count; i++) {
            struct router_terms terms = router_cost_terms(&weights, &load, &candidates, i);

            assert_bits("cost and explanation", columns.costs[i], terms.cost);
            assert_bits("cost and formula", columns.costs[i],
                        formula(&weights, &load, &candidates, i));
            assert_true(isfinite(columns.costs[i]) && columns.costs[i] >= 0);
            beyond += columns.costs[i] > 0x1p53;
        }
    }
    assert_true(beyond > ROUNDS / TEST_ALONE_SHARE); /* large ones were there */
}

static void
the_greatest_columns_have_a_finite_cost(void **state)
{
    enum { SOME = 33 };
    uint64_t most[SOME];
    uint32_t many[SOME];
    double costs[SOME];
    struct router_weights weights = {1e6, {1e6, 1e6, 1e6, 1e6}, 1e6, 0};
    const struct router_candidates candidates = {SOME, most, most, many, {NULL}};

    (void)state;
    assert_int_equal(router_weights_check(&weights, NULL), KVT_OK);
    for (size_t i = 0; i < SOME; i++) {
        most[i] = UINT64_MAX - i;
        many[i] = UINT32_MAX;
    }
    router_cost(&weights, &(struct router_load){0, 1}, &candidates, costs);
    for (size_t i = 0; i < SOME; i++)
        assert_bits("most", costs[i], 1e6 * 0x1p64 + 0x1p64 + 1e6 * (double)UINT32_MAX);
}

static void
a_weight_that_is_no_weight_is_refused(void **state)
{
    static const double bad[] = {-1e-9, -INFINITY, INFINITY, NAN, 1e6 + 1};
    static const double good[] = {0, 0.5, 1e6};
    struct router_weights weights = router_weights_default();
    double *each[] = {&weights.overlap_score_weight,
                      &weights.active_request_weight,
                      &weights.temperature,
                      &weights.tier[0],
                      &weights.tier[1],
                      &weights.tier[2],
                      &weights.tier[3]};
    struct kvt_error err;

    (void)state;
    assert_int_equal(router_weights_check(&weights, &err), KVT_OK);
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++) {
        double kept = *each[i];

        for (size_t j = 0; j < sizeof bad / sizeof bad[0]; j++) {
            *each[i] = bad[j];
            assert_int_equal(router_weights_check(&weights, &err), KVT_RANGE);
        }
        for (size_t j = 0; j < sizeof good / sizeof good[0]; j++) {
            *each[i] = good[j];
            assert_int_equal(router_weights_check(&weights, &err), KVT_OK);
        }
        *each[i] = kept;
    }
}

static void
the_weights_are_those_of_the_page_unless_said_otherwise(void **state)
{
    struct router_weights weights = router_weights_default();

    (void)state;
    assert_bits("overlap", weights.overlap_score_weight, 1);
    assert_bits("G1", weights.tier[0], 1);
    assert_bits("G2", weights.tier[1], 0.75);
    assert_bits("G3", weights.tier[2], 0.25);
    assert_bits("G4", weights.tier[3], 0.1);
    assert_bits("requests", weights.active_request_weight, 0);
    assert_bits("temperature", weights.temperature, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_term_is_that_of_the_formula),
        cmocka_unit_test(the_cost_is_the_explanation_to_the_last_bit),
        cmocka_unit_test(the_greatest_columns_have_a_finite_cost),
        cmocka_unit_test(a_weight_that_is_no_weight_is_refused),
        cmocka_unit_test(the_weights_are_those_of_the_page_unless_said_otherwise),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
