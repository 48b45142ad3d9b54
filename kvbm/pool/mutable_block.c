#include "kvbm/pool/mutable_block.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "kvbm/pool/block_pool_internal.h"
#include "kvtier/token.h"

/* ---- states ---- */

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

static bool
may_move(enum kvt_block_state from, enum kvt_block_state to)
{
    if ((unsigned)from >= KVT_BLOCK_STATE_COUNT || (unsigned)to >= KVT_BLOCK_STATE_COUNT)
        return false;
    return (legal_targets[from] & (1u << (unsigned)to)) != 0;
}

enum kvt_err
kvbm_block_state_move(enum kvt_block_state *state, enum kvt_block_state to, struct kvt_error *err)
{
    assert(state != NULL);
    if (!may_move(*state, to))
        return kvt_error_set(err, KVT_INVALID, "a block may not go from %s to %s",
                             kvbm_block_state_name(*state), kvbm_block_state_name(to));
    *state = to;
    return KVT_OK;
}

/* ---- moves ---- */

enum kvt_err
kvbm_block_begin(struct kvbm_pool *pool, struct kvt_handle handle, struct kvt_error *err)
{
    struct kvbm_slot *slot = kvbm_pool_slot(pool, handle);
    const enum kvt_err rc = kvbm_block_state_move(&slot->state, KVT_BLOCK_PARTIAL, err);

    if (rc == KVT_OK)
        slot->by_tokens = false;
    return rc;
}

enum kvt_err
kvbm_block_complete(struct kvbm_pool *pool, struct kvt_handle handle,
                    const struct kvbm_label *label, struct kvt_error *err)
{
    struct kvbm_slot *slot = kvbm_pool_slot(pool, handle);
    enum kvt_err rc;

    assert(label != NULL);
    if (slot->state == KVT_BLOCK_PARTIAL && slot->by_tokens)
        return kvt_error_set(err, KVT_INVALID,
                             "a block that was begun with a sequence is named by commit");
    rc = kvbm_block_state_move(&slot->state, KVT_BLOCK_COMPLETE, err);
    if (rc == KVT_OK)
        slot->label = *label;
    return rc;
}

enum kvt_err
kvbm_block_init_sequence(struct kvbm_pool *pool, struct kvt_handle handle, uint64_t seed,
                         const struct kvbm_label *previous, struct kvt_error *err)
{
    struct kvbm_slot *slot = kvbm_pool_slot(pool, handle);

    if (pool->block_tokens == 0)
        return kvt_error_set(err, KVT_UNSUPPORTED, "this pool's blocks keep no tokens");
    if (slot->state != KVT_BLOCK_RESET)
        return kvt_error_set(err, KVT_INVALID,
                             "a sequence is begun in a reset block, this one is %s",
                             kvbm_block_state_name(slot->state));
    if (previous != NULL && previous->id.position >= KVT_POSITION_MAX)
        return kvt_error_set(err, KVT_RANGE, "a sequence has no more than %u blocks",
                             KVT_POSITION_MAX + 1);
    slot->state = KVT_BLOCK_PARTIAL;
    slot->by_tokens = true;
    slot->filled = 0;
    slot->label = (struct kvbm_label){.tokens_hash = seed};
    if (previous != NULL) {
        slot->label.id.parent = previous->id.hash;
        slot->label.id.position = previous->id.position + 1;
        slot->label.prefix_hash = previous->prefix_hash;
    }
    return KVT_OK;
}

/* A Partial block with tokens; `wish` says what cannot be done with any other. */
static enum kvt_err
need_tokens(const struct kvbm_slot *slot, const char *wish, struct kvt_error *err)
{
    if (slot->state != KVT_BLOCK_PARTIAL)
        return kvt_error_set(err, KVT_INVALID, "%s a partial block, this one is %s", wish,
                             kvbm_block_state_name(slot->state));
    if (!slot->by_tokens)
        return kvt_error_set(err, KVT_INVALID,
                             "%s a block that was begun with a sequence, this one was not", wish);
    return KVT_OK;
}

static uint32_t *
tokens_of(struct kvbm_pool *pool, struct kvt_handle handle)
{
    return &pool->tokens[(size_t)handle.block * pool->block_tokens];
}

enum kvt_err
kvbm_block_add_tokens(struct kvbm_pool *pool, struct kvt_handle handle, const uint32_t *tokens,
                      size_t count, struct kvt_error *err)
{
    struct kvbm_slot *slot = kvbm_pool_slot(pool, handle);
    enum kvt_err rc = need_tokens(slot, "tokens are added to", err);

    if (rc != KVT_OK)
        return rc;
    if (count > pool->block_tokens - slot->filled)
        return kvt_error_set(err, KVT_RANGE,
                             "%zu tokens do not fit: the block has %" PRIu32 " of %" PRIu32, count,
                             slot->filled, pool->block_tokens);
    if (count > 0)
        memcpy(tokens_of(pool, handle) + slot->filled, tokens, count * sizeof(*tokens));
    slot->filled += (uint32_t)count;
    return KVT_OK;
}

enum kvt_err
kvbm_block_pop_tokens(struct kvbm_pool *pool, struct kvt_handle handle, size_t count,
                      struct kvt_error *err)
{
    struct kvbm_slot *slot = kvbm_pool_slot(pool, handle);
    const enum kvt_err rc = need_tokens(slot, "tokens are taken out of", err);

    if (rc != KVT_OK)
        return rc;
    if (count > slot->filled)
        return kvt_error_set(err, KVT_RANGE,
                             "%zu tokens cannot be taken out: the block has %" PRIu32, count,
                             slot->filled);
    slot->filled -= (uint32_t)count;
    return KVT_OK;
}

enum kvt_err
kvbm_block_commit(struct kvbm_pool *pool, struct kvt_handle handle, struct kvt_error *err)
{
    struct kvbm_slot *slot = kvbm_pool_slot(pool, handle);
    struct kvbm_label *label = &slot->label;
    const enum kvt_err rc = need_tokens(slot, "commit is of", err);
    uint64_t local;

    if (rc != KVT_OK)
        return rc;
    if (slot->filled < pool->block_tokens)
        return kvt_error_set(err, KVT_PRECONDITION,
                             "a block is committed when it is full: it has %" PRIu32 " of %" PRIu32
                             " tokens",
                             slot->filled, pool->block_tokens);
    local = kvt_token_block(tokens_of(pool, handle), slot->filled, NULL, 0, label->tokens_hash);
    label->tokens_hash = local;
    label->id.hash = label->id.position == 0 ? local : kvt_token_chain(label->id.parent, local);
    if (label->id.position < pool->prefix_depth)
        label->prefix_hash = label->id.hash;
    slot->state = KVT_BLOCK_COMPLETE;
    return KVT_OK;
}

enum kvt_err
kvbm_block_reset(struct kvbm_pool *pool, struct kvt_handle handle, struct kvt_error *err)
{
    struct kvbm_slot *slot = kvbm_pool_slot(pool, handle);
    enum kvt_err rc;

    if (slot->state == KVT_BLOCK_REGISTERED)
        /* Legal for the pool itself; a holder that may share the block must evict or discard it. */
        return kvt_error_set(err, KVT_INVALID, "a registered block is not reset by a holder");
    rc = kvbm_block_state_move(&slot->state, KVT_BLOCK_RESET, err);
    if (rc == KVT_OK)
        slot->label = (struct kvbm_label){0};
    return rc;
}
