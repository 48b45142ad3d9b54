/*
 * What is tested: policy/decide/tier_blocks.h: under every ordering, blocks leave in the same
 * order whether or not some of them were set aside for a while, and were read meanwhile.
 * How: two rosters with one history; in one of them blocks are set aside; then all leave.
 */
#include <stdlib.h>
#include <string.h>

#include "base/core/random.h"

#include "policy/decide/tier_blocks.h"
#include "policy/ordering/builtin_orderings.h"
#include "policy/ordering/ordering_table.h"
#include "tests/support/seed.h"

enum { CHAINS = 40, DEPTH = 5, BLOCKS = CHAINS * DEPTH, ASIDE = 60, SLICE = 7 };

static struct policy_tier_blocks *
roster_of(const struct kvt_ordering *ordering)
{
    const struct policy_tier_blocks_options options = {.ordering = ordering, .bytes_max = 1 << 20};
    struct policy_tier_blocks *roster;

    assert_int_equal(policy_tier_blocks_new(&roster, &options), KVT_OK);
    return roster;
}

static struct policy_block
block_of(uint32_t number)
{
    const uint32_t depth = number % DEPTH;

    return (struct policy_block){.hash = 1000 + number,
                                 .parent = depth == 0 ? 0 : 999 + number,
                                 .ns = 1,
                                 .position = depth,
                                 .ranks = 1,
                                 .size = 100 + number};
}

static void
read_some(struct policy_tier_blocks *roster, uint64_t random, uint64_t *tick, int reads)
{
    for (int i = 0; i < reads; i++) {
        const struct policy_block block = block_of((uint32_t)kvt_random_below(&random, BLOCKS));

        assert_int_equal(policy_tier_blocks_use(roster, &block, ++*tick), KVT_OK);
    }
}

static struct policy_tier_blocks *
with_history(const struct kvt_ordering *ordering, uint64_t random, uint64_t *tick, int reads)
{
    struct policy_tier_blocks *roster = roster_of(ordering);

    *tick = 1;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        const struct policy_block block = block_of(i);

        *tick += i % DEPTH == 0;
        assert_int_equal(policy_tier_blocks_store(roster, &block, *tick), KVT_OK);
    }
    read_some(roster, random, tick, reads);
    return roster;
}

static void
resume_all(struct policy_tier_blocks *roster)
{
    struct policy_tier_blocks_counts counts;

    while (policy_tier_blocks_resume(roster, SLICE) == SLICE)
        continue;
    policy_tier_blocks_counts(roster, &counts);
    assert_int_equal(counts.passed, 0);
    assert_int_equal(counts.taken, 0);
}

static void
set_aside(struct policy_tier_blocks *roster, uint64_t tick)
{
    for (int i = 0; i < ASIDE; i++) {
        struct policy_block block;

        assert_true(policy_tier_blocks_victim(roster, tick, &block));
        policy_tier_blocks_pass(roster, block.ns, block.hash);
    }
}

static void
check_alike(struct policy_tier_blocks *left, struct policy_tier_blocks *right, uint64_t tick)
{
    for (uint32_t i = 0; i < BLOCKS; i++) {
        struct policy_block a;
        struct policy_block b;

        assert_true(policy_tier_blocks_victim(left, tick, &a));
        assert_true(policy_tier_blocks_victim(right, tick, &b));
        assert_int_equal(a.hash, b.hash);
        policy_tier_blocks_leave(left, a.ns, a.hash);
        policy_tier_blocks_leave(right, b.ns, b.hash);
    }
}

/* To look at a block may change the order of `s3fifo`, which sorts while it looks. */
static void
what_is_set_aside_comes_back_where_it_was(void **state)
{
    const uint64_t random = test_seed();
    size_t count;
    const struct kvt_ordering *const *orderings = policy_ordering_all(&count);

    (void)state;
    for (size_t i = 0; i < count; i++) {
        const int reads = orderings[i] == &policy_s3fifo ? 0 : 100;
        uint64_t tick;
        struct policy_tier_blocks *left = with_history(orderings[i], random, &tick, reads);
        struct policy_tier_blocks *right = with_history(orderings[i], random, &tick, reads);

        set_aside(right, tick);
        resume_all(right);
        check_alike(left, right, tick);
        policy_tier_blocks_free(left);
        policy_tier_blocks_free(right);
    }
}

static void
what_is_read_while_set_aside_is_used_as_any_other(void **state)
{
    const uint64_t random = test_seed();
    size_t count;
    const struct kvt_ordering *const *orderings = policy_ordering_all(&count);

    (void)state;
    for (size_t i = 0; i < count; i++) {
        uint64_t tick;
        uint64_t later;
        struct policy_tier_blocks *left = with_history(orderings[i], random, &tick, 100);
        struct policy_tier_blocks *right = with_history(orderings[i], random, &tick, 100);

        set_aside(left, tick);
        resume_all(left); /* before anybody reads */
        set_aside(right, tick);
        later = tick;
        read_some(left, random + 1, &later, 50);
        later = tick;
        read_some(right, random + 1, &later, 50);
        resume_all(right);
        check_alike(left, right, later);
        policy_tier_blocks_free(left);
        policy_tier_blocks_free(right);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_set_aside_comes_back_where_it_was),
        cmocka_unit_test(what_is_read_while_set_aside_is_used_as_any_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
