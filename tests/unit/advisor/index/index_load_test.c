/*
 * What is tested: advisor/index/index_load.h: the index after a start is the one of before, from
 * the journal, a snapshot and rows; and what is damaged is refused.
 * How: by hand, and random changes against a naive model; snapshot_test.c has the crashes.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/store/durable_store_private.h"
#include "base/core/random.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/keeper.h"

enum { CHANGES = 400 };

static void
restart(struct keeper *keeper)
{
    keeper_crash(keeper);
    keeper_open(keeper);
}

/* All that is there as a snapshot, and nothing in the journal. */
static void
write_snapshot(struct keeper *keeper)
{
    advisor_ram_snapshot_sizes(keeper->snapshot, 1, 1 << 20);
    do
        keeper_commit(keeper, 0);
    while (advisor_ram_snapshot_busy(keeper->snapshot));
    assert_int_equal(keeper->log.bytes, 0);
    advisor_ram_snapshot_sizes(keeper->snapshot, UINT64_MAX, 1);
}

static void
nothing_comes_of_nothing(void **state)
{
    struct index_stats stats;
    struct keeper keeper;

    (void)state;
    keeper_begin(&keeper);
    index_stats(keeper.index, &stats);
    assert_int_equal(stats.blocks, 0);
    restart(&keeper);
    keeper_check(&keeper);
    keeper_end(&keeper);
}

static void
all_comes_back(void **state)
{
    uint64_t random = test_seed();
    struct log_step step = {.call = 0};
    struct keeper keeper;

    (void)state;
    keeper_begin(&keeper);
    for (unsigned i = 0; i < CHANGES; i++)
        keeper_change(&keeper, &step, &random);
    for (uint32_t block = LOG_MODEL_BLOCKS; block-- > 0;)
        if (kvt_random_below(&random, 3) == 0)
            keeper_bucket(&keeper, block % 2, block, true);
    keeper_commit(&keeper, 0);
    restart(&keeper); /* from the journal and rows */
    keeper_check(&keeper);
    write_snapshot(&keeper);
    restart(&keeper); /* from the snapshot and rows */
    keeper_check(&keeper);
    for (unsigned i = 0; i < CHANGES; i++)
        keeper_change(&keeper, &step, &random);
    keeper_commit(&keeper, 0);
    restart(&keeper); /* from all */
    keeper_check(&keeper);
    keeper_end(&keeper);
}

static uint64_t
subtree_of(const struct keeper *keeper, uint32_t block)
{
    struct index_totals totals;

    assert_int_equal(index_subtree(keeper->index,
                                   advisor_name_table_index_namespace(keeper->names, 0),
                                   log_model_hash(block), UINT64_MAX, NULL, &totals),
                     KVT_OK);
    return totals.blocks;
}

static void
what_hangs_on_blocks_that_nobody_has_stays_there(void **state)
{
    struct index_stats stats;
    struct keeper keeper;

    (void)state;
    keeper_begin(&keeper);
    keeper_put(&keeper, ADVISOR_EVENT_LOG_STORE, 0, 0, 10);
    keeper_put(&keeper, ADVISOR_EVENT_LOG_STORE, 1, LOG_MODEL_LENGTH, 5); /* hangs on block 7 */
    keeper_put(&keeper, ADVISOR_EVENT_LOG_REMOVE, 0, 3, 7);
    keeper_commit(&keeper, 0);
    assert_int_equal(subtree_of(&keeper, 0), 3 + 5);
    write_snapshot(&keeper);
    restart(&keeper);
    keeper_check(&keeper);
    assert_int_equal(subtree_of(&keeper, 0), 3 + 5);
    /* They go with the last that hangs on them: nobody has them any more. */
    keeper_put(&keeper, ADVISOR_EVENT_LOG_REMOVE, 0, 0, 3);
    keeper_put(&keeper, ADVISOR_EVENT_LOG_REMOVE, 1, LOG_MODEL_LENGTH, 5);
    keeper_commit(&keeper, 0);
    index_stats(keeper.index, &stats);
    assert_int_equal(stats.blocks, 0);
    assert_int_equal(stats.places, 0);
    keeper_end(&keeper);
}

