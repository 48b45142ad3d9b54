/*
 * worker/object/bucket_volume.h -- a bucket that KVBM's own S3 client uses, as a volume.
 *
 * Why: engines that write their blocks themselves and KVTier must find each other's in one bucket,
 * without a gateway between.  Keys are KVBM's, in the revision the engines use
 * (kvtier/key.h); a body is the block and nothing else.
 *
 * What KVTier writes has length, crc32c and fingerprint beside it, and is checked by them.  KVBM
 * writes nothing beside a block: such an object is taken when it is as long as a block and its
 * bytes have the MD5 that its ETag says, which is what stores answer to a plain PUT.  An object
 * that has neither -- a multipart upload's, or one encrypted with a key of a service -- is
 * KVT_UNSUPPORTED: nobody can tell whether it is right.
 *
 * The first writer wins, by If-None-Match; KVBM itself writes over what is there, with the same
 * bytes.  What is there and is not the block is replaced, by If-Match.  KVBM's leaders count a
 * block as stored when its `.meta` is there, which they write themselves; it is not asked for here,
 * nor written.
 *
 * Ownership: the store is borrowed, and outlives the volume.
 * Threads:   any; a slice of requests of each call is in the air at once.
 * Limits:    as kvbm/volume/volume_set.h.  Nothing is removed: policies of a gateway do that.
 */
#ifndef WORKER_OBJECT_BUCKET_VOLUME_H
#define WORKER_OBJECT_BUCKET_VOLUME_H

#include "g4/object/g4_store.h"
#include "kvbm/volume/volume_set.h"

struct worker_bucket_options {
    struct g4_store *store;
    enum kvt_key_revision revision;
    const char *namespace_; /* "" is KVBM's; copied */
    uint32_t rank;
    size_t block_size;    /* bytes */
    uint64_t fingerprint; /* of what the blocks mean: written, and compared where it is there */
};

/** KVT_OK; KVT_RANGE (namespace); KVT_NOMEM. */
KVT_NODISCARD enum kvt_err worker_bucket_volume(struct kvbm_volume **out,
                                                const struct worker_bucket_options *options,
                                                struct kvt_error *err);

/**
 * Is there something of a block's length under each name?  When it is asked for, it is checked.
 * Behind KVT_VOLUME_SLICE names in a row that are not there no others are asked for.
 *
 * @param volume  what worker_bucket_volume() gave
 * @param end_ms  monotonic; nothing is waited for any longer.  0: the store's own patience
 * @return KVT_OK: all that count were answered; else why the first was not, and `present` is false
 */
KVT_NODISCARD enum kvt_err worker_bucket_has(struct kvbm_volume *volume,
                                             const struct kvt_block_id *ids, size_t count,
                                             uint64_t end_ms, bool *present);

#endif /* WORKER_OBJECT_BUCKET_VOLUME_H */
