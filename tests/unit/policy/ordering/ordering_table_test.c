/*
 * What is tested: what every built-in ordering owes its host (kvtier/ordering.h).
 * How: a tier that keeps its own books makes every call in any order, at random: a victim is in the
 * tier, was not taken before, and there is one as long as something is left; nothing is lost.  Then
 * failing allocations, memory, repetition, and what is saved.
 */
#include <math.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

#include "policy/ordering/ordering_table.h"
#include "tests/support/seed.h"
#include "tests/unit/policy/ordering/ordering_tier.h"

enum { STEPS = 20000, IMAGE_MAX = 64 << 10 };

static void
for_each(void (*check)(const struct kvt_ordering *ordering))
{
    size_t count;
    const struct kvt_ordering *const *all = policy_ordering_all(&count);

    for (size_t i = 0; i < count; i++)
        check(all[i]);
}

static void
check_books(const struct kvt_ordering *ordering)
{
    struct tier tier;
    uint32_t left;
    uint32_t block;

    tier_init(&tier, ordering, test_seed());
    for (uint32_t i = 0; i < STEPS; i++) {
        tier_step(&tier);
        if (i % 100 == 0)
            assert_true(isfinite(ordering->value(tier.order, i % TIER_BLOCKS, tier.now)));
    }
    /* Everything that is still there comes out, each block once. */
    for (left = tier.counts[TIER_HOT]; tier_victim(&tier, &block); left--)
        tier_leave(&tier, block);
    assert_int_equal(left, 0);
    tier_free(&tier);
}

static void
any_order_of_calls_is_survived(void **state)
{
    (void)state;
    for_each(check_books);
}

static void
check_repeats(const struct kvt_ordering *ordering)
{
    struct tier one;
    struct tier two;

    tier_init(&one, ordering, test_seed());
    tier_init(&two, ordering, test_seed());
    for (uint32_t i = 0; i < STEPS; i++) {
        tier_step(&one);
        tier_step(&two);
        assert_memory_equal(one.places, two.places, sizeof(one.places));
    }
    tier_free(&one);
    tier_free(&two);
}

static void
same_calls_same_victims(void **state)
{
    (void)state;
    for_each(check_repeats);
}

static bool
make_one(void *arg)
{
    const struct kvt_ordering_options options = {.idle_ticks = 1};
    const struct kvt_ordering *ordering = arg;
    const struct kvt_ordering_use use = {.block = 0, .uses = 1, .bytes = 1};
    void *order;
    uint32_t block;
    bool made = ordering->init(&order, &options) == KVT_OK;

    if (!made) {
        assert_null(order);
        return false;
    }
    if (ordering->reserve(order, 1) == KVT_OK) {
        ordering->touch(order, &use);
        ordering->enter(order, &use);
        made = ordering->reserve(order, 100000) == KVT_OK;
        /* Grown or not, what was there is as it was. */
        assert_true(ordering->victim(order, 1, &block));
        assert_int_equal(block, 0);
    } else {
        made = false;
    }
    ordering->free(order);
    return made;
}

static void
check_allocations(const struct kvt_ordering *ordering)
{
    assert_true(test_sweep_allocations(make_one, (void *)(uintptr_t)ordering) > 0);
    ordering->free(NULL);
}

static void
every_failing_allocation_is_survived(void **state)
{
    (void)state;
    for_each(check_allocations);
}

static void
check_memory(const struct kvt_ordering *ordering)
{
    const struct kvt_ordering_options options = {.idle_ticks = 1};
    size_t empty;
    void *order;

    assert_int_equal(ordering->init(&order, &options), KVT_OK);
    empty = ordering->memory(order);
    assert_int_equal(ordering->reserve(order, 1 << 20), KVT_OK);
    assert_true(ordering->memory(order) - empty <= (size_t)KVT_ORDERING_BLOCK_BYTES * (1 << 20));
    ordering->free(order);
}

static void
a_block_takes_no_more_than_is_promised(void **state)
{
    (void)state;
    for_each(check_memory);
}

/* What was learned is the same after saving and loading, and what is damaged is refused whole. */
static void
check_saved(const struct kvt_ordering *ordering)
{
    static uint8_t image[IMAGE_MAX];
    static uint8_t again[IMAGE_MAX];
    struct tier tier;
    struct tier next;
    size_t size;

    if (ordering->save == NULL)
        return;
    tier_init(&tier, ordering, test_seed());
    tier_init(&next, ordering, test_seed());
    for (uint32_t i = 0; i < STEPS; i++)
        tier_step(&tier);
    size = ordering->save(tier.order, NULL, 0);
    assert_true(size > 0 && size <= sizeof(image));
    assert_int_equal(ordering->save(tier.order, image, size), size);
    assert_int_equal(ordering->load(next.order, image, size - 1), KVT_CORRUPT);
    image[0] ^= 1;
    assert_int_equal(ordering->load(next.order, image, size), KVT_CORRUPT);
    image[0] ^= 1;
    assert_int_equal(ordering->load(next.order, image, size), KVT_OK);
    assert_int_equal(ordering->save(next.order, again, sizeof(again)), size);
    assert_memory_equal(again, image, size);
    memset(image + size - sizeof(double), 0xff, sizeof(double)); /* no number */
    assert_int_equal(ordering->load(next.order, image, size), KVT_CORRUPT);
    tier_free(&tier);
    tier_free(&next);
}

static void
what_was_learned_is_saved(void **state)
{
    (void)state;
    assert_non_null(policy_ordering_find("rhi")->save);
    for_each(check_saved);
}

/* A block's value does not change by a restart: uses are told again, as what they are. */
static void
check_restored(const struct kvt_ordering *ordering)
{
    const struct kvt_ordering_options options = {.idle_ticks = 50};
    void *order;

    assert_int_equal(ordering->init(&order, &options), KVT_OK);
    assert_int_equal(ordering->reserve(order, 3), KVT_OK);
    for (uint32_t i = 0; i < 3; i++) {
        const struct kvt_ordering_use use = {
            .block = 2 - i, .uses = 1, .flags = KVT_ORDERING_RESTORED, .bytes = 1, .now = 10 + i};

        ordering->touch(order, &use);
        ordering->enter(order, &use);
    }
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t block;

        assert_true(ordering->victim(order, 100, &block));
        assert_int_equal(block, 2 - i); /* the one used first */
        ordering->leave(order, block);
    }
    ordering->free(order);
}

static void
restored_blocks_keep_their_order(void **state)
{
    (void)state;
    for_each(check_restored);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order_of_calls_is_survived),
        cmocka_unit_test(same_calls_same_victims),
        cmocka_unit_test(every_failing_allocation_is_survived),
        cmocka_unit_test(a_block_takes_no_more_than_is_promised),
        cmocka_unit_test(what_was_learned_is_saved),
        cmocka_unit_test(restored_blocks_keep_their_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
