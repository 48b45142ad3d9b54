/*
 * g4/packed/packed_store.h -- a store whose packed namespaces read as if every block were an
 * object.
 *
 * Why: where a block lies is nobody's business but the packer's.  This stacks on a store of a
 * bucket and keeps, in one place, what a gateway does in a packed namespace: GET and HEAD find a
 * block in its segment, a listing has it once, a PUT meets it, and a deletion takes it out of the
 * manifest before it is acknowledged.  Keys of other namespaces pass through untouched; segments
 * and manifests are nobody's objects.
 *
 * GET, HEAD  the loaded manifest; a packed block from its segment; NOTFOUND there: load the newest
 *            and try again.  Not packed, or damaged: the object; not there: the newest once more.
 * PUT If-None-Match   the newest; packed is EXISTS; else PUT.  Pending: look again after it.
 * other PUT  the newest; PUT (If-None-Match where If-Match names a packed block); the newest.  If
 *            it then has the block with other bytes: take the lock, put the object again if it is
 *            missing, take the entry that was seen out of the manifest.  Four rounds at most.
 * DELETE     the object; the newest; if it has the block: take the lock, g4_compaction_retire().
 *            With If-Match only the block seen with that ETag is retired; another one there under
 *            the lock is PRECONDITION.  Many deletions that wait are one commit, and a packer is
 *            asked to stop when a deletion has waited for five seconds.
 * LIST       the bucket's page, then the newest manifest, merged.
 *
 * Known gap: a PUT If-None-Match that believes a manifest of the last second does not look again
 * after it.  If its block was packed in that second, other bytes get OK instead of 412; the packed
 * ones are read until a pass drops the entry.  Gateways ask for a block they have a row of first.
 *
 * How old may what is read be?  A manifest that was looked for less than G4_PACKED_STORE_FRESH_MS
 * ago is believed; so what another process deletes may be read that much longer.  Nothing is said
 * to be absent, listed, or overwritten before the newest manifest was looked for.
 *
 * Ownership: takes over the store below when opening succeeds, and closes it.
 * Threads:   any; two of its own: one looks for manifests, for all that wait at once, and one takes
 *            blocks out of them.
 * Limits:    G4_PACKED_STORE_SPACES namespaces; G4_PACKED_STORE_CALLS requests that wait for
 *            something, beyond them submit answers KVT_AGAIN.  A deletion of a packed block waits
 *            G4_PACKED_STORE_PATIENCE_MS at most for whoever packs, then it is KVT_AGAIN.
 */
#ifndef G4_PACKED_PACKED_STORE_H
#define G4_PACKED_PACKED_STORE_H

#include <stdbool.h>
#include <stddef.h>

#include "g4/lock/selftest.h"
#include "g4/object/g4_store.h"
#include "g4/packed/compaction.h"
#include "g4/packed/packed.h"
#include "kvtier/error.h"

#define G4_PACKED_STORE_SPACES      32
#define G4_PACKED_STORE_CALLS       4096
#define G4_PACKED_STORE_FRESH_MS    1000
#define G4_PACKED_STORE_PATIENCE_MS 15000
#define G4_PACKED_STORE_LEASE_MS    30000 /* of the lock of a namespace */

struct g4_packed_store_options {
    const char *namespaces; /* "a,b/c": none twice, none empty; copied */
    const char *instance;   /* who we are, in locks and segments; nobody else's name; copied */
    bool alone;             /* nobody else uses this store: no locks are needed */
    /* 0 = G4_PACKED_STORE_FRESH_MS, G4_PACKED_STORE_PATIENCE_MS */
    uint64_t fresh_ms;
    uint64_t patience_ms;
};

/** KVT_OK; KVT_INVALID: the namespaces, and why; KVT_FULL: too many of them; KVT_NOMEM. */
KVT_NODISCARD enum kvt_err g4_packed_store_open(struct g4_store **out, struct g4_store *inner,
                                                const struct g4_packed_store_options *options,
                                                struct kvt_error *err);

/** What the store below was seen to do with conditions (g4_selftest_locks()).  Before that, and
 *  where locks are not safe, nothing is packed and no packed block is deleted. */
void g4_packed_store_prove(struct g4_store *store, const struct g4_selftest *proved);

/** How many namespaces, and which: NULL behind the last. */
size_t g4_packed_store_count(struct g4_store *store);
const char *g4_packed_store_name(struct g4_store *store, size_t index);

/** What its newest manifest says; looks for it when that was not done for seconds.  On failure
 *  `totals` are those of the manifest that is loaded. */
KVT_NODISCARD enum kvt_err g4_packed_store_totals(struct g4_store *store, size_t index,
                                                  struct g4_packed_totals *totals,
                                                  struct kvt_error *err);

/**
 * Pack: one run of g4/packed/compaction.h under the namespace's lock.
 *
 * @param[out] report  what was done, also on failure
 * @return as g4_compaction_run(); KVT_BUSY also: somebody else packs it; KVT_CANCELLED: a deletion
 *         waited, or the store is to be closed; KVT_UNSUPPORTED: no locks here
 */
KVT_NODISCARD enum kvt_err g4_packed_store_compact(struct g4_store *store, size_t index,
                                                   const struct g4_compaction_settings *settings,
                                                   struct g4_compaction_report *report,
                                                   struct kvt_error *err);

/** What g4_packed_store_compact() would do: g4_compaction_look(), without a lock. */
KVT_NODISCARD enum kvt_err g4_packed_store_look(struct g4_store *store, size_t index,
                                                const struct g4_compaction_settings *settings,
                                                struct g4_compaction_outlook *outlook,
                                                struct kvt_error *err);

/** What the packer's folder of a namespace has: g4_compaction_remains(). */
KVT_NODISCARD enum kvt_err g4_packed_store_remains(struct g4_store *store, size_t index,
                                                   struct g4_compaction_remains *remains,
                                                   struct kvt_error *err);

/** Forget every packed block of a namespace, with segments and manifests: g4_compaction_clear()
 *  under the namespace's lock.  Errors as g4_packed_store_compact(). */
KVT_NODISCARD enum kvt_err g4_packed_store_clear(struct g4_store *store, size_t index,
                                                 uint64_t *blocks, struct kvt_error *err);

/** End what packs at its next step; nothing is packed any more. */
void g4_packed_store_stop(struct g4_store *store);

#endif /* G4_PACKED_PACKED_STORE_H */
