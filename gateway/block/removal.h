/*
 * gateway/block/removal.h -- taking objects away, in two steps.
 *
 * Why: a removal that is cut short must neither leave a block that readers see and then lose, nor
 * remove one that was just stored again.  First the row is marked retiring (durably; from then on a
 * miss for every reader), then the copies go, then the row.
 *
 * Ownership: borrowed for the call.
 * Threads:   any; "held" calls need the key held by the caller (gateway/tier/key_lock.h).
 * Limits:    GATEWAY_BATCH_REQUEST_KEYS_MAX keys to be marked in a call, GATEWAY_REMOVAL_TOGETHER
 *            to be removed.
 */
#ifndef GATEWAY_BLOCK_REMOVAL_H
#define GATEWAY_BLOCK_REMOVAL_H

#include <stddef.h>

#include "gateway/tier/gateway_context.h"
#include "gateway/tier/store_batch.h"

#define GATEWAY_REMOVAL_TOGETHER GATEWAY_STORE_BATCH_WINDOW_MAX

/** Mark all of these rows retiring, in one durable step.  Keys without a row are passed over.  A
 * PUT may cancel a mark at any time before gateway_removal_finish(). */
KVT_NODISCARD enum kvt_err gateway_removal_mark(struct gateway_context *context,
                                                const char *const *keys, size_t count);

/** Remove the copies of a retiring row, then the row.  KVT_OK also when the mark was cancelled or
 *  nothing was there; `bytes` (may be NULL) gets what was freed.  KVT_EXISTS: the block was put
 *  again by another gateway, or the mark is a minute old, and it stays.  Otherwise the mark stays.
 */
KVT_NODISCARD enum kvt_err gateway_removal_finish(struct gateway_context *context, const char *key,
                                                  uint64_t *bytes);

/** Both steps for one key, also one the catalog does not know. */
KVT_NODISCARD enum kvt_err gateway_remove(struct gateway_context *context, const char *key);

/** The same, unless `check` says otherwise with the key held: its error is returned then, and
 *  nothing was removed. */
KVT_NODISCARD enum kvt_err gateway_remove_if(struct gateway_context *context, const char *key,
                                             enum kvt_err (*check)(void *arg), void *arg);

/** As gateway_remove() for many keys: their copies in the bucket go at once, so that a packed
 *  namespace takes them out of its manifest together.  A key may stand there twice.
 *
 *  @param count  at most GATEWAY_REMOVAL_TOGETHER
 *  @param[out] statuses  of each key, as gateway_remove() */
void gateway_removal_all(struct gateway_context *context, const char *const *keys, size_t count,
                         enum kvt_err *statuses);

/** Remove the commit record of the block that `key` is a rank of: before that one goes, and once
 *  more behind it.  Without its data it would keep KVBM from ever storing the block again.  The
 *  caller holds `key`. */
KVT_NODISCARD enum kvt_err gateway_removal_record(struct gateway_context *context, const char *key);

#endif /* GATEWAY_BLOCK_REMOVAL_H */
