/*
 * advisor/index/index_load.h -- RAM from the store.
 *
 * Why: a restart reads the log as it lies, the snapshot's runs and then the changes, and gives them
 * to the index as events are given: that is the fastest way in.  Rows of G4 blocks follow.
 *
 * Ownership: borrows memory and store.
 * Threads:   the engine's thread; the progress may be read by any.
 * Limits:    the index's own, a third more where blocks are evicted, which then happens next; 16
 *            bytes a G4 block while it lasts.
 */
#ifndef ADVISOR_INDEX_INDEX_LOAD_H
#define ADVISOR_INDEX_INDEX_LOAD_H

#include <stdatomic.h>

#include "advisor/index/ram_index.h"
#include "advisor/store/durable_store.h"

/* How far it is. */
struct advisor_index_load_progress {
    _Atomic uint64_t bytes_done; /* of the log */
    _Atomic uint64_t bytes_total;
    _Atomic uint64_t blocks; /* given to the index: one a (block, holder) */
    _Atomic bool cancel;     /* set by anybody: stop at the next page with KVT_CANCELLED */
};

/** Fill an index that is empty.  `progress` may be NULL.  KVT_FULL, as soon as it shows: it does
 *  not fit into a memory that nobody is answered from (`quiet`). */
KVT_NODISCARD enum kvt_err advisor_index_load(struct advisor_ram_index *memory,
                                              const struct advisor_txn *txn,
                                              struct advisor_index_load_progress *progress,
                                              struct kvt_error *err);
/** The same, reading the log `parts` times, each time the changes of some of the holders: what went
 *  again in the end takes room for a part of them only. */
KVT_NODISCARD enum kvt_err advisor_index_load_parts(struct advisor_ram_index *memory,
                                                    const struct advisor_txn *txn, uint32_t parts,
                                                    struct advisor_index_load_progress *progress,
                                                    struct kvt_error *err);

#endif /* ADVISOR_INDEX_INDEX_LOAD_H */
