/*
 * What is tested: wire/message/route_sync.h.
 * How: known bytes that another packer made, both ways; every truncation of each; limits and wrong
 * members by hand.  tests/fuzz/wire_route_sync.c mutates them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "wire/message/route_sync.h"

#include "tests/support/seed.h"

enum { INPUT_MAX = 512 };

static const char *const steps_hex =
    "96010107cf0000018bcfe56801cd012c929aa57265712d3101cd05dc07cf0000018bcfe56800a2773102cd028005"
    "9203cf800000000000000093a57265712d320314";
static const char *const heartbeat_hex = "98010207cf0000018bcfe56801cd012ccfffffffffffffffffc39293"
                                         "08cf0000018bcfe56802ce0001117093090500";
static const char *const ask_hex = "9a010307cf0000018bcfe5680108cf0000018bcfe568020401cd012dcd0131";
static const char *const rows_hex =
    "9e010407cf0000018bcfe5680108cf0000018bcfe56802040000cf0000010000000000c2cd012c919308cf000001"
    "8bcfe5680205929aa57265712d3101cd05dc07cf0000018bcfe56800a2773102cd0280059203cf80000000000000"
    "0093a57265712d320314";
static const char *const gone_hex =
    "9e010407cf0000018bcfe5680108cf0000018bcfe5680205010100c3cd012c9090";

static const char *const all_hex[] = {steps_hex, heartbeat_hex, ask_hex, rows_hex, gone_hex};

static uint64_t hashes[WIRE_ROUTE_SYNC_HASHES_MAX];

/* In heap memory of exactly its size: a sanitizer sees what is read behind it. */
static uint8_t *
from_hex(const char *hex, size_t *size)
{
    char pair[3] = "";
    uint8_t *bytes;

    *size = strlen(hex) / 2;
    bytes = kvt_calloc(*size, 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < *size; i++) {
        memcpy(pair, hex + 2 * i, 2);
        bytes[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return bytes;
}

static enum kvt_err
decode_hex(const char *hex, struct kvt_error *err)
{
    struct wire_route_sync message;
    size_t size;
    uint8_t *bytes = from_hex(hex, &size);
    const enum kvt_err rc = wire_route_sync_decode(bytes, size, &message, err);

    kvt_free(bytes);
    return rc;
}

/* Both rows of the known messages. */
static void
check_rows(struct wire_route_sync *message)
{
    struct wire_route_sync_row row;

    assert_int_equal(message->row_count, 2);
    assert_true(wire_route_sync_next(message, &row, hashes));
    assert_string_equal(row.id, "req-1");
    assert_int_equal(row.state, 1);
    assert_int_equal(row.age_ms, 1500);
    assert_int_equal(row.router, 7);
    assert_int_equal(row.added_ms, 1700000000000);
    assert_string_equal(row.worker, "w1");
    assert_int_equal(row.dp_rank, 2);
    assert_int_equal(row.prefill_tokens, 640);
    assert_int_equal(row.blocks, 5);
    assert_int_equal(row.hash_count, 2);
    assert_int_equal(row.hashes[0], 3);
    assert_true(row.hashes[1] == UINT64_C(1) << 63);
    assert_true(wire_route_sync_next(message, &row, hashes));
    assert_string_equal(row.id, "req-2");
    assert_string_equal(row.worker, "");
    assert_int_equal(row.state, 3);
    assert_int_equal(row.age_ms, 20);
    assert_int_equal(row.hash_count, 0);
    assert_false(wire_route_sync_next(message, &row, hashes));
}

static void
messages_have_these_members(void **state)
{
    struct wire_route_sync message;
    struct kvt_error err;
    uint8_t *bytes;
    size_t size;

    (void)state;
    bytes = from_hex(steps_hex, &size);
    assert_int_equal(wire_route_sync_decode(bytes, size, &message, &err), KVT_OK);
    assert_int_equal(message.kind, WIRE_ROUTE_SYNC_STEPS);
    assert_int_equal(message.router, 7);
    assert_int_equal(message.incarnation, 1700000000001);
    assert_int_equal(message.seq, 300);
    check_rows(&message);
    kvt_free(bytes);

    bytes = from_hex(heartbeat_hex, &size);
    assert_int_equal(wire_route_sync_decode(bytes, size, &message, &err), KVT_OK);
    assert_int_equal(message.kind, WIRE_ROUTE_SYNC_HEARTBEAT);
    assert_int_equal(message.seq, 300);
    assert_true(message.digest == UINT64_MAX);
    assert_true(message.joining);
    assert_int_equal(message.heard_count, 2);
    assert_int_equal(message.heard[0].router, 8);
    assert_int_equal(message.heard[0].incarnation, 1700000000002);
    assert_int_equal(message.heard[0].seq, 70000);
    assert_int_equal(message.heard[1].seq, 0);
    kvt_free(bytes);

    bytes = from_hex(ask_hex, &size);
    assert_int_equal(wire_route_sync_decode(bytes, size, &message, &err), KVT_OK);
    assert_int_equal(message.kind, WIRE_ROUTE_SYNC_ASK);
    assert_int_equal(message.to, 8);
    assert_int_equal(message.to_incarnation, 1700000000002);
    assert_int_equal(message.ask, 4);
    assert_int_equal(message.what, WIRE_ROUTE_SYNC_RANGE);
    assert_int_equal(message.from, 301);
    assert_int_equal(message.through, 305);
    kvt_free(bytes);

    bytes = from_hex(rows_hex, &size);
    assert_int_equal(wire_route_sync_decode(bytes, size, &message, &err), KVT_OK);
    assert_int_equal(message.kind, WIRE_ROUTE_SYNC_ROWS);
    assert_int_equal(message.what, WIRE_ROUTE_SYNC_TABLE);
    assert_int_equal(message.from, 0);
    assert_int_equal(message.next, UINT64_C(1) << 40);
    assert_false(message.gone);
    assert_int_equal(message.seq, 300);
    assert_int_equal(message.heard_count, 1);
    check_rows(&message);
    kvt_free(bytes);

    bytes = from_hex(gone_hex, &size);
    assert_int_equal(wire_route_sync_decode(bytes, size, &message, &err), KVT_OK);
    assert_true(message.gone);
    assert_int_equal(message.row_count, 0);
    kvt_free(bytes);
}

static void
messages_have_these_bytes(void **state)
{
    struct wire_route_sync message;
    struct wire_route_sync_row row;
    struct kvt_buffer rows;
    struct kvt_buffer out;
    struct kvt_error err;

    (void)state;
    kvt_buffer_init(&rows, WIRE_ROUTE_SYNC_MAX);
    kvt_buffer_init(&out, WIRE_ROUTE_SYNC_MAX);
    for (size_t i = 0; i < sizeof(all_hex) / sizeof(all_hex[0]); i++) {
        size_t size;
        uint8_t *bytes = from_hex(all_hex[i], &size);
        uint32_t count = 0;

        assert_int_equal(wire_route_sync_decode(bytes, size, &message, &err), KVT_OK);
        for (; wire_route_sync_next(&message, &row, hashes); count++)
            assert_int_equal(wire_route_sync_put(&row, &rows), KVT_OK);
        message.row_count = count;
        assert_int_equal(wire_route_sync_encode(&message, &rows, &out), KVT_OK);
        assert_int_equal(out.size, size);
        assert_memory_equal(out.data, bytes, size);
        kvt_buffer_clear(&rows);
        kvt_buffer_clear(&out);
        kvt_free(bytes);
    }
    kvt_buffer_release(&rows);
    kvt_buffer_release(&out);
}

static void
every_truncation_is_refused(void **state)
{
    struct wire_route_sync message;
    struct kvt_error err;

    (void)state;
    for (size_t i = 0; i < sizeof(all_hex) / sizeof(all_hex[0]); i++) {
        size_t size;
        uint8_t *bytes = from_hex(all_hex[i], &size);

        for (size_t cut = 0; cut < size; cut++) {
            uint8_t *less = kvt_calloc(cut > 0 ? cut : 1, 1);

            assert_non_null(less);
            memcpy(less, bytes, cut);
            assert_int_equal(wire_route_sync_decode(less, cut, &message, &err), KVT_INVALID);
            assert_int_equal(message.row_count, 0);
            assert_string_not_equal(err.text, "");
            kvt_free(less);
        }
        kvt_free(bytes);
    }
}

static void
wrong_members_are_refused(void **state)
{
    static const struct {
        const char *hex;
        enum kvt_err rc;
        const char *wanted;
    } cases[] = {
        {"96000101010190", KVT_INVALID, "version 1"},
        {"96010001010190", KVT_INVALID, "version 1"},
        {"9501010101c0", KVT_INVALID, "all members"},
        {"9601010101019193a00101", KVT_INVALID, "an id"},
        {"9601010101019193a1610001", KVT_INVALID, "a state"},
        {"9601010101019193a1610401", KVT_INVALID, "a state"},
        {"9601010101019194a161010101", KVT_INVALID, "of 10"},
        {"960101010101919aa16101010101a000010190", KVT_INVALID, "a worker"},
        {"960101010101919aa16101010101a17700010191cd0007", KVT_OK, ""},
        {"960101010101919aa16101010101a1770001019201cd0007", KVT_INVALID, "no more hashes"},
        {"960101010101919aa16101010101a1770000ce0001000190", KVT_INVALID, "65,536 blocks"},
        {"960101010101919aa16101010101a17700cf00000001000000010190", KVT_INVALID, "tokens"},
        {"960101010101919aa16101010101a17700cf0000000100000000ce0001000090", KVT_OK, ""},
        {"9a01030101020200020000", KVT_INVALID, "0 a table"},
        {"960101010101910190", KVT_INVALID, "a row"},
        {"9601010101019000", KVT_INVALID, ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct kvt_error err = {.text = ""};

        assert_int_equal(decode_hex(cases[i].hex, &err), cases[i].rc);
        assert_non_null(strstr(err.text, cases[i].wanted));
    }
}

/* A replica of a later format is told apart from noise, and what it adds to a message of this one
 * is stepped over. */
static void
later_formats_are_told(void **state)
{
    struct kvt_error err;

    (void)state;
    assert_int_equal(decode_hex("9602010101c0a161", &err), KVT_UNSUPPORTED);
    assert_int_equal(decode_hex("9401050101", &err), KVT_UNSUPPORTED);
    assert_int_equal(decode_hex("97010101010190c0", &err), KVT_OK);
    assert_int_equal(decode_hex("960101010101919ba16101010101a1770001019107c3", &err), KVT_OK);
}

static void
limits_hold(void **state)
{
    struct wire_route_sync message = {.kind = WIRE_ROUTE_SYNC_STEPS, .seq = 1};
    struct wire_route_sync_row row = {.id = "r", .state = 1, .worker = "w", .hashes = hashes};
    struct kvt_buffer rows;
    struct kvt_buffer out;
    struct kvt_error err;

    (void)state;
    kvt_buffer_init(&rows, WIRE_ROUTE_SYNC_MAX);
    kvt_buffer_init(&out, WIRE_ROUTE_SYNC_MAX);
    memset(hashes, 0xff, sizeof(hashes));
    row.blocks = WIRE_ROUTE_SYNC_BLOCKS_MAX;
    row.hash_count = WIRE_ROUTE_SYNC_HASHES_MAX + 1;
    assert_int_equal(wire_route_sync_put(&row, &rows), KVT_RANGE);
    assert_int_equal(rows.size, 0);

    /* The largest row is a message; two of them are not, and the first one stays. */
    memset(row.id, 'r', sizeof(row.id) - 1);
    memset(row.worker, 'w', sizeof(row.worker) - 1);
    row.hash_count = WIRE_ROUTE_SYNC_HASHES_MAX;
    assert_int_equal(wire_route_sync_put(&row, &rows), KVT_OK);
    assert_int_equal(wire_route_sync_put(&row, &rows), KVT_RANGE);
    message.row_count = 1;
    assert_int_equal(wire_route_sync_encode(&message, &rows, &out), KVT_OK);
    assert_int_equal(wire_route_sync_decode(out.data, out.size, &message, &err), KVT_OK);
    assert_true(wire_route_sync_next(&message, &row, hashes));
    assert_int_equal(row.hash_count, WIRE_ROUTE_SYNC_HASHES_MAX);
    assert_int_equal(wire_route_sync_decode(out.data, WIRE_ROUTE_SYNC_MAX + 1, &message, &err),
                     KVT_RANGE);

    /* Full rows and all peers are one message. */
    row.hash_count = 0;
    while (wire_route_sync_put(&row, &rows) == KVT_OK)
        continue;
    message = (struct wire_route_sync){
        .kind = WIRE_ROUTE_SYNC_ROWS, .heard_count = WIRE_ROUTE_SYNC_HEARD_MAX, .row_count = 1};
    memset(message.heard, 0xff, sizeof(message.heard));
    kvt_buffer_clear(&out);
    assert_int_equal(wire_route_sync_encode(&message, &rows, &out), KVT_OK);
    assert_true(out.size <= WIRE_ROUTE_SYNC_MAX);

    /* No room: what was there stays. */
    out.limit = out.size + 100;
    {
        const size_t before = out.size;

        assert_int_equal(wire_route_sync_encode(&message, &rows, &out), KVT_RANGE);
        assert_int_equal(out.size, before);
    }
    kvt_buffer_release(&rows);
    kvt_buffer_release(&out);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_have_these_members), cmocka_unit_test(messages_have_these_bytes),
        cmocka_unit_test(every_truncation_is_refused), cmocka_unit_test(wrong_members_are_refused),
        cmocka_unit_test(later_formats_are_told),      cmocka_unit_test(limits_hold),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
