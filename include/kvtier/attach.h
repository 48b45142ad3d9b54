/*
 * kvtier/attach.h -- an engine that uses the tiers of a kvtier-worker in another process.
 *
 * Why: an engine should not have to link a block manager, share its fate or be written in C.  It
 * makes the memory of its blocks, passes it to the worker over a Unix socket, and asks over two
 * rings in shared memory; the worker keeps the pool of these blocks, and copies to and from them.
 *
 *     kvt_attach_open ─► match ─► onboard what is known below ─► allocate ─► fill ─► register
 *                          └────────────── each iteration: step ──────────────────────┘
 *
 * Handles are those of kvtier/kvbm.h; a unique one is of a block that is being filled, a shared one
 * of a block that can be found.  A block with neither may be taken for another.  A block that is
 * registered with `offload` is copied down after the next step; it must not be written any more.
 *
 * Ownership: kvt_attach_open() to kvt_attach_close(), which ends all handles.  The memory is mapped
 *            until then.
 * Threads:   none; one thread at a time.  What fork() copies is not usable.
 * Limits:    KVT_ATTACH_REQUEST_MAX blocks a call, and what the worker's attach.memory allows.
 *
 * Errors that every call may give: KVT_UNAVAILABLE (the worker is gone), KVT_TIMEOUT (it did not
 * answer in time), KVT_CORRUPT (it answered nonsense).  After one of these nothing but
 * kvt_attach_close() has an effect: the worker takes back what was held, and an engine opens anew.
 */
#ifndef KVTIER_ATTACH_H
#define KVTIER_ATTACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"
#include "kvtier/kvbm.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KVT_ATTACH_REQUEST_MAX 512
#define KVT_ATTACH_TIMEOUT     30000 /* ms, the default */

struct kvt_attach;

struct kvt_attach_options {
    size_t size;                         /* of this structure */
    const char *socket;                  /* attach.socket of the worker */
    const struct kvt_geometry *geometry; /* NULL: what the worker has */
    uint32_t block_count;
    uint64_t timeout_ms; /* for the worker to answer, beside what is asked for; 0: the default */
};

struct kvt_attach_stats {
    size_t size;     /* of this structure, in */
    uint64_t blocks; /* the engine's */
    uint64_t free;
    uint64_t active; /* held, by the engine or on their way down */
    uint64_t inactive;
    uint64_t registered;
    uint64_t waiting;   /* blocks on their way down */
    uint64_t offloaded; /* blocks copied down, ever */
    uint64_t present;   /* ... that were there already */
    uint64_t failed;    /* ... that there was no room for */
    uint64_t onboarded; /* blocks copied up because they were needed */
    uint64_t prefetched;
    uint64_t refused; /* requests that made no sense */
};

/**
 * Connect, and pass the memory.
 *
 * @return KVT_OK; KVT_UNAVAILABLE (nobody listens), KVT_DENIED (not the worker's user), KVT_FULL
 *         (as many engines as it may have), KVT_RANGE (too many blocks), KVT_PRECONDITION (another
 *         geometry), KVT_UNSUPPORTED (another version), KVT_INVALID, KVT_NOMEM or KVT_TIMEOUT;
 *         *out is NULL then
 */
KVT_NODISCARD enum kvt_err kvt_attach_open(struct kvt_attach **out,
                                           const struct kvt_attach_options *options,
                                           struct kvt_error *err);

/** NULL is allowed. */
void kvt_attach_close(struct kvt_attach *attach);

/** The geometry of the blocks. */
void kvt_attach_geometry(const struct kvt_attach *attach, struct kvt_geometry *geometry);

/** Bytes of one block. */
size_t kvt_attach_block_bytes(const struct kvt_attach *attach);

/** Where block number `block` lies; NULL: there is no such block.  The next one follows it. */
void *kvt_attach_block(const struct kvt_attach *attach, uint32_t block);

/** The memory's descriptor, for other mappings of it; the attachment's. */
int kvt_attach_memory(const struct kvt_attach *attach);

