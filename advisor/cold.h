/*
 * advisor/cold.h -- places of workers that do not fit in RAM: in the store alone.
 *
 * Why: RAM is bounded, and what it holds must stay small without a wrong answer.  The runs that were
 * used longest ago are evicted: REMOVE in the log, and a row a block here, in one transaction.  A
 * filter in RAM says whether a hash may be here, so that questions about what is in RAM never touch
 * the disk; the others merge both.
 *
 * A row is (hash, namespace) -> parent, position, size, tokens, places [holder, shards, row].
 * `row` is the journal's number at the eviction: a holder that was dropped in that namespace at a
 * later number has no place here, and the place goes when its row is next written, or swept.
 *
 * Ownership: owns its filter; the store's tables `cold` and `cold_drops`.
 * Threads:   advisor_cold_may_have() and _get() on any thread, the latter in a read transaction;
 *            all else on the engine's.
 * Limits:    about a byte of RAM a block here.
 */
#ifndef ADVISOR_COLD_H
#define ADVISOR_COLD_H

#include "advisor/log.h"
#include "advisor/store.h"

struct advisor_cold;

KVT_NODISCARD enum kvt_err advisor_cold_new(struct advisor_cold **out);
void advisor_cold_free(struct advisor_cold *cold);
KVT_NODISCARD enum kvt_err advisor_cold_load(struct advisor_cold *cold,
                                             const struct advisor_txn *txn);

/** Blocks that are here; 0 costs questions nothing. */
uint64_t advisor_cold_count(const struct advisor_cold *cold);
bool advisor_cold_may_have(const struct advisor_cold *cold, uint32_t ns, uint64_t hash);

/** Add the places that are here to `block` (as advisor_store_get_block() or all 0 left it). */
KVT_NODISCARD enum kvt_err advisor_cold_get(const struct advisor_txn *txn, uint32_t ns,
                                            uint64_t hash, struct advisor_store_block *block);

/**
 * What the group's log says goes from here too: removes and drops; and what is evicted with it
 * comes.  `row` is the number its first row gets in the journal.  May be repeated until saved.
 */
KVT_NODISCARD enum kvt_err advisor_cold_write(struct advisor_cold *cold,
                                              const struct advisor_txn *txn,
                                              const struct advisor_log *log, uint64_t row);
void advisor_cold_saved(struct advisor_cold *cold);

#endif /* ADVISOR_COLD_H */
