/*
 * advisor/index/sweeper.h -- removing what a publisher no longer says of a holder in G4, step by
 * step.
 *
 * Why: others report the same holder, so only the rows of this publisher go, and there may be a
 * million of them; dropping them in one go would stop everything else.  A sweep is a row in the
 * store (publisher, holder, floor): it survives a crash and goes on afterwards.
 *
 * Ownership: the sweeper owns its list.
 * Threads:   none; the engine's thread.
 * Limits:    ADVISOR_SWEEP_ROWS looked at in a step.
 */
#ifndef ADVISOR_INDEX_SWEEPER_H
#define ADVISOR_INDEX_SWEEPER_H

#include "advisor/index/change_group.h"
#include "advisor/store/durable_store.h"

#define ADVISOR_SWEEP_ROWS 4096

struct advisor_sweeper;

KVT_NODISCARD enum kvt_err advisor_sweeper_new(struct advisor_sweeper **out);
void advisor_sweeper_free(struct advisor_sweeper *sweeper);

KVT_NODISCARD enum kvt_err advisor_sweeper_load(struct advisor_sweeper *sweeper,
                                                const struct advisor_txn *txn);
KVT_NODISCARD enum kvt_err advisor_sweeper_save(const struct advisor_sweeper *sweeper,
                                                const struct advisor_txn *txn);
void advisor_sweeper_saved(struct advisor_sweeper *sweeper);
bool advisor_sweeper_dirty(const struct advisor_sweeper *sweeper);

/** Remove the places of `row->holder` that `row->publisher` stored below `row->floor`.  One that is
 *  under way goes on from where it is, all around. */
KVT_NODISCARD enum kvt_err advisor_sweeper_add(struct advisor_sweeper *sweeper,
                                               const struct advisor_sweep_row *row);

/** The floor under which a publisher's places at the holder are void; 0 = no sweep is under way. */
uint32_t advisor_sweeper_floor(const struct advisor_sweeper *sweeper, uint32_t publisher,
                               uint32_t holder);

/** Is any sweep of this holder pending? */
bool advisor_sweeper_sweeps(const struct advisor_sweeper *sweeper, uint32_t holder);
/** Is there anything to be swept in the namespace? */
bool advisor_sweeper_sweeps_namespace(const struct advisor_sweeper *sweeper, uint32_t ns);
/** Something left to do? */
bool advisor_sweeper_busy(const struct advisor_sweeper *sweeper);

/** One step, of the sweep whose turn it is, from what is committed: no place in G4 may be in
 *  `group` yet (asserted).  It looks at as many rows as there is room for in it. */
KVT_NODISCARD enum kvt_err advisor_sweeper_step(struct advisor_sweeper *sweeper,
                                                const struct advisor_txn *txn,
                                                struct advisor_change_group *group);

#endif /* ADVISOR_INDEX_SWEEPER_H */
