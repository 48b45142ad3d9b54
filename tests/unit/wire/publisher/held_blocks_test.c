/*
 * What is tested: wire/publisher/held_blocks.h, beside a plain array.
 */
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "wire/publisher/held_blocks.h"

#include "tests/support/seed.h"

enum { LOCATIONS = 3, HASHES = 3000, STEPS = 60000 };

static struct kvt_event
event_of(uint32_t location, uint64_t hash)
{
    return (struct kvt_event){.sequence_hash = hash,
                              .location = (uint16_t)location,
                              .type = KVT_EVENT_STORE,
                              .block_size = hash * 7,
                              .ranks = 1};
}

/* Everything that is held, once each, in pages of odd sizes. */
static void
expect_same(const struct wire_held_blocks *holding, const bool *model, uint64_t *random)
{
    static bool seen[LOCATIONS][HASHES];
    struct kvt_event page[97];
    uint64_t cursor = 0;
    uint64_t total = 0;
    size_t count;

    memset(seen, 0, sizeof(seen));
    do {
        count =
            wire_held_blocks_walk(holding, &cursor, page, 1 + (size_t)kvt_random_below(random, 97));
        for (size_t i = 0; i < count; i++) {
            assert_true(page[i].location < LOCATIONS && page[i].sequence_hash < HASHES);
            assert_true(model[page[i].location * HASHES + page[i].sequence_hash]);
            assert_false(seen[page[i].location][page[i].sequence_hash]);
            assert_int_equal(page[i].block_size, page[i].sequence_hash * 7);
            seen[page[i].location][page[i].sequence_hash] = true;
        }
        total += count;
    } while (cursor != 0);
    assert_int_equal(total, wire_held_blocks_count(holding));
}

static void
follows_a_model(void **state)
{
    static bool model[LOCATIONS * HASHES];
    uint64_t random = test_seed();
    struct wire_held_blocks *holding;
    uint64_t count = 0;

    (void)state;
    assert_int_equal(wire_held_blocks_new(&holding, HASHES), KVT_OK);
    for (uint32_t step = 0; step < STEPS / TEST_ALONE_SHARE; step++) {
        const uint32_t location = (uint32_t)kvt_random_below(&random, LOCATIONS);
        const uint64_t hash = kvt_random_below(&random, HASHES);
        const struct kvt_event event = event_of(location, hash);
        bool *held = &model[location * HASHES + hash];

        assert_int_equal(wire_held_blocks_find(holding, location, hash) != NULL, *held);
        if (kvt_random_below(&random, 5000) == 0) {
            wire_held_blocks_clear(holding, location);
            memset(&model[location * HASHES], 0, HASHES);
            count = 0;
            for (size_t i = 0; i < LOCATIONS * HASHES; i++)
                count += model[i];
        } else if (*held) {
            wire_held_blocks_remove(holding, location, hash);
            *held = false;
            count--;
        } else if (count == HASHES) {
            assert_int_equal(wire_held_blocks_reserve(holding, 1), KVT_FULL);
        } else {
            assert_int_equal(wire_held_blocks_reserve(holding, 1), KVT_OK);
            wire_held_blocks_put(holding, &event);
            *held = true;
            count++;
        }
        assert_int_equal(wire_held_blocks_count(holding), count);
        if (step % 4000 == 0)
            expect_same(holding, model, &random);
    }
    expect_same(holding, model, &random);
    wire_held_blocks_free(holding);
}

/* What is there from the first page to the last is given, whatever comes and goes meanwhile. */
static void
walks_while_it_grows(void **state)
{
    struct wire_held_blocks *holding;
    struct kvt_event page[64];
    uint64_t cursor = 0;
    uint64_t next = 100000;
    size_t given = 0;
    size_t count;

    (void)state;
    assert_int_equal(wire_held_blocks_new(&holding, 1 << 20), KVT_OK);
    assert_int_equal(wire_held_blocks_reserve(holding, 1500), KVT_OK);
    for (uint64_t hash = 0; hash < 1500; hash++)
        wire_held_blocks_put(holding, &(struct kvt_event){.sequence_hash = hash, .type = 1});
    do {
        count = wire_held_blocks_walk(holding, &cursor, page, 64);
        for (size_t i = 0; i < count; i++)
            given += page[i].sequence_hash < 1500;
        if (next < 100000 + 20000) {
            assert_int_equal(wire_held_blocks_reserve(holding, 1000), KVT_OK);
            for (size_t i = 0; i < 1000; i++)
                wire_held_blocks_put(holding,
                                     &(struct kvt_event){.sequence_hash = next++, .type = 1});
        }
    } while (cursor != 0);
    assert_int_equal(given, 1500);
    wire_held_blocks_free(holding);
}

static bool
attempt(void *arg)
{
    struct wire_held_blocks *holding;
    bool done = false;

    (void)arg;
    if (wire_held_blocks_new(&holding, 10000) != KVT_OK)
        return false;
    if (wire_held_blocks_reserve(holding, 10) == KVT_OK) {
        wire_held_blocks_put(holding, &(struct kvt_event){.sequence_hash = 5, .type = 1});
        done = wire_held_blocks_reserve(holding, 5000) == KVT_OK;
        assert_non_null(wire_held_blocks_find(holding, 0, 5));
    }
    wire_held_blocks_free(holding);
    return done;
}

static void
survives_failing_allocations(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(attempt, NULL) >= 5);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_a_model),
        cmocka_unit_test(walks_while_it_grows),
        cmocka_unit_test(survives_failing_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
