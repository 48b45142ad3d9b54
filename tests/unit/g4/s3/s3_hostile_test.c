/*
 * What is tested: g4/s3/s3.h against a peer that cuts answers short, says it is busy, loses them,
 * lies about lengths, or says nothing; and what exactly goes over the wire.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "g4/object/check.h"
#include "g4/s3/s3.h"

#include "tests/support/seed.h"
#include "tests/unit/g4/support/helpers.h"
#include "tests/unit/g4/support/servers.h"

enum { HEAD_MAX = 4096 };

/* Replies in turn, the last one for ever; NULL is silence. */
struct script {
    const char *const *replies;
    size_t count;
    size_t seen;
    char head[HEAD_MAX];
};

static void
play(void *arg, const char *head, const uint8_t *body, size_t size, struct kvt_buffer *reply)
{
    struct script *script = arg;
    const size_t at = script->seen < script->count ? script->seen : script->count - 1;

    (void)body;
    (void)size;
    script->seen++;
    (void)snprintf(script->head, sizeof(script->head), "%s", head);
    if (script->replies[at] != NULL)
        kvt_buffer_append(reply, script->replies[at], strlen(script->replies[at]));
}

struct fixture {
    struct script script;
    struct hostile *hostile;
    struct g4_store *store;
    struct fetched fetched;
};

/* A fixture whose server plays `replies`; stop() before looking into the script. */
static struct fixture *
start(const char *const *replies, size_t count, uint64_t timeout_ms)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));
    struct g4_s3_options options;

    assert_non_null(f);
    f->script = (struct script){.replies = replies, .count = count};
    f->hostile = hostile_start(play, &f->script);
    options = *hostile_options(f->hostile);
    options.timeout_ms = timeout_ms;
    options.connections_max = 2;
    assert_int_equal(g4_s3_open(&f->store, &options, NULL), KVT_OK);
    return f;
}

static void
stop(struct fixture *f)
{
    g4_store_close(f->store);
    hostile_stop(f->hostile);
    f->store = NULL;
}

#define OK_HELLO                                                                                   \
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"tag\"\r\nConnection: close\r\n\r\nhello"
#define CUT_HELLO "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhel"
#define SLOW_DOWN                                                                                  \
    "HTTP/1.1 503 Slow Down\r\nContent-Length: 41\r\nConnection: close\r\n\r\n"                    \
    "<Error><Code>SlowDown</Code></Error>     "
#define NO_BUCKET                                                                                  \
    "HTTP/1.1 404 Not Found\r\nContent-Length: 40\r\nConnection: close\r\n\r\n"                    \
    "<Error><Code>NoSuchBucket</Code></Error>"
#define BAD_DIGEST                                                                                 \
    "HTTP/1.1 400 Bad Request\r\nContent-Length: 37\r\nConnection: close\r\n\r\n"                  \
    "<Error><Code>BadDigest</Code></Error>"
#define EMPTY(status)                                                                              \
    "HTTP/1.1 " status "\r\nContent-Length: 0\r\nETag: \"tag\"\r\nConnection: close\r\n\r\n"

static void
a_body_cut_short_is_an_error_never_data(void **state)
{
    static const char *const replies[] = {CUT_HELLO};
    struct fixture *f = start(replies, 1, 5000);

    (void)state;
    assert_int_equal(get(f->store, "k", &f->fetched), KVT_IO);
    assert_int_equal(f->fetched.size, 0);
    stop(f);
    assert_int_equal(f->script.seen, 4); /* all attempts */
    kvt_free(f);
}

static void
a_second_attempt_may_succeed(void **state)
{
    static const char *const cut_first[] = {CUT_HELLO, OK_HELLO};
    static const char *const busy_first[] = {SLOW_DOWN, SLOW_DOWN, OK_HELLO};
    static const char *const broken_first[] = {EMPTY("500 Internal"), OK_HELLO};
    static const struct {
        const char *const *replies;
        size_t count;
    } rows[] = {{cut_first, 2}, {busy_first, 3}, {broken_first, 2}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fixture *f = start(rows[i].replies, rows[i].count, 5000);

        assert_int_equal(get(f->store, "k", &f->fetched), KVT_OK);
        assert_int_equal(f->fetched.size, 5);
        assert_memory_equal(f->fetched.body, "hello", 5);
        assert_string_equal(f->fetched.etag, "tag");
        stop(f);
        assert_int_equal(f->script.seen, rows[i].count);
        kvt_free(f);
    }
}

