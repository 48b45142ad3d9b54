/*
 * What is tested: g4/pair/bucket_pair.h over two directories: blocks are found wherever they are,
 * keys that are no blocks only in the near one, a deletion leaves neither copy, conditions mean
 * the copy that was seen, and a listing has each block once.  Pages are merged as a model says,
 * however they end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "g4/directory/directory.h"
#include "g4/object/check.h"
#include "g4/object/kind.h"
#include "g4/pair/bucket_pair.h"
#include "g4/pair/bucket_pair_list.h"

#include "tests/support/faulty_store.h"
#include "tests/support/seed.h"
#include "tests/unit/g4/support/contract.h"
#include "tests/unit/g4/support/helpers.h"

#define BLOCK block_key(f->key, 999)

struct fixture {
    char path[128];
    struct g4_store *near;
    struct g4_store *far;
    struct g4_store *store;
    struct fetched fetched;
    char key[KVT_KEY_MAX];
};

#define PREFIX "t/m/0/"

/* Their text is in the order of their positions, as long as those have four digits. */
static const char *
block_key(char out[KVT_KEY_MAX], uint32_t number)
{
    const struct kvt_block_id block = {.hash = 77, .parent = 88, .position = 1000 + number};

    assert_int_equal(kvt_key_format(out, KVT_KEY_MAX, KVT_KEY_KVBM_B, "t/m", 0, &block), KVT_OK);
    return out;
}

static uint32_t
number_of(const char *key)
{
    return (uint32_t)strtoul(key + strlen(PREFIX), NULL, 10) - 1000;
}

static struct g4_store *
open_faulty(const char *path, const char *name)
{
    struct g4_directory_options options = {.threads = 2};
    struct g4_store *inner;
    struct g4_store *store;
    char folder[200];

    (void)snprintf(folder, sizeof(folder), "%s/%s", path, name);
    options.path = folder;
    assert_int_equal(g4_directory_open(&inner, &options, NULL), KVT_OK);
    assert_int_equal(test_faulty_store_open(&store, inner), KVT_OK);
    return store;
}

static int
set_up(void **state)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));

    (void)test_folder_make(f->path, sizeof(f->path));
    f->near = open_faulty(f->path, "near");
    f->far = open_faulty(f->path, "far");
    assert_int_equal(g4_bucket_pair_open(&f->store, f->near, f->far), KVT_OK);
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

static unsigned
place_of(struct fixture *f, const char *key)
{
    uint8_t body[64];
    struct g4_request request = {
        .verb = G4_GET, .key = key, .buffer = body, .buffer_capacity = sizeof(body)};

    assert_int_equal(g4_store_perform(f->store, &request), KVT_OK);
    return request.place;
}

static void
bury_as(struct g4_store *store, const char *key, uint64_t fingerprint)
{
    struct g4_request request = {.verb = G4_PUT,
                                 .key = key,
                                 .body = "",
                                 .meta = {.present = true,
                                          .crc32c = g4_check_crc32c("", 0),
                                          .fingerprint = fingerprint,
                                          .writer = G4_KIND_TOMBSTONE_WRITER}};

    assert_int_equal(g4_store_perform(store, &request), KVT_OK);
}

static void
bury(struct g4_store *store, const char *key)
{
    bury_as(store, key, 0);
}

static void
a_block_is_found_where_it_is(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(get(f->store, BLOCK, &f->fetched), KVT_NOTFOUND);
    assert_int_equal(put(f->far, BLOCK, "far", 3, NULL), KVT_OK);
    assert_int_equal(get(f->store, BLOCK, &f->fetched), KVT_OK);
    assert_memory_equal(f->fetched.body, "far", 3);
    assert_int_equal(place_of(f, BLOCK), G4_BUCKET_PAIR_FAR);
    bury(f->near, BLOCK); /* no copy */
    assert_int_equal(place_of(f, BLOCK), G4_BUCKET_PAIR_FAR);
    assert_int_equal(head(f->store, BLOCK, &f->fetched), KVT_OK);
    assert_int_equal(f->fetched.meta.length, 3);
    assert_int_equal(put(f->near, BLOCK, "near!", 5, NULL), KVT_OK);
    assert_int_equal(place_of(f, BLOCK), G4_BUCKET_PAIR_NEAR);
    assert_int_equal(get(f->store, BLOCK, &f->fetched), KVT_OK);
    assert_memory_equal(f->fetched.body, "near!", 5);
    /* Others' keys are the near one's. */
    assert_int_equal(put(f->far, "note", "x", 1, NULL), KVT_OK);
    assert_int_equal(get(f->store, "note", &f->fetched), KVT_NOTFOUND);
    assert_int_equal(put(f->store, "note", "y", 1, NULL), KVT_OK);
    assert_int_equal(get(f->near, "note", &f->fetched), KVT_OK);
}

