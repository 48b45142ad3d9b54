/*
 * What is tested: gateway/bus/events.h on a real NATS server: everything the catalog tells reaches
 * the stream once and in order, also over a restart and while the server is away; dump pages and
 * range answer what they promise; each namespace is a publisher of its own.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "g4/object/check.h"
#include "gateway/bus/events.h"
#include "gateway/move/move.h"
#include "wire/message/event_codec.h"
#include "wire/message/query.h"
#include "wire/message/subject.h"
#include "wire/nats/stream.h"

#include "tests/support/nats_server.h"
#include "tests/unit/gateway/support/support.h"

enum { SIZE = 100, WAIT_MS = 20000, PAGE = 16 };

struct fixture {
    struct test_nats nats;
    struct test_gateway gateway;
    struct wire_bus *bus;
    struct gateway_events *events;
    struct kvt_event *room; /* KVT_EVENTS_PER_BATCH_MAX */
};

static void
start(struct fixture *f)
{
    const struct wire_bus_options options = {
        .url = f->nats.url, .name = "test", .connect_now = true};
    struct kvt_error err;

    assert_int_equal(wire_bus_open(&f->bus, &options, &err), KVT_OK);
    assert_int_equal(wire_bus_ensure_streams(f->bus, &err), KVT_OK);
    assert_int_equal(gateway_events_start(&f->events, f->gateway.context, f->bus, &err), KVT_OK);
}

static void
stop(struct fixture *f)
{
    gateway_events_stop(f->events, 5000);
    wire_bus_close(f->bus);
}

static int
set_up(void **state)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));

    f->room = kvt_calloc(KVT_EVENTS_PER_BATCH_MAX, sizeof(*f->room));
    test_nats_start(&f->nats);
    test_gateway_open(&f->gateway, 1u << 20, 0);
    start(f);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    stop(f);
    test_gateway_close(&f->gateway);
    test_nats_stop(&f->nats);
    kvt_free(f->room);
    kvt_free(f);
    return 0;
}

static void
wait_until_sent(struct fixture *f)
{
    const uint64_t end_ms = kvt_clock_mono_ms() + WAIT_MS;
    struct gateway_catalog_stats stats;

    do {
        kvt_clock_sleep_ms(20);
        gateway_catalog_stats(f->gateway.context->catalog, &stats);
    } while (stats.events_acked < stats.events && kvt_clock_mono_ms() < end_ms);
    assert_int_equal(stats.events_acked, stats.events);
}

/* Read the stream from its start: sequences of `worker` must have no hole; repeats are allowed only
 * of what came before.  Returns how many events there were. */
static uint64_t
read_stream(struct fixture *f, const char *worker, const char *namespace_)
{
    const struct wire_stream_options options = {
        .stream = WIRE_STREAM_EVENTS, .subject = "", .durable = "", .start_seq = 1};
    struct wire_message *messages[WIRE_STREAM_FETCH_MAX];
    struct wire_stream *stream;
    uint64_t next = 1;
    size_t count;

    assert_int_equal(wire_stream_open(&stream, f->bus, &options), KVT_OK);
    do {
        assert_int_equal(wire_stream_fetch(stream, messages, WIRE_STREAM_FETCH_MAX, 500, &count),
                         KVT_OK);
        for (size_t i = 0; i < count; i++) {
            struct kvt_event_batch batch = {.events = f->room};
            uint32_t skipped;
            size_t size;
            const void *bytes = wire_message_bytes(messages[i], &size);

            assert_int_equal(
                wire_event_decode(bytes, size, &batch, KVT_EVENTS_PER_BATCH_MAX, &skipped, NULL),
                KVT_OK);
            if (strcmp(batch.worker, worker) == 0) {
                assert_string_equal(batch.namespace_, namespace_);
                assert_true(batch.first_seq <= next);
                if (batch.first_seq + batch.event_count > next)
                    next = batch.first_seq + batch.event_count;
            }
            wire_message_free(messages[i]);
        }
    } while (count > 0);
    wire_stream_close(stream);
    return next - 1;
}

static void
nothing_is_lost(void **state)
{
    struct fixture *f = *state;

    for (uint64_t i = 0; i < 20; i++)
        assert_int_equal(test_gateway_put(&f->gateway, i, SIZE), KVT_OK);
    wait_until_sent(f);
    assert_int_equal(read_stream(f, "gateway:gw0", TEST_NAMESPACE), 40);

    test_nats_kill(&f->nats);
    for (uint64_t i = 20; i < 40; i++)
        assert_int_equal(test_gateway_put(&f->gateway, i, SIZE), KVT_OK);
    test_nats_restart(&f->nats);
    wait_until_sent(f);
    assert_int_equal(read_stream(f, "gateway:gw0", TEST_NAMESPACE), 80);

    stop(f);
    test_gateway_reopen(&f->gateway);
    for (uint64_t i = 40; i < 50; i++)
        assert_int_equal(test_gateway_put(&f->gateway, i, SIZE), KVT_OK);
    start(f);
    wait_until_sent(f);
    assert_int_equal(read_stream(f, "gateway:gw0", TEST_NAMESPACE), 100);
}

