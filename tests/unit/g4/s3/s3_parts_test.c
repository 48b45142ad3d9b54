/*
 * What is tested: g4/s3/s3_parts.c: large objects come and go in parts, through a real server and
 * through one that changes them meanwhile, takes no ranges, loses parts, or says "200" and fails.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "g4/object/check.h"
#include "g4/s3/s3.h"
#include "g4/s3/s3_internal.h"
#include "g4/s3/upload_notes.h"

#include "tests/support/seed.h"
#include "tests/unit/g4/support/helpers.h"
#include "tests/unit/g4/support/servers.h"

enum {
    SKIPPED = 77,
    WAIT_MS = 30000,
    PART = 5 << 20,
    LARGE = 2 * PART + 12345,
    SILENT_MS = 2000, /* until a request without an answer ends */
    SMALL = 1000,
    SMALL_PART = 100
};

static struct server *server; /* one for the whole program; NULL where there is none */
static bool tears;            /* it may send two versions in one answer */

/* ---- a real server ---- */

static struct g4_store *
open_real(void)
{
    struct g4_s3_options options = *server_options(server);
    struct g4_store *store;

    options.part_size = PART;
    assert_int_equal(g4_s3_open(&store, &options, NULL), KVT_OK);
    return store;
}

static enum kvt_err
get_large(struct g4_store *store, const char *key, struct g4_request *request)
{
    *request = (struct g4_request){.verb = G4_GET, .key = key, .buffer_capacity = 4 * LARGE};
    return g4_store_perform(store, request);
}

static void
large_objects_come_back(void **state)
{
    struct g4_store *store = open_real();
    uint8_t *body = kvt_calloc(LARGE, 1);
    struct g4_request request;
    char etag[G4_ETAG_MAX];

    (void)state;
    assert_non_null(body);
    fill(body, LARGE, 3);
    assert_int_equal(put_absent(store, "large/a b+c", body, LARGE, etag), KVT_OK);
    assert_int_equal(get_large(store, "large/a b+c", &request), KVT_OK);
    assert_int_equal(request.buffer_size, LARGE);
    assert_memory_equal(request.buffer, body, LARGE);
    assert_string_equal(request.etag, etag);
    assert_int_equal(request.object_size, LARGE);
    assert_int_equal(g4_check_body(&request.meta, NULL, request.buffer, LARGE, NULL), KVT_OK);
    assert_true(request.meta.present && request.meta.fingerprint == 0x1122334455667788);
    kvt_free(request.buffer);

    assert_int_equal(put_absent(store, "large/a b+c", body, LARGE, NULL), KVT_EXISTS);
    body[0] ^= 1;
    assert_int_equal(put_match(store, "large/a b+c", body, LARGE, etag), KVT_OK);
    assert_int_equal(get_large(store, "large/a b+c", &request), KVT_OK);
    assert_memory_equal(request.buffer, body, LARGE);
    kvt_free(request.buffer);
    (void)snprintf(etag, sizeof(etag), "00000000000000000000000000000000-3");
    assert_int_equal(put_match(store, "large/a b+c", body, LARGE, etag), KVT_PRECONDITION);

    /* What is small comes as ever, through the same door; what is nothing, too. */
    assert_int_equal(put(store, "small", body, SMALL, NULL), KVT_OK);
    assert_int_equal(get_large(store, "small", &request), KVT_OK);
    assert_int_equal(request.buffer_size, SMALL);
    assert_memory_equal(request.buffer, body, SMALL);
    kvt_free(request.buffer);
    assert_int_equal(put(store, "empty", body, 0, NULL), KVT_OK);
    assert_int_equal(get_large(store, "empty", &request), KVT_OK);
    assert_int_equal(request.buffer_size, 0);
    kvt_free(request.buffer);
    assert_int_equal(get_large(store, "absent", &request), KVT_NOTFOUND);
    assert_null(request.buffer);
    kvt_free(body);
    g4_store_close(store);
}

struct writer {
    struct g4_store *store;
    atomic_bool stop;
    pthread_t thread;
};

