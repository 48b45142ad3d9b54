/*
 * What is tested: g4/s3/s3.h, g4/s3/bucket.h and g4/batch/batch_client.h against a store that lies
 * (tests/support/hostile_store.h).  Every request ends in time, gives true bytes or an error,
 * writes no byte beyond the caller's memory and leaves no memory behind.
 *
 * usage: hostile_store_test [CPU-SECONDS]    goes on for so long; scripts/soak hostile_store
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "base/http/fetch.h"
#include "g4/batch/batch.h"
#include "g4/batch/batch_client.h"
#include "g4/object/check.h"
#include "g4/s3/bucket.h"
#include "g4/s3/s3.h"

#include "tests/support/hostile_store.h"
#include "tests/support/seed.h"

enum {
    TIMEOUT_MS = 300,
    PATIENT_MS = 20000, /* where the truth is told and the machine may be busy */
    SLACK_MS = 10000,   /* for a machine that is busy */
    GUARD = 64,
    PART = 1024,
    BATCH = 5,
    PAGES_MAX = 1100,
    GROWTH_MAX_KB = 96 * 1024,
};

static unsigned cpu_seconds;

struct fixture {
    struct hostile_store *hostile;
    struct g4_store *whole;           /* in one piece */
    struct g4_store *parts;           /* in several, each GET asked twice */
    struct g4_batch_client *batch[2]; /* the second waits longer, for the truth */
    struct g4_listed *rows;
    struct g4_bucket_uploads *uploads;
    uint64_t random;
    unsigned lie;
    uint64_t done;
    uint64_t succeeded;
};

static struct g4_store *
open_store(struct fixture *f, uint64_t part_size, uint64_t hedge_ms)
{
    const struct g4_s3_options options = {.endpoint = hostile_store_url(f->hostile),
                                          .bucket = "bucket",
                                          .access_key = "a",
                                          .secret_key = "s",
                                          .path_style = true,
                                          .connections_max = 4,
                                          .attempts_max = 2,
                                          .timeout_ms = TIMEOUT_MS,
                                          .part_size = part_size,
                                          .hedge_ms = hedge_ms,
                                          .hedge_share_ppm = 1000000};
    struct g4_store *store;

    assert_int_equal(g4_s3_open(&store, &options, NULL), KVT_OK);
    return store;
}

static int
set_up(void **state)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));

    assert_non_null(f);
    f->random = test_seed();
    f->hostile = hostile_store_start(f->random, 12);
    f->whole = open_store(f, 1 << 20, 0);
    f->parts = open_store(f, PART, 20);
    for (unsigned i = 0; i < 2; i++) {
        const struct g4_batch_client_options options = {.endpoint = hostile_store_url(f->hostile),
                                                        .bucket = "bucket",
                                                        .access_key = "a",
                                                        .secret_key = "s",
                                                        .connections_max = 2,
                                                        .timeout_ms =
                                                            i == 0 ? TIMEOUT_MS : PATIENT_MS,
                                                        .retry_ms = 50};

        assert_int_equal(g4_batch_client_open(&f->batch[i], &options, NULL), KVT_OK);
    }
    f->rows = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*f->rows));
    f->uploads = kvt_calloc(1, sizeof(*f->uploads));
    assert_true(f->rows != NULL && f->uploads != NULL);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    g4_batch_client_close(f->batch[0]);
    g4_batch_client_close(f->batch[1]);
    g4_store_close(f->parts);
    g4_store_close(f->whole);
    hostile_store_stop(f->hostile);
    kvt_free(f->rows);
    kvt_free(f->uploads);
    kvt_free(f);
    return 0;
}

/* ---- what every answer has to be ---- */

static uint8_t *
guarded(size_t size)
{
    uint8_t *memory = kvt_calloc(size + GUARD, 1);

    assert_non_null(memory);
    memset(memory + size, 0xa5, GUARD);
    return memory;
}

static void
free_guarded(uint8_t *memory, size_t size)
{
    for (size_t i = 0; i < GUARD; i++)
        assert_int_equal(memory[size + i], 0xa5);
    kvt_free(memory);
}