/* Ask and take the page apart; its batch is in f->room. */
static enum kvt_err
ask_page(struct fixture *f, const char *subject, const struct kvt_buffer *question, uint64_t *next,
         struct kvt_event_batch *batch)
{
    struct kvt_buffer answer;
    struct kvt_error err;
    const void *bytes;
    uint32_t skipped;
    enum kvt_err status;
    size_t size;

    kvt_buffer_init(&answer, 1u << 20);
    assert_int_equal(
        wire_bus_request(f->bus, subject, question->data, question->size, 5000, &answer), KVT_OK);
    assert_int_equal(
        wire_query_decode_page(answer.data, answer.size, &status, next, &bytes, &size, &err),
        KVT_OK);
    *batch = (struct kvt_event_batch){.events = f->room};
    if (status == KVT_OK)
        assert_int_equal(
            wire_event_decode(bytes, size, batch, KVT_EVENTS_PER_BATCH_MAX, &skipped, &err),
            KVT_OK);
    kvt_buffer_release(&answer);
    return status;
}

static void
dumps_are_whole(void **state)
{
    struct fixture *f = *state;
    char subject[WIRE_SUBJECT_MAX];
    struct kvt_event_batch batch;
    struct kvt_buffer question;
    uint64_t seen = 0; /* bit = block */
    uint64_t cursor = 0;
    unsigned pages = 0;
    unsigned stores = 0;

    for (uint64_t i = 0; i < 50; i++)
        assert_int_equal(test_gateway_put(&f->gateway, i, SIZE), KVT_OK);
    wait_until_sent(f);
    assert_int_equal(wire_subject_named(WIRE_SUBJECT_DUMP, subject, sizeof(subject), "gateway:gw0"),
                     KVT_OK);
    kvt_buffer_init(&question, 1024);
    do {
        const struct wire_query_dump dump = {.cursor = cursor, .limit = PAGE};

        kvt_buffer_clear(&question);
        assert_int_equal(wire_query_encode_dump(&dump, &question), KVT_OK);
        assert_int_equal(ask_page(f, subject, &question, &cursor, &batch), KVT_OK);
        assert_string_equal(batch.namespace_, TEST_NAMESPACE);
        assert_int_equal(batch.first_seq, 100);
        assert_true(batch.event_count <= PAGE);
        for (uint32_t i = 0; i < batch.event_count; i++) {
            assert_int_equal(batch.events[i].type, KVT_EVENT_STORE);
            assert_int_equal(batch.events[i].block_size, SIZE);
            seen |= UINT64_C(1) << (batch.events[i].sequence_hash - 0x1000);
            stores++;
        }
        pages++;
    } while (cursor != 0);
    assert_int_equal(stores, 100);
    assert_int_equal(seen, (UINT64_C(1) << 50) - 1);
    assert_true(pages >= 100 / PAGE);

    /* A cursor nobody gave out. */
    kvt_buffer_clear(&question);
    assert_int_equal(wire_query_encode_dump(&(struct wire_query_dump){12345, PAGE}, &question),
                     KVT_OK);
    assert_int_equal(ask_page(f, subject, &question, &cursor, &batch), KVT_NOTFOUND);
    kvt_buffer_release(&question);
}

static void
ranges_are_exact(void **state)
{
    struct fixture *f = *state;
    struct gateway_catalog_stats stats;
    char subject[WIRE_SUBJECT_MAX];
    struct kvt_event_batch batch;
    struct kvt_buffer question;
    uint64_t next;
    struct {
        uint64_t from, to, incarnation;
        enum kvt_err status;
        uint32_t count;
    } rows[] = {{1, 10, 0, KVT_OK, 10},       {7, 7, 0, KVT_OK, 1},
                {15, 99, 0, KVT_OK, 6},       {21, 30, 0, KVT_OK, 0}, /* nothing new */
                {22, 30, 0, KVT_NOTFOUND, 0}, {0, 5, 0, KVT_NOTFOUND, 0},
                {1, 5, 1, KVT_NOTFOUND, 0}};

    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(test_gateway_put(&f->gateway, i, SIZE), KVT_OK);
    wait_until_sent(f);
    gateway_catalog_stats(f->gateway.context->catalog, &stats);
    assert_int_equal(
        wire_subject_named(WIRE_SUBJECT_RANGE, subject, sizeof(subject), "gateway:gw0"), KVT_OK);
    kvt_buffer_init(&question, 1024);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct wire_query_range range = {
            .incarnation = rows[i].incarnation != 0 ? rows[i].incarnation : stats.incarnation,
            .from = rows[i].from,
            .to = rows[i].to};

        kvt_buffer_clear(&question);
        assert_int_equal(wire_query_encode_range(&range, &question), KVT_OK);
        assert_int_equal(ask_page(f, subject, &question, &next, &batch), rows[i].status);
        if (rows[i].status == KVT_OK) {
            assert_int_equal(batch.first_seq, rows[i].from);
            assert_int_equal(batch.event_count, rows[i].count);
        }
    }
    kvt_buffer_release(&question);
}