/* Version after version, each a byte repeated. */
static void *
overwrite(void *arg)
{
    struct writer *writer = arg;
    uint8_t *body = kvt_calloc(LARGE, 1);

    assert_non_null(body);
    for (int i = 1; !atomic_load(&writer->stop); i++) {
        memset(body, i % 251, LARGE);
        (void)put(writer->store, "changing", body, LARGE, NULL);
    }
    kvt_free(body);
    return NULL;
}

static void
versions_are_never_mixed(void **state)
{
    struct writer writer = {.store = open_real()};
    struct g4_store *store = open_real();
    uint8_t *body = kvt_calloc(LARGE, 1);
    int whole = 0;

    (void)state;
    assert_non_null(body);
    assert_int_equal(put(store, "changing", body, LARGE, NULL), KVT_OK);
    assert_int_equal(pthread_create(&writer.thread, NULL, overwrite, &writer), 0);
    for (int i = 0; i < 15; i++) {
        struct g4_request request;
        const enum kvt_err rc = get_large(store, "changing", &request);

        if (rc != KVT_OK && rc != KVT_BUSY)
            fail_msg("%s", request.error.text);
        if (rc != KVT_OK)
            continue;
        assert_int_equal(request.buffer_size, LARGE);
        /* versitygw may send two versions in one answer: that is what the crc is for. */
        if (g4_check_body(&request.meta, NULL, request.buffer, LARGE, NULL) != KVT_OK) {
            assert_true(tears);
            kvt_free(request.buffer);
            continue;
        }
        whole++;
        memset(body, ((uint8_t *)request.buffer)[0], LARGE);
        assert_memory_equal(request.buffer, body, LARGE);
        kvt_free(request.buffer);
    }
    atomic_store(&writer.stop, true);
    assert_int_equal(pthread_join(writer.thread, NULL), 0);
    assert_true(whole > 0);
    kvt_free(body);
    g4_store_close(writer.store);
    g4_store_close(store);
}

/* ---- a server of our own ---- */

enum trouble {
    NONE,
    CHANGES,       /* another version from the third request on */
    CHANGES_EVER,  /* another version with each request */
    CHANGES_SHORT, /* another version from the second request on, and parts are cut short */
    NO_MATCH,      /* as CHANGES, and If-Match is ignored */
    NO_RANGES,     /* Range is ignored */
    NO_ETAGS,
    CREATE_FAILS,
    CREATE_LOST, /* the first step is not answered */
    ABORT_FAILS, /* as PART_FAILS, and the upload cannot be given up */
    PART_FAILS,  /* the third one */
    MAKE_FAILS,  /* "200", and an error in the body */
    MAKE_LATE,   /* the condition of the last step does not hold */
    MAKE_LOST,   /* the last step finds the upload gone: its first answer was lost */
};

struct bucket {
    enum trouble trouble;
    struct hostile *hostile;
    struct g4_store *store;
    struct g4_upload_notes *notes;
    char folder[256];     /* of the notes */
    pthread_mutex_t lock; /* guards what follows: a request may be cut off by the next test */
    unsigned seen;
    unsigned version;
    unsigned parts;
    unsigned aborts;
    unsigned made;
    char make[4096]; /* the body of the last step */
    char head[4096]; /* of the first step */
    uint8_t body[SMALL];
};

static uint8_t
byte_of(unsigned version, uint64_t at)
{
    return (uint8_t)(at * 7 + version * 31);
}