/* A block may be stored below another parent once it is gone: what was in the snapshot must not be
 * held against what the journal says later. */
static void
blocks_that_nobody_has_go_before_the_journal(void **state)
{
    const struct advisor_event_log_place place = {.size = 4096, .holder = 2, .ranks = 1};
    const uint64_t hash = log_model_hash(9);
    struct index_view view;
    struct keeper keeper;

    (void)state;
    keeper_begin(&keeper);
    keeper_put(&keeper, ADVISOR_EVENT_LOG_STORE, 0, 0, 11);
    keeper_put(&keeper, ADVISOR_EVENT_LOG_REMOVE, 0, 3, 7); /* 10 hangs on 9 */
    write_snapshot(&keeper);
    keeper_put(&keeper, ADVISOR_EVENT_LOG_REMOVE, 0, 10, 1);
    assert_int_equal(advisor_event_log_store(advisor_change_group_log(keeper.group), &place, 12345,
                                             77, &hash, NULL, 1),
                     KVT_OK);
    keeper_commit(&keeper, 0);
    for (unsigned i = 0; i < 2; i++, restart(&keeper)) {
        assert_int_equal(index_get(keeper.index,
                                   advisor_name_table_index_namespace(keeper.names, 0), hash,
                                   &view),
                         KVT_OK);
        assert_int_equal(view.block.id.parent, 12345);
    }
    keeper_end(&keeper);
}

static void
reads_come_back(void **state)
{
    const struct advisor_op read = {.kind = ADVISOR_OP_ACCESS,
                                    .hash = log_model_hash(3),
                                    .holder = KEEPER_BUCKET,
                                    .count = 5,
                                    .time_ms = 7000,
                                    .cold = true};
    struct index_candidate candidates[8];
    struct keeper keeper;

    (void)state;
    keeper_begin(&keeper);
    for (uint32_t block = 6; block-- > 0;)
        keeper_bucket(&keeper, 0, block, true);
    keeper_commit(&keeper, 0);
    assert_int_equal(advisor_change_group_add(keeper.group, &read), KVT_OK);
    keeper_commit(&keeper, 0);
    restart(&keeper);
    keeper_check(&keeper);
    assert_int_equal(index_candidates(keeper.index, KVT_TIER_G4, false, candidates, 8), 6);
    assert_true(candidates[0].hash == log_model_hash(3));
    assert_int_equal(candidates[0].hits, 5);
    assert_int_equal(candidates[0].used_ms, 7000);
    keeper_end(&keeper);
}

/* Whose number in the index is the loader's own. */
static void
the_last_number_goes_to_who_comes(void **state)
{
    struct index_holder key = {.name = "", .tier = KVT_TIER_G1};
    struct advisor_name_table *names;
    struct index *index;
    uint32_t number;

    (void)state;
    assert_int_equal(index_new(&index, 256u << 20), KVT_OK);
    assert_int_equal(index_holder(index, &key, &number), KVT_OK);
    assert_int_equal(advisor_name_table_new(&names, index, INDEX_HOLDERS_MAX), KVT_OK);
    for (uint32_t i = 0; i + 1 < INDEX_HOLDERS_MAX; i++) {
        (void)snprintf(key.name, sizeof(key.name), "w%u", i);
        assert_int_equal(advisor_name_table_holder(names, &key, &number), KVT_OK);
    }
    (void)snprintf(key.name, sizeof(key.name), "last");
    assert_int_equal(advisor_name_table_holder(names, &key, &number), KVT_FULL);
    advisor_name_table_saved(names);
    advisor_name_table_spare(names, 7);
    assert_int_equal(advisor_name_table_holder(names, &key, &number), KVT_OK);
    assert_int_equal(number, 7);
    advisor_name_table_free(names);
    index_free(index);
}

/* ---- how far it is, and how it fails ---- */

/* Load into an index of its own. */
static enum kvt_err
load_parts(struct keeper *keeper, uint32_t parts, struct advisor_index_load_progress *progress,
           struct index_stats *stats, struct kvt_error *err)
{
    struct advisor_ram_index memory = {.index = NULL};
    struct advisor_name_table *names = NULL;
    struct index *index = NULL;
    struct advisor_txn txn = {.handle = NULL};
    enum kvt_err rc = index_new(&index, 64u << 20);

