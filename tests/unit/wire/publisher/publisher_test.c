/*
 * What is tested: kvtier/publisher.h where no server is needed: what is refused, what is held, and
 * which events that makes.  How it looks from an advisor: tests/scenario/engine.py.
 */
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "kvtier/publisher.h"

#include "tests/support/seed.h"

enum { LOCATIONS = 2, HASHES = 400, STEPS = 20000, BLOCKS_MAX = 300 };

static const struct kvt_location locations[LOCATIONS] = {
    {.tier = KVT_TIER_G1, .name = "device"},
    {.tier = KVT_TIER_G2, .name = "host"},
};

/* Nobody answers there, and nobody has to. */
static struct kvt_publisher_options
options_of(void)
{
    return (struct kvt_publisher_options){.size = sizeof(struct kvt_publisher_options),
                                          .url = "nats://127.0.0.1:9",
                                          .namespace_ = "tenant/model",
                                          .worker = "engine.1",
                                          .locations = locations,
                                          .location_count = LOCATIONS,
                                          .mode = KVT_PUBLISHER_CORE,
                                          .blocks_max = BLOCKS_MAX};
}

static struct kvt_publisher *
open_publisher(void)
{
    const struct kvt_publisher_options options = options_of();
    struct kvt_publisher *publisher;
    struct kvt_error err;

    assert_int_equal(kvt_publisher_open(&publisher, &options, &err), KVT_OK);
    return publisher;
}

static struct kvt_publisher_stats
stats_of(struct kvt_publisher *publisher)
{
    struct kvt_publisher_stats stats = {.size = sizeof(stats)};

    kvt_publisher_stats(publisher, &stats);
    return stats;
}

static void
refuses(struct kvt_publisher_options options, enum kvt_err expected)
{
    struct kvt_publisher *publisher = (struct kvt_publisher *)&options;
    struct kvt_error err = {.code = KVT_OK};

    assert_int_equal(kvt_publisher_open(&publisher, &options, &err), expected);
    assert_null(publisher);
    assert_int_equal(err.code, expected);
    assert_true(err.text[0] != '\0');
}

static void
refuses_wrong_options(void **state)
{
    struct kvt_publisher_options options = options_of();

    (void)state;
    options.size = 8;
    refuses(options, KVT_INVALID);
    options = options_of();
    options.url = NULL;
    refuses(options, KVT_INVALID);
    options = options_of();
    options.location_count = 0;
    refuses(options, KVT_INVALID);
    options = options_of();
    options.mode = 7;
    refuses(options, KVT_INVALID);
    options = options_of();
    options.blocks_max = UINT64_C(1) << 40;
    refuses(options, KVT_RANGE);
    options = options_of();
    options.connect_now = 1;
    refuses(options, KVT_UNAVAILABLE);
}

/* A caller of another version has a smaller or a larger struct. */
static void
takes_structs_of_other_sizes(void **state)
{
    struct {
        struct kvt_publisher_options options;
        uint64_t later[2];
    } newer = {.options = options_of()};
    struct kvt_publisher_options older = options_of();
    struct {
        struct kvt_publisher_stats stats;
        uint64_t later;
    } read = {.later = 77};
    struct kvt_publisher *publisher;

    (void)state;
    newer.options.size = sizeof(newer);
    assert_int_equal(kvt_publisher_open(&publisher, &newer.options, NULL), KVT_OK);
    read.stats.size = sizeof(read.stats.size) + sizeof(read.stats.incarnation);
    read.stats.next_seq = 99;
    kvt_publisher_stats(publisher, &read.stats);
    assert_int_not_equal(read.stats.incarnation, 0);
    assert_int_equal(read.stats.next_seq, 99);
    read.stats.size = sizeof(read);
    kvt_publisher_stats(publisher, &read.stats);
    assert_int_equal(read.later, 0);
    assert_int_equal(read.stats.size, sizeof(read));
    kvt_publisher_close(publisher, false);

    newer.later[1] = 1;
    assert_int_equal(kvt_publisher_open(&publisher, &newer.options, NULL), KVT_UNSUPPORTED);

    /* What the older caller does not have is not read. */
    older.size = offsetof(struct kvt_publisher_options, user_file);
    older.user_file = (const char *)1;
    older.ca_file = (const char *)1;
    older.connect_now = 1;
    assert_int_equal(kvt_publisher_open(&publisher, &older, NULL), KVT_OK);
    kvt_publisher_close(publisher, false);
}