static void
reply_part(struct bucket *bucket, const char *head, struct kvt_buffer *reply)
{
    const char *range = strstr(head, "Range: bytes=");
    const char *match = strstr(head, "If-Match: v");
    uint64_t from = 0;
    uint64_t to = SMALL - 1;
    char *end;

    if (bucket->trouble == CHANGES_EVER ||
        (bucket->trouble == CHANGES_SHORT && bucket->seen == 2) ||
        ((bucket->trouble == CHANGES || bucket->trouble == NO_MATCH) && bucket->seen == 3))
        bucket->version++;
    if (match != NULL && bucket->trouble != NO_MATCH &&
        strtoul(match + 11, NULL, 10) != bucket->version) {
        kvt_buffer_printf(reply,
                          "HTTP/1.1 412 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        return;
    }
    if (range != NULL && bucket->trouble != NO_RANGES) {
        from = strtoull(range + 13, &end, 10);
        to = strtoull(end + 1, NULL, 10);
        to = to < SMALL - 1 ? to : SMALL - 1;
        if (bucket->trouble == CHANGES_SHORT)
            to = from;
        kvt_buffer_printf(
            reply, "HTTP/1.1 206 Part\r\nContent-Range: bytes %" PRIu64 "-%" PRIu64 "/%d\r\n", from,
            to, SMALL);
    } else {
        kvt_buffer_printf(reply, "HTTP/1.1 200 OK\r\n");
    }
    if (bucket->trouble != NO_ETAGS)
        kvt_buffer_printf(reply, "ETag: \"v%u\"\r\n", bucket->version);
    kvt_buffer_printf(reply, "Content-Length: %" PRIu64 "\r\nConnection: close\r\n\r\n",
                      to + 1 - from);
    for (; from <= to; from++) {
        const uint8_t byte = byte_of(bucket->version, from);

        kvt_buffer_append(reply, &byte, 1);
    }
}

static void
reply_with(struct kvt_buffer *reply, const char *status, const char *header, const char *body)
{
    kvt_buffer_printf(reply, "HTTP/1.1 %s\r\n%sContent-Length: %zu\r\nConnection: close\r\n\r\n%s",
                      status, header, strlen(body), body);
}

static void
reply_step(struct bucket *bucket, const char *head, const uint8_t *body, size_t size,
           struct kvt_buffer *reply)
{
    const char *number = strstr(head, "partNumber=");
    char etag[64];

    if (strncmp(head, "DELETE ", 7) == 0) {
        assert_non_null(strstr(head, "?uploadId=up%2F1 "));
        bucket->aborts++;
        reply_with(reply, bucket->trouble == ABORT_FAILS ? "403 No" : "204 Gone", "", "");
    } else if (strstr(head, "?uploads=") != NULL) {
        (void)snprintf(bucket->head, sizeof(bucket->head), "%s", head);
        if (bucket->trouble == CREATE_FAILS)
            reply_with(reply, "403 No", "", "");
        else if (bucket->trouble != CREATE_LOST)
            reply_with(reply, "200 OK", "", "<R><Key>k</Key><UploadId>up/1</UploadId></R>");
    } else if (number != NULL) {
        const unsigned long at = strtoul(number + 11, NULL, 10) - 1;

        assert_true(at * SMALL_PART + size <= SMALL);
        assert_non_null(strstr(head, "x-amz-checksum-crc32c: "));
        memcpy(bucket->body + at * SMALL_PART, body, size);
        bucket->parts++;
        (void)snprintf(etag, sizeof(etag), "ETag: \"p%lu\"\r\n", at + 1);
        if ((bucket->trouble == PART_FAILS || bucket->trouble == ABORT_FAILS) && at == 2)
            reply_with(reply, "400 Bad", "", "<Error><Code>BadDigest</Code></Error>");
        else
            reply_with(reply, "200 OK", etag, "");
    } else {
        (void)snprintf(bucket->make, sizeof(bucket->make), "%.*s", (int)size, (const char *)body);
        assert_non_null(strstr(head, bucket->trouble == MAKE_LOST ? "If-" : "If-None-Match: *"));
        assert_null(strstr(head, "x-amz-checksum"));
        if (bucket->trouble == MAKE_FAILS) {
            reply_with(reply, "200 OK", "", "<Error><Code>InternalError</Code></Error>");
        } else if (bucket->trouble == MAKE_LOST) {
            reply_with(reply, "404 No", "", "<Error><Code>NoSuchUpload</Code></Error>");
        } else if (bucket->trouble == MAKE_LATE) {
            reply_with(reply, "412 No", "", "");
        } else {
            bucket->made++;
            reply_with(reply, "200 OK", "", "<R><ETag>&quot;abc-10&quot;</ETag></R>");
        }
    }
}

static void
play(void *arg, const char *head, const uint8_t *body, size_t size, struct kvt_buffer *reply)
{
    struct bucket *bucket = arg;

    (void)pthread_mutex_lock(&bucket->lock);
    bucket->seen++;
    if (strncmp(head, "GET ", 4) == 0)
        reply_part(bucket, head, reply);
    else
        reply_step(bucket, head, body, size, reply);
    (void)pthread_mutex_unlock(&bucket->lock);
}

static struct bucket *
bucket_new(enum trouble trouble)
{
    struct bucket *bucket = kvt_calloc(1, sizeof(*bucket));
    struct g4_s3_options options;

    assert_non_null(bucket);
    bucket->trouble = trouble;
    (void)pthread_mutex_init(&bucket->lock, NULL);
    (void)test_folder_make(bucket->folder, sizeof(bucket->folder));
    assert_int_equal(g4_upload_notes_open(&bucket->notes, bucket->folder, NULL), KVT_OK);
    bucket->hostile = hostile_start_wide(play, bucket, G4_S3_PARTS_AT_ONCE);
    options = *hostile_options(bucket->hostile);
    options.part_size = SMALL_PART;
    options.attempts_max = 1;
    if (trouble == CREATE_LOST)
        options.timeout_ms = SILENT_MS;
    options.threads = 2;
    options.notes = bucket->notes;
    assert_int_equal(g4_s3_open(&bucket->store, &options, NULL), KVT_OK);
    return bucket;
}

/* Ends all, so that its numbers stand still. */
static void
bucket_end(struct bucket *bucket)
{
    g4_store_close(bucket->store); /* waits for aborts as well */
    hostile_stop(bucket->hostile);
}

static void
bucket_free(struct bucket *bucket)
{
    g4_upload_notes_close(bucket->notes);
    test_folder_remove(bucket->folder);
    (void)pthread_mutex_destroy(&bucket->lock);
    kvt_free(bucket);
}

static void
an_object_is_read_whole_or_not_at_all(void **state)
{
    static const struct {
        enum trouble trouble;
        enum kvt_err code;
        unsigned version;
    } rows[] = {
        {NONE, KVT_OK, 0},          {CHANGES, KVT_OK, 1},   {CHANGES_EVER, KVT_BUSY, 0},
        {NO_MATCH, KVT_OK, 1},      {NO_RANGES, KVT_OK, 0}, {NO_ETAGS, KVT_OK, 0},
        {CHANGES_SHORT, KVT_OK, 1},
    };

    (void)state;
    for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        struct bucket *bucket = bucket_new(rows[i / 2].trouble);
        struct g4_request request = {.verb = G4_GET, .key = "k", .buffer_capacity = SMALL};
        const bool own = i % 2 == 1;
        uint8_t room[SMALL];

        request.buffer = own ? NULL : room;
        assert_int_equal(g4_store_perform(bucket->store, &request), rows[i / 2].code);
        if (rows[i / 2].code == KVT_OK) {
            char etag[G4_ETAG_MAX] = "";

            if (rows[i / 2].trouble != NO_ETAGS)
                (void)snprintf(etag, sizeof(etag), "v%u", rows[i / 2].version);
            assert_string_equal(request.etag, etag);
            assert_int_equal(request.buffer_size, SMALL);
            for (unsigned at = 0; at < SMALL; at++)
                assert_int_equal(((uint8_t *)request.buffer)[at], byte_of(rows[i / 2].version, at));
        } else {
            assert_int_equal(request.buffer_size, 0);
            assert_true(own ? request.buffer == NULL : request.buffer == room);
        }
        if (own)
            kvt_free(request.buffer);
        bucket_end(bucket);
        bucket_free(bucket);
    }
}