/* The crc is of the bytes that were given, not of an attempt before nor of what was cut short. */
static void
the_crc_is_of_what_is_given(void **state)
{
    static const char *const replies[] = {CUT_HELLO, OK_HELLO};
    struct fixture *f = start(replies, 2, 5000);
    char room[16];
    struct g4_request request = {
        .verb = G4_GET, .key = "k", .buffer = room, .buffer_capacity = sizeof(room), .sum = true};

    (void)state;
    assert_int_equal(g4_store_perform(f->store, &request), KVT_OK);
    assert_true(request.summed);
    assert_int_equal(request.body_crc32c, g4_check_crc32c("hello", 5));
    request.sum = false;
    assert_int_equal(g4_store_perform(f->store, &request), KVT_OK);
    assert_false(request.summed);
    assert_int_equal(request.body_crc32c, 0);
    stop(f);
    kvt_free(f);
    f = start(replies, 1, 5000);
    request.sum = true;
    assert_int_equal(g4_store_perform(f->store, &request), KVT_IO);
    assert_false(request.summed);
    stop(f);
    kvt_free(f);
}

/* The first attempt stored it and its answer was lost: the second finds it there.  Whose it is, the
 * caller must look. */
static void
a_lost_answer_of_put_if_absent_ends_as_exists(void **state)
{
    static const char *const replies[] = {EMPTY("502 Bad Gateway"), EMPTY("412 Precondition")};
    struct fixture *f = start(replies, 2, 5000);

    (void)state;
    assert_int_equal(put_absent(f->store, "k", "x", 1, NULL), KVT_EXISTS);
    stop(f);
    assert_int_equal(f->script.seen, 2);
    kvt_free(f);
}

static void
a_conflict_is_tried_again(void **state)
{
    static const char *const replies[] = {EMPTY("409 Conflict"), EMPTY("200 OK")};
    struct fixture *f = start(replies, 2, 5000);
    char etag[G4_ETAG_MAX] = "old";

    (void)state;
    assert_int_equal(put_match(f->store, "k", "x", 1, etag), KVT_OK);
    assert_string_equal(etag, "tag");
    stop(f);
    /* The second attempt carried the caller's tag, not the one of the first answer. */
    assert_non_null(strstr(f->script.head, "If-Match: old\r\n"));
    assert_int_equal(f->script.seen, 2);
    kvt_free(f);
}

static void
statuses_become_codes(void **state)
{
    static const struct {
        const char *reply;
        enum kvt_err code;
    } rows[] = {
        {EMPTY("403 Forbidden"), KVT_DENIED},
        {EMPTY("401 Unauthorized"), KVT_DENIED},
        {EMPTY("404 Not Found"), KVT_NOTFOUND},
        {EMPTY("400 Bad Request"), KVT_INVALID},
        {EMPTY("501 No"), KVT_UNSUPPORTED},
        {EMPTY("507 Full"), KVT_FULL},
        {EMPTY("503 Busy"), KVT_UNAVAILABLE},
        {EMPTY("429 Too Many"), KVT_UNAVAILABLE},
        {EMPTY("500 Internal"), KVT_IO},
        {EMPTY("307 Elsewhere"), KVT_INVALID},
        {EMPTY("412 Precondition"), KVT_PRECONDITION},
        {"nonsense\r\n\r\n", KVT_IO},
        {NO_BUCKET, KVT_UNAVAILABLE},
        {BAD_DIGEST, KVT_CORRUPT}, /* the code in the body says more than 400 */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fixture *f = start(&rows[i].reply, 1, 5000);

        assert_int_equal(get(f->store, "k", &f->fetched), rows[i].code);
        assert_string_not_equal(f->fetched.error.text, "");
        stop(f);
        kvt_free(f);
    }
}

