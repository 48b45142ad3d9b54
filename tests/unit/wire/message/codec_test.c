/*
 * What is tested: the event, order, report and query codecs of wire/message.
 * How: known bytes that another implementation of msgpack made, every truncation, random mutations
 * (KVT_SEED=n replays), and the limits by hand.  Inputs lie in heap memory of exactly their size,
 * so that the address sanitizer sees any read past them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "wire/message/event_codec.h"
#include "wire/message/query.h"
#include "wire/message/report_codec.h"
#include "wire/message/signed_order.h"

#include "tests/support/seed.h"

enum { MUTATIONS = 200000, INPUT_MAX = 512 };

static const char *const event_hex =
    "9801aa61636d652f6c6c616d61a27731cf00018c0ffee00001cd03e8cf0000018bcfe5687b929302"
    "00a4686f7374930403a7636f6c64406b7693950100cf0123456789abcdefcffedcba9876543210ce"
    "00010000990201cfffffffffffffffff0100cf0123456789abcdefcd012c05cf8000000000000000"
    "9701010707ce002000000608";
static const char *const order_hex =
    "92c4249a01a3677731a26e730304cd03e8cd07d001a36c72759194cfffffffffffffffff010203c4"
    "20ce55a9cd8221013e38a67e8a2624c3bcb94b6b8419a76c6fbedefdaa917f7f3b";
static const char *const report_hex =
    "9c01a3677731a26e73090807c39194a7686f74406777310a141e9194cf11223344556677880002ce"
    "000200009198030401000100ce00010000a0930506cd012c940000c290";
static const char *const query_hex = "9301a26e739201cfffffffffffffffff";
static const char *const holders_hex = "9301009194a27731000205";
static const char *const masks_hex = "930100c403000414";
static const char *const page_hex = "9401004dc403616263";
static const char *const dump_hex = "930105cd0100";
static const char *const range_hex = "94010607cd03e8";

static const struct wire_key_ring order_key = {
    .lines = {{.master = {.bytes = "0123456789abcdef", .size = 16}}}, .count = 1};

/* Room for what any decoder writes. */
struct room {
    struct kvt_event_batch batch;
    struct kvt_event events[KVT_EVENTS_PER_BATCH_MAX];
    uint32_t skipped;
    struct kvt_order order;
    struct kvt_order_item items[KVT_ORDER_ITEMS_MAX];
    struct kvt_report report;
    struct kvt_report_access accesses[KVT_REPORT_ACCESSES_MAX];
    struct kvt_order_result results[KVT_REPORT_RESULTS_MAX];
    struct kvt_report_pin pins[KVT_REPORT_PINS_MAX];
    struct wire_query query;
    uint64_t hashes[1024];
    struct wire_query_holder holders[64];
    uint8_t masks[1024];
    struct kvt_error err;
};

static struct room *
room_new(void)
{
    struct room *room = kvt_calloc(1, sizeof(*room));

    assert_non_null(room);
    room->batch.events = room->events;
    room->order.items = room->items;
    room->report.accesses = room->accesses;
    room->report.results = room->results;
    room->report.pins.rows = room->pins;
    room->query.hashes = room->hashes;
    return room;
}

static enum kvt_err
decode_event(struct room *room, const void *bytes, size_t size)
{
    return wire_event_decode(bytes, size, &room->batch, KVT_EVENTS_PER_BATCH_MAX, &room->skipped,
                             &room->err);
}

static enum kvt_err
decode_order(struct room *room, const void *bytes, size_t size)
{
    return wire_order_decode(bytes, size, &order_key, "g1", &room->order, KVT_ORDER_ITEMS_MAX,
                             &room->err);
}

static enum kvt_err
decode_report(struct room *room, const void *bytes, size_t size)
{
    return wire_report_decode(bytes, size, &room->report, &room->err);
}

static enum kvt_err
decode_query(struct room *room, const void *bytes, size_t size)
{
    return wire_query_decode(bytes, size, &room->query, 1024, &room->err);
}

