/*
 * gateway/move/move.h -- between the tiers: hot and warm volume, bucket and far bucket.
 *
 * Why: copy, verify, publish, then drop the source: at every instant, and after a crash at any of
 * them, at least one readable copy exists, and doing it again changes nothing.
 *
 * Ownership: borrowed for the call.
 * Threads:   any; the key is held for the call.
 * Limits:    two objects in memory at a time, each of at most the context's object_max.
 */
#ifndef GATEWAY_MOVE_MOVE_H
#define GATEWAY_MOVE_MOVE_H

#include <stdbool.h>

#include "gateway/tier/gateway_context.h"

/* From where to where; bits of tiers. */
struct gateway_move {
    unsigned from; /* GATEWAY_BUCKETS: whichever has it */
    unsigned to;   /* GATEWAY_BUCKETS: where it is, or the first */
    bool keep;     /* what lies in `from` stays, as it always does from a bucket to a volume */
};

/**
 * Move one object.  Volume to volume, bucket to bucket: the copy.  Volume to bucket: the bucket
 * has a copy, made or moved there, and the volume's goes.  Bucket to volume: a copy is made.
 *
 * @param[out] bytes  what was freed in a volume, or copied
 * @return KVT_OK also when it is so already; KVT_NOTFOUND: neither in `from` nor in `to`;
 *         KVT_FULL; KVT_UNAVAILABLE; KVT_AGAIN; KVT_CORRUPT; KVT_UNSUPPORTED: it cannot be checked,
 *         or others look for it in the first bucket
 */
KVT_NODISCARD enum kvt_err gateway_move(struct gateway_context *context, const char *key,
                                        const struct gateway_move *move, uint64_t *bytes);

/** Bring a move between the buckets to its end, or undo it, whose row was left by a crash.  KVT_OK:
 *  settled; else it is tried again. */
KVT_NODISCARD enum kvt_err gateway_move_settle(struct gateway_context *context, const char *key);

#endif /* GATEWAY_MOVE_MOVE_H */