static void
check_true(const uint8_t *bytes, uint64_t from, size_t size)
{
    assert_true(from + size <= HOSTILE_STORE_BODY);
    for (size_t i = 0; i < size; i++)
        assert_int_equal(bytes[i], hostile_store_byte((size_t)from + i));
}

static void
check_attributes(const char *text)
{
    size_t lines = 0;

    assert_true(strnlen(text, G4_ATTRIBUTES_MAX) < G4_ATTRIBUTES_MAX);
    for (; *text != '\0'; text++) {
        lines += *text == '\n';
        assert_true(*text == '\n' || ((unsigned char)*text >= 0x20 && *text != 0x7f));
    }
    assert_true(lines <= G4_ATTRIBUTE_LINES);
}

static void
check_etag(const char *etag)
{
    assert_true(strnlen(etag, G4_ETAG_MAX) < G4_ETAG_MAX);
    for (; *etag != '\0'; etag++)
        assert_true(*etag > 0x20 && *etag < 0x7f);
}

static uint64_t
patience_ms(const struct fixture *f)
{
    return f->lie == 0 ? PATIENT_MS : TIMEOUT_MS;
}

static void
ended(struct fixture *f, uint64_t began_ms, enum kvt_err rc, const char *what)
{
    const uint64_t took_ms = kvt_clock_mono_ms() - began_ms;

    f->done++;
    f->succeeded += rc == KVT_OK;
    if (f->lie == 0 && rc != KVT_OK)
        fail_msg("%s of an honest store: %s", what, kvt_err_text(rc));
    if (took_ms > patience_ms(f) + SLACK_MS)
        fail_msg("%s took %llu ms, lie: %s", what, (unsigned long long)took_ms,
                 hostile_store_lie_name(f->lie));
}

/* ---- requests ---- */

/* The whole or a part of the object, into memory of ours or of the store's; often too small. */
static void
get_once(struct fixture *f, struct g4_store *store)
{
    static const size_t rooms[] = {HOSTILE_STORE_BODY, HOSTILE_STORE_BODY, 8192, 100, 1 << 20};
    const bool own = kvt_random_below(&f->random, 2) == 0;
    const bool part = kvt_random_below(&f->random, 3) == 0;
    const size_t room = f->lie == 0 ? HOSTILE_STORE_BODY : rooms[kvt_random_below(&f->random, 5)];
    uint8_t *memory = own ? NULL : guarded(room);
    const uint64_t began_ms = kvt_clock_mono_ms();
    char attributes[G4_ATTRIBUTES_MAX];
    struct g4_request request = {.verb = G4_GET,
                                 .key = "k",
                                 .buffer = memory,
                                 .buffer_capacity = room,
                                 .attributes = attributes,
                                 .deadline_ms = began_ms + patience_ms(f),
                                 .sum = kvt_random_below(&f->random, 2) == 0};
    enum kvt_err rc;

    if (part) {
        request.range_at = kvt_random_below(&f->random, 2) * kvt_random_below(&f->random, 3900);
        request.range_size = 1 + (size_t)kvt_random_below(&f->random, 50);
    }
    rc = g4_store_perform(store, &request);
    ended(f, began_ms, rc, "GET");
    check_attributes(attributes);
    check_etag(request.etag);
    assert_true(request.buffer_size <= room);
    if (rc == KVT_OK) {
        assert_non_null(request.buffer);
        if (part)
            assert_true(request.buffer_size <= request.range_size);
        if (request.summed)
            assert_int_equal(request.body_crc32c,
                             g4_check_crc32c(request.buffer, request.buffer_size));
        /* Bytes of a part are whoever's knows their crc to check, and so are those of an object
         * without metadata of ours. */
        if (f->lie == 0)
            check_true(request.buffer, request.range_at, request.buffer_size);
        if (!part && request.meta.present && request.meta.length == HOSTILE_STORE_BODY &&
            g4_check_answer(&request, NULL, NULL) == KVT_OK)
            check_true(request.buffer, 0, request.buffer_size);
    } else {
        assert_true(own ? request.buffer == NULL : request.buffer == memory);
        assert_int_equal(request.buffer_size, 0);
    }
    if (own)
        kvt_free(request.buffer);
    else
        free_guarded(memory, room);
}

