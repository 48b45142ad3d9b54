/*
 * What is tested: wire/dialect/dynamo_answer.c: worker queries, their answers and HTTP dumps.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "base/text/msgpack.h"
#include "wire/dialect/dialect.h"
#include "wire/dialect/dynamo_answer.h"

#include "tests/fuzz/raw.h"
#include "tests/support/seed.h"
#include "tests/unit/wire/dialect/dialect_bytes.h"

#define A "{'worker_id':1,'event':{'event_id':5,'data':{'removed':{'block_hashes':[1,2]}}}}"
#define B "{'worker_id':1,'event':{'event_id':6,'data':'cleared'}}"

static struct dialect_bytes message;

/* ---- the question ---- */

static void
questions_name_all_members(void **state)
{
    static const uint8_t dump[] = "\x86\xa9worker_id\xcf\xff\xff\xff\xff\xff\xff\xff\xff"
                                  "\xa7"
                                  "dp_rank\x03\xae"
                                  "start_event_id\xc0\xac"
                                  "end_event_id\xc0\xb9"
                                  "supports_tree_dump_failed\xc3\xa4kind\xa8recovery";
    struct kvt_buffer out;

    (void)state;
    kvt_buffer_init(&out, 4096);
    assert_int_equal(wire_dynamo_encode_query(UINT64_MAX, 3, 0, &out), KVT_OK);
    assert_int_equal(out.size, sizeof(dump) - 1);
    assert_memory_equal(out.data, dump, sizeof(dump) - 1);
    kvt_buffer_clear(&out);
    assert_int_equal(wire_dynamo_encode_query(1, 0, 200, &out), KVT_OK);
    assert_non_null(memmem(out.data, out.size, "start_event_id\xcc\xc8", 16));
    kvt_buffer_clear(&out);
    assert_int_equal(wire_dynamo_encode_query_json(UINT64_MAX, 3, 7, &out), KVT_OK);
    assert_string_equal(kvt_buffer_text(&out),
                        "{\"worker_id\":18446744073709551615,\"dp_rank\":3,\"start_event_id\":7,"
                        "\"end_event_id\":null,\"supports_tree_dump_failed\":true,"
                        "\"kind\":\"recovery\"}");
    kvt_buffer_clear(&out);
    assert_int_equal(wire_dynamo_encode_query_json(1, 0, 0, &out), KVT_OK);
    assert_non_null(strstr(kvt_buffer_text(&out), "\"start_event_id\":null"));
    kvt_buffer_release(&out);
    kvt_buffer_init(&out, 20);
    assert_int_equal(wire_dynamo_encode_query(1, 0, 0, &out), KVT_RANGE);
    assert_int_equal(out.size, 0);
    kvt_buffer_clear(&out);
    assert_int_equal(wire_dynamo_encode_query_json(1, 0, 0, &out), KVT_RANGE);
    assert_int_equal(out.size, 0);
    kvt_buffer_release(&out);
}

/* ---- the answer ---- */

