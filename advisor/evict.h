/*
 * advisor/evict.h -- making room in RAM for what comes.
 *
 * Why: the index must never be full, for a block that does not come makes RAM useless.  Before
 * messages are taken, what was stored to longest ago is evicted (advisor/cold.h) while little is free;
 * and none are taken while the worst group might not fit.
 *
 * Places in G4 stay in RAM, and so do blocks that are there too, runs that more than
 * INDEX_COLDEST_PIECES holders have, and what others hang on.  Where nothing else is left, messages
 * are taken all the same: once one does not fit, questions are answered from the store.
 *
 * Ownership: borrows memory, names and cold.
 * Threads:   the engine's thread.
 * Limits:    ADVISOR_EVICT_PAIRS a group.
 */
#ifndef ADVISOR_EVICT_H
#define ADVISOR_EVICT_H

#include "advisor/cold.h"
#include "advisor/memory.h"

#define ADVISOR_EVICT_PAIRS 16384u /* (block, holder), about, in a group */

/* What the worst group takes, of blocks that come alone; of a small index, a sixteenth.  As much is
 * always free; it begins below twice as much, and ends at three times. */
#define ADVISOR_EVICT_HEADROOM (ADVISOR_GROUP_OPS_MAX * UINT64_C(256))

struct advisor_evict;

KVT_NODISCARD enum kvt_err advisor_evict_new(struct advisor_evict **out,
                                             struct advisor_memory *memory);
void advisor_evict_free(struct advisor_evict *evict);

/**
 * Before the group whose log this is takes anything (asserted); nothing while the memory is not
 * whole.
 *
 * @return false: take no messages into this group
 */
bool advisor_evict_step(struct advisor_evict *evict, struct advisor_log *log);

#endif /* ADVISOR_EVICT_H */
