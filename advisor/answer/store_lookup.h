/*
 * advisor/answer/store_lookup.h -- all about some blocks from the store alone.
 *
 * Why: while RAM is filled, and without the advisor, the store answers.  It has rows for what is in
 * G4; for the rest its log is read through once a question, whatever the number of its blocks.
 * What was evicted from RAM is not in the log any more: advisor_evicted_get() adds it.
 *
 * A STORE of another parent or position than the block has is passed over, as RAM refuses it.  Who
 * does not know a block's parent (0 behind the first position) fits any, and of two of them the
 * first one's position stands.  Where other blocks hang on such a block, RAM refuses a STORE that
 * learns another position for it, and here it is taken until the REMOVE that RAM answers it with.
 *
 * Ownership: the caller's blocks are filled; advisor_store_block_release() ends each.
 * Threads:   none; any number at once, each in its own read transaction.
 * Limits:    a pass over the log: a few nanoseconds for each block in it, besides what the disk
 *            takes; 30 bytes of memory a place that is found while it lasts.
 */
#ifndef ADVISOR_ANSWER_STORE_LOOKUP_H
#define ADVISOR_ANSWER_STORE_LOOKUP_H

#include "advisor/store/durable_store.h"

/**
 * @param blocks  as many as hashes, each all 0 or used before; a block nobody has gets no places
 * @return KVT_OK, KVT_NOMEM, or what the store says; no block has a place then
 */
KVT_NODISCARD enum kvt_err advisor_store_lookup(const struct advisor_txn *txn, uint32_t ns,
                                                const uint64_t *hashes, size_t count,
                                                struct advisor_store_block *blocks);

#endif /* ADVISOR_ANSWER_STORE_LOOKUP_H */
