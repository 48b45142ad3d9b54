#include "engine/rpc_wire.h"

#include <stdbool.h>
#include <string.h>

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

struct reader {
    const uint8_t *at;
    size_t left;
};

static bool
take_bytes(struct reader *reader, unsigned width, uint64_t *value)
{
    *value = 0;
    if (reader->left < width)
        return false;
    for (unsigned i = 0; i < width; i++)
        *value = *value << 8 | *reader->at++;
    reader->left -= width;
    return true;
}

static bool
take_number(struct reader *reader, uint64_t most, uint64_t *value)
{
    uint64_t lead;

    if (!take_bytes(reader, 1, &lead))
        return false;
    *value = lead;
    if (lead >= UINT8 && lead <= UINT64) {
        if (!take_bytes(reader, 1u << (lead - UINT8), value))
            return false;
    } else if (lead > FIXINT_MAX) {
        return false;
    }
    return *value <= most;
}

static bool
take_payload(struct reader *reader, struct engine_rpc_message *out)
{
    uint64_t lead;
    uint64_t size;

    if (!take_bytes(reader, 1, &lead) || lead < BIN8 || lead > BIN32 ||
        !take_bytes(reader, 1u << (lead - BIN8), &size) || size != reader->left)
        return false;
    out->bytes = size > 0 ? reader->at : NULL;
    out->size = (size_t)size;
    return true;
}

/* What the kinds have in common, and nothing more: each field within what it may ever be. */
static bool
take_fields(struct reader *reader, struct engine_rpc_message *out)
{
    uint64_t kind;
    uint64_t code;
    uint64_t wait_ms;
    bool status;

    if (!take_number(reader, ENGINE_RPC_KIND_END - 1, &kind) || kind == 0 ||
        !take_number(reader, UINT64_MAX, &out->link) ||
        !take_number(reader, UINT64_MAX, &out->number) || !take_number(reader, UINT32_MAX, &code) ||
        !take_number(reader, ENGINE_RPC_WAIT_MAX, &wait_ms) || !take_payload(reader, out))
        return false;
    out->kind = (enum engine_rpc_kind)kind;
    out->code = (uint32_t)code;
    out->wait_ms = (uint32_t)wait_ms;
    status = kind == ENGINE_RPC_ANSWER || kind == ENGINE_RPC_REFUSED || kind == ENGINE_RPC_BYE;
    return (!status || code < KVT_ERR_COUNT) &&
           (out->size == 0 || kind == ENGINE_RPC_CALL || kind == ENGINE_RPC_ANSWER);
}

enum kvt_err
engine_rpc_wire_read(struct engine_rpc_message *out, const uint8_t *bytes, size_t size)
{
    struct reader reader = {bytes, size};
    uint64_t version;

    memset(out, 0, sizeof(*out));
    if (size > ENGINE_RPC_WIRE_MAX)
        return KVT_RANGE;
    if (size == 0 || bytes[0] != ARRAY_OF_7)
        return KVT_INVALID;
    reader.at++;
    reader.left--;
    if (!take_number(&reader, UINT64_MAX, &version))
        return KVT_INVALID;
    if (version != ENGINE_RPC_WIRE_VERSION)
        return KVT_UNSUPPORTED;
    if (take_fields(&reader, out) && out->size <= ENGINE_RPC_PAYLOAD_MAX)
        return KVT_OK;
    memset(out, 0, sizeof(*out));
    return KVT_INVALID;
}
