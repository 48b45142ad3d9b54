/*
 * tests/gpu/gpu_check.h -- the parts of the GPU check.
 *
 * Why: first that every byte arrives, then how fast; all on one driver.
 * Ownership: the bench of storages belongs to whoever opened it.
 * Threads:   main thread.
 */
#ifndef TESTS_GPU_GPU_CHECK_H
#define TESTS_GPU_GPU_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvbm/cuda/cuda_driver.h"
#include "kvbm/cuda/cuda_memory.h"
#include "kvbm/storage/tier_storage.h"
#include "kvbm/transfer/transfer_manager.h"

/* Pinned and device memory of the same shape, and what copies between them. */
struct gpu_pair {
    struct kvbm_storage *pinned;
    struct kvbm_storage *device;
    struct kvbm_transfer *transfer;
    uint32_t blocks;
    size_t size;
};

KVT_NODISCARD enum kvt_err gpu_pair_open(struct gpu_pair *pair, struct kvbm_cuda *cuda,
                                         uint32_t blocks, size_t size, struct kvt_error *err);
void gpu_pair_close(struct gpu_pair *pair);

#define GPU_RUNS_MAX 32

/* One row: pairs that were measured right after each other. */
struct gpu_run {
    double ours[GPU_RUNS_MAX];
    double anchor[GPU_RUNS_MAX];
    double ratio[GPU_RUNS_MAX];
    unsigned count;
};

void gpu_run_add(struct gpu_run *run, double ours, double anchor);

/* What a row says of itself. */
struct gpu_row {
    const char *name;
    const char *what;
    const char *anchor_name;
    const char *unit;
    double goal; /* of the ratio; 0: none */
    double stretch;
    bool at_most; /* the goal is a ceiling */
};

/** Print the row.  False when something was not measured. */
bool gpu_run_print(const struct gpu_run *run, const struct gpu_row *row);

/** Blocks [first, first + count) over a path through the transfer manager, two tickets at once. */
bool gpu_move_blocks(struct gpu_pair *pair, enum kvt_path path, uint32_t first, uint32_t count);

/** Small fragments against the driver's batched call; true, with a word on stderr, where there are
 *  no kernels or no such call. */
bool gpu_fragments(struct kvbm_cuda *cuda, unsigned runs, bool quick);

/** To and from memory that others share, which the driver pins. */
bool gpu_pin(struct kvbm_cuda *cuda, unsigned runs);

/** What blocks that leave the device cost a kernel that computes. */
bool gpu_overlap(struct kvbm_cuda *cuda, size_t total, unsigned runs, bool quick);

/** Device memory in two processes; the second is this program with --other, which gpu_share_other()
 *  is. */
bool gpu_share(struct kvbm_cuda *cuda, const char *library);
bool gpu_share_other(struct kvbm_cuda *cuda);

/** Give all blocks of `device` the bytes that belong to `content`, by way of the pair's pinned
 *  memory, and count how many others they have. */
bool gpu_put(struct gpu_pair *pair, struct kvbm_storage *device, uint64_t content);
uint64_t gpu_wrong_bytes(struct gpu_pair *pair, struct kvbm_storage *device, uint64_t content);

/** How many devices there are, at most as many as there are ranks. */
uint32_t gpu_cast_devices(const char *library);

/** Blocks of one process's device for those of others (tests/gpu/gpu_ranks.h): on one device, and,
 *  where there are more, each on its own; a word on stderr where these do not reach each other. */
bool gpu_cast_ipc(const char *name, const char *library, uint32_t devices);

/** Blocks of one device for the others by NCCL; true, with a word on stderr, where there is one
 *  device, or no NCCL. */
bool gpu_cast_nccl(const char *library, const char *nccl, uint32_t devices);

/** Measure and print one JSON object a line; false when something could not be measured. */
bool gpu_speed(struct kvbm_cuda *cuda, size_t total, unsigned runs, const char *name);

#endif /* TESTS_GPU_GPU_CHECK_H */
