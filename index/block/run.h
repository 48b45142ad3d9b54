/*
 * index/block/run.h -- consecutive blocks of one sequence.
 *
 * Why: the writer, readers without a lock and the allocator share one record of a cache line.  How
 * to read it beside the writer is in index/block/state.h.
 *
 * Ownership: the index.
 * Threads:   fields above the second line of struct index_run are read without the lock, as relaxed
 *            atomics; the rest is the writer's.
 */
#ifndef INDEX_BLOCK_RUN_H
#define INDEX_BLOCK_RUN_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "index/holder/run_holders.h"

enum index_run_flag {
    INDEX_RUN_ORPHAN = 1,    /* its parent is known by hash alone; in the table of orphans */
    INDEX_RUN_ODD_SIZES = 2, /* its blocks have sizes of their own (index/block/block_size.h) */
    INDEX_RUN_TOKENS = 4,    /* the token hashes of all its blocks are known */
    INDEX_RUN_GROWING = 8,   /* it came block by block */
};

/* A cache line.  Above the second line: shared; below: the writer's. */
struct index_run {
    _Atomic uint32_t version; /* odd while the run changes */
    _Atomic uint16_t length;  /* blocks, ghosts among them; 0: a free run */
    _Atomic uint16_t size;    /* code of the bytes of one shard (index/block/block_size.h) */
    _Atomic uint64_t parent;  /* hash before the first block; 0: a root, or not known */
    struct index_run_holders holders;
    _Atomic uint32_t position; /* of the first block */
    _Atomic uint32_t stored_s; /* last stored to */
    _Atomic uint16_t ns;
    _Atomic uint8_t tiers; /* KVT_TIER_MASK bits of all its holders, and maybe of former ones */
    _Atomic uint8_t flags;
    /* ---- */
    uint32_t parent_number; /* block before the first; 0: none, or not here */
    uint32_t child;         /* first block of the first run that hangs on one of its blocks */
    uint32_t next;          /* first blocks of runs on the same one, or of the same orphans; */
    uint32_t prev;          /* of a free run: `next` is the next free one of its page */
    uint16_t pinned;        /* blocks before this offset may have children in other runs */
    uint16_t unused;
};

_Static_assert(sizeof(struct index_run) == 64, "a run is a cache line");

/* ThreadSanitizer does not know fences; what it checks is that all that is shared is atomic. */
static inline void
index_run_fence(void)
{
#ifndef __SANITIZE_THREAD__
    atomic_thread_fence(memory_order_acq_rel);
#endif
}

/* ---- any thread ---- */

static inline uint32_t
index_run_read(const struct index_run *run)
{
    return atomic_load_explicit(&run->version, memory_order_acquire);
}

static inline bool
index_run_unchanged(const struct index_run *run, uint32_t version)
{
    index_run_fence();
    return atomic_load_explicit(&run->version, memory_order_relaxed) == version;
}

static inline bool
index_run_is(const struct index_run *run, enum index_run_flag flag)
{
    return (atomic_load_explicit(&run->flags, memory_order_relaxed) & flag) != 0;
}

static inline uint32_t
index_run_length(const struct index_run *run)
{
    return atomic_load_explicit(&run->length, memory_order_relaxed);
}

static inline uint32_t
index_run_ns(const struct index_run *run)
{
    return atomic_load_explicit(&run->ns, memory_order_relaxed);
}

/** Somebody has the block. */
static inline bool
index_run_held(const struct index_run *run, uint32_t offset)
{
    return index_run_holders_block_read(&run->holders, offset, NULL, 0) > 0;
}

/* ---- under the lock ---- */

static inline void
index_run_change(struct index_run *run)
{
    const uint32_t version = atomic_load_explicit(&run->version, memory_order_relaxed);

    assert((version & 1) == 0);
    atomic_store_explicit(&run->version, version + 1, memory_order_relaxed);
    index_run_fence();
}

static inline void
index_run_changed(struct index_run *run)
{
    const uint32_t version = atomic_load_explicit(&run->version, memory_order_relaxed);

    assert((version & 1) == 1);
    atomic_store_explicit(&run->version, version + 1, memory_order_release);
}

static inline void
index_run_set(struct index_run *run, enum index_run_flag flag, bool on)
{
    const unsigned flags = atomic_load_explicit(&run->flags, memory_order_relaxed);

    atomic_store_explicit(&run->flags, (uint8_t)(on ? flags | flag : flags & ~(unsigned)flag),
                          memory_order_relaxed);
}

#endif /* INDEX_BLOCK_RUN_H */
