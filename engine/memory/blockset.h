/*
 * engine/memory/blockset.h -- blocks that others may read: a tier's memory, and what is in it
 * right now.
 *
 * Why: another process reads this memory without asking.  Beside the bytes it must learn whether
 * they are still those of the block that it means, since a block may be given to other content at
 * any time.  So a set has a table with a generation, a name and checksums of each block; what was
 * read is believed when its checksums are right and the generation, looked at after the data, is
 * still the one that it was (engine/memory/blockset_import.h).
 *
 * A block is *shown* when its bytes are there and *hidden* before anything is written over them.  A
 * set is a storage (kvbm/storage/tier_storage.h), so that a pool's tier can be one; as such it
 * hides what is bound or written, shows what is committed, and hides what is forgotten.  Who
 * writes to a block's address by itself hides it first.
 *
 * Ownership: a set is closed once, by engine_blockset_close() or as a storage, before its fabric.
 *            Closing says of every block that the set was dropped.
 * Threads:   any; two threads must not touch the same block at once.
 * Limits:    layouts with one allocation (contiguous, universal); blocks as
 *            kvbm/storage/tier_storage.h.
 */
#ifndef ENGINE_MEMORY_BLOCKSET_H
#define ENGINE_MEMORY_BLOCKSET_H

#include <stddef.h>
#include <stdint.h>

#include "kvbm/layout/block_layout.h"
#include "kvbm/storage/tier_storage.h"

#include "engine/memory/blockset_wire.h"
#include "engine/memory/fabric.h"

struct engine_blockset;

/* A block somebody else has. */
struct engine_block_ref {
    uint32_t block;
    uint32_t sum;        /* of engine/memory/blockset_shape.h */
    uint64_t generation; /* 0: whatever is there now under that name; `sum` is not looked at */
    uint64_t hash;       /* its name */
};

/** KVT_OK; KVT_UNSUPPORTED (a layered layout); KVT_INVALID or KVT_RANGE of a storage; what
 *  engine_region_open() says. */
KVT_NODISCARD enum kvt_err engine_blockset_open(struct engine_blockset **out,
                                                struct engine_fabric *fabric,
                                                const struct kvbm_layout *layout, uint32_t blocks,
                                                struct kvt_error *err);

/** NULL is allowed. */
void engine_blockset_close(struct engine_blockset *set);

/** Its blocks as a tier's memory: packed bytes of the layout, rounded up to
 *  KVBM_STORAGE_ALIGN. */
struct kvbm_storage *engine_blockset_storage(struct engine_blockset *set);

/** The set's number, which no other has. */
uint64_t engine_blockset_nonce(const struct engine_blockset *set);

const struct kvbm_layout *engine_blockset_layout(const struct engine_blockset *set);

/**
 * Let others read it; reads all of it once for its checksums.  What was shown before is hidden.
 *
 * @param ref  out; may be NULL
 */
void engine_blockset_show(struct engine_blockset *set, uint32_t block, uint64_t hash,
                          struct engine_block_ref *ref);

/** The sum of its bytes, of which it is hidden; kept for engine_blockset_show_summed(). */
uint32_t engine_blockset_sum(struct engine_blockset *set, uint32_t block);

/** As engine_blockset_show(), of a block that was summed since its bytes last changed. */
void engine_blockset_show_summed(struct engine_blockset *set, uint32_t block, uint64_t hash,
                                 struct engine_block_ref *ref);

/** Before its bytes change.  Who has read them knows that they are right; who reads on does not
 *  believe them.  Hiding what is hidden is nothing. */
void engine_blockset_hide(struct engine_blockset *set, uint32_t block);

/** All that another process needs to import it.  `*size` is how many bytes of `out` are used. */
void engine_blockset_describe(const struct engine_blockset *set,
                              uint8_t out[ENGINE_BLOCKSET_DESCRIPTION_MAX], size_t *size);

#endif /* ENGINE_MEMORY_BLOCKSET_H */
