/*
 * What is tested: g4/driver/driver_store.h.
 * How: shared objects that are none, that lack what they need, or are of another version; what
 * every store promises, of a driver in memory; and that driver lying about each PUT, GET and HEAD.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "g4/driver/driver_store.h"

#include "tests/support/seed.h"
#include "tests/unit/g4/fake/fake_driver.h"
#include "tests/unit/g4/support/contract.h"
#include "tests/unit/g4/support/helpers.h"

#define KEY "0/0:11111112"

struct fixture {
    struct g4_store *store;
    struct fake_store_controls *controls;
    struct fetched fetched;
    void *library;
};

static struct g4_driver_store_options
options_of(const char *path)
{
    return (struct g4_driver_store_options){.path = path,
                                            .endpoint = "http://127.0.0.1:1",
                                            .bucket = "bucket",
                                            .access_key = "access",
                                            .secret_key = "secret",
                                            .writer = "gw0",
                                            .threads = 2};
}

static int
set_up(void **state)
{
    const struct g4_driver_store_options options = options_of(FAKE_STORE_PATH);
    struct fixture *f = kvt_calloc(1, sizeof(*f));

    assert_int_equal(g4_driver_store_open(&f->store, &options, NULL), KVT_OK);
    f->library = dlopen(FAKE_STORE_PATH, RTLD_NOW);
    assert_non_null(f->library);
    f->controls = dlsym(f->library, FAKE_STORE_SYMBOL);
    assert_non_null(f->controls);
    *state = f;
    return 0;
}

static void
lie(struct fixture *f, enum fake_store_lie what)
{
    f->controls->lie = what;
    f->controls->heads = 0;
    f->controls->puts = 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    lie(f, FAKE_STORE_HONEST);
    g4_store_close(f->store);
    assert_int_equal(f->controls->opened, 0);
    f->controls->empty();
    (void)dlclose(f->library);
    kvt_free(f);
    return 0;
}

/* ---- loading ---- */

