/*
 * What is tested: g4/directory/directory.h: the verbs and conditions, what happens to files that
 * were cut, flipped or put there by others, the cap, re-opening, every failing allocation, and a
 * long random run against a model.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "g4/directory/directory.h"
#include "g4/directory/object_file.h"

#include "tests/support/seed.h"
#include "tests/unit/g4/support/contract.h"
#include "tests/unit/g4/support/helpers.h"

#define KEY "acme/llama/0/1:CUrLYDFnmBa:13A3sGnbCSf"

enum { KEYS = 40, STEPS = 4000, PATH_SIZE = 512 };

struct fixture {
    char path[128];
    struct g4_store *store;
    struct fetched fetched;
};

static struct g4_store *
open_store(const char *path, uint64_t bytes_max)
{
    const struct g4_directory_options options = {.path = path, .bytes_max = bytes_max};
    struct g4_store *store = NULL;
    struct kvt_error err;

    assert_int_equal(g4_directory_open(&store, &options, &err), KVT_OK);
    return store;
}

static int
set_up(void **state)
{
    struct fixture *fixture = kvt_calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    (void)test_folder_make(fixture->path, sizeof(fixture->path));
    fixture->store = open_store(fixture->path, 0);
    *state = fixture;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *fixture = *state;

    g4_store_close(fixture->store);
    test_folder_remove(fixture->path);
    kvt_free(fixture);
    return 0;
}

/* The file of KEY while there is one folder only. */
static void
file_of(const struct fixture *fixture, char path[PATH_SIZE])
{
    (void)snprintf(path, PATH_SIZE, "%s/objects/=acme%%2Fllama%%2F0%%2F1:CUrLYDFnmBa:13A3sGnbCSf",
                   fixture->path);
}

static void
what_is_put_comes_back(void **state)
{
    struct fixture *f = *state;
    const uint64_t before_ms = kvt_clock_unix_ms();
    char etag[G4_ETAG_MAX];

    assert_int_equal(put_absent(f->store, KEY, "hello", 5, etag), KVT_OK);
    assert_int_equal(get(f->store, KEY, &f->fetched), KVT_OK);
    assert_int_equal(f->fetched.size, 5);
    assert_memory_equal(f->fetched.body, "hello", 5);
    assert_string_equal(f->fetched.etag, etag);
    assert_true(f->fetched.meta.present);
    assert_int_equal(f->fetched.meta.length, 5);
    assert_true(f->fetched.meta.fingerprint == 0x1122334455667788);
    assert_string_equal(f->fetched.meta.writer, "tester");
    assert_true(f->fetched.modified_ms >= before_ms);

    assert_int_equal(head(f->store, KEY, &f->fetched), KVT_OK);
    assert_string_equal(f->fetched.etag, etag);
    assert_int_equal(f->fetched.size, 5);
    assert_int_equal(f->fetched.meta.length, 5);
}

static void
parts_are_read(void **state)
{
    struct fixture *f = *state;

    test_contract_parts(f->store, "");
}

static void
attributes_are_kept(void **state)
{
    struct fixture *f = *state;

    test_contract_attributes(f->store, "");
}

static void
empty_bodies_and_foreign_objects_are_kept(void **state)
{
    struct fixture *f = *state;

    test_contract_empty_and_foreign(f->store, "");
}

static void
conditions_hold(void **state)
{
    struct fixture *f = *state;

    test_contract_conditions(f->store, "");
}

static void
get_keeps_to_its_room(void **state)
{
    struct fixture *f = *state;

    test_contract_room(f->store, "");
}

static void
the_same_bytes_again_are_another_version(void **state)
{
    struct fixture *f = *state;
    char first[G4_ETAG_MAX] = "";
    char second[G4_ETAG_MAX] = "";

    assert_int_equal(put(f->store, KEY, "3", 1, first), KVT_OK);
    assert_int_equal(put(f->store, KEY, "3", 1, second), KVT_OK);
    assert_string_not_equal(first, second);

    assert_int_equal(del_match(f->store, KEY, first), KVT_PRECONDITION);
    assert_int_equal(del_match(f->store, KEY, second), KVT_OK);
    assert_int_equal(del_match(f->store, KEY, second), KVT_NOTFOUND);
    assert_int_equal(del(f->store, KEY), KVT_NOTFOUND);
    assert_int_equal(head(f->store, KEY, &f->fetched), KVT_NOTFOUND);
}

