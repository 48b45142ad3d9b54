/*
 * gateway/block/claim_settle.h -- what becomes of claims whose key is occupied.
 *
 * Why: a PUT that waits for the bucket and an upload that follows its acknowledgement must take
 * "there already" for the same: equal content is success, a bad object is repaired, other content
 * is a refusal.
 *
 * Ownership: as gateway/block/claim.h.
 * Threads:   any; the keys are held by the caller.
 * Limits:    as gateway/tier/store_batch.h.
 */
#ifndef GATEWAY_BLOCK_CLAIM_SETTLE_H
#define GATEWAY_BLOCK_CLAIM_SETTLE_H

#include <stddef.h>

#include "gateway/block/claim.h"
#include "gateway/tier/gateway_context.h"

/** Look at everything that was there already; afterwards no claim is OCCUPIED, and what is STORED
 *  has the record it needs (gateway/block/commit_record.h). */
void gateway_claim_settle(struct gateway_context *context, struct gateway_claim *claims,
                          size_t count);

/** Send one and settle it; its `status`. */
enum kvt_err gateway_claim_perform(struct gateway_context *context, struct gateway_claim *claim);

#endif /* GATEWAY_BLOCK_CLAIM_SETTLE_H */
