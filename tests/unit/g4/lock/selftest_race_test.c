/*
 * What is tested: g4_selftest_locks() of g4/lock/selftest.h on a store that keeps conditions in
 * races and has no clock, and on one that loses answers.
 */
#include "g4/directory/directory.h"
#include "g4/lock/selftest.h"

#include "tests/support/faulty_store.h"
#include "tests/support/seed.h"

static void
a_directory_has_no_clock_and_no_locks(void **state)
{
    struct g4_directory_options options = {.threads = 4};
    struct g4_selftest result;
    struct g4_store *store;
    char path[128];

    (void)state;
    options.path = test_folder_make(path, sizeof(path));
    assert_int_equal(g4_directory_open(&store, &options, NULL), KVT_OK);
    assert_int_equal(g4_selftest_locks(store, &result, NULL), KVT_OK);
    assert_true(result.put_if_absent && result.put_if_match && result.if_match_missing);
    assert_true(result.one_creator && result.one_changer && result.etag_changes);
    assert_int_equal(result.race_errors, 0);
    assert_false(result.server_clock);
    assert_non_null(g4_selftest_unsafe(&result));
    g4_store_close(store);
    test_folder_remove(path);
}

static void
lost_answers_are_counted_and_do_no_harm(void **state)
{
    struct g4_directory_options options = {.threads = 4};
    struct g4_fault_rule rule = {
        .verb = G4_PUT, .fault = G4_FAULT_LOSE, .after = 6, .count = 12, .status = KVT_IO};
    struct g4_selftest result;
    struct g4_store *inner;
    struct g4_store *store;
    char path[128];

    (void)state;
    options.path = test_folder_make(path, sizeof(path));
    assert_int_equal(g4_directory_open(&inner, &options, NULL), KVT_OK);
    assert_int_equal(test_faulty_store_open(&store, inner), KVT_OK);
    test_faulty_store_set(store, &rule);
    assert_int_equal(g4_selftest_locks(store, &result, NULL), KVT_OK);
    assert_true(result.one_creator && result.one_changer);
    assert_true(result.race_errors > 0);
    g4_store_close(store);
    test_folder_remove(path);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_directory_has_no_clock_and_no_locks),
        cmocka_unit_test(lost_answers_are_counted_and_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