static void
a_body_that_fails_its_own_check_is_not_stored(void **state)
{
    struct fixture *f = *state;
    struct g4_request request = {.verb = G4_PUT, .key = KEY, .body = "abc", .body_size = 3};

    request.meta = (struct g4_meta){.present = true, .length = 3, .crc32c = 1};
    assert_int_equal(g4_store_perform(f->store, &request), KVT_CORRUPT);
    request.meta = (struct g4_meta){.present = true, .length = 4};
    assert_int_equal(g4_store_perform(f->store, &request), KVT_CORRUPT);
    assert_int_equal(head(f->store, KEY, &f->fetched), KVT_NOTFOUND);
}

static void
unfit_requests_are_refused(void **state)
{
    struct fixture *f = *state;
    struct g4_request request = {.verb = G4_GET};
    char key[2 * KVT_KEY_MAX];

    assert_int_equal(g4_store_perform(f->store, &request), KVT_INVALID);
    request.key = "";
    assert_int_equal(g4_store_perform(f->store, &request), KVT_INVALID);
    memset(key, 'k', sizeof(key));
    key[KVT_KEY_MAX] = '\0';
    request.key = key;
    assert_int_equal(g4_store_perform(f->store, &request), KVT_INVALID);
    request.key = KEY;
    request.condition = G4_IF_ABSENT;
    assert_int_equal(g4_store_perform(f->store, &request), KVT_INVALID);
    request.verb = G4_PUT;
    request.condition = G4_IF_MATCH;
    assert_int_equal(g4_store_perform(f->store, &request), KVT_INVALID);
    request.verb = G4_LIST;
    request.condition = G4_ALWAYS;
    assert_int_equal(g4_store_perform(f->store, &request), KVT_INVALID);
}

static void
a_passed_deadline_is_a_timeout(void **state)
{
    struct fixture *f = *state;
    struct g4_request request = {.verb = G4_HEAD, .key = KEY, .deadline_ms = 1};

    assert_int_equal(g4_store_perform(f->store, &request), KVT_TIMEOUT);
}

static const char *const odd_keys[] = {
    "a",
    "a b",
    "a%2Fb",
    "a+b",
    "a/",
    "a/b",
    "a=b@c:d",
    "..",
    ".",
    "a/../b",
    "\xc3\xa9t\xc3\xa9",
    "x\x01\x7f",
};

static void
any_key_is_a_key(void **state)
{
    struct fixture *f = *state;
    struct g4_listed *rows = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*rows));
    const size_t count = sizeof(odd_keys) / sizeof(odd_keys[0]);
    char token[G4_TOKEN_MAX] = "";
    char longest[KVT_KEY_MAX];
    size_t listed;

    memset(longest, 0xff, sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    for (size_t i = 0; i < count; i++)
        assert_int_equal(put_absent(f->store, odd_keys[i], odd_keys[i], strlen(odd_keys[i]), NULL),
                         KVT_OK);
    assert_int_equal(put_absent(f->store, longest, "long", 4, NULL), KVT_OK);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(get(f->store, odd_keys[i], &f->fetched), KVT_OK);
        assert_memory_equal(f->fetched.body, odd_keys[i], strlen(odd_keys[i]));
    }
    assert_int_equal(get(f->store, longest, &f->fetched), KVT_OK);
    assert_int_equal(list(f->store, "", token, rows, &listed), KVT_OK);
    assert_int_equal(listed, count + 1);
    assert_string_equal(token, "");
    assert_string_equal(rows[listed - 1].key, longest);
    for (size_t i = 1; i < listed; i++)
        assert_true(strcmp(rows[i - 1].key, rows[i].key) < 0);
    kvt_free(rows);
}

/* Change the file behind the store's back, look, and repair through its tag. */
static void
assert_bad_until_repaired(struct fixture *f)
{
    char etag[G4_ETAG_MAX];
    char wrong[G4_ETAG_MAX] = "wrong";

    assert_int_equal(get(f->store, KEY, &f->fetched), KVT_CORRUPT);
    assert_true(f->fetched.size <= 6); /* what is left of it, as evidence */
    assert_string_not_equal(f->fetched.error.text, "");
    assert_string_not_equal(f->fetched.etag, "");
    memcpy(etag, f->fetched.etag, sizeof(etag));
    assert_int_equal(put_absent(f->store, KEY, "hello", 5, NULL), KVT_EXISTS);
    assert_int_equal(put_match(f->store, KEY, "hello", 5, wrong), KVT_PRECONDITION);
    assert_int_equal(put_match(f->store, KEY, "hello", 5, etag), KVT_OK);
    assert_int_equal(get(f->store, KEY, &f->fetched), KVT_OK);
    assert_memory_equal(f->fetched.body, "hello", 5);
}

