#include "tests/unit/kvbm/pool/block_pool_model.h"

#include <string.h>

#include "kvtier/token.h"

#include "tests/support/seed.h"

struct test_model model;

/* ---- the tree of names ---- */

static void
token_of(unsigned node, uint32_t tokens[TOKENS])
{
    for (size_t i = 0; i < TOKENS; i++)
        tokens[i] = node;
}

static void
name_nodes(void)
{
    for (unsigned node = 1; node <= NODES; node++) {
        const struct kvbm_label *parent = &model.labels[node / 2];
        struct kvbm_label *label = &model.labels[node];
        uint32_t tokens[TOKENS];

        token_of(node, tokens);
        label->tokens_hash = kvt_token_block(tokens, TOKENS, NULL, 0, KVT_TOKEN_SEED);
        label->id.hash =
            node == 1 ? label->tokens_hash : kvt_token_chain(parent->id.hash, label->tokens_hash);
        label->id.parent = parent->id.hash;
        label->id.position = node == 1 ? 0 : parent->id.position + 1;
        label->prefix_hash = label->id.hash; /* no node is as deep as the prefix */
    }
}

static unsigned
node_of(uint64_t hash)
{
    for (unsigned node = 1; node <= NODES; node++)
        if (model.labels[node].id.hash == hash)
            return node;
    fail_msg("a name that no node has");
    return 0;
}

/* The block that has the name, or BLOCKS. */
uint32_t
test_model_listed(unsigned node)
{
    for (uint32_t i = 0; i < BLOCKS; i++)
        if (model.blocks[i].listed && model.blocks[i].node == node)
            return i;
    return BLOCKS;
}

/* ---- what the world is told ---- */

void
test_model_on_store(void *arg, const struct kvbm_label *label)
{
    const unsigned node = node_of(label->id.hash);

    (void)arg;
    /* Member by member: what lies between them is no part of a label. */
    assert_int_equal(label->id.hash, model.labels[node].id.hash);
    assert_int_equal(label->id.parent, model.labels[node].id.parent);
    assert_int_equal(label->id.position, model.labels[node].id.position);
    assert_int_equal(label->prefix_hash, model.labels[node].prefix_hash);
    assert_int_equal(label->tokens_hash, model.labels[node].tokens_hash);
    assert_false(model.told[node]);
    model.told[node] = true;
}

void
test_model_on_remove(void *arg, const struct kvbm_label *label)
{
    const unsigned node = node_of(label->id.hash);

    (void)arg;
    assert_true(model.told[node]);
    model.told[node] = false;
    if (model.order != KVT_POOL_ORDER_ORDERING) {
        assert_true(model.gone < model.going_count);
        assert_int_equal(node, model.going[model.gone]);
    }
    model.gone++;
}

/* ---- who goes next ---- */

static bool
may_go(uint32_t block, const bool *excluded)
{
    if (!model.blocks[block].waits || excluded[block])
        return false;
    for (uint32_t i = 0; i < BLOCKS && model.order == KVT_POOL_ORDER_LINEAGE; i++)
        if (model.blocks[i].listed && !excluded[i] &&
            model.blocks[i].node / 2 == model.blocks[block].node)
            return false;
    return true;
}

static bool
goes_before(const struct model_block *a, const struct model_block *b)
{
    return a->level != b->level ? a->level < b->level : a->tick < b->tick;
}

/* The blocks that go first, up to `count`. */
size_t
test_model_foretell(uint32_t *victims, size_t count)
{
    bool excluded[BLOCKS] = {false};
    size_t found = 0;

    while (found < count) {
        uint32_t best = BLOCKS;

        for (uint32_t i = 0; i < BLOCKS; i++)
            if (may_go(i, excluded) &&
                (best == BLOCKS || goes_before(&model.blocks[i], &model.blocks[best])))
                best = i;
        if (best == BLOCKS)
            break;
        excluded[best] = true;
        victims[found++] = best;
    }
    return found;
}

void
test_model_expect(const uint32_t *blocks, size_t count)
{
    model.gone = 0;
    model.going_count = count;
    for (size_t i = 0; i < count; i++)
        model.going[i] = model.blocks[blocks[i]].node;
}

/* ---- handles ---- */

void
test_model_forget(uint32_t block)
{
    model.blocks[block] = (struct model_block){.stage = RESET};
}

void
test_model_add(struct kvt_handle handle)
{
    struct model_block *block = &model.blocks[handle.block];

    assert_true(model.held_count < HANDLES);
    model.held[model.held_count++] = handle;
    block->holders++;
    block->waits = false;
}

void
test_model_found(struct kvt_handle handle, unsigned node)
{
    assert_int_equal(test_model_listed(node), handle.block);
    assert_int_equal(handle.generation, model.generations[handle.block]);
    model.blocks[handle.block].aside = false;
    test_model_add(handle);
}

