/*
 * What is tested: advisor/index/ram_index.h: sequences reach the RAM index in one piece, although
 * a group is written, and the store is read, in the order of hashes; and find.h finds them by both
 * hashes. How: by the memory the index takes for them: a block that comes alone costs several
 * times as much as one that comes with its neighbours.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/random.h"
#include "kvtier/token.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/rig.h"

enum {
    CHAIN = 64,
    CHAINS = 256,
    /* Bytes a block: 16 of hashes, 6 of the table, a share of the run and of pages begun; the
     * history apart.  Alone a block would take over 128. */
    BYTES_LIVE = 56,
    BYTES_LOADED = 80, /* they come by position: runs grow in steps */
};

static uint64_t
token_of(uint32_t chain, uint32_t position)
{
    uint64_t state = (uint64_t)chain * CHAIN + position + 1;

    return kvt_random_next(&state);
}

/* Sequence hashes of a chain: Dynamo's, over its token hashes. */
static void
fill(uint32_t chain, uint64_t hashes[CHAIN])
{
    hashes[0] = token_of(chain, 0);
    for (uint32_t i = 1; i < CHAIN; i++)
        hashes[i] = kvt_token_chain(hashes[i - 1], token_of(chain, i));
}

static void
store_chains(struct test_rig *rig)
{
    struct kvt_event events[CHAIN];
    uint64_t hashes[CHAIN];
    struct kvt_event_batch batch = {.worker = "w",
                                    .namespace_ = "ns",
                                    .incarnation = 1,
                                    .location_count = 1,
                                    .locations = {{.tier = KVT_TIER_G2, .name = "host"}},
                                    .events = events,
                                    .event_count = CHAIN};

    for (uint32_t chain = 0; chain < CHAINS; chain++) {
        fill(chain, hashes);
        for (uint32_t i = 0; i < CHAIN; i++)
            events[i] = (struct kvt_event){.type = KVT_EVENT_STORE,
                                           .sequence_hash = hashes[i],
                                           .parent = i == 0 ? 0 : hashes[i - 1],
                                           .tokens_hash = token_of(chain, i),
                                           .position = i,
                                           .block_size = 4096,
                                           .ranks = 1};
        batch.first_seq = (uint64_t)chain * CHAIN + 1;
        test_rig_batch(rig, 0, &batch);
    }
    test_rig_run(rig);
}

static uint64_t
bytes_a_block(const struct test_rig *rig, uint64_t empty)
{
    struct index_stats stats;

    index_stats(rig->index, &stats);
    assert_int_equal(stats.blocks, CHAIN * CHAINS);
    assert_int_equal(stats.orphans, 0);
    return (stats.bytes - empty) / stats.blocks;
}

/* By sequence hashes and by token hashes, with strangers behind them. */
static void
assert_found(const struct advisor_finder *finder)
{
    struct wire_query_holder holders[4];
    uint64_t hashes[CHAIN + 1];
    struct wire_query query = {.namespace_ = "ns", .hashes = hashes, .hash_count = CHAIN + 1};
    size_t count;

    for (uint32_t chain = 0; chain < CHAINS; chain += 37)
        for (unsigned way = 0; way < 2; way++) {
            query.by_tokens = way == 1;
            fill(chain, hashes);
            for (uint32_t i = 0; i < CHAIN && query.by_tokens; i++)
                hashes[i] = token_of(chain, i);
            hashes[CHAIN] = 12345;
            assert_int_equal(advisor_finder_matches(finder, &query, holders, 4, &count), KVT_OK);
            assert_int_equal(count, 1);
            assert_int_equal(holders[0].blocks, CHAIN);
            hashes[0]++;
            assert_int_equal(advisor_finder_matches(finder, &query, holders, 4, &count), KVT_OK);
            assert_int_equal(count, 0);
        }
}

static void
sequences_stay_in_one_piece(void **state)
{
    struct test_rig_options options = {.mode = ADVISOR_MODE_OFF};
    struct index_stats stats;
    struct test_rig rig;
    char folder[200];
    uint64_t history;

    (void)state;
    options.path = test_folder_make(folder, sizeof(folder));
    test_rig_open(&rig, &options);
    index_stats(rig.index, &stats);
    history = (uint64_t)CHAIN * CHAINS * 16; /* a record for each change */
    store_chains(&rig);
    assert_found(&rig.finder);
    assert_in_range(bytes_a_block(&rig, stats.bytes + history), 16, BYTES_LIVE);
    test_rig_close(&rig);
    test_rig_open(&rig, &options); /* as after a restart */
    assert_found(&rig.finder);
    assert_in_range(bytes_a_block(&rig, stats.bytes + history), 16, BYTES_LOADED);
    assert_found(&(struct advisor_finder){.store = rig.store}); /* as without memory */
    test_rig_close(&rig);
    test_folder_remove(folder);
}

