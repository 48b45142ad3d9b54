/*
 * What is tested: g4/s3/s3.h against a real MinIO and a real versitygw: verbs, conditions, odd
 * keys, listing, races, refused credentials, an absent bucket, and a server that is killed under
 * way. Argument 1 names the server: "minio" or "versitygw".
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "g4/lock/selftest.h"
#include "g4/object/check.h"
#include "g4/s3/s3.h"

#include "tests/support/seed.h"
#include "tests/unit/g4/support/contract.h"
#include "tests/unit/g4/support/helpers.h"
#include "tests/unit/g4/support/servers.h"

enum { RACERS = 8, RACE_KEYS = 20, BODY = 20000, LIST_KEYS = 1100, SKIPPED = 77 };

static struct server *server; /* one for the whole program: it takes seconds to start */

struct fixture {
    struct g4_store *store;
    struct fetched fetched;
    char prefix[32];
};

static struct g4_store *
open_store(const struct g4_s3_options *options)
{
    struct g4_store *store = NULL;
    struct kvt_error err;

    assert_int_equal(g4_s3_open(&store, options, &err), KVT_OK);
    return store;
}

static int
set_up(void **state)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));
    uint64_t nonce;

    kvt_random_system(&nonce, sizeof(nonce));
    (void)snprintf(f->prefix, sizeof(f->prefix), "t%016llx/", (unsigned long long)nonce);
    f->store = open_store(server_options(server));
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

static const char *
key_of(const struct fixture *f, const char *name, char key[KVT_KEY_MAX])
{
    (void)snprintf(key, KVT_KEY_MAX, "%s%s", f->prefix, name);
    return key;
}

static void
what_is_put_comes_back(void **state)
{
    struct fixture *f = *state;
    const uint64_t now_ms = kvt_clock_unix_ms();
    char etag[G4_ETAG_MAX];
    char key[KVT_KEY_MAX];
    char body[BODY];

    fill(body, sizeof(body), 1);
    (void)key_of(f, "acme/0/1:CUrLYDFnmBa:13A3sGnbCSf", key);
    assert_int_equal(put_absent(f->store, key, body, sizeof(body), etag), KVT_OK);
    assert_int_equal(get(f->store, key, &f->fetched), KVT_OK);
    assert_int_equal(f->fetched.size, sizeof(body));
    assert_memory_equal(f->fetched.body, body, sizeof(body));
    assert_string_equal(f->fetched.etag, etag);
    assert_null(strchr(etag, '"'));
    assert_true(f->fetched.meta.present);
    assert_true(f->fetched.meta.fingerprint == 0x1122334455667788);
    assert_string_equal(f->fetched.meta.writer, "tester");
    assert_int_equal(g4_check_body(&f->fetched.meta, NULL, f->fetched.body, f->fetched.size, NULL),
                     KVT_OK);
    assert_true(f->fetched.modified_ms + 60000 > now_ms);
    assert_true(f->fetched.server_ms + 60000 > now_ms);

    assert_int_equal(head(f->store, key, &f->fetched), KVT_OK);
    assert_int_equal(f->fetched.meta.length, sizeof(body));
    assert_int_equal(f->fetched.size, sizeof(body)); /* what is there, not what was received */
    assert_string_equal(f->fetched.etag, etag);
    assert_int_equal(del(f->store, key), KVT_OK);
    assert_int_equal(get(f->store, key, &f->fetched), KVT_NOTFOUND);
    assert_int_equal(head(f->store, key, &f->fetched), KVT_NOTFOUND);
}

static void
parts_are_read(void **state)
{
    struct fixture *f = *state;

    test_contract_parts(f->store, f->prefix);
}

static void
attributes_are_kept(void **state)
{
    struct fixture *f = *state;

    test_contract_attributes(f->store, f->prefix);
}

static void
empty_bodies_and_foreign_objects_are_kept(void **state)
{
    struct fixture *f = *state;

    test_contract_empty_and_foreign(f->store, f->prefix);
}

static void
conditions_hold(void **state)
{
    struct fixture *f = *state;

    test_contract_conditions(f->store, f->prefix);
}

static void
get_keeps_to_its_room(void **state)
{
    struct fixture *f = *state;

    test_contract_room(f->store, f->prefix);
}

