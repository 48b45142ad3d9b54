/*
 * What is tested: advisor/index/ram_snapshot.h, and advisor/index/index_load.h behind it: whatever
 * is committed is there after a crash, wherever a snapshot was.
 * How: random changes, commits and crashes against a naive model; and the file's size over many
 * snapshots.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/store/durable_store_private.h"
#include "base/core/random.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/keeper.h"

enum {
    ROUNDS = 1000,
    ROUNDS_SMALL = 30, /* of them, before the first snapshot is due */
    CHANGES_MAX = 24,
    LOG_MIN = 16384,
    SLICE_MIN = 2048,
    SNAPSHOTS = 40,
    SNAPSHOTS_KEPT = 5,    /* as many times its bytes the file may have */
    FILE_REST = 512 << 10, /* tables, and pages LMDB keeps for the next transactions */
};

static void
open_small(struct keeper *keeper)
{
    advisor_ram_snapshot_sizes(keeper->snapshot, LOG_MIN, SLICE_MIN);
}

static void
change_some(struct keeper *keeper, struct log_step *step, uint64_t *random, unsigned max)
{
    for (uint64_t i = kvt_random_below(random, max); i > 0; i--)
        keeper_change(keeper, step, random);
    for (uint64_t i = kvt_random_below(random, 4); i > 0; i--)
        keeper_bucket(keeper, (uint32_t)kvt_random_below(random, LOG_MODEL_NAMESPACES),
                      (uint32_t)kvt_random_below(random, LOG_MODEL_BLOCKS),
                      kvt_random_below(random, 3) != 0);
}

/* Where a crash found the snapshots. */
struct visits {
    unsigned none;     /* only a journal */
    unsigned whole;    /* one, and none being written */
    unsigned begun;    /* another begun, without a slice */
    unsigned building; /* with slices */
    unsigned ended;    /* snapshots that became whole */
};

static void
visit(struct visits *visits, const struct advisor_store_log *log)
{
    visits->none += log->whole == 0;
    visits->whole += log->whole != 0 && log->building == 0;
    visits->begun += log->building != 0 && log->building_rows == 0;
    visits->building += log->building != 0 && log->building_rows > 0;
}

static void
a_crash_loses_nothing(void **state)
{
    uint64_t random = test_seed();
    struct log_step step = {.call = 0};
    struct visits visits = {0};
    struct keeper keeper;
    uint64_t from = 0;

    (void)state;
    keeper_begin(&keeper);
    open_small(&keeper);
    for (unsigned round = 0; round < ROUNDS; round++) {
        change_some(&keeper, &step, &random, round < ROUNDS_SMALL ? 2 : CHANGES_MAX);
        if (kvt_random_below(&random, 8) != 0)
            keeper_commit(&keeper, (unsigned)kvt_random_below(&random, 3));
        visits.ended += keeper.log.from != from;
        from = keeper.log.from;
        if (round % 50 == 49)
            keeper_check(&keeper);
        if (kvt_random_below(&random, 6) != 0)
            continue;
        visit(&visits, &keeper.log);
        keeper_crash(&keeper);
        keeper_open(&keeper);
        open_small(&keeper);
        keeper_check(&keeper);
    }
    keeper_end(&keeper);
    (void)fprintf(stderr,
                  "crashes: %u without a snapshot, %u with, %u at its beginning, %u in it\n",
                  visits.none, visits.whole, visits.begun, visits.building);
    assert_true(visits.none > 0 && visits.whole > 0 && visits.begun > 0 && visits.building > 0);
    assert_true(visits.ended > 3);
}

static void
the_file_does_not_grow(void **state)
{
    uint64_t random = test_seed();
    struct log_step step = {.call = 0};
    struct keeper keeper;
    unsigned ended = 0;
    uint64_t largest = LOG_MIN;
    uint64_t group = 0; /* the largest */
    uint64_t from = 0;

    (void)state;
    keeper_begin(&keeper);
    open_small(&keeper);
    while (ended < SNAPSHOTS) {
        change_some(&keeper, &step, &random, CHANGES_MAX);
        if (advisor_event_log_bytes(advisor_change_group_log(keeper.group)) > group)
            group = advisor_event_log_bytes(advisor_change_group_log(keeper.group));
        keeper_commit(&keeper, 0);
        if (keeper.log.from == from)
            continue;
        ended++;
        from = keeper.log.from;
        if (keeper.log.runs_bytes > largest)
            largest = keeper.log.runs_bytes;
        /* It was whole before the log had grown by as much again, to a group. */
        assert_in_range(keeper.log.bytes, 0, largest + group);
    }
    assert_in_range(keeper_used(&keeper), 1, SNAPSHOTS_KEPT * largest + FILE_REST);
    keeper_end(&keeper);
}

static void
commit_one(struct keeper *keeper, uint32_t block)
{
    keeper_put(keeper, ADVISOR_EVENT_LOG_STORE, 0, block, 1);
    keeper_commit(keeper, 0);
}

