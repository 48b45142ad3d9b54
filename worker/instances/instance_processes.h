/*
 * worker/instances/instance_processes.h -- the processes of one instance, from their start to
 * their end.
 *
 * Why: leader and ranks are one program started again with one argument more; an instance lives as
 * long as all of them do.
 *
 * Ownership: a life's processes are its caller's children; they end with it, however it ends.
 * Threads:   one.
 * Limits:    the command line of this process, WORKER_PROCESSES_ARGUMENTS arguments.
 */
#ifndef WORKER_INSTANCES_INSTANCE_PROCESSES_H
#define WORKER_INSTANCES_INSTANCE_PROCESSES_H

#include <stddef.h>
#include <sys/types.h>

#include "worker/instances/instance_plan.h"

#define WORKER_PROCESSES_ARGUMENTS 128

struct worker_processes {
    const struct worker_instance_plan *plan;
    uint32_t instance;
    uint64_t number; /* 0: not alive */
    pid_t leader;    /* 0: none */
    pid_t ranks[WORKER_INSTANCE_RANKS_MAX];
    bool gave_up; /* over because one of them failed by itself; none was killed */
};

/** Start all processes under a new number.  On failure none is left. */
KVT_NODISCARD enum kvt_err worker_processes_start(struct worker_processes *life,
                                                  struct kvt_error *err);

/** Has one of its processes ended?  Says which, in the log. */
bool worker_processes_is_over(struct worker_processes *life);

/** Ask the processes of all these to end, and wait for that, `wait_ms` in all: leaders first, who
 *  tell their ranks what is over.  A leader that takes three quarters of it is killed; ranks that
 *  take the rest are left to worker_processes_end(). */
void worker_processes_ask(struct worker_processes *const *lives, size_t count, uint64_t wait_ms);

/** Kill what is left. */
void worker_processes_end(struct worker_processes *life);

#endif /* WORKER_INSTANCES_INSTANCE_PROCESSES_H */
