/*
 * kvbm/pool/block_state.h -- the legal moves of a block's life.
 *
 * Why: bytes are only found by a hash after they were completely written.  That is a promise about
 * the order of moves, so an illegal one is refused with an error, in release builds too.
 *
 *   Reset -> Partial -> Complete -> Registered,  and from each of the last three back to Reset
 *
 * Threads:   no shared state.
 */
#ifndef KVBM_POOL_BLOCK_STATE_H
#define KVBM_POOL_BLOCK_STATE_H

#include <stdbool.h>

#include "kvtier/error.h"
#include "kvtier/kvbm.h"

/** "reset", "partial", "complete", "registered"; "?" for anything else. */
const char *kvbm_block_state_name(enum kvt_block_state state);

bool kvbm_block_state_may_move(enum kvt_block_state from, enum kvt_block_state to);

/** Move `state` to `to`.  KVT_INVALID (with both names in `err`) leaves it as it is. */
KVT_NODISCARD enum kvt_err kvbm_block_state_move(enum kvt_block_state *state,
                                                 enum kvt_block_state to, struct kvt_error *err);

#endif /* KVBM_POOL_BLOCK_STATE_H */
