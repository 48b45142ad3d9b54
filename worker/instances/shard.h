/*
 * worker/instances/shard.h -- what one rank has of a block, and which bytes these must be.
 *
 * Why: ranks split a block by heads (universal layout, kvbm/layout/block_layout.h), and instances
 * of different TP sizes split it differently.  So bytes follow from the block, the model's head
 * and the layer alone: whoever has head 5 of layer 2 has the same bytes, and a shard that came
 * from the wrong rank, or lies at the wrong head, is wrong.
 *
 * Threads:   no shared state.
 * Limits:    WORKER_SHARD_HEADS heads and WORKER_SHARD_LAYERS layers a model; block.size is a
 *            multiple of what makes whole pages for each rank.
 */
#ifndef WORKER_INSTANCES_SHARD_H
#define WORKER_INSTANCES_SHARD_H

#include <stddef.h>
#include <stdint.h>

#include "kvbm/layout/block_layout.h"

#define WORKER_SHARD_HEADS  8
#define WORKER_SHARD_LAYERS 4

struct worker_shard {
    struct kvbm_layout layout; /* of G1, G2 and G3 of the rank */
    uint32_t first_head;       /* of the model's */
    uint32_t heads;
    size_t run; /* bytes of one head's one layer, one after the other */
};

/**
 * @param block_size  bytes of a block, of all ranks together
 * @param tp          ranks that split it
 * @return KVT_OK; KVT_INVALID or KVT_RANGE in words
 */
KVT_NODISCARD enum kvt_err worker_shard_make(struct worker_shard *shard, uint64_t block_size,
                                             uint32_t tp, uint32_t rank, struct kvt_error *err);

/** Where the run of one head's one layer lies in a block. */
size_t worker_shard_offset(const struct worker_shard *shard, uint32_t head, uint32_t layer);

/** Write layer `layer` of block `hash`. */
void worker_shard_fill(const struct worker_shard *shard, uint64_t hash, uint32_t layer,
                       void *block);

/** How many bytes of the layer are wrong. */
size_t worker_shard_check(const struct worker_shard *shard, uint64_t hash, uint32_t layer,
                          const void *block);

#endif /* WORKER_INSTANCES_SHARD_H */
