/*
 * advisor/index/evicted.h -- places of workers that do not fit in RAM: in the store alone.
 *
 * Why: RAM is bounded, and no answer may be wrong for it.  The runs that were stored to longest ago
 * are evicted: REMOVE in the log, and a row a block here, in one transaction.  A filter in RAM says
 * whether a hash may be here, so that questions about what is in RAM never touch the disk; the
 * others merge both: a place is held where RAM or a row says so.
 *
 * What is evicted comes first in its group.  Behind it, the group's REMOVEs take shards from rows
 * too, and a DROP is written down (advisor/store/evicted_rows.h); the places that are void by it
 * leave when their row is next written, or when a pass comes by.  A STORE of a block that is here
 * changes nothing here; one that says another parent or position collides: it is left out of the
 * log.
 *
 * Asking beside the engine: first RAM, then advisor_evicted_may_have(), then begin the transaction
 * that advisor_evicted_get() reads in.  In another order a block that is being evicted is in
 * neither.
 *
 * Ownership: owns its filter, and what waits to be written; the store's tables `cold` and
 *            `cold_drops`.
 * Threads:   advisor_evicted_count() and _may_have() on any thread; _get() and _blocks() on any,
 *            in a read transaction; all else on the engine's.
 * Limits:    four bytes of RAM a block here, 5 to 11 with the room to grow, at most what
 *            advisor_evicted_new() is given: beyond it every hash may be here, until the next
 *            start.
 */
#ifndef ADVISOR_INDEX_EVICTED_H
#define ADVISOR_INDEX_EVICTED_H

#include "advisor/store/durable_store.h"
#include "advisor/store/event_log.h"

#define ADVISOR_EVICTED_PASS_ROWS 16384 /* rows a commit looks at for void places */

struct advisor_evicted;

/** @param filter_bytes_max  of the filter; while it grows, half as much again is in use */
KVT_NODISCARD enum kvt_err advisor_evicted_new(struct advisor_evicted **out,
                                               uint64_t filter_bytes_max);
void advisor_evicted_free(struct advisor_evicted *evicted);
/** Tests: look at fewer rows a commit. */
void advisor_evicted_pass_rows(struct advisor_evicted *evicted, size_t rows);
/** Go through all rows, once, at the start.  `cancel` may be set by anybody meanwhile, or be NULL:
 *  it stops at the next page with KVT_CANCELLED. */
KVT_NODISCARD enum kvt_err advisor_evicted_load(struct advisor_evicted *evicted,
                                                const struct advisor_txn *txn,
                                                const _Atomic bool *cancel);
/** Instead: nothing that is here counts (the log is not durable).  At the start. */
KVT_NODISCARD enum kvt_err advisor_evicted_discard(const struct advisor_txn *txn);

/** Blocks that are here; 0 costs questions nothing. */
uint64_t advisor_evicted_count(const struct advisor_evicted *evicted);
/** False: it is not here. */
bool advisor_evicted_may_have(struct advisor_evicted *evicted, uint32_t ns, uint64_t hash);
/** The same of several: `may[i]` of each, and whether any is true. */
bool advisor_evicted_may_have_any(struct advisor_evicted *evicted, uint32_t ns,
                                  const uint64_t *hashes, size_t count, bool *may);

/**
 * Add the places that are here to `block`: as advisor_store_get_block(), this or
 * advisor_store_lookup() left it, or with hash and namespace only.
 *
 * @return KVT_OK, KVT_NOTFOUND (nothing is here; unchanged), or what the store says
 */
KVT_NODISCARD enum kvt_err advisor_evicted_get(const struct advisor_txn *txn, uint32_t ns,
                                               uint64_t hash, struct advisor_store_block *block);
/** All that is here, as advisor_store_blocks(): statistics are 0. */
KVT_NODISCARD enum kvt_err advisor_evicted_blocks(const struct advisor_txn *txn, uint64_t from,
                                                  size_t max, uint64_t *next,
                                                  advisor_store_block_fn *callback, void *arg);

/**
 * Evict blocks with the next group, whose log is `log`: nothing else may be in it yet (asserted).
 * The numbers in `run` are the store's.
 *
 * @return KVT_OK or KVT_NOMEM: some of the run's holders may be evicted then, each as a whole
 */
KVT_NODISCARD enum kvt_err advisor_evicted_evict(struct advisor_evicted *evicted,
                                                 struct advisor_event_log *log,
                                                 const struct index_run_view *run);

/**
 * What the group's log says goes from here too, and what was evicted comes; before the log is
 * appended to the store, for what collides leaves it.  May be repeated until it is saved.
 */
KVT_NODISCARD enum kvt_err advisor_evicted_write(struct advisor_evicted *evicted,
                                                 const struct advisor_txn *txn,
                                                 struct advisor_event_log *log);
/** What was written last is committed. */
void advisor_evicted_saved(struct advisor_evicted *evicted);

/** Does a holder have places here, void ones included?  Then its number stays its own. */
bool advisor_evicted_holds(const struct advisor_evicted *evicted, uint32_t holder);
/** Stores of the last group that collided. */
uint32_t advisor_evicted_collisions(const struct advisor_evicted *evicted);

#endif /* ADVISOR_INDEX_EVICTED_H */