static void
silence_is_a_timeout(void **state)
{
    static const char *const replies[] = {NULL};
    const uint64_t before_ms = kvt_clock_mono_ms();
    struct fixture *f = start(replies, 1, 300);

    (void)state;
    assert_int_equal(get(f->store, "k", &f->fetched), KVT_TIMEOUT);
    assert_true(kvt_clock_mono_ms() - before_ms >= 290);
    assert_true(kvt_clock_mono_ms() - before_ms < 5000);
    stop(f);
    kvt_free(f);
}

static void
nobody_there_is_unavailable(void **state)
{
    static const char *const replies[] = {NULL};
    struct fixture *f = start(replies, 1, 2000);
    struct g4_s3_options options = *hostile_options(f->hostile);
    char endpoint[64];

    (void)state;
    (void)snprintf(endpoint, sizeof(endpoint), "%s", options.endpoint);
    stop(f); /* the port is free again, and nobody listens */
    options.endpoint = endpoint;
    assert_int_equal(g4_s3_open(&f->store, &options, NULL), KVT_OK);
    assert_int_equal(get(f->store, "k", &f->fetched), KVT_UNAVAILABLE);
    g4_store_close(f->store);
    kvt_free(f);
}

/* A name that cannot be resolved now may be later: the same handles must go on. */
static void
a_name_that_is_not_known_is_unavailable(void **state)
{
    const struct g4_s3_options options = {.endpoint = "http://no-such-host.invalid:9",
                                          .bucket = "bucket",
                                          .access_key = "a",
                                          .secret_key = "s",
                                          .timeout_ms = 1000};
    struct fixture *f = kvt_calloc(1, sizeof(*f));

    (void)state;
    assert_non_null(f);
    assert_int_equal(g4_s3_open(&f->store, &options, NULL), KVT_OK);
    for (int i = 0; i < 3; i++) {
        const enum kvt_err rc = get(f->store, "k", &f->fetched);

        assert_true(rc == KVT_UNAVAILABLE || rc == KVT_TIMEOUT);
    }
    g4_store_close(f->store);
    kvt_free(f);
}

/* An answer of 100 bytes into a buffer of ten; one that says 5 and sends more; one of no length. */
static void
lengths_are_not_believed(void **state)
{
    static const char *const unsized[] = {"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello, you"};
    static const char *const longer[] = {OK_HELLO " and more"};
    struct g4_request request = {.verb = G4_GET, .key = "k", .buffer_capacity = 9};
    struct fixture *f = start(unsized, 1, 5000);

    (void)state;
    assert_int_equal(g4_store_perform(f->store, &request), KVT_RANGE);
    assert_null(request.buffer);
    request.buffer_capacity = 10;
    assert_int_equal(g4_store_perform(f->store, &request), KVT_OK);
    assert_int_equal(request.buffer_size, 10);
    assert_memory_equal(request.buffer, "hello, you", 10);
    kvt_free(request.buffer);
    stop(f);
    kvt_free(f);

    f = start(longer, 1, 5000);
    assert_int_equal(get(f->store, "k", &f->fetched), KVT_OK);
    assert_int_equal(f->fetched.size, 5);
    stop(f);
    kvt_free(f);
}

/* libcurl follows the chunks and not Content-Length: memory that was allocated for one and filled
 * from the other was written beyond its end. */
static void
chunks_beyond_the_length_are_refused(void **state)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"
                               "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n2000\r\n";
    static char text[sizeof(head) + 0x2000 + 8];
    const char *const replies[] = {text};
    struct g4_request request = {.verb = G4_GET, .key = "k", .buffer_capacity = 1 << 20};
    struct fixture *f;

    (void)state;
    memset(text, 'x', sizeof(text));
    memcpy(text, head, sizeof(head) - 1);
    memcpy(text + sizeof(head) - 1 + 0x2000, "\r\n0\r\n\r\n", 8);
    f = start(replies, 1, 5000);
    assert_int_equal(g4_store_perform(f->store, &request), KVT_IO);
    assert_null(request.buffer);
    stop(f);
    kvt_free(f);
}

