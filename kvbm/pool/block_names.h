/*
 * kvbm/pool/block_names.h -- the block of a name, for the blocks of a pool.
 *
 * Why: a pool looks up every block of every request, and a full one takes a name out for each that
 * it puts in.  A block has one name at most, and so the names of one bucket are a chain through an
 * array by block number: what comes and goes moves nothing else, and there are no runs to search
 * for their end.  Names that share a bucket stand in the order they came in; the oldest, which
 * mostly goes first, is found first.
 *
 * Ownership: the caller owns the struct; init and release.
 * Threads:   none; the pool's lock guards its one.
 * Limits:    blocks below `capacity`, given at init; nothing allocates after it.
 */
#ifndef KVBM_POOL_BLOCK_NAMES_H
#define KVBM_POOL_BLOCK_NAMES_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "kvtier/error.h"

#define KVBM_BLOCK_NAMES_NONE UINT32_MAX

struct kvbm_block_name {
    uint64_t hash;
    uint32_t next; /* of the same bucket */
};

struct kvbm_block_names {
    uint32_t *first; /* of each bucket: a power of two, four or more for a block; see guess */
    struct kvbm_block_name *names; /* by block */
    uint32_t mask;
    uint32_t capacity;
    uint32_t count;
};

KVT_NODISCARD enum kvt_err kvbm_block_names_init(struct kvbm_block_names *names, uint32_t capacity);
void kvbm_block_names_release(struct kvbm_block_names *names);

/* Sequence hashes are well mixed in the field, but a test or a foreign engine may count upwards. */
static inline uint32_t *
kvbm_block_names_bucket(const struct kvbm_block_names *names, uint64_t hash)
{
    return &names->first[(uint32_t)((hash * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & names->mask];
}

/** `hash` will be looked for: have it fetched meanwhile. */
static inline void
kvbm_block_names_prefetch(const struct kvbm_block_names *names, uint64_t hash)
{
    __builtin_prefetch(kvbm_block_names_bucket(names, hash), 1);
}

/** The block whose name will be looked at first when `hash` is looked for, or
 * KVBM_BLOCK_NAMES_NONE.  It
 *  may be another by then where the caller lacks the lock: good for fetching only. */
static inline uint32_t
kvbm_block_names_guess(const struct kvbm_block_names *names, uint64_t hash)
{
    const uint32_t block = __atomic_load_n(kvbm_block_names_bucket(names, hash), __ATOMIC_RELAXED);

    if (block != KVBM_BLOCK_NAMES_NONE)
        __builtin_prefetch(&names->names[block], 1);
    return block;
}

/** The block of this name, or KVBM_BLOCK_NAMES_NONE. */
static inline uint32_t
kvbm_block_names_get(const struct kvbm_block_names *names, uint64_t hash)
{
    uint32_t block = *kvbm_block_names_bucket(names, hash);

    while (block != KVBM_BLOCK_NAMES_NONE && names->names[block].hash != hash)
        block = names->names[block].next;
    return block;
}

/** Name a block that has no name (the caller's to know).  The block that has the name already, and
 *  nothing changed, or KVBM_BLOCK_NAMES_NONE. */
static inline uint32_t
kvbm_block_names_add(struct kvbm_block_names *names, uint64_t hash, uint32_t block)
{
    uint32_t *link = kvbm_block_names_bucket(names, hash);

    for (; *link != KVBM_BLOCK_NAMES_NONE; link = &names->names[*link].next)
        if (names->names[*link].hash == hash)
            return *link;
    assert(block < names->capacity);
    names->names[block] = (struct kvbm_block_name){hash, KVBM_BLOCK_NAMES_NONE};
    __atomic_store_n(link, block, __ATOMIC_RELAXED);
    names->count++;
    return KVBM_BLOCK_NAMES_NONE;
}

/** Take away the name of a block that has one (asserted). */
static inline void
kvbm_block_names_remove(struct kvbm_block_names *names, uint32_t block)
{
    uint32_t *link = kvbm_block_names_bucket(names, names->names[block].hash);

    while (*link != block) {
        assert(*link != KVBM_BLOCK_NAMES_NONE);
        link = &names->names[*link].next;
    }
    __atomic_store_n(link, names->names[block].next, __ATOMIC_RELAXED);
    names->count--;
}

#endif /* KVBM_POOL_BLOCK_NAMES_H */