static void
answers_of_every_variant(void **state)
{
    static const struct {
        const char *text;
        enum wire_dynamo_answer what;
        uint64_t newest;
        uint32_t events;
    } rows[] = {
        {"{'Events':{'events':[" A "," B "],'last_event_id':9}}", WIRE_DYNAMO_EVENTS, 9, 2},
        {"{'Events':[" A "," B "]}", WIRE_DYNAMO_EVENTS, 6, 2},
        {"{'Events':{'last_event_id':9,'events':[]}}", WIRE_DYNAMO_EVENTS, 9, 0},
        {"{'TreeDump':{'events':[" A "],'last_event_id':9,'reset_scope':'all'}}", WIRE_DYNAMO_DUMP,
         9, 1},
        {"{'TreeDump':{'events':[" A "],'last_event_id':9}}", WIRE_DYNAMO_DUMP, 9, 1},
        {"{'TreeDump':[" A "]}", WIRE_DYNAMO_DUMP, 0, 1},
        {"{'TreeDump':{'events':[" A "],'last_event_id':9,'reset_scope':{'domain':'worker'}}}",
         WIRE_DYNAMO_DUMP, 9, 1},
        /* All of something else: to take it for all would void what we know. */
        {"{'TreeDump':{'events':[" A "],'last_event_id':9,'reset_scope':{'domain':'cache_owner'}}}",
         WIRE_DYNAMO_REFUSED, 9, 0},
        {"{'TreeDump':{'events':[" A "],'last_event_id':9,'reset_scope':'half'}}",
         WIRE_DYNAMO_REFUSED, 9, 0},
        {"{'TreeDumpFailed':{'last_event_id':9,'message':'busy'}}", WIRE_DYNAMO_REFUSED, 9, 0},
        {"{'TooNew':{'requested_start':12,'requested_end':null,'newest_available':9}}",
         WIRE_DYNAMO_TOO_NEW, 9, 0},
        {"{'InvalidRange':{'start_id':5,'end_id':1}}", WIRE_DYNAMO_REFUSED, 0, 0},
        {"{'Error':'no indexer'}", WIRE_DYNAMO_REFUSED, 0, 0},
        {"{'Status':{'identity':{'publisher_id':2},'attachment':null,'outbound_cursor':5}}",
         WIRE_DYNAMO_REFUSED, 0, 0},
        {"{'data':{'Events':{'events':[" A "],'last_event_id':9}},'complete_final':false}",
         WIRE_DYNAMO_EVENTS, 9, 1},
        {"{'data':{'StateAgentRecovery':{'receipt':{'recovered_through_cursor':3},'response':{"
         "'TreeDump':{'events':[" A "],'last_event_id':9}}}},'complete_final':false}",
         WIRE_DYNAMO_DUMP, 9, 1},
    };
    struct wire_raw_batch *batch = *state;
    struct kvt_error err;

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        for (int json = 0; json < 2; json++) {
            struct wire_dynamo_part part = {.more = false};

            if (json)
                dialect_bytes_json(&message, rows[i].text);
            else
                dialect_bytes_pack(&message, rows[i].text);
            print_message("%s\n", rows[i].text);
            assert_int_equal(
                wire_dynamo_decode_answer_part(message.bytes, message.size, &part, batch, &err),
                KVT_OK);
            assert_false(part.more);
            assert_int_equal(part.what, rows[i].what);
            assert_int_equal(part.newest, rows[i].newest);
            assert_int_equal(batch->event_count, rows[i].events);
            raw_assert_good(batch);
        }
    }
}

static void
what_is_no_answer(void **state)
{
    static const char *const bad[] = {
        "{}",
        "[]",
        "7",
        "{'Later':{}}",
        "{'data':7,'complete_final':false}",
        "{'complete_final':true}",
        "{'Events':7}",
        "{'TreeDump':{'last_event_id':9}}",
        "{'Events':{'events':{},'last_event_id':9}}",
        "{'data':{'data':{'data':{'data':{'Events':[]}}}}}",
    };
    struct wire_raw_batch *batch = *state;
    struct kvt_error err;

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        for (int json = 0; json < 2; json++) {
            struct wire_dynamo_part part = {.more = false};

            if (json)
                dialect_bytes_json(&message, bad[i]);
            else
                dialect_bytes_pack(&message, bad[i]);
            print_message("%s\n", bad[i]);
            assert_int_equal(
                wire_dynamo_decode_answer_part(message.bytes, message.size, &part, batch, &err),
                KVT_INVALID);
            assert_false(part.more);
            raw_assert_empty(batch);
        }
    }
}

static void
no_prefix_is_an_answer(void **state)
{
    struct wire_raw_batch *batch = *state;
    struct kvt_error err;

    for (int json = 0; json < 2; json++) {
        if (json)
            dialect_bytes_json(&message, "{'TreeDump':{'events':[" A "," B "],'last_event_id':9}}");
        else
            dialect_bytes_pack(&message, "{'TreeDump':{'events':[" A "," B "],'last_event_id':9}}");
        for (size_t size = 0; size < message.size; size++) {
            struct wire_dynamo_part part = {.more = false};
            uint8_t *copy = kvt_calloc(size > 0 ? size : 1, 1);

            assert_non_null(copy);
            memcpy(copy, message.bytes, size);
            assert_int_equal(wire_dynamo_decode_answer_part(copy, size, &part, batch, &err),
                             KVT_INVALID);
            raw_assert_empty(batch);
            kvt_free(copy);
        }
    }
}

/* ---- answers that are larger than a batch ---- */

enum { MANY = 3 * WIRE_RAW_EVENTS_MAX + 17, HASHES = 3 };

