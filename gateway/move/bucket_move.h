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

/** What a bucket said: UNAVAILABLE and TIMEOUT of the first one make it suspect.  Returns `rc`. */
enum kvt_err gateway_bucket_tier_ended_of(struct gateway_context *context, unsigned tier,
                                          enum kvt_err rc);

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

/** Take a tombstone away from a bucket.  KVT_OK also when there was none; KVT_AGAIN: something else
 *  is there, or another gateway is at it. */
KVT_NODISCARD enum kvt_err gateway_tombstone_clear(struct gateway_context *context, const char *key,
                                                   unsigned tier);

/**
 * Say in the first bucket that a block was removed, for while the far one does not answer: a
 * tombstone that readers take for the last word (G4_KIND_REMOVED).  The row says already that it is
 * to be settled.
 *
 * @return KVT_OK: nobody finds the block any more; KVT_AGAIN; or what the first bucket said
 */
KVT_NODISCARD enum kvt_err gateway_tombstone_note(struct gateway_context *context, const char *key);

/** Delete what such a tombstone speaks of, and then itself.  KVT_EXISTS: it is not there; the block
 *  was put again, or others did it. */
KVT_NODISCARD enum kvt_err gateway_tombstone_settle(struct gateway_context *context,
                                                    const char *key);

/** PUT a block over such a tombstone.  KVT_NOTFOUND: none is there, and nothing was put.  `put` is
 *  as it was unless that is done. */
KVT_NODISCARD enum kvt_err gateway_tombstone_put_over(struct gateway_context *context,
                                                      struct g4_request *put);

/** PUT over a block whose removal was begun, and whose tombstone may still come: it would fit, for
 *  equal bytes have equal ETags.  KVT_AGAIN: until then. */
KVT_NODISCARD enum kvt_err gateway_tombstone_put_locked(struct gateway_context *context,
                                                        struct g4_request *put);

/** Move a block from one bucket to the other; `record` is its row, before and after. */
KVT_NODISCARD enum kvt_err gateway_client_bucket_move(struct gateway_context *context,
                                                      const char *key,
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
