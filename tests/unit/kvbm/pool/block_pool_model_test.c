/*
 * What is tested: kvbm/pool/block_pool.h and kvbm/pool/mutable_block.h over long random runs, in
 * every order and with both ways to treat duplicates, against a model that looks through all
 * blocks each time. How: names are the nodes of a binary tree, so that blocks continue each other.
 *  Every answer is compared, and every callback: the model foretells which blocks go, in which
 *  order.  At the end
 * every move in every stage of a block, made or refused, and every kind of answer must have been
 * met; what was not is named.
 */
#include <stdio.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "kvtier/token.h"

#include "policy/ordering/ordering_table.h"
#include "tests/support/seed.h"
#include "tests/unit/kvbm/pool/block_pool_model.h"

enum { STEPS = 150000 }; /* fewer would leave rare moves to chance */

static const char *const event_names[] = {
#define X(name) #name,
    EVENTS(X)
#undef X
};

/* ---- steps ---- */

static void
step_allocate(size_t count)
{
    const struct kvbm_pool_stats stats = kvbm_pool_stats(model.pool);
    const size_t fresh = count < stats.free ? count : stats.free;
    struct kvt_handle handles[BATCH];
    uint32_t victims[BLOCKS];
    const size_t found = test_model_foretell(victims, count - fresh);
    enum kvt_err rc;

    if (model.held_count + count > HANDLES)
        return;
    test_model_expect(victims, found);
    rc = kvbm_pool_allocate(model.pool, count, handles);
    assert_int_equal(rc, fresh + found == count ? KVT_OK : KVT_AGAIN);
    assert_int_equal(model.gone, rc == KVT_OK ? found : 0);
    if (rc != KVT_OK) {
        model.events[EVENT_NO_ROOM]++;
        return;
    }
    model.events[EVENT_ALLOCATED]++;
    for (size_t i = 0; i < count; i++) {
        const uint32_t block = handles[i].block;

        if (i >= fresh) {
            if (model.order != KVT_POOL_ORDER_ORDERING)
                assert_int_equal(block, victims[i - fresh]);
            assert_true(model.blocks[block].waits);
            assert_false(model.told[model.blocks[block].node]);
            test_model_forget(block);
            model.events[EVENT_EVICTED]++;
        }
        assert_int_equal(model.blocks[block].stage, RESET);
        assert_int_equal(model.blocks[block].holders, 0);
        assert_int_not_equal(handles[i].generation, 0);
        model.generations[block] = handles[i].generation;
        test_model_add(handles[i]);
    }
}

/* From nothing to registered at once: by single moves few blocks would get there. */
static void
step_make(unsigned node, bool by_tokens)
{
    const size_t before = model.held_count;

    step_allocate(1);
    if (model.held_count == before)
        return;
    test_model_move(before, by_tokens ? INIT : BEGIN, node);
    for (size_t i = 0; i < TOKENS && by_tokens; i++)
        test_model_move(before, ADD, node);
    test_model_move(before, by_tokens ? COMMIT : NAME, node);
    test_model_move(before, REGISTER, node);
}

/* Two blocks of one name in one call: while the first is announced, the second is too early. */
static void
step_make_twice(unsigned node)
{
    const size_t before = model.held_count;
    struct kvt_handle handles[2];
    enum kvt_err results[2];
    uint32_t known;

    step_allocate(2);
    if (model.held_count != before + 2)
        return;
    for (size_t i = 0; i < 2; i++) {
        test_model_move(before + i, BEGIN, node);
        test_model_move(before + i, NAME, node);
        handles[i] = model.held[before + i];
    }
    known = test_model_listed(node);
    if (known != BLOCKS)
        return;
    assert_int_equal(kvbm_pool_register_all(model.pool, handles, 2, results), 1);
    test_model_registered(before, handles[0], known, results[0]);
    assert_int_equal(results[1], KVT_BUSY);
    model.events[EVENT_NAME_BUSY]++;
}

static void
step_find(unsigned node, bool over_holes)
{
    struct kvt_handle handles[NODES];
    uint64_t hashes[NODES];
    unsigned path[NODES];
    size_t depth = 0;
    size_t expected = 0;
    size_t found;
    bool hole = false;

    for (unsigned at = node; at > 0; at /= 2)
        depth++;
    for (size_t i = depth; i > 0; i--, node /= 2)
        path[i - 1] = node;
    if (model.held_count + depth > HANDLES)
        return;
    for (size_t i = 0; i < depth; i++) {
        hashes[i] = model.labels[path[i]].id.hash;
        hole = hole || test_model_listed(path[i]) == BLOCKS;
        expected += test_model_listed(path[i]) != BLOCKS && (over_holes || !hole);
    }
    found = over_holes ? kvbm_pool_scan(model.pool, hashes, depth, handles)
                       : kvbm_pool_match(model.pool, hashes, depth, handles);
    assert_int_equal(found, expected);
    for (size_t i = 0; i < (over_holes ? depth : found); i++) {
        if (handles[i].generation == 0)
            assert_int_equal(test_model_listed(path[i]), BLOCKS);
        else
            test_model_found(handles[i], path[i]);
    }
    model.events[EVENT_SCANNED_OVER_HOLES] += over_holes && hole && found > 0;
    model.events[EVENT_HOLE] += !over_holes && hole;
    model.events[EVENT_MATCHED] += !over_holes && !hole;
}

