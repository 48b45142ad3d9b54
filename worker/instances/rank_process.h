/*
 * worker/instances/rank_process.h -- one rank of an instance, as a process of its own.
 *
 * Why: it has the memory, the disk and the keys of its shards, does what its leader says
 * (engine/rank/rank_client.h), and runs iterations of a model that computes nothing but knows what
 * every byte must be: a layer's loaded blocks are compared after they were waited for, its new
 * blocks are written and saved.
 *
 * A step (one iteration), asked by the scheduler in words (worker/instances/instance_message.h):
 *   question  loads, checks, computes (each a count, then block of G1 and name), meta; of ranks
 *             that hold the same there is none: the leader's hook moves their blocks
 *   answer    bytes that were wrong, blocks that were compared, what the hook heard
 * A block that the hook could not load is not compared: the scheduler computes it.
 *
 * Ownership: everything lives within worker_rank_run().
 * Threads:   steps run on one thread of their rpc server; jobs as engine/rank/rank.h.
 * Limits:    one step at a time.
 */
#ifndef WORKER_INSTANCES_RANK_PROCESS_H
#define WORKER_INSTANCES_RANK_PROCESS_H

#include "worker/instances/instance_plan.h"

enum worker_step_method {
    WORKER_STEP_RUN = 1,
    /* Nothing; answered with 1 where the object tier is away, and 1 where G1 is on a device. */
    WORKER_STEP_LOOK,
};

/** Until told to stop. */
KVT_NODISCARD enum kvt_err worker_rank_run(const struct worker_instance_plan *plan,
                                           struct kvt_error *err);

#endif /* WORKER_INSTANCES_RANK_PROCESS_H */
