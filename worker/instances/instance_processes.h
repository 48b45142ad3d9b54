/*
 * worker/instances/instance_processes.h -- the processes of one instance, from their start to
 * their end.
 *
 * Why: leader and ranks are one program started again with one argument more; an instance lives as
 * long as all of them do.
 *
 * Ownership: a life's processes are its caller's children; they end with it, however it ends.
 * Threads:   one.
 * Limits:    the command line of this process, KVBM_LIFE_ARGUMENTS arguments.
 */
#ifndef WORKER_INSTANCES_INSTANCE_PROCESSES_H
#define WORKER_INSTANCES_INSTANCE_PROCESSES_H

#include <stddef.h>
#include <sys/types.h>

#include "worker/instances/instance_plan.h"

#define KVBM_LIFE_ARGUMENTS 128

struct kvbm_life {
    const struct kvbm_plan *plan;
    uint32_t instance;
    uint64_t number; /* 0: not alive */
    pid_t leader;    /* 0: none */
    pid_t ranks[KVBM_INSTANCE_RANKS_MAX];
    bool gave_up; /* kvbm_life_is_over() because of one that failed, and had its say; none killed */
};

/** Start all processes under a new number.  On failure none is left. */
KVT_NODISCARD enum kvt_err kvbm_life_start(struct kvbm_life *life, struct kvt_error *err);

/** Has one of its processes ended?  Says which, in the log. */
bool kvbm_life_is_over(struct kvbm_life *life);

/** Ask the processes of all these to end, and wait for that, `wait_ms` in all: leaders first, who
 *  tell their ranks what is over.  A leader that takes three quarters of it is killed; ranks that
 *  take the rest are left to kvbm_life_end(). */
void kvbm_lives_ask(struct kvbm_life *const *lives, size_t count, uint64_t wait_ms);

/** Kill what is left. */
void kvbm_life_end(struct kvbm_life *life);

#endif /* WORKER_INSTANCES_INSTANCE_PROCESSES_H */