static void
note_weak(struct kvt_handle handle, size_t slot)
{
    model.weaks[slot] = handle;
}

static void
step_upgrade(size_t slot)
{
    const struct kvt_handle weak = model.weaks[slot];
    const struct model_block *block = &model.blocks[weak.block];
    bool alive;

    if (weak.generation == 0 || model.held_count == HANDLES)
        return;
    alive = weak.generation == model.generations[weak.block] && block->listed;
    assert_int_equal(kvbm_pool_upgrade(model.pool, weak), alive ? KVT_OK : KVT_NOTFOUND);
    model.events[alive ? EVENT_WEAK_ALIVE : EVENT_WEAK_DEAD]++;
    if (alive)
        test_model_add(weak);
}

static void
step_drop(size_t at, bool cold)
{
    const struct kvt_handle handle = test_model_take(at);
    const struct model_block *block = &model.blocks[handle.block];

    if (cold)
        kvbm_pool_drop_cold(model.pool, handle);
    else
        kvbm_pool_drop(model.pool, handle);
    if (block->stage != REGISTERED)
        model.events[EVENT_DROPPED_UNREGISTERED]++;
    else if (block->holders > 0)
        model.events[EVENT_DROPPED_OF_SEVERAL]++;
    else
        model.events[cold ? EVENT_DROPPED_COLD : EVENT_DROPPED_LAST]++;
    test_model_put(handle.block, cold);
}

static void
step_drop_all(size_t count)
{
    struct kvt_handle handles[BATCH + 1] = {{0}};

    if (count > model.held_count)
        return;
    for (size_t i = 0; i < count; i++)
        handles[i] = model.held[i];
    kvbm_pool_drop_all(model.pool, handles, count + 1); /* the last is none */
    for (size_t i = count; i > 0; i--)
        test_model_put(test_model_take(i - 1).block, false);
}

static void
step_take_name(size_t at, bool discard)
{
    struct model_block *block = &model.blocks[model.held[at].block];
    struct kvt_handle handle;

    if (block->stage != REGISTERED)
        return;
    handle = test_model_take(at);
    test_model_expect(&handle.block, block->listed ? 1 : 0);
    if (discard) {
        kvbm_pool_discard(model.pool, handle);
        assert_int_equal(model.gone, block->listed ? 1 : 0);
        model.events[EVENT_DISCARDED] += block->listed;
        block->listed = false;
        test_model_put(handle.block, false);
    } else if (block->holders > 0 || !block->listed) {
        assert_int_equal(kvbm_pool_evict(model.pool, handle), KVT_BUSY);
        model.events[EVENT_EVICT_BUSY]++;
        test_model_put(handle.block, false);
    } else {
        assert_int_equal(kvbm_pool_evict(model.pool, handle), KVT_OK);
        assert_int_equal(model.gone, 1);
        model.events[EVENT_EVICT_OK]++;
        test_model_forget(handle.block);
    }
}

static void
step_coldest(size_t count)
{
    struct kvt_handle handles[BATCH];
    uint32_t order[BLOCKS];
    const size_t waiting = test_model_foretell(order, BLOCKS);
    size_t expected = 0;
    size_t found;

    if (model.held_count + count > HANDLES)
        return;
    found = kvbm_pool_coldest(model.pool, count, handles);
    for (size_t i = 0; i < waiting && expected < count; i++) {
        if (model.blocks[order[i]].aside) {
            model.events[EVENT_COLDEST_ASIDE]++;
            continue;
        }
        if (model.order != KVT_POOL_ORDER_ORDERING)
            assert_int_equal(handles[expected].block, order[i]);
        expected++;
    }
    assert_int_equal(found, expected);
    for (size_t i = 0; i < found; i++) {
        assert_true(model.blocks[handles[i].block].waits);
        assert_false(model.blocks[handles[i].block].aside);
        test_model_add(handles[i]);
        model.events[EVENT_COLDEST]++;
    }
}

