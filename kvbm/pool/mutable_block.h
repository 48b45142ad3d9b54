/*
 * kvbm/pool/mutable_block.h -- what the one holder of a block does before it is registered.
 *
 * Why: a block is only found by its name after it was completely written, and its name says what
 * was written.  A block gets its name in one of two ways:
 *
 *   from its tokens  kvbm_block_init_sequence, kvbm_block_add_tokens until it is full,
 *                    kvbm_block_commit: the pool makes the name (kvtier/token.h)
 *   from outside     kvbm_block_begin, kvbm_block_complete: the holder knows the name
 *
 * A block goes Reset -> Partial -> Complete -> Registered, and from each of the last three back to
 * Reset.  Every move at the wrong time, or of too much, is refused and changes nothing, in release
 * builds too; each refusal has its own text.
 *
 * Ownership: all of it is of a block that the caller alone holds.
 * Threads:   none: one thread at a time uses such a block, and no lock is taken.
 * Limits:    `block_tokens` of the pool; KVT_POSITION_MAX.
 */
#ifndef KVBM_POOL_MUTABLE_BLOCK_H
#define KVBM_POOL_MUTABLE_BLOCK_H

#include "kvbm/pool/block_pool.h"

/** "reset", "partial", "complete", "registered"; "?" for anything else. */
const char *kvbm_block_state_name(enum kvt_block_state state);

/** Move `state` to `to`.  KVT_INVALID (with both names in `err`) leaves it as it is. */
KVT_NODISCARD enum kvt_err kvbm_block_state_move(enum kvt_block_state *state,
                                                 enum kvt_block_state to, struct kvt_error *err);

/** Reset -> Partial: bytes are being written.  KVT_OK or KVT_INVALID. */
KVT_NODISCARD enum kvt_err kvbm_block_begin(struct kvbm_pool *pool, struct kvt_handle handle,
                                            struct kvt_error *err);

/** Partial -> Complete, under this name.  KVT_OK or KVT_INVALID. */
KVT_NODISCARD enum kvt_err kvbm_block_complete(struct kvbm_pool *pool, struct kvt_handle handle,
                                               const struct kvbm_label *label,
                                               struct kvt_error *err);

/**
 * Reset -> Partial, with no tokens yet.
 *
 * @param seed      of its tokens' hash: kvt_token_seed() of adapter and salt
 * @param previous  what the block before it in its sequence is called; NULL: it is the first
 * @return KVT_OK, KVT_INVALID, KVT_UNSUPPORTED (the pool keeps no tokens), or KVT_RANGE (the
 *         position is past KVT_POSITION_MAX)
 */
KVT_NODISCARD enum kvt_err kvbm_block_init_sequence(struct kvbm_pool *pool,
                                                    struct kvt_handle handle, uint64_t seed,
                                                    const struct kvbm_label *previous,
                                                    struct kvt_error *err);

/** All or none.  KVT_OK, KVT_INVALID, or KVT_RANGE (more than there is room for). */
KVT_NODISCARD enum kvt_err kvbm_block_add_tokens(struct kvbm_pool *pool, struct kvt_handle handle,
                                                 const uint32_t *tokens, size_t count,
                                                 struct kvt_error *err);

/** Take the last `count` tokens out again.  KVT_OK, KVT_INVALID, or KVT_RANGE (more than there
 *  are). */
KVT_NODISCARD enum kvt_err kvbm_block_pop_tokens(struct kvbm_pool *pool, struct kvt_handle handle,
                                                 size_t count, struct kvt_error *err);

/** Partial -> Complete, named by its tokens.  KVT_OK, KVT_INVALID, or KVT_PRECONDITION (it is not
 *  full). */
KVT_NODISCARD enum kvt_err kvbm_block_commit(struct kvbm_pool *pool, struct kvt_handle handle,
                                             struct kvt_error *err);

/** Partial or Complete -> Reset; it stays held.  KVT_OK or KVT_INVALID. */
KVT_NODISCARD enum kvt_err kvbm_block_reset(struct kvbm_pool *pool, struct kvt_handle handle,
                                            struct kvt_error *err);

#endif /* KVBM_POOL_MUTABLE_BLOCK_H */
