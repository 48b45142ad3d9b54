/*
 * kvbm/pool_internal.h -- what the files of the pool share; nobody else includes it.
 *
 * Why: the pool is book-keeping (pool.c) and lookups (pool_find.c) on the same locked state.
 * Ownership: the pool owns all of it.
 * Threads:   everything behind `lock` is touched with it held; functions ending in _locked say so.
 * Limits:    as kvbm/pool.h.
 */
#ifndef KVBM_POOL_INTERNAL_H
#define KVBM_POOL_INTERNAL_H

#include <pthread.h>

#include "kvbm/map.h"
#include "kvbm/pool.h"

#define KVBM_POOL_NONE UINT32_MAX

struct kvbm_slot {
    struct kvbm_label label;
    uint32_t generation; /* changes when the block becomes Reset */
    uint32_t refs;
    uint32_t previous; /* in the inactive list: colder */
    uint32_t next;     /* in the inactive list: warmer; in the free list: the next free one */
    enum kvt_block_state state;
    bool listed;  /* the map has it under its name */
    bool leaving; /* hooked, to take the name back */
    bool hooked;  /* a callback about it runs: listed, but not to be found */
    bool aside;   /* not offered as coldest */
    bool saved;   /* the next tier has a copy */
    bool waiting; /* in the inactive list */
};

struct kvbm_pool {
    uint32_t block_count;
    enum kvbm_pool_dedup dedup;
    kvbm_pool_event_fn *on_store;
    kvbm_pool_event_fn *on_remove;
    void *arg;

    struct {
        pthread_mutex_t lock; /* guards this struct, and nothing outside it */
        pthread_cond_t freed; /* or inactive now */
        struct kvbm_slot *slots;
        struct kvbm_map map;
        uint32_t free_first;
        uint32_t free_count;
        uint32_t coldest; /* ends of the inactive list */
        uint32_t warmest;
        uint32_t inactive_count;
        uint32_t hidden; /* listed and hooked */
        uint64_t registrations;
        uint64_t duplicates;
        uint64_t evictions;
        uint64_t evictions_unsaved;
    } shared;
};

/** The slot of a held handle; a stale or foreign handle is a bug, and asserted. */
struct kvbm_slot *kvbm_pool_slot_locked(struct kvbm_pool *pool, struct kvbm_handle handle);

/** Take `block` out of the inactive list. */
void kvbm_pool_unlink_locked(struct kvbm_pool *pool, uint32_t block);

/** One more holder. */
struct kvbm_handle kvbm_pool_hold_locked(struct kvbm_pool *pool, uint32_t block);

#endif /* KVBM_POOL_INTERNAL_H */
