#include "kvbm/pool/block_state.h"

#include <assert.h>

#define BIT(state) (1u << (unsigned)KVT_BLOCK_##state)

static const unsigned legal_targets[KVT_BLOCK_STATE_COUNT] = {
    [KVT_BLOCK_RESET] = BIT(PARTIAL),
    [KVT_BLOCK_PARTIAL] = BIT(COMPLETE) | BIT(RESET),
    [KVT_BLOCK_COMPLETE] = BIT(REGISTERED) | BIT(RESET),
    [KVT_BLOCK_REGISTERED] = BIT(RESET),
};

const char *
kvbm_block_state_name(enum kvt_block_state state)
{
    switch (state) {
    case KVT_BLOCK_RESET: return "reset";
    case KVT_BLOCK_PARTIAL: return "partial";
    case KVT_BLOCK_COMPLETE: return "complete";
    case KVT_BLOCK_REGISTERED: return "registered";
    case KVT_BLOCK_STATE_COUNT: break;
    }
    return "?";
}

bool
kvbm_block_state_may_move(enum kvt_block_state from, enum kvt_block_state to)
{
    if ((unsigned)from >= KVT_BLOCK_STATE_COUNT || (unsigned)to >= KVT_BLOCK_STATE_COUNT)
        return false;
    return (legal_targets[from] & (1u << (unsigned)to)) != 0;
}

enum kvt_err
kvbm_block_state_move(enum kvt_block_state *state, enum kvt_block_state to, struct kvt_error *err)
{
    assert(state != NULL);
    if (!kvbm_block_state_may_move(*state, to))
        return kvt_error_set(err, KVT_INVALID, "a block may not go from %s to %s",
                             kvbm_block_state_name(*state), kvbm_block_state_name(to));
    *state = to;
    return KVT_OK;
}