/* The version that was asked for goes with every request of a GET, whatever the answers are. */
static void
a_version_that_is_asked_for_is_kept_to(void **state)
{
    static const enum trouble rows[] = {CHANGES, CHANGES_EVER, CHANGES_SHORT};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bucket *bucket = bucket_new(rows[i]);
        struct g4_request request = {
            .verb = G4_GET, .key = "k", .buffer_capacity = SMALL, .condition = G4_IF_MATCH};

        (void)snprintf(request.etag, sizeof(request.etag), "v0");
        assert_int_equal(g4_store_perform(bucket->store, &request), KVT_PRECONDITION);
        assert_null(request.buffer);
        bucket_end(bucket);
        bucket_free(bucket);
    }
}

static void
on_ended(struct g4_request *request, void *arg)
{
    (void)request;
    atomic_fetch_add((atomic_int *)arg, 1);
}

/* Parts end on one thread while another one is gone. */
static void
closing_waits_for_parts_on_all_threads(void **state)
{
    (void)state;
    for (int i = 0; i < 16; i++) {
        struct bucket *bucket = bucket_new(i % 2 == 0 ? NONE : PART_FAILS);
        uint8_t body[SMALL];
        uint8_t room[SMALL];
        atomic_int ended = 0;
        struct g4_request requests[2] = {
            {.verb = G4_GET, .key = "k", .buffer = room, .buffer_capacity = SMALL},
            {.verb = G4_PUT,
             .key = "k",
             .body = body,
             .body_size = SMALL,
             .condition = G4_IF_ABSENT}};

        fill(body, sizeof(body), 9);
        for (int n = 0; n < 2; n++) {
            requests[n].done = on_ended;
            requests[n].arg = &ended;
            assert_int_equal(g4_store_submit(bucket->store, &requests[n]), KVT_OK);
        }
        kvt_clock_sleep_ms((uint64_t)i / 4);
        bucket_end(bucket);
        assert_int_equal(atomic_load(&ended), 2);
        bucket_free(bucket);
    }
}

