/*
 * index/block/block_size.h -- how large blocks are.
 *
 * Why: nearly all blocks of a namespace have one size, so a run has the number of it.  A block may
 * be learned to be larger or smaller than its neighbours; then its run gets a size for each, until
 * they agree again.
 *
 * Ownership: the index.
 * Threads:   under the index's lock, but for index_block_size_bytes().
 * Limits:    INDEX_BLOCK_SIZES_MAX different sizes in the life of an index.
 */
#ifndef INDEX_BLOCK_BLOCK_SIZE_H
#define INDEX_BLOCK_BLOCK_SIZE_H

#include "index/block/state.h"

void index_block_size_init(struct index *index);
void index_block_size_release(struct index *index);

/** The code of a size, made on first use; KVT_RANGE beyond INDEX_BLOCK_SIZES_MAX,
 *  KVT_FULL without memory. */
KVT_NODISCARD enum kvt_err index_block_size_code(struct index *index, uint64_t bytes,
                                                 uint16_t *code);
/** Any thread, inside of an epoch. */
uint64_t index_block_size_bytes(const struct index *index, uint16_t code);

/** The size of a block of a run. */
uint64_t index_block_size_of(const struct index *index, uint32_t first, uint32_t offset);

/**
 * Blocks [from, to) of a run are of this size; the totals of their holders follow.
 *
 * @return KVT_OK or KVT_FULL; unchanged then
 */
KVT_NODISCARD enum kvt_err index_block_size_set(struct index *index, uint32_t first, uint32_t from,
                                                uint32_t to, uint16_t code);

/** The run is given back. */
void index_block_size_forget(struct index *index, uint32_t first);

#endif /* INDEX_BLOCK_BLOCK_SIZE_H */