static void
step_clear(void)
{
    uint32_t victims[BLOCKS];
    const size_t found = test_model_foretell(victims, BLOCKS);

    test_model_expect(victims, found);
    assert_int_equal(kvbm_pool_clear(model.pool), found);
    assert_int_equal(model.gone, found);
    for (size_t i = 0; i < found; i++)
        test_model_forget(victims[i]);
    model.events[EVENT_CLEARED]++;
}

static void
step_mark(size_t at, uint64_t *seed)
{
    const struct kvt_handle handle = model.held[at];
    struct model_block *block = &model.blocks[handle.block];

    if (block->stage != REGISTERED)
        return;
    switch (kvt_random_below(seed, 3)) {
    case 0:
        block->priority = (uint32_t)kvt_random_below(seed, KVT_PRIORITY_MAX + 1);
        kvbm_pool_set_priority(model.pool, handle, block->priority);
        model.events[EVENT_PRIORITY_SET]++;
        break;
    case 1:
        block->aside = true;
        kvbm_pool_set_aside(model.pool, handle);
        break;
    default:
        if (model.held_count == HANDLES)
            return;
        kvbm_pool_share(model.pool, handle);
        model.events[EVENT_SHARED]++;
        test_model_add(handle);
    }
}

/* Moves by chance, and every other time the one that goes on. */
static void
step_moves(size_t at, uint64_t *seed)
{
    static const enum move onward[STAGES] = {
        [RESET] = INIT,  [NAMED] = NAME,        [EMPTY] = ADD,           [PART] = ADD,
        [FULL] = COMMIT, [COMPLETE] = REGISTER, [REGISTERED] = DO_RESET,
    };

    for (size_t i = 0; i < 3; i++) {
        const unsigned node = 1 + (unsigned)kvt_random_below(seed, NODES);
        const enum stage stage = model.blocks[model.held[at].block].stage;
        enum move move = (enum move)kvt_random_below(seed, MOVES);

        if (kvt_random_below(seed, 2) == 0)
            move = stage == RESET && node % 2 == 0 ? BEGIN : onward[stage];
        test_model_move(at, move, node);
    }
}

/* ---- the run ---- */

static void
compare(void)
{
    const struct kvbm_pool_stats stats = kvbm_pool_stats(model.pool);
    uint32_t waits = 0;
    uint32_t listed = 0;
    uint32_t active = 0;

    for (uint32_t i = 0; i < BLOCKS; i++) {
        waits += model.blocks[i].waits;
        active += model.blocks[i].holders > 0;
        listed += model.blocks[i].listed;
        if (model.blocks[i].listed)
            assert_true(model.told[model.blocks[i].node]);
    }
    assert_int_equal(stats.inactive, waits);
    assert_int_equal(stats.active, active);
    assert_int_equal(stats.free, BLOCKS - waits - active);
    assert_int_equal(stats.registered, listed);
}

static void
step(uint64_t *seed, bool filling)
{
    const unsigned node = 1 + (unsigned)kvt_random_below(seed, NODES);
    const uint64_t what = kvt_random_below(seed, 100);
    const size_t at = model.held_count > 0 ? kvt_random_below(seed, model.held_count) : 0;

    assert_int_equal(kvbm_pool_has(model.pool, model.labels[node].id.hash), model.told[node]);
    if (what < 10)
        step_make(node, what < 5);
    else if (what < 13)
        step_allocate(1 + kvt_random_below(seed, BATCH));
    else if (what < 15)
        step_make_twice(node);
    else if (what < 27)
        step_find(node, what < 20);
    else if (what < 30)
        step_upgrade(kvt_random_below(seed, WEAKS));
    else if (what < 33)
        step_coldest(1 + kvt_random_below(seed, BATCH));
    else if (what == 33 && kvt_random_below(seed, 20) == 0)
        step_clear();
    else if (model.held_count == 0)
        return;
    else if (what < 55)
        step_moves(at, seed);
    else if (what < 60)
        step_mark(at, seed);
    else if (what < 63)
        note_weak(model.held[at], kvt_random_below(seed, WEAKS));
    else if (what < 66)
        step_take_name(at, what == 65);
    else if (what < 68)
        step_drop_all(1 + kvt_random_below(seed, BATCH));
    else if (what < (filling ? 72 : 100))
        step_drop(at, what % 4 == 0);
}

static void
all_was_met(void)
{
    unsigned missing = 0;

    for (unsigned move = 0; move < MOVES; move++)
        for (unsigned stage = 0; stage < STAGES; stage++) {
            const bool may = test_model_may_move((enum move)move, (enum stage)stage);

            if ((may ? model.moved : model.refused)[move][stage] > 0)
                continue;
            (void)fprintf(stderr, "move %u in stage %u was never tried\n", move, stage);
            missing++;
        }
    for (unsigned event = 0; event < EVENT_COUNT; event++) {
        if (model.events[event] > 0)
            continue;
        (void)fprintf(stderr, "%s never happened\n", event_names[event]);
        missing++;
    }
    assert_int_equal(missing, 0);
}

