/*
 * What is tested: cli/index/offline_index.h, the index read from its folder.
 * How: a store of several pages written by hand, rows and log, and every question with allocations
 * failing.
 */
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "advisor/store/event_log_table.h"
#include "cli/index/offline_index.h"
#include "cli/output/cli_json.h"

#include "tests/support/seed.h"

/* The last page is not full; block i has position i, and the first holder has all of them. */
enum { BLOCKS = 2 * CLI_OFFLINE_INDEX_PAGE + 7, FIRST_HASH = 1000, EVERY = 3 };

static void
put_block(const struct advisor_txn *txn, uint32_t position)
{
    struct advisor_store_block block = {
        .hash = FIRST_HASH + position,
        .parent = position == 0 ? 0 : FIRST_HASH + position - 1,
        .ns = 1,
        .position = position,
        .size = 64,
    };

    assert_int_equal(advisor_store_block_reserve(&block, 1), KVT_OK);
    block.places[block.place_count++] = (struct advisor_store_place){.holder = 0, .ranks = 3};
    assert_int_equal(advisor_store_put_block(txn, &block), KVT_OK);
    advisor_store_block_release(&block);
}

/* What the worker has: every third block. */
static void
put_log(const struct advisor_txn *txn, uint32_t blocks)
{
    const struct advisor_event_log_place place = {.size = 64, .holder = 1, .ns = 1, .ranks = 1};
    struct advisor_store_log state;
    struct advisor_event_log *log;

    assert_int_equal(advisor_event_log_new(&log), KVT_OK);
    for (uint32_t i = 0; i < blocks; i += EVERY) {
        const uint64_t hash = FIRST_HASH + i;

        assert_int_equal(
            advisor_event_log_store(log, &place, i == 0 ? 0 : hash - 1, i, &hash, NULL, 1), KVT_OK);
    }
    assert_int_equal(advisor_store_log_get(txn, &state), KVT_OK);
    assert_int_equal(advisor_store_log_append(txn, &state, log), KVT_OK);
    advisor_event_log_free(log);
}

static void
write_blocks(const char *folder, uint32_t blocks)
{
    const struct advisor_store_options options = {.path = folder, .map_bytes = 16u << 20};
    const struct index_holder cold = {"cold@kvtier", 0, KVT_TIER_G4};
    const struct index_holder worker = {"w-0", 0, KVT_TIER_G2};
    struct advisor_store *store;
    struct advisor_txn txn;

    assert_int_equal(advisor_store_open(&store, &options, NULL), KVT_OK);
    assert_int_equal(advisor_store_write(store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_store_put_namespace(&txn, 0, "", 0), KVT_OK);
    assert_int_equal(advisor_store_put_namespace(&txn, 1, "tenant/model", 0), KVT_OK);
    assert_int_equal(advisor_store_put_holder(&txn, 0, &cold), KVT_OK);
    assert_int_equal(advisor_store_put_holder(&txn, 1, &worker), KVT_OK);
    assert_int_equal(advisor_store_put_number(&txn, ADVISOR_META_EVENTS_SEQ, 77), KVT_OK);
    for (uint32_t i = 0; i < blocks; i++)
        put_block(&txn, i);
    put_log(&txn, blocks);
    assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
    advisor_store_close(store);
}

static int
write_index(void **state)
{
    static char folder[256];

    *state = (void *)(uintptr_t)test_folder_make(folder, sizeof(folder));
    write_blocks(folder, BLOCKS);
    return 0;
}

static int
remove_index(void **state)
{
    test_folder_remove(*state);
    return 0;
}

struct seen {
    uint32_t count;
    uint32_t stop_after; /* 0: never */
    uint8_t places[BLOCKS];
};

static bool
see(void *arg, struct json_object *line)
{
    struct seen *seen = arg;
    const uint64_t position = cli_json_u64(line, "position");

    assert_true(position < BLOCKS);
    assert_string_equal(cli_json_text(line, "namespace"), "tenant/model");
    assert_int_equal(strlen(cli_json_text(line, "hash")), 16);
    seen->places[position]++;
    seen->count++;
    return seen->stop_after == 0 || seen->count < seen->stop_after;
}

static void
a_dump_has_every_place_once_over_all_pages(void **state)
{
    struct seen seen = {0};

    assert_int_equal(cli_offline_index_dump(*state, see, &seen, NULL), KVT_OK);
    for (uint32_t i = 0; i < BLOCKS; i++)
        assert_int_equal(seen.places[i], i % EVERY == 0 ? 2 : 1);
}

static void
a_dump_stops_when_told(void **state)
{
    const uint32_t stops[] = {1, CLI_OFFLINE_INDEX_PAGE, CLI_OFFLINE_INDEX_PAGE + 400};

    for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++) {
        struct seen seen = {.stop_after = stops[i]};

        assert_int_equal(cli_offline_index_dump(*state, see, &seen, NULL), KVT_OK);
        assert_int_equal(seen.count, stops[i]);
    }
}

