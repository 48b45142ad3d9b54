/*
 * worker/replay/tier_stack.h -- the tiers of one logical worker, put together.
 *
 * Why: pools, storages, ledger and manager only make sense in one order of building and one of
 * taking down; this is the place that knows it.
 *
 * Ownership: a stack owns its parts.  Transfer manager, remote, bus, driver and settings are shared
 *            and outlive it.
 * Threads:   the parts are thread-safe; opening and closing are for one thread.
 * Limits:    as the settings say.
 */
#ifndef WORKER_REPLAY_TIER_STACK_H
#define WORKER_REPLAY_TIER_STACK_H

#include "kvbm/cuda/cuda_driver.h"
#include "kvbm/offload/manager.h"
#include "kvbm/offload/tier_cost.h"

#include "worker/object/object_tier.h"
#include "worker/replay/ledger.h"
#include "worker/replay/worker_counters.h"
#include "worker/settings/pool_order.h"
#include "worker/settings/worker_settings.h"

/* What all logical workers of a process share. */
struct worker_shared {
    const struct worker_settings *settings;
    struct kvbm_transfer *transfer;
    struct worker_object_tier *remote; /* NULL: no object tier */
    struct kvbm_cuda *cuda;            /* NULL: G1 is host memory */
    struct wire_bus *bus;              /* NULL: nothing is published */
    struct kvbm_cost *cost;            /* NULL: whatever is there is taken */
    struct worker_pool_order order;    /* of every tier */
};

struct worker_stack {
    const struct worker_shared *shared;
    char name[KVT_NAME_MAX];
    struct worker_counters counters;
    struct worker_ledger ledger;
    struct kvbm_tier g1;
    struct kvbm_tier g2;
    struct kvbm_tier g3;
    struct kvbm_volumes *volumes; /* the object tier, once for each direction; NULL: none */
    struct kvbm_manager *manager; /* of what moves between the tiers */
    struct kvbm_storage
        *scratch;      /* WORKER_STACK_CHUNK blocks of host memory, for the request path */
    uint32_t chunk;    /* blocks a request computes at once, ... */
    uint32_t take_max; /* ... and asks the lower tiers for at once */
};

#define WORKER_STACK_CHUNK 32
#define WORKER_STACK_TAKE  512

KVT_NODISCARD enum kvt_err worker_stack_open(struct worker_stack **out,
                                             const struct worker_shared *shared, uint32_t number,
                                             struct kvt_error *err);

/** NULL is allowed.  Stops the offload manager, says good-bye on the bus, frees the rest. */
void worker_stack_close(struct worker_stack *stack);

#endif /* WORKER_REPLAY_TIER_STACK_H */
