/*
 * engine/replica/broadcast.h -- blocks of G1 from rank 0 to all other ranks of a replicated group.
 *
 * Why: NCCL does it over NVLink where there are GPUs; without, ranks read rank 0's memory (the
 * fabric) or have it in common.  A group knows only this table.
 *
 *   memory  all G1 in this process: transfers between the storages
 *   nccl    the same, of devices: one collective for all; transfers once NCCL has refused one
 *   fabric  ranks in whatever process, through their own tables (engine/rank/worker.h): rank 0
 *   copies
 *           to blocks of its G2 that are nobody else's and shows them; the others pull them into
 *           such blocks of theirs, and copy them up
 *   ipc     ranks in processes of one machine, each with G1 on a device: the others copy out of
 *           rank 0's (CUDA IPC), device to device; by the fabric where a rank cannot
 *
 * Whoever has a choice takes nccl where it is to be had; between processes
 * engine_broadcast_choose() says which.  What a broadcast does, and why, is its state.
 *
 * Ownership: as engine/rank/worker.h: items are borrowed until `done` returns.  Ranks, storages,
 *            transfer manager and layout outlive the broadcast.
 * Threads:   as engine/rank/worker.h; each broadcast has one thread, which does one job at a time,
 *            the urgent ones first.
 * Limits:    ENGINE_ITEMS_MAX blocks at once, ENGINE_JOBS_MAX jobs that wait (KVT_AGAIN).
 */
#ifndef ENGINE_REPLICA_BROADCAST_H
#define ENGINE_REPLICA_BROADCAST_H

#include "kvbm/layout/block_layout.h"
#include "kvbm/storage/tier_storage.h"
#include "kvbm/transfer/transfer_manager.h"

#include "engine/rank/worker.h"

#define ENGINE_STAGED_MAX 64 /* blocks of G2 that a broadcast keeps to itself */

struct engine_broadcast;

/* By what blocks go. */
enum engine_way { ENGINE_BY_MEMORY, ENGINE_BY_NCCL, ENGINE_BY_IPC, ENGINE_BY_FABRIC, ENGINE_WAYS };

#define ENGINE_WHY_MAX 256

struct engine_broadcast_state {
    enum engine_way way;          /* of the last job; of the next one before there was any */
    char why[ENGINE_WHY_MAX];     /* in words */
    uint64_t blocks[ENGINE_WAYS]; /* that came to all ranks, by the way that they went */
};

/** "memory", "nccl", "ipc", "fabric". */
const char *engine_way_name(enum engine_way way);

/** How it is now. */
void engine_broadcast_state(struct engine_broadcast *broadcast, struct engine_broadcast_state *out);

/** How many ranks it reaches, with rank 0. */
uint32_t engine_broadcast_ranks(const struct engine_broadcast *broadcast);

/** How many blocks at the end of each rank's G2 are its own. */
uint32_t engine_broadcast_staged(const struct engine_broadcast *broadcast);

/**
 * Bring block `target` of each item with status KVT_OK from G1 of rank 0 to G1 of all others: all
 * layers or those that the job names.  Other items are let be.  Only `layer`, `layers`, `priority`,
 * `wait_ms`, the items and `done` of the job are looked at.
 *
 * @return KVT_OK: `done` is called, once, with an outcome of all ranks; KVT_AGAIN
 */
KVT_NODISCARD enum kvt_err engine_broadcast_start(struct engine_broadcast *broadcast,
                                                  struct engine_job *job);

/** As engine_worker_cancel(); a job that has ended is let be. */
void engine_broadcast_cancel(struct engine_broadcast *broadcast, struct engine_job *job);

/** No job may go on (asserted).  NULL is allowed. */
void engine_broadcast_close(struct engine_broadcast *broadcast);

struct engine_broadcast_options {
    struct kvbm_transfer *transfer;
    struct kvbm_storage *const *storages; /* rank r's G1; copied */
    uint32_t count;
    const struct kvbm_layout *layout; /* of all of them */
};

/** KVT_OK; KVT_INVALID (no ranks, or blocks of different sizes); KVT_NOMEM. */
KVT_NODISCARD enum kvt_err engine_broadcast_memory(struct engine_broadcast **out,
                                                   const struct engine_broadcast_options *options,
                                                   struct kvt_error *err);

/**
 * By NCCL, found at run time.
 *
 * @param library  ENGINE_NCCL_LIBRARY, or another file with the same functions
 * @return KVT_OK; KVT_UNSUPPORTED (no NCCL, or storages that are not each another device's: `err`
 *         says which, and engine_broadcast_memory() does it); KVT_INVALID; KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err engine_broadcast_nccl(struct engine_broadcast **out,
                                                 const struct engine_broadcast_options *options,
                                                 const char *library, struct kvt_error *err);

/**
 * Between workers, which are borrowed.  Whom it cannot connect to rank 0 it tries again with the
 * next job: ranks may come later, and come back.
 *
 * @param staged  1 .. ENGINE_STAGED_MAX; every rank's G2 has so many blocks, rank 0's more
 * @return KVT_OK; KVT_INVALID; KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err engine_broadcast_fabric(struct engine_broadcast **out,
                                                   struct engine_worker *const *ranks,
                                                   uint32_t count, uint32_t staged,
                                                   struct kvt_error *err);

/**
 * The same, from G1 to G1 where all have rank 0's: it shares its memory once, and a job is well
 * when rank 0 is still there behind it.  A rank that refuses (no device, another machine, the
 * driver) is logged, and all go by the fabric until rank 0 is another process.
 *
 * @return as engine_broadcast_fabric(); that there are no devices is found out by the first job
 */
KVT_NODISCARD enum kvt_err engine_broadcast_ipc(struct engine_broadcast **out,
                                                struct engine_worker *const *ranks, uint32_t count,
                                                uint32_t staged, struct kvt_error *err);

/**
 * One of these two, logged with the reason: ipc where every rank has G1 on a device and shares it,
 * else fabric.  That ranks cannot have what rank 0 shares is found out by the first job.
 *
 * @param devices  false: fabric, whatever there is
 * @param wait_ms  for the answers of all ranks together; who has not answered has no device
 * @return as engine_broadcast_fabric()
 */
KVT_NODISCARD enum kvt_err engine_broadcast_choose(struct engine_broadcast **out,
                                                   struct engine_worker *const *ranks,
                                                   uint32_t count, uint32_t staged, bool devices,
                                                   uint64_t wait_ms, struct kvt_error *err);

#endif /* ENGINE_REPLICA_BROADCAST_H */