static void
namespaces_are_publishers(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(test_gateway_put(&f->gateway, 1, SIZE), KVT_OK);
    for (unsigned i = 0; i < 3; i++) {
        const struct kvt_block_id block = {.hash = i + 1};
        uint8_t body[SIZE] = {(uint8_t)i};
        char key[KVT_KEY_MAX];
        struct gateway_put_item item = {
            .key = key, .body = body, .size = SIZE, .crc32c = g4_check_crc32c(body, SIZE)};

        assert_int_equal(kvt_key_format(key, sizeof(key), KVT_KEY_KVBM_B, "other", 0, &block),
                         KVT_OK);
        gateway_put_blocks(f->gateway.context, &item, 1);
        assert_int_equal(item.status, KVT_OK);
    }
    wait_until_sent(f);
    assert_int_equal(read_stream(f, "gateway:gw0", TEST_NAMESPACE), 2);
    assert_int_equal(read_stream(f, "gateway:gw0:1", "other"), 6);
}

/* Up the ladder and down again: events of all four tiers. */
static void
climb(struct fixture *f)
{
    static const struct gateway_move moves[] = {
        {.from = GATEWAY_HOT, .to = GATEWAY_WARM},
        {.from = GATEWAY_WARM, .to = GATEWAY_HOT},
        {.from = GATEWAY_COLD, .to = GATEWAY_FAR},
        {.from = GATEWAY_FAR, .to = GATEWAY_COLD},
    };
    char key[KVT_KEY_MAX];
    uint64_t bytes;

    for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++)
        assert_int_equal(
            gateway_move(f->gateway.context, test_gateway_key(key, 1), &moves[i], &bytes), KVT_OK);
}

/* Warm and far are empty and no longer set; what was told of them, or is to be, can be read. */
static void
tiers_that_were_taken_out_are_named(void **state)
{
    struct fixture *f = *state;
    struct gateway_catalog_stats stats;
    struct kvt_event_batch batch;
    struct kvt_buffer question;
    char subject[WIRE_SUBJECT_MAX];
    char far[KVT_NAME_MAX]; /* as all was told before: so it is taken back there */
    unsigned seen = 0;
    uint64_t next;

    stop(f);
    test_gateway_extend(&f->gateway, 1u << 20, 0);
    start(f);
    (void)snprintf(far, sizeof(far), "%s", f->gateway.context->tiers.holder[GATEWAY_TIER_FAR]);
    assert_int_equal(test_gateway_put(&f->gateway, 1, SIZE), KVT_OK);
    climb(f);
    wait_until_sent(f);
    test_nats_kill(&f->nats);
    climb(f); /* nobody hears it */
    gateway_catalog_stats(f->gateway.context->catalog, &stats);
    assert_true(stats.events_acked < stats.events);
    stop(f);
    f->gateway.options.warm_capacity = 0;
    f->gateway.options.far_bucket = NULL;
    f->gateway.options.far_store = NULL;
    f->gateway.far[0] = '\0';
    test_gateway_reopen(&f->gateway);
    test_nats_restart(&f->nats);
    start(f);
    wait_until_sent(f);
    assert_int_equal(read_stream(f, "gateway:gw0", TEST_NAMESPACE), stats.events);

    assert_int_equal(
        wire_subject_named(WIRE_SUBJECT_RANGE, subject, sizeof(subject), "gateway:gw0"), KVT_OK);
    kvt_buffer_init(&question, 1024);
    assert_int_equal(wire_query_encode_range(
                         &(struct wire_query_range){
                             .incarnation = stats.incarnation, .from = 1, .to = stats.events},
                         &question),
                     KVT_OK);
    assert_int_equal(ask_page(f, subject, &question, &next, &batch), KVT_OK);
    assert_int_equal(batch.event_count, stats.events);
    assert_string_equal(batch.locations[GATEWAY_TIER_WARM].name, "warm@gw0");
    assert_string_equal(batch.locations[GATEWAY_TIER_FAR].name, far);
    for (uint32_t i = 0; i < batch.event_count; i++)
        seen |= 1u << batch.events[i].location;
    assert_int_equal(seen, (1u << GATEWAY_TIERS) - 1);
    kvt_buffer_release(&question);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_lost),
        TEST(dumps_are_whole),
        TEST(ranges_are_exact),
        TEST(namespaces_are_publishers),
        TEST(tiers_that_were_taken_out_are_named),
    };
#undef TEST

    test_nats_require();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
