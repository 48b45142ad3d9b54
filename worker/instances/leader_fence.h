/*
 * worker/instances/leader_fence.h -- locks in the object tier as a leader of the engine wants them.
 *
 * Why: the engine knows no S3, and worker/object/store_lock.h no engine.
 * Ownership: the fence is borrowed, and outlives the leader.
 * Threads:   as worker/object/store_lock.h.
 * Limits:    none.
 */
#ifndef WORKER_INSTANCES_LEADER_FENCE_H
#define WORKER_INSTANCES_LEADER_FENCE_H

#include "engine/leader/leader.h"
#include "worker/object/store_lock.h"

static inline enum kvt_err
kvbm_instance_acquire(void *arg, uint32_t part, struct engine_lease *lease)
{
    struct kvbm_fence_lease taken;
    const enum kvt_err rc = kvbm_fence_acquire(arg, part, &taken);

    *lease = (struct engine_lease){.token = taken.token, .stop_ms = taken.stop_ms};
    return rc;
}

static inline enum kvt_err
kvbm_instance_release(void *arg, uint32_t part, const struct engine_lease *lease)
{
    return kvbm_fence_release(
        arg, part, &(struct kvbm_fence_lease){.token = lease->token, .stop_ms = lease->stop_ms});
}

static inline struct engine_fence
kvbm_instance_fence(struct kvbm_fence *fence)
{
    return (struct engine_fence){.parts = KVBM_FENCE_PARTS,
                                 .acquire = kvbm_instance_acquire,
                                 .release = kvbm_instance_release,
                                 .arg = fence};
}

#endif /* WORKER_INSTANCES_LEADER_FENCE_H */
