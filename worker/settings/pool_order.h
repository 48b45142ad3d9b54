/*
 * worker/settings/pool_order.h -- which block of a worker's tiers, and of its engines, goes first,
 * as a setting says.
 *
 * Why: a pool has orders of its own and takes any kvtier/ordering.h; an operator names one.
 *
 *   lru, priority, lineage   the pool's own (kvbm/pool/eviction.h)
 *   rhi, s3fifo, ...         an ordering of KVTier's, as policies call it
 *   a path (with a slash)    a shared object with an ordering
 *
 * Ownership: an order that was opened is closed after every pool that has it.
 * Threads:   opening and closing are one thread's; an ordering's states are the pools'.
 * Limits:    a shared object is code of the worker: it can do whatever the worker can.
 */
#ifndef WORKER_SETTINGS_POOL_ORDER_H
#define WORKER_SETTINGS_POOL_ORDER_H

#include "kvtier/error.h"
#include "kvtier/kvbm.h"
#include "kvtier/ordering.h"

struct policy_plugin;

/* All zero: lru. */
struct worker_pool_order {
    enum kvt_pool_order order;
    const struct kvt_ordering *ordering; /* KVT_POOL_ORDER_ORDERING */
    struct policy_plugin *plugin;
};

/* What an ordering of a worker's pool is told: the usual prices. */
extern const struct kvt_ordering_options worker_pool_order_options;

/** KVT_OK, KVT_NOTFOUND (no such name, or nothing at the path), KVT_UNSUPPORTED (an object made for
 *  another version) or KVT_NOMEM, with *order zero. */
KVT_NODISCARD enum kvt_err worker_pool_order_open(struct worker_pool_order *order, const char *name,
                                                  struct kvt_error *err);

/** One that is zero is allowed. */
void worker_pool_order_close(struct worker_pool_order *order);

#endif /* WORKER_SETTINGS_POOL_ORDER_H */
