/*
 * index/block/link.h -- parents and children of runs.
 *
 * Why: a run hangs on a block of another run, or, while that is not here, on its hash.
 *
 * Ownership: the index.
 * Threads:   under the index's lock.
 * Limits:    INDEX_ORPHANS_MAX runs without their parent.
 */
#ifndef INDEX_BLOCK_LINK_H
#define INDEX_BLOCK_LINK_H

#include "index/block/state.h"

/** Hang a run on the block `parent`, or, when it is not here (0), on its hash; the run's `parent`
 *  is set.  False: too many orphans, or no memory; only possible without `parent`. */
KVT_NODISCARD bool index_link_run(struct index *index, uint32_t first, uint32_t parent);
/** The opposite; returns the number of the parent, or 0. */
uint32_t index_link_cut(struct index *index, uint32_t first);
/** A block is here now: orphans of it become its children. */
void index_link_adopt(struct index *index, uint32_t ns, uint32_t number, uint64_t hash,
                      uint64_t mixed);
/** First blocks of the first run that hangs on a hash that is not here, or 0. */
uint32_t index_link_orphans(struct index *index, uint32_t ns, uint64_t hash);

#endif /* INDEX_BLOCK_LINK_H */
