/*
 * What is tested: policy_tier_blocks_restored(): blocks of a former life come into the order in
 * which they were used, however many pieces that takes and whichever allocation fails; and who is
 * told that nobody wants them does no more than a piece of the work.
 * How: several pieces of blocks beside a sort of the test's; an ordering that counts what it hears;
 * it is over at each question in turn.  Work is counted, not time.
 */
#include <stdlib.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

#include "policy/decide/tier_blocks.h"
#include "policy/ordering/builtin_orderings.h"
#include "tests/support/seed.h"

enum { PIECES = 3, BLOCKS = PIECES * POLICY_TIER_BLOCKS_PIECE + 1000, TICKS = 1000 };

static uint64_t touches; /* of this test program's one thread */

static void
count_touch(void *state, const struct kvt_ordering_use *use)
{
    touches++;
    policy_lru.touch(state, use);
}

struct asked {
    uint64_t *count;
    uint64_t over_at; /* the question that is answered so; 0: none */
    uint64_t *touched;
};

static bool
is_over(const void *arg)
{
    const struct asked *asked = arg;

    assert_true(touches - *asked->touched <= POLICY_TIER_BLOCKS_PIECE);
    *asked->touched = touches;
    return ++*asked->count == asked->over_at;
}

struct item {
    uint64_t tick;
    uint64_t hash;
    uint32_t position;
};

static int
older_first(const void *left, const void *right)
{
    const struct item *a = left;
    const struct item *b = right;

    if (a->tick != b->tick)
        return a->tick < b->tick ? -1 : 1;
    if (a->position != b->position)
        return a->position > b->position ? -1 : 1;
    return a->hash < b->hash ? -1 : 1;
}

static struct policy_tier_blocks *
told(const struct item *items, uint32_t count)
{
    static struct kvt_ordering counting;
    const struct policy_tier_blocks_options options = {.ordering = &counting,
                                                       .bytes_max = 1u << 28};
    struct policy_tier_blocks *roster;

    counting = policy_lru;
    counting.touch = count_touch;
    assert_int_equal(policy_tier_blocks_new(&roster, &options), KVT_OK);
    for (uint32_t i = 0; i < count; i++) {
        const struct policy_block block = {
            .hash = items[i].hash, .position = items[i].position, .ranks = 1, .size = 1};

        assert_int_equal(policy_tier_blocks_restore(roster, &block, 1, items[i].tick), KVT_OK);
    }
    return roster;
}

static struct item *
draw(uint32_t count)
{
    struct item *items = kvt_calloc(count, sizeof(*items));
    uint64_t random = test_seed();

    assert_non_null(items);
    for (uint32_t i = 0; i < count; i++)
        items[i] = (struct item){.tick = 1 + kvt_random_below(&random, TICKS),
                                 .hash = i + 1,
                                 .position = (uint32_t)kvt_random_below(&random, 50)};
    return items;
}

static void
expect_order(struct policy_tier_blocks *roster, struct item *items, uint32_t count)
{
    qsort(items, count, sizeof(*items), older_first);
    for (uint32_t i = 0; i < count; i++) {
        struct policy_block block;

        assert_true(policy_tier_blocks_victim(roster, TICKS, &block));
        assert_int_equal(block.hash, items[i].hash);
    }
}

static void
pieces_come_to_one_order(void **state)
{
    static const uint32_t counts[] = {
        0, 1, 1000, POLICY_TIER_BLOCKS_PIECE, POLICY_TIER_BLOCKS_PIECE + 1, BLOCKS};

    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct item *items = draw(counts[i] + 1);
        struct policy_tier_blocks *roster = told(items, counts[i]);

        assert_int_equal(policy_tier_blocks_restored(roster, NULL, NULL), KVT_OK);
        assert_int_equal(policy_tier_blocks_restored(roster, NULL, NULL), KVT_OK);
        expect_order(roster, items, counts[i]);
        policy_tier_blocks_free(roster);
        kvt_free(items);
    }
}

static void
whoever_is_told_stops_within_a_piece(void **state)
{
    struct item *items = draw(BLOCKS);
    uint64_t all = 0;

    (void)state;
    for (uint64_t over_at = 0; over_at == 0 || over_at <= all; over_at += over_at == 0 ? 1 : 3) {
        struct policy_tier_blocks *roster = told(items, BLOCKS);
        uint64_t count = 0;
        uint64_t touched = touches;
        const struct asked asked = {.count = &count, .over_at = over_at, .touched = &touched};

        if (over_at == 0) {
            assert_int_equal(policy_tier_blocks_restored(roster, is_over, &asked), KVT_OK);
            all = count;
            /* Looked at once, sorted in pieces, merged in two passes, and passed on. */
            assert_true(all >= (uint64_t)5 * PIECES);
        } else {
            assert_int_equal(policy_tier_blocks_restored(roster, is_over, &asked), KVT_CANCELLED);
            assert_int_equal(count, over_at); /* and nothing is done behind it: */
            assert_int_equal(touched, touches);
        }
        policy_tier_blocks_free(roster);
    }
    kvt_free(items);
}

static void
without_memory_the_blocks_are_there_all_the_same(void **state)
{
    enum { FEW = 1000 };
    struct item *items = draw(FEW);

    (void)state;
    for (size_t n = 0; n < 3; n++) {
        struct policy_tier_blocks *roster = told(items, FEW);
        struct policy_block block;
        uint32_t count = 0;

        kvt_alloc_fail_after(n);
        assert_int_equal(policy_tier_blocks_restored(roster, NULL, NULL),
                         n == 2 ? KVT_OK : KVT_NOMEM);
        kvt_alloc_fail_after(SIZE_MAX);
        if (n == 2)
            expect_order(roster, items, FEW);
        else
            while (policy_tier_blocks_victim(roster, TICKS, &block))
                count++;
        assert_int_equal(count, n == 2 ? 0 : FEW);
        policy_tier_blocks_free(roster);
    }
    kvt_free(items);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_come_to_one_order),
        cmocka_unit_test(whoever_is_told_stops_within_a_piece),
        cmocka_unit_test(without_memory_the_blocks_are_there_all_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