static void
run(enum kvt_pool_order order, enum kvt_pool_dedup dedup, const char *ordering)
{
    uint64_t seed = test_seed();
    const struct kvbm_pool_options options = {
        .block_count = BLOCKS,
        .dedup = dedup,
        .order = order,
        .ordering = ordering != NULL ? policy_ordering_find(ordering) : NULL,
        .ordering_options = {.prices = {1, 10, 5}, .idle_ticks = 100},
        .block_tokens = TOKENS,
        .on_store = test_model_on_store,
        .on_remove = test_model_on_remove,
    };

    test_model_start(order, dedup);
    assert_int_equal(kvbm_pool_new(&model.pool, &options), KVT_OK);
    for (int i = 0; i < STEPS; i++) {
        /* In turns it fills up and it empties: by chance alone it is seldom full. */
        step(&seed, i / 200 % 2 == 0);
        compare();
    }
    all_was_met();
    while (model.held_count > 0)
        step_drop(0, false);
    compare();
    step_clear();
    assert_int_equal(kvbm_pool_stats(model.pool).free, BLOCKS);
    kvbm_pool_free(model.pool);
    assert_int_equal(kvt_alloc_live(), 0);
}

static void
least_recently_used(void **unused)
{
    (void)unused;
    run(KVT_POOL_ORDER_LRU, KVT_POOL_DEDUP_REJECT, NULL);
    run(KVT_POOL_ORDER_LRU, KVT_POOL_DEDUP_ALLOW, NULL);
}

static void
by_priority(void **unused)
{
    (void)unused;
    run(KVT_POOL_ORDER_PRIORITY, KVT_POOL_DEDUP_REJECT, NULL);
}

static void
leaves_first(void **unused)
{
    (void)unused;
    run(KVT_POOL_ORDER_LINEAGE, KVT_POOL_DEDUP_REJECT, NULL);
    run(KVT_POOL_ORDER_LINEAGE, KVT_POOL_DEDUP_ALLOW, NULL);
}

static void
every_ordering(void **unused)
{
    size_t count;
    const struct kvt_ordering *const *orderings = policy_ordering_all(&count);

    (void)unused;
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++)
        run(KVT_POOL_ORDER_ORDERING, KVT_POOL_DEDUP_REJECT, orderings[i]->name);
}

static bool
attempt(void *arg)
{
    struct kvbm_pool *pool;
    const enum kvt_err rc = kvbm_pool_new(&pool, arg);

    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && pool == NULL));
    kvbm_pool_free(pool);
    return rc == KVT_OK;
}

static void
every_allocation_may_fail(void **unused)
{
    struct kvbm_pool_options options = {.block_count = BLOCKS, .block_tokens = TOKENS};
    size_t count;
    const struct kvt_ordering *const *orderings = policy_ordering_all(&count);

    (void)unused;
    for (options.order = 0; options.order < KVT_POOL_ORDER_ORDERING; options.order++)
        assert_true(test_sweep_allocations(attempt, &options) > 4);
    for (size_t i = 0; i < count; i++) {
        options.ordering = orderings[i];
        assert_true(test_sweep_allocations(attempt, &options) > 5);
    }
}

static void
orderings_that_do_not_fit_are_refused(void **unused)
{
    const struct kvt_ordering good = *policy_ordering_find(POLICY_ORDERING_DEFAULT);
    struct kvt_ordering bad[] = {good, good, good, good, good, good};
    struct kvbm_pool_options options = {.block_count = 1, .order = KVT_POOL_ORDER_ORDERING};
    struct kvbm_pool *pool;

    (void)unused;
    bad[0].abi++;
    bad[1].size++;
    bad[2].use_size--;
    bad[3].options_size--;
    bad[4].victim = NULL;
    bad[5].forget = NULL;
    assert_int_equal(kvbm_pool_new(&pool, &options), KVT_INVALID); /* none at all */
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        options.ordering = &bad[i];
        assert_int_equal(kvbm_pool_new(&pool, &options), KVT_INVALID);
        assert_null(pool);
    }
    options.ordering = &good;
    assert_int_equal(kvbm_pool_new(&pool, &options), KVT_OK);
    kvbm_pool_free(pool);
    assert_int_equal(kvt_alloc_live(), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(least_recently_used),
        cmocka_unit_test(by_priority),
        cmocka_unit_test(leaves_first),
        cmocka_unit_test(every_ordering),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(orderings_that_do_not_fit_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