struct kvt_handle
test_model_take(size_t at)
{
    const struct kvt_handle handle = model.held[at];

    model.held[at] = model.held[--model.held_count];
    assert_true(model.blocks[handle.block].holders > 0);
    model.blocks[handle.block].holders--;
    return handle;
}

/* The last holder let go. */
void
test_model_put(uint32_t at, bool cold)
{
    struct model_block *block = &model.blocks[at];

    if (block->holders > 0)
        return;
    if (!block->listed) {
        test_model_forget(at);
        return;
    }
    block->waits = true;
    block->tick = cold ? --model.cold : ++model.warm;
    block->level = model.order == KVT_POOL_ORDER_PRIORITY && !cold ? block->priority : 0;
}

/* ---- moves of one block ---- */

bool
test_model_may_move(enum move move, enum stage stage)
{
    switch (move) {
    case BEGIN:
    case INIT: return stage == RESET;
    case NAME: return stage == NAMED;
    case ADD: return stage == EMPTY || stage == PART;
    case POP: return stage == PART || stage == FULL;
    case COMMIT: return stage == FULL;
    case REGISTER: return stage == COMPLETE;
    case DO_RESET: return stage != RESET && stage != REGISTERED;
    case MOVES: break;
    }
    return false;
}

static enum stage
stage_filled(uint32_t filled)
{
    return filled == 0 ? EMPTY : filled < TOKENS ? PART : FULL;
}

static enum kvt_err
ask(struct kvt_handle *handle, enum move move, unsigned node, struct kvt_error *err)
{
    const struct kvbm_label *previous = node == 1 ? NULL : &model.labels[node / 2];
    uint32_t tokens[TOKENS];

    token_of(node, tokens);
    switch (move) {
    case BEGIN: return kvbm_block_begin(model.pool, *handle, err);
    case NAME: return kvbm_block_complete(model.pool, *handle, &model.labels[node], err);
    case INIT: return kvbm_block_init_sequence(model.pool, *handle, KVT_TOKEN_SEED, previous, err);
    case ADD: return kvbm_block_add_tokens(model.pool, *handle, tokens, 1, err);
    case POP: return kvbm_block_pop_tokens(model.pool, *handle, 1, err);
    case COMMIT: return kvbm_block_commit(model.pool, *handle, err);
    case REGISTER: return kvbm_pool_register(model.pool, handle, err);
    case DO_RESET: return kvbm_block_reset(model.pool, *handle, err);
    case MOVES: break;
    }
    return KVT_INVALID;
}

/* Register a complete block: held[at] may become another. */
void
test_model_registered(size_t at, struct kvt_handle handle, uint32_t known, enum kvt_err rc)
{
    const uint32_t before = model.held[at].block;
    struct model_block *block = &model.blocks[before];

    if (known == BLOCKS) {
        assert_int_equal(rc, KVT_OK);
        block->stage = REGISTERED;
        block->listed = true;
        return;
    }
    model.events[EVENT_DUPLICATE]++;
    if (model.dedup == KVT_POOL_DEDUP_ALLOW) {
        assert_int_equal(rc, KVT_OK);
        block->stage = REGISTERED;
        return;
    }
    assert_int_equal(rc, KVT_EXISTS);
    assert_int_equal(handle.block, known);
    (void)test_model_take(at);
    test_model_put(before, false);
    test_model_add(handle);
}

void
test_model_move(size_t at, enum move move, unsigned node)
{
    struct kvt_handle handle = model.held[at];
    struct model_block *block = &model.blocks[handle.block];
    const enum stage stage = block->stage;
    struct kvt_error err = {.code = KVT_OK};
    uint32_t known;
    enum kvt_err rc;

    if (stage == RESET)
        block->node = node;
    known = test_model_listed(block->node);
    rc = ask(&handle, move, block->node, &err);
    if (!test_model_may_move(move, stage)) {
        assert_true(rc != KVT_OK && rc == err.code && err.text[0] != '\0');
        assert_int_equal(handle.block, model.held[at].block);
        model.refused[move][stage]++;
        return;
    }
    model.moved[move][stage]++;
    if (move == REGISTER) {
        test_model_registered(at, handle, known, rc);
        return;
    }
    assert_int_equal(rc, KVT_OK);
    switch (move) {
    case BEGIN: block->stage = NAMED; break;
    case INIT:
        block->filled = 0;
        block->stage = EMPTY;
        break;
    case ADD: block->stage = stage_filled(++block->filled); break;
    case POP: block->stage = stage_filled(--block->filled); break;
    case NAME:
    case COMMIT: block->stage = COMPLETE; break;
    default: block->stage = RESET; break;
    }
}

void
test_model_start(enum kvt_pool_order order, enum kvt_pool_dedup dedup)
{
    memset(&model, 0, sizeof(model));
    model.order = order;
    model.dedup = dedup;
    name_nodes();
}
