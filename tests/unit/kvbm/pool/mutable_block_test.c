/*
 * What is tested: kvbm/pool/mutable_block.h: a block that is filled with tokens gets the published
 * name, and every move at the wrong time is refused with a text of its own and changes nothing.
 */
#include "base/core/alloc.h"
#include "kvbm/pool/block_pool_internal.h"
#include "kvbm/pool/mutable_block.h"
#include "kvtier/token.h"

#include "tests/support/seed.h"

enum { BLOCKS = 4, TOKENS = 4 };

static const uint32_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
static const struct kvbm_label label = {{77, 0, 0}, 77, 0};

static struct kvbm_pool *
new_pool(uint32_t block_tokens)
{
    const struct kvbm_pool_options options = {
        .block_count = BLOCKS, .block_tokens = block_tokens, .prefix_depth = 2};
    struct kvbm_pool *pool;

    assert_int_equal(kvbm_pool_new(&pool, &options), KVT_OK);
    return pool;
}

/* Tokens in a block that init_sequence began; 0 of any other. */
static uint32_t
filled_of(struct kvbm_pool *pool, struct kvt_handle handle)
{
    const struct kvbm_slot *slot = kvbm_pool_slot(pool, handle);

    return slot->state == KVT_BLOCK_PARTIAL && slot->by_tokens ? slot->filled : 0;
}

static void
tokens_name_blocks(void **unused)
{
    static const uint64_t chain[] = {UINT64_C(14643705804678351452), UINT64_C(4945711292740353085),
                                     UINT64_C(12583592247330656132)};
    struct kvbm_pool *pool = new_pool(TOKENS);
    struct kvt_handle handles[3];
    struct kvbm_label previous;

    (void)unused;
    assert_int_equal(kvbm_pool_allocate(pool, 3, handles), KVT_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(kvbm_block_init_sequence(pool, handles[i], KVT_TOKEN_SEED,
                                                  i == 0 ? NULL : &previous, NULL),
                         KVT_OK);
        assert_int_equal(kvbm_block_add_tokens(pool, handles[i], tokens + TOKENS * i, 1, NULL),
                         KVT_OK);
        assert_int_equal(kvbm_block_add_tokens(pool, handles[i], tokens, 2, NULL), KVT_OK);
        assert_int_equal(kvbm_block_pop_tokens(pool, handles[i], 2, NULL), KVT_OK);
        assert_int_equal(filled_of(pool, handles[i]), 1);
        assert_int_equal(kvbm_block_add_tokens(pool, handles[i], tokens + TOKENS * i + 1, 3, NULL),
                         KVT_OK);
        assert_int_equal(kvbm_block_commit(pool, handles[i], NULL), KVT_OK);
        previous = kvbm_pool_label(pool, handles[i]);
        assert_int_equal(previous.id.hash, chain[i]);
        assert_int_equal(previous.id.parent, i == 0 ? 0 : chain[i - 1]);
        assert_int_equal(previous.id.position, i);
        assert_int_equal(previous.prefix_hash, chain[i < 2 ? i : 1]);
        assert_int_equal(previous.tokens_hash,
                         kvt_token_block(tokens + TOKENS * i, TOKENS, NULL, 0, KVT_TOKEN_SEED));
        assert_int_equal(kvbm_pool_register(pool, &handles[i], NULL), KVT_OK);
    }
    kvbm_pool_drop_all(pool, handles, 3);
    kvbm_pool_free(pool);
}

/* ---- refusals ---- */

/* Bring a block to a state. */
enum stage { RESET, NAMED, SEQUENCE, FULL, COMPLETE, REGISTERED, STAGES };

static struct kvt_handle
block_at(struct kvbm_pool *pool, enum stage stage)
{
    struct kvt_handle handle;

    assert_int_equal(kvbm_pool_allocate(pool, 1, &handle), KVT_OK);
    if (stage == NAMED)
        assert_int_equal(kvbm_block_begin(pool, handle, NULL), KVT_OK);
    if (stage >= SEQUENCE)
        assert_int_equal(kvbm_block_init_sequence(pool, handle, 0, NULL, NULL), KVT_OK);
    if (stage >= FULL)
        assert_int_equal(kvbm_block_add_tokens(pool, handle, tokens, TOKENS, NULL), KVT_OK);
    if (stage >= COMPLETE)
        assert_int_equal(kvbm_block_commit(pool, handle, NULL), KVT_OK);
    if (stage >= REGISTERED)
        assert_int_equal(kvbm_pool_register(pool, &handle, NULL), KVT_OK);
    return handle;
}

