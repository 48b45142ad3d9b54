#include "kvbm/offload/tier_cost.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { REFERENCE_BYTES = 1 << 20 /* a measurement of so many says as much of both */ };

static const double step_share = 0.3; /* of the error, taken over at each measurement */

/* Before anything is measured: rather too good, so that a tier is tried. */
static const struct kvbm_cost_path first_paths[KVT_TIER_G4 + 1] = {
    [KVT_TIER_G2] = {.first_latency_ms = 0.05, .first_bytes_per_ms = 10e6},
    [KVT_TIER_G3] = {.first_latency_ms = 0.2, .first_bytes_per_ms = 2e6},
    [KVT_TIER_G4] = {.first_latency_ms = 2, .first_bytes_per_ms = 5e5},
};

static double
clamp(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

enum kvt_err
kvbm_cost_init(struct kvbm_cost *cost, const struct kvbm_cost_options *options)
{
    assert(options->block_bytes > 0 && options->block_tokens > 0 && options->prefill_rate >= 0);
    cost->options = *options;
    memcpy(cost->paths, first_paths, sizeof(cost->paths));
    for (size_t tier = 0; tier <= KVT_TIER_G4; tier++) {
        cost->paths[tier].latency_ms = cost->paths[tier].first_latency_ms;
        cost->paths[tier].bytes_per_ms = cost->paths[tier].first_bytes_per_ms;
    }
    return pthread_mutex_init(&cost->lock, NULL) == 0 ? KVT_OK : KVT_NOMEM;
}

void
kvbm_cost_release(struct kvbm_cost *cost)
{
    (void)pthread_mutex_destroy(&cost->lock);
}

/* What was measured fades; bandwidths in their logarithm, because they differ by factors. */
static void
fade(struct kvbm_cost_path *path, uint64_t now_ms)
{
    double kept;

    if (path->measured_ms == 0 || now_ms <= path->measured_ms)
        return;
    kept = exp2(-(double)(now_ms - path->measured_ms) / KVBM_COST_HALF_LIFE_MS);
    path->latency_ms = path->first_latency_ms + (path->latency_ms - path->first_latency_ms) * kept;
    path->bytes_per_ms =
        path->first_bytes_per_ms * pow(path->bytes_per_ms / path->first_bytes_per_ms, kept);
    path->measured_ms = now_ms;
}

static double
time_of(const struct kvbm_cost_path *path, double bytes)
{
    return path->latency_ms + bytes / path->bytes_per_ms;
}

/* Into G1; from below G2 in two hops. */
static double
estimate_locked(struct kvbm_cost *cost, enum kvt_tier tier, uint64_t bytes, uint64_t now_ms)
{
    struct kvbm_cost_path *path = &cost->paths[tier];

    if (tier == KVT_TIER_G1)
        return 0;
    fade(path, now_ms);
    return time_of(path, (double)(bytes + path->ahead));
}

double
kvbm_cost_estimate(struct kvbm_cost *cost, enum kvt_tier tier, uint64_t bytes, uint64_t now_ms)
{
    double estimate_ms;

    assert(tier >= KVT_TIER_G1 && tier <= KVT_TIER_G4);
    (void)pthread_mutex_lock(&cost->lock);
    estimate_ms = estimate_locked(cost, tier, bytes, now_ms);
    (void)pthread_mutex_unlock(&cost->lock);
    return estimate_ms;
}

static double
run_locked(struct kvbm_cost *cost, enum kvt_tier tier, uint32_t blocks, uint64_t now_ms)
{
    const uint64_t bytes = blocks * cost->options.block_bytes;
    double sum_ms = estimate_locked(cost, tier, bytes, now_ms);

    if (tier > KVT_TIER_G2)
        sum_ms += estimate_locked(cost, KVT_TIER_G2, bytes, now_ms);
    return sum_ms;
}

/* As many blocks of a run as come within `left_ms`; a block more takes longer, so halving finds
 * it. */
static uint32_t
fit_locked(struct kvbm_cost *cost, const struct kvbm_cost_run *run, double left_ms, uint64_t now_ms)
{
    uint32_t low = 0;
    uint32_t high = run->blocks;

    while (low < high) {
        const uint32_t middle = low + (high - low + 1) / 2;

        if (run_locked(cost, run->tier, middle, now_ms) <= left_ms)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

uint32_t
kvbm_cost_choose(struct kvbm_cost *cost, const struct kvbm_cost_run *runs, size_t count,
                 double left_ms, uint64_t now_ms, enum kvbm_cost_reason *reason)
{
    const struct kvbm_cost_options *options = &cost->options;
    const double block_ms =
        options->prefill_rate > 0 ? options->block_tokens * 1000.0 / options->prefill_rate : 0;
    double taken_ms = 0;
    double best_ms = 0; /* most time saved so far, by taking `best` blocks */
    uint32_t best = 0;
    uint32_t reached = 0;
    bool late = false;

    (void)pthread_mutex_lock(&cost->lock);
    for (size_t i = 0; i < count && !late; i++) {
        struct kvbm_cost_run run = runs[i];
        const double rest_ms = left_ms - taken_ms;

        if (run_locked(cost, run.tier, run.blocks, now_ms) > rest_ms) {
            run.blocks = fit_locked(cost, &run, rest_ms, now_ms);
            late = true;
        }
        if (run.blocks == 0)
            break;
        taken_ms += run_locked(cost, run.tier, run.blocks, now_ms);
        reached += run.blocks;
        if (block_ms <= 0 || reached * block_ms - taken_ms >= best_ms) {
            best_ms = reached * block_ms - taken_ms;
            best = reached;
        }
    }
    (void)pthread_mutex_unlock(&cost->lock);
    *reason = best < reached ? KVBM_COST_DEARER : late ? KVBM_COST_LATE : KVBM_COST_TAKEN;
    return best;
}

uint64_t
kvbm_cost_begin(struct kvbm_cost *cost, enum kvt_tier tier, uint64_t bytes)
{
    uint64_t ahead;

    (void)pthread_mutex_lock(&cost->lock);
    ahead = cost->paths[tier].ahead;
    cost->paths[tier].ahead += bytes;
    (void)pthread_mutex_unlock(&cost->lock);
    return ahead;
}

/* A step towards what was measured.  The time per byte is kept as a bandwidth, but learnt as what
 * it is: a slope. */
static void
learn(struct kvbm_cost_path *path, double bytes, double elapsed_ms)
{
    const double x = bytes / REFERENCE_BYTES;
    const double expected_ms = time_of(path, bytes);
    const double measured_ms = clamp(elapsed_ms, expected_ms / KVBM_COST_SURPRISE_MAX,
                                     expected_ms * KVBM_COST_SURPRISE_MAX);
    const double step = step_share * (measured_ms - expected_ms) / (1 + x * x);
    const double slope = REFERENCE_BYTES / path->bytes_per_ms + step * x;

    path->latency_ms = clamp(path->latency_ms + step, 0, KVBM_COST_LATENCY_MAX);
    path->bytes_per_ms = clamp(slope > 0 ? REFERENCE_BYTES / slope : KVBM_COST_BYTES_MAX,
                               KVBM_COST_BYTES_MIN, KVBM_COST_BYTES_MAX);
}

void
kvbm_cost_end(struct kvbm_cost *cost, enum kvt_tier tier, uint64_t bytes, uint64_t ahead,
              double elapsed_ms, bool good, uint64_t now_ms)
{
    struct kvbm_cost_path *path = &cost->paths[tier];

    (void)pthread_mutex_lock(&cost->lock);
    assert(path->ahead >= bytes);
    path->ahead -= bytes;
    if (good) {
        fade(path, now_ms);
        learn(path, (double)(bytes + ahead), elapsed_ms);
        path->measured_ms = now_ms > 0 ? now_ms : 1;
    }
    (void)pthread_mutex_unlock(&cost->lock);
}
