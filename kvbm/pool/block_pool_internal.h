/*
 * kvbm/pool/block_pool_internal.h -- what the files of the pool share; nobody else includes it.
 *
 * Why: the pool is book-keeping (block_pool.c), registration (block_pool_register.c), lookups
 * (block_pool_find.c) and the moves of a block that is not registered (mutable_block.c), on the
 * same state.
 * Ownership: the pool owns all of it.
 * Threads:   everything behind `lock` is touched with it held; functions ending in _locked say so.
 *            Of a slot, `state`, `filled`, `by_tokens` and `label` are its one holder's until it is
 *            registered, and constant from then on until it is free again.
 * Limits:    as kvbm/pool/block_pool.h.
 */
#ifndef KVBM_POOL_BLOCK_POOL_INTERNAL_H
#define KVBM_POOL_BLOCK_POOL_INTERNAL_H

#include <assert.h>
#include <pthread.h>

#include "kvbm/pool/block_names.h"
#include "kvbm/pool/block_pool.h"
#include "kvbm/pool/eviction.h"

#define KVBM_POOL_NONE         UINT32_MAX
#define KVBM_POOL_LINE         64
#define KVBM_POOL_ANNOUNCE_MAX 32 /* callbacks between two turns of the lock */

struct kvbm_slot {
    struct kvbm_label label; /* while Partial, tokens_hash is the seed of its tokens' hash */
    uint32_t generation;     /* changes when the block becomes free; never 0 */
    uint32_t refs;
    enum kvt_block_state state;
    union {
        uint32_t next;   /* free: the next free one; while the coldest are sought: a chain */
        uint32_t filled; /* Partial: tokens in it */
    };
    uint32_t rested; /* the iteration at which its last holder let go of it */
    uint8_t priority;
    bool by_tokens;   /* its tokens name it */
    bool listed : 1;  /* the map has it under its name */
    bool leaving : 1; /* hooked, to take the name back */
    bool hooked : 1;  /* a callback about it runs: listed, but not to be found */
    bool aside : 1;   /* not offered as coldest */
    bool saved : 1;   /* the next tier has a copy */
    bool waiting : 1; /* in the inactive part */
    bool lent : 1;    /* taken to be looked at, and by nobody else since */
    bool early : 1;   /* fetched before anybody asked for it, and not asked for since */
    bool stored : 1;  /* the object tier has a copy, or takes none */
};

_Static_assert(sizeof(struct kvbm_slot) == 64, "a slot is a cache line");

struct kvbm_pool {
    uint32_t block_count;
    uint32_t block_tokens;
    uint32_t prefix_depth;
    enum kvt_pool_dedup dedup;
    kvbm_pool_event_fn *on_store;
    kvbm_pool_event_fn *on_remove;
    void *arg;
    uint32_t *tokens; /* block_tokens of each block; of its one holder */
    struct kvbm_slot *slots;

    /* Each on lines of its own: the lock, which others look at while one works; what every call
     * changes; what is counted. */
    struct {
        /* guards this struct and the slots, but for what is said above */
        _Alignas(KVBM_POOL_LINE) pthread_mutex_t lock;
        uint32_t waiters;
        _Alignas(KVBM_POOL_LINE) struct kvbm_eviction inactive;
        uint32_t free_first;
        uint32_t free_count;
        uint32_t hidden;    /* listed and hooked */
        uint32_t unstored;  /* listed and not stored */
        uint32_t iteration; /* of the engine, as kvbm_pool_set_iteration() said */
        _Alignas(KVBM_POOL_LINE) uint64_t registrations;
        uint64_t duplicates;
        uint64_t sought;
        uint64_t found;
        uint64_t evictions;
        uint64_t evictions_unsaved;
        uint64_t early_used;
        uint64_t early_unused;
        struct kvbm_block_names names;
        pthread_cond_t freed; /* or inactive now */
    } shared;
};

/** Wait for a lock that somebody has. */
void kvbm_pool_lock_contended(struct kvbm_pool *pool);

static inline void
kvbm_pool_lock(struct kvbm_pool *pool)
{
    if (pthread_mutex_trylock(&pool->shared.lock) != 0)
        kvbm_pool_lock_contended(pool);
}

static inline void
kvbm_pool_unlock(struct kvbm_pool *pool)
{
    (void)pthread_mutex_unlock(&pool->shared.lock);
}

/** The slot of a block that the caller holds; a stale or foreign handle is a bug, and asserted. */
static inline struct kvbm_slot *
kvbm_pool_slot(struct kvbm_pool *pool, struct kvt_handle handle)
{
    struct kvbm_slot *slot;

    assert(handle.block < pool->block_count);
    slot = &pool->slots[handle.block];
    assert(slot->generation == handle.generation);
    return slot;
}

/** One more holder. */
static inline struct kvt_handle
kvbm_pool_hold_locked(struct kvbm_pool *pool, uint32_t block)
{
    struct kvbm_slot *slot = &pool->slots[block];

    if (slot->waiting) {
        pool->shared.inactive.calls->take(pool->shared.inactive.state, block);
        pool->shared.inactive.count--;
        slot->waiting = false;
    }
    assert(slot->refs < UINT32_MAX);
    slot->refs++;
    slot->lent = false;
    return (struct kvt_handle){block, slot->generation};
}

/** Nobody holds the block any more, and it has no name. */
void kvbm_pool_free_locked(struct kvbm_pool *pool, uint32_t block);

/** From here on nobody finds the name, and nobody can register it again until it is taken away. */
void kvbm_pool_hide_locked(struct kvbm_pool *pool, struct kvbm_slot *slot, bool leaving);

#endif /* KVBM_POOL_BLOCK_POOL_INTERNAL_H */
