/*
 * index/old_state.h -- inside of an index, for index/ alone.
 *
 * Why: storing, matching and walking are files of their own over one state.
 *
 *   block      one record per (namespace, hash), 64 bytes: a cache line
 *   place      one record per (block, holder), in two lists: the block's and the holder's
 *   blocks     (namespace, hash)   -> block
 *   places     (block, holder)     -> place
 *   children   (namespace, parent) -> first block of the sibling list; the parent itself need not
 *              be in the index, so a child that comes first is found when its parent arrives
 *
 * A block without places does not exist.  Records never move, so numbers stay valid while a record
 * lives.  Everything a call needs is reserved before it changes anything.
 *
 * Ownership: the index owns everything.
 * Threads:   one reader-writer lock around all of it; functions below want it held.
 * Limits:    as index/index.h.
 */
#ifndef INDEX_OLD_STATE_H
#define INDEX_OLD_STATE_H

#include <pthread.h>

#include "index/index.h"
#include "index/memory.h"
#include "index/pool.h"
#include "index/slots.h"

struct index_block_record {
    uint64_t hash;
    uint64_t parent;
    uint64_t tokens_hash;
    uint64_t size;
    uint32_t position;
    uint32_t place_head;
    uint32_t place_count;
    uint32_t sibling_next; /* blocks with the same parent */
    uint32_t sibling_prev;
    uint32_t ns : 24;
    uint32_t tiers : 8; /* KVT_TIER_MASK bits of its places */
};

_Static_assert(sizeof(struct index_block_record) <= 64, "a block fits a cache line");

struct index_place_record {
    uint32_t block;
    uint32_t holder;
    uint32_t ranks; /* 0: a free record */
    uint32_t block_next;
    uint32_t block_prev;
    uint32_t holder_next;
    uint32_t holder_prev;
};

struct index_holder_record {
    struct index_holder key;
    uint64_t blocks;
    uint64_t bytes;
    uint32_t place_head;
};

struct index_namespace_record {
    char name[KVT_NAMESPACE_MAX];
};

struct index {
    pthread_rwlock_t lock; /* guards everything below */
    struct index_memory memory;
    struct index_pool blocks;
    struct index_pool places;
    struct index_pool holders;
    struct index_pool namespaces;
    struct index_slots block_table;
    struct index_slots place_table;
    struct index_slots child_table;
    struct index_slots holder_table;
    struct index_slots namespace_table;
    uint64_t collisions;
};

static inline struct index_block_record *
index_state_block(const struct index *index, uint32_t number)
{
    return index_pool_at(&index->blocks, number);
}

static inline struct index_place_record *
index_state_place(const struct index *index, uint32_t number)
{
    return index_pool_at(&index->places, number);
}

static inline struct index_holder_record *
index_state_holder(const struct index *index, uint32_t number)
{
    return index_pool_at(&index->holders, number);
}

/** Spread the bits of a key (murmur3's finalizer): hashes from outside may be anything. */
static inline uint64_t
index_state_mix(uint64_t key)
{
    key ^= key >> 33;
    key *= UINT64_C(0xff51afd7ed558ccd);
    key ^= key >> 33;
    key *= UINT64_C(0xc4ceb9fe1a85ec53);
    return key ^ key >> 33;
}

static inline uint64_t
index_state_block_key(uint32_t ns, uint64_t hash)
{
    return index_state_mix(hash + (uint64_t)ns * UINT64_C(0x9e3779b97f4a7c15));
}

static inline uint64_t
index_state_place_key(uint32_t block, uint32_t holder)
{
    return index_state_mix((uint64_t)block << 32 | holder);
}

/** Number of the block, or INDEX_NONE; the probe stands on its entry. */
uint32_t index_state_find_block(struct index *index, uint32_t ns, uint64_t hash,
                                struct index_slots_probe *probe);
/** Number of the place, or INDEX_NONE. */
uint32_t index_state_find_place(struct index *index, uint32_t block, uint32_t holder,
                                struct index_slots_probe *probe);
/** First block of the list of `parent`'s children, or INDEX_NONE. */
uint32_t index_state_find_children(struct index *index, uint32_t ns, uint64_t parent,
                                   struct index_slots_probe *probe);

/** Copy a block out; `ranks` are the union over its places. */
void index_state_copy_block(const struct index *index, const struct index_block_record *block,
                            struct index_block *out);

#endif /* INDEX_OLD_STATE_H */
