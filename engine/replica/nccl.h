/*
 * engine/replica/nccl.h -- NCCL, found at run time: blocks from one device to all others.
 *
 * Why: over NVLink one collective is faster than a copy for each rank.  The library is opened by
 * name and its functions are looked up; their prototypes are declared here by hand from NCCL's
 * documentation, as those of the driver are (kvbm/cuda/cuda_driver.h).  Streams are the storages',
 * and opaque here.
 *
 * A collective that was begun and refused halfway would wait for ever: all communicators are
 * aborted then, and nothing is ever asked of NCCL again.
 *
 * Ownership: storages are borrowed and outlive it.
 * Threads:   one at a time.
 * Limits:    2 .. KVT_RANKS_MAX ranks, all in this process, each on a device of its own (NCCL
 *            refuses others).
 */
#ifndef ENGINE_REPLICA_NCCL_H
#define ENGINE_REPLICA_NCCL_H

#include "kvbm/storage/tier_storage.h"
#include "kvtier/error.h"

#define ENGINE_NCCL_LIBRARY   "libnccl.so.2"
#define ENGINE_NCCL_PARTS_MAX 256 /* of one call */

struct engine_nccl;

/* A run of bytes of a block, the same on every rank. */
struct engine_nccl_part {
    uint32_t block;
    size_t offset; /* in its packed bytes */
    size_t size;   /* not 0 */
};

/** KVT_OK; KVT_UNSUPPORTED (no NCCL here, one too old, or not for these storages: in words);
 *  KVT_NOMEM. */
KVT_NODISCARD enum kvt_err engine_nccl_open(struct engine_nccl **out, const char *library,
                                            struct kvbm_storage *const *storages, uint32_t count,
                                            struct kvt_error *err);

/** NULL is allowed. */
void engine_nccl_close(struct engine_nccl *nccl);

/**
 * Bring parts from storage 0 to all others, and wait.
 *
 * @return KVT_OK; KVT_UNAVAILABLE (NCCL refused, now or before: nothing is in flight, and it may be
 *         done in another way); KVT_IO (a device cannot be waited for)
 */
KVT_NODISCARD enum kvt_err engine_nccl_spread(struct engine_nccl *nccl,
                                              const struct engine_nccl_part *parts, size_t count);

#endif /* ENGINE_REPLICA_NCCL_H */
