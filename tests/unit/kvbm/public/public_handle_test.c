/*
 * What is tested: pools of kvtier/kvbm.h as a stranger sees them: three kinds of handles, names
 * from tokens and from outside, callers compiled with a smaller and with a larger structure, and
 * every allocation failed once.  What a pool does below this is tested on kvbm/pool/block_pool.h.
 */
#include <string.h>

#include "base/core/alloc.h"
#include "kvtier/kvbm.h"
#include "kvtier/token.h"

#include "tests/support/seed.h"

enum { BLOCKS = 4, TOKENS = 4 };

static struct {
    unsigned stored;
    unsigned removed;
    uint64_t hash;
} heard;

static void
on_store(void *arg, const struct kvt_block_info *info)
{
    assert_ptr_equal(arg, &heard);
    assert_int_equal(info->size, sizeof(*info));
    heard.stored++;
    heard.hash = info->id.hash;
}

static void
on_remove(void *arg, const struct kvt_block_info *info)
{
    assert_ptr_equal(arg, &heard);
    heard.removed++;
    heard.hash = info->id.hash;
}

static struct kvt_pool *
new_pool(void)
{
    const struct kvt_pool_options options = {.size = sizeof(options),
                                             .block_count = BLOCKS,
                                             .block_tokens = TOKENS,
                                             .order = KVT_POOL_ORDER_LINEAGE,
                                             .on_store = on_store,
                                             .on_remove = on_remove,
                                             .arg = &heard};
    struct kvt_pool *pool;

    memset(&heard, 0, sizeof(heard));
    assert_int_equal(kvt_pool_new(&pool, &options, NULL), KVT_OK);
    return pool;
}

/* A registered block, the first of its sequence. */
static struct kvt_shared
make(struct kvt_pool *pool, uint32_t token)
{
    const uint32_t tokens[TOKENS] = {token, token, token, token};
    struct kvt_unique unique;
    struct kvt_shared shared;

    assert_int_equal(kvt_pool_allocate(pool, 1, &unique, 0), KVT_OK);
    assert_int_equal(kvt_unique_init_sequence(pool, unique, KVT_TOKEN_SEED, NULL, NULL), KVT_OK);
    assert_int_equal(kvt_unique_add_tokens(pool, unique, tokens, TOKENS, NULL), KVT_OK);
    assert_int_equal(kvt_unique_pop_tokens(pool, unique, 1, NULL), KVT_OK);
    assert_int_equal(kvt_unique_commit(pool, unique, NULL), KVT_PRECONDITION);
    assert_int_equal(kvt_unique_add_tokens(pool, unique, tokens, 1, NULL), KVT_OK);
    assert_int_equal(kvt_unique_commit(pool, unique, NULL), KVT_OK);
    assert_int_equal(kvt_unique_state(pool, unique), KVT_BLOCK_COMPLETE);
    assert_int_equal(kvt_unique_register(pool, unique, &shared, NULL), KVT_OK);
    return shared;
}

