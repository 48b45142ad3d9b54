#include "router/pick.h"

#include <math.h>

/* Both halves of a draw are used: one in [0, 1), one to count with. */
static double
unit(uint64_t draw)
{
    return (double)(draw >> 11) * 0x1p-53;
}

static size_t
lowest(const double *costs, const uint64_t *load, size_t count, uint64_t draw)
{
    size_t best = 0;
    size_t equal = 0;
    size_t nth;

    for (size_t i = 1; i < count; i++)
        if (costs[i] < costs[best] ||
            (costs[i] == costs[best] && load != NULL && load[i] < load[best]))
            best = i;
    for (size_t i = best; i < count; i++)
        equal += costs[i] == costs[best] && (load == NULL || load[i] == load[best]);
    nth = (size_t)(unit(draw) * (double)equal);
    for (size_t i = best;; i++) {
        if (costs[i] != costs[best] || (load != NULL && load[i] != load[best]))
            continue;
        if (nth-- == 0)
            return i;
    }
}

size_t
router_pick(const double *costs, const uint64_t *load, size_t count, double temperature,
            uint64_t draw, double *scratch)
{
    double low = costs[0];
    double high = costs[0];
    double sum = 0.0;
    size_t last = 0;
    double scale;
    double at;

    if (temperature <= 0.0)
        return lowest(costs, load, count, draw);
    for (size_t i = 1; i < count; i++) {
        low = costs[i] < low ? costs[i] : low;
        high = costs[i] > high ? costs[i] : high;
    }
    if (low == high)
        return (size_t)(unit(draw) * (double)count);
    scale = isfinite(high - low) ? 1.0 : 0.5; /* halves are exact where their difference is not */
    for (size_t i = 0; i < count; i++) {
        scratch[i] =
            exp(-((costs[i] * scale - low * scale) / (high * scale - low * scale)) / temperature);
        sum += scratch[i];
    }
    /* What is left of the draw may not reach 0 by a rounding: then it is the last that had any. */
    at = unit(draw) * sum;
    for (size_t i = 0; i < count; i++) {
        if (scratch[i] <= 0.0)
            continue;
        last = i;
        at -= scratch[i];
        if (at < 0.0)
            break;
    }
    return last;
}
