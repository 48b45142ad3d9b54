/*
 * gateway/block/tombstone.h -- empty objects that say that a block is not there any more.
 *
 * Why: a bucket is shared, and there are stores that delete whatever is there.  So what is taken
 * away is first replaced by a tombstone, with If-Match.  While the far bucket does not answer, a
 * tombstone in the first bucket notes that the block was removed (G4_KIND_REMOVED).
 *
 * Ownership: borrowed for the call.
 * Threads:   any; the caller holds the key (gateway/tier/key_lock.h).
 * Limits:    each change is sent once, under a gateway_move_lock, within its lease.
 */
#ifndef GATEWAY_BLOCK_TOMBSTONE_H
#define GATEWAY_BLOCK_TOMBSTONE_H

#include <stdbool.h>

#include "gateway/block/move_lock.h"
#include "gateway/tier/gateway_context.h"

/** Put one over exactly what was seen, or where nothing is: `seen_etag` NULL.  `removed`: it notes
 *  that the block was removed; `etag` gets the tombstone's. */
KVT_NODISCARD enum kvt_err gateway_tombstone_put(struct gateway_context *context, const char *key,
                                                 unsigned tier, const char *seen_etag, bool removed,
                                                 struct gateway_move_lock *lock,
                                                 char etag[G4_ETAG_MAX]);

/** Delete once: a repeat could meet what was put since.  `seen_etag` NULL: whatever is there. */
KVT_NODISCARD enum kvt_err gateway_tombstone_delete(struct gateway_context *context,
                                                    const char *key, unsigned tier,
                                                    const char *seen_etag,
                                                    struct gateway_move_lock *lock);

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

#endif /* GATEWAY_BLOCK_TOMBSTONE_H */