static void
stores_all_or_none(void **state)
{
    struct kvt_publisher *publisher = open_publisher();
    struct kvt_publisher_block blocks[12];

    (void)state;
    for (uint32_t i = 0; i < 12; i++)
        blocks[i] = (struct kvt_publisher_block){
            .sequence_hash = 100 + i, .parent = i == 0 ? 0 : 99 + i, .position = i};
    assert_int_equal(kvt_publisher_stored(publisher, LOCATIONS, blocks, 1), KVT_INVALID);
    assert_int_equal(kvt_publisher_stored(publisher, 0, blocks, KVT_PUBLISHER_BLOCKS_MAX + 1),
                     KVT_RANGE);

    /* Nobody knows what the ninth block's prefix is. */
    assert_int_equal(kvt_publisher_stored(publisher, 0, blocks + 9, 2), KVT_INVALID);
    assert_int_equal(kvt_publisher_stored(publisher, 0, blocks, 9), KVT_OK);
    assert_int_equal(kvt_publisher_stored(publisher, 1, blocks + 9, 2), KVT_OK);

    /* A gap, a hash of 0, a root with a parent: what is before them is not stored either. */
    blocks[10] = (struct kvt_publisher_block){.sequence_hash = 500, .parent = 499, .position = 20};
    assert_int_equal(kvt_publisher_stored(publisher, 1, blocks, 11), KVT_INVALID);
    blocks[10] = (struct kvt_publisher_block){.sequence_hash = 0};
    assert_int_equal(kvt_publisher_stored(publisher, 1, blocks, 11), KVT_INVALID);
    blocks[10] = (struct kvt_publisher_block){.sequence_hash = 500, .parent = 3};
    assert_int_equal(kvt_publisher_stored(publisher, 1, blocks, 11), KVT_INVALID);
    assert_int_equal(kvt_publisher_holds(publisher, 1, 100), 0);
    assert_int_equal(kvt_publisher_holds(publisher, 0, 100), 1);
    assert_int_equal(stats_of(publisher).blocks, 11);
    assert_int_equal(stats_of(publisher).next_seq, 12);
    kvt_publisher_close(publisher, false);
}

/* A table that is full still takes shards of the blocks that are in it. */
static void
full_is_for_new_blocks(void **state)
{
    struct kvt_publisher *publisher = open_publisher();
    struct kvt_publisher_block blocks[BLOCKS_MAX];

    (void)state;
    for (uint32_t i = 0; i < BLOCKS_MAX; i++)
        blocks[i] = (struct kvt_publisher_block){.sequence_hash = 100 + i, .ranks = 1};
    assert_int_equal(kvt_publisher_stored(publisher, 0, blocks, BLOCKS_MAX), KVT_OK);
    for (uint32_t i = 0; i < BLOCKS_MAX; i++)
        blocks[i].ranks = 2;
    assert_int_equal(kvt_publisher_stored(publisher, 0, blocks, BLOCKS_MAX), KVT_OK);
    assert_int_equal(kvt_publisher_holds(publisher, 0, 100 + BLOCKS_MAX - 1), 3);
    assert_int_equal(stats_of(publisher).next_seq, 1 + 2 * BLOCKS_MAX);
    assert_int_equal(kvt_publisher_stored(publisher, 1, blocks, 1), KVT_FULL);

    /* All or none: one that is new among those that are held. */
    blocks[0].ranks = 4;
    blocks[1] = (struct kvt_publisher_block){.sequence_hash = 1};
    assert_int_equal(kvt_publisher_stored(publisher, 0, blocks, 2), KVT_FULL);
    assert_int_equal(kvt_publisher_holds(publisher, 0, 100), 3);
    assert_int_equal(stats_of(publisher).next_seq, 1 + 2 * BLOCKS_MAX);
    kvt_publisher_close(publisher, false);
}

/* Each change of what is held is one event, and nothing else is. */
static void
follows_a_model(void **state)
{
    static uint32_t held[LOCATIONS][HASHES];
    struct kvt_publisher *publisher = open_publisher();
    uint64_t random = test_seed();
    uint64_t events = 1;
    uint64_t repeated = 0;
    uint64_t count = 0;

    (void)state;
    for (uint32_t step = 0; step < STEPS / TEST_ALONE_SHARE; step++) {
        const uint32_t location = (uint32_t)kvt_random_below(&random, LOCATIONS);
        const uint64_t hash = 1 + kvt_random_below(&random, HASHES - 1);
        const uint32_t ranks = 1 + (uint32_t)kvt_random_below(&random, 15);
        const uint64_t what = kvt_random_below(&random, 1000);
        uint32_t *now = &held[location][hash];

        if (what < 5) {
            assert_int_equal(kvt_publisher_cleared(publisher, location), KVT_OK);
            memset(held[location], 0, sizeof(held[location]));
            events++;
        } else if (what < 450) {
            const bool all = kvt_random_below(&random, 2) == 0;
            const uint32_t lost = all ? *now : *now & ranks;

            assert_int_equal(kvt_publisher_removed(publisher, location, &hash, 1, all ? 0 : ranks),
                             KVT_OK);
            *now &= ~lost;
            events += lost != 0;
            repeated += lost == 0;
        } else {
            const struct kvt_publisher_block block = {.sequence_hash = hash, .ranks = ranks};
            const uint32_t won = ranks & ~*now;

            if (count >= BLOCKS_MAX && *now == 0) {
                assert_int_equal(kvt_publisher_stored(publisher, location, &block, 1), KVT_FULL);
            } else {
                assert_int_equal(kvt_publisher_stored(publisher, location, &block, 1), KVT_OK);
                *now |= won;
                events += won != 0;
                repeated += won == 0;
            }
        }
        assert_int_equal(kvt_publisher_holds(publisher, location, hash), *now);
        count = 0;
        for (size_t i = 0; i < LOCATIONS * HASHES; i++)
            count += held[i / HASHES][i % HASHES] != 0;
        assert_int_equal(stats_of(publisher).blocks, count);
        assert_int_equal(stats_of(publisher).next_seq, events);
        assert_int_equal(stats_of(publisher).repeated, repeated);
    }
    kvt_publisher_close(publisher, false);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_wrong_options), cmocka_unit_test(takes_structs_of_other_sizes),
        cmocka_unit_test(stores_all_or_none),    cmocka_unit_test(full_is_for_new_blocks),
        cmocka_unit_test(follows_a_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
