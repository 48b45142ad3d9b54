/*
 * engine/memory/blockset_import.h -- a block set of another process, and reading blocks of it.
 *
 * Why: a block that somebody else has may be gone or another's at any time, and nobody asks its
 * owner.  So after its bytes its entry in the owner's table is read, and only when that still has
 * the same generation, and every checksum fits, is it the block that was meant.  Else there is a
 * status, and zeros where bytes were.
 *
 *   KVT_OK           these are the bytes
 *   KVT_NOTFOUND     a stale reference: its owner has something else there, or nothing, or dropped
 *                    the set
 *   KVT_CORRUPT      the right block, with wrong bytes: damage
 *   KVT_UNAVAILABLE, KVT_TIMEOUT, KVT_IO, KVT_CANCELLED   it could not be read
 *   KVT_AGAIN        as many reads from afar are on their way as may (engine/memory/fabric.h)
 *   KVT_RANGE, KVT_INVALID                                it could not be asked for
 *
 * Near memory is copied and summed by the caller's thread, a few KiB at a time, so that the sum
 * costs no second trip to memory; several threads get more of it.  From afar several blocks are on
 * their way while one is summed.
 *
 * Ownership: an import is closed when none of its reads goes on, before its fabric.
 * Threads:   any, also several at once with one import.
 * Limits:    ENGINE_IMPORT_RUNS_MAX runs of a block; these begin and end at grains
 *            (engine/memory/blockset_shape.h).
 */
#ifndef ENGINE_MEMORY_BLOCKSET_IMPORT_H
#define ENGINE_MEMORY_BLOCKSET_IMPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvbm/layout/block_layout.h"

#include "engine/memory/blockset.h"
#include "engine/memory/blockset_shape.h"

#define ENGINE_IMPORT_RUNS_MAX 1024

struct engine_import;

/**
 * @param want  whose blocks these shall become: the same layout (of any rank), or a universal one
 *              of the same model and another TP size, when theirs is universal too; NULL: any
 * @return KVT_OK; KVT_INVALID (no description, or of another version); KVT_CORRUPT (its checksum);
 *         KVT_PRECONDITION (another layout than `want` needs, in words); KVT_NOTFOUND (the set was
 *         dropped); KVT_UNAVAILABLE, KVT_TIMEOUT (its owner cannot be reached); KVT_FULL; KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err engine_import_open(struct engine_import **out,
                                              struct engine_fabric *fabric, const uint8_t *bytes,
                                              size_t size, const struct kvbm_layout *want,
                                              uint64_t wait_ms, struct kvt_error *err);

/** NULL is allowed. */
void engine_import_close(struct engine_import *import);

/** Their blocks; the layout has their TP size and rank. */
const struct engine_blockset_shape *engine_import_shape(const struct engine_import *import);

/** The number of their set. */
uint64_t engine_import_nonce(const struct engine_import *import);

/* Bytes of a block that lie together on both sides. */
struct engine_import_run {
    uint64_t offset; /* in the source block's packed bytes */
    size_t size;
    void *host;
};

/* One block, or parts of it.  It is read whole, or nothing of it is left. */
struct engine_import_read {
    struct engine_block_ref ref;
    void *host; /* the whole block, where `count` is 0 */
    const struct engine_import_run *runs;
    size_t count;
    enum kvt_err status; /* out */
};

struct engine_import_request {
    struct engine_import_read *reads;
    size_t count;
    uint64_t wait_ms;         /* what is not there by then is KVT_TIMEOUT; UINT64_MAX: no end but
                                 that of each get (engine/memory/fabric.h) */
    const _Atomic bool *stop; /* true: what has not begun is KVT_CANCELLED; may be NULL */
};

/** Read them all, and wait.  The first status that is not KVT_OK, `err` of that one. */
enum kvt_err engine_import_run(struct engine_import *import,
                               const struct engine_import_request *request, struct kvt_error *err);

/* A part of every block: of layers and heads `layers` and `heads`, 0: all. */
struct engine_import_slice {
    uint32_t layer;
    uint32_t layers;
    uint32_t head; /* of the source's rank */
    uint32_t heads;
    uint32_t target_head; /* where they go */
};

/**
 * Which runs bring a slice of one of theirs into a block at `host` of layout `target`.
 *
 * @param runs  room for `capacity`; ENGINE_IMPORT_RUNS_MAX are always enough
 * @return KVT_OK; KVT_RANGE (no such layers or heads; `capacity`); KVT_UNSUPPORTED (heads of a
 *         layout that is not universal; layers that have no sums of their own); KVT_PRECONDITION
 *         (the target is neither the same layout nor universal of the same model)
 */
KVT_NODISCARD enum kvt_err engine_import_runs(const struct engine_import *import,
                                              const struct engine_import_slice *slice,
                                              const struct kvbm_layout *target, void *host,
                                              struct engine_import_run *runs, size_t capacity,
                                              size_t *count, struct kvt_error *err);

#endif /* ENGINE_MEMORY_BLOCKSET_IMPORT_H */
