/*
 * What is tested: g4/batch/batch_client.h against a gateway of a few lines that keeps blocks in
 * memory and speaks docs/formats.md: batches of any shape come back as they should, and every way
 * in which the gateway can fail ends in the promised status.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "g4/batch/batch.h"
#include "g4/batch/batch_client.h"
#include "g4/object/check.h"

#include "tests/support/seed.h"
#include "tests/support/silent.h"
#include "tests/unit/g4/support/helpers.h"
#include "tests/unit/g4/support/servers.h"

enum { BLOCKS = 64, BLOCK_MAX = 4000, ROUNDS = 60 };

enum trick { NO_TRICK, CUT, FLIP, LONGER, BUSY_ITEMS, BUSY_GATEWAY, DENY, NONSENSE, SILENT };

struct block {
    char key[32];
    uint8_t body[BLOCK_MAX];
    size_t size;
    uint64_t fingerprint;
    bool there;
};

/* The gateway.  `tricks_left` requests are tricked, then it is honest. */
struct gateway {
    struct block blocks[BLOCKS];
    enum trick trick;
    size_t tricks_left;
    size_t requests;
    size_t keys_max; /* in one request so far */
    char head[2048];
};

static uint64_t
take_number(const uint8_t **at, size_t size)
{
    uint64_t value = 0;

    for (size_t i = size; i > 0; i--)
        value = value << 8 | (*at)[i - 1];
    *at += size;
    return value;
}

static void
put_number(struct kvt_buffer *out, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++, value >>= 8)
        kvt_buffer_append(out, &(uint8_t){(uint8_t)value}, 1);
}

static struct block *
block_of(struct gateway *gateway, const uint8_t *key, size_t size)
{
    for (size_t i = 0; i < BLOCKS; i++)
        if (strlen(gateway->blocks[i].key) == size &&
            memcmp(gateway->blocks[i].key, key, size) == 0)
            return &gateway->blocks[i];
    return NULL;
}

static void
answer_put(struct gateway *gateway, const uint8_t **at, bool busy, struct kvt_buffer *out)
{
    const size_t key_size = (size_t)take_number(at, 2);
    const uint64_t flags = take_number(at, 2);
    const uint32_t crc = (uint32_t)take_number(at, 4);
    const uint64_t fingerprint = take_number(at, 8);
    const size_t size = (size_t)take_number(at, 8);
    struct block *block = block_of(gateway, *at, key_size);
    const uint8_t *body = *at + key_size;
    enum kvt_err status = KVT_OK;

    *at = body + size;
    assert_int_equal(flags, 0);
    if (busy) {
        status = KVT_AGAIN;
    } else if (block == NULL || size > BLOCK_MAX) {
        status = KVT_FULL;
    } else if (g4_check_crc32c(body, size) != crc) {
        status = KVT_CORRUPT;
    } else if (block->there && (block->size != size || memcmp(block->body, body, size) != 0)) {
        status = KVT_PRECONDITION;
    } else {
        memcpy(block->body, body, size);
        block->size = size;
        block->fingerprint = fingerprint;
        block->there = true;
    }
    put_number(out, status, 4);
}

static void
answer_ask(struct gateway *gateway, const uint8_t **at, bool with_body, struct kvt_buffer *out)
{
    const size_t key_size = (size_t)take_number(at, 2);
    const struct block *block = block_of(gateway, *at, key_size);

    *at += key_size;
    if (block == NULL || !block->there) {
        put_number(out, KVT_NOTFOUND, 4);
        put_number(out, 0, 12);
        return;
    }
    put_number(out, KVT_OK, 4);
    put_number(out, g4_check_crc32c(block->body, block->size), 4);
    put_number(out, block->size, 8);
    if (with_body)
        kvt_buffer_append(out, block->body, block->size);
}

static void
reply_with(struct kvt_buffer *reply, const char *status, const struct kvt_buffer *body,
           size_t claimed)
{
    kvt_buffer_printf(reply, "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
                      status, claimed);
    kvt_buffer_append(reply, body->data, body->size);
}

