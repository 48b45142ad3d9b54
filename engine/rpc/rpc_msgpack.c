#include "engine/rpc/rpc_msgpack.h"

enum {
    FIXINT_MAX = 0x7f,
    FIXARRAY = 0x90,
    FIXARRAY_MAX = 15,
    BIN8 = 0xc4, /* 16 and 32 behind it */
    UINT8 = 0xcc,
    ARRAY16 = 0xdc, /* 32 behind it */
};

static void
put(struct kvt_buffer *out, unsigned lead, uint64_t value, unsigned width)
{
    uint8_t bytes[9] = {(uint8_t)lead};

    for (unsigned i = 0; i < width; i++)
        bytes[1 + i] = (uint8_t)(value >> (8 * (width - 1 - i)));
    kvt_buffer_append(out, bytes, 1 + width);
}

/* 0: one byte, 1: two, 2: four, 3: eight. */
static unsigned
width_of(uint64_t value)
{
    return value <= UINT8_MAX ? 0 : value <= UINT16_MAX ? 1 : value <= UINT32_MAX ? 2 : 3;
}

void
engine_pack_number(struct kvt_buffer *out, uint64_t value)
{
    if (value <= FIXINT_MAX)
        put(out, (unsigned)value, 0, 0);
    else
        put(out, UINT8 + width_of(value), value, 1u << width_of(value));
}

void
engine_pack_array(struct kvt_buffer *out, uint32_t count)
{
    const bool small = count <= UINT16_MAX;

    if (count <= FIXARRAY_MAX)
        put(out, FIXARRAY + count, 0, 0);
    else
        put(out, small ? ARRAY16 : ARRAY16 + 1, count, small ? 2 : 4);
}

void
engine_pack_bytes(struct kvt_buffer *out, const void *bytes, uint32_t size)
{
    put(out, BIN8 + width_of(size), size, 1u << width_of(size));
    if (size > 0)
        kvt_buffer_append(out, bytes, size);
}

static uint64_t
take(struct engine_unpack *in, unsigned width)
{
    uint64_t value = 0;

    if (in->bad || in->size < width) {
        in->bad = true;
        return 0;
    }
    for (unsigned i = 0; i < width; i++)
        value = value << 8 | in->bytes[i];
    in->bytes += width;
    in->size -= width;
    return value;
}

static uint64_t
within(struct engine_unpack *in, uint64_t value, uint64_t min, uint64_t max)
{
    in->bad = in->bad || value < min || value > max;
    return in->bad ? 0 : value;
}

uint64_t
engine_unpack_number(struct engine_unpack *in, uint64_t max)
{
    uint64_t value = take(in, 1);

    if (value >= UINT8 && value <= UINT8 + 3)
        value = take(in, 1u << (value - UINT8));
    else if (value > FIXINT_MAX)
        in->bad = true;
    return within(in, value, 0, max);
}

uint32_t
engine_unpack_array(struct engine_unpack *in, uint32_t min, uint32_t max)
{
    uint64_t value = take(in, 1);

    if (value >= FIXARRAY && value <= FIXARRAY + FIXARRAY_MAX)
        value -= FIXARRAY;
    else if (value == ARRAY16 || value == ARRAY16 + 1)
        value = take(in, value == ARRAY16 ? 2 : 4);
    else
        in->bad = true;
    return (uint32_t)within(in, value, min, max);
}

const uint8_t *
engine_unpack_bytes(struct engine_unpack *in, uint32_t max, size_t *size)
{
    const uint64_t lead = take(in, 1);
    const uint8_t *bytes;
    uint64_t value = 0;

    if (lead >= BIN8 && lead <= BIN8 + 2)
        value = take(in, 1u << (lead - BIN8));
    else
        in->bad = true;
    value = within(in, value, 0, max < in->size ? max : in->size);
    bytes = value > 0 ? in->bytes : NULL;
    in->bytes += value;
    in->size -= value;
    *size = value;
    return bytes;
}

bool
engine_unpack_end(const struct engine_unpack *in)
{
    return !in->bad && in->size == 0;
}
