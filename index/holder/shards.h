/*
 * index/holder/shards.h -- bitmaps of shards, and the numbers that stand for them.
 *
 * Why: a range has 12 bits for its shards, and few different bitmaps are in use: one for each size
 * of a tensor-parallel group, and what is left while one of its ranks lags.
 *
 * Ownership: the index.
 * Threads:   changes under the index's lock; index_shards_ranks() on any thread.
 * Limits:    INDEX_SHARDS_MAX different bitmaps in the life of an index.
 */
#ifndef INDEX_HOLDER_SHARDS_H
#define INDEX_HOLDER_SHARDS_H

#include <stdint.h>

#include "index/memory/memory.h"
#include "kvtier/error.h"

#define INDEX_SHARDS_MAX 4095 /* code 0 is no shard at all */

struct index_shards;

/** KVT_OK or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err index_shards_new(struct index_shards **out, struct index_memory *memory);
/** NULL is allowed. */
void index_shards_free(struct index_shards *shards, struct index_memory *memory);

/** The code of a bitmap (not 0), made on first use; KVT_RANGE: none is free. */
KVT_NODISCARD enum kvt_err index_shards_code(struct index_shards *shards, uint32_t ranks,
                                             uint32_t *code);
/** The bitmap of a code. */
uint32_t index_shards_ranks(const struct index_shards *shards, uint32_t code);

#endif /* INDEX_HOLDER_SHARDS_H */
