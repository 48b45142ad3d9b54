/*
 * gateway/block/quarantine_restore.h -- putting a block back that is in quarantine.
 *
 * Why: evidence may turn out to be sound: what it met in the bucket is gone, or the damage was on
 * its way and not in it.  Then nobody should have to compute the block again.
 * Ownership: borrows the context for the call.
 * Limits:    a body of object_max bytes, within the budget.
 */
#ifndef GATEWAY_BLOCK_QUARANTINE_RESTORE_H
#define GATEWAY_BLOCK_QUARANTINE_RESTORE_H

#include "gateway/tier/gateway_context.h"
#include "gateway/tier/quarantine.h"

/**
 * Store the body of an entry under its key if it is what was written there, and drop the entry.
 *
 * @param act       false: only say whether it could be
 * @param[out] key  of the entry; "" when there is none
 * @return KVT_OK; KVT_NOTFOUND: no such entry; KVT_UNSUPPORTED: nothing says what its bytes should
 *         be; KVT_CORRUPT: they are not; KVT_PRECONDITION: the bucket has other bytes; or why it
 *         could not be stored
 */
KVT_NODISCARD enum kvt_err gateway_quarantine_restore(struct gateway_context *context, uint64_t id,
                                                      bool act, char key[KVT_KEY_MAX],
                                                      struct kvt_error *err);

#endif /* GATEWAY_BLOCK_QUARANTINE_RESTORE_H */
