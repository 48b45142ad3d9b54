/*
 * What is tested: engine/rpc/rpc_wire.h: the bytes of known messages, which are msgpack as its own
 * library reads it; any width of a number is read; what is cut, padded, too large or out of its
 * limits is refused.
 */
#include <msgpack.h>
#include <string.h>

#include "base/core/random.h"

#include "engine/rpc/rpc_wire.h"
#include "tests/support/seed.h"

enum { ROUNDS = 20000, PAYLOAD = 70000 };

static uint8_t payload[PAYLOAD];

static size_t
put(uint8_t *out, const struct engine_rpc_message *message)
{
    const size_t head = engine_rpc_wire_head(out, message);

    assert_in_range(head, 1, ENGINE_RPC_WIRE_HEAD_MAX);
    if (message->size > 0)
        memcpy(out + head, message->bytes, message->size);
    return head + message->size;
}

static uint64_t
draw(uint64_t *random, unsigned bits)
{
    const uint64_t value = kvt_random_next(random) >> (64 - bits);

    return value >> kvt_random_below(random, bits);
}

static struct engine_rpc_message
draw_message(uint64_t *random)
{
    static const size_t sizes[] = {0, 1, 255, 256, 65535, 65536, PAYLOAD};
    struct engine_rpc_message message = {
        .kind = (enum engine_rpc_kind)(1 + kvt_random_below(random, ENGINE_RPC_KIND_END - 1)),
        .link = draw(random, 64),
        .number = draw(random, 64),
        .code = (uint32_t)kvt_random_below(random, KVT_ERR_COUNT),
        .wait_ms = (uint32_t)kvt_random_below(random, ENGINE_RPC_WAIT_MAX + 1),
    };

    if (message.kind == ENGINE_RPC_CALL || message.kind == ENGINE_RPC_ANSWER)
        message.size = sizes[kvt_random_below(random, sizeof(sizes) / sizeof(sizes[0]))];
    message.bytes = message.size > 0 ? payload : NULL;
    return message;
}

static void
compare(const struct engine_rpc_message *read, const struct engine_rpc_message *written)
{
    assert_int_equal(read->kind, written->kind);
    assert_true(read->link == written->link && read->number == written->number);
    assert_int_equal(read->code, written->code);
    assert_int_equal(read->wait_ms, written->wait_ms);
    assert_int_equal(read->size, written->size);
    if (read->size > 0)
        assert_memory_equal(read->bytes, written->bytes, read->size);
}

static void
messages_come_back(void **state)
{
    static uint8_t bytes[ENGINE_RPC_WIRE_HEAD_MAX + PAYLOAD + 1];
    uint64_t random = test_seed();

    (void)state;
    for (size_t i = 0; i < PAYLOAD; i++)
        payload[i] = (uint8_t)kvt_random_next(&random);
    for (int round = 0; round < ROUNDS; round++) {
        const struct engine_rpc_message message = draw_message(&random);
        const size_t size = put(bytes, &message);
        struct engine_rpc_message read;

        assert_int_equal(engine_rpc_wire_read(&read, bytes, size), KVT_OK);
        compare(&read, &message);
        assert_int_equal(engine_rpc_wire_read(&read, bytes, kvt_random_below(&random, size)),
                         KVT_INVALID);
        assert_int_equal(read.kind, 0);
        bytes[size] = 0;
        assert_int_equal(engine_rpc_wire_read(&read, bytes, size + 1), KVT_INVALID);
    }
}

/* The library, which has a reader of its own. */
static void
messages_are_msgpack(void **state)
{
    static uint8_t bytes[ENGINE_RPC_WIRE_HEAD_MAX + PAYLOAD];
    uint64_t random = test_seed();

    (void)state;
    for (int round = 0; round < ROUNDS / 10; round++) {
        const struct engine_rpc_message message = draw_message(&random);
        const size_t size = put(bytes, &message);
        msgpack_unpacked unpacked;
        const msgpack_object *at;
        size_t used = 0;

        msgpack_unpacked_init(&unpacked);
        assert_int_equal(msgpack_unpack_next(&unpacked, (const char *)bytes, size, &used),
                         MSGPACK_UNPACK_SUCCESS);
        assert_int_equal(used, size);
        assert_int_equal(unpacked.data.type, MSGPACK_OBJECT_ARRAY);
        assert_int_equal(unpacked.data.via.array.size, 7);
        at = unpacked.data.via.array.ptr;
        assert_int_equal(at[0].via.u64, ENGINE_RPC_WIRE_VERSION);
        assert_int_equal(at[1].via.u64, message.kind);
        assert_true(at[2].via.u64 == message.link && at[3].via.u64 == message.number);
        assert_int_equal(at[4].via.u64, message.code);
        assert_int_equal(at[5].via.u64, message.wait_ms);
        assert_int_equal(at[6].type, MSGPACK_OBJECT_BIN);
        assert_int_equal(at[6].via.bin.size, message.size);
        msgpack_unpacked_destroy(&unpacked);
    }
}