static void
a_life(void **unused)
{
    struct kvt_pool *pool = new_pool();
    struct kvt_shared first = make(pool, 7);
    struct kvt_block_info info = {.size = sizeof(info)};
    struct kvt_shared found[2];
    struct kvt_shared again;
    struct kvt_unique unique;
    struct kvt_weak weak;
    uint64_t hashes[2];

    (void)unused;
    kvt_shared_info(pool, first, &info);
    assert_int_equal(heard.stored, 1);
    assert_int_equal(heard.hash, info.id.hash);
    assert_true(kvt_pool_has(pool, info.id.hash));

    /* The second of the sequence, begun after the first; then the same name from outside. */
    assert_int_equal(kvt_pool_allocate(pool, 1, &unique, 0), KVT_OK);
    assert_int_equal(kvt_unique_init_sequence(pool, unique, KVT_TOKEN_SEED, &info, NULL), KVT_OK);
    assert_int_equal(kvt_unique_reset(pool, unique, NULL), KVT_OK);
    assert_int_equal(kvt_unique_begin(pool, unique, NULL), KVT_OK);
    assert_int_equal(kvt_unique_register(pool, unique, &again, NULL), KVT_INVALID);
    assert_int_equal(again.handle.generation, 0);
    assert_int_equal(kvt_unique_complete(pool, unique, &info, NULL), KVT_OK);
    assert_int_equal(kvt_unique_register(pool, unique, &again, NULL), KVT_EXISTS);
    assert_memory_equal(&again, &first, sizeof(first));

    hashes[0] = info.id.hash + 1;
    hashes[1] = info.id.hash;
    memset(found, 0xee, sizeof(found));
    assert_int_equal(kvt_pool_match(pool, hashes, 2, found), 0);
    assert_int_equal(found[0].handle.generation, 0);
    assert_int_equal(found[1].handle.generation, 0);
    kvt_shared_drop(pool, found, 2); /* none are left out */
    assert_int_equal(kvt_pool_scan(pool, hashes, 2, found), 1);
    assert_int_equal(found[0].handle.generation, 0);
    assert_int_equal(found[1].handle.block, first.handle.block);
    kvt_shared_drop(pool, found, 2);
    again = kvt_shared_copy(pool, first);
    kvt_shared_drop(pool, &again, 1);
    kvt_shared_drop(pool, &again, 1); /* of register */
    assert_int_equal(kvt_shared_set_priority(pool, first, KVT_PRIORITY_MAX + 1), KVT_RANGE);
    assert_int_equal(kvt_shared_set_priority(pool, first, 3), KVT_OK);

    weak = kvt_shared_weak(first);
    kvt_shared_drop(pool, &first, 1);
    assert_int_equal(kvt_weak_upgrade(pool, weak, &again), KVT_OK);
    kvt_shared_discard(pool, again);
    assert_int_equal(heard.removed, 1);
    assert_int_equal(kvt_weak_upgrade(pool, weak, &again), KVT_NOTFOUND);
    assert_int_equal(kvt_weak_upgrade(pool, (struct kvt_weak){{0}}, &again), KVT_NOTFOUND);
    assert_int_equal(again.handle.generation, 0);

    first = make(pool, 8);
    kvt_shared_drop(pool, &first, 1);
    assert_int_equal(kvt_pool_clear(pool), 1);
    kvt_pool_free(pool);
    kvt_pool_free(NULL);
    assert_int_equal(kvt_alloc_live(), 0);
}

static void
all_or_none(void **unused)
{
    struct kvt_pool *pool = new_pool();
    struct kvt_unique handles[BLOCKS + 1];

    (void)unused;
    memset(handles, 1, sizeof(handles));
    assert_int_equal(kvt_pool_allocate(pool, BLOCKS + 1, handles, 0), KVT_AGAIN);
    for (size_t i = 0; i <= BLOCKS; i++)
        assert_int_equal(handles[i].handle.generation, 0);
    assert_int_equal(kvt_pool_allocate(pool, BLOCKS, handles, 0), KVT_OK);
    for (size_t i = 0; i < BLOCKS; i++)
        kvt_unique_drop(pool, handles[i]);
    kvt_pool_free(pool);
}

static void
several_at_once(void **unused)
{
    struct kvt_pool *pool = new_pool();
    struct kvt_block_info info = {.size = sizeof(info), .id = {5, 0, 0}};
    struct kvt_unique handles[3];
    struct kvt_shared shared[3];
    enum kvt_err results[3];

    (void)unused;
    assert_int_equal(kvt_pool_allocate(pool, 3, handles, 0), KVT_OK);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(kvt_unique_begin(pool, handles[i], NULL), KVT_OK);
        assert_int_equal(kvt_unique_complete(pool, handles[i], &info, NULL), KVT_OK);
    }
    assert_int_equal(kvt_unique_register_all(pool, handles, 3, shared, results), 1);
    assert_int_equal(results[0], KVT_OK);
    assert_int_equal(results[1], KVT_BUSY);
    assert_int_equal(results[2], KVT_INVALID);
    assert_int_equal(shared[1].handle.generation, 0);
    assert_int_equal(shared[2].handle.generation, 0);
    kvt_unique_drop(pool, handles[1]); /* what was refused is still ours */
    kvt_unique_drop(pool, handles[2]);
    kvt_shared_drop(pool, shared, 3);
    kvt_pool_free(pool);
}

