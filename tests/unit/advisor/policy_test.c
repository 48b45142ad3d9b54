/*
 * What is tested: advisor/policy.h with the lru ordering.
 * How: edges by hand, then random runs against a model that looks at every block each time.
 */
#include <string.h>

#include "advisor/policy.h"
#include "base/alloc.h"
#include "base/random.h"

#include "tests/support/seed.h"

enum { BLOCKS = 200, STEPS = 20000, DEPTH = 10 };

static const struct advisor_policy_ops *const lru = &advisor_policy_lru;

static struct advisor_policy_block
block_of(uint64_t hash, uint64_t parent, uint32_t position, uint64_t touched_ms)
{
    return (struct advisor_policy_block){.hash = hash,
                                         .parent = parent,
                                         .position = position,
                                         .touched_ms = touched_ms,
                                         .bytes = 10,
                                         .ns = 3,
                                         .ranks = 1};
}

static void
touch(void *order, uint64_t hash, uint64_t parent, uint32_t position, uint64_t touched_ms)
{
    const struct advisor_policy_block block = block_of(hash, parent, position, touched_ms);

    assert_int_equal(lru->touch(order, &block), KVT_OK);
}

static uint64_t
next_victim(void *order)
{
    struct advisor_policy_block block;

    return lru->victim(order, &block) ? block.hash : 0;
}

static void
found_by_name(void **state)
{
    (void)state;
    assert_ptr_equal(advisor_policy_find("lru"), lru);
    assert_null(advisor_policy_find("lru "));
    assert_null(advisor_policy_find(""));
}

static void
oldest_first_and_tails_before_heads(void **state)
{
    void *order;

    (void)state;
    assert_int_equal(lru->init(&order, 1 << 20), KVT_OK);
    assert_int_equal(next_victim(order), 0);
    touch(order, 1, 0, 0, 100);
    touch(order, 2, 1, 1, 100);
    touch(order, 3, 2, 2, 100);
    touch(order, 9, 0, 0, 50);
    assert_int_equal(lru->count(order), 4);
    assert_int_equal(next_victim(order), 9);
    assert_int_equal(next_victim(order), 3); /* equally old: the deepest */
    assert_int_equal(lru->count(order), 2);
    lru->give_back(order, 3, 3);
    assert_int_equal(next_victim(order), 3);
    lru->drop(order, 3, 3);
    lru->give_back(order, 3, 3); /* no longer there: nothing */
    assert_int_equal(next_victim(order), 2);
    assert_int_equal(next_victim(order), 1);
    assert_int_equal(next_victim(order), 0);
    lru->free(order);
}

/* Using a child uses its ancestors, so no chain gets a hole. */
static void
a_parent_is_never_older(void **state)
{
    void *order;

    (void)state;
    assert_int_equal(lru->init(&order, 1 << 20), KVT_OK);
    touch(order, 1, 0, 0, 10);
    touch(order, 2, 1, 1, 20); /* makes 1 as young */
    touch(order, 5, 0, 0, 15);
    assert_int_equal(next_victim(order), 5);
    assert_int_equal(next_victim(order), 2);
    assert_int_equal(next_victim(order), 1);
    /* A chain that bites its own tail must not hang. */
    touch(order, 7, 8, 1, 30);
    touch(order, 8, 7, 1, 40);
    touch(order, 7, 8, 1, 50);
    lru->free(order);
}

static void
an_older_touch_changes_nothing(void **state)
{
    void *order;

    (void)state;
    assert_int_equal(lru->init(&order, 1 << 20), KVT_OK);
    touch(order, 1, 0, 0, 100);
    touch(order, 2, 0, 0, 90);
    touch(order, 1, 0, 0, 10);
    assert_int_equal(next_victim(order), 2);
    lru->free(order);
}

static void
memory_is_bounded(void **state)
{
    uint64_t max = 1 << 16;
    size_t count = 0;
    void *order;

    (void)state;
    assert_int_equal(lru->init(&order, max), KVT_OK);
    for (;; count++) {
        const struct advisor_policy_block block = block_of(count + 1, 0, 0, count);
        const enum kvt_err rc = lru->touch(order, &block);

        if (rc == KVT_FULL)
            break;
        assert_int_equal(rc, KVT_OK);
        assert_true(lru->bytes(order) <= max + 256);
    }
    assert_true(count >= 256);
    touch(order, 1, 0, 0, 5); /* those it knows go on */
    lru->drop(order, 3, 2);
    touch(order, count + 1, 0, 0, 5); /* and one that left makes room */
    lru->free(order);
}

