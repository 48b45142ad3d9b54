/*
 * What is tested: advisor/order/usage.h: sums of places and blocks by namespace are those of the
 * simple way over a table, for all of them and for those below one; memory that fails.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/order/usage.h"
#include "base/core/alloc.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/block_forest.h"

enum { PAGES_MAX = 100 };

static const unsigned tier_of_place[TEST_PLACE_COUNT] = {
    ADVISOR_USAGE_hot,  ADVISOR_USAGE_hot, ADVISOR_USAGE_warm, ADVISOR_USAGE_cold,
    ADVISOR_USAGE_cold, ADVISOR_USAGE_far, ADVISOR_USAGE_cold, ADVISOR_USAGE_g2,
};

static enum kvt_err
sum_up(struct test_places *places, const char *below, struct advisor_usage *usage)
{
    struct advisor_usage_cursor cursor = {.at = 0};
    enum kvt_err rc = advisor_usage_init(usage, places->rig.planner, below);

    for (int page = 0; rc == KVT_OK && !cursor.done; page++) {
        assert_true(page < PAGES_MAX);
        rc = advisor_usage_page(&places->rig.finder, &cursor, usage);
    }
    return rc;
}

static struct advisor_usage_row
model_of(const struct test_places *places, unsigned space)
{
    struct advisor_usage_row row = {.blocks = 0};

    for (unsigned i = 0; i < TEST_PLACES_BLOCKS; i++) {
        const struct test_place_block *block = &places->blocks[i];
        bool stored = false;

        if (block->space != space)
            continue;
        for (unsigned place = 0; place < TEST_PLACE_COUNT; place++) {
            const unsigned tier = tier_of_place[place];

            row.places[tier] += block->ranks[place] != 0;
            row.bytes[tier] += block->size * (uint64_t)__builtin_popcount(block->ranks[place]);
            stored = stored || (block->ranks[place] != 0 && place != TEST_PLACE_G2);
        }
        row.blocks += stored;
    }
    return row;
}

static void
expect(struct test_places *places, const char *below, const bool wanted[3])
{
    struct advisor_usage usage;
    size_t rows = 0;

    assert_int_equal(sum_up(places, below, &usage), KVT_OK);
    for (unsigned space = 0; space < 3; space++) {
        const struct advisor_usage_row model = model_of(places, space);
        const struct advisor_usage_row *found = NULL;

        for (size_t i = 0; i < usage.count; i++)
            if (strcmp(usage.rows[i].namespace_, test_places_spaces[space]) == 0) {
                assert_null(found);
                found = &usage.rows[i];
            }
        assert_int_equal(found != NULL, wanted[space]);
        if (found == NULL)
            continue;
        rows++;
        assert_int_equal(found->blocks, model.blocks);
        assert_memory_equal(found->places, model.places, sizeof(model.places));
        assert_memory_equal(found->bytes, model.bytes, sizeof(model.bytes));
    }
    assert_int_equal(rows, usage.count);
    advisor_usage_release(&usage);
}

static void
sums_are_those_of_the_table(void **state)
{
    struct test_places *places = test_places_begin();

    (void)state;
    expect(places, NULL, (const bool[]){true, true, true});
    expect(places, "", (const bool[]){true, true, true});
    expect(places, "tenant", (const bool[]){true, true, false});
    expect(places, "tenant/model", (const bool[]){false, true, false});
    expect(places, "tenant/mod", (const bool[]){false, false, false});
    expect(places, "tenants", (const bool[]){false, false, true});
    test_places_end(places);
}

static bool
attempt(void *arg)
{
    struct advisor_usage usage;
    const enum kvt_err rc = sum_up(arg, NULL, &usage);

    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    advisor_usage_release(&usage);
    return rc == KVT_OK;
}

static void
memory_that_fails_is_told(void **state)
{
    struct test_places *places = test_places_begin();

    (void)state;
    assert_true(attempt(places)); /* what is made once is there */
    assert_true(test_sweep_allocations(attempt, places) > 2);
    test_places_end(places);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_the_table),
        cmocka_unit_test(memory_that_fails_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