static void
serve(void *arg, const char *head, const uint8_t *body, size_t size, struct kvt_buffer *reply)
{
    struct gateway *gateway = arg;
    const enum trick trick = gateway->tricks_left > 0 ? gateway->trick : NO_TRICK;
    const bool put = strstr(head, "/put/" SERVER_BUCKET " ") != NULL;
    const bool with_body = strstr(head, "/get/" SERVER_BUCKET " ") != NULL;
    const uint8_t *at = body;
    struct kvt_buffer out;
    size_t count;

    gateway->requests++;
    (void)snprintf(gateway->head, sizeof(gateway->head), "%s", head);
    if (gateway->tricks_left > 0)
        gateway->tricks_left--;
    if (trick == SILENT)
        return;
    kvt_buffer_init(&out, 1 << 24);
    count = (size_t)take_number(&at, 4);
    gateway->keys_max = count > gateway->keys_max ? count : gateway->keys_max;
    for (size_t i = 0; i < count; i++) {
        if (put)
            answer_put(gateway, &at, trick == BUSY_ITEMS && i % 2 == 1, &out);
        else
            answer_ask(gateway, &at, with_body, &out);
    }
    assert_ptr_equal(at, body + size);
    if (trick == FLIP)
        out.data[out.size - 1] ^= 1;
    if (trick == CUT)
        out.size /= 2;
    if (trick == LONGER)
        kvt_buffer_append(&out, "more", 4);
    if (trick == NONSENSE)
        out.data[0] = 200;
    reply_with(reply,
               trick == BUSY_GATEWAY ? "503 Busy"
               : trick == DENY       ? "403 Forbidden"
                                     : "200 OK",
               &out, out.size);
    kvt_buffer_release(&out);
}

struct fixture {
    struct gateway *gateway;
    struct hostile *server;
    struct g4_batch_client *client;
    uint8_t (*buffers)[BLOCK_MAX];
    struct g4_batch_client_item items[BLOCKS];
};

static struct g4_batch_client *
open_client(const struct fixture *f, uint64_t retry_ms, size_t batch_bytes_max)
{
    const struct g4_batch_client_options options = {.endpoint =
                                                        hostile_options(f->server)->endpoint,
                                                    .bucket = SERVER_BUCKET,
                                                    .access_key = "a",
                                                    .secret_key = "s",
                                                    .timeout_ms = 2000,
                                                    .retry_ms = retry_ms,
                                                    .batch_bytes_max = batch_bytes_max};
    struct g4_batch_client *client;
    struct kvt_error err;

    assert_int_equal(g4_batch_client_open(&client, &options, &err), KVT_OK);
    return client;
}

static int
set_up(void **state)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));

    f->gateway = kvt_calloc(1, sizeof(*f->gateway));
    f->buffers = kvt_calloc(BLOCKS, sizeof(*f->buffers));
    for (int i = 0; i < BLOCKS; i++)
        (void)snprintf(f->gateway->blocks[i].key, sizeof(f->gateway->blocks[i].key), "n/0/%d:x", i);
    f->server = hostile_start(serve, f->gateway);
    f->client = open_client(f, 0, 0);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    g4_batch_client_close(f->client);
    hostile_stop(f->server);
    kvt_free(f->buffers);
    kvt_free(f->gateway);
    kvt_free(f);
    return 0;
}

static void
make_body(uint8_t *body, int block, size_t *size)
{
    *size = (size_t)block * 61 % BLOCK_MAX;
    fill(body, *size, (uint64_t)block);
}

/* Items for blocks 0 .. count-1: bodies to put, or room to get. */
static void
make_items(struct fixture *f, size_t count, bool put)
{
    for (size_t i = 0; i < count; i++) {
        f->items[i] = (struct g4_batch_client_item){.key = f->gateway->blocks[i].key,
                                                    .fingerprint = 7 + i,
                                                    .body = f->buffers[i],
                                                    .buffer = f->buffers[i],
                                                    .size = BLOCK_MAX,
                                                    .status = KVT_BUSY};
        if (put)
            make_body(f->buffers[i], (int)i, &f->items[i].size);
        else
            memset(f->buffers[i], 0xee, BLOCK_MAX);
    }
}