static enum kvt_err
get_part(struct fixture *f, size_t size)
{
    uint8_t body[64];
    struct g4_request request = {.verb = G4_GET,
                                 .key = BLOCK,
                                 .buffer = body,
                                 .buffer_capacity = sizeof(body),
                                 .range_size = size};

    return g4_store_perform(f->store, &request);
}

/* Whatever the far one has, and whether it answers or not: whole, in part, or its head. */
static void
what_was_removed_is_not_looked_for(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(put(f->far, BLOCK, "far", 3, NULL), KVT_OK);
    bury(f->near, BLOCK);
    assert_int_equal(get_part(f, 2), KVT_OK);
    bury_as(f->near, BLOCK, G4_KIND_REMOVED);
    for (unsigned away = 0; away < 2; away++) {
        g4_bucket_pair_tell(f->store, away == 0);
        assert_int_equal(get(f->store, BLOCK, &f->fetched), KVT_NOTFOUND);
        assert_int_equal(head(f->store, BLOCK, &f->fetched), KVT_NOTFOUND);
        assert_int_equal(get_part(f, 2), KVT_NOTFOUND);
    }
    g4_bucket_pair_tell(f->store, true);
    bury_as(f->far, BLOCK, G4_KIND_REMOVED); /* there it says nothing of the near one */
    assert_int_equal(put(f->near, BLOCK, "near!", 5, NULL), KVT_OK);
    assert_int_equal(get(f->store, BLOCK, &f->fetched), KVT_OK);
}

static void
a_deletion_leaves_neither(void **state)
{
    struct fixture *f = *state;
    char near[G4_ETAG_MAX];
    char far[G4_ETAG_MAX];

    for (unsigned where = 1; where <= 3; where++) {
        for (unsigned seen = 0; seen < 2; seen++) {
            if ((where & 1) != 0)
                assert_int_equal(put(f->near, BLOCK, "a", 1, near), KVT_OK);
            if ((where & 2) != 0)
                assert_int_equal(put(f->far, BLOCK, "a", 1, far), KVT_OK);
            if (seen != 0) {
                assert_int_equal(del_match(f->store, BLOCK, "another"), KVT_PRECONDITION);
                assert_int_equal(head(f->store, BLOCK, &f->fetched), KVT_OK);
                assert_int_equal(del_match(f->store, BLOCK, f->fetched.etag), KVT_OK);
            } else {
                assert_int_equal(del(f->store, BLOCK), KVT_OK);
            }
            assert_int_equal(head(f->near, BLOCK, &f->fetched), KVT_NOTFOUND);
            assert_int_equal(head(f->far, BLOCK, &f->fetched), KVT_NOTFOUND);
        }
    }
}

static void
conditions_mean_what_was_seen(void **state)
{
    struct fixture *f = *state;
    char etag[G4_ETAG_MAX];

    assert_int_equal(put(f->far, BLOCK, "bad", 3, etag), KVT_OK);
    assert_int_equal(put_match(f->store, BLOCK, "good", 4, etag), KVT_OK);
    assert_int_equal(head(f->near, BLOCK, &f->fetched), KVT_NOTFOUND);
    assert_int_equal(get(f->far, BLOCK, &f->fetched), KVT_OK);
    assert_memory_equal(f->fetched.body, "good", 4);
    (void)snprintf(etag, sizeof(etag), "another");
    assert_int_equal(put_match(f->store, BLOCK, "x", 1, etag), KVT_PRECONDITION);
    assert_int_equal(put_absent(f->store, BLOCK, "near", 4, NULL), KVT_OK);
    assert_int_equal(place_of(f, BLOCK), G4_BUCKET_PAIR_NEAR);
}

/* What is said of the near one is never said for the far one's sake. */
static void
a_far_bucket_that_is_away_is_again(void **state)
{
    static const enum kvt_err answers[] = {KVT_UNAVAILABLE, KVT_TIMEOUT};
    struct fixture *f = *state;
    struct g4_fault_rule rule = {.fault = G4_FAULT_FAIL, .count = UINT64_MAX};
    uint64_t before;
    uint64_t after;
    uint64_t hit;

    char another[KVT_KEY_MAX];
    char other[KVT_KEY_MAX];

    assert_int_equal(put(f->near, block_key(other, 1), "x", 1, NULL), KVT_OK);
    for (size_t i = 0; i < 2; i++) {
        rule.status = answers[i];
        for (rule.verb = G4_GET; rule.verb <= G4_LIST; rule.verb++)
            test_faulty_store_set(f->far, &rule);
        assert_int_equal(get(f->store, BLOCK, &f->fetched), KVT_AGAIN);
        assert_int_equal(head(f->store, BLOCK, &f->fetched), KVT_AGAIN);
        assert_int_equal(del(f->store, BLOCK), KVT_AGAIN);
        assert_int_equal(get(f->store, other, &f->fetched), KVT_OK);
        assert_int_equal(put_absent(f->store, block_key(another, 3 + (uint32_t)i), "x", 1, NULL),
                         KVT_OK);
    }
    test_faulty_store_count(f->far, G4_GET, &before, &hit);
    g4_bucket_pair_tell(f->store, false); /* now nobody even asks */
    assert_int_equal(get(f->store, block_key(other, 2), &f->fetched), KVT_AGAIN);
    test_faulty_store_count(f->far, G4_GET, &after, &hit);
    assert_int_equal(before, after);
}