static enum kvt_err
decode_holders(struct room *room, const void *bytes, size_t size)
{
    size_t count;

    return wire_query_decode_holders(bytes, size, room->holders, 64, &count, &room->err);
}

static enum kvt_err
decode_masks(struct room *room, const void *bytes, size_t size)
{
    size_t count;

    return wire_query_decode_masks(bytes, size, room->masks, 1024, &count, &room->err);
}

static enum kvt_err
decode_page(struct room *room, const void *bytes, size_t size)
{
    enum kvt_err status;
    uint64_t cursor;
    const void *batch;
    size_t batch_size;

    return wire_query_decode_page(bytes, size, &status, &cursor, &batch, &batch_size, &room->err);
}

static enum kvt_err
decode_dump(struct room *room, const void *bytes, size_t size)
{
    struct wire_query_dump dump;

    return wire_query_decode_dump(bytes, size, &dump, &room->err);
}

static enum kvt_err
decode_range(struct room *room, const void *bytes, size_t size)
{
    struct wire_query_range range;

    return wire_query_decode_range(bytes, size, &range, &room->err);
}

static const struct {
    const char *hex;
    enum kvt_err (*decode)(struct room *room, const void *bytes, size_t size);
} codecs[] = {
    {event_hex, decode_event}, {order_hex, decode_order},     {report_hex, decode_report},
    {query_hex, decode_query}, {holders_hex, decode_holders}, {masks_hex, decode_masks},
    {page_hex, decode_page},   {dump_hex, decode_dump},       {range_hex, decode_range},
};

enum { CODECS = sizeof(codecs) / sizeof(codecs[0]) };

