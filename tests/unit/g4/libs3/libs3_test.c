/*
 * What is tested: g4-store-libs3.so, as g4/driver/driver_store.h loads it, against a real MinIO,
 * which takes the old signature too.
 * How: what every store promises; listings; keys that are wrong; a server that is killed.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "g4/driver/driver_store.h"
#include "g4/lock/selftest.h"
#include "g4/object/check.h"

#include "tests/support/seed.h"
#include "tests/unit/g4/support/contract.h"
#include "tests/unit/g4/support/helpers.h"
#include "tests/unit/g4/support/servers.h"

#ifndef LIBS3_STORE_PATH
#define LIBS3_STORE_PATH "" /* it was not built */
#endif

enum { LIST_KEYS = 1100, BODY = 200000, TIMEOUT_MS = 3000, LATE_MS = 20000, WAIT_MS = 60000 };

static struct server *server; /* one for the whole program: it takes seconds to start */

struct fixture {
    struct g4_store *store;
    struct fetched fetched;
};

static struct g4_driver_store_options
options_of(const struct g4_s3_options *s3)
{
    return (struct g4_driver_store_options){.path = LIBS3_STORE_PATH,
                                            .endpoint = s3->endpoint,
                                            .bucket = s3->bucket,
                                            .access_key = s3->access_key,
                                            .secret_key = s3->secret_key,
                                            .path_style = true,
                                            .writer = "tester",
                                            .timeout_ms = TIMEOUT_MS};
}

static int
set_up(void **state)
{
    const struct g4_driver_store_options options = options_of(server_options(server));
    struct fixture *f = kvt_calloc(1, sizeof(*f));
    struct kvt_error err = {.code = KVT_OK};

    if (g4_driver_store_open(&f->store, &options, &err) != KVT_OK)
        fail_msg("%s", err.text);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    g4_store_close(f->store);
    kvt_free(f);
    return 0;
}

static void
it_is_a_store(void **state)
{
    struct fixture *f = *state;

    test_contract_parts(f->store, "p/");
    test_contract_attributes(f->store, "a/");
    test_contract_empty_and_foreign(f->store, "e/");
    test_contract_conditions(f->store, "c/");
    test_contract_room(f->store, "r/");
}

static void
blocks_come_back_and_go(void **state)
{
    static const char *const keys[] = {"0/0:11111112", "acme/m/31/7:11111113:11111112",
                                       "odd/=+@,~!*'()&$;#?%41/\xc3\xa4"};
    const uint64_t now_ms = kvt_clock_unix_ms();
    struct fixture *f = *state;
    char *body = kvt_calloc(1, BODY);
    char etag[G4_ETAG_MAX];

    fill(body, BODY, 1);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        assert_int_equal(put_absent(f->store, keys[i], body, BODY, etag), KVT_OK);
        assert_int_equal(get(f->store, keys[i], &f->fetched), KVT_OK);
        assert_int_equal(f->fetched.size, BODY);
        assert_memory_equal(f->fetched.body, body, BODY);
        assert_string_equal(f->fetched.etag, etag);
        assert_null(strchr(etag, '"'));
        assert_true(f->fetched.meta.present && f->fetched.modified_ms + 60000 > now_ms);
        assert_int_equal(del(f->store, keys[i]), KVT_OK);
        assert_int_equal(head(f->store, keys[i], &f->fetched), KVT_NOTFOUND);
    }
    kvt_free(body);
}

/* What it puts is what the store of our own reads, and the other way round. */
static void
both_stores_read_the_same(void **state)
{
    struct fixture *f = *state;
    struct g4_store *s3;

    assert_int_equal(g4_s3_open(&s3, server_options(server), NULL), KVT_OK);
    assert_int_equal(put(f->store, "0/0:11111113", "by libs3", 8, NULL), KVT_OK);
    assert_int_equal(get(s3, "0/0:11111113", &f->fetched), KVT_OK);
    assert_true(f->fetched.meta.present && f->fetched.size == 8);
    assert_int_equal(put(s3, "0/0:11111114", "by us", 5, NULL), KVT_OK);
    assert_int_equal(get(f->store, "0/0:11111114", &f->fetched), KVT_OK);
    assert_true(f->fetched.meta.present && f->fetched.size == 5);
    assert_string_equal(f->fetched.meta.writer, "tester");
    g4_store_close(s3);
}

struct planted {
    struct g4_request request;
    char key[32];
};