static const char *const odd_names[] = {
    "a b",
    "a%2Fb",
    "a+b",
    "a/b",
    "a:b:c",
    "a=b@c",
    "a&b?",
    "a#b",
    "a'\"",
    "a~b!*()$,;[]",
    "caf\xc3\xa9/\xe2\x98\x83",
    "zz",
};

static void
odd_keys_are_keys(void **state)
{
    struct fixture *f = *state;
    struct g4_listed *rows = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*rows));
    const size_t count = sizeof(odd_names) / sizeof(odd_names[0]);
    char token[G4_TOKEN_MAX] = "";
    char key[KVT_KEY_MAX];
    size_t listed;

    for (size_t i = 0; i < count; i++)
        assert_int_equal(put_absent(f->store, key_of(f, odd_names[i], key), odd_names[i],
                                    strlen(odd_names[i]), NULL),
                         KVT_OK);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(get(f->store, key_of(f, odd_names[i], key), &f->fetched), KVT_OK);
        assert_int_equal(f->fetched.size, strlen(odd_names[i]));
        assert_memory_equal(f->fetched.body, odd_names[i], strlen(odd_names[i]));
    }
    assert_int_equal(list(f->store, f->prefix, token, rows, &listed), KVT_OK);
    assert_int_equal(listed, count);
    for (size_t i = 0; i < count; i++) {
        bool found = false;

        (void)key_of(f, odd_names[i], key);
        for (size_t row = 0; row < listed; row++)
            found |= strcmp(rows[row].key, key) == 0 && rows[row].size == strlen(odd_names[i]) &&
                     rows[row].etag[0] != '\0' && rows[row].etag[0] != '"' &&
                     rows[row].modified_ms + 60000 > kvt_clock_unix_ms();
        assert_true(found);
    }
    kvt_free(rows);
}

struct batch {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t left;
    size_t failed;
};

static void
on_done(struct g4_request *request, void *arg)
{
    struct batch *batch = arg;

    pthread_mutex_lock(&batch->lock);
    batch->left--;
    if (request->status != KVT_OK)
        batch->failed++;
    pthread_cond_signal(&batch->changed);
    pthread_mutex_unlock(&batch->lock);
}

/* Many at once through the queue; then all of them page by page. */
static void
many_keys_are_listed_in_pages(void **state)
{
    struct fixture *f = *state;
    struct batch batch = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, LIST_KEYS, 0};
    struct g4_request *requests = kvt_calloc(LIST_KEYS, sizeof(*requests));
    struct g4_listed *rows = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*rows));
    char(*keys)[64] = kvt_calloc(LIST_KEYS, sizeof(*keys));
    char token[G4_TOKEN_MAX] = "";
    size_t at = 0;
    size_t pages = 0;

    for (int i = 0; i < LIST_KEYS; i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "%sn/%05d", f->prefix, i);
        requests[i] = (struct g4_request){.verb = G4_PUT,
                                          .key = keys[i],
                                          .condition = G4_IF_ABSENT,
                                          .body = keys[i],
                                          .body_size = 8,
                                          .done = on_done,
                                          .arg = &batch};
        assert_int_equal(g4_store_submit(f->store, &requests[i]), KVT_OK);
    }
    pthread_mutex_lock(&batch.lock);
    while (batch.left > 0)
        pthread_cond_wait(&batch.changed, &batch.lock);
    pthread_mutex_unlock(&batch.lock);
    assert_int_equal(batch.failed, 0);
    do {
        size_t count;

        assert_int_equal(list(f->store, f->prefix, token, rows, &count), KVT_OK);
        for (size_t i = 0; i < count; i++, at++)
            assert_string_equal(rows[i].key, keys[at]);
        pages++;
    } while (token[0] != '\0');
    assert_int_equal(at, LIST_KEYS);
    assert_int_equal(pages, 2);
    kvt_free(keys);
    kvt_free(rows);
    kvt_free(requests);
}

struct racer {
    pthread_t thread;
    pthread_barrier_t *barrier;
    const struct fixture *fixture;
    unsigned id;
    size_t won;
    struct fetched *fetched;
};