static void
put_blocks(struct fixture *f, size_t count)
{
    make_items(f, count, true);
    assert_int_equal(g4_batch_client_put(f->client, f->items, count, NULL), KVT_OK);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(f->items[i].status, KVT_OK);
}

static void
assert_got(const struct fixture *f, size_t i)
{
    uint8_t body[BLOCK_MAX];
    size_t size;

    make_body(body, (int)i, &size);
    assert_int_equal(f->items[i].status, KVT_OK);
    assert_int_equal(f->items[i].size, size);
    assert_memory_equal(f->items[i].buffer, body, size);
    assert_int_equal(f->items[i].crc32c, g4_check_crc32c(body, size));
}

static void
batches_go_there_and_back(void **state)
{
    struct fixture *f = *state;
    struct kvt_error err;

    put_blocks(f, 40);
    assert_non_null(strstr(f->gateway->head, "POST /_kvtier/v1/put/" SERVER_BUCKET " HTTP/1.1"));
    assert_non_null(strstr(f->gateway->head, "x-amz-content-sha256: UNSIGNED-PAYLOAD"));
    assert_non_null(strstr(f->gateway->head, "Authorization: AWS4-HMAC-SHA256 Credential=a/"));
    assert_true(f->gateway->blocks[5].fingerprint == 12);

    make_items(f, BLOCKS, false);
    assert_int_equal(g4_batch_client_has(f->client, f->items, BLOCKS, &err), KVT_OK);
    for (size_t i = 0; i < BLOCKS; i++) {
        assert_int_equal(f->items[i].status, i < 40 ? KVT_OK : KVT_NOTFOUND);
        assert_int_equal(f->items[i].size, i < 40 ? i * 61 % BLOCK_MAX : 0);
    }
    make_items(f, BLOCKS, false);
    assert_int_equal(g4_batch_client_get(f->client, f->items, BLOCKS, &err), KVT_OK);
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i < 40)
            assert_got(f, i);
        else
            assert_int_equal(f->items[i].status, KVT_NOTFOUND);
    }
    assert_int_equal(f->gateway->requests, 3);
}

static void
other_content_is_told_by_its_item(void **state)
{
    struct fixture *f = *state;

    put_blocks(f, 3);
    make_items(f, 3, true);
    f->buffers[1][0] ^= 1;
    assert_int_equal(g4_batch_client_put(f->client, f->items, 3, NULL), KVT_OK);
    assert_int_equal(f->items[0].status, KVT_OK);
    assert_int_equal(f->items[1].status, KVT_PRECONDITION);
    assert_int_equal(f->items[2].status, KVT_OK);
}

/* Too little room for one block does not disturb its neighbours. */
static void
a_block_beyond_its_room_is_range(void **state)
{
    struct fixture *f = *state;

    put_blocks(f, 30);
    make_items(f, 30, false);
    f->items[20].size = 5;
    f->items[21].size = 0;
    assert_int_equal(g4_batch_client_get(f->client, f->items, 30, NULL), KVT_OK);
    for (size_t i = 0; i < 30; i++) {
        if (i == 20 || i == 21)
            assert_int_equal(f->items[i].status, KVT_RANGE);
        else
            assert_got(f, i);
    }
    assert_int_equal(f->buffers[20][5], 0xee);
}

static void
large_calls_are_split(void **state)
{
    struct fixture *f = *state;

    g4_batch_client_close(f->client);
    f->client = open_client(f, 0, 10000);
    put_blocks(f, BLOCKS);
    assert_true(f->gateway->requests > 5);
    assert_true(f->gateway->keys_max < BLOCKS);
    f->gateway->requests = 0;
    make_items(f, BLOCKS, false);
    assert_int_equal(g4_batch_client_get(f->client, f->items, BLOCKS, NULL), KVT_OK);
    for (size_t i = 0; i < BLOCKS; i++)
        assert_got(f, i);
    assert_int_equal(f->gateway->requests, BLOCKS / 2); /* room, not size, is what counts */
}