/* The whole in place of a part, another part, a part too long, and one of an unknown place. */
static void
other_bytes_than_those_asked_for_are_refused(void **state)
{
    static const char *const replies[] = {
        OK_HELLO,
        "HTTP/1.1 206 Part\r\nContent-Length: 5\r\nContent-Range: bytes 0-4/9\r\n"
        "Connection: close\r\n\r\nhello",
        "HTTP/1.1 206 Part\r\nContent-Length: 6\r\nContent-Range: bytes 2-7/9\r\n"
        "Connection: close\r\n\r\nhello!",
        "HTTP/1.1 206 Part\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
        "HTTP/1.1 206 Part\r\nContent-Length: 5\r\nContent-Range: bytes 2-6/9\r\n"
        "Connection: close\r\n\r\nhello",
    };
    const size_t count = sizeof(replies) / sizeof(replies[0]);
    struct fixture *f = start(replies, count, 5000);
    char room[100];

    (void)state;
    for (size_t i = 0; i < count; i++) {
        struct g4_request request = {.verb = G4_GET,
                                     .key = "k",
                                     .range_at = 2,
                                     .range_size = 5,
                                     .buffer = room,
                                     .buffer_capacity = sizeof(room)};

        assert_int_equal(g4_store_perform(f->store, &request), i + 1 < count ? KVT_IO : KVT_OK);
        if (i + 1 == count)
            assert_int_equal(request.object_size, 9);
    }
    assert_int_equal(get(f->store, "k", &f->fetched), KVT_IO); /* a part for the whole */
    stop(f);
    kvt_free(f);
}

static void
metadata_is_believed_only_when_it_is_whole(void **state)
{
    static const char *const replies[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nx-amz-meta-kvt-length: 5\r\n"
        "X-Amz-Meta-Kvt-Crc32c: 9a71bb4c\r\nx-amz-meta-kvt-fingerprint: 00000000000000ff\r\n"
        "x-amz-meta-kvt-writer: gw-1\r\nLast-Modified: Sat, 31 Jan 2026 23:59:59 GMT\r\n"
        "Date: Sun, 01 Feb 2026 00:00:00 GMT\r\nConnection: close\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nx-amz-meta-kvt-length: 5\r\n"
        "x-amz-meta-kvt-crc32c: 9a71bb4cff\r\nConnection: close\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nx-amz-meta-kvt-length: -5\r\n"
        "x-amz-meta-kvt-crc32c: 9a71bb4c\r\nConnection: close\r\n\r\nhello",
    };
    struct fixture *f = start(replies, 3, 5000);

    (void)state;
    assert_int_equal(get(f->store, "k", &f->fetched), KVT_OK);
    assert_true(f->fetched.meta.present);
    assert_int_equal(f->fetched.meta.crc32c, 0x9a71bb4c);
    assert_int_equal(f->fetched.meta.fingerprint, 255);
    assert_string_equal(f->fetched.meta.writer, "gw-1");
    assert_true(f->fetched.modified_ms == UINT64_C(1769903999000));
    assert_true(f->fetched.server_ms == UINT64_C(1769904000000));
    assert_int_equal(get(f->store, "k", &f->fetched), KVT_OK);
    assert_false(f->fetched.meta.present);
    assert_int_equal(get(f->store, "k", &f->fetched), KVT_OK);
    assert_false(f->fetched.meta.present);
    assert_int_equal(f->fetched.meta.length, 5);
    stop(f);
    kvt_free(f);
}

