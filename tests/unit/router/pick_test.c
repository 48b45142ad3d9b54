/*
 * What is tested: router/pick.h.
 * How: columns by hand and at random against a model that lists who may be chosen; and how often
 * each is chosen against the chances there should be (chi-square, so that one run of some millions
 * is wrong).
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/core/random.h"

#include "router/pick.h"
#include "tests/support/seed.h"

enum { COUNT_MAX = 64, DRAWS = 200000, ROUNDS = 20000 };

/* The value that chi-square with these degrees of freedom exceeds once in 3.5 million runs (Wilson
 * and Hilferty 1931, five standard deviations). */
static double
critical(size_t freedom)
{
    double part = 2.0 / (9.0 * (double)freedom);

    return (double)freedom * pow(1.0 - part + 5.0 * sqrt(part), 3.0);
}

/* Draw often, and compare with the chances; those of less than 20 draws are put together. */
static void
assert_chances(const double *costs, const uint64_t *load, size_t count, double temperature,
               const double *chances, uint64_t *random)
{
    double scratch[COUNT_MAX];
    size_t found[COUNT_MAX] = {0};
    double rest = 0;
    double rest_found = 0;
    double sum = 0;
    size_t classes = 0;

    for (int i = 0; i < DRAWS; i++)
        found[router_pick(costs, load, count, temperature, kvt_random_next(random), scratch)]++;
    for (size_t i = 0; i < count; i++) {
        double wanted = chances[i] * DRAWS;

        if (chances[i] <= 0.0)
            assert_int_equal(found[i], 0);
        if (wanted < 20) {
            rest += wanted;
            rest_found += (double)found[i];
            continue;
        }
        sum += ((double)found[i] - wanted) * ((double)found[i] - wanted) / wanted;
        classes++;
    }
    if (rest >= 20) {
        sum += (rest_found - rest) * (rest_found - rest) / rest;
        classes++;
    }
    assert_true(classes >= 2);
    if (sum > critical(classes - 1))
        fail_msg("chi-square %.1f, at most %.1f", sum, critical(classes - 1));
}

/* exp(-normalised / temperature) of each, by its share. */
static void
softmax(const double *costs, size_t count, double temperature, double *chances)
{
    double low = INFINITY;
    double high = -INFINITY;
    double sum = 0;

    for (size_t i = 0; i < count; i++) {
        low = fmin(low, costs[i]);
        high = fmax(high, costs[i]);
    }
    for (size_t i = 0; i < count; i++)
        sum += chances[i] = exp(-(costs[i] - low) / (high - low) / temperature);
    for (size_t i = 0; i < count; i++)
        chances[i] /= sum;
}

static void
the_lowest_cost_wins_at_temperature_0(void **state)
{
    static const double costs[] = {3, 2.5, 7, 2.4999, 1e9};
    static const uint64_t load[] = {0, 0, 0, 99, 0};

    (void)state;
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t random = i;

        assert_int_equal(router_pick(costs, load, 5, 0, kvt_random_next(&random), NULL), 3);
        assert_int_equal(router_pick(costs, NULL, 5, 0, kvt_random_next(&random), NULL), 3);
    }
}

static void
of_equal_costs_the_less_loaded_wins(void **state)
{
    static const double costs[] = {3, 2, 2, 2, 4};
    static const uint64_t load[] = {0, 9, 4, 5, 1};

    (void)state;
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t random = i;

        assert_int_equal(router_pick(costs, load, 5, 0, kvt_random_next(&random), NULL), 2);
    }
}

static void
who_is_equal_in_all_is_drawn_as_often(void **state)
{
    static const double costs[] = {2, 3, 2, 2, 2, 4, 2, 2};
    static const uint64_t load[] = {4, 0, 4, 5, 4, 4, 4, 9};
    static const double by_load[] = {0.25, 0, 0.25, 0, 0.25, 0, 0.25, 0};
    static const double sixth[] = {1 / 6., 0, 1 / 6., 1 / 6., 1 / 6., 0, 1 / 6., 1 / 6.};
    uint64_t random = test_seed();

    (void)state;
    assert_chances(costs, load, 8, 0, by_load, &random);
    assert_chances(costs, NULL, 8, 0, sixth, &random);
}