static size_t
from_hex(const char *hex, uint8_t *bytes)
{
    const size_t size = strlen(hex) / 2;
    char pair[3] = "";

    assert_true(size <= INPUT_MAX);
    for (size_t i = 0; i < size; i++) {
        memcpy(pair, hex + 2 * i, 2);
        bytes[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return size;
}

static void
assert_bytes(const struct kvt_buffer *buffer, const char *hex)
{
    uint8_t bytes[INPUT_MAX];

    assert_int_equal(buffer->size, from_hex(hex, bytes));
    assert_memory_equal(buffer->data, bytes, buffer->size);
}

/* Decode a copy that has not one byte more than `size`. */
static enum kvt_err
decode_exact(size_t codec, struct room *room, const uint8_t *bytes, size_t size)
{
    uint8_t *copy = kvt_calloc(size > 0 ? size : 1, 1);
    enum kvt_err rc;

    assert_non_null(copy);
    memcpy(copy, bytes, size);
    rc = codecs[codec].decode(room, copy, size);
    kvt_free(copy);
    return rc;
}

static void
events_have_these_bytes(void **state)
{
    struct room *room = room_new();
    struct kvt_event_batch *batch = &room->batch;
    struct kvt_buffer out;
    uint8_t bytes[INPUT_MAX];
    const size_t size = from_hex(event_hex, bytes);
    uint32_t skipped;

    (void)state;
    assert_int_equal(wire_event_decode(bytes, size, batch, 3, &skipped, &room->err), KVT_OK);
    assert_int_equal(skipped, 0);
    assert_string_equal(batch->namespace_, "acme/llama");
    assert_string_equal(batch->worker, "w1");
    assert_int_equal(batch->incarnation, 0x18c0ffee00001);
    assert_int_equal(batch->first_seq, 1000);
    assert_int_equal(batch->time_ms, 1700000000123);
    assert_int_equal(batch->location_count, 2);
    assert_int_equal(batch->locations[0].tier, KVT_TIER_G2);
    assert_string_equal(batch->locations[1].name, "cold@kv");
    assert_int_equal(batch->locations[1].dp_rank, 3);
    assert_int_equal(batch->event_count, 3);
    assert_int_equal(batch->events[0].type, KVT_EVENT_STORE);
    assert_int_equal(batch->events[0].sequence_hash, 0x0123456789abcdef);
    assert_int_equal(batch->events[0].prefix_hash, 0xfedcba9876543210);
    assert_int_equal(batch->events[0].block_size, 65536);
    assert_int_equal(batch->events[0].ranks, 1); /* left out */
    assert_int_equal(batch->events[1].type, KVT_EVENT_REMOVE);
    assert_int_equal(batch->events[1].location, 1);
    assert_int_equal(batch->events[1].sequence_hash, UINT64_MAX);
    assert_int_equal(batch->events[1].parent, 0x0123456789abcdef);
    assert_int_equal(batch->events[1].position, 300);
    assert_int_equal(batch->events[1].ranks, 5);
    assert_int_equal(batch->events[1].tokens_hash, 0x8000000000000000);
    assert_int_equal(batch->events[2].position, 8);

    kvt_buffer_init(&out, WIRE_EVENT_BATCH_MAX);
    assert_int_equal(wire_event_encode(batch, &out), KVT_OK);
    assert_bytes(&out, event_hex);
    kvt_buffer_release(&out);
    kvt_free(room);
}

static void
orders_have_these_bytes(void **state)
{
    struct room *room = room_new();
    struct kvt_order *order = &room->order;
    struct kvt_buffer out;
    uint8_t bytes[INPUT_MAX];
    const size_t size = from_hex(order_hex, bytes);

    (void)state;
    assert_int_equal(decode_order(room, bytes, size), KVT_OK);
    assert_string_equal(order->gateway, "gw1");
    assert_string_equal(order->namespace_, "ns");
    assert_int_equal(order->epoch, 3);
    assert_int_equal(order->id, 4);
    assert_int_equal(order->issued_ms, 1000);
    assert_int_equal(order->expires_ms, 2000);
    assert_int_equal(order->verb, KVT_ORDER_DEMOTE);
    assert_string_equal(order->reason, "lru");
    assert_int_equal(order->item_count, 1);
    assert_int_equal(order->items[0].block.hash, UINT64_MAX);
    assert_int_equal(order->items[0].block.parent, 1);
    assert_int_equal(order->items[0].block.position, 2);
    assert_int_equal(order->items[0].ranks, 3);
    kvt_buffer_init(&out, WIRE_ORDER_MAX);
    assert_int_equal(wire_order_encode(order, &order_key, true, &out), KVT_OK);
    assert_bytes(&out, order_hex);
    kvt_buffer_release(&out);
    kvt_free(room);
}

/* Whoever can publish must not be able to delete. */
static void
an_order_with_another_signature_is_refused(void **state)
{
    struct wire_key_ring other = order_key;
    struct room *room = room_new();
    uint8_t bytes[INPUT_MAX];
    const size_t size = from_hex(order_hex, bytes);

    (void)state;
    other.lines[0].master.bytes[15] ^= 1;
    assert_int_equal(
        wire_order_decode(bytes, size, &other, "g1", &room->order, KVT_ORDER_ITEMS_MAX, &room->err),
        KVT_DENIED);
    assert_int_equal(room->order.item_count, 0);
    /* Any single flipped bit of payload or signature. */
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        assert_int_not_equal(decode_order(room, bytes, size), KVT_OK);
        bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
    assert_int_equal(decode_order(room, bytes, size), KVT_OK);
    other.lines[0].master.size = WIRE_KEY_MIN - 1;
    assert_int_equal(
        wire_order_decode(bytes, size, &other, "g1", &room->order, KVT_ORDER_ITEMS_MAX, &room->err),
        KVT_DENIED);
    kvt_free(room);
}

static void
reports_have_these_bytes(void **state)
{
    struct room *room = room_new();
    struct kvt_report *report = &room->report;
    struct kvt_buffer out;
    uint8_t bytes[INPUT_MAX];
    const size_t size = from_hex(report_hex, bytes);

    (void)state;
    assert_int_equal(decode_report(room, bytes, size), KVT_OK);
    assert_string_equal(report->gateway, "gw1");
    assert_int_equal(report->seq, 9);
    assert_int_equal(report->incarnation, 8);
    assert_int_equal(report->time_ms, 7);
    assert_true(report->healthy);
    assert_int_equal(report->tier_count, 1);
    assert_string_equal(report->tiers[0].name, "hot@gw1");
    assert_int_equal(report->tiers[0].capacity_bytes, 20);
    assert_int_equal(report->access_count, 1);
    assert_int_equal(report->accesses[0].hash, 0x1122334455667788);
    assert_int_equal(report->accesses[0].count, 2);
    assert_int_equal(report->accesses[0].bytes, 131072);
    assert_int_equal(report->result_count, 1);
    assert_int_equal(report->results[0].epoch, 3);
    assert_int_equal(report->results[0].verb, KVT_ORDER_DEMOTE);
    assert_int_equal(report->results[0].bytes_moved, 65536);
    kvt_buffer_init(&out, WIRE_REPORT_MAX);
    assert_int_equal(wire_report_encode(report, &out), KVT_OK);
    assert_bytes(&out, report_hex);
    kvt_buffer_release(&out);
    kvt_free(room);
}

static void
later_members_of_find_come_and_go(void **state)
{
    uint64_t hashes[] = {1, UINT64_MAX};
    struct wire_query query = {.namespace_ = "ns", .hashes = hashes, .hash_count = 2};
    const struct wire_query_holder holders[] = {
        {.name = "w1", .tier = KVT_TIER_G2, .blocks = 5, .uncertain = true},
        {.name = "w2", .tier = KVT_TIER_G1, .blocks = 4},
    };
    struct room *room = room_new();
    struct kvt_buffer out;
    size_t count;

    (void)state;
    kvt_buffer_init(&out, WIRE_QUERY_MAX);
    for (unsigned way = 0; way < 4; way++) {
        query.by_tokens = (way & 1) != 0;
        query.early_exit = (way & 2) != 0;
        kvt_buffer_clear(&out);
        assert_int_equal(wire_query_encode(&query, &out), KVT_OK);
        assert_int_equal(wire_query_decode(out.data, out.size, &room->query, 1024, &room->err),
                         KVT_OK);
        assert_int_equal(room->query.by_tokens, query.by_tokens);
        assert_int_equal(room->query.early_exit, query.early_exit);
        assert_int_equal(room->query.hash_count, 2);
    }
    kvt_buffer_clear(&out);
    assert_int_equal(wire_query_encode_holders(holders, 2, false, &out), KVT_OK);
    assert_int_equal(
        wire_query_decode_holders(out.data, out.size, room->holders, 64, &count, &room->err),
        KVT_OK);
    assert_int_equal(count, 2);
    assert_true(room->holders[0].uncertain);
    assert_false(room->holders[1].uncertain);
    kvt_buffer_release(&out);
    kvt_free(room);
}

static void
questions_and_answers_have_these_bytes(void **state)
{
    uint64_t hashes[] = {1, UINT64_MAX};
    const struct wire_query query = {.namespace_ = "ns", .hashes = hashes, .hash_count = 2};
    const struct wire_query_holder holder = {.name = "w1", .tier = KVT_TIER_G2, .blocks = 5};
    const uint8_t masks[] = {0, 4, 20};
    const struct wire_query_dump dump = {.cursor = 5, .limit = 256};
    const struct wire_query_range range = {.incarnation = 6, .from = 7, .to = 1000};
    struct room *room = room_new();
    struct kvt_buffer out;
    uint8_t bytes[INPUT_MAX];
    size_t count;

    (void)state;
    kvt_buffer_init(&out, WIRE_QUERY_MAX);
    assert_int_equal(wire_query_encode(&query, &out), KVT_OK);
    assert_bytes(&out, query_hex);
    kvt_buffer_clear(&out);
    assert_int_equal(wire_query_encode_holders(&holder, 1, false, &out), KVT_OK);
    assert_bytes(&out, holders_hex);
    kvt_buffer_clear(&out);
    assert_int_equal(wire_query_encode_masks(masks, 3, false, &out), KVT_OK);
    assert_bytes(&out, masks_hex);
    kvt_buffer_clear(&out);
    assert_int_equal(wire_query_encode_page(KVT_OK, 77, "abc", 3, &out), KVT_OK);
    assert_bytes(&out, page_hex);
    kvt_buffer_clear(&out);
    assert_int_equal(wire_query_encode_dump(&dump, &out), KVT_OK);
    assert_bytes(&out, dump_hex);
    kvt_buffer_clear(&out);
    assert_int_equal(wire_query_encode_range(&range, &out), KVT_OK);
    assert_bytes(&out, range_hex);

    assert_int_equal(decode_query(room, bytes, from_hex(query_hex, bytes)), KVT_OK);
    assert_int_equal(room->query.hash_count, 2);
    assert_int_equal(room->hashes[1], UINT64_MAX);
    assert_int_equal(wire_query_decode_holders(bytes, from_hex(holders_hex, bytes), room->holders,
                                               64, &count, &room->err),
                     KVT_OK);
    assert_int_equal(count, 1);
    assert_string_equal(room->holders[0].name, "w1");
    assert_int_equal(room->holders[0].blocks, 5);
    assert_int_equal(wire_query_decode_masks(bytes, from_hex(masks_hex, bytes), room->masks, 3,
                                             &count, &room->err),
                     KVT_OK);
    assert_int_equal(count, 3);
    assert_memory_equal(room->masks, masks, 3);
    assert_int_equal(wire_query_decode_masks(bytes, from_hex(masks_hex, bytes), room->masks, 2,
                                             &count, &room->err),
                     KVT_RANGE);
    kvt_buffer_release(&out);
    kvt_free(room);
}

static void
an_answer_says_that_the_index_loads(void **state)
{
    const struct wire_query_holder holder = {
        .name = "w1", .tier = KVT_TIER_G2, .blocks = 5, .uncertain = true};
    const uint8_t masks[] = {0, 4, 20};
    struct room *room = room_new();
    struct kvt_buffer out;
    size_t count;

    (void)state;
    kvt_buffer_init(&out, WIRE_QUERY_MAX);
    for (unsigned loading = 0; loading < 2; loading++) {
        kvt_buffer_clear(&out);
        assert_int_equal(wire_query_encode_holders(&holder, 1, loading == 1, &out), KVT_OK);
        assert_int_equal(wire_query_loading(out.data, out.size), loading);
        for (size_t size = 0; size < out.size; size++)
            assert_false(wire_query_loading(out.data, size));
        assert_int_equal(
            wire_query_decode_holders(out.data, out.size, room->holders, 64, &count, &room->err),
            KVT_OK);
        assert_true(count == 1 && room->holders[0].uncertain);
        kvt_buffer_clear(&out);
        assert_int_equal(wire_query_encode_masks(masks, 3, loading == 1, &out), KVT_OK);
        assert_int_equal(wire_query_loading(out.data, out.size), loading);
        assert_int_equal(
            wire_query_decode_masks(out.data, out.size, room->masks, 64, &count, &room->err),
            KVT_OK);
        assert_true(count == 3 && memcmp(room->masks, masks, 3) == 0);
    }
    kvt_buffer_clear(&out);
    assert_int_equal(wire_query_encode_failure(KVT_BUSY, "loading", &out), KVT_OK);
    assert_false(wire_query_loading(out.data, out.size));
    kvt_buffer_release(&out);
    kvt_free(room);
}

static void
a_failed_answer_carries_code_and_words(void **state)
{
    struct room *room = room_new();
    struct kvt_buffer out;
    enum kvt_err status;
    uint64_t cursor;
    const void *batch;
    size_t count;

    (void)state;
    kvt_buffer_init(&out, WIRE_QUERY_MAX);
    assert_int_equal(wire_query_encode_failure(KVT_BUSY, "loading", &out), KVT_OK);
    assert_int_equal(
        wire_query_decode_holders(out.data, out.size, room->holders, 64, &count, &room->err),
        KVT_BUSY);
    assert_string_equal(room->err.text, "loading");
    assert_int_equal(
        wire_query_decode_masks(out.data, out.size, room->masks, 64, &count, &room->err), KVT_BUSY);
    assert_int_equal(
        wire_query_decode_page(out.data, out.size, &status, &cursor, &batch, &count, &room->err),
        KVT_OK);
    assert_int_equal(status, KVT_BUSY);
    assert_null(batch);
    kvt_buffer_release(&out);
    kvt_free(room);
}

static void
every_truncation_is_refused(void **state)
{
    struct room *room = room_new();
    uint8_t bytes[INPUT_MAX];

    (void)state;
    for (size_t codec = 0; codec < CODECS; codec++) {
        const size_t size = from_hex(codecs[codec].hex, bytes);

        assert_int_equal(decode_exact(codec, room, bytes, size), KVT_OK);
        for (size_t cut = 0; cut < size; cut++) {
            room->err.text[0] = '\0';
            assert_int_equal(decode_exact(codec, room, bytes, cut), KVT_INVALID);
            assert_non_null(strstr(room->err.text, "at byte "));
        }
        bytes[size] = 0xc0;
        assert_int_equal(decode_exact(codec, room, bytes, size + 1), KVT_INVALID);
    }
    kvt_free(room);
}

/* Flips, cuts and insertions: nothing is read behind the input, and what is accepted keeps the
 * promises of an accepted message. */
static void
random_mutations_do_no_harm(void **state)
{
    struct room *room = room_new();
    uint64_t random = test_seed();
    uint32_t accepted = 0;

    (void)state;
    for (int round = 0; round < MUTATIONS; round++) {
        const size_t codec = kvt_random_below(&random, CODECS);
        uint8_t bytes[INPUT_MAX];
        size_t size = from_hex(codecs[codec].hex, bytes);
        const uint64_t changes = 1 + kvt_random_below(&random, 4);

        for (uint64_t i = 0; i < changes && size > 0; i++) {
            const size_t at = kvt_random_below(&random, size);

            switch (kvt_random_below(&random, 4)) {
            case 0: bytes[at] = (uint8_t)kvt_random_next(&random); break;
            case 1: bytes[at] ^= (uint8_t)(1u << kvt_random_below(&random, 8)); break;
            case 2: size = at; break;
            default:
                if (size < INPUT_MAX) {
                    memmove(bytes + at + 1, bytes + at, size - at);
                    bytes[at] = (uint8_t)kvt_random_next(&random);
                    size++;
                }
                break;
            }
        }
        if (decode_exact(codec, room, bytes, size) != KVT_OK)
            continue;
        accepted++;
        assert_true(room->batch.event_count <= KVT_EVENTS_PER_BATCH_MAX);
        assert_true(room->batch.location_count <= KVT_LOCATIONS_MAX);
        for (uint32_t i = 0; codec == 0 && i < room->batch.event_count; i++) {
            assert_true(room->events[i].location < room->batch.location_count);
            assert_in_range(room->events[i].type, KVT_EVENT_STORE, KVT_EVENT_BYE);
            assert_true(room->events[i].position <= KVT_POSITION_MAX);
        }
        for (uint32_t i = 0; codec == 2 && i < room->report.access_count; i++)
            assert_true(room->accesses[i].tier_index < room->report.tier_count);
    }
    assert_true(accepted > 0);
    kvt_free(room);
}

/* Readers of today meet writers of tomorrow. */
static void
unknown_members_are_ignored_and_unknown_values_are_counted(void **state)
{
    /* A ninth header member (a map), a fourth location member, a tier 9, an event of type 77, one
     * at the unknown tier, and one that we know, with a tenth member. */
    static const char *const hex = "9901a0a177010000929402000007930900a0"
                                   "93954d0001010195010101010195"
                                   "0100050505";
    static const char *const tomorrow = "9901a0a1770107009294"
                                        "0200a0c3"
                                        "930900a0"
                                        "93"
                                        "954d00010101"
                                        "950101020202"
                                        "9a0100050505000001009203a0"
                                        "81a16b93c0cb3ff0000000000000c7020165f0";
    struct room *room = room_new();
    uint8_t bytes[INPUT_MAX];
    uint32_t skipped;
    size_t size = from_hex(tomorrow, bytes);

    (void)state;
    assert_int_equal(wire_event_decode(bytes, size, &room->batch, 10, &skipped, &room->err),
                     KVT_OK);
    assert_int_equal(skipped, 2);
    assert_int_equal(room->batch.first_seq, 7);
    assert_int_equal(room->batch.event_count, 1);
    assert_int_equal(room->events[0].sequence_hash, 5);
    assert_int_equal(room->batch.locations[1].tier, WIRE_EVENT_TIER_UNKNOWN);

    /* The same with a name that is a number: refused where it stands. */
    size = from_hex(hex, bytes);
    assert_int_equal(wire_event_decode(bytes, size, &room->batch, 10, &skipped, &room->err),
                     KVT_INVALID);
    assert_non_null(strstr(room->err.text, "location name"));
    assert_int_equal(room->batch.event_count, 0);
    kvt_free(room);
}

static void
assert_refused(const char *hex, enum kvt_err code, const char *words)
{
    struct room *room = room_new();
    uint8_t bytes[INPUT_MAX];

    assert_int_equal(decode_event(room, bytes, from_hex(hex, bytes)), code);
    if (strstr(room->err.text, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", room->err.text, words);
    kvt_free(room);
}

static void
malformed_batches_say_where_and_what(void **state)
{
    (void)state;
    assert_refused("", KVT_INVALID, "at byte 0 expected a batch");
    assert_refused("c0", KVT_INVALID, "at byte 0 expected a batch");
    assert_refused("9802a0a0000000"
                   "9090",
                   KVT_INVALID, "version 1");
    assert_refused("9801c0a0000000"
                   "9090",
                   KVT_INVALID, "at byte 2 expected a namespace");
    assert_refused("9801a1"
                   "00a0000000"
                   "9090",
                   KVT_INVALID, "at byte 2 expected a namespace");
    assert_refused("9801a0a0d0ff0000"
                   "9090",
                   KVT_INVALID, "at byte 4 expected an incarnation");
    assert_refused("9801a0a0000000"
                   "90ddffffffff",
                   KVT_INVALID, "at byte 8 expected an array");
    /* A location index outside its table. */
    assert_refused("9801a0a0000000"
                   "90"
                   "91950100010101",
                   KVT_INVALID, "inside the table");
    assert_refused("9801a0a0000000"
                   "919301"
                   "00a0"
                   "91950101010101",
                   KVT_INVALID, "at byte 15 expected a location index inside");
    /* A position that no key can have. */
    assert_refused("9801a0a0000000"
                   "91930100a0"
                   "919701000101010"
                   "0ce01000000",
                   KVT_INVALID, "position");
    /* Numbers that would pass 2^64. */
    assert_refused("9801a0a000cfffffffffffffffff00"
                   "91930100a0"
                   "91950100010101",
                   KVT_INVALID, "sequences below");
    /* 65 locations. */
    assert_refused("9801a0a0000000"
                   "dc0041c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0"
                   "c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c090",
                   KVT_RANGE, "at most 64 locations");
}

static void
limits_are_answers(void **state)
{
    struct room *room = room_new();
    struct kvt_buffer out;
    uint32_t skipped;

    (void)state;
    kvt_buffer_init(&out, WIRE_EVENT_BATCH_MAX);
    room->batch.location_count = 1;
    room->batch.locations[0].tier = KVT_TIER_G1;
    room->batch.event_count = KVT_EVENTS_PER_BATCH_MAX + 1;
    assert_int_equal(wire_event_encode(&room->batch, &out), KVT_RANGE);
    assert_int_equal(out.size, 0);

    /* The largest batch with the largest members fits a message, at 100 bytes an event or less. */
    room->batch.event_count = KVT_EVENTS_PER_BATCH_MAX;
    for (uint32_t i = 0; i < KVT_EVENTS_PER_BATCH_MAX; i++)
        room->events[i] = (struct kvt_event){.sequence_hash = UINT64_MAX,
                                             .prefix_hash = UINT64_MAX,
                                             .block_size = UINT64_MAX,
                                             .parent = UINT64_MAX,
                                             .tokens_hash = UINT64_MAX,
                                             .position = KVT_POSITION_MAX,
                                             .ranks = UINT32_MAX,
                                             .type = KVT_EVENT_STORE};
    assert_int_equal(wire_event_encode(&room->batch, &out), KVT_OK);
    assert_true(out.size <= KVT_EVENTS_PER_BATCH_MAX * 100u);
    assert_int_equal(wire_event_decode(out.data, out.size, &room->batch, KVT_EVENTS_PER_BATCH_MAX,
                                       &skipped, NULL),
                     KVT_OK);
    assert_int_equal(room->batch.event_count, KVT_EVENTS_PER_BATCH_MAX);
    assert_int_equal(wire_event_decode(out.data, out.size, &room->batch,
                                       KVT_EVENTS_PER_BATCH_MAX - 1, &skipped, &room->err),
                     KVT_RANGE);
    kvt_buffer_release(&out);

    /* A buffer that is too small keeps what it had. */
    kvt_buffer_init(&out, 64);
    kvt_buffer_append(&out, "before", 6);
    room->batch.event_count = 10;
    assert_int_equal(wire_event_encode(&room->batch, &out), KVT_RANGE);
    assert_int_equal(out.size, 6);
    kvt_buffer_release(&out);

    kvt_buffer_init(&out, WIRE_EVENT_BATCH_MAX);
    kvt_alloc_fail_after(0);
    assert_int_equal(wire_event_encode(&room->batch, &out), KVT_NOMEM);
    assert_int_equal(wire_order_encode(&room->order, &order_key, true, &out), KVT_NOMEM);
    kvt_alloc_fail_after(SIZE_MAX);
    kvt_buffer_release(&out);
    room->order.item_count = KVT_ORDER_ITEMS_MAX + 1;
    assert_int_equal(wire_order_encode(&room->order, &order_key, true, &out), KVT_RANGE);
    room->report.access_count = KVT_REPORT_ACCESSES_MAX + 1;
    assert_int_equal(wire_report_encode(&room->report, &out), KVT_RANGE);
    room->query.hash_count = WIRE_QUERY_HASHES_MAX + 1;
    assert_int_equal(wire_query_encode(&room->query, &out), KVT_RANGE);
    kvt_free(room);
}

static void
typical_events_are_small(void **state)
{
    enum { COUNT = 256 };
    struct room *room = room_new();
    struct kvt_buffer out;
    uint64_t random = test_seed();

    (void)state;
    kvt_buffer_init(&out, WIRE_EVENT_BATCH_MAX);
    (void)snprintf(room->batch.namespace_, KVT_NAMESPACE_MAX, "tenant/model-0123456789abcdef");
    (void)snprintf(room->batch.worker, KVT_NAME_MAX, "node-17.worker-3");
    room->batch.location_count = 1;
    room->batch.locations[0].tier = KVT_TIER_G2;
    room->batch.event_count = COUNT;
    for (uint32_t i = 0; i < COUNT; i++)
        room->events[i] = (struct kvt_event){.sequence_hash = kvt_random_next(&random),
                                             .prefix_hash = kvt_random_next(&random),
                                             .block_size = 262144,
                                             .parent = kvt_random_next(&random),
                                             .position = i,
                                             .ranks = 1,
                                             .type = KVT_EVENT_STORE};
    assert_int_equal(wire_event_encode(&room->batch, &out), KVT_OK);
    assert_true(out.size / COUNT <= 40); /* promised: 100 */
    kvt_buffer_release(&out);
    kvt_free(room);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_have_these_bytes),
        cmocka_unit_test(orders_have_these_bytes),
        cmocka_unit_test(an_order_with_another_signature_is_refused),
        cmocka_unit_test(reports_have_these_bytes),
        cmocka_unit_test(questions_and_answers_have_these_bytes),
        cmocka_unit_test(later_members_of_find_come_and_go),
        cmocka_unit_test(an_answer_says_that_the_index_loads),
        cmocka_unit_test(a_failed_answer_carries_code_and_words),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(random_mutations_do_no_harm),
        cmocka_unit_test(unknown_members_are_ignored_and_unknown_values_are_counted),
        cmocka_unit_test(malformed_batches_say_where_and_what),
        cmocka_unit_test(limits_are_answers),
        cmocka_unit_test(typical_events_are_small),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
