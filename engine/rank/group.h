/*
 * engine/rank/group.h -- all ranks of an instance as one worker (SPMD).
 *
 * Why: every rank does the same job to its own shard of the same blocks.  All are started before
 * any is waited for, every error is reported, and a job has ended when its last rank has: a rank
 * that fails leaves none running behind.  A rank that cannot even begin ends like one that failed.
 *
 * A block is well only when it is with all ranks.  What one rank could not do makes the item of all
 * fail; what the others did is overwritten or forgotten by whoever uses that block next.
 *
 * A start that every rank refuses alike (KVT_AGAIN, say) is refused: nothing was done.  A peer is
 * connected to all ranks or to none.  Each rank has items of its own while a job goes on.
 *
 * Ownership: a group owns its ranks, and closes them.
 * Threads:   as engine/rank/worker.h; no thread of its own.
 * Limits:    1 <= ranks <= KVT_RANKS_MAX, number r of tp_size ranks at place r, one layout
 *            (KVT_INVALID); ENGINE_JOBS_MAX jobs at once (KVT_AGAIN).  As many blocks of a tier as
 *            the rank with the fewest.
 */
#ifndef ENGINE_RANK_GROUP_H
#define ENGINE_RANK_GROUP_H

#include "engine/rank/worker.h"

/** The ranks are the group's on KVT_OK, else still the caller's. */
KVT_NODISCARD enum kvt_err engine_group_open(struct engine_worker **out,
                                             struct engine_worker *const *ranks, uint32_t count,
                                             struct kvt_error *err);

#endif /* ENGINE_RANK_GROUP_H */
