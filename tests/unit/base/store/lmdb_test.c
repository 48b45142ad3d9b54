/*
 * What is tested: base/store/lmdb.h: the map's size is a quota that loses nothing, what is synced
 * is there for another process's eyes, and errors become codes.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/file.h"
#include "base/store/lmdb.h"

#include "tests/support/seed.h"

static char folder[200];
static char path[256];

static int
set_up(void **state)
{
    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/a/db", folder);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    test_folder_remove(folder);
    return 0;
}

static MDB_env *
open_db(uint64_t map_bytes, bool read_only)
{
    const struct kvt_lmdb_options options = {
        .path = path, .map_bytes = map_bytes, .databases_max = 4, .read_only = read_only};
    struct kvt_error err;
    MDB_env *env;

    if (kvt_lmdb_open(&env, &options, &err) != KVT_OK)
        fail_msg("%s", err.text);
    return env;
}

static int
put(MDB_env *env, uint32_t number, const void *bytes, size_t size)
{
    MDB_val key = {sizeof(number), &number};
    MDB_val value = {size, NULL};
    MDB_txn *txn;
    MDB_dbi dbi;
    int rc;

    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, NULL, MDB_INTEGERKEY, &dbi), 0);
    rc = mdb_put(txn, dbi, &key, &value, MDB_RESERVE);
    if (rc != 0) {
        mdb_txn_abort(txn);
        return rc;
    }
    memcpy(value.mv_data, bytes, size);
    return mdb_txn_commit(txn);
}

static size_t
count_entries(MDB_env *env)
{
    MDB_stat stat;

    assert_int_equal(mdb_env_stat(env, &stat), 0);
    return stat.ms_entries;
}

static void
a_full_map_refuses_and_keeps(void **state)
{
    static const char bytes[1000];
    MDB_env *env = open_db(1u << 20, false);
    uint32_t number = 0;
    struct kvt_error err;
    uint64_t used;
    int rc;

    (void)state;
    while ((rc = put(env, number, bytes, sizeof(bytes))) == 0)
        number++;
    assert_int_equal(kvt_lmdb_error(&err, rc, "put"), KVT_FULL);
    assert_ptr_equal(strstr(err.text, "put: "), err.text);
    assert_in_range(number, 100, 1100);
    assert_int_equal(count_entries(env), number);
    used = kvt_lmdb_used(env);
    assert_in_range(used, 1u << 19, 1u << 20);
    mdb_env_close(env);
    /* A larger quota is all it takes to go on. */
    env = open_db(4u << 20, false);
    assert_int_equal(count_entries(env), number);
    assert_int_equal(put(env, number, bytes, sizeof(bytes)), 0);
    mdb_env_close(env);
}

static void
readers_see_what_was_committed(void **state)
{
    struct kvt_error err;
    MDB_env *reader;
    MDB_env *env = open_db(1u << 20, false);

    (void)state;
    assert_int_equal(put(env, 1, "x", 1), 0);
    assert_int_equal(kvt_lmdb_sync(env, &err), KVT_OK);
    mdb_env_close(env);
    reader = open_db(0, true);
    assert_int_equal(count_entries(reader), 1);
    mdb_env_close(reader);
}

static void
opening_says_what_is_wrong(void **state)
{
    struct kvt_lmdb_options options = {.path = path, .map_bytes = 1u << 20, .read_only = true};
    char file[300];
    struct kvt_error err;
    char junk[16384];
    MDB_env *env;

    (void)state;
    env = (MDB_env *)folder;
    assert_int_equal(kvt_lmdb_open(&env, &options, &err), KVT_NOTFOUND);
    assert_null(env);
    assert_int_equal(kvt_folder_make(path, &err), KVT_OK);
    memset(junk, 'j', sizeof(junk));
    (void)snprintf(file, sizeof(file), "%s/data.mdb", path);
    assert_int_equal(kvt_file_write(file, junk, sizeof(junk), 0600, &err), KVT_OK);
    options.read_only = false;
    assert_int_equal(kvt_lmdb_open(&env, &options, &err), KVT_CORRUPT);
    assert_non_null(strstr(err.text, path));
    options.path = file; /* a file where the folder should be */
    assert_int_equal(kvt_lmdb_open(&env, &options, &err), KVT_INVALID);
}

static void
results_become_codes(void **state)
{
    struct kvt_error err;

    (void)state;
    assert_int_equal(kvt_lmdb_error(&err, 0, "x"), KVT_OK);
    assert_int_equal(kvt_lmdb_error(&err, MDB_NOTFOUND, "x"), KVT_NOTFOUND);
    assert_int_equal(kvt_lmdb_error(&err, MDB_KEYEXIST, "x"), KVT_EXISTS);
    assert_int_equal(kvt_lmdb_error(&err, MDB_CORRUPTED, "x"), KVT_CORRUPT);
    assert_int_equal(kvt_lmdb_error(&err, MDB_READERS_FULL, "x"), KVT_AGAIN);
    assert_int_equal(kvt_lmdb_error(&err, MDB_PANIC, "x"), KVT_IO);
    assert_int_equal(kvt_lmdb_error(&err, ENOSPC, "x"), KVT_FULL);
    assert_int_equal(err.sys, ENOSPC);
    assert_int_equal(kvt_lmdb_error(NULL, MDB_MAP_FULL, "x"), KVT_FULL);
    assert_int_equal(kvt_lmdb_error(&err, MDB_MAP_FULL, "x"), KVT_FULL);
    assert_non_null(strstr(err.text, "x: the database is full"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

/* Writes the same megabyte again until the map is full, at most `times`. */
static int
rewrite(MDB_env *env, uint32_t times)
{
    static const char bytes[100000];
    int rc = 0;

    for (uint32_t i = 0; i < times && rc == 0; i++)
        rc = put(env, i % 10, bytes, sizeof(bytes));
    return rc;
}

static void
a_reader_that_was_killed_is_forgotten(void **state)
{
    MDB_env *env = open_db(8u << 20, false);
    int ready[2];
    pid_t child;
    char byte;

    (void)state;
    assert_int_equal(rewrite(env, 10), 0);
    assert_int_equal(pipe(ready), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        MDB_env *mine = open_db(0, true);
        MDB_txn *txn;

        if (mdb_txn_begin(mine, NULL, MDB_RDONLY, &txn) == 0 && write(ready[1], "r", 1) == 1)
            (void)pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(rewrite(env, 200), MDB_MAP_FULL); /* its snapshot keeps every page */
    kvt_lmdb_forget_dead(env);
    assert_int_equal(rewrite(env, 200), MDB_MAP_FULL); /* it lives: it may look at them */
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    kvt_lmdb_forget_dead(env);
    assert_int_equal(rewrite(env, 200), 0);
    (void)close(ready[0]);
    (void)close(ready[1]);
    mdb_env_close(env);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_full_map_refuses_and_keeps),
        TEST(readers_see_what_was_committed),
        TEST(opening_says_what_is_wrong),
        TEST(results_become_codes),
        TEST(a_reader_that_was_killed_is_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