/* {"TreeDump": {"events": [...MANY...], "last_event_id": MANY}} */
static void
build_pack(struct kvt_buffer *out)
{
    struct kvt_msgpack_writer writer;

    kvt_msgpack_write(&writer, out, 8 << 20);
    kvt_msgpack_put_map(&writer, 1);
    kvt_msgpack_put_str(&writer, "TreeDump");
    kvt_msgpack_put_map(&writer, 2);
    kvt_msgpack_put_str(&writer, "events");
    kvt_msgpack_put_array(&writer, MANY);
    for (uint64_t i = 0; i < MANY; i++) {
        kvt_msgpack_put_map(&writer, 2);
        kvt_msgpack_put_str(&writer, "worker_id");
        kvt_msgpack_put_uint(&writer, 1);
        kvt_msgpack_put_str(&writer, "event");
        kvt_msgpack_put_map(&writer, 2);
        kvt_msgpack_put_str(&writer, "event_id");
        kvt_msgpack_put_uint(&writer, i);
        kvt_msgpack_put_str(&writer, "data");
        kvt_msgpack_put_map(&writer, 1);
        kvt_msgpack_put_str(&writer, "removed");
        kvt_msgpack_put_map(&writer, 1);
        kvt_msgpack_put_str(&writer, "block_hashes");
        kvt_msgpack_put_array(&writer, HASHES);
        for (uint64_t j = 0; j < HASHES; j++)
            kvt_msgpack_put_uint(&writer, i * HASHES + j);
    }
    kvt_msgpack_put_str(&writer, "last_event_id");
    kvt_msgpack_put_uint(&writer, MANY);
    assert_int_equal(kvt_msgpack_done(&writer), KVT_OK);
}

static void
put_json_events(struct kvt_buffer *out)
{
    for (unsigned i = 0; i < MANY; i++)
        kvt_buffer_printf(out,
                          "%s{\"worker_id\":1,\"event\":{\"event_id\":%u,\"data\":{\"removed\":{"
                          "\"block_hashes\":[%u,%u,%u]}}}}",
                          i == 0 ? "" : ", ", i, 3 * i, 3 * i + 1, 3 * i + 2);
}

/* Every event once, in order. */
static void
assert_next(const struct wire_raw_batch *batch, uint64_t *next)
{
    raw_assert_good(batch);
    for (uint32_t i = 0; i < batch->event_count; i++, (*next)++) {
        assert_int_equal(batch->events[i].id, *next);
        assert_int_equal(batch->events[i].count, HASHES);
        for (uint32_t j = 0; j < HASHES; j++)
            assert_int_equal(batch->blocks[batch->events[i].first + j].hash, *next * HASHES + j);
    }
}

static void
answers_come_in_parts(void **state)
{
    struct wire_raw_batch *batch = *state;

    for (int json = 0; json < 2; json++) {
        struct wire_dynamo_part part = {.more = false};
        struct kvt_buffer out;
        struct kvt_error err;
        uint64_t next = 0;
        unsigned parts = 0;

        kvt_buffer_init(&out, 16 << 20);
        if (json) {
            kvt_buffer_printf(&out, "{\"TreeDump\":{\"events\":[");
            put_json_events(&out);
            kvt_buffer_printf(&out, "],\"last_event_id\":%u}}", MANY);
        } else {
            build_pack(&out);
        }
        assert_true(kvt_buffer_ok(&out));
        do {
            assert_int_equal(wire_dynamo_decode_answer_part(out.data, out.size, &part, batch, &err),
                             KVT_OK);
            assert_int_equal(part.what, WIRE_DYNAMO_DUMP);
            assert_int_equal(part.newest, MANY);
            assert_next(batch, &next);
            parts++;
        } while (part.more);
        assert_int_equal(next, MANY);
        assert_int_equal(parts, 4);
        kvt_buffer_release(&out);
    }
}

/* ---- the HTTP dump ---- */

/* All groups of the message's first `size` bytes; the first error ends it. */
static enum kvt_err
decode_dump(size_t size, struct wire_raw_batch *batch, uint64_t *events)
{
    struct wire_dynamo_part part = {.more = false};
    struct kvt_error err;
    enum kvt_err rc;

    *events = 0;
    do {
        rc = wire_dynamo_decode_dump_part(message.bytes, size, &part, batch, &err);
        *events += batch->event_count;
    } while (rc == KVT_OK && part.more);
    return rc;
}

