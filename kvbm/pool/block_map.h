/*
 * kvbm/pool/block_map.h -- from a sequence hash to a block number.
 *
 * Why: a pool looks up every block of every request; its table never grows, because a pool never
 * holds more names than blocks.
 *
 * Ownership: the caller owns the struct; init and release.
 * Threads:   none; the pool's lock guards its one.
 * Limits:    `capacity` entries, given at init; an insert beyond is a bug, and asserted.
 */
#ifndef KVBM_POOL_BLOCK_MAP_H
#define KVBM_POOL_BLOCK_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "kvtier/error.h"

struct kvbm_block_map_entry {
    uint64_t hash;
    uint32_t block;
    bool used;
};

struct kvbm_block_map {
    struct kvbm_block_map_entry *entries; /* a power of two, at most half full */
    uint32_t mask;
    uint32_t capacity;
    uint32_t count;
};

KVT_NODISCARD enum kvt_err kvbm_block_map_init(struct kvbm_block_map *map, uint32_t capacity);
void kvbm_block_map_release(struct kvbm_block_map *map);

/** False when `hash` is not there; `block` is then 0. */
bool kvbm_block_map_get(const struct kvbm_block_map *map, uint64_t hash, uint32_t *block);

/** `hash` must not be there yet (asserted). */
void kvbm_block_map_put(struct kvbm_block_map *map, uint64_t hash, uint32_t block);

/** Put `hash` if it is not there; false, and the block that it has, if it is. */
bool kvbm_block_map_add(struct kvbm_block_map *map, uint64_t hash, uint32_t block, uint32_t *known);

/** `hash` must be there (asserted). */
void kvbm_block_map_remove(struct kvbm_block_map *map, uint64_t hash);

/* Where the search for a hash begins.  Sequence hashes are well mixed in the field, but a test or a
 * foreign engine may count upwards. */
static inline uint32_t
kvbm_block_map_home(const struct kvbm_block_map *map, uint64_t hash)
{
    return (uint32_t)((hash * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & map->mask;
}

/** `hash` will be looked for: have it fetched meanwhile. */
static inline void
kvbm_block_map_prefetch(const struct kvbm_block_map *map, uint64_t hash)
{
    __builtin_prefetch(&map->entries[kvbm_block_map_home(map, hash)]);
}

#endif /* KVBM_POOL_BLOCK_MAP_H */
