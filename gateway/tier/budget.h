/*
 * gateway/tier/budget.h -- the bytes all bodies in flight may hold together.
 *
 * Why: reserve before work: a request that would push the gateway past memory.max is told to slow
 * down before its body is read, and an object the gateway reads for itself waits for its next turn.
 * Ownership: the caller owns the struct.
 * Threads:   any; one atomic.
 * Limits:    `max`.
 */
#ifndef GATEWAY_TIER_BUDGET_H
#define GATEWAY_TIER_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct gateway_body_cache;

struct gateway_budget {
    uint64_t max;
    struct gateway_body_cache *body_cache; /* where memory for them comes from; NULL: the heap */
    _Atomic uint64_t used;
};

static inline bool
gateway_budget_take(struct gateway_budget *budget, uint64_t bytes)
{
    uint64_t used = atomic_load_explicit(&budget->used, memory_order_relaxed);

    do {
        if (bytes > budget->max || used > budget->max - bytes)
            return false;
    } while (!atomic_compare_exchange_weak(&budget->used, &used, used + bytes));
    return true;
}

static inline void
gateway_budget_give(struct gateway_budget *budget, uint64_t bytes)
{
    atomic_fetch_sub(&budget->used, bytes);
}

#endif /* GATEWAY_TIER_BUDGET_H */
