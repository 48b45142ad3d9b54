/*
 * index/holder/block_range.h -- the blocks of a run that one holder has.
 *
 * Why: what storing and removing does to the ranges of one holder is arithmetic, apart from where
 * ranges lie.
 *
 * Ownership: the caller owns all memory.
 * Threads:   any; index_block_range_store() and index_block_range_take() under the index's lock.
 * Limits:    INDEX_RUN_BLOCKS_MAX ranges of one holder in a run.
 */
#ifndef INDEX_HOLDER_BLOCK_RANGE_H
#define INDEX_HOLDER_BLOCK_RANGE_H

#include <stdint.h>

#include "index/holder/shards.h"

#define INDEX_RUN_BLOCKS_MAX 1024

/* holder:20 | code:12 | from:16 | to:16, high to low.  0 is no range: `to` is never 0. */
typedef uint64_t index_block_range;

#define INDEX_BLOCK_RANGE_KEY_MASK ((UINT64_C(1) << 44) - 1) /* a range without its holder */

static inline index_block_range
index_block_range_make(uint32_t holder, uint32_t code, uint32_t from, uint32_t to)
{
    return (uint64_t)holder << 44 | (uint64_t)code << 32 | (uint64_t)from << 16 | to;
}

static inline uint32_t
index_block_range_holder(index_block_range range)
{
    return (uint32_t)(range >> 44);
}

static inline uint32_t
index_block_range_code(index_block_range range)
{
    return range >> 32 & 0xfff;
}

static inline uint32_t
index_block_range_from(index_block_range range)
{
    return range >> 16 & 0xffff;
}

static inline uint32_t
index_block_range_to(index_block_range range)
{
    return range & 0xffff;
}

/* Blocks of a run. */
struct index_blocks {
    uint64_t bits[INDEX_RUN_BLOCKS_MAX / 64];
    uint32_t count;
};

/** Those of [from, to) that are in it go. */
void index_blocks_remove(struct index_blocks *blocks, uint32_t from, uint32_t to);

/* The ranges of one holder, by `from`. */
struct index_block_ranges {
    uint32_t count;
    index_block_range ranges[INDEX_RUN_BLOCKS_MAX + 2];
};

/**
 * What is left of `old`, or added to it, when the holder gets the shards `code` of [from, to).
 *
 * @param[out] shards   (block, shard) pairs that came
 * @param[out] changed  blocks of which the holder had nothing
 * @return KVT_OK or KVT_FULL (no code)
 */
KVT_NODISCARD enum kvt_err index_block_range_store(const struct index_block_ranges *old,
                                                   struct index_shards *codes,
                                                   index_block_range range,
                                                   struct index_block_ranges *ranges,
                                                   struct index_blocks *changed, uint32_t *shards);
/**
 * The same when it loses the shards `ranks` of [from, to).
 *
 * @param[out] shards   (block, shard) pairs that went
 * @param[out] changed  blocks of which the holder has nothing any more
 */
KVT_NODISCARD enum kvt_err index_block_range_take(const struct index_block_ranges *old,
                                                  struct index_shards *codes, uint32_t ranks,
                                                  uint32_t from, uint32_t to,
                                                  struct index_block_ranges *ranges,
                                                  struct index_blocks *changed, uint32_t *shards);

#endif /* INDEX_HOLDER_BLOCK_RANGE_H */