/* Copied within the bucket with all that is beside it, it fits its own length and crc. */
static void
an_object_of_another_key_is_damage(void **state)
{
    static const char *const replies[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nx-amz-meta-kvt-length: 5\r\n"
        "x-amz-meta-kvt-crc32c: 9a71bb4c\r\nx-amz-meta-kvt-key: fe251467\r\n"
        "Connection: close\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nx-amz-meta-kvt-length: 5\r\n"
        "x-amz-meta-kvt-crc32c: 9a71bb4c\r\nx-amz-meta-kvt-key: 7ef80fe3\r\n"
        "ETag: \"e\"\r\nConnection: close\r\n\r\nhello",
    };
    struct fixture *f = start(replies, 2, 5000);

    (void)state;
    assert_int_equal(get(f->store, "0/0:11111112", &f->fetched), KVT_OK);
    assert_int_equal(get(f->store, "0/0:11111112", &f->fetched), KVT_CORRUPT);
    assert_string_equal(f->fetched.etag, "e"); /* to be replaced only as it is */
    assert_int_equal(get(f->store, "backup/block", &f->fetched), KVT_OK); /* somebody's own copy */
    stop(f);
    kvt_free(f);
}

static void
a_put_says_what_formats_promise(void **state)
{
    static const char *const replies[] = {EMPTY("200 OK")};
    static const char *const lines[] = {"PUT /kvtier-test/a/0/1%3Ax%20%2B HTTP/1.1\r\n",
                                        "x-amz-content-sha256: UNSIGNED-PAYLOAD",
                                        "If-None-Match: *",
                                        "x-amz-meta-kvt-length: 5",
                                        "x-amz-meta-kvt-crc32c: 9a71bb4c",
                                        "x-amz-meta-kvt-fingerprint: 1122334455667788",
                                        "x-amz-meta-kvt-writer: tester",
                                        "x-amz-meta-kvt-key: 7043ef27",
                                        "x-amz-checksum-crc32c: mnG7TA==",
                                        "Content-Length: 5",
                                        "Authorization: AWS4-HMAC-SHA256 "};
    struct fixture *f = start(replies, 1, 5000);

    (void)state;
    assert_int_equal(put_absent(f->store, "a/0/1:x +", "hello", 5, NULL), KVT_OK);
    stop(f);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        assert_non_null(strstr(f->script.head, lines[i]));
    assert_null(strcasestr(f->script.head, "Expect:"));
    kvt_free(f);
}

#define WRONG_CLOCK                                                                                \
    "HTTP/1.1 403 Forbidden\r\nDate: Sun, 01 Feb 2026 00:00:00 GMT\r\nConnection: close\r\n\r\n"   \
    "<Error><Code>RequestTimeTooSkewed</Code></Error>"
#define CLOCKLESS_REFUSAL                                                                          \
    "HTTP/1.1 403 Forbidden\r\nDate: Sun, 01 Feb 2026 00:00:00 GMT\r\nContent-Length: 0\r\n"       \
    "Connection: close\r\n\r\n"

/* The server's clock stands in February 2026: what is signed next has its time.  Told so, or only
 * "403" without a body, as a HEAD is. */
static void
a_wrong_clock_is_corrected_by_the_servers(void **state)
{
    static const char *const told[] = {WRONG_CLOCK, OK_HELLO};
    static const char *const guessed[] = {CLOCKLESS_REFUSAL, OK_HELLO};
    static const char *const stubborn[] = {WRONG_CLOCK};
    struct fixture *f = start(told, 2, 5000);

    (void)state;
    assert_int_equal(get(f->store, "k", &f->fetched), KVT_OK);
    assert_int_equal(get(f->store, "k", &f->fetched), KVT_OK); /* right from the first attempt */
    stop(f);
    assert_int_equal(f->script.seen, 3);
    assert_non_null(strstr(f->script.head, "x-amz-date: 20260201T0000"));
    kvt_free(f);

    f = start(guessed, 2, 5000);
    assert_int_equal(head(f->store, "k", &f->fetched), KVT_OK);
    stop(f);
    assert_int_equal(f->script.seen, 2);
    assert_non_null(strstr(f->script.head, "x-amz-date: 20260201T0000"));
    kvt_free(f);

    f = start(stubborn, 1, 5000);
    assert_int_equal(get(f->store, "k", &f->fetched), KVT_DENIED);
    stop(f);
    assert_int_equal(f->script.seen, 2); /* signed with its time, and still refused */
    kvt_free(f);
}