static void
head_once(struct fixture *f)
{
    const uint64_t began_ms = kvt_clock_mono_ms();
    char attributes[G4_ATTRIBUTES_MAX];
    struct g4_request request = {.verb = G4_HEAD,
                                 .key = "k",
                                 .attributes = attributes,
                                 .deadline_ms = began_ms + patience_ms(f)};
    const enum kvt_err rc = g4_store_perform(f->whole, &request);

    ended(f, began_ms, rc, "HEAD");
    check_attributes(attributes);
    check_etag(request.etag);
    assert_true(rc != KVT_OK || request.object_size <= G4_OBJECT_SIZE_MAX);
}

static void
put_once(struct fixture *f, struct g4_store *store)
{
    static const uint8_t body[HOSTILE_STORE_BODY];
    const uint64_t began_ms = kvt_clock_mono_ms();
    struct g4_request request = {.verb = G4_PUT,
                                 .key = "k",
                                 .body = body,
                                 .body_size = sizeof(body),
                                 .deadline_ms = began_ms + patience_ms(f)};
    enum kvt_err rc;

    if (kvt_random_below(&f->random, 2) == 0) {
        request.condition = G4_IF_MATCH;
        (void)snprintf(request.etag, sizeof(request.etag), "mine");
    }
    rc = g4_store_perform(store, &request);
    ended(f, began_ms, rc, "PUT");
    check_etag(request.etag);
    assert_true(rc != KVT_OK || strcmp(request.etag, "mine") != 0);
}

static void
delete_once(struct fixture *f)
{
    const uint64_t began_ms = kvt_clock_mono_ms();
    struct g4_request request = {
        .verb = G4_DELETE, .key = "k", .deadline_ms = began_ms + patience_ms(f)};

    ended(f, began_ms, g4_store_perform(f->whole, &request), "DELETE");
}

/* All pages: keys below the prefix, each behind the one before, and an end. */
static void
list_once(struct fixture *f)
{
    struct g4_request request = {.verb = G4_LIST, .key = HOSTILE_STORE_PREFIX, .listed = f->rows};
    char last[KVT_KEY_MAX] = "";
    size_t keys = 0;
    unsigned pages = 0;
    enum kvt_err rc;

    do {
        const uint64_t began_ms = kvt_clock_mono_ms();

        request.deadline_ms = began_ms + patience_ms(f);
        rc = g4_store_perform(f->whole, &request);
        ended(f, began_ms, rc, "LIST");
        assert_true(request.listed_count <= G4_LIST_KEYS_MAX);
        for (size_t i = 0; i < request.listed_count; i++) {
            const struct g4_listed *row = &request.listed[i];

            assert_int_equal(strncmp(row->key, HOSTILE_STORE_PREFIX, 3), 0);
            assert_true(strcmp(row->key, last) > 0);
            assert_true(row->size <= G4_OBJECT_SIZE_MAX);
            check_etag(row->etag);
            memcpy(last, row->key, sizeof(last));
        }
        keys += request.listed_count;
        pages++;
    } while (rc == KVT_OK && request.token[0] != '\0' && pages <= PAGES_MAX);
    assert_true(pages <= PAGES_MAX);
    assert_true(f->lie != 0 || keys == HOSTILE_STORE_KEYS);
}

static void
uploads_once(struct fixture *f)
{
    const struct g4_endpoint *endpoint = g4_s3_endpoint(f->whole);
    unsigned pages = 0;
    enum kvt_err rc;

    memset(f->uploads, 0, sizeof(*f->uploads));
    do {
        const uint64_t began_ms = kvt_clock_mono_ms();

        rc = g4_bucket_uploads(endpoint, patience_ms(f), f->uploads, NULL);
        ended(f, began_ms, rc, "uploads");
        assert_true(f->uploads->count <= G4_BUCKET_UPLOADS_MAX);
        pages++;
    } while (rc == KVT_OK && f->uploads->key_marker[0] != '\0' && pages <= PAGES_MAX);
    assert_true(pages <= PAGES_MAX);
}

