#include "router/cost.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define WEIGHT_MAX 1e6

struct router_weights
router_weights_default(void)
{
    return (struct router_weights){
        .overlap_score_weight = 1.0,
        .tier = {1.0, 0.75, 0.25, 0.1},
        .active_request_weight = 0.0,
        .temperature = 0.0,
    };
}

static bool
good(double weight)
{
    return isfinite(weight) && weight >= 0.0 && weight <= WEIGHT_MAX;
}

enum kvt_err
router_weights_check(const struct router_weights *weights, struct kvt_error *err)
{
    const char *bad = NULL;

    if (!good(weights->overlap_score_weight))
        bad = "overlap_score_weight";
    if (!good(weights->active_request_weight))
        bad = "active_request_weight";
    if (!good(weights->temperature))
        bad = "router_temperature";
    for (int i = 0; i < ROUTER_TIERS; i++)
        if (!good(weights->tier[i]))
            bad = "tier weights";
    if (bad == NULL)
        return KVT_OK;
    return kvt_error_set(err, KVT_RANGE, "%s: want a number from 0 to %g", bad, WEIGHT_MAX);
}

struct router_terms
router_cost_terms(const struct router_weights *weights, const struct router_load *load,
                  const struct router_candidates *candidates, size_t at)
{
    struct router_terms terms = {0};
    double raw = (double)(candidates->active_prefill_tokens[at] + load->isl_tokens) /
                 (double)load->block_tokens;
    double left;

    for (int i = 0; i < ROUTER_TIERS; i++)
        if (candidates->cached[i] != NULL)
            terms.credit_blocks += weights->tier[i] * (double)candidates->cached[i][at];
    left = raw - terms.credit_blocks;
    terms.prefill_blocks = left > 0.0 ? left : 0.0;
    terms.decode_blocks = (double)candidates->decode_blocks[at];
    terms.cost = weights->overlap_score_weight * terms.prefill_blocks + terms.decode_blocks +
                 weights->active_request_weight * (double)candidates->active_requests[at];
    return terms;
}

/* Loops over a group have a length the compiler knows, so that it makes them of wide instructions,
 * and conversions it has no wide instruction for are made of some it has. */
enum { GROUP = 16 };

static inline double
from_bits(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* (double)value, to the last bit: both halves are exact, and their sum is rounded once. */
static inline double
wide(uint64_t value)
{
    double high = from_bits(value >> 32 | 0x4530000000000000) - 0x1.00000001p84;
    double low = from_bits((value & UINT32_MAX) | 0x4330000000000000);

    return high + low;
}

static inline double
narrow(uint32_t value)
{
    return from_bits(value | 0x4330000000000000) - 0x1p52;
}

/* value, or 0 where it is below. */
static inline double
at_least_zero(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return from_bits(bits & ((bits >> 63) - 1));
}

/* The operations of router_cost_terms(), in their order, for GROUP candidates from `at` on. */
__attribute__((always_inline)) static inline void
group(const struct router_weights *weights, const struct router_candidates *candidates,
      const struct router_load *load, double inverse, size_t at, double *restrict costs)
{
    const uint64_t *restrict active = candidates->active_prefill_tokens + at;
    const uint64_t *restrict decode = candidates->decode_blocks + at;
    const uint32_t *restrict requests = candidates->active_requests + at;
    const double block_tokens = (double)load->block_tokens;
    const double prefill_weight = weights->overlap_score_weight;
    const double request_weight = weights->active_request_weight;
    const uint64_t isl_tokens = load->isl_tokens;
    double credit[GROUP] = {0};
    double raw[GROUP];

    for (int tier = 0; tier < ROUTER_TIERS; tier++) {
        const uint32_t *restrict cached = candidates->cached[tier];
        const double weight = weights->tier[tier];

        if (cached == NULL)
            continue;
        cached += at;
        for (int i = 0; i < GROUP; i++)
            credit[i] += weight * narrow(cached[i]);
    }
    for (int i = 0; i < GROUP; i++)
        raw[i] = wide(active[i] + isl_tokens);
    if (inverse != 0.0)
        for (int i = 0; i < GROUP; i++)
            raw[i] *= inverse;
    else
        for (int i = 0; i < GROUP; i++)
            raw[i] /= block_tokens;
    for (int i = 0; i < GROUP; i++)
        costs[i] = prefill_weight * at_least_zero(raw[i] - credit[i]) + wide(decode[i]) +
                   request_weight * narrow(requests[i]);
}

/* 1 / tokens where dividing by one is multiplying by the other to the last bit; otherwise 0. */
static double
inverse_of(uint32_t tokens)
{
    return (tokens & (tokens - 1)) == 0 ? 1.0 / (double)tokens : 0.0;
}

/* Returns how many it has done. */
__attribute__((always_inline)) static inline size_t
groups(const struct router_weights *weights, const struct router_load *load,
       const struct router_candidates *candidates, double *costs)
{
    double inverse = inverse_of(load->block_tokens);
    size_t at = 0;

    for (; at + GROUP <= candidates->count; at += GROUP)
        group(weights, candidates, load, inverse, at, costs + at);
    return at;
}

#if defined(__x86_64__) && !defined(ROUTER_COST_PLAIN)
/* The same operations, twice as many at a time. */
__attribute__((target("avx2"))) static size_t
groups_avx2(const struct router_weights *weights, const struct router_load *load,
            const struct router_candidates *candidates, double *costs)
{
    return groups(weights, load, candidates, costs);
}
#endif

void
router_cost(const struct router_weights *weights, const struct router_load *load,
            const struct router_candidates *candidates, double *costs)
{
    size_t at;

#if defined(__x86_64__) && !defined(ROUTER_COST_PLAIN)
    if (__builtin_cpu_supports("avx2"))
        at = groups_avx2(weights, load, candidates, costs);
    else
#endif
        at = groups(weights, load, candidates, costs);
    for (; at < candidates->count; at++)
        costs[at] = router_cost_terms(weights, load, candidates, at).cost;
}