/* Structures of callers that were compiled against another version of the header. */
static void
sizes_of_structures(void **unused)
{
    struct {
        struct kvt_pool_options known;
        uint64_t newer;
    } larger = {.known = {.size = sizeof(larger), .block_count = BLOCKS}};
    struct {
        struct kvt_pool_usage known;
        uint64_t newer;
    } usage = {.known = {.size = sizeof(usage)}, .newer = 7};
    struct kvt_pool_usage small = {.size = offsetof(struct kvt_pool_usage, free), .free = 99};
    struct kvt_pool_options options = {.size = offsetof(struct kvt_pool_options, block_tokens),
                                       .block_count = BLOCKS,
                                       .block_tokens =
                                           KVT_BLOCK_TOKENS_MAX + 1}; /* not looked at */
    struct kvt_error err;
    struct kvt_pool *pool;

    (void)unused;
    assert_int_equal(kvt_pool_new(&pool, &larger.known, &err),
                     KVT_OK); /* what is new is not used */
    kvt_pool_usage(pool, &usage.known);
    assert_int_equal(usage.known.size, sizeof(usage));
    assert_int_equal(usage.known.blocks, BLOCKS);
    assert_int_equal(usage.known.free, BLOCKS);
    assert_int_equal(usage.newer, 0);
    kvt_pool_usage(pool, &small);
    assert_int_equal(small.blocks, BLOCKS);
    assert_int_equal(small.free, 99); /* it is past the end that the caller knows */
    kvt_pool_free(pool);

    larger.newer = 1;
    assert_int_equal(kvt_pool_new(&pool, &larger.known, &err), KVT_UNSUPPORTED);
    assert_null(pool);
    assert_int_equal(kvt_pool_new(&pool, &options, &err), KVT_OK);
    kvt_pool_free(pool);
    options.size = sizeof(options);
    assert_int_equal(kvt_pool_new(&pool, &options, &err), KVT_INVALID);
    assert_null(pool);
    options = (struct kvt_pool_options){
        .size = sizeof(options), .block_count = 1, .order = KVT_POOL_ORDER_ORDERING};
    assert_int_equal(kvt_pool_new(&pool, &options, &err), KVT_INVALID);
}

/* A name without its size would be read as 0, and two blocks under one name are one. */
static void
a_name_without_its_size(void **unused)
{
    struct {
        struct kvt_block_info known;
        uint64_t newer;
    } larger = {.known = {.size = sizeof(larger), .id = {5, 0, 0}}, .newer = 1};
    struct kvt_block_info info = {.id = {5, 0, 0}};
    struct kvt_pool *pool = new_pool();
    struct kvt_unique unique;
    struct kvt_shared shared;
    struct kvt_error err;

    (void)unused;
    assert_int_equal(kvt_pool_allocate(pool, 1, &unique, 0), KVT_OK);
    assert_int_equal(kvt_unique_init_sequence(pool, unique, KVT_TOKEN_SEED, &info, &err),
                     KVT_INVALID);
    assert_int_equal(kvt_unique_begin(pool, unique, NULL), KVT_OK);
    for (; info.size < sizeof(info); info.size++) {
        err = (struct kvt_error){.code = KVT_OK};
        assert_int_equal(kvt_unique_complete(pool, unique, &info, &err), KVT_INVALID);
        assert_int_equal(err.code, KVT_INVALID);
        assert_int_equal(kvt_unique_state(pool, unique), KVT_BLOCK_PARTIAL);
    }
    assert_int_equal(kvt_unique_complete(pool, unique, &larger.known, &err), KVT_UNSUPPORTED);
    larger.newer = 0;
    assert_int_equal(kvt_unique_complete(pool, unique, &larger.known, &err), KVT_OK);
    assert_int_equal(kvt_unique_register(pool, unique, &shared, NULL), KVT_OK);
    assert_true(kvt_pool_has(pool, 5));
    kvt_shared_drop(pool, &shared, 1);
    kvt_pool_free(pool);
}

static bool
attempt(void *arg)
{
    struct kvt_pool *pool;
    const enum kvt_err rc = kvt_pool_new(&pool, arg, NULL);

    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && pool == NULL));
    kvt_pool_free(pool);
    return rc == KVT_OK;
}

static void
every_allocation_may_fail(void **unused)
{
    struct kvt_pool_options options = {
        .size = sizeof(options), .block_count = BLOCKS, .block_tokens = TOKENS};

    (void)unused;
    for (options.order = 0; options.order < KVT_POOL_ORDER_ORDERING; options.order++)
        assert_true(test_sweep_allocations(attempt, &options) > 4);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_life),
        cmocka_unit_test(all_or_none),
        cmocka_unit_test(several_at_once),
        cmocka_unit_test(sizes_of_structures),
        cmocka_unit_test(a_name_without_its_size),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
