/*
 * worker/instances/leader_fence.h -- locks in the object tier as a leader of the engine wants them.
 *
 * Why: the engine knows no S3, and worker/object/store_lock.h no engine.
 * Ownership: the fence is borrowed, and outlives the leader.
 * Threads:   as worker/object/store_lock.h.
 */
#ifndef WORKER_INSTANCES_LEADER_FENCE_H
#define WORKER_INSTANCES_LEADER_FENCE_H

#include "engine/leader/leader.h"
#include "worker/object/store_lock.h"

static inline enum kvt_err
worker_leader_fence_acquire(void *arg, uint32_t part, struct engine_lease *lease)
{
    struct worker_store_lock_lease taken;
    const enum kvt_err rc = worker_store_lock_acquire(arg, part, &taken);

    *lease = (struct engine_lease){.token = taken.token, .stop_ms = taken.stop_ms};
    return rc;
}

static inline enum kvt_err
worker_leader_fence_release(void *arg, uint32_t part, const struct engine_lease *lease)
{
    return worker_store_lock_release(
        arg, part,
        &(struct worker_store_lock_lease){.token = lease->token, .stop_ms = lease->stop_ms});
}

static inline struct engine_fence
worker_leader_fence(struct worker_store_lock *fence)
{
    return (struct engine_fence){.parts = WORKER_STORE_LOCK_PARTS,
                                 .acquire = worker_leader_fence_acquire,
                                 .release = worker_leader_fence_release,
                                 .arg = fence};
}

#endif /* WORKER_INSTANCES_LEADER_FENCE_H */