/* Whose object is there then, only a look at it tells. */
static void
a_lost_answer_says_nothing_of_whose_object_it_is(void **state)
{
    static const struct {
        enum g4_condition condition;
        enum kvt_err code;
    } rows[] = {{G4_IF_ABSENT, KVT_EXISTS}, {G4_IF_MATCH, KVT_PRECONDITION}};
    uint8_t body[SMALL];

    (void)state;
    fill(body, sizeof(body), 9);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bucket *bucket = bucket_new(MAKE_LOST);
        char etag[G4_ETAG_MAX] = "v0";
        const enum kvt_err rc = rows[i].condition == G4_IF_ABSENT
                                    ? put_absent(bucket->store, "k", body, SMALL, etag)
                                    : put_match(bucket->store, "k", body, SMALL, etag);

        assert_int_equal(rc, rows[i].code);
        bucket_end(bucket);
        bucket_free(bucket);
    }
}

static void
a_larger_object_than_there_is_room_for_is_refused(void **state)
{
    struct bucket *bucket = bucket_new(NONE);
    struct g4_request request = {.verb = G4_GET, .key = "k", .buffer_capacity = SMALL - 1};

    (void)state;
    assert_int_equal(g4_store_perform(bucket->store, &request), KVT_RANGE);
    assert_null(request.buffer);
    bucket_end(bucket);
    assert_int_equal(bucket->seen, 1);
    bucket_free(bucket);
}

/* The caller is answered before the abort is. */
static void
wait_for_abort(struct bucket *bucket)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;
    unsigned aborts;

    do {
        (void)pthread_mutex_lock(&bucket->lock);
        aborts = bucket->aborts;
        (void)pthread_mutex_unlock(&bucket->lock);
        kvt_clock_sleep_ms(1);
    } while (aborts == 0 && kvt_clock_mono_ms() < until_ms);
    assert_int_equal(aborts, 1);
}

static void
an_upload_becomes_an_object_or_is_aborted(void **state)
{
    static const struct {
        enum trouble trouble;
        enum kvt_err code;
    } rows[] = {{NONE, KVT_OK},
                {CREATE_FAILS, KVT_DENIED},
                {PART_FAILS, KVT_CORRUPT},
                {MAKE_FAILS, KVT_IO},
                {MAKE_LATE, KVT_EXISTS}};
    uint8_t body[SMALL - 50];

    (void)state;
    fill(body, sizeof(body), 9);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bucket *bucket = bucket_new(rows[i].trouble);
        const bool good = rows[i].code == KVT_OK;
        char etag[G4_ETAG_MAX];

        assert_int_equal(put_absent(bucket->store, "k", body, sizeof(body), etag), rows[i].code);
        if (!good && rows[i].trouble != CREATE_FAILS)
            wait_for_abort(bucket);
        bucket_end(bucket);
        assert_non_null(strstr(bucket->head, "x-amz-checksum-algorithm: CRC32C"));
        assert_non_null(strstr(bucket->head, "x-amz-meta-kvt-length: 950"));
        assert_null(strstr(bucket->head, "If-None-Match"));
        assert_int_equal(bucket->made, good);
        if (good || rows[i].trouble == CREATE_FAILS)
            assert_int_equal(bucket->aborts, 0);
        if (good) {
            assert_int_equal(bucket->parts, 10);
            assert_memory_equal(bucket->body, body, sizeof(body));
            assert_string_equal(etag, "abc-10");
            assert_non_null(strstr(bucket->make,
                                   "<Part><PartNumber>10</PartNumber><ETag>\"p10\"</ETag>"
                                   "<ChecksumCRC32C>"));
        }
        bucket_free(bucket);
    }
}