/** Take `count` blocks, all or none.  KVT_OK, or KVT_AGAIN (so many are held). */
KVT_NODISCARD enum kvt_err kvt_attach_allocate(struct kvt_attach *attach, size_t count,
                                               struct kvt_unique *handles);

/**
 * Name filled blocks, so that they can be found.
 *
 * @param infos          their names; each has its size
 * @param offload        copy them down after the next step
 * @param[out] out       what is held now; none where it is refused
 * @param[out] results   of each: KVT_OK; KVT_EXISTS (`out` is the block that had the name, ours is
 *                       free); KVT_INVALID (no such unique handle, or no name), and it stays as it
 *                       was; KVT_FULL (held too often), and it is free
 * @return KVT_OK (see `results`), KVT_RANGE or KVT_INVALID (an info without its size)
 */
KVT_NODISCARD enum kvt_err kvt_attach_register(struct kvt_attach *attach,
                                               const struct kvt_unique *handles,
                                               const struct kvt_block_info *infos, size_t count,
                                               bool offload, struct kvt_shared *out,
                                               enum kvt_err *results);

/** Give unique handles back: the blocks are free.  KVT_OK, or KVT_INVALID (one is not held; those
 *  behind it went). */
KVT_NODISCARD enum kvt_err kvt_attach_abandon(struct kvt_attach *attach,
                                              const struct kvt_unique *handles, size_t count);

/** Give shared handles back, the last first.  As kvt_attach_abandon(). */
KVT_NODISCARD enum kvt_err kvt_attach_drop(struct kvt_attach *attach,
                                           const struct kvt_shared *handles, size_t count);

/**
 * Hold the longest prefix of `hashes` that is among the engine's blocks.
 *
 * @param[out] held   its length
 * @param[out] known  ... of the prefix that some tier on the worker's machine has; may be NULL
 */
KVT_NODISCARD enum kvt_err kvt_attach_match(struct kvt_attach *attach, const uint64_t *hashes,
                                            size_t count, struct kvt_shared *handles, size_t *held,
                                            size_t *known);

/**
 * Hold the longest prefix of these blocks that any tier has, and bring it into the engine's memory.
 *
 * @param wait_ms     no further copy begins after so long
 * @param[out] held   length of the prefix; its handles are held whatever is returned
 * @return KVT_OK (all of it), KVT_NOTFOUND (no tier has the next block), KVT_AGAIN (no room),
 *         KVT_TIMEOUT (`wait_ms`; the attachment goes on), KVT_CANCELLED (the worker stops)
 */
KVT_NODISCARD enum kvt_err kvt_attach_onboard(struct kvt_attach *attach,
                                              const struct kvt_block_info *infos, size_t count,
                                              uint64_t wait_ms, struct kvt_shared *handles,
                                              size_t *held);

/** The same, some time soon and without handles: what comes rests in the engine's memory.  KVT_OK,
 *  or KVT_AGAIN (enough is being brought). */
KVT_NODISCARD enum kvt_err kvt_attach_prefetch(struct kvt_attach *attach,
                                               const struct kvt_block_info *infos, size_t count);

/** An iteration is over: what was registered may go down.  `waiting` (may be NULL): so many blocks
 *  have not. */
KVT_NODISCARD enum kvt_err kvt_attach_step(struct kvt_attach *attach, uint64_t *waiting);

/** Have everything that waits go down.  KVT_OK, KVT_TIMEOUT (after `wait_ms`; the attachment goes
 *  on) or KVT_CANCELLED. */
KVT_NODISCARD enum kvt_err kvt_attach_drain(struct kvt_attach *attach, uint64_t wait_ms);

/** Forget every block that nobody holds; `cleared` (may be NULL) says how many. */
KVT_NODISCARD enum kvt_err kvt_attach_clear(struct kvt_attach *attach, uint64_t *cleared);

/** `stats->size` is in. */
KVT_NODISCARD enum kvt_err kvt_attach_stats(struct kvt_attach *attach,
                                            struct kvt_attach_stats *stats);

/** Has the attachment come to its end? */
bool kvt_attach_lost(const struct kvt_attach *attach);

#ifdef __cplusplus
}
#endif

#endif /* KVTIER_ATTACH_H */
