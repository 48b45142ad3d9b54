/*
 * engine/broadcast.h -- blocks of G1 from rank 0 to all other ranks of a replicated group.
 *
 * Why: NCCL does it over NVLink where there are GPUs; without, ranks read rank 0's memory (the
 * fabric) or have it in common.  A group knows only this table.
 *
 * Ownership: as engine/worker.h: items are borrowed until `done` returns.
 * Threads:   as engine/worker.h.
 * Limits:    ENGINE_ITEMS_MAX blocks at once.
 */
#ifndef ENGINE_BROADCAST_H
#define ENGINE_BROADCAST_H

#include "kvbm/storage.h"
#include "kvbm/transfer.h"

#include "engine/worker.h"

struct engine_broadcast;

struct engine_broadcast_ops {
    const char *kind; /* "nccl", "memory" */
    /** Bring `target` of each item with status KVT_OK from rank 0 to ranks 1 and up; statuses as
     *  with a job.  KVT_OK: `done` is called once. */
    enum kvt_err (*start)(struct engine_broadcast *broadcast, struct engine_job *job);
    void (*close)(struct engine_broadcast *broadcast);
};

struct engine_broadcast {
    const struct engine_broadcast_ops *ops;
};

/** NULL is allowed. */
void engine_broadcast_close(struct engine_broadcast *broadcast);

/** Between storages of this process: rank r's G1 is `storages[r]`. */
KVT_NODISCARD enum kvt_err engine_broadcast_memory(struct engine_broadcast **out,
                                                   struct kvbm_transfer *transfer,
                                                   struct kvbm_storage *const *storages,
                                                   uint32_t count, struct kvt_error *err);

#endif /* ENGINE_BROADCAST_H */