static void
stats_count_all_pages(void **state)
{
    const uint64_t both = (BLOCKS + EVERY - 1) / EVERY;
    struct json_object *stats;

    assert_int_equal(cli_offline_index_stats(*state, &stats, NULL), KVT_OK);
    assert_int_equal(cli_json_u64(stats, "schema_version"), 1);
    assert_int_equal(cli_json_u64(stats, "blocks"), BLOCKS);
    assert_int_equal(cli_json_u64(stats, "places"), BLOCKS + both);
    assert_int_equal(cli_json_u64(stats, "committed_seq"), 77);
    assert_int_equal(cli_json_count(stats, "holders"), 2);
    assert_string_equal(cli_json_text(cli_json_item(stats, "holders", 0), "holder"), "cold@kvtier");
    assert_string_equal(cli_json_text(cli_json_item(stats, "holders", 0), "tier"), "G4");
    /* Two shards each. */
    assert_int_equal(cli_json_u64(cli_json_item(stats, "holders", 0), "bytes"), BLOCKS * 64 * 2);
    assert_int_equal(cli_json_u64(cli_json_item(stats, "holders", 1), "blocks"), both);
    (void)json_object_put(stats);
}

static void
match_and_block_tell_namespaces_apart(void **state)
{
    uint64_t hashes[] = {FIRST_HASH, FIRST_HASH + 1, 5};
    struct json_object *answer;
    struct kvt_error err = {0};

    assert_int_equal(cli_offline_index_match(*state, "tenant/model", hashes, 3, &answer, NULL),
                     KVT_OK);
    assert_int_equal(cli_json_count(cli_json_item(answer, "blocks", 0), "tiers"), 2);
    assert_int_equal(cli_json_count(cli_json_item(answer, "blocks", 1), "tiers"), 1);
    assert_int_equal(cli_json_count(cli_json_item(answer, "blocks", 2), "tiers"), 0);
    assert_int_equal(cli_json_count(answer, "matches"), 2);
    assert_string_equal(cli_json_text(cli_json_item(answer, "matches", 0), "holder"),
                        "cold@kvtier");
    assert_int_equal(cli_json_u64(cli_json_item(answer, "matches", 0), "blocks"), 2);
    (void)json_object_put(answer);

    assert_int_equal(cli_offline_index_match(*state, "other", hashes, 3, &answer, NULL), KVT_OK);
    assert_int_equal(cli_json_count(answer, "blocks"), 3);
    assert_int_equal(cli_json_count(answer, "matches"), 0);
    (void)json_object_put(answer);

    assert_int_equal(cli_offline_index_block(*state, "tenant/model", FIRST_HASH + 1, &answer, NULL),
                     KVT_OK);
    assert_int_equal(cli_json_u64(answer, "position"), 1);
    assert_string_equal(cli_json_text(answer, "parent"), "00000000000003e8");
    assert_int_equal(cli_json_count(answer, "places"), 1);
    (void)json_object_put(answer);
    assert_int_equal(cli_offline_index_block(*state, "", FIRST_HASH, &answer, &err), KVT_NOTFOUND);
    assert_null(answer);
    assert_non_null(strstr(err.text, "00000000000003e8"));
}

static bool
ask_everything(void *arg)
{
    uint64_t hash = FIRST_HASH;
    struct seen seen = {.stop_after = 5};
    struct json_object *stats = NULL;
    struct json_object *match = NULL;
    struct json_object *block = NULL;
    enum kvt_err rc = cli_offline_index_stats(arg, &stats, NULL);

    if (rc == KVT_OK)
        rc = cli_offline_index_match(arg, "tenant/model", &hash, 1, &match, NULL);
    if (rc == KVT_OK)
        rc = cli_offline_index_block(arg, "tenant/model", hash, &block, NULL);
    if (rc == KVT_OK)
        rc = cli_offline_index_dump(arg, see, &seen, NULL);
    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    (void)json_object_put(stats);
    (void)json_object_put(match);
    (void)json_object_put(block);
    return rc == KVT_OK;
}

static void
every_failing_allocation_is_answered(void **state)
{
    char folder[256];

    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    write_blocks(folder, 9);
    assert_true(test_sweep_allocations(ask_everything, folder) > 5);
    test_folder_remove(folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dump_has_every_place_once_over_all_pages),
        cmocka_unit_test(a_dump_stops_when_told),
        cmocka_unit_test(stats_count_all_pages),
        cmocka_unit_test(match_and_block_tell_namespaces_apart),
        cmocka_unit_test(every_failing_allocation_is_answered),
    };

    return cmocka_run_group_tests(tests, write_index, remove_index);
}
