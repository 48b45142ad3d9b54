/*
 * bench/route/cache.h -- what a worker has: so many blocks, and the least recently used goes.
 *
 * Why: how much a way to choose a worker finds depends on what workers forget.
 *
 * Ownership: owns its lists.
 * Limits:    blocks from 0 to `blocks` - 1.
 */
#ifndef BENCH_ROUTE_CACHE_H
#define BENCH_ROUTE_CACHE_H

#include <stdint.h>

#include "kvtier/error.h"

/* Blocks are links of a ring; entry 0 is its end, block b is entry b + 1. */
struct cache {
    uint32_t *next;
    uint32_t *before;
    uint32_t capacity;
    uint32_t count;
};

/** `blocks` different ones may come, `capacity` (1 or more) of them stay.  KVT_OK or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err cache_new(struct cache *cache, uint32_t blocks, uint32_t capacity);
/** Also of one that was never made (all bytes 0). */
void cache_release(struct cache *cache);

/** How many leading blocks of a chain it has. */
uint32_t cache_prefix(const struct cache *cache, const uint32_t *chain, uint32_t count);

/** A chain is used: what is not there comes, and the chain's leaf will go before its root. */
void cache_use(struct cache *cache, const uint32_t *chain, uint32_t count);

#endif /* BENCH_ROUTE_CACHE_H */