    if (rc == KVT_OK)
        rc = advisor_name_table_new(&names, index, INDEX_HOLDERS_MAX);
    if (rc == KVT_OK)
        rc = advisor_store_read(keeper->store, &txn, err);
    if (rc == KVT_OK)
        rc = advisor_name_table_load(names, &txn);
    memory.index = index;
    memory.names = names;
    if (rc == KVT_OK)
        rc = advisor_index_load_parts(&memory, &txn, parts, progress, err);
    if (rc == KVT_OK && !advisor_ram_index_whole(&memory))
        rc = KVT_FULL;
    if (rc == KVT_OK)
        index_stats(index, stats);
    advisor_store_end(&txn);
    advisor_ram_index_release(&memory);
    advisor_name_table_free(names);
    index_free(index);
    return rc;
}

static enum kvt_err
load_again(struct keeper *keeper, struct advisor_index_load_progress *progress,
           struct kvt_error *err)
{
    struct index_stats stats;

    return load_parts(keeper, 1, progress, &stats, err);
}

static void
parts_come_to_the_same(void **state)
{
    uint64_t random = test_seed();
    struct log_step step = {.call = 0};
    struct kvt_error err = {.text = ""};
    struct index_stats whole;
    struct keeper keeper;

    (void)state;
    keeper_begin(&keeper);
    for (unsigned i = 0; i < CHANGES; i++)
        keeper_change(&keeper, &step, &random);
    write_snapshot(&keeper);
    for (unsigned i = 0; i < CHANGES; i++)
        keeper_change(&keeper, &step, &random);
    keeper_bucket(&keeper, 0, 0, true);
    keeper_commit(&keeper, 0);
    assert_int_equal(load_parts(&keeper, 1, NULL, &whole, &err), KVT_OK);
    for (uint32_t parts = 2; parts < 2 * LOG_MODEL_HOLDERS; parts++) {
        struct advisor_index_load_progress progress = {.bytes_done = 0};
        struct index_stats stats;

        assert_int_equal(load_parts(&keeper, parts, &progress, &stats, &err), KVT_OK);
        assert_int_equal(stats.blocks, whole.blocks);
        assert_int_equal(stats.places, whole.places);
        assert_int_equal(atomic_load(&progress.bytes_total),
                         parts * (keeper.log.runs_bytes + keeper.log.bytes));
        assert_int_equal(atomic_load(&progress.bytes_done), atomic_load(&progress.bytes_total));
    }
    keeper_end(&keeper);
}

static void
it_says_how_far_it_is(void **state)
{
    struct advisor_index_load_progress progress = {.bytes_done = 0};
    struct kvt_error err = {.text = ""};
    struct keeper keeper;

    (void)state;
    keeper_begin(&keeper);
    keeper_put(&keeper, ADVISOR_EVENT_LOG_STORE, 0, 0, 200);
    write_snapshot(&keeper);
    keeper_put(&keeper, ADVISOR_EVENT_LOG_STORE, 1, 0, 50);
    keeper_bucket(&keeper, 0, 0, true);
    keeper_commit(&keeper, 0);
    assert_int_equal(load_again(&keeper, &progress, &err), KVT_OK);
    assert_int_equal(atomic_load(&progress.blocks), 200 + 50 + 1);
    assert_int_equal(atomic_load(&progress.bytes_total), keeper.log.runs_bytes + keeper.log.bytes);
    assert_int_equal(atomic_load(&progress.bytes_done), atomic_load(&progress.bytes_total));
    atomic_store(&progress.cancel, true);
    assert_int_equal(load_again(&keeper, &progress, &err), KVT_CANCELLED);
    keeper_end(&keeper);
}

