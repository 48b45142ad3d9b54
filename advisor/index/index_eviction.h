/*
 * advisor/index/index_eviction.h -- making room in RAM for what comes.
 *
 * Why: the index must never be full, for a block that does not come makes RAM useless.  Before
 * messages are taken, what was stored to longest ago is evicted (advisor/index/evicted.h) while
 * little is free; and none are taken while the worst group might not fit.
 *
 * Places in G4 stay in RAM, and so do blocks that are there too, runs that more than
 * INDEX_COLDEST_PIECES holders have, and what others hang on.  Where nothing else is left, messages
 * are taken all the same: once one does not fit, questions are answered from the store.
 *
 * Ownership: borrows memory, names and cold.
 * Threads:   the engine's thread.
 * Limits:    ADVISOR_INDEX_EVICTION_PAIRS a group.
 */
#ifndef ADVISOR_INDEX_INDEX_EVICTION_H
#define ADVISOR_INDEX_INDEX_EVICTION_H

#include "advisor/index/evicted.h"
#include "advisor/index/ram_index.h"

/* (block, holder), about, in a group: many, for the more rows are written together, the more of
 * them share a page of the store. */
#define ADVISOR_INDEX_EVICTION_PAIRS (ADVISOR_CHANGE_GROUP_OPS_MAX / 4 * 3)

#define ADVISOR_INDEX_EVICTION_CHANGE 256u /* bytes a block that comes alone may take */

/* What the worst group takes; of a small index, a sixteenth.  As much is always free; it begins
 * below twice as much, and ends at three times. */
#define ADVISOR_INDEX_EVICTION_HEADROOM                                                            \
    (UINT64_C(1) * ADVISOR_CHANGE_GROUP_OPS_MAX * ADVISOR_INDEX_EVICTION_CHANGE)

struct advisor_index_eviction;

KVT_NODISCARD enum kvt_err advisor_index_eviction_new(struct advisor_index_eviction **out,
                                                      struct advisor_ram_index *memory);
void advisor_index_eviction_free(struct advisor_index_eviction *evict);

/**
 * Before the group whose log this is takes anything (asserted); nothing while the memory is not
 * whole.
 *
 * @return false: take no messages into this group
 */
bool advisor_index_eviction_step(struct advisor_index_eviction *evict,
                                 struct advisor_event_log *log);
/** Changes with which this group is so full that more might not fit in RAM; at least one fits. */
size_t advisor_index_eviction_limit(const struct advisor_index_eviction *evict);

#endif /* ADVISOR_INDEX_INDEX_EVICTION_H */