struct watch {
    size_t seen[BLOCKS]; /* `done` of each call */
    size_t count;
    size_t stop_at;
};

static bool
watch(void *arg, size_t done, size_t count)
{
    struct watch *watch = arg;

    assert_true(done <= count && watch->count < BLOCKS);
    watch->seen[watch->count++] = done;
    return done < watch->stop_at;
}

/* Told after each request; what is not asked any more is not touched, and says why. */
static void
progress_is_told_and_may_cancel(void **state)
{
    struct fixture *f = *state;
    struct watch seen = {.stop_at = 4};
    const struct g4_batch_client_options options = {.endpoint =
                                                        hostile_options(f->server)->endpoint,
                                                    .bucket = SERVER_BUCKET,
                                                    .access_key = "a",
                                                    .secret_key = "s",
                                                    .batch_bytes_max = 2 * BLOCK_MAX,
                                                    .progress = watch,
                                                    .progress_arg = &seen};
    struct g4_batch_client *client;
    struct kvt_error err;

    put_blocks(f, 10);
    assert_int_equal(g4_batch_client_open(&client, &options, NULL), KVT_OK);
    make_items(f, 10, false);
    assert_int_equal(g4_batch_client_get(client, f->items, 10, &err), KVT_CANCELLED);
    assert_int_equal(seen.count, 2); /* two rooms a request: 2, then 4 */
    assert_int_equal(seen.seen[1], 4);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(f->items[i].status, i < 4 ? KVT_OK : KVT_CANCELLED);
    assert_int_equal(f->items[9].size, 0);

    seen = (struct watch){.stop_at = SIZE_MAX};
    make_items(f, 10, false);
    assert_int_equal(g4_batch_client_get(client, f->items, 10, &err), KVT_OK);
    assert_int_equal(seen.count, 5);
    assert_int_equal(seen.seen[4], 10);
    seen = (struct watch){.stop_at = 10}; /* all was asked: nothing is left to cancel */
    make_items(f, 10, false);
    assert_int_equal(g4_batch_client_get(client, f->items, 10, &err), KVT_OK);
    g4_batch_client_close(client);
}

static void
a_flipped_body_is_a_miss(void **state)
{
    struct fixture *f = *state;

    put_blocks(f, 10);
    f->gateway->trick = FLIP;
    f->gateway->tricks_left = 1;
    make_items(f, 10, false);
    assert_int_equal(g4_batch_client_get(f->client, f->items, 10, NULL), KVT_OK);
    for (size_t i = 0; i < 9; i++)
        assert_got(f, i);
    assert_int_equal(f->items[9].status, KVT_NOTFOUND);
    assert_int_equal(f->items[9].size, 0);
}

static void
failures_of_a_request_are_in_every_item(void **state)
{
    static const struct {
        enum trick trick;
        enum kvt_err code;
    } rows[] = {{CUT, KVT_IO},
                {LONGER, KVT_IO},
                {BUSY_GATEWAY, KVT_UNAVAILABLE},
                {DENY, KVT_DENIED},
                {SILENT, KVT_TIMEOUT}};
    struct fixture *f = *state;
    struct kvt_error err;

    put_blocks(f, 10);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        f->gateway->trick = rows[i].trick;
        f->gateway->tricks_left = 1;
        make_items(f, 10, false);
        assert_int_equal(g4_batch_client_get(f->client, f->items, 10, &err), rows[i].code);
        assert_string_not_equal(err.text, "");
        for (size_t j = 0; j < 10; j++) {
            assert_int_equal(f->items[j].status, rows[i].code);
            assert_int_equal(f->items[j].size, 0);
        }
    }
}