static void
a_holder_without_a_name_is_refused(void **state)
{
    const struct advisor_event_log_place place = {.size = 4096, .holder = 99, .ranks = 1};
    const uint64_t hash = log_model_hash(0);
    struct kvt_error err = {.text = ""};
    struct advisor_store_log log;
    struct advisor_event_log *bad;
    struct advisor_txn txn;
    struct keeper keeper;

    (void)state;
    keeper_begin(&keeper);
    keeper_put(&keeper, ADVISOR_EVENT_LOG_STORE, 0, 0, 10);
    keeper_commit(&keeper, 0);
    log = keeper.log;
    assert_int_equal(advisor_event_log_new(&bad), KVT_OK);
    assert_int_equal(advisor_event_log_store(bad, &place, 0, 0, &hash, NULL, 1), KVT_OK);
    assert_int_equal(advisor_store_write(keeper.store, &txn, &err), KVT_OK);
    assert_int_equal(advisor_store_log_append(&txn, &log, bad), KVT_OK);
    assert_int_equal(advisor_store_commit(&txn, &err), KVT_OK);
    assert_int_equal(load_again(&keeper, NULL, &err), KVT_CORRUPT);
    assert_non_null(strstr(err.text, "row 1 of the index's journal is damaged"));
    advisor_event_log_free(bad);
    keeper_end(&keeper);
}

static void
a_damaged_row_is_refused(void **state)
{
    uint64_t row_big = 0;
    MDB_val key = advisor_val(&row_big, sizeof(row_big));
    MDB_val value;
    struct kvt_error err = {.text = ""};
    uint8_t row[ADVISOR_EVENT_LOG_ROW_MAX];
    struct advisor_txn txn;
    struct keeper keeper;
    MDB_dbi table;

    (void)state;
    keeper_begin(&keeper);
    keeper_put(&keeper, ADVISOR_EVENT_LOG_STORE, 0, 0, 10);
    write_snapshot(&keeper);
    table =
        keeper.store->tables[keeper.log.whole == 1 ? ADVISOR_TABLE_RUNS_A : ADVISOR_TABLE_RUNS_B];
    assert_int_equal(advisor_store_write(keeper.store, &txn, &err), KVT_OK);
    assert_int_equal(mdb_get(txn.handle, table, &key, &value), 0);
    memcpy(row, value.mv_data, value.mv_size);
    row[value.mv_size / 2] ^= 1;
    value.mv_data = row;
    assert_int_equal(mdb_put(txn.handle, table, &key, &value, 0), 0);
    assert_int_equal(advisor_store_commit(&txn, &err), KVT_OK);
    assert_int_equal(load_again(&keeper, NULL, &err), KVT_CORRUPT);
    assert_non_null(strstr(err.text, "row 0 of the index's snapshot is damaged"));
    keeper_end(&keeper);
}

static bool
load_with_what_there_is(void *arg)
{
    struct kvt_error err = {.text = ""};

    return load_again(arg, NULL, &err) == KVT_OK;
}

static void
without_memory_it_says_so(void **state)
{
    struct keeper keeper;

    (void)state;
    keeper_begin(&keeper);
    keeper_put(&keeper, ADVISOR_EVENT_LOG_STORE, 0, 0, 100);
    keeper_put(&keeper, ADVISOR_EVENT_LOG_REMOVE, 0, 30, 7);
    write_snapshot(&keeper);
    for (uint32_t block = 0; block < 20; block++)
        keeper_bucket(&keeper, 1, block, true);
    keeper_commit(&keeper, 0);
    assert_true(test_sweep_allocations(load_with_what_there_is, &keeper) > 0);
    keeper_end(&keeper);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_comes_of_nothing),
        cmocka_unit_test(all_comes_back),
        cmocka_unit_test(what_hangs_on_blocks_that_nobody_has_stays_there),
        cmocka_unit_test(blocks_that_nobody_has_go_before_the_journal),
        cmocka_unit_test(reads_come_back),
        cmocka_unit_test(the_last_number_goes_to_who_comes),
        cmocka_unit_test(parts_come_to_the_same),
        cmocka_unit_test(it_says_how_far_it_is),
        cmocka_unit_test(a_holder_without_a_name_is_refused),
        cmocka_unit_test(a_damaged_row_is_refused),
        cmocka_unit_test(without_memory_it_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