enum move { BEGIN, NAME, INIT, ADD, POP, COMMIT, REGISTER, DO_RESET, MOVES };

static enum kvt_err
try_move(struct kvbm_pool *pool, struct kvt_handle *handle, enum move move, struct kvt_error *err)
{
    switch (move) {
    case BEGIN: return kvbm_block_begin(pool, *handle, err);
    case NAME: return kvbm_block_complete(pool, *handle, &label, err);
    case INIT: return kvbm_block_init_sequence(pool, *handle, 0, NULL, err);
    case ADD: return kvbm_block_add_tokens(pool, *handle, tokens, 1, err);
    case POP: return kvbm_block_pop_tokens(pool, *handle, 1, err);
    case COMMIT: return kvbm_block_commit(pool, *handle, err);
    case REGISTER: return kvbm_pool_register(pool, handle, err);
    case DO_RESET: return kvbm_block_reset(pool, *handle, err);
    case MOVES: break;
    }
    return KVT_INVALID;
}

/* What each move says in each stage; NULL: it is made. */
static const char *const said[MOVES][STAGES] = {
    [BEGIN] = {NULL, "a block may not go from partial to partial",
               "a block may not go from partial to partial",
               "a block may not go from partial to partial",
               "a block may not go from complete to partial",
               "a block may not go from registered to partial"},
    [NAME] = {"a block may not go from reset to complete", NULL,
              "a block that was begun with a sequence is named by commit",
              "a block that was begun with a sequence is named by commit",
              "a block may not go from complete to complete",
              "a block may not go from registered to complete"},
    [INIT] = {NULL, "a sequence is begun in a reset block, this one is partial",
              "a sequence is begun in a reset block, this one is partial",
              "a sequence is begun in a reset block, this one is partial",
              "a sequence is begun in a reset block, this one is complete",
              "a sequence is begun in a reset block, this one is registered"},
    [ADD] = {"tokens are added to a partial block, this one is reset",
             "tokens are added to a block that was begun with a sequence, this one was not", NULL,
             "1 tokens do not fit: the block has 4 of 4",
             "tokens are added to a partial block, this one is complete",
             "tokens are added to a partial block, this one is registered"},
    [POP] = {"tokens are taken out of a partial block, this one is reset",
             "tokens are taken out of a block that was begun with a sequence, this one was not",
             "1 tokens cannot be taken out: the block has 0", NULL,
             "tokens are taken out of a partial block, this one is complete",
             "tokens are taken out of a partial block, this one is registered"},
    [COMMIT] = {"commit is of a partial block, this one is reset",
                "commit is of a block that was begun with a sequence, this one was not",
                "a block is committed when it is full: it has 0 of 4 tokens", NULL,
                "commit is of a partial block, this one is complete",
                "commit is of a partial block, this one is registered"},
    [REGISTER] = {"a block is registered when it is complete, this one is reset",
                  "a block is registered when it is complete, this one is partial",
                  "a block is registered when it is complete, this one is partial",
                  "a block is registered when it is complete, this one is partial", NULL,
                  "a block is registered when it is complete, this one is registered"},
    [DO_RESET] = {"a block may not go from reset to reset", NULL, NULL, NULL, NULL,
                  "a registered block is not reset by a holder"},
};

static const enum kvt_block_state state_at[STAGES] = {
    KVT_BLOCK_RESET,   KVT_BLOCK_PARTIAL,  KVT_BLOCK_PARTIAL,
    KVT_BLOCK_PARTIAL, KVT_BLOCK_COMPLETE, KVT_BLOCK_REGISTERED,
};

static bool
is_same(const struct kvbm_label *a, const struct kvbm_label *b)
{
    return a->id.hash == b->id.hash && a->id.parent == b->id.parent &&
           a->id.position == b->id.position && a->prefix_hash == b->prefix_hash &&
           a->tokens_hash == b->tokens_hash;
}

