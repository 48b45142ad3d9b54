/*
 * worker/object/store_lock.h -- who of several instances stores which blocks: locks in the object
 * tier.
 *
 * Why: instances that share a bucket compute the same prefixes at the same time, and would all
 * store them.  Blocks fall into WORKER_STORE_LOCK_PARTS parts, and each part has a lock object
 * beside the blocks (g4/lock/lock.h), "[<namespace>/]kvtier-stores/<part>.lock", which is taken
 * for some batches and given back: in the bucket itself or through the gateway, whichever the
 * settings name.
 *
 * First a thread asks the tier whether locks are safe there, under "kvtier-selftest/", which is a
 * hundred requests; until that is known every acquire is KVT_UNSUPPORTED.  Where they are not, it
 * stays so; where those keys are not ours to write, it is asked again every minute.  The log says
 * why once.  Nobody's blocks are at
 * risk meanwhile: the first writer wins, and blocks are stored twice at worst.
 *
 * The epoch of each lock is larger than any this process has had of that part, also when somebody
 * deleted the lock object meanwhile.
 *
 * Ownership: the store is borrowed, or made by worker_store_lock_open(); strings are copied.
 * Threads:   any; calls of one part at a time reach the tier, others are KVT_BUSY.  One of its own
 *            until it knows whether there are locks.
 * Limits:    a lease is not renewed: what is done under it ends before.  One request to take a lock
 *            that nobody had since, two when somebody had, three the first time; one to give it
 *            back.
 */
#ifndef WORKER_OBJECT_STORE_LOCK_H
#define WORKER_OBJECT_STORE_LOCK_H

#include <stdint.h>

#include "g4/lock/lock.h"

#include "worker/settings/worker_settings.h"

#define WORKER_STORE_LOCK_PARTS 8

struct worker_store_lock;

struct worker_store_lock_options {
    struct g4_store *store;
    const char *namespace_; /* "" is KVBM's */
    const char *instance;   /* who we are, in lock objects */
    uint64_t lease_ms;
    const struct g4_selftest *proved;  /* NULL: it asks by itself */
    const struct g4_lock_clock *clock; /* NULL: base/core/clock.h */
};

struct worker_store_lock_lease {
    uint64_t token;   /* the lock's epoch */
    uint64_t stop_ms; /* monotonic */
};

/** KVT_OK; KVT_RANGE (namespace, name); KVT_NOMEM, also for want of a thread. */
KVT_NODISCARD enum kvt_err worker_store_lock_new(struct worker_store_lock **out,
                                                 const struct worker_store_lock_options *options,
                                                 struct kvt_error *err);

/** The same over the object tier of the settings; nobody is asked yet.  `*out` is NULL, and KVT_OK
 *  returned, where there is none. */
KVT_NODISCARD enum kvt_err worker_store_lock_open(struct worker_store_lock **out,
                                                  const struct worker_settings *settings,
                                                  const char *instance, uint64_t lease_ms,
                                                  struct kvt_error *err);

/** Locks that are held are given back.  NULL is allowed. */
void worker_store_lock_close(struct worker_store_lock *fence);

/** Try once.  KVT_OK; KVT_BUSY (somebody else has it); KVT_UNSUPPORTED (no locks there, or not
 *  yet); else why the tier could not be asked. */
KVT_NODISCARD enum kvt_err worker_store_lock_acquire(struct worker_store_lock *fence, uint32_t part,
                                                     struct worker_store_lock_lease *lease);

/** Once for each lease.  KVT_OK; KVT_PRECONDITION (it was lost meanwhile, or this is not the lease
 *  that we have); else that it is not known: then it ends by itself. */
enum kvt_err worker_store_lock_release(struct worker_store_lock *fence, uint32_t part,
                                       const struct worker_store_lock_lease *lease);

#endif /* WORKER_OBJECT_STORE_LOCK_H */