static void
a_status_nobody_knows_is_a_failure_of_the_item(void **state)
{
    struct fixture *f = *state;

    put_blocks(f, 2);
    f->gateway->trick = NONSENSE;
    f->gateway->tricks_left = 1;
    make_items(f, 2, false);
    assert_int_equal(g4_batch_client_has(f->client, f->items, 2, NULL), KVT_OK);
    assert_int_equal(f->items[0].status, KVT_IO);
    assert_int_equal(f->items[1].status, KVT_OK);
}

static void
with_retry_time_it_waits_until_the_gateway_can(void **state)
{
    static const enum trick tricks[] = {CUT, BUSY_GATEWAY, BUSY_ITEMS};
    struct fixture *f = *state;

    g4_batch_client_close(f->client);
    f->client = open_client(f, 10000, 0);
    for (size_t t = 0; t < sizeof(tricks) / sizeof(tricks[0]); t++) {
        f->gateway->trick = tricks[t];
        f->gateway->tricks_left = 3;
        put_blocks(f, 20);
        assert_int_equal(f->gateway->tricks_left, 0);
        f->gateway->tricks_left = tricks[t] == BUSY_ITEMS ? 0 : 3;
        make_items(f, 20, false);
        assert_int_equal(g4_batch_client_get(f->client, f->items, 20, NULL), KVT_OK);
        for (size_t i = 0; i < 20; i++)
            assert_got(f, i);
    }
}

static void
retry_time_ends(void **state)
{
    struct fixture *f = *state;
    uint64_t before_ms;

    g4_batch_client_close(f->client);
    f->client = open_client(f, 300, 0);
    f->gateway->trick = BUSY_ITEMS;
    f->gateway->tricks_left = SIZE_MAX;
    before_ms = kvt_clock_mono_ms();
    make_items(f, 2, true);
    assert_int_equal(g4_batch_client_put(f->client, f->items, 2, NULL), KVT_OK);
    assert_int_equal(f->items[0].status, KVT_OK);
    assert_int_equal(f->items[1].status, KVT_OK); /* alone in the second request, and taken */
    make_items(f, 2, true);
    f->gateway->trick = BUSY_GATEWAY;
    assert_int_equal(g4_batch_client_put(f->client, f->items, 2, NULL), KVT_UNAVAILABLE);
    assert_true(kvt_clock_mono_ms() - before_ms < 10000);
    f->gateway->tricks_left = 0;
}

struct stopper {
    struct g4_batch_client *client;
    uint64_t after_ms;
};

static void *
stop_later(void *arg)
{
    const struct stopper *stopper = arg;

    kvt_clock_sleep_ms(stopper->after_ms);
    g4_batch_client_stop(stopper->client);
    return NULL;
}

/* Nobody waits for an absent gateway when the program ends; one that answers is still asked. */
static void
stopping_ends_the_retries(void **state)
{
    struct fixture *f = *state;
    struct stopper stopper = {.after_ms = 200};
    const uint64_t before_ms = kvt_clock_mono_ms();
    pthread_t thread;

    g4_batch_client_close(f->client);
    f->client = open_client(f, 60000, 0);
    stopper.client = f->client;
    f->gateway->trick = BUSY_GATEWAY;
    f->gateway->tricks_left = SIZE_MAX;
    assert_int_equal(pthread_create(&thread, NULL, stop_later, &stopper), 0);
    make_items(f, 2, true);
    assert_int_equal(g4_batch_client_put(f->client, f->items, 2, NULL), KVT_UNAVAILABLE);
    assert_true(kvt_clock_mono_ms() - before_ms < 20000);
    assert_int_equal(pthread_join(thread, NULL), 0);
    f->gateway->tricks_left = 0;
    put_blocks(f, 2);
}