/* ---- against a model ---- */

struct model {
    struct advisor_policy_block blocks[BLOCKS];
    bool known[BLOCKS];
    bool taken[BLOCKS];
};

static uint64_t
hash_of(size_t at)
{
    return at + 1;
}

static void
model_touch(struct model *model, const struct advisor_policy_block *block)
{
    size_t at = (size_t)block->hash - 1;

    if (!model->known[at]) {
        model->known[at] = true;
        model->taken[at] = false;
        model->blocks[at] = *block;
    } else if (block->touched_ms > model->blocks[at].touched_ms) {
        model->blocks[at].touched_ms = block->touched_ms;
    }
    while (model->blocks[at].parent != 0) {
        const uint64_t time_ms = model->blocks[at].touched_ms;

        at = (size_t)model->blocks[at].parent - 1;
        if (!model->known[at] || model->blocks[at].touched_ms >= time_ms)
            return;
        model->blocks[at].touched_ms = time_ms;
    }
}

static uint64_t
model_victim(struct model *model)
{
    const struct advisor_policy_block *best = NULL;

    for (size_t i = 0; i < BLOCKS; i++) {
        const struct advisor_policy_block *block = &model->blocks[i];

        if (!model->known[i] || model->taken[i])
            continue;
        if (best == NULL || block->touched_ms < best->touched_ms ||
            (block->touched_ms == best->touched_ms && block->position > best->position))
            best = block; /* equal ones: the smaller hash, which came first */
    }
    if (best == NULL)
        return 0;
    model->taken[best->hash - 1] = true;
    return best->hash;
}

static void
random_against_model(void **state)
{
    struct model *model = kvt_calloc(1, sizeof(*model));
    uint64_t random = test_seed();
    size_t victims = 0;
    void *order;

    (void)state;
    assert_non_null(model);
    assert_int_equal(lru->init(&order, 1 << 20), KVT_OK);
    for (int step = 0; step < STEPS; step++) {
        const size_t at = kvt_random_below(&random, BLOCKS);
        const uint32_t position = (uint32_t)(at % DEPTH);
        const struct advisor_policy_block block =
            block_of(hash_of(at), position == 0 ? 0 : hash_of(at - 1), position,
                     (uint64_t)step / 50 + kvt_random_below(&random, 20));

        switch (kvt_random_below(&random, 8)) {
        case 0:
            lru->drop(order, 3, block.hash);
            model->known[at] = false;
            break;
        case 1: {
            const uint64_t expected = model_victim(model);

            assert_int_equal(next_victim(order), expected);
            victims += expected != 0 ? 1 : 0;
            break;
        }
        case 2:
            lru->give_back(order, 3, block.hash);
            model->taken[at] = false;
            break;
        default:
            assert_int_equal(lru->touch(order, &block), KVT_OK);
            model_touch(model, &block);
            break;
        }
    }
    assert_true(victims > STEPS / 20);
    lru->free(order);
    kvt_free(model);
}

static bool
fill(void *arg)
{
    void *order;
    bool done = true;

    (void)arg;
    if (lru->init(&order, 1 << 20) != KVT_OK)
        return false;
    for (uint64_t i = 1; i <= 200 && done; i++) {
        const struct advisor_policy_block block = block_of(i, 0, 0, i);

        done = lru->touch(order, &block) == KVT_OK;
    }
    for (uint64_t i = 1; i <= 3; i++)
        (void)next_victim(order); /* whatever is in must be in order */
    lru->free(order);
    return done;
}

static void
every_allocation_may_fail(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(fill, NULL) > 3);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(found_by_name),
        cmocka_unit_test(oldest_first_and_tails_before_heads),
        cmocka_unit_test(a_parent_is_never_older),
        cmocka_unit_test(an_older_touch_changes_nothing),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(random_against_model),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