static void
batch_once(struct fixture *f)
{
    const enum g4_batch_verb verb = (enum g4_batch_verb)kvt_random_below(&f->random, 3);
    const size_t room = kvt_random_below(&f->random, 4) == 0 ? 100 : HOSTILE_STORE_BODY;
    const uint64_t began_ms = kvt_clock_mono_ms();
    struct g4_batch_client *client = f->batch[f->lie == 0];
    struct g4_batch_client_item items[BATCH];
    enum kvt_err rc;

    for (size_t i = 0; i < BATCH; i++)
        items[i] =
            (struct g4_batch_client_item){.key = "k",
                                          .body = "body",
                                          .size = verb == G4_BATCH_PUT   ? 4
                                                  : verb == G4_BATCH_GET ? room
                                                                         : 0,
                                          .buffer = verb == G4_BATCH_GET ? guarded(room) : NULL};
    rc = verb == G4_BATCH_PUT   ? g4_batch_client_put(client, items, BATCH, NULL)
         : verb == G4_BATCH_GET ? g4_batch_client_get(client, items, BATCH, NULL)
                                : g4_batch_client_has(client, items, BATCH, NULL);
    ended(f, began_ms, rc, "batch");
    for (size_t i = 0; i < BATCH; i++) {
        if (verb == G4_BATCH_HAS)
            assert_true(items[i].size <= G4_OBJECT_SIZE_MAX);
        if (verb != G4_BATCH_GET)
            continue;
        assert_true(items[i].status != KVT_OK || items[i].size <= room);
        if (items[i].status == KVT_OK)
            assert_int_equal(g4_check_crc32c(items[i].buffer, items[i].size), items[i].crc32c);
        free_guarded(items[i].buffer, room);
    }
}

/* As credentials are fetched. */
static void
fetch_once(struct fixture *f)
{
    const uint64_t began_ms = kvt_clock_mono_ms();
    struct kvt_buffer answer;
    unsigned status;
    enum kvt_err rc;

    kvt_buffer_init(&answer, 8192);
    rc = kvt_fetch(
        &(struct kvt_fetch){.url = hostile_store_url(f->hostile), .timeout_ms = patience_ms(f)},
        &status, &answer, NULL);
    ended(f, began_ms, rc, "fetch");
    assert_true(answer.size <= 8192);
    kvt_buffer_release(&answer);
}

static void
round_of(struct fixture *f, unsigned lie)
{
    f->lie = lie;
    hostile_store_lie(f->hostile, lie);
    get_once(f, f->whole);
    get_once(f, f->parts);
    head_once(f);
    put_once(f, f->whole);
    put_once(f, f->parts);
    delete_once(f);
    list_once(f);
    uploads_once(f);
    batch_once(f);
    fetch_once(f);
}

static long
resident_kb(void)
{
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/* The first round of each lie, in this order; then, for as long as was asked for, any. */
static void
every_lie_ends_in_time_and_memory(void **state)
{
    struct fixture *f = *state;
    const unsigned count = hostile_store_lies();
    long before_kb;

    round_of(f, 0);
    before_kb = resident_kb();
    for (unsigned lie = 0; lie < count; lie++) {
        round_of(f, lie);
        round_of(f, 0); /* no lie is believed later */
    }
    while ((unsigned)(clock() / CLOCKS_PER_SEC) < cpu_seconds) {
        round_of(f, (unsigned)kvt_random_below(&f->random, count));
        if (kvt_random_below(&f->random, 20) == 0)
            round_of(f, 0);
    }
    (void)fprintf(stderr, "%llu requests, %llu of them answered, %llu attempts; %ld KiB more\n",
                  (unsigned long long)f->done, (unsigned long long)f->succeeded,
                  (unsigned long long)hostile_store_asked(f->hostile), resident_kb() - before_kb);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(resident_kb() - before_kb < GROWTH_MAX_KB);
#endif
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_lie_ends_in_time_and_memory, set_up, tear_down),
    };

    cpu_seconds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