static void
header_lines_cannot_be_injected(void **state)
{
    static const char *const replies[] = {EMPTY("200 OK")};
    struct fixture *f = start(replies, 1, 5000);
    struct g4_request request = {.verb = G4_PUT, .key = "k", .body = "x", .body_size = 1};
    char etag[G4_ETAG_MAX] = "a\r\nX-Evil: 1";

    (void)state;
    assert_int_equal(put_match(f->store, "k", "x", 1, etag), KVT_INVALID);
    request.meta = (struct g4_meta){.present = true, .length = 1, .writer = "w\nX-Evil: 1"};
    assert_int_equal(g4_store_perform(f->store, &request), KVT_INVALID);
    stop(f);
    assert_int_equal(f->script.seen, 0);
    kvt_free(f);
}

static void
options_are_checked(void **state)
{
    const struct g4_s3_options good = {.endpoint = "http://127.0.0.1:1",
                                       .bucket = "bucket",
                                       .access_key = "a",
                                       .secret_key = "s",
                                       .path_style = true};
    struct g4_s3_options options;
    struct g4_store *store;
    struct kvt_error err;

    (void)state;
    static const char *const endpoints[] = {
        "", "127.0.0.1", "ftp://x", "http://", "http://a b", "http://u:p@host", "http://host/path"};
    for (size_t i = 0; i < sizeof(endpoints) / sizeof(endpoints[0]); i++) {
        options = good;
        options.endpoint = endpoints[i];
        assert_int_equal(g4_s3_open(&store, &options, &err), KVT_INVALID);
        assert_null(store);
    }
    static const char *const buckets[] = {"", "ab", "a/b", "..", "a b", ".abc"};
    for (size_t i = 0; i < sizeof(buckets) / sizeof(buckets[0]); i++) {
        options = good;
        options.bucket = buckets[i];
        assert_int_equal(g4_s3_open(&store, &options, &err), KVT_INVALID);
    }
    options = good;
    options.secret_key = "";
    assert_int_equal(g4_s3_open(&store, &options, &err), KVT_INVALID);
    options = good;
    options.secret_key = "a\r\nb";
    assert_int_equal(g4_s3_open(&store, &options, &err), KVT_INVALID);
    options = good;
    options.path_style = false;
    assert_int_equal(g4_s3_open(&store, &options, &err), KVT_OK);
    g4_store_close(store);
}

static bool
open_once(void *arg)
{
    const struct g4_s3_options options = {.endpoint = "http://127.0.0.1:1",
                                          .bucket = "bucket",
                                          .region = "",
                                          .access_key = "a",
                                          .secret_key = "s",
                                          .threads = 2,
                                          .connections_max = 2};
    struct g4_store *store;
    struct kvt_error err;
    enum kvt_err rc;

    (void)arg;
    rc = g4_s3_open(&store, &options, &err);
    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && store == NULL));
    g4_store_close(store);
    return rc == KVT_OK;
}

static void
opening_survives_every_allocation_failure(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(open_once, NULL) >= 10);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_cut_short_is_an_error_never_data),
        cmocka_unit_test(a_second_attempt_may_succeed),
        cmocka_unit_test(the_crc_is_of_what_is_given),
        cmocka_unit_test(a_lost_answer_of_put_if_absent_ends_as_exists),
        cmocka_unit_test(a_conflict_is_tried_again),
        cmocka_unit_test(statuses_become_codes),
        cmocka_unit_test(silence_is_a_timeout),
        cmocka_unit_test(nobody_there_is_unavailable),
        cmocka_unit_test(a_name_that_is_not_known_is_unavailable),
        cmocka_unit_test(lengths_are_not_believed),
        cmocka_unit_test(chunks_beyond_the_length_are_refused),
        cmocka_unit_test(other_bytes_than_those_asked_for_are_refused),
        cmocka_unit_test(metadata_is_believed_only_when_it_is_whole),
        cmocka_unit_test(an_object_of_another_key_is_damage),
        cmocka_unit_test(a_put_says_what_formats_promise),
        cmocka_unit_test(a_wrong_clock_is_corrected_by_the_servers),
        cmocka_unit_test(header_lines_cannot_be_injected),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(opening_survives_every_allocation_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