static void
what_is_no_driver_is_refused(void **state)
{
    static const struct {
        const char *path;
        enum kvt_err rc;
        const char *why;
    } rows[] = {
        {"/nowhere/g4-store-libs3.so", KVT_NOTFOUND, "is not there"},
        {"/proc/self/comm", KVT_UNSUPPORTED, "store driver"},
        {FAKE_STORE_NAMELESS_PATH, KVT_UNSUPPORTED, "has no g4_foreign_driver"},
        {FAKE_STORE_OTHER_PATH, KVT_UNSUPPORTED, "version 99"},
        {FAKE_STORE_PARTIAL_PATH, KVT_UNSUPPORTED, "lacks a part"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct g4_driver_store_options options = options_of(rows[i].path);
        struct g4_store *store;
        struct kvt_error err;

        assert_int_equal(g4_driver_store_open(&store, &options, &err), rows[i].rc);
        assert_null(store);
        if (strstr(err.text, rows[i].why) == NULL)
            fail_msg("%s: %s, expected \"%s\"", rows[i].path, err.text, rows[i].why);
    }
}

static void
a_network_must_be_trusted(void **state)
{
    static const struct {
        const char *endpoint;
        bool trusted;
        enum kvt_err rc;
    } rows[] = {
        {"http://127.0.0.1:9000", false, KVT_OK},
        {"http://127.8.8.8/", false, KVT_OK},
        {"http://localhost:9000", false, KVT_OK},
        {"https://127.0.0.1:9000", false, KVT_OK},
        {"https://appliance.example", true, KVT_OK},
        {"https://appliance.example", false, KVT_INVALID},
        {"http://appliance.example", true, KVT_OK},
        {"http://appliance.example", false, KVT_INVALID},
        {"http://127.0.0.1.example", false, KVT_INVALID},
        {"http://localhost.example:80", false, KVT_INVALID},
        {"http://127.0.0.1@appliance.example", false, KVT_INVALID},
        {"http://127.0.0.1/path", false, KVT_INVALID},
        {"http://", true, KVT_INVALID},
        {"ftp://127.0.0.1", true, KVT_INVALID},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct g4_driver_store_options options = options_of(FAKE_STORE_PATH);
        struct g4_store *store;
        enum kvt_err rc;

        options.endpoint = rows[i].endpoint;
        options.trusted = rows[i].trusted;
        rc = g4_driver_store_open(&store, &options, NULL);
        if (rc != rows[i].rc)
            fail_msg("%s: %s", rows[i].endpoint, kvt_err_text(rc));
        g4_store_close(store);
    }
}

static void
a_bucket_has_one_writer(void **state)
{
    struct fixture *f = *state;
    struct g4_driver_store_options options = options_of(FAKE_STORE_PATH);
    struct g4_store *store;
    struct kvt_error err;

    options.writer = "gw1";
    assert_int_equal(g4_driver_store_open(&store, &options, &err), KVT_BUSY);
    assert_null(store);
    assert_non_null(strstr(err.text, "gw0"));
    options.writer = "gw0"; /* after a restart */
    assert_int_equal(g4_driver_store_open(&store, &options, &err), KVT_OK);
    g4_store_close(store);
    assert_int_equal(del(f->store, G4_FOREIGN_WRITER_KEY), KVT_OK);
    options.writer = "gw1";
    assert_int_equal(g4_driver_store_open(&store, &options, &err), KVT_OK);
    g4_store_close(store);
    options.writer = "";
    assert_int_equal(g4_driver_store_open(&store, &options, &err), KVT_INVALID);
    options.writer = "gw1";
    options.secret_key = "wrong";
    assert_int_equal(g4_driver_store_open(&store, &options, &err), KVT_UNAVAILABLE);
    assert_non_null(strstr(err.text, "does not like"));
}

static bool
try_to_open(void *arg)
{
    const struct g4_driver_store_options options = options_of(FAKE_STORE_PATH);
    struct g4_store *store;
    const bool opened = g4_driver_store_open(&store, &options, NULL) == KVT_OK;

    (void)arg;
    assert_true(opened || store == NULL);
    g4_store_close(store);
    return opened;
}

static void
opening_survives_each_failing_allocation(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(try_to_open, NULL) > 0);
}

/* ---- what every store promises ---- */

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
its_keys_are_listed(void **state)
{
    struct fixture *f = *state;
    struct g4_listed *rows = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*rows));
    char token[G4_TOKEN_MAX] = "";
    size_t found = 0;
    size_t count;
    char key[32];

    for (int i = 0; i < 2 * FAKE_STORE_PAGE + 1; i++) {
        (void)snprintf(key, sizeof(key), "l/%d", i);
        assert_int_equal(put(f->store, key, "abc", 3, NULL), KVT_OK);
    }
    do {
        assert_int_equal(list(f->store, "l/", token, rows, &count), KVT_OK);
        for (size_t i = 0; i < count; i++, found++) {
            (void)snprintf(key, sizeof(key), "l/%zu", found);
            assert_string_equal(rows[i].key, key);
            assert_int_equal(rows[i].size, 3);
        }
    } while (token[0] != '\0');
    assert_int_equal(found, 2 * FAKE_STORE_PAGE + 1);
    kvt_free(rows);
}

static void
what_cannot_be_kept_is_refused(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(put(f->store, "gc.lock", "x", 1, NULL), KVT_UNSUPPORTED);
    assert_int_equal(put(f->store, "a b", "x", 1, NULL), KVT_UNSUPPORTED);
    assert_int_equal(get(f->store, "a b", &f->fetched), KVT_UNSUPPORTED);
}

/* ---- deadlines ---- */

enum { PATIENCE_MS = 20 };

struct head {
    struct g4_request request;
    atomic_bool done;
};

static void
on_head(struct g4_request *request, void *arg)
{
    (void)request;
    atomic_store((atomic_bool *)arg, true);
}