static void
dumps_by_group(void **state)
{
    static const struct {
        const char *group;
        uint32_t events;
        enum wire_dynamo_answer what;
    } rows[] = {
        {"m:a", 2, WIRE_DYNAMO_DUMP}, {"m:b", 0, WIRE_DYNAMO_REFUSED}, {"m:c", 1, WIRE_DYNAMO_DUMP},
        {"m:d", 0, WIRE_DYNAMO_DUMP}, {"m:e", 0, WIRE_DYNAMO_REFUSED},
    };
    struct wire_dynamo_part part = {.more = false};
    struct wire_raw_batch *batch = *state;
    struct kvt_error err;
    uint64_t events;

    dialect_bytes_json(&message, "{'m:a':{'block_size':16,'events':[" A "," B
                                 "],'x':[]},'m:b':{'error':'gone'},'m:c':[" A
                                 "], 'm:d' : {'events':[]},'m:e':7 } ");
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(
            wire_dynamo_decode_dump_part(message.bytes, message.size, &part, batch, &err), KVT_OK);
        assert_string_equal(batch->namespace_, rows[i].group);
        assert_int_equal(batch->event_count, rows[i].events);
        assert_int_equal(part.what, rows[i].what);
        assert_int_equal(part.more, i < 4);
    }
    dialect_bytes_json(&message, "{'m:a':{'block_size':16,'events':[" A "," B "]},'m:c':[" A "]}");
    assert_int_equal(decode_dump(message.size, batch, &events), KVT_OK);
    assert_int_equal(events, 3);
    for (size_t size = 0; size < message.size; size++)
        assert_int_equal(decode_dump(size, batch, &events), KVT_INVALID);
}

static void
dumps_of_nothing_and_no_dumps(void **state)
{
    static const char *const bad[] = {"", "[]", "7", "{}x", "{'a':{'events':[}}", "{'a':[{]}"};
    struct wire_dynamo_part part = {.more = false};
    struct wire_raw_batch *batch = *state;
    struct kvt_error err;
    uint64_t events;
    char text[256];

    dialect_bytes_json(&message, "{}");
    assert_int_equal(wire_dynamo_decode_dump_part(message.bytes, message.size, &part, batch, &err),
                     KVT_OK);
    assert_int_equal(part.what, WIRE_DYNAMO_DUMP);
    assert_int_equal(batch->event_count, 0);
    assert_false(part.more);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        dialect_bytes_json(&message, bad[i]);
        assert_int_equal(decode_dump(message.size, batch, &events), KVT_INVALID);
    }
    (void)snprintf(text, sizeof(text), "{'%0150d':[]}", 0);
    dialect_bytes_json(&message, text);
    part = (struct wire_dynamo_part){.more = false};
    assert_int_equal(wire_dynamo_decode_dump_part(message.bytes, message.size, &part, batch, &err),
                     KVT_RANGE);
    raw_assert_empty(batch);
}

static void
dumps_come_in_parts(void **state)
{
    struct wire_dynamo_part part = {.more = false};
    struct wire_raw_batch *batch = *state;
    struct kvt_buffer out;
    struct kvt_error err;
    uint64_t next = 0;
    unsigned parts = 0;

    kvt_buffer_init(&out, 16 << 20);
    kvt_buffer_printf(&out, "{\"first\":{\"events\":[");
    put_json_events(&out);
    kvt_buffer_printf(&out, "],\"block_size\":4},\"second\":[");
    put_json_events(&out);
    kvt_buffer_printf(&out, "]}");
    do {
        assert_int_equal(wire_dynamo_decode_dump_part(out.data, out.size, &part, batch, &err),
                         KVT_OK);
        if (strcmp(batch->namespace_, "second") == 0 && next == MANY)
            next = 0;
        assert_next(batch, &next);
        parts++;
    } while (part.more);
    assert_int_equal(next, MANY);
    assert_int_equal(parts, 8);
    kvt_buffer_release(&out);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(questions_name_all_members),
        cmocka_unit_test(answers_of_every_variant),
        cmocka_unit_test(what_is_no_answer),
        cmocka_unit_test(no_prefix_is_an_answer),
        cmocka_unit_test(answers_come_in_parts),
        cmocka_unit_test(dumps_by_group),
        cmocka_unit_test(dumps_of_nothing_and_no_dumps),
        cmocka_unit_test(dumps_come_in_parts),
    };

    return cmocka_run_group_tests(tests, dialect_bytes_set_up, dialect_bytes_tear_down);
}