static void *
race_for_keys(void *arg)
{
    struct racer *racer = arg;
    struct g4_store *store = open_store(server_options(server));
    char body[BODY];

    memset(body, (int)('A' + racer->id), sizeof(body));
    for (int i = 0; i < RACE_KEYS; i++) {
        char name[16];
        char key[KVT_KEY_MAX];
        enum kvt_err rc;

        (void)snprintf(name, sizeof(name), "race/%d", i);
        (void)key_of(racer->fixture, name, key);
        pthread_barrier_wait(racer->barrier);
        rc = put_absent(store, key, body, sizeof(body), NULL);
        assert_true(rc == KVT_OK || rc == KVT_EXISTS);
        if (rc == KVT_OK)
            racer->won++;
        assert_int_equal(get(store, key, racer->fetched), KVT_OK);
        assert_int_equal(g4_check_body(&racer->fetched->meta, NULL, racer->fetched->body,
                                       racer->fetched->size, NULL),
                         KVT_OK);
        assert_true(rc != KVT_OK || memcmp(racer->fetched->body, body, 1) == 0);
    }
    g4_store_close(store);
    return NULL;
}

static void
each_key_has_one_first_writer(void **state)
{
    struct fixture *f = *state;
    struct racer racers[RACERS];
    pthread_barrier_t barrier;
    size_t won = 0;

    assert_int_equal(pthread_barrier_init(&barrier, NULL, RACERS), 0);
    for (unsigned i = 0; i < RACERS; i++) {
        racers[i] = (struct racer){.barrier = &barrier,
                                   .fixture = f,
                                   .id = i,
                                   .fetched = kvt_calloc(1, sizeof(struct fetched))};
        assert_int_equal(pthread_create(&racers[i].thread, NULL, race_for_keys, &racers[i]), 0);
    }
    for (unsigned i = 0; i < RACERS; i++) {
        (void)pthread_join(racers[i].thread, NULL);
        won += racers[i].won;
        kvt_free(racers[i].fetched);
    }
    (void)pthread_barrier_destroy(&barrier);
    assert_int_equal(won, RACE_KEYS);
}

static void
the_server_checks_the_checksum(void **state)
{
    struct fixture *f = *state;
    char key[KVT_KEY_MAX];
    struct g4_request request = {.verb = G4_PUT,
                                 .key = key_of(f, "checksum", key),
                                 .body = "abc",
                                 .body_size = 3,
                                 .meta = {.present = true, .length = 3, .crc32c = 1}};

    assert_int_equal(g4_store_perform(f->store, &request), KVT_CORRUPT);
    assert_int_equal(head(f->store, key, &f->fetched), KVT_NOTFOUND);
}

static void
wrong_credentials_are_denied(void **state)
{
    struct g4_s3_options options = *server_options(server);
    struct fixture *f = *state;
    struct g4_store *store;
    struct kvt_error err;
    char key[KVT_KEY_MAX];

    (void)key_of(f, "denied", key);
    options.secret_key = "wrong-secret-wrong";
    store = open_store(&options);
    assert_int_equal(put_absent(store, key, "x", 1, NULL), KVT_DENIED);
    assert_int_equal(get(store, key, &f->fetched), KVT_DENIED);
    assert_int_equal(head(store, key, &f->fetched), KVT_DENIED);
    assert_int_equal(g4_s3_probe(store, NULL, &err), KVT_DENIED);
    assert_non_null(strstr(err.text, "SignatureDoesNotMatch"));
    g4_store_close(store);
    options.secret_key = SERVER_SECRET_KEY;
    options.access_key = "nobody-knows-me";
    store = open_store(&options);
    assert_int_equal(put_absent(store, key, "x", 1, NULL), KVT_DENIED);
    g4_store_close(store);
}

static void
a_missing_bucket_says_nothing_of_objects(void **state)
{
    struct g4_s3_options options = *server_options(server);
    struct fixture *f = *state;
    struct g4_store *store;
    struct kvt_error err;
    int64_t skew_ms;

    options.bucket = "no-such-bucket";
    store = open_store(&options);
    /* Of the objects nothing is known: only who asks for the bucket itself is told that it is not
     * there. */
    assert_int_equal(put_absent(store, "k", "x", 1, NULL), KVT_UNAVAILABLE);
    assert_int_equal(get(store, "k", &f->fetched), KVT_UNAVAILABLE);
    assert_int_equal(g4_s3_probe(store, NULL, &err), KVT_NOTFOUND);
    assert_int_equal(err.code, KVT_NOTFOUND);
    assert_non_null(strstr(err.text, "NoSuchBucket"));
    g4_store_close(store);
    assert_int_equal(g4_s3_probe(f->store, &skew_ms, &err), KVT_OK);
    assert_true(skew_ms > -5000 && skew_ms < 5000);
    assert_int_equal(g4_s3_create_bucket(server_options(server), &err), KVT_EXISTS);
}