static void
write_at(const char *path, off_t at, const void *bytes, size_t size)
{
    const int fd = open(path, O_WRONLY | O_CREAT, 0600);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, size, at), size);
    (void)close(fd);
}

static void
damaged_files_are_corrupt_never_data(void **state)
{
    static const off_t cuts[] = {0,
                                 1,
                                 1023,
                                 1024,
                                 G4_OBJECT_FILE_BODY_AT - 1,
                                 G4_OBJECT_FILE_BODY_AT + 4,
                                 G4_OBJECT_FILE_BODY_AT + 6};
    static const off_t flips[] = {
        0, 8, 12, 16, 24, 28, 48, 112, 192, 1000, G4_OBJECT_FILE_BODY_AT + 2};
    struct fixture *f = *state;
    char path[PATH_SIZE];

    file_of(f, path);
    assert_int_equal(put(f->store, KEY, "hello", 5, NULL), KVT_OK);
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        assert_int_equal(truncate(path, cuts[i]), 0);
        assert_bad_until_repaired(f);
    }
    for (size_t i = 0; i < sizeof(flips) / sizeof(flips[0]); i++) {
        uint8_t byte;
        int fd = open(path, O_RDONLY);

        assert_int_equal(pread(fd, &byte, 1, flips[i]), 1);
        (void)close(fd);
        byte ^= 0x40;
        write_at(path, flips[i], &byte, 1);
        assert_bad_until_repaired(f);
    }
}

static void
an_object_of_another_key_is_corrupt(void **state)
{
    struct fixture *f = *state;
    char path[PATH_SIZE];
    char other[PATH_SIZE];

    file_of(f, path);
    (void)snprintf(other, sizeof(other), "%s/objects/=other", f->path);
    assert_int_equal(put(f->store, KEY, "hello", 5, NULL), KVT_OK);
    assert_int_equal(put(f->store, "other", "other", 5, NULL), KVT_OK);
    assert_int_equal(rename(other, path), 0);
    assert_bad_until_repaired(f);
}

static void
files_of_others_are_not_listed_and_not_deleted(void **state)
{
    struct fixture *f = *state;
    struct g4_listed *rows = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*rows));
    char token[G4_TOKEN_MAX] = "";
    char path[PATH_SIZE];
    size_t count;

    (void)snprintf(path, sizeof(path), "%s/objects/README", f->path);
    write_at(path, 0, "hi", 2);
    (void)snprintf(path, sizeof(path), "%s/objects/lost+found", f->path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(put(f->store, KEY, "hello", 5, NULL), KVT_OK);
    assert_int_equal(list(f->store, "", token, rows, &count), KVT_OK);
    assert_int_equal(count, 1);
    assert_string_equal(rows[0].key, KEY);
    assert_int_equal(rows[0].size, 5);
    g4_store_close(f->store);
    f->store = open_store(f->path, 0);
    (void)snprintf(path, sizeof(path), "%s/objects/README", f->path);
    assert_int_equal(access(path, F_OK), 0);
    kvt_free(rows);
}