static void
known_bytes(void **state)
{
    /* [1, CALL, 0x0102030405060708, 1029, 7, 300, "ab"], then with every number in 64 bits, which
     * another writer may do. */
    static const uint8_t known[] = {0x97, 1,    3,    0xcf, 1,    2,    3,    4,    5, 6,   7,  8,
                                    0xcd, 0x04, 0x05, 7,    0xcd, 0x01, 0x2c, 0xc4, 2, 'a', 'b'};
    static const uint8_t wide[] = {0x97, 0xcf, 0, 0, 0, 0, 0,   0,  0, 1, 0xcf, 0, 0, 0, 0, 0, 0, 0,
                                   3,    0xcf, 1, 2, 3, 4, 5,   6,  7, 8, 0xcf, 0, 0, 0, 0, 0, 0, 4,
                                   5,    0xcf, 0, 0, 0, 0, 0,   0,  0, 7, 0xcf, 0, 0, 0, 0, 0, 0, 1,
                                   0x2c, 0xc6, 0, 0, 0, 2, 'a', 'b'};
    const struct engine_rpc_message call = {.kind = ENGINE_RPC_CALL,
                                            .link = 0x0102030405060708,
                                            .number = 1029,
                                            .code = 7,
                                            .wait_ms = 300,
                                            .bytes = (const uint8_t *)"ab",
                                            .size = 2};
    uint8_t bytes[sizeof(known) + ENGINE_RPC_WIRE_HEAD_MAX];
    struct engine_rpc_message read;

    (void)state;
    assert_int_equal(put(bytes, &call), sizeof(known));
    assert_memory_equal(bytes, known, sizeof(known));
    assert_int_equal(engine_rpc_wire_read(&read, wide, sizeof(wide)), KVT_OK);
    compare(&read, &call);
}

static void
limits_are_kept(void **state)
{
    struct engine_rpc_message message = {.kind = ENGINE_RPC_PING};
    uint8_t bytes[ENGINE_RPC_WIRE_HEAD_MAX + 1];
    struct engine_rpc_message read;

    (void)state;
    (void)put(bytes, &message);
    bytes[1] = 2;
    assert_int_equal(engine_rpc_wire_read(&read, bytes, 8), KVT_UNSUPPORTED);
    assert_int_equal(engine_rpc_wire_read(&read, bytes, ENGINE_RPC_WIRE_MAX + 1), KVT_RANGE);
    message.kind = ENGINE_RPC_KIND_END;
    assert_int_equal(engine_rpc_wire_read(&read, bytes, put(bytes, &message)), KVT_INVALID);
    message.kind = ENGINE_RPC_ANSWER;
    message.code = KVT_ERR_COUNT;
    assert_int_equal(engine_rpc_wire_read(&read, bytes, put(bytes, &message)), KVT_INVALID);
    message.code = 0;
    message.wait_ms = ENGINE_RPC_WAIT_MAX + 1;
    assert_int_equal(engine_rpc_wire_read(&read, bytes, put(bytes, &message)), KVT_INVALID);
    message.wait_ms = 0;
    message.kind = ENGINE_RPC_PING; /* has no payload */
    message.bytes = (const uint8_t *)"x";
    message.size = 1;
    assert_int_equal(engine_rpc_wire_read(&read, bytes, put(bytes, &message)), KVT_INVALID);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_back),
        cmocka_unit_test(messages_are_msgpack),
        cmocka_unit_test(known_bytes),
        cmocka_unit_test(limits_are_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