static void
one_is_begun_when_it_is_due(void **state)
{
    struct keeper keeper;
    uint32_t block = 0;

    (void)state;
    keeper_begin(&keeper);
    open_small(&keeper);
    commit_one(&keeper, block++);
    assert_false(advisor_ram_snapshot_busy(keeper.snapshot));
    while (keeper.log.bytes < LOG_MIN)
        commit_one(&keeper, block++);
    assert_true(
        advisor_ram_snapshot_busy(keeper.snapshot)); /* by the commit that made it so long */
    while (advisor_ram_snapshot_busy(keeper.snapshot))
        keeper_commit(&keeper, 1);
    assert_int_not_equal(keeper.log.whole, 0);
    assert_int_equal(keeper.log.bytes, 0);
    assert_true(keeper.log.runs_bytes > 0 && keeper.log.runs_bytes < LOG_MIN);
    keeper_check(&keeper);
    keeper_crash(&keeper);
    keeper_open(&keeper);
    keeper_check(&keeper);
    keeper_end(&keeper);
}

/* What memory lacks must not go from the store. */
static void
none_is_written_of_a_part(void **state)
{
    struct keeper keeper;
    uint32_t block = 0;

    (void)state;
    keeper_begin(&keeper);
    advisor_ram_snapshot_sizes(keeper.snapshot, 1, 1);
    atomic_store(&keeper.memory.loading, true);
    commit_one(&keeper, block++);
    commit_one(&keeper, block++);
    assert_false(advisor_ram_snapshot_busy(keeper.snapshot));
    atomic_store(&keeper.memory.loading, false);
    commit_one(&keeper, block++);
    assert_true(advisor_ram_snapshot_busy(keeper.snapshot));
    atomic_store(&keeper.memory.spilled, true); /* after it was begun */
    for (unsigned i = 0; i < 4; i++) {
        struct advisor_store_log log = keeper.log;
        struct advisor_txn txn;

        assert_int_equal(advisor_store_write(keeper.store, &txn, NULL), KVT_OK);
        assert_int_equal(advisor_ram_snapshot_write(keeper.snapshot, &txn, &log), KVT_OK);
        assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
        advisor_ram_snapshot_saved(keeper.snapshot);
        keeper.log = log;
    }
    assert_false(advisor_ram_snapshot_busy(keeper.snapshot));
    assert_int_equal(keeper.log.whole, 0);
    keeper_crash(&keeper);
    keeper_open(&keeper);
    keeper_check(&keeper);
    keeper_end(&keeper);
}

/* The bucket's blocks have rows; a snapshot that named them too would double the store. */
static void
blocks_of_buckets_alone_are_passed_over(void **state)
{
    struct keeper keeper;
    uint64_t bytes = 0;

    (void)state;
    keeper_begin(&keeper);
    advisor_ram_snapshot_sizes(keeper.snapshot, 1, 1 << 20);
    for (unsigned way = 0; way < 2; way++) {
        for (uint32_t block = 0; block < LOG_MODEL_LENGTH && way == 1; block++)
            keeper_bucket(&keeper, 0, block, true);
        for (unsigned i = 0; i < 2; i++) {
            keeper_put(&keeper, ADVISOR_EVENT_LOG_REMOVE, 1, 100, 10);
            keeper_put(&keeper, ADVISOR_EVENT_LOG_STORE, 1, 100, 10);
        }
        keeper_commit(&keeper, 0);
        assert_true(advisor_ram_snapshot_busy(keeper.snapshot));
        while (advisor_ram_snapshot_busy(keeper.snapshot))
            keeper_commit(&keeper, 0);
        assert_true(way == 0 || keeper.log.runs_bytes == bytes);
        bytes = keeper.log.runs_bytes;
    }
    keeper_crash(&keeper);
    keeper_open(&keeper);
    keeper_check(&keeper);
    keeper_end(&keeper);
}

/* ---- a store without room ---- */

/* Other rows, until little room is left. */
static void
fill_store(struct keeper *keeper, uint64_t left)
{
    const MDB_dbi table = keeper->store->tables[ADVISOR_TABLE_ALIASES];
    struct advisor_txn txn;
    uint8_t row[2000] = {0};

    for (uint32_t id = 0; keeper_used(keeper) < keeper->map_bytes - left; id++) {
        MDB_val key = advisor_val(&id, sizeof(id));
        MDB_val value = advisor_val(row, sizeof(row));

        assert_int_equal(advisor_store_write(keeper->store, &txn, NULL), KVT_OK);
        assert_int_equal(mdb_put(txn.handle, table, &key, &value, 0), 0);
        assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
    }
}

static void
empty_store(struct keeper *keeper)
{
    struct advisor_txn txn;

    assert_int_equal(advisor_store_write(keeper->store, &txn, NULL), KVT_OK);
    assert_int_equal(mdb_drop(txn.handle, keeper->store->tables[ADVISOR_TABLE_ALIASES], 0), 0);
    assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
}