static void
waiting_for_a_thread_counts(void **state)
{
    struct fixture *f = *state;
    struct g4_driver_store_options options = options_of(FAKE_STORE_PATH);
    struct head heads[2] = {0};
    struct g4_store *store;

    assert_int_equal(put(f->store, KEY, "hello", 5, NULL), KVT_OK);
    options.threads = 1;
    options.timeout_ms = PATIENCE_MS;
    assert_int_equal(g4_driver_store_open(&store, &options, NULL), KVT_OK);
    lie(f, FAKE_STORE_HONEST);
    atomic_store(&f->controls->shut, true);
    for (size_t i = 0; i < 2; i++) {
        heads[i].request = (struct g4_request){
            .verb = G4_HEAD, .key = KEY, .done = on_head, .arg = &heads[i].done};
        /* The first is given all the time there is. */
        heads[i].request.deadline_ms = i == 0 ? kvt_clock_mono_ms() + 60000 : 0;
        assert_int_equal(g4_store_submit(store, &heads[i].request), KVT_OK);
    }
    kvt_clock_sleep_ms(2 * PATIENCE_MS); /* the second one's time is over by then */
    atomic_store(&f->controls->shut, false);
    g4_store_close(store);
    assert_true(atomic_load(&heads[0].done) && atomic_load(&heads[1].done));
    assert_int_equal(heads[0].request.status, KVT_OK);
    assert_int_equal(heads[1].request.status, KVT_TIMEOUT);
    assert_int_equal(f->controls->heads, 1);
}

/* ---- a driver that lies ---- */

static void
a_put_is_what_a_look_shows(void **state)
{
    static const struct {
        enum fake_store_lie lie;
        enum kvt_err rc;
        enum kvt_err there;
    } rows[] = {
        {FAKE_STORE_HONEST, KVT_OK, KVT_OK},
        {FAKE_STORE_PUT_LOST, KVT_UNAVAILABLE, KVT_NOTFOUND},
        {FAKE_STORE_PUT_UNSAID, KVT_OK, KVT_OK},
        {FAKE_STORE_PUT_HALF, KVT_UNAVAILABLE, KVT_CORRUPT},
        {FAKE_STORE_HEAD_AWAY, KVT_UNAVAILABLE, KVT_OK},
        {FAKE_STORE_HEAD_LENGTHLESS, KVT_IO, KVT_OK},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        lie(f, rows[i].lie);
        if (put(f->store, KEY, "hello", 5, NULL) != rows[i].rc)
            fail_msg("lie %d is taken", (int)rows[i].lie);
        assert_int_equal(f->controls->puts, 1);
        lie(f, FAKE_STORE_HONEST);
        assert_int_equal(get(f->store, KEY, &f->fetched), rows[i].there);
        assert_int_equal(del(f->store, KEY), KVT_OK);
    }
    /* What was there before is not taken for what was to be put. */
    assert_int_equal(put(f->store, KEY, "hello", 5, NULL), KVT_OK);
    lie(f, FAKE_STORE_PUT_LOST);
    assert_int_equal(put(f->store, KEY, "hello", 5, NULL), KVT_UNAVAILABLE);
    /* Where it cannot be looked at before, nothing is put. */
    lie(f, FAKE_STORE_HEAD_AWAY);
    f->controls->heads = 1;
    assert_int_equal(put_absent(f->store, "other", "x", 1, NULL), KVT_UNAVAILABLE);
    assert_int_equal(f->controls->puts, 0);
}

