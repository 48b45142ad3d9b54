/*
 * gateway/move/bucket_move.h -- copies of blocks in two buckets: made, verified, taken away.
 *
 * Why: a bucket is shared.  What is written there must be the first, or replace exactly what was
 * seen; what is taken away is first replaced by a tombstone, with If-Match, for there are stores
 * that delete whatever is there.  Another gateway may be about to take the other copy away, so all
 * that is done under a lock (gateway/block/move_lock.h).  Nothing goes before the copy that stays
 * was read.  A row says where its block is bound to before anything is copied, so that a crash
 * leaves no copy that nobody counts.
 *
 * Ownership: borrowed for the call.
 * Threads:   any; the caller holds the key.
 * Limits:    as gateway/move/move.h.
 */
#ifndef GATEWAY_MOVE_BUCKET_MOVE_H
#define GATEWAY_MOVE_BUCKET_MOVE_H

#include <stdbool.h>

#include "gateway/tier/gateway_context.h"

/**
 * Make sure that a bucket has a whole copy, verified by reading it.
 *
 * @param record  of the block; its ETag is set to the copy's
 * @param source  where it is made from when there is none, or a bad one; a tier's bit
 * @param known   the row says that the bucket has one: gone is then KVT_NOTFOUND, and not made anew
 */
KVT_NODISCARD enum kvt_err gateway_bucket_move_ensure(struct gateway_context *context,
                                                      const char *key,
                                                      struct gateway_record *record, unsigned tier,
                                                      unsigned source, bool known);

/** Move a block from one bucket to the other; `record` is its row, before and after. */
KVT_NODISCARD enum kvt_err gateway_bucket_move(struct gateway_context *context, const char *key,
                                               struct gateway_record *record, unsigned to,
                                               bool keep);

/** Make the first copy that any bucket has, from a volume's; `record` as above. */
KVT_NODISCARD enum kvt_err gateway_bucket_move_make(struct gateway_context *context,
                                                    const char *key, struct gateway_record *record,
                                                    unsigned to, unsigned source);

/** gateway_move_settle() for a caller who holds the key. */
KVT_NODISCARD enum kvt_err gateway_bucket_move_settle(struct gateway_context *context,
                                                      const char *key);

#endif /* GATEWAY_MOVE_BUCKET_MOVE_H */