static void
stopping_ends_a_hanging_request(void **state)
{
    struct g4_batch_client_options options = {
        .bucket = "kvtier", .access_key = "a", .secret_key = "s", .region = "", .retry_ms = 60000};
    struct g4_batch_client_item item = {.key = "k"};
    struct stopper stopper = {.after_ms = 100};
    char url[TEST_SILENT_URL];
    const int fd = test_silent_open(url);
    const uint64_t before_ms = kvt_clock_mono_ms();
    pthread_t thread;

    (void)state;
    options.endpoint = url;
    assert_int_equal(g4_batch_client_open(&stopper.client, &options, NULL), KVT_OK);
    assert_int_equal(pthread_create(&thread, NULL, stop_later, &stopper), 0);
    assert_int_equal(g4_batch_client_has(stopper.client, &item, 1, NULL), KVT_IO);
    assert_int_equal(item.status, KVT_IO);
    assert_true(kvt_clock_mono_ms() - before_ms < 5000);
    assert_int_equal(pthread_join(thread, NULL), 0);
    g4_batch_client_close(stopper.client);
    (void)close(fd);
}

struct hanger {
    struct g4_batch_client *client;
    pthread_t thread;
};

static void *
hang(void *arg)
{
    const struct hanger *hanger = arg;
    struct g4_batch_client_item item = {.key = "k"};

    assert_int_not_equal(g4_batch_client_has(hanger->client, &item, 1, NULL), KVT_OK);
    return NULL;
}

/* Whether it waits for an answer, for the next try or for a connection that somebody else has. */
static void
has_within_ends_in_time(void **state)
{
    struct fixture *f = *state;
    struct g4_batch_client_options options = {.bucket = "kvtier",
                                              .access_key = "a",
                                              .secret_key = "s",
                                              .region = "",
                                              .connections_max = 1,
                                              .retry_ms = 60000};
    struct g4_batch_client_item item = {.key = "k"};
    struct hanger hanger;
    char url[TEST_SILENT_URL];
    const int fd = test_silent_open(url);
    uint64_t before_ms = kvt_clock_mono_ms();

    options.endpoint = url;
    assert_int_equal(g4_batch_client_open(&hanger.client, &options, NULL), KVT_OK);
    assert_int_equal(g4_batch_client_has_within(hanger.client, &item, 1, 200, NULL), KVT_TIMEOUT);
    assert_int_equal(item.status, KVT_TIMEOUT);
    assert_true(kvt_clock_mono_ms() - before_ms >= 200);
    assert_int_equal(pthread_create(&hanger.thread, NULL, hang, &hanger), 0);
    kvt_clock_sleep_ms(50);
    assert_int_equal(g4_batch_client_has_within(hanger.client, &item, 1, 200, NULL), KVT_TIMEOUT);
    assert_true(kvt_clock_mono_ms() - before_ms < 10000);
    g4_batch_client_stop(hanger.client);
    assert_int_equal(pthread_join(hanger.thread, NULL), 0);
    g4_batch_client_close(hanger.client);
    (void)close(fd);

    g4_batch_client_close(f->client);
    f->client = open_client(f, 60000, 0);
    f->gateway->trick = BUSY_GATEWAY;
    f->gateway->tricks_left = SIZE_MAX;
    before_ms = kvt_clock_mono_ms();
    make_items(f, 2, false);
    /* Long enough for an answer on a busy machine: without one it would be a timeout. */
    assert_int_equal(g4_batch_client_has_within(f->client, f->items, 2, 2000, NULL),
                     KVT_UNAVAILABLE);
    assert_true(kvt_clock_mono_ms() - before_ms < 10000);
    f->gateway->tricks_left = 0;
    assert_int_equal(g4_batch_client_has_within(f->client, f->items, 2, 10000, NULL), KVT_OK);
}

static void
keys_that_are_none_are_refused(void **state)
{
    struct fixture *f = *state;
    char key[KVT_KEY_MAX + 1];

    memset(key, 'k', sizeof(key));
    key[KVT_KEY_MAX] = '\0';
    make_items(f, 2, false);
    f->items[1].key = key;
    assert_int_equal(g4_batch_client_has(f->client, f->items, 2, NULL), KVT_INVALID);
    assert_int_equal(f->items[0].status, KVT_INVALID);
    assert_int_equal(f->gateway->requests, 0);
    assert_int_equal(g4_batch_client_has(f->client, f->items, 0, NULL), KVT_OK);
}