/* One Store of `hash`, as the `seq`-th event of `worker`. */
static void
store_one(struct test_rig *rig, const char *worker, uint64_t seq, uint64_t hash, uint64_t parent,
          uint32_t position)
{
    struct kvt_event event = {.type = KVT_EVENT_STORE,
                              .sequence_hash = hash,
                              .parent = parent,
                              .position = position,
                              .block_size = 4096,
                              .ranks = 1};
    struct kvt_event_batch batch = {.namespace_ = "ns",
                                    .incarnation = 1,
                                    .first_seq = seq,
                                    .location_count = 1,
                                    .locations = {{.tier = KVT_TIER_G2, .name = "host"}},
                                    .events = &event,
                                    .event_count = 1};

    (void)snprintf(batch.worker, sizeof(batch.worker), "%s", worker);
    test_rig_batch(rig, 0, &batch);
    test_rig_run(rig);
}

/* A block whose parent and position were not known at first: disk and RAM learn them alike. */
static void
positions_are_learned_in_both(void **state)
{
    struct test_rig_options options = {.mode = ADVISOR_MODE_OFF};
    uint64_t hashes[] = {11, 12, 13};
    const struct wire_query query = {.namespace_ = "ns", .hashes = hashes, .hash_count = 3};
    struct wire_query_holder holders[4];
    struct test_rig rig;
    char folder[200];
    size_t count;

    (void)state;
    options.path = test_folder_make(folder, sizeof(folder));
    test_rig_open(&rig, &options);
    store_one(&rig, "late", 1, 13, 0, 1);
    store_one(&rig, "whole", 1, 11, 0, 0);
    store_one(&rig, "whole", 2, 12, 11, 1);
    store_one(&rig, "whole", 3, 13, 12, 2);
    store_one(&rig, "late", 2, 12, 0, 1);
    assert_true(advisor_ram_index_whole(advisor_round_memory(rig.engine)));
    assert_int_equal(test_rig_value(rig.counters.collisions), 0);
    assert_int_equal(advisor_finder_matches(&rig.finder, &query, holders, 4, &count), KVT_OK);
    assert_int_equal(count, 1);
    assert_string_equal(holders[0].name, "whole");
    assert_int_equal(holders[0].blocks, 3);
    test_rig_close(&rig);
    test_folder_remove(folder);
}

static void
no_position_keeps_the_rest_from_loading(void **state)
{
    const struct advisor_event_log_place place = {.ranks = 1};
    const uint64_t hashes[] = {1, 2};
    struct advisor_op op = {.kind = ADVISOR_OP_STORE, .position = KVT_POSITION_MAX + 1};
    struct advisor_change_group *group;
    struct test_rig_options options = {.mode = ADVISOR_MODE_OFF};
    struct index_stats stats;
    struct test_rig rig;
    char folder[200];

    (void)state;
    assert_int_equal(advisor_change_group_new(&group), KVT_OK);
    assert_int_equal(advisor_change_group_add(group, &op), KVT_RANGE);
    op.position--;
    assert_int_equal(advisor_change_group_add(group, &op), KVT_OK);
    assert_int_equal(
        advisor_change_group_store(group, &place, 9, KVT_POSITION_MAX, hashes, NULL, 2), KVT_RANGE);
    assert_int_equal(advisor_change_group_count(group), 1);
    assert_int_equal(
        advisor_change_group_store(group, &place, 9, KVT_POSITION_MAX - 1, hashes, NULL, 2),
        KVT_OK);
    assert_int_equal(advisor_change_group_count(group), 3);
    advisor_change_group_free(group);
    options.path = test_folder_make(folder, sizeof(folder));
    test_rig_open(&rig, &options);
    store_one(&rig, "w", 1, 11, 0, 0);
    store_one(&rig, "liar", 1, 12, 11, KVT_POSITION_MAX + 1);
    store_one(&rig, "w", 2, 13, 12, KVT_POSITION_MAX);
    assert_int_equal(test_rig_value(rig.counters.refused) + test_rig_value(rig.counters.malformed),
                     1);
    test_rig_close(&rig);
    test_rig_open(&rig, &options);
    index_stats(rig.index, &stats);
    assert_int_equal(stats.blocks, 2);
    test_rig_close(&rig);
    test_folder_remove(folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences_stay_in_one_piece),
        cmocka_unit_test(positions_are_learned_in_both),
        cmocka_unit_test(no_position_keeps_the_rest_from_loading),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
