/*
 * kvtier/kvbm.h -- a block manager: states of blocks, sequences of tokens, pools.
 *
 * Why: who holds which block, what it is called and which goes first is the same for a device's
 * memory, a host's and a disk.  Where the bytes are is kvtier/storage.h, what shape they have
 * kvtier/layout.h, and who moves them kvtier/transfer.h.
 *
 * Ownership: plain values; what allocates says so, and how it ends.
 * Threads:   no shared state.
 * Limits:    the names below.
 */
#ifndef KVTIER_KVBM_H
#define KVTIER_KVBM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"
#include "kvtier/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The life of one block in one pool; which call makes which move is said with pools, below. */
enum kvt_block_state {
    KVT_BLOCK_RESET,      /* no content, no name */
    KVT_BLOCK_PARTIAL,    /* being written */
    KVT_BLOCK_COMPLETE,   /* fully written and named, not yet to be found */
    KVT_BLOCK_REGISTERED, /* found by its sequence hash; read-only */
    KVT_BLOCK_STATE_COUNT
};

/* Which of a pool's blocks that nobody holds goes first when room is needed. */
enum kvt_pool_order {
    KVT_POOL_ORDER_LRU,      /* least recently used */
    KVT_POOL_ORDER_PRIORITY, /* the lowest priority, and in it least recently used */
    KVT_POOL_ORDER_LINEAGE,  /* least recently used that nothing in the pool continues */
    KVT_POOL_ORDER_ORDERING, /* what a kvtier/ordering.h says */
};

#define KVT_PRIORITY_MAX     15 /* of a block; 0 goes first */
#define KVT_BLOCK_TOKENS_MAX 65536

/*
 * A sequence of tokens, cut into blocks; every full block has its name (kvtier/token.h).
 *
 * Ownership: kvt_sequence_new() to kvt_sequence_free().  Tokens are copied.
 * Threads:   none; one thread at a time.
 * Limits:    block_tokens 1 .. KVT_BLOCK_TOKENS_MAX; KVT_SEQUENCE_TOKENS_MAX tokens.
 */
#define KVT_SEQUENCE_TOKENS_MAX (UINT32_C(1) << 26)

struct kvt_sequence;

/**
 * @param block_tokens  tokens in a block
 * @param seed          of the tokens' hashes: kvt_token_seed() of adapter and salt
 * @return KVT_OK; KVT_INVALID or KVT_NOMEM with *out NULL
 */
KVT_NODISCARD enum kvt_err kvt_sequence_new(struct kvt_sequence **out, uint32_t block_tokens,
                                            uint64_t seed, struct kvt_error *err);

/** NULL is allowed. */
void kvt_sequence_free(struct kvt_sequence *sequence);

/** All `count` tokens or none.  KVT_OK, KVT_RANGE (longer than the limit) or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err kvt_sequence_append(struct kvt_sequence *sequence,
                                               const uint32_t *tokens, size_t count,
                                               struct kvt_error *err);

/** Keep the first `count` tokens.  KVT_OK, or KVT_RANGE (there are fewer). */
KVT_NODISCARD enum kvt_err kvt_sequence_truncate(struct kvt_sequence *sequence, size_t count,
                                                 struct kvt_error *err);

/** Take the last `count` tokens away.  KVT_OK, or KVT_RANGE (there are fewer). */
KVT_NODISCARD enum kvt_err kvt_sequence_unwind(struct kvt_sequence *sequence, size_t count,
                                               struct kvt_error *err);

/** All tokens, and how many; valid until the sequence changes. */
const uint32_t *kvt_sequence_tokens(const struct kvt_sequence *sequence, size_t *count);

/** The sequence hashes of all full blocks, and how many; valid until the sequence changes. */
const uint64_t *kvt_sequence_hashes(const struct kvt_sequence *sequence, size_t *count);

/** Who full block number `position` is; `tokens_hash` (may be NULL) is the hash of its own tokens.
 *  KVT_OK, or KVT_NOTFOUND with both zero. */
KVT_NODISCARD enum kvt_err kvt_sequence_block(const struct kvt_sequence *sequence, size_t position,
                                              struct kvt_block_id *id, uint64_t *tokens_hash);

/*
 * A pool: the blocks of one tier, whatever their memory is.  It keeps block numbers, names and
 * holders and never touches bytes: block n of the pool is block n of the caller's memory.
 *
 *     kvt_pool_allocate ──► unique ── fill, name ── kvt_unique_register ──► shared ──► weak
 *                              └─ kvt_unique_drop: free               └─ kvt_shared_drop: the last
 *                                                                        one lets it rest
 *
 * A block is Reset when allocated, Partial from kvt_unique_begin or kvt_unique_init_sequence,
 * Complete from kvt_unique_complete or kvt_unique_commit, and then may be registered.  What comes
 * at the wrong time is refused with a text of its own, and changes nothing.  A block that rests is
 * found until room is needed.
 *
 * Ownership: a unique handle has one holder, a shared one as many as there are copies; each ends
 *            with one drop or with a call that says it takes it.  A weak handle holds nothing.
 *            Handles are values; one that is all 0 is none.  kvt_pool_free() is last.
 * Threads:   any; a unique handle is one thread's at a time.  Callbacks run on the calling thread,
 *            without a lock, and must not call the pool.
 * Limits:    KVT_POOL_BLOCKS_MAX blocks.  Using a handle that is not held is a bug, and ends the
 *            program.
 *
 * A structure whose first member is `size` may grow at its end: the caller writes down what it was
 * compiled with.  Members it does not set are 0.
 */