static void
on_planted(struct g4_request *request, void *arg)
{
    _Atomic size_t *count = arg;

    if (request->status == KVT_OK)
        atomic_fetch_add(count, 1);
}

/* One after the other they would take many times as long. */
static void
plant_many(struct g4_store *store)
{
    struct planted *planted = kvt_calloc(LIST_KEYS, sizeof(*planted));
    const uint64_t end_ms = kvt_clock_mono_ms() + WAIT_MS;
    _Atomic size_t count = 0;

    for (int i = 0; i < LIST_KEYS; i++) {
        (void)snprintf(planted[i].key, sizeof(planted[i].key), "l/%04d", i);
        planted[i].request = (struct g4_request){.verb = G4_PUT,
                                                 .key = planted[i].key,
                                                 .body = "abc",
                                                 .body_size = 3,
                                                 .done = on_planted,
                                                 .arg = &count};
        assert_int_equal(g4_store_submit(store, &planted[i].request), KVT_OK);
    }
    while (atomic_load(&count) < LIST_KEYS && kvt_clock_mono_ms() < end_ms)
        kvt_clock_sleep_ms(5);
    assert_int_equal(atomic_load(&count), LIST_KEYS);
    kvt_free(planted);
}

static void
pages_are_listed(void **state)
{
    struct fixture *f = *state;
    struct g4_listed *rows = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*rows));
    char token[G4_TOKEN_MAX] = "";
    struct g4_store *s3;
    size_t found = 0;
    size_t count;
    char key[32];

    assert_int_equal(g4_s3_open(&s3, server_options(server), NULL), KVT_OK);
    plant_many(s3);
    g4_store_close(s3);
    do {
        assert_int_equal(list(f->store, "l/", token, rows, &count), KVT_OK);
        for (size_t i = 0; i < count; i++, found++) {
            (void)snprintf(key, sizeof(key), "l/%04zu", found);
            assert_string_equal(rows[i].key, key);
            assert_int_equal(rows[i].size, 3);
        }
    } while (token[0] != '\0');
    assert_int_equal(found, LIST_KEYS);
    kvt_free(rows);
}

/* First writer wins and repairs are safe with one writer; locks are not for it. */
static void
its_self_test_says_what_it_is_good_for(void **state)
{
    struct fixture *f = *state;
    struct g4_selftest result;

    assert_int_equal(g4_selftest(f->store, &result, NULL), KVT_OK);
    assert_true(result.put_if_absent && result.put_if_match && result.if_match_missing);
    assert_true(result.meta_kept && result.etag_changes && result.list_after_write);
    assert_non_null(g4_selftest_unsafe(&result));
}

static void
wrong_keys_are_told(void **state)
{
    struct g4_driver_store_options options = options_of(server_options(server));
    struct g4_store *store;

    (void)state;
    options.secret_key = "another-secret";
    assert_int_equal(g4_driver_store_open(&store, &options, NULL), KVT_DENIED);
    assert_null(store);
    options = options_of(server_options(server));
    options.bucket = "no-such-bucket";
    assert_int_not_equal(g4_driver_store_open(&store, &options, NULL), KVT_OK);
}

/* Behind the last test: without its server every request ends in time, and is no success. */
static void
a_server_that_is_gone_is_told(void **state)
{
    struct fixture *f = *state;
    const uint64_t start_ms = kvt_clock_mono_ms();

    server_kill(server);
    assert_int_not_equal(put(f->store, "0/0:11111115", "x", 1, NULL), KVT_OK);
    assert_int_not_equal(get(f->store, "0/0:11111113", &f->fetched), KVT_OK);
    assert_int_not_equal(del(f->store, "0/0:11111113"), KVT_OK);
    assert_true(kvt_clock_mono_ms() - start_ms < LATE_MS);
    server_restart(server);
    assert_int_equal(get(f->store, "0/0:11111113", &f->fetched), KVT_OK);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_is_a_store, set_up, tear_down),
        cmocka_unit_test_setup_teardown(blocks_come_back_and_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(both_stores_read_the_same, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pages_are_listed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(its_self_test_says_what_it_is_good_for, set_up, tear_down),
        cmocka_unit_test(wrong_keys_are_told),
        cmocka_unit_test_setup_teardown(a_server_that_is_gone_is_told, set_up, tear_down),
    };
    int failed;

    if (LIBS3_STORE_PATH[0] == '\0')
        return 77;
    server = server_start(SERVER_MINIO);
    if (server == NULL)
        return 77;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    server_stop(server);
    return failed;
}
