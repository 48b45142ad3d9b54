/*
 * tests/gpu/gpu_ranks.h -- ranks with G1 on a device, each a process, as a broadcast knows them.
 *
 * Why: engine/replica/broadcast.h is tried with real devices, and needs no more of a rank than its
 * table: it shares its G1, has another's, and copies out of it.  So there are neither rpc nor
 * fabric here; what would go by the fabric fails.
 *
 * Ownership: ranks belong to who opened them.
 * Threads:   a job has a thread of its own; everything else is one thread's, between jobs.
 * Limits:    GPU_RANKS_MAX ranks; one job at a time; GPU_RANK_WAIT_S for an answer.
 */
#ifndef TESTS_GPU_GPU_RANKS_H
#define TESTS_GPU_GPU_RANKS_H

#include <pthread.h>
#include <sys/types.h>

#include "engine/replica/broadcast.h"
#include "tests/gpu/gpu_check.h"

#define GPU_RANKS_MAX   4
#define GPU_RANK_BLOCKS 64
#define GPU_RANK_WAIT_S 60
#define GPU_RANK_END_MS 10000

struct gpu_rank {
    struct engine_worker head;
    struct engine_job *job; /* that goes on, or went on last */
    pthread_t thread;       /* of that */
    bool has_thread;
    pid_t process; /* 0: none */
    int socket;
};

/** The blocks of each rank: contiguous, of 1 MiB. */
struct kvbm_layout gpu_rank_layout(void);

/** A process of its own with G1 on that device; on failure, too, it is to be closed. */
bool gpu_rank_open(struct gpu_rank *rank, uint32_t device, const char *library);
/** It ends, or is killed after GPU_RANK_END_MS. */
void gpu_rank_close(struct gpu_rank *rank);
void gpu_rank_kill(struct gpu_rank *rank);

/** Give all of its blocks the bytes that belong to `content`. */
bool gpu_rank_fill(struct gpu_rank *rank, uint64_t content);

/** How many bytes are others; all, where it does not answer. */
uint64_t gpu_rank_wrong(struct gpu_rank *rank, uint64_t content);

/** What such a process does: answer on standard input, until that ends. */
bool gpu_rank_main(struct kvbm_cuda *cuda);

#endif /* TESTS_GPU_GPU_RANKS_H */