#define KVT_POOL_BLOCKS_MAX (UINT32_C(1) << 24)

struct kvt_ordering;
struct kvt_pool;

/* A block in one of its lives. */
struct kvt_handle {
    uint32_t block;      /* below block_count */
    uint32_t generation; /* 0: the handle is none */
};

/* So that a compiler tells them apart. */
struct kvt_unique {
    struct kvt_handle handle;
};

struct kvt_shared {
    struct kvt_handle handle;
};

struct kvt_weak {
    struct kvt_handle handle;
};

/* What a block is called. */
struct kvt_block_info {
    size_t size;            /* of this structure */
    struct kvt_block_id id; /* hash, parent, position */
    uint64_t prefix_hash;   /* sequence hash at position min(own, prefix_depth - 1) */
    uint64_t tokens_hash;   /* of its own tokens; 0: unknown */
};

typedef void kvt_pool_event_fn(void *arg, const struct kvt_block_info *info);

enum kvt_pool_dedup {
    KVT_POOL_DEDUP_REJECT, /* registering a known name gives the block that has it */
    KVT_POOL_DEDUP_ALLOW,  /* ... keeps both; the second ends with its last holder */
};

struct kvt_pool_options {
    size_t size;                         /* of this structure */
    uint32_t block_count;                /* 1 .. KVT_POOL_BLOCKS_MAX */
    uint32_t block_tokens;               /* 0: blocks are named by their holders only */
    uint32_t prefix_depth;               /* of names made from tokens; 0 = 8 */
    enum kvt_pool_dedup dedup;           /* what a known name does */
    enum kvt_pool_order order;           /* what goes first */
    const struct kvt_ordering *ordering; /* kvtier/ordering.h; outlives the pool */
    uint64_t block_bytes;                /* what an ordering is told; 0 = 1 */
    kvt_pool_event_fn *on_store;         /* a name can be found from now on; may be NULL */
    kvt_pool_event_fn *on_remove;        /* ... cannot be found any more; may be NULL */
    void *arg;
};

struct kvt_pool_usage {
    size_t size;       /* of this structure, in */
    uint32_t blocks;   /* all of them */
    uint32_t free;     /* nobody's, without a name */
    uint32_t active;   /* held */
    uint32_t inactive; /* with a name, held by nobody */
    uint64_t registered;
    uint64_t duplicates;
    uint64_t sought; /* names asked for by match and scan, ... */
    uint64_t found;  /* ... and found */
    uint64_t evicted;
};

/** @return KVT_OK; KVT_INVALID (a number, order or ordering that cannot be), KVT_UNSUPPORTED
 *          (members this library does not know) or KVT_NOMEM, with *out NULL */
KVT_NODISCARD enum kvt_err
kvt_pool_new(struct kvt_pool **out, const struct kvt_pool_options *options, struct kvt_error *err);

/** NULL is allowed.  No callback is made.  With held blocks it is a bug, and ends the program. */
void kvt_pool_free(struct kvt_pool *pool);

/** Take `count` blocks, all or none, evicting what rests where needed.  KVT_OK, or KVT_AGAIN when
 *  `wait_ms` did not make that much room. */
KVT_NODISCARD enum kvt_err kvt_pool_allocate(struct kvt_pool *pool, size_t count,
                                             struct kvt_unique *handles, uint64_t wait_ms);

/** Hold the longest prefix of `hashes` that is registered, and say none of the others; returns its
 *  length. */
size_t kvt_pool_match(struct kvt_pool *pool, const uint64_t *hashes, size_t count,
                      struct kvt_shared *handles);

/** Hold each of `hashes` that is registered, and say none of the others; returns how many. */
size_t kvt_pool_scan(struct kvt_pool *pool, const uint64_t *hashes, size_t count,
                     struct kvt_shared *handles);

/** Is the name registered?  Neither holds nor uses the block. */
bool kvt_pool_has(struct kvt_pool *pool, uint64_t hash);

/** Evict every block that rests and may go; returns how many went. */
size_t kvt_pool_clear(struct kvt_pool *pool);

/** A consistent snapshot; `usage->size` is in. */
void kvt_pool_usage(struct kvt_pool *pool, struct kvt_pool_usage *usage);

/* ---- the one holder of a block ---- */

enum kvt_block_state kvt_unique_state(struct kvt_pool *pool, struct kvt_unique unique);

