/*
 * What is tested: tests/support/faulty_store.h over a directory store: each fault does what it
 * says to the calls it is meant for, counts them, and leaves the others alone.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "g4/directory/directory.h"
#include "g4/object/check.h"

#include "tests/support/faulty_store.h"
#include "tests/support/seed.h"
#include "tests/unit/g4/support/helpers.h"

struct fixture {
    char path[128];
    struct g4_store *store;
    struct fetched fetched;
};

static int
set_up(void **state)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));
    struct g4_directory_options options = {.threads = 1};
    struct g4_store *inner;

    (void)test_folder_make(f->path, sizeof(f->path));
    options.path = f->path;
    assert_int_equal(g4_directory_open(&inner, &options, NULL), KVT_OK);
    assert_int_equal(test_faulty_store_open(&f->store, inner), KVT_OK);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    g4_store_close(f->store);
    test_folder_remove(f->path);
    kvt_free(f);
    return 0;
}

static void
without_rules_nothing_is_touched(void **state)
{
    struct fixture *f = *state;
    uint64_t seen;
    uint64_t hit;

    assert_string_equal(g4_store_name(f->store), "faulty");
    assert_int_equal(put(f->store, "k", "hello", 5, NULL), KVT_OK);
    assert_int_equal(get(f->store, "k", &f->fetched), KVT_OK);
    test_faulty_store_count(f->store, G4_GET, &seen, &hit);
    assert_int_equal(seen, 1);
    assert_int_equal(hit, 0);
}

static void
fail_hits_the_calls_it_names(void **state)
{
    struct fixture *f = *state;
    const struct g4_fault_rule rule = {
        .verb = G4_PUT, .fault = G4_FAULT_FAIL, .after = 1, .count = 2, .status = KVT_UNAVAILABLE};
    uint64_t seen;
    uint64_t hit;

    test_faulty_store_set(f->store, &rule);
    assert_int_equal(put_absent(f->store, "a", "1", 1, NULL), KVT_OK);
    assert_int_equal(put_absent(f->store, "b", "1", 1, NULL), KVT_UNAVAILABLE);
    assert_int_equal(put_absent(f->store, "b", "1", 1, NULL), KVT_UNAVAILABLE);
    assert_int_equal(head(f->store, "b", &f->fetched), KVT_NOTFOUND);
    assert_int_equal(put_absent(f->store, "b", "1", 1, NULL), KVT_OK);
    test_faulty_store_count(f->store, G4_PUT, &seen, &hit);
    assert_int_equal(seen, 4);
    assert_int_equal(hit, 2);
}

static void
lose_does_the_work_and_loses_the_answer(void **state)
{
    struct fixture *f = *state;
    const struct g4_fault_rule rule = {
        .verb = G4_PUT, .fault = G4_FAULT_LOSE, .count = 1, .status = KVT_TIMEOUT};
    const struct g4_fault_rule get_rule = {
        .verb = G4_GET, .fault = G4_FAULT_LOSE, .count = 1, .status = KVT_IO};
    struct g4_request request = {.verb = G4_GET, .key = "k", .buffer_capacity = 100};

    test_faulty_store_set(f->store, &rule);
    assert_int_equal(put_absent(f->store, "k", "hello", 5, NULL), KVT_TIMEOUT);
    assert_int_equal(put_absent(f->store, "k", "hello", 5, NULL), KVT_EXISTS);
    test_faulty_store_set(f->store, &get_rule);
    assert_int_equal(g4_store_perform(f->store, &request), KVT_IO);
    assert_null(request.buffer);
    assert_int_equal(request.buffer_size, 0);
}

static void
delay_waits_and_then_does_it(void **state)
{
    struct fixture *f = *state;
    const struct g4_fault_rule rule = {
        .verb = G4_PUT, .fault = G4_FAULT_DELAY, .count = 1, .delay_ms = 60};
    const uint64_t before_ms = kvt_clock_mono_ms();

    test_faulty_store_set(f->store, &rule);
    assert_int_equal(put_absent(f->store, "k", "hello", 5, NULL), KVT_OK);
    assert_true(kvt_clock_mono_ms() - before_ms >= 60);
    assert_int_equal(get(f->store, "k", &f->fetched), KVT_OK);
}

/* Both look complete; only the check tells. */
static void
truncated_and_flipped_bodies_are_seen_by_the_check_only(void **state)
{
    static const enum g4_fault faults[] = {G4_FAULT_TRUNCATE, G4_FAULT_FLIP};
    struct fixture *f = *state;

    assert_int_equal(put(f->store, "k", "hello", 5, NULL), KVT_OK);
    for (size_t i = 0; i < 2; i++) {
        const struct g4_fault_rule rule = {.verb = G4_GET, .fault = faults[i], .count = 1};

        test_faulty_store_set(f->store, &rule);
        assert_int_equal(get(f->store, "k", &f->fetched), KVT_OK);
        assert_int_equal(
            g4_check_body(&f->fetched.meta, NULL, f->fetched.body, f->fetched.size, NULL),
            KVT_CORRUPT);
        assert_int_equal(get(f->store, "k", &f->fetched), KVT_OK);
        assert_int_equal(
            g4_check_body(&f->fetched.meta, NULL, f->fetched.body, f->fetched.size, NULL), KVT_OK);
    }
}

static bool
open_once(void *arg)
{
    struct g4_directory_options options = {.path = arg, .threads = 1};
    struct g4_store *store = NULL;
    struct g4_store *inner = NULL;
    enum kvt_err rc;

    rc = g4_directory_open(&inner, &options, NULL);
    if (rc == KVT_OK)
        rc = test_faulty_store_open(&store, inner);
    if (rc == KVT_OK) {
        g4_store_close(store);
    } else {
        assert_null(store);
        g4_store_close(inner);
    }
    return rc == KVT_OK;
}

static void
opening_survives_every_allocation_failure(void **state)
{
    struct fixture *f = *state;
    char path[sizeof(f->path) + 8];

    (void)snprintf(path, sizeof(path), "%s/second", f->path);
    assert_true(test_sweep_allocations(open_once, path) >= 8);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_rules_nothing_is_touched),
        TEST(fail_hits_the_calls_it_names),
        TEST(lose_does_the_work_and_loses_the_answer),
        TEST(delay_waits_and_then_does_it),
        TEST(truncated_and_flipped_bodies_are_seen_by_the_check_only),
        TEST(opening_survives_every_allocation_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
