/*
 * worker/instances/rank_memory.h -- G1 of a rank: on a device where there is one, else host memory.
 *
 * Why: a rank's model has no kernels.  It writes and compares layers in host memory: in G1 itself
 * where that is host memory, else in a page of pinned memory that goes to the device or came from
 * there.  Others' bytes come by G2, which the fabric reads and fills; the device has it pinned.
 *
 * Ownership: pages own driver, G1 and page; G2 is pinned while it is lent.
 * Threads:   filling and checking are one thread's; G1 as kvbm/storage/tier_storage.h.
 * Limits:    one device.  Once it has failed nothing that was said of its blocks holds.
 */
#ifndef WORKER_INSTANCES_RANK_MEMORY_H
#define WORKER_INSTANCES_RANK_MEMORY_H

#include "kvbm/cuda/cuda_driver.h"
#include "kvbm/storage/tier_storage.h"

#include "worker/instances/instance_plan.h"
#include "worker/instances/shard.h"

struct worker_rank_memory {
    struct kvbm_cuda *cuda; /* NULL: G1 is host memory */
    struct kvbm_storage *g1;
    struct kvbm_storage *page; /* one block; NULL: G1 has addresses */
    void *pinned;              /* of G2; NULL: nothing */
    bool lost;                 /* something could not be written or read */
};

/**
 * As the setting `gpu` says.
 *
 * @return KVT_OK; KVT_UNSUPPORTED (one is required and not there); KVT_NOMEM; KVT_IO (the device
 *         refuses); KVT_RANGE or KVT_INVALID (sizes).  After a failure there is something to close.
 */
KVT_NODISCARD enum kvt_err worker_rank_memory_open(struct worker_rank_memory *memory,
                                                   const struct worker_instance_plan *plan,
                                                   const struct worker_shard *shard,
                                                   struct kvt_error *err);

/** Let the device copy to and from G2 at full speed; where it will not, that is said in the log.
 *  All of it is one piece of host memory. */
void worker_rank_memory_pin(struct worker_rank_memory *memory, struct kvbm_storage *g2);
/** Before G2's memory goes. */
void worker_rank_memory_unpin(struct worker_rank_memory *memory);

/** What worker_rank_memory_open() made, also when it failed half way. */
void worker_rank_memory_close(struct worker_rank_memory *memory);

/** Write layer `layer` of block `hash` to `block` of G1. */
void worker_rank_memory_fill(struct worker_rank_memory *memory, const struct worker_shard *shard,
                             uint32_t block, uint64_t hash, uint32_t layer);

/** How many bytes of that layer are wrong; 0 where they cannot be read. */
size_t worker_rank_memory_check(struct worker_rank_memory *memory, const struct worker_shard *shard,
                                uint32_t block, uint64_t hash, uint32_t layer);

#endif /* WORKER_INSTANCES_RANK_MEMORY_H */