static void
bytes_are_given_out_whole_or_not_at_all(void **state)
{
    static const struct {
        enum fake_store_lie lie;
        enum kvt_err whole;
        enum kvt_err part;
    } rows[] = {
        {FAKE_STORE_GET_SHORT, KVT_IO, KVT_IO},           {FAKE_STORE_GET_LONG, KVT_IO, KVT_IO},
        {FAKE_STORE_GET_FLIPPED, KVT_CORRUPT, KVT_OK}, /* whoever knows the part's crc sees it */
        {FAKE_STORE_OTHER_KEY, KVT_CORRUPT, KVT_CORRUPT}, {FAKE_STORE_CHANGES, KVT_OK, KVT_BUSY},
    };
    struct fixture *f = *state;
    char body[5000];

    fill(body, sizeof(body), 3);
    assert_int_equal(put(f->store, KEY, body, sizeof(body), NULL), KVT_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct g4_request part = {.verb = G4_GET,
                                  .key = KEY,
                                  .buffer_capacity = 2000,
                                  .range_at = 100,
                                  .range_size = 2000};
        struct g4_request whole = {.verb = G4_GET, .key = KEY, .buffer_capacity = sizeof(body)};
        enum kvt_err rc;

        lie(f, rows[i].lie);
        rc = get(f->store, KEY, &f->fetched);
        if (rc != rows[i].whole)
            fail_msg("lie %d: %s", (int)rows[i].lie, kvt_err_text(rc));
        assert_int_equal(g4_store_perform(f->store, &whole), rc);
        assert_int_equal(whole.buffer != NULL, rc == KVT_OK || rc == KVT_CORRUPT);
        assert_int_equal(whole.buffer_size, whole.buffer == NULL ? 0 : sizeof(body));
        kvt_free(whole.buffer);
        rc = g4_store_perform(f->store, &part);
        if (rc != rows[i].part)
            fail_msg("lie %d: %s", (int)rows[i].lie, kvt_err_text(rc));
        assert_true(rc == KVT_OK || part.buffer == NULL);
        kvt_free(part.buffer);
        lie(f, FAKE_STORE_HONEST);
        assert_int_equal(get(f->store, KEY, &f->fetched), KVT_OK);
    }
}

static void
pairs_that_are_no_headers_are_left_out(void **state)
{
    struct fixture *f = *state;
    char attributes[G4_ATTRIBUTES_MAX];
    struct g4_request request = {.verb = G4_HEAD, .key = KEY, .attributes = attributes};

    assert_int_equal(put(f->store, KEY, "body", 4, NULL), KVT_OK);
    lie(f, FAKE_STORE_META_ODD);
    assert_int_equal(g4_store_perform(f->store, &request), KVT_OK);
    assert_string_equal(attributes, "x-amz-meta-j: k\n");
    assert_string_equal(request.meta.writer, "");
    lie(f, FAKE_STORE_HONEST);
}

/* Told of a larger object when the memory is there already: bytes were written beyond its end. */
static void
a_size_that_grows_is_no_overflow(void **state)
{
    struct fixture *f = *state;
    struct g4_request whole = {.verb = G4_GET, .key = KEY, .buffer_capacity = FAKE_STORE_BODY_MAX};
    char body[5000];

    fill(body, sizeof(body), 3);
    assert_int_equal(put(f->store, KEY, body, sizeof(body), NULL), KVT_OK);
    lie(f, FAKE_STORE_GET_TWICE);
    assert_int_equal(g4_store_perform(f->store, &whole), KVT_CORRUPT);
    kvt_free(whole.buffer);
    whole.buffer = NULL;
    whole.buffer_capacity = sizeof(body);
    assert_int_equal(g4_store_perform(f->store, &whole), KVT_RANGE);
    assert_null(whole.buffer);
    lie(f, FAKE_STORE_HONEST);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_driver_is_refused),
        cmocka_unit_test(a_network_must_be_trusted),
        cmocka_unit_test_setup_teardown(a_bucket_has_one_writer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(opening_survives_each_failing_allocation, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(it_is_a_store, set_up, tear_down),
        cmocka_unit_test_setup_teardown(its_keys_are_listed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_kept_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(waiting_for_a_thread_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_put_is_what_a_look_shows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pairs_that_are_no_headers_are_left_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_size_that_grows_is_no_overflow, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bytes_are_given_out_whole_or_not_at_all, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