/* The codec alone, in pieces of every size: what is read is one stream, what is written may come in
 * any pieces. */
static void
the_codec_works_in_any_pieces(void **state)
{
    struct fixture *f = *state;
    struct g4_batch_entry entries[BLOCKS];
    uint64_t random = test_seed();

    put_blocks(f, BLOCKS);
    for (int round = 0; round < ROUNDS; round++) {
        const size_t count = 1 + (size_t)kvt_random_below(&random, BLOCKS - 1);
        struct kvt_buffer sent;
        struct kvt_buffer reply;
        struct g4_batch batch;
        const char *body;
        size_t size = 1;

        make_items(f, count, false);
        for (size_t i = 0; i < count; i++)
            entries[i] = (struct g4_batch_entry){&f->items[i], BLOCK_MAX};
        g4_batch_begin(&batch, G4_BATCH_GET, entries, count);
        kvt_buffer_init(&sent, 1 << 24);
        kvt_buffer_init(&reply, 1 << 24);
        while (size > 0) {
            uint8_t *room = kvt_buffer_reserve(&sent, 4096);

            size = g4_batch_read(&batch, room, 1 + (size_t)kvt_random_below(&random, 4000));
            sent.size += size;
        }
        assert_int_equal(sent.size, g4_batch_size(&batch));
        serve(f->gateway, "/get/" SERVER_BUCKET " ", sent.data, sent.size, &reply);
        body = memmem(reply.data, reply.size, "\r\n\r\n", 4);
        assert_non_null(body);
        body += 4;
        for (size_t left = reply.size - (size_t)(body - (char *)reply.data); left > 0;) {
            size_t step = 1 + (size_t)kvt_random_below(&random, 3000);

            step = step < left ? step : left;
            assert_false(g4_batch_complete(&batch));
            assert_true(g4_batch_write(&batch, body, step));
            body += step;
            left -= step;
        }
        assert_true(g4_batch_complete(&batch));
        for (size_t i = 0; i < count; i++)
            assert_got(f, i);
        kvt_buffer_release(&sent);
        kvt_buffer_release(&reply);
    }
}

static bool
call_once(void *arg)
{
    struct fixture *f = arg;
    const struct g4_batch_client_options options = {.endpoint = "http://127.0.0.1:1",
                                                    .bucket = SERVER_BUCKET,
                                                    .access_key = "a",
                                                    .secret_key = "s",
                                                    .connections_max = 2};
    struct g4_batch_client *client;
    struct kvt_error err;
    enum kvt_err rc;

    rc = g4_batch_client_open(&client, &options, &err);
    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && client == NULL));
    if (rc == KVT_OK)
        rc = g4_batch_client_has(client, f->items, 2, &err);
    g4_batch_client_close(client);
    assert_true(rc == KVT_NOMEM || rc == KVT_UNAVAILABLE);
    return rc == KVT_UNAVAILABLE; /* got as far as finding nobody there */
}

static void
survives_every_allocation_failure(void **state)
{
    struct fixture *f = *state;

    make_items(f, 2, false);
    assert_true(test_sweep_allocations(call_once, f) >= 10);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(batches_go_there_and_back),
        TEST(other_content_is_told_by_its_item),
        TEST(a_block_beyond_its_room_is_range),
        TEST(large_calls_are_split),
        TEST(progress_is_told_and_may_cancel),
        TEST(a_flipped_body_is_a_miss),
        TEST(failures_of_a_request_are_in_every_item),
        TEST(a_status_nobody_knows_is_a_failure_of_the_item),
        TEST(with_retry_time_it_waits_until_the_gateway_can),
        TEST(retry_time_ends),
        TEST(stopping_ends_the_retries),
        TEST(stopping_ends_a_hanging_request),
        TEST(has_within_ends_in_time),
        TEST(keys_that_are_none_are_refused),
        TEST(the_codec_works_in_any_pieces),
        TEST(survives_every_allocation_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