static void
the_cap_is_never_passed(void **state)
{
    struct fixture *f = *state;
    char etag[G4_ETAG_MAX];
    char body[100] = {0};

    g4_store_close(f->store);
    f->store = open_store(f->path, 250);
    assert_int_equal(put_absent(f->store, "a", body, 100, etag), KVT_OK);
    assert_int_equal(put_absent(f->store, "b", body, 100, NULL), KVT_OK);
    assert_int_equal(put_absent(f->store, "c", body, 51, NULL), KVT_FULL);
    assert_int_equal(put_absent(f->store, "a", body, 100, NULL), KVT_EXISTS);
    assert_int_equal(put_match(f->store, "a", body, 100, etag), KVT_OK);
    assert_int_equal(put_absent(f->store, "c", body, 50, NULL), KVT_OK);
    assert_int_equal(put_match(f->store, "a", body, 10, etag), KVT_OK);
    assert_int_equal(put_absent(f->store, "d", body, 91, NULL), KVT_FULL);
    assert_int_equal(put_absent(f->store, "d", body, 90, NULL), KVT_OK);
    assert_int_equal(del(f->store, "b"), KVT_OK);

    /* Counted again at opening: 10 + 50 + 90. */
    g4_store_close(f->store);
    f->store = open_store(f->path, 250);
    assert_int_equal(put_absent(f->store, "e", body, 101 - 1, NULL), KVT_OK);
    assert_int_equal(put_absent(f->store, "f", body, 1, NULL), KVT_FULL);
    assert_int_equal(put_absent(f->store, "g", body, 0, NULL), KVT_OK);
}

/* Two openings of one folder share the count, as two gateways do. */
static void
two_stores_on_one_folder_share_the_cap(void **state)
{
    struct fixture *f = *state;
    struct g4_store *second;
    char body[100] = {0};

    g4_store_close(f->store);
    f->store = open_store(f->path, 150);
    second = open_store(f->path, 150);
    assert_int_equal(put_absent(f->store, "a", body, 100, NULL), KVT_OK);
    assert_int_equal(put_absent(second, "b", body, 100, NULL), KVT_FULL);
    assert_int_equal(put_absent(second, "a", body, 100, NULL), KVT_EXISTS);
    assert_int_equal(del(second, "a"), KVT_OK);
    assert_int_equal(put_absent(f->store, "b", body, 100, NULL), KVT_OK);
    g4_store_close(second);
}

static void
opening_cleans_what_was_left_on_the_way(void **state)
{
    struct fixture *f = *state;
    char path[PATH_SIZE];

    assert_int_equal(put(f->store, KEY, "hello", 5, NULL), KVT_OK);
    g4_store_close(f->store);
    (void)snprintf(path, sizeof(path), "%s/tmp/new-0123456789abcdef", f->path);
    write_at(path, 0, "half", 4);
    f->store = open_store(f->path, 0);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(get(f->store, KEY, &f->fetched), KVT_OK);
}

static void
opening_fails_with_a_reason(void **state)
{
    struct fixture *f = *state;
    struct g4_directory_options options = {.path = "/proc/nowhere/store"};
    struct g4_store *store = f->store;
    struct kvt_error err;
    char path[PATH_SIZE];

    assert_int_not_equal(g4_directory_open(&store, &options, &err), KVT_OK);
    assert_null(store);
    assert_string_not_equal(err.text, "");
    (void)snprintf(path, sizeof(path), "%s/file", f->path);
    write_at(path, 0, "x", 1);
    options.path = path;
    assert_int_not_equal(g4_directory_open(&store, &options, &err), KVT_OK);
    assert_null(store);
    options = (struct g4_directory_options){.path = f->path, .threads = 1000};
    assert_int_equal(g4_directory_open(&store, &options, &err), KVT_INVALID);
}

/* What the store should hold. */
struct model {
    bool there[KEYS];
    uint64_t seed[KEYS];
    size_t size[KEYS];
    char etag[KEYS][G4_ETAG_MAX];
    uint64_t outcomes[KVT_ERR_COUNT];
};

static void
model_put(struct fixture *f, struct model *model, int i, uint64_t *random)
{
    const enum g4_condition condition = (enum g4_condition)kvt_random_below(random, 3);
    const size_t size = (size_t)kvt_random_below(random, 3000);
    const uint64_t seed = kvt_random_next(random);
    const bool stale = kvt_random_below(random, 4) == 0;
    char etag[G4_ETAG_MAX] = "stale";
    enum kvt_err expected = KVT_OK;
    char body[3000];
    char key[32];
    enum kvt_err rc;

    (void)snprintf(key, sizeof(key), "k/%d", i);
    fill(body, size, seed);
    if (condition == G4_IF_ABSENT) {
        expected = model->there[i] ? KVT_EXISTS : KVT_OK;
        rc = put_absent(f->store, key, body, size, etag);
    } else if (condition == G4_IF_MATCH) {
        if (!stale && model->there[i])
            memcpy(etag, model->etag[i], sizeof(etag));
        expected = !model->there[i] ? KVT_NOTFOUND : stale ? KVT_PRECONDITION : KVT_OK;
        rc = put_match(f->store, key, body, size, etag);
    } else {
        rc = put(f->store, key, body, size, etag);
    }
    assert_int_equal(rc, expected);
    model->outcomes[rc]++;
    if (rc != KVT_OK)
        return;
    model->there[i] = true;
    model->seed[i] = seed;
    model->size[i] = size;
    memcpy(model->etag[i], etag, sizeof(etag));
}