static void
the_self_test_tells_what_the_server_does(void **state)
{
    struct fixture *f = *state;
    struct g4_selftest result;
    struct kvt_error err;

    assert_int_equal(g4_selftest(f->store, &result, &err), KVT_OK);
    assert_true(result.put_if_absent);
    assert_true(result.put_if_match);
    assert_true(result.if_match_missing);
    assert_true(result.list_after_write);
    assert_true(result.meta_kept);
    (void)fprintf(stderr, "delete_if_match=%d\n", result.delete_if_match);
}

/* Requests keep coming while the server dies: each ends, with an honest code, and what was
 * acknowledged is there afterwards. */
static void
a_killed_server_is_an_error_not_a_hang(void **state)
{
    struct g4_s3_options options = *server_options(server);
    struct fixture *f = *state;
    struct batch batch = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 200, 0};
    struct g4_request *requests = kvt_calloc(200, sizeof(*requests));
    char(*keys)[64] = kvt_calloc(200, sizeof(*keys));
    struct g4_store *store;
    char *body = kvt_calloc(FETCHED_MAX, 1);
    const uint64_t before_ms = kvt_clock_mono_ms();
    size_t acknowledged = 0;

    options.timeout_ms = 8000;
    store = open_store(&options);
    for (int i = 0; i < 200; i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "%skill/%d", f->prefix, i);
        requests[i] = (struct g4_request){.verb = G4_PUT,
                                          .key = keys[i],
                                          .condition = G4_IF_ABSENT,
                                          .body = body,
                                          .body_size = FETCHED_MAX,
                                          .done = on_done,
                                          .arg = &batch};
        assert_int_equal(g4_store_submit(store, &requests[i]), KVT_OK);
    }
    pthread_mutex_lock(&batch.lock);
    while (batch.left > 150)
        pthread_cond_wait(&batch.changed, &batch.lock);
    pthread_mutex_unlock(&batch.lock);
    server_kill(server);
    pthread_mutex_lock(&batch.lock);
    while (batch.left > 0)
        pthread_cond_wait(&batch.changed, &batch.lock);
    pthread_mutex_unlock(&batch.lock);
    assert_true(kvt_clock_mono_ms() - before_ms < 30000);
    assert_true(batch.failed > 0);
    server_restart(server);
    for (int i = 0; i < 200; i++) {
        const enum kvt_err rc = requests[i].status;

        assert_true(rc == KVT_OK || rc == KVT_EXISTS || rc == KVT_IO || rc == KVT_UNAVAILABLE ||
                    rc == KVT_TIMEOUT);
        if (rc != KVT_OK)
            continue;
        acknowledged++;
        assert_int_equal(get(store, keys[i], &f->fetched), KVT_OK);
        assert_int_equal(f->fetched.size, FETCHED_MAX);
    }
    assert_true(acknowledged >= 50);
    g4_store_close(store);
    kvt_free(body);
    kvt_free(keys);
    kvt_free(requests);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static int
start_server(void **state)
{
    (void)state;
    return server == NULL ? -1 : 0;
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_put_comes_back),
        TEST(empty_bodies_and_foreign_objects_are_kept),
        TEST(parts_are_read),
        TEST(attributes_are_kept),
        TEST(conditions_hold),
        TEST(get_keeps_to_its_room),
        TEST(odd_keys_are_keys),
        TEST(many_keys_are_listed_in_pages),
        TEST(each_key_has_one_first_writer),
        TEST(the_server_checks_the_checksum),
        TEST(wrong_credentials_are_denied),
        TEST(a_missing_bucket_says_nothing_of_objects),
        TEST(the_self_test_tells_what_the_server_does),
        TEST(a_killed_server_is_an_error_not_a_hang),
    };
    const bool versitygw = argc > 1 && strcmp(argv[1], "versitygw") == 0;
    int failed;

    server = server_start(versitygw ? SERVER_VERSITYGW : SERVER_MINIO);
    if (server == NULL)
        return SKIPPED;
    failed = cmocka_run_group_tests(tests, start_server, NULL);
    server_stop(server);
    return failed;
}
