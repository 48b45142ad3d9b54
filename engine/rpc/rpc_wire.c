#include "engine/rpc/rpc_wire.h"

#include <stdbool.h>
#include <string.h>

#include "engine/rpc/rpc_msgpack.h"

/* The head is written where it is sent from, without a buffer that could be refused. */
enum {
    ARRAY_OF_7 = 0x97,
    FIXINT_MAX = 0x7f,
    BIN8 = 0xc4,
    BIN16 = 0xc5,
    BIN32 = 0xc6,
    UINT8 = 0xcc,
    UINT16 = 0xcd,
    UINT32 = 0xce,
    UINT64 = 0xcf,
};

static uint8_t *
put_bytes(uint8_t *at, uint8_t lead, uint64_t value, unsigned width)
{
    *at++ = lead;
    for (unsigned i = width; i > 0; i--)
        *at++ = (uint8_t)(value >> (8 * (i - 1)));
    return at;
}

static uint8_t *
put_number(uint8_t *at, uint64_t value)
{
    if (value <= FIXINT_MAX) {
        *at = (uint8_t)value;
        return at + 1;
    }
    if (value <= UINT8_MAX)
        return put_bytes(at, UINT8, value, 1);
    if (value <= UINT16_MAX)
        return put_bytes(at, UINT16, value, 2);
    if (value <= UINT32_MAX)
        return put_bytes(at, UINT32, value, 4);
    return put_bytes(at, UINT64, value, 8);
}

size_t
engine_rpc_wire_head(uint8_t out[ENGINE_RPC_WIRE_HEAD_MAX],
                     const struct engine_rpc_message *message)
{
    uint8_t *at = out;

    *at++ = ARRAY_OF_7;
    *at++ = ENGINE_RPC_WIRE_VERSION;
    *at++ = (uint8_t)message->kind;
    at = put_number(at, message->link);
    at = put_number(at, message->number);
    at = put_number(at, message->code);
    at = put_number(at, message->wait_ms);
    if (message->size <= UINT8_MAX)
        at = put_bytes(at, BIN8, message->size, 1);
    else if (message->size <= UINT16_MAX)
        at = put_bytes(at, BIN16, message->size, 2);
    else
        at = put_bytes(at, BIN32, message->size, 4);
    return (size_t)(at - out);
}

/* What the kinds have in common, and nothing more: each field within what it may ever be. */
static bool
take_fields(struct engine_unpack *in, struct engine_rpc_message *out)
{
    const uint64_t kind = engine_unpack_number(in, ENGINE_RPC_KIND_END - 1);
    const bool status =
        kind == ENGINE_RPC_ANSWER || kind == ENGINE_RPC_REFUSED || kind == ENGINE_RPC_BYE;

    out->kind = (enum engine_rpc_kind)kind;
    out->link = engine_unpack_number(in, UINT64_MAX);
    out->number = engine_unpack_number(in, UINT64_MAX);
    out->code = (uint32_t)engine_unpack_number(in, status ? KVT_ERR_COUNT - 1 : UINT32_MAX);
    out->wait_ms = (uint32_t)engine_unpack_number(in, ENGINE_RPC_WAIT_MAX);
    out->bytes = engine_unpack_bytes(in, ENGINE_RPC_PAYLOAD_MAX, &out->size);
    return engine_unpack_end(in) && kind != 0 &&
           (out->size == 0 || kind == ENGINE_RPC_CALL || kind == ENGINE_RPC_ANSWER);
}

enum kvt_err
engine_rpc_wire_read(struct engine_rpc_message *out, const uint8_t *bytes, size_t size)
{
    struct engine_unpack in = {.bytes = bytes, .size = size};
    uint64_t version;

    memset(out, 0, sizeof(*out));
    if (size > ENGINE_RPC_WIRE_MAX)
        return KVT_RANGE;
    (void)engine_unpack_array(&in, 7, 7);
    version = engine_unpack_number(&in, UINT64_MAX);
    if (in.bad)
        return KVT_INVALID;
    if (version != ENGINE_RPC_WIRE_VERSION)
        return KVT_UNSUPPORTED;
    if (take_fields(&in, out))
        return KVT_OK;
    memset(out, 0, sizeof(*out));
    return KVT_INVALID;
}