static size_t
notes_of(struct bucket *bucket)
{
    struct g4_upload_note notes[4];
    size_t count;

    assert_int_equal(g4_upload_notes_list(bucket->notes, "", notes, 4, &count), KVT_OK);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(notes[i].key, "k");
    return count;
}

/* Notes are taken away behind the answer. */
static void
what_the_bucket_may_still_have_stays_noted(void **state)
{
    static const struct {
        enum trouble trouble;
        size_t left;
    } rows[] = {{NONE, 0},      {CREATE_FAILS, 0}, {PART_FAILS, 0},  {MAKE_FAILS, 0},
                {MAKE_LATE, 0}, {MAKE_LOST, 0},    {CREATE_LOST, 1}, {ABORT_FAILS, 1}};
    uint8_t body[SMALL];

    (void)state;
    fill(body, sizeof(body), 9);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bucket *bucket = bucket_new(rows[i].trouble);
        const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;
        char etag[G4_ETAG_MAX];
        const enum kvt_err rc = put_absent(bucket->store, "k", body, sizeof(body), etag);

        assert_int_equal(rc == KVT_OK, rows[i].trouble == NONE);
        if (rows[i].trouble != NONE && rows[i].trouble != CREATE_FAILS &&
            rows[i].trouble != CREATE_LOST)
            wait_for_abort(bucket);
        while (notes_of(bucket) != rows[i].left && kvt_clock_mono_ms() < until_ms)
            kvt_clock_sleep_ms(1);
        bucket_end(bucket);
        assert_int_equal(notes_of(bucket), rows[i].left);
        bucket_free(bucket);
    }
}

/* The bucket hears of nothing that could not be written down. */
static void
without_a_note_no_upload_begins(void **state)
{
    struct bucket *bucket = bucket_new(NONE);
    uint8_t body[SMALL];
    char etag[G4_ETAG_MAX];

    (void)state;
    fill(body, sizeof(body), 9);
    test_folder_remove(bucket->folder);
    assert_int_not_equal(put_absent(bucket->store, "k", body, sizeof(body), etag), KVT_OK);
    bucket_end(bucket);
    assert_int_equal(bucket->seen, 0);
    assert_int_equal(mkdir(bucket->folder, 0700), 0);
    bucket_free(bucket);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest hostile_tests[] = {
        cmocka_unit_test(an_object_is_read_whole_or_not_at_all),
        cmocka_unit_test(a_version_that_is_asked_for_is_kept_to),
        cmocka_unit_test(closing_waits_for_parts_on_all_threads),
        cmocka_unit_test(a_lost_answer_says_nothing_of_whose_object_it_is),
        cmocka_unit_test(a_larger_object_than_there_is_room_for_is_refused),
        cmocka_unit_test(an_upload_becomes_an_object_or_is_aborted),
        cmocka_unit_test(what_the_bucket_may_still_have_stays_noted),
        cmocka_unit_test(without_a_note_no_upload_begins),
    };
    const struct CMUnitTest real_tests[] = {
        cmocka_unit_test(large_objects_come_back),
        cmocka_unit_test(versions_are_never_mixed),
    };
    const bool versitygw = argc > 1 && strcmp(argv[1], "versitygw") == 0;
    int failed = versitygw ? 0 : cmocka_run_group_tests(hostile_tests, NULL, NULL);

    tears = versitygw;
    server = server_start(versitygw ? SERVER_VERSITYGW : SERVER_MINIO);
    if (server == NULL)
        return failed == 0 ? SKIPPED : failed;
    failed += cmocka_run_group_tests(real_tests, NULL, NULL);
    server_stop(server);
    return failed;
}
