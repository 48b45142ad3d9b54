/*
 * engine/memory/blockset_shape.h -- what a block set's region looks like, to its owner and to who
 * reads it.
 *
 * Why: both work it out of the layout and the number of blocks, so that it need not be sent.
 *
 *   0      head: the set's nonce, 0 when it was dropped
 *   4096   table: one entry a block, `entry_size` apart
 *   data   blocks, `block_size` apart, packed bytes first
 *
 * A block is cut into *grains* of one size, each with a crc32c of its own, so that a slice can be
 * checked without the rest: what one head has of a layer (universal), or a layer (contiguous), and
 * as many of these together as make GRAIN_MIN bytes, so that sums are at most a thousandth of the
 * data.  A block's *sum* is the crc32c of its grains' crc32c, little-endian.
 *
 * Threads:   no shared state.
 * Limits:    layouts with one allocation; KVBM_STORAGE_BLOCKS_MAX blocks.
 */
#ifndef ENGINE_MEMORY_BLOCKSET_SHAPE_H
#define ENGINE_MEMORY_BLOCKSET_SHAPE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "kvbm/layout/block_layout.h"

#define ENGINE_BLOCKSET_GRAIN_MIN 4096
#define ENGINE_BLOCKSET_TABLE     4096 /* where it begins */

struct engine_blockset_head {
    _Atomic uint64_t nonce;
};

/* Of a block, before the crc32c of its grains (engine_blockset_grains()).  `generation` is odd
 * while it is shown, and never the same for two contents. */
struct engine_blockset_entry {
    _Atomic uint64_t nonce;
    _Atomic uint64_t generation;
    uint64_t hash;
    uint32_t sum;
    uint32_t reserved;
};

struct engine_blockset_shape {
    struct kvbm_layout layout;
    uint32_t blocks;
    uint32_t grains;       /* of a block */
    uint32_t grain_layers; /* layers in one */
    size_t grain;          /* bytes */
    size_t block_size;     /* from one block to the next */
    size_t entry_size;     /* from one entry to the next */
    size_t data;           /* where blocks begin */
    size_t size;           /* of it all, in whole pages */
};

/** KVT_OK; KVT_UNSUPPORTED (layered); KVT_RANGE (too many blocks). */
KVT_NODISCARD enum kvt_err engine_blockset_shape(struct engine_blockset_shape *shape,
                                                 const struct kvbm_layout *layout, uint32_t blocks,
                                                 struct kvt_error *err);

size_t engine_blockset_entry_at(const struct engine_blockset_shape *shape, uint32_t block);
size_t engine_blockset_data_at(const struct engine_blockset_shape *shape, uint32_t block);

/** What is before it happens before what is behind it, as others see it: who hides a block needs
 *  that of everything (memory_order_seq_cst), since devices and non-temporal stores may write it;
 *  who reads, of reads alone (memory_order_acquire).  ThreadSanitizer knows no fences (and gcc says
 *  so), nor that the same memory is in two places. */
static inline void
engine_blockset_fence(memory_order order)
{
#ifdef __SANITIZE_THREAD__
    atomic_signal_fence(order);
#else
    atomic_thread_fence(order);
#endif
}

static inline uint32_t *
engine_blockset_grains(struct engine_blockset_entry *entry)
{
    return (uint32_t *)(entry + 1);
}

/** The crc32c of each grain of a block's packed bytes, into `grains`, and what they sum to. */
uint32_t engine_blockset_sums(const struct engine_blockset_shape *shape, const void *bytes,
                              uint32_t *grains);

/** Bytes of one layer, of one head where heads are one run: the smallest part there is. */
size_t engine_blockset_cell(const struct kvbm_layout *layout);

#endif /* ENGINE_MEMORY_BLOCKSET_SHAPE_H */
