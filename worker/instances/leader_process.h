/*
 * worker/instances/leader_process.h -- the leader of one instance, as a process: it serves
 * requests.
 *
 * Why: leader (engine/leader/leader.h), connector and scheduler of an instance are one process
 * beside its ranks; who reads the trace asks it, and other leaders do.
 *
 * Calls of the supervisor, in words (worker/instances/instance_message.h):
 *   serve   the trace's ids of a request's blocks  -> figures, when it has ended
 *   peer    an instance's number and life          -> nothing; from now on it is asked
 *   status  nothing                                -> figures (worker/instances/instance_stats.h)
 *
 * A rank that dies ends the process: what the instance had in memory is of no use without that
 * rank's shards.  Who started it starts all of it again.
 *
 * Ownership: everything lives within worker_leader_run().
 * Threads:   the scheduler's, and those of engine/leader/leader.h and engine/rpc/rpc.h.
 * Limits:    as worker/instances/scheduler.h.
 */
#ifndef WORKER_INSTANCES_LEADER_PROCESS_H
#define WORKER_INSTANCES_LEADER_PROCESS_H

#include "worker/instances/instance_plan.h"

/* What the supervisor asks a leader, in words (worker/instances/instance_message.h):
 *   SERVE    a count, the ids of a request's blocks; answered with figures once it has ended
 *   PEER     an instance, its life
 *   STATUS   nothing; answered with figures
 *   FIND     a count, ids; answered with how long a prefix the instance has, in G2 or G3, in G2
 *            alone, in G3 alone, then each block's name */
enum worker_supervisor_method {
    WORKER_SUPERVISOR_SERVE = 1,
    WORKER_SUPERVISOR_PEER,
    WORKER_SUPERVISOR_STATUS,
    WORKER_SUPERVISOR_FIND,
};

/** Until told to stop, or a rank is gone (KVT_UNAVAILABLE). */
KVT_NODISCARD enum kvt_err worker_leader_run(const struct worker_instance_plan *plan,
                                             struct kvt_error *err);

#endif /* WORKER_INSTANCES_LEADER_PROCESS_H */
