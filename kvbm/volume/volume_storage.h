/*
 * kvbm/volume/volume_storage.h -- a remote tier: blocks that lie in a volume.
 *
 * Why: an object store behind a gateway (worker/object/gateway_volume.h), another process's memory
 * (kvbm/volume/peer.h) and a folder are asked by name, without waiting, in batches
 * (kvbm/volume/volume_set.h).  Here they are a storage like any other: pools count its blocks,
 * transfers move them on the path "remote", orders evict them.
 *
 * A block number says which block of the tier; what it is called there is said by
 * kvbm_storage_bind() before it is written or read.  Names are those of contents: a block that is
 * there already need not be sent.  With `own` the names are the tier's alone, made of its first
 * name and the number: then it is memory that happens to be elsewhere, which is written again at
 * will.
 *
 * The volume checks what it returns.  What this process wrote is compared with a crc32c of its own
 * as well: a volume that returns somebody else's whole block is found out.  What fails leaves
 * zeroes and is KVT_CORRUPT; a peer that is away, or a volume that was taken out of the set, is
 * KVT_UNAVAILABLE.
 *
 * Ownership: a kvbm_storage; the set is borrowed, and outlives it.
 * Threads:   as kvbm/storage/tier_storage.h.  Who reads or writes waits; the volume's own thread
 *            works.
 * Limits:    as kvbm/storage/tier_storage.h.  A block is written whole (KVT_INVALID for parts of
 *            it); a part is read by fetching the block.
 */
#ifndef KVBM_VOLUME_VOLUME_STORAGE_H
#define KVBM_VOLUME_VOLUME_STORAGE_H

#include <stdbool.h>

#include "kvbm/storage/tier_storage.h"
#include "kvbm/volume/volume_set.h"

struct kvbm_storage_volume_options {
    struct kvbm_volumes *set;
    uint64_t volume; /* its number there; its blocks have this size */
    uint32_t block_count;
    size_t block_size;
    bool own;       /* names are the tier's alone */
    uint64_t first; /* own: block n is called first + n */
};

KVT_NODISCARD enum kvt_err
kvbm_storage_open_volume(struct kvbm_storage **out,
                         const struct kvbm_storage_volume_options *options, struct kvt_error *err);

#endif /* KVBM_VOLUME_VOLUME_STORAGE_H */