static void
equal_costs_are_drawn_as_often_at_any_temperature(void **state)
{
    static const double costs[] = {5, 5, 5};
    static const double third[] = {1 / 3., 1 / 3., 1 / 3.};
    uint64_t random = test_seed();

    (void)state;
    assert_chances(costs, NULL, 3, 0, third, &random);
    assert_chances(costs, NULL, 3, 0.5, third, &random);
    assert_chances(costs, NULL, 3, 1e6, third, &random);
}

static void
above_0_the_choice_is_drawn_by_softmax(void **state)
{
    static const double by_hand[] = {10, 12, 30, 10, 17};
    static const double temperatures[] = {0.01, 0.05, 0.5, 1, 7}; /* by share, by rejection */
    double costs[COUNT_MAX];
    double chances[COUNT_MAX];
    uint64_t random = test_seed();

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        softmax(by_hand, 5, temperatures[i], chances);
        assert_chances(by_hand, NULL, 5, temperatures[i], chances, &random);
        for (size_t at = 0; at < COUNT_MAX; at++)
            costs[at] = 10 * (double)at + 5 * kvt_random_unit(&random);
        softmax(costs, COUNT_MAX, temperatures[i], chances);
        assert_chances(costs, NULL, COUNT_MAX, temperatures[i], chances, &random);
    }
}

/* Chances by hand: temperature 1 / ln 2, so that the dearest is drawn half as often. */
static void
the_dearest_of_two_is_half_as_likely(void **state)
{
    static const double costs[] = {40, 1040};
    static const double chances[] = {2 / 3., 1 / 3.};
    uint64_t random = test_seed();

    (void)state;
    assert_chances(costs, NULL, 2, 1 / log(2), chances, &random);
}

static void
costs_at_the_ends_of_what_there_is_are_costs(void **state)
{
    static const double ends[] = {DBL_MAX, -DBL_MAX, 0};
    static const double least[] = {0x1p-1074, 0, 0x1p-1073};
    static const double wide[] = {0, DBL_MAX, 0x1p-1074, DBL_MAX / 2};
    static const double halves[] = {0.25, 0.5, 0.3535533905932738}; /* of 1, 0 and 1/2 */
    double sum = halves[0] + halves[1] + halves[2];
    double chances[3];
    double scratch[4];
    uint64_t random = test_seed();

    (void)state;
    for (size_t i = 0; i < 3; i++)
        chances[i] = halves[i] / sum;
    assert_chances(ends, NULL, 3, 1 / log(2), chances, &random);
    for (size_t i = 0; i < 3; i++)
        chances[i] = halves[2 - i] / sum;
    assert_chances(least, NULL, 3, 1 / log(2), chances, &random);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(router_pick(ends, NULL, 3, 0, kvt_random_next(&random), NULL), 1);
        assert_int_equal(router_pick(ends, NULL, 3, 1e-300, kvt_random_next(&random), scratch), 1);
        assert_int_equal(router_pick(least, NULL, 3, 0x1p-1074, kvt_random_next(&random), scratch),
                         1);
        assert_true(router_pick(wide, NULL, 4, 1e-9, kvt_random_next(&random), scratch) % 2 == 0);
    }
}