static void
every_move_in_every_stage(void **unused)
{
    struct kvbm_pool *pool = new_pool(TOKENS);

    (void)unused;
    for (unsigned move = 0; move < MOVES; move++) {
        for (unsigned stage = 0; stage < STAGES; stage++) {
            struct kvt_handle handle = block_at(pool, (enum stage)stage);
            const struct kvbm_label before = kvbm_pool_label(pool, handle);
            const uint32_t filled = filled_of(pool, handle);
            struct kvt_error err = {.code = KVT_OK};
            const enum kvt_err rc = try_move(pool, &handle, (enum move)move, &err);

            if (said[move][stage] == NULL) {
                assert_int_equal(rc, KVT_OK);
            } else {
                const struct kvbm_label after = kvbm_pool_label(pool, handle);

                assert_int_not_equal(rc, KVT_OK);
                assert_int_equal(err.code, rc);
                assert_string_equal(err.text, said[move][stage]);
                assert_int_equal(kvbm_pool_state(pool, handle), state_at[stage]);
                assert_int_equal(filled_of(pool, handle), filled);
                assert_true(is_same(&after, &before));
            }
            kvbm_pool_drop(pool, handle);
            (void)kvbm_pool_clear(pool);
            assert_int_equal(kvbm_pool_stats(pool).free, BLOCKS);
        }
    }
    kvbm_pool_free(pool);
}

static void
limits_of_a_sequence(void **unused)
{
    struct kvbm_pool *pool = new_pool(0);
    const struct kvbm_label last = {{9, 8, KVT_POSITION_MAX}, 7, 0};
    struct kvt_handle handle;
    struct kvt_error err;

    (void)unused;
    assert_int_equal(kvbm_pool_allocate(pool, 1, &handle), KVT_OK);
    assert_int_equal(kvbm_block_init_sequence(pool, handle, 0, NULL, &err), KVT_UNSUPPORTED);
    assert_string_equal(err.text, "this pool's blocks keep no tokens");
    kvbm_pool_drop(pool, handle);
    kvbm_pool_free(pool);

    pool = new_pool(TOKENS);
    assert_int_equal(kvbm_pool_allocate(pool, 1, &handle), KVT_OK);
    assert_int_equal(kvbm_block_init_sequence(pool, handle, 0, &last, &err), KVT_RANGE);
    assert_int_equal(kvbm_pool_state(pool, handle), KVT_BLOCK_RESET);
    kvbm_pool_drop(pool, handle);
    kvbm_pool_free(pool);
}

/* ---- a name on its way ---- */

static void
on_store(void *arg, const struct kvbm_label *stored)
{
    (void)arg;
    (void)stored;
}

static void
a_name_that_comes_is_busy(void **unused)
{
    const struct kvbm_pool_options options = {.block_count = 2, .on_store = on_store};
    struct kvt_handle handles[2];
    enum kvt_err results[2];
    struct kvbm_pool *pool;

    (void)unused;
    assert_int_equal(kvbm_pool_new(&pool, &options), KVT_OK);
    assert_int_equal(kvbm_pool_allocate(pool, 2, handles), KVT_OK);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(kvbm_block_begin(pool, handles[i], NULL), KVT_OK);
        assert_int_equal(kvbm_block_complete(pool, handles[i], &label, NULL), KVT_OK);
    }
    assert_int_equal(kvbm_pool_register_all(pool, handles, 2, results), 1);
    assert_int_equal(results[0], KVT_OK);
    assert_int_equal(results[1], KVT_BUSY);
    assert_int_equal(kvbm_pool_state(pool, handles[1]), KVT_BLOCK_COMPLETE);
    assert_int_equal(kvbm_pool_register(pool, &handles[1], NULL), KVT_EXISTS);
    kvbm_pool_drop_all(pool, handles, 2);
    kvbm_pool_free(pool);
    assert_int_equal(kvt_alloc_live(), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_name_blocks),
        cmocka_unit_test(every_move_in_every_stage),
        cmocka_unit_test(limits_of_a_sequence),
        cmocka_unit_test(a_name_that_comes_is_busy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