/* A round without a group. */
static enum kvt_err
write_snapshot(struct keeper *keeper)
{
    struct advisor_store_log log = keeper->log;
    struct advisor_txn txn;
    enum kvt_err rc;

    assert_int_equal(advisor_store_write(keeper->store, &txn, NULL), KVT_OK);
    rc = advisor_ram_snapshot_write(keeper->snapshot, &txn, &log);
    if (rc != KVT_OK) {
        advisor_store_end(&txn);
        return rc;
    }
    rc = advisor_store_commit(&txn, NULL);
    if (rc != KVT_OK)
        return rc;
    advisor_ram_snapshot_saved(keeper->snapshot);
    keeper->log = log;
    return KVT_OK;
}

/* Events must be taken as long as they fit: a snapshot that does not is no reason to stop. */
static void
one_that_does_not_fit_is_given_up(void **state)
{
    enum { SMALL_MAP = 2 << 20, LEFT = 24 * 4096 };
    struct keeper keeper;

    (void)state;
    keeper_begin(&keeper);
    keeper_crash(&keeper);
    keeper.map_bytes = SMALL_MAP;
    keeper_open(&keeper);
    advisor_ram_snapshot_sizes(keeper.snapshot, UINT64_MAX, 1 << 20);
    for (uint32_t block = 0; block < LOG_MODEL_BLOCKS; block++)
        for (uint32_t holder = 0; holder < LOG_MODEL_HOLDERS; holder++)
            if (block % 2 == holder % 2)
                keeper_put(&keeper, ADVISOR_EVENT_LOG_STORE, holder, block, 1);
    keeper_commit(&keeper, 0);
    fill_store(&keeper, LEFT);
    advisor_ram_snapshot_sizes(keeper.snapshot, LOG_MIN, 1 << 20);
    assert_int_equal(write_snapshot(&keeper), KVT_OK); /* it begins */
    assert_int_equal(write_snapshot(&keeper), KVT_FULL);
    keeper_put(&keeper, ADVISOR_EVENT_LOG_REMOVE, 0, 0, 1);
    keeper_commit(&keeper, 1);
    assert_false(advisor_ram_snapshot_busy(keeper.snapshot));
    keeper_check(&keeper);
    empty_store(&keeper);
    for (uint32_t block = 0; block < LOG_MODEL_LENGTH; block += 2)
        keeper_put(&keeper, ADVISOR_EVENT_LOG_STORE, block % LOG_MODEL_HOLDERS, block, 1);
    do
        keeper_commit(&keeper, 0);
    while (advisor_ram_snapshot_busy(keeper.snapshot));
    assert_int_not_equal(keeper.log.whole, 0);
    keeper_crash(&keeper);
    keeper_open(&keeper);
    keeper_check(&keeper);
    keeper_end(&keeper);
}

/* A transaction may fail at its end, and nobody knows why. */
static void
one_whose_transactions_fail_is_given_up(void **state)
{
    enum { MANY = 10 };
    struct advisor_store_log log;
    struct advisor_txn txn;
    struct keeper keeper;
    bool written = true;

    (void)state;
    keeper_begin(&keeper);
    advisor_ram_snapshot_sizes(keeper.snapshot, LOG_MIN, 1);
    for (uint32_t block = 0; keeper.log.bytes < LOG_MIN; block++)
        commit_one(&keeper, block);
    for (unsigned i = 0; i < MANY && written; i++) {
        log = keeper.log;
        assert_int_equal(advisor_store_write(keeper.store, &txn, NULL), KVT_OK);
        assert_int_equal(advisor_ram_snapshot_write(keeper.snapshot, &txn, &log), KVT_OK);
        advisor_store_end(&txn);
        written = memcmp(&log, &keeper.log, sizeof(log)) != 0;
    }
    assert_false(written);
    assert_false(advisor_ram_snapshot_busy(keeper.snapshot));
    keeper_end(&keeper);
}

static bool
make(void *arg)
{
    struct advisor_ram_index memory = {.index = NULL};
    struct advisor_ram_snapshot *snapshot;
    const bool made = advisor_ram_snapshot_new(&snapshot, &memory) == KVT_OK;

    (void)arg;
    advisor_ram_snapshot_free(snapshot);
    return made;
}

static void
it_is_made_or_not(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(make, NULL) > 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crash_loses_nothing),
        cmocka_unit_test(the_file_does_not_grow),
        cmocka_unit_test(one_is_begun_when_it_is_due),
        cmocka_unit_test(none_is_written_of_a_part),
        cmocka_unit_test(blocks_of_buckets_alone_are_passed_over),
        cmocka_unit_test(one_that_does_not_fit_is_given_up),
        cmocka_unit_test(one_whose_transactions_fail_is_given_up),
        cmocka_unit_test(it_is_made_or_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
