/*
 * gateway/block/commit_record.h -- commit records of the blocks this gateway put into the bucket.
 *
 * Why: KVBM takes a block of the namespace without a name for complete when its record is there, so
 * it is written after the last rank and before that one is acknowledged, and it is removed before
 * the first rank goes (gateway/block/removal.h).  Where a PUT is cut short in between, its intent
 * is left, and who settles that writes the record.
 *
 * Ownership: claims and records are borrowed for the call.
 * Threads:   any; the caller holds the keys of its claims, and no record's: those are held here,
 *            behind them.
 * Limits:    as gateway/tier/store_batch.h.
 */
#ifndef GATEWAY_BLOCK_COMMIT_RECORD_H
#define GATEWAY_BLOCK_COMMIT_RECORD_H

#include <stddef.h>

#include "gateway/block/claim.h"
#include "gateway/tier/gateway_context.h"

/** Write the records of all blocks that are complete with these claims.  A claim whose block's
 *  record could not be written, or whose other ranks could not be asked for, becomes UNKNOWN. */
void gateway_commit_record_claims(struct gateway_context *context, struct gateway_claim *claims,
                                  size_t count);

/** The same for one block that was found in the bucket.  KVT_OK, also when it is not complete. */
KVT_NODISCARD enum kvt_err gateway_commit_record_found(struct gateway_context *context,
                                                       const char *key,
                                                       const struct gateway_record *record);

/** Is `key` a block's that counts only with its record? */
bool gateway_commit_record_needed(const struct gateway_context *context, const char *key,
                                  char record[KVT_KEY_MAX]);

#endif /* GATEWAY_BLOCK_COMMIT_RECORD_H */
