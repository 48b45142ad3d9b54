/*
 * g4/lock/lock.h -- a lock in a bucket: one holder at a time, for as long as its lease.
 *
 * Why: batches, compaction and garbage collection must not run twice at once, and S3 is all that
 * two gateways share.  The protocol is g4/lock/lease.h; this is the protocol with a store and
 * clocks. Blocks need no lock: If-None-Match on the block itself decides.
 *
 * What it does not promise: a process can sleep between its last look at the clock and its next
 * request.  What the lock protects must itself refuse an older epoch than it has seen; then a
 * sleeper does no harm.  Epochs grow from holder to holder while the lock object exists, and it
 * does: a release leaves a tombstone.  A reference KVBM leader deletes locks
 * without looking whose they are: in a fleet with such leaders only what is fenced is safe.
 *
 * Ownership: options are copied, the store is borrowed for the life of the lock.
 * Threads:   one owner; g4_lock_lost() from any thread.
 * Limits:    as g4/lock/lease.h.  The monotonic clock stands still while a machine is suspended:
 *            the epoch has to stop such a sleeper.
 */
#ifndef G4_LOCK_LOCK_H
#define G4_LOCK_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "g4/lock/lease.h"
#include "g4/lock/selftest.h"
#include "g4/object/g4_store.h"
#include "g4/object/kind.h"
#include "kvtier/error.h"

#define G4_LOCK_TTL_DEFAULT_MS 60000

struct g4_lock;

/* Time, so that tests can make it. */
struct g4_lock_clock {
    uint64_t (*mono_ms)(void *arg);
    uint64_t (*unix_ms)(void *arg);
    void *arg;
};

struct g4_lock_options {
    struct g4_store *store;
    const struct g4_selftest *proved; /* of this store, by g4_selftest_locks() */
    const char *name;                 /* what is locked; the object is <name>.lock */
    const char *instance;             /* who we are, for people and for KVBM */
    uint64_t ttl_ms;                  /* 0 = G4_LOCK_TTL_DEFAULT_MS */
    uint64_t epoch_min;               /* the largest epoch that what is locked has seen */
    const struct g4_lock_clock
        *clock; /* borrowed for the life of the lock; NULL = base/core/clock.h */
};

/**
 * Try once; it does not wait for the holder.
 *
 * @return KVT_OK, KVT_BUSY (held; `err` says by whom), KVT_UNSUPPORTED (the store was not proved
 *         safe for locks; `err` says why), KVT_TIMEOUT, or why the store could not be asked
 */
KVT_NODISCARD enum kvt_err
g4_lock_acquire(struct g4_lock **out, const struct g4_lock_options *options, struct kvt_error *err);

/** Due at g4_lock_renew_ms().  KVT_OK; KVT_PRECONDITION: lost, stop at once; else try again soon:
 *  the lease still lasts until g4_lock_lost(). */
KVT_NODISCARD enum kvt_err g4_lock_renew(struct g4_lock *lock, struct kvt_error *err);

/** Monotonic time of the next renewal; 0 when lost. */
uint64_t g4_lock_renew_ms(const struct g4_lock *lock);

/** Monotonic time at which work must have stopped; 0 when lost. */
uint64_t g4_lock_stop_ms(const struct g4_lock *lock);

/** Must work stop?  Ask before each effect. */
bool g4_lock_lost(const struct g4_lock *lock);

/** Larger than that of every holder before; goes with each effect. */
uint64_t g4_lock_epoch(const struct g4_lock *lock);

/** Gives the lock back if it is still ours, and frees it in any case.  NULL is allowed.
 *  KVT_OK, KVT_PRECONDITION (it was lost), or why it is not known: then the lease runs out. */
enum kvt_err g4_lock_release(struct g4_lock *lock, struct kvt_error *err);

/** As release, but it is kept: for g4_lock_retake(), or for g4_lock_release(), which then asks
 *  nobody. */
enum kvt_err g4_lock_rest(struct g4_lock *lock, struct kvt_error *err);

/** As acquire, of one that rests: a single request where nobody had it meanwhile.  It rests on,
 *  whatever else than KVT_OK this says. */
KVT_NODISCARD enum kvt_err g4_lock_retake(struct g4_lock *lock, struct kvt_error *err);

/** What the lock object `key` (with ".lock") says, by `deadline_ms` (monotonic; 0 = the store's
 *  default).  KVT_OK, also when it is malformed. */
KVT_NODISCARD enum kvt_err g4_lock_look(struct g4_store *store, const char *key,
                                        uint64_t deadline_ms, struct g4_lease_seen *seen,
                                        struct kvt_error *err);

/** Put a tombstone in place of what was seen, whoever holds it: its holder's next renewal fails.
 *  KVT_OK, KVT_PRECONDITION (it changed since it was seen), or why it could not be done. */
KVT_NODISCARD enum kvt_err g4_lock_break(struct g4_store *store, const char *key,
                                         const struct g4_lease_seen *seen, const char *instance,
                                         struct kvt_error *err);

#endif /* G4_LOCK_LOCK_H */