/* The greatest draw and the roundings behind it must not end at somebody without a chance. */
static void
no_draw_ends_beyond_those_with_a_chance(void **state)
{
    double costs[COUNT_MAX];
    double scratch[COUNT_MAX];
    uint64_t random = test_seed();

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < COUNT_MAX - 1; i++) /* from e^-20 to e^-50 */
            costs[i] = 2e4 + 3e4 * kvt_random_unit(&random);
        costs[kvt_random_below(&random, COUNT_MAX - 1)] = 0;
        costs[COUNT_MAX - 1] = 1e6; /* e^-1000 is nothing */
        assert_true(router_pick(costs, NULL, COUNT_MAX, 1e-3, UINT64_MAX, scratch) < COUNT_MAX - 1);
        assert_true(router_pick(costs, NULL, COUNT_MAX, 1e-3, 0, scratch) < COUNT_MAX - 1);
    }
}

/* Columns at random with many that are equal, against a list of who may be chosen. */
static void
who_is_chosen_is_one_of_the_best(void **state)
{
    uint64_t random = test_seed();
    double costs[COUNT_MAX];
    uint64_t load[COUNT_MAX];
    size_t ties = 0;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        size_t count = kvt_random_below(&random, COUNT_MAX) + 1;
        uint64_t kinds = kvt_random_below(&random, 8) + 1;
        uint64_t draw = kvt_random_next(&random);
        bool loaded = kvt_random_below(&random, 2) == 0;
        size_t equal = 0;
        size_t nth = 0;
        size_t found;

        for (size_t i = 0; i < count; i++) {
            costs[i] = (double)kvt_random_below(&random, kinds) / 3.0;
            load[i] = kvt_random_below(&random, 3);
        }
        found = router_pick(costs, loaded ? load : NULL, count, 0, draw, NULL);
        assert_true(found < count);
        for (size_t i = 0; i < count; i++) {
            assert_true(costs[found] <= costs[i]);
            if (costs[i] > costs[found])
                continue;
            assert_true(!loaded || load[found] <= load[i]);
            nth += i < found && (!loaded || load[i] == load[found]);
            equal += !loaded || load[i] == load[found];
        }
        /* The draw says which of them: in the order of the column, by equal shares. */
        assert_int_equal(nth, (size_t)((double)(draw >> 11) * 0x1p-53 * (double)equal));
        ties += equal > 1;
    }
    assert_true(ties > ROUNDS / 4);
}

static void
the_same_draw_is_the_same_choice(void **state)
{
    uint64_t random = test_seed();
    double costs[COUNT_MAX];
    double scratch[COUNT_MAX + 1];
    bool seen[2] = {false, false}; /* another draw is another choice, and not always */

    (void)state;
    for (int round = 0; round < ROUNDS / 10; round++) {
        uint64_t draw = kvt_random_next(&random);
        size_t count = kvt_random_below(&random, COUNT_MAX - 1) + 2;
        size_t one;

        for (size_t i = 0; i < count; i++)
            costs[i] = (double)kvt_random_below(&random, 5);
        scratch[count] = -7;
        one = router_pick(costs, NULL, count, 0.5, draw, scratch);
        assert_true(scratch[count] < -6); /* nothing is written behind it */
        assert_int_equal(one, router_pick(costs, NULL, count, 0.5, draw, scratch));
        seen[one != router_pick(costs, NULL, count, 0.5, ~draw, scratch)] = true;
    }
    assert_true(seen[0] && seen[1]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_cost_wins_at_temperature_0),
        cmocka_unit_test(of_equal_costs_the_less_loaded_wins),
        cmocka_unit_test(who_is_equal_in_all_is_drawn_as_often),
        cmocka_unit_test(equal_costs_are_drawn_as_often_at_any_temperature),
        cmocka_unit_test(above_0_the_choice_is_drawn_by_softmax),
        cmocka_unit_test(the_dearest_of_two_is_half_as_likely),
        cmocka_unit_test(costs_at_the_ends_of_what_there_is_are_costs),
        cmocka_unit_test(no_draw_ends_beyond_those_with_a_chance),
        cmocka_unit_test(who_is_chosen_is_one_of_the_best),
        cmocka_unit_test(the_same_draw_is_the_same_choice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