static void
a_listing_has_each_once(void **state)
{
    struct fixture *f = *state;
    struct g4_listed *rows = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*rows));
    char token[G4_TOKEN_MAX] = "";
    char last[KVT_KEY_MAX] = "";
    char key[KVT_KEY_MAX];
    size_t total = 0;
    size_t count;

    for (unsigned i = 0; i < 1500; i++) {
        (void)block_key(key, i);
        if (i % 3 != 0) /* the third kind is in both */
            assert_int_equal(put(f->near, key, "n", 1, NULL), KVT_OK);
        if (i % 3 != 1)
            assert_int_equal(put(f->far, key, "ff", 2, NULL), KVT_OK);
    }
    bury(f->near, block_key(key, 0));
    assert_int_equal(put(f->far, "zz-no-block", "x", 1, NULL), KVT_OK);
    do {
        assert_int_equal(list(f->store, "", token, rows, &count), KVT_OK);
        for (size_t i = 0; i < count; i++) {
            assert_true(strcmp(rows[i].key, last) > 0);
            assert_int_equal(rows[i].size, number_of(rows[i].key) % 3 == 0 ? 2 : 1);
            memcpy(last, rows[i].key, sizeof(last));
        }
        total += count;
    } while (token[0] != '\0');
    assert_int_equal(total, 1500);
    kvt_free(rows);
}

static void
pages_are_merged_as_a_model_says(void **state)
{
    struct g4_listed *near = kvt_calloc(3 * (size_t)G4_LIST_KEYS_MAX, sizeof(*near));
    struct g4_listed *far = near + G4_LIST_KEYS_MAX;
    struct g4_listed *out = far + G4_LIST_KEYS_MAX;
    uint64_t seed = test_seed();

    (void)state;
    for (unsigned round = 0; round < 300; round++) {
        struct g4_bucket_pair_page pages[2] = {{.rows = near}, {.rows = far}};
        struct g4_listed *rows[2] = {near, far};
        char next[KVT_KEY_MAX];
        size_t expected = 0;
        size_t count;
        unsigned end = 1000; /* behind what both have told */

        for (unsigned side = 0; side < 2; side++) {
            for (unsigned i = 0; i < 30; i++)
                if (kvt_random_below(&seed, 2) == 0)
                    (void)block_key(rows[side][pages[side].count++].key, i);
            pages[side].more = pages[side].count > 0 && kvt_random_below(&seed, 2) == 0;
            if (pages[side].more) {
                const unsigned last = number_of(rows[side][pages[side].count - 1].key);

                end = last < end ? last : end;
            }
        }
        for (unsigned i = 0; i < 30 && i <= end; i++) {
            char key[KVT_KEY_MAX];
            bool there = false;

            (void)block_key(key, i);
            for (unsigned side = 0; side < 2; side++)
                for (size_t at = 0; at < pages[side].count; at++)
                    there = there || strcmp(rows[side][at].key, key) == 0;
            expected += there ? 1 : 0;
        }
        count = g4_bucket_pair_merge(&pages[0], &pages[1], out, next);
        assert_int_equal(count, expected);
        assert_int_equal(next[0] != '\0', end < 1000);
        for (size_t i = 1; i < count; i++)
            assert_true(strcmp(out[i - 1].key, out[i].key) < 0);
    }
    kvt_free(near);
}

static void
it_keeps_what_every_store_promises(void **state)
{
    struct fixture *f = *state;

    test_contract_attributes(f->store, "c/");
    test_contract_empty_and_foreign(f->store, "c/");
    test_contract_conditions(f->store, "c/");
    test_contract_room(f->store, "c/");
    test_contract_parts(f->store, "c/");
}

static bool
attempt_get(void *arg)
{
    struct fixture *f = arg;
    const enum kvt_err rc = head(f->store, BLOCK, &f->fetched);

    return rc == KVT_OK;
}

static void
every_failing_allocation_is_an_error(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(put(f->far, BLOCK, "far", 3, NULL), KVT_OK);
    assert_true(test_sweep_allocations(attempt_get, f) > 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_block_is_found_where_it_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_removed_is_not_looked_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_deletion_leaves_neither, set_up, tear_down),
        cmocka_unit_test_setup_teardown(conditions_mean_what_was_seen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_far_bucket_that_is_away_is_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_listing_has_each_once, set_up, tear_down),
        cmocka_unit_test(pages_are_merged_as_a_model_says),
        cmocka_unit_test_setup_teardown(it_keeps_what_every_store_promises, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_failing_allocation_is_an_error, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
