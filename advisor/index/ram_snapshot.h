/*
 * advisor/index/ram_snapshot.h -- writing what RAM holds into the store, a slice with each commit.
 *
 * Why: advisor/store/event_log_table.h.  One is begun when the log since the last is as large as
 * that one was (at least ADVISOR_RAM_SNAPSHOT_LOG_MIN), and its slices are so large that it ends
 * before the log has grown by as much again.
 *
 * The transaction that begins one writes no slice: RAM must have followed all that came into the
 * journal before.  What G4 holders alone have is passed over: it has rows.
 *
 * Ownership: borrows the memory; owns the slice it wrote last, so that a transaction that failed
 *            can be written again.
 * Threads:   the engine's thread.
 * Limits:    a slice is at most ADVISOR_RAM_SNAPSHOT_SLICE_MAX bytes, unless one page of the index
 *            has more.  Without memory for one, or room in the store, the snapshot is given up and
 *            begun anew later.
 */
#ifndef ADVISOR_INDEX_RAM_SNAPSHOT_H
#define ADVISOR_INDEX_RAM_SNAPSHOT_H

#include "advisor/index/ram_index.h"
#include "advisor/store/event_log_table.h"

#define ADVISOR_RAM_SNAPSHOT_LOG_MIN   (UINT64_C(64) << 20)
#define ADVISOR_RAM_SNAPSHOT_SLICE_MIN (UINT64_C(1) << 20)
#define ADVISOR_RAM_SNAPSHOT_SLICE_MAX (UINT64_C(16) << 20)

struct advisor_ram_snapshot;

KVT_NODISCARD enum kvt_err advisor_ram_snapshot_new(struct advisor_ram_snapshot **out,
                                                    struct advisor_ram_index *memory);
void advisor_ram_snapshot_free(struct advisor_ram_snapshot *snapshot);

/** Begin, go on or end, as `state` says is due; nothing while the memory is not whole.  May be
 *  repeated until it is saved. */
KVT_NODISCARD enum kvt_err advisor_ram_snapshot_write(struct advisor_ram_snapshot *snapshot,
                                                      const struct advisor_txn *txn,
                                                      struct advisor_store_log *state);
/** What was written last is committed. */
void advisor_ram_snapshot_saved(struct advisor_ram_snapshot *snapshot);
/** The one that was being written, now or before a restart, had to make room for events. */
void advisor_ram_snapshot_abandoned(struct advisor_ram_snapshot *snapshot,
                                    const struct advisor_store_log *state);
/** The index is about to be emptied: the one that was being written is begun anew. */
void advisor_ram_snapshot_forget(struct advisor_ram_snapshot *snapshot);
/** Is one being written?  Then the engine does not wait for events. */
bool advisor_ram_snapshot_busy(const struct advisor_ram_snapshot *snapshot);

/** Tests: other sizes than ADVISOR_RAM_SNAPSHOT_LOG_MIN and ADVISOR_RAM_SNAPSHOT_SLICE_MIN. */
void advisor_ram_snapshot_sizes(struct advisor_ram_snapshot *snapshot, uint64_t log_min,
                                uint64_t slice_min);

#endif /* ADVISOR_INDEX_RAM_SNAPSHOT_H */
