#include "router/pick.h"

#include <math.h>

#include "base/core/random.h"

/* Tries by rejection before all chances are computed. */
enum { TRIES = 32 };

/* In [0, 1). */
static double
unit(uint64_t draw)
{
    return (double)(draw >> 11) * 0x1p-53;
}

static double
least(double a, double b)
{
    return a < b ? a : b;
}

static double
most(double a, double b)
{
    return a > b ? a : b;
}

/* Four at a time, since each comparison waits for the last one of its kind. */
static double
lowest_of(const double *costs, size_t count)
{
    double low[4] = {costs[0], costs[0], costs[0], costs[0]};
    size_t i = 0;

    for (; i + 4 <= count; i += 4)
        for (size_t j = 0; j < 4; j++)
            low[j] = least(costs[i + j], low[j]);
    for (; i < count; i++)
        low[0] = least(costs[i], low[0]);
    return least(least(low[0], low[1]), least(low[2], low[3]));
}

static double
highest_of(const double *costs, size_t count)
{
    double high[4] = {costs[0], costs[0], costs[0], costs[0]};
    size_t i = 0;

    for (; i + 4 <= count; i += 4)
        for (size_t j = 0; j < 4; j++)
            high[j] = most(costs[i + j], high[j]);
    for (; i < count; i++)
        high[0] = most(costs[i], high[0]);
    return most(most(high[0], high[1]), most(high[2], high[3]));
}

static size_t
cheapest(const double *costs, const uint64_t *load, size_t count, uint64_t draw)
{
    double low = lowest_of(costs, count);
    uint64_t least_load = UINT64_MAX;
    size_t first = 0;
    size_t equal = 0;
    size_t nth;

    for (size_t i = 0; i < count; i++) {
        if (costs[i] > low)
            continue;
        if (equal == 0 || (load != NULL && load[i] < least_load)) {
            least_load = load == NULL ? 0 : load[i];
            first = i;
            equal = 0;
        }
        equal += load == NULL || load[i] == least_load;
    }
    nth = (size_t)(unit(draw) * (double)equal);
    for (size_t i = first;; i++) {
        if (costs[i] > low || (load != NULL && load[i] != least_load))
            continue;
        if (nth-- == 0)
            return i;
    }
}

/* Costs from 0 to 1, and how likely that makes them against the lowest. */
struct scale {
    double factor; /* half where the difference of two costs is more than there is */
    double low;
    double range;
    double temperature;
};

static double
chance(const struct scale *scale, double cost)
{
    return exp(-((cost * scale->factor - scale->low) / scale->range) / scale->temperature);
}

/* All chances, and who is at the draw's share of their sum. */
static size_t
by_share(const double *costs, size_t count, const struct scale *scale, uint64_t draw,
         double *chances)
{
    double sum = 0.0;
    size_t last = 0;
    double at;

    for (size_t i = 0; i < count; i++) {
        chances[i] = chance(scale, costs[i]);
        sum += chances[i];
    }
    /* What is left of the draw may not reach 0 by a rounding: then it is the last that had any. */
    at = unit(draw) * sum;
    for (size_t i = 0; i < count; i++) {
        if (chances[i] <= 0.0)
            continue;
        last = i;
        at -= chances[i];
        if (at < 0.0)
            break;
    }
    return last;
}

size_t
router_pick(const double *costs, const uint64_t *load, size_t count, double temperature,
            uint64_t draw, double *scratch)
{
    struct scale scale = {.factor = 1.0, .temperature = temperature};
    uint64_t random = draw;
    double low;
    double high;

    if (temperature <= 0.0)
        return cheapest(costs, load, count, draw);
    low = lowest_of(costs, count);
    high = highest_of(costs, count);
    if (low == high)
        return (size_t)(unit(draw) * (double)count);
    if (!isfinite(high - low))
        scale.factor = 0.5;
    scale.low = low * scale.factor;
    scale.range = high * scale.factor - scale.low;
    /* Anybody, taken with a chance that is 1 for the cheapest: whoever is taken is so by softmax,
     * mostly after a few exponentials instead of `count`. */
    for (int i = 0; i < TRIES; i++) {
        size_t at = (size_t)(unit(kvt_random_next(&random)) * (double)count);

        if (unit(kvt_random_next(&random)) < chance(&scale, costs[at]))
            return at;
    }
    return by_share(costs, count, &scale, draw, scratch);
}