/** Reset -> Partial: bytes are being written, the name is known.  KVT_OK or KVT_INVALID. */
KVT_NODISCARD enum kvt_err kvt_unique_begin(struct kvt_pool *pool, struct kvt_unique handle,
                                            struct kvt_error *err);

/** Partial -> Complete, under this name.  KVT_OK, KVT_INVALID (also a name without its size) or
 *  KVT_UNSUPPORTED (members this library does not know). */
KVT_NODISCARD enum kvt_err kvt_unique_complete(struct kvt_pool *pool, struct kvt_unique handle,
                                               const struct kvt_block_info *info,
                                               struct kvt_error *err);

/**
 * Reset -> Partial, to be named by its tokens.
 *
 * @param seed      of its tokens' hash: kvt_token_seed() of adapter and salt
 * @param previous  the block before it in its sequence; NULL: it is the first
 * @return KVT_OK, KVT_INVALID (also a name without its size), KVT_UNSUPPORTED (the pool has no
 *         block_tokens, or members this library does not know) or KVT_RANGE (past
 *         KVT_POSITION_MAX)
 */
KVT_NODISCARD enum kvt_err kvt_unique_init_sequence(struct kvt_pool *pool, struct kvt_unique handle,
                                                    uint64_t seed,
                                                    const struct kvt_block_info *previous,
                                                    struct kvt_error *err);

/** All or none.  KVT_OK, KVT_INVALID or KVT_RANGE (more than there is room for). */
KVT_NODISCARD enum kvt_err kvt_unique_add_tokens(struct kvt_pool *pool, struct kvt_unique handle,
                                                 const uint32_t *tokens, size_t count,
                                                 struct kvt_error *err);

/** Take the last `count` tokens out.  KVT_OK, KVT_INVALID or KVT_RANGE (more than there are). */
KVT_NODISCARD enum kvt_err kvt_unique_pop_tokens(struct kvt_pool *pool, struct kvt_unique handle,
                                                 size_t count, struct kvt_error *err);

/** Partial -> Complete.  KVT_OK, KVT_INVALID or KVT_PRECONDITION (it is not full). */
KVT_NODISCARD enum kvt_err kvt_unique_commit(struct kvt_pool *pool, struct kvt_unique handle,
                                             struct kvt_error *err);

/** Partial or Complete -> Reset; it stays held.  KVT_OK or KVT_INVALID. */
KVT_NODISCARD enum kvt_err kvt_unique_reset(struct kvt_pool *pool, struct kvt_unique handle,
                                            struct kvt_error *err);

/**
 * Complete -> Registered.  Takes `handle` but where it is refused; *out is none then.
 *
 * @return KVT_OK; KVT_EXISTS (*out is the block that had the name, ours is free); KVT_BUSY (the
 *         name is just coming or going) or KVT_INVALID, and nothing changed
 */
KVT_NODISCARD enum kvt_err kvt_unique_register(struct kvt_pool *pool, struct kvt_unique handle,
                                               struct kvt_shared *out, struct kvt_error *err);

/**
 * The same for several blocks at once, which is cheaper; `results` says of each what
 * kvt_unique_register() would have, and a name that is there twice is KVT_EXISTS or KVT_BUSY the
 * second time.  Returns how many of `out` are held.
 */
size_t kvt_unique_register_all(struct kvt_pool *pool, const struct kvt_unique *handles,
                               size_t count, struct kvt_shared *out, enum kvt_err *results);

/** In any state: the block is free. */
void kvt_unique_drop(struct kvt_pool *pool, struct kvt_unique unique);

/* ---- one of several holders ---- */

/** `info->size` is in. */
void kvt_shared_info(struct kvt_pool *pool, struct kvt_shared shared, struct kvt_block_info *info);

/** One more holder. */
struct kvt_shared kvt_shared_copy(struct kvt_pool *pool, struct kvt_shared shared);

/** 0 .. KVT_PRIORITY_MAX, from the block's next rest on.  KVT_OK or KVT_RANGE. */
KVT_NODISCARD enum kvt_err kvt_shared_set_priority(struct kvt_pool *pool, struct kvt_shared handle,
                                                   uint32_t priority);

/** Several, the last first: of a chain, the end then goes first.  What is none is left out. */
void kvt_shared_drop(struct kvt_pool *pool, const struct kvt_shared *handles, size_t count);

/** Take the handle; the block cannot be found any more, and is free with its last holder.  For
 *  content that proved wrong. */
void kvt_shared_discard(struct kvt_pool *pool, struct kvt_shared shared);

/* ---- and none ---- */

struct kvt_weak kvt_shared_weak(struct kvt_shared shared);

/** Hold the block again.  KVT_OK, or KVT_NOTFOUND with *out none: it lost its name since. */
KVT_NODISCARD enum kvt_err kvt_weak_upgrade(struct kvt_pool *pool, struct kvt_weak handle,
                                            struct kvt_shared *out);

#ifdef __cplusplus
}
#endif

#endif /* KVTIER_KVBM_H */