static void
model_delete(struct fixture *f, struct model *model, int i, uint64_t *random)
{
    char key[32];
    enum kvt_err expected = model->there[i] ? KVT_OK : KVT_NOTFOUND;
    enum kvt_err rc;

    (void)snprintf(key, sizeof(key), "k/%d", i);
    if (kvt_random_below(random, 3) == 0) {
        rc = del_match(f->store, key, "stale");
        expected = model->there[i] ? KVT_PRECONDITION : KVT_NOTFOUND;
    } else {
        rc = del(f->store, key);
    }
    assert_int_equal(rc, expected);
    if (rc == KVT_OK)
        model->there[i] = false;
}

static void
model_get(struct fixture *f, const struct model *model, int i)
{
    char body[3000];
    char key[32];

    (void)snprintf(key, sizeof(key), "k/%d", i);
    assert_int_equal(get(f->store, key, &f->fetched), model->there[i] ? KVT_OK : KVT_NOTFOUND);
    if (!model->there[i])
        return;
    fill(body, model->size[i], model->seed[i]);
    assert_int_equal(f->fetched.size, model->size[i]);
    assert_memory_equal(f->fetched.body, body, model->size[i]);
    assert_string_equal(f->fetched.etag, model->etag[i]);
}

static void
random_against_model(void **state)
{
    struct fixture *f = *state;
    struct model *model = kvt_calloc(1, sizeof(*model));
    uint64_t random = test_seed();

    for (int step = 0; step < STEPS; step++) {
        const int i = (int)kvt_random_below(&random, KEYS);

        switch (kvt_random_below(&random, 5)) {
        case 0:
        case 1: model_put(f, model, i, &random); break;
        case 2: model_delete(f, model, i, &random); break;
        default: model_get(f, model, i);
        }
        if (kvt_random_below(&random, 500) == 0) {
            g4_store_close(f->store);
            f->store = open_store(f->path, 0);
        }
    }
    assert_true(model->outcomes[KVT_OK] > 0 && model->outcomes[KVT_EXISTS] > 0 &&
                model->outcomes[KVT_PRECONDITION] > 0 && model->outcomes[KVT_NOTFOUND] > 0);
    kvt_free(model);
}

static bool
open_once(void *arg)
{
    const struct g4_directory_options options = {.path = arg, .threads = 1};
    struct g4_store *store;
    struct kvt_error err;
    enum kvt_err rc;

    rc = g4_directory_open(&store, &options, &err);
    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && store == NULL));
    g4_store_close(store);
    return rc == KVT_OK;
}

static void
opening_survives_every_allocation_failure(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(put(f->store, KEY, "hello", 5, NULL), KVT_OK);
    g4_store_close(f->store);
    f->store = NULL;
    assert_true(test_sweep_allocations(open_once, f->path) >= 5);
    f->store = open_store(f->path, 0);
    assert_int_equal(get(f->store, KEY, &f->fetched), KVT_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_put_comes_back),
        TEST(empty_bodies_and_foreign_objects_are_kept),
        TEST(parts_are_read),
        TEST(attributes_are_kept),
        TEST(conditions_hold),
        TEST(the_same_bytes_again_are_another_version),
        TEST(a_body_that_fails_its_own_check_is_not_stored),
        TEST(get_keeps_to_its_room),
        TEST(unfit_requests_are_refused),
        TEST(a_passed_deadline_is_a_timeout),
        TEST(any_key_is_a_key),
        TEST(damaged_files_are_corrupt_never_data),
        TEST(an_object_of_another_key_is_corrupt),
        TEST(files_of_others_are_not_listed_and_not_deleted),
        TEST(the_cap_is_never_passed),
        TEST(two_stores_on_one_folder_share_the_cap),
        TEST(opening_cleans_what_was_left_on_the_way),
        TEST(opening_fails_with_a_reason),
        TEST(random_against_model),
        TEST(opening_survives_every_allocation_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
