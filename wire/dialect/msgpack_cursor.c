#include "wire/dialect/msgpack_cursor.h"

#include <assert.h>

#include "base/text/msgpack.h"

void
wire_cursor_fail(struct wire_cursor *pack, const uint8_t *at, enum kvt_err code, const char *wanted)
{
    assert(code != KVT_OK);
    if (pack->code != KVT_OK)
        return;
    pack->code = code;
    pack->failed_at = at;
    pack->wanted = wanted;
    pack->at = pack->end;
}

enum kvt_err
wire_cursor_end(const struct wire_cursor *pack, const char *name, struct kvt_error *err)
{
    if (pack->code == KVT_OK)
        return KVT_OK;
    return kvt_error_set(err, pack->code, "%s of %zu bytes: at byte %zu expected %s", name,
                         (size_t)(pack->end - pack->start), (size_t)(pack->failed_at - pack->start),
                         pack->wanted);
}

/* The big-endian number of `width` bytes behind the lead; false when the input ends before. */
static bool
peek_number(const struct wire_cursor *pack, size_t width, uint64_t *value)
{
    *value = 0;
    if (wire_cursor_left(pack) < 1 + width)
        return false;
    *value = kvt_msgpack_number(pack->at + 1, width);
    return true;
}

enum wire_cursor_kind
wire_cursor_kind(const struct wire_cursor *pack)
{
    uint8_t lead;

    if (pack->at >= pack->end)
        return WIRE_CURSOR_NOTHING;
    lead = *pack->at;
    if (lead < KVT_MSGPACK_FIXMAP || lead >= KVT_MSGPACK_NEGATIVE_FIXINT)
        return WIRE_CURSOR_INT;
    if (lead < KVT_MSGPACK_FIXARRAY)
        return WIRE_CURSOR_MAP;
    if (lead < KVT_MSGPACK_FIXSTR)
        return WIRE_CURSOR_ARRAY;
    if (lead < KVT_MSGPACK_NIL || (lead >= KVT_MSGPACK_STR8 && lead <= KVT_MSGPACK_STR32))
        return WIRE_CURSOR_STR;
    if (lead == KVT_MSGPACK_NIL)
        return WIRE_CURSOR_NIL;
    if (lead == KVT_MSGPACK_FALSE_VALUE || lead == KVT_MSGPACK_TRUE_VALUE)
        return WIRE_CURSOR_BOOL;
    if (lead >= KVT_MSGPACK_BIN8 && lead <= KVT_MSGPACK_BIN32)
        return WIRE_CURSOR_BIN;
    if (lead == KVT_MSGPACK_FLOAT32 || lead == KVT_MSGPACK_FLOAT64)
        return WIRE_CURSOR_FLOAT;
    if (lead >= KVT_MSGPACK_UINT8 && lead <= KVT_MSGPACK_INT64)
        return WIRE_CURSOR_INT;
    if (lead == KVT_MSGPACK_ARRAY16 || lead == KVT_MSGPACK_ARRAY32)
        return WIRE_CURSOR_ARRAY;
    if (lead == KVT_MSGPACK_MAP16 || lead == KVT_MSGPACK_MAP32)
        return WIRE_CURSOR_MAP;
    return lead == KVT_MSGPACK_NEVER_USED ? WIRE_CURSOR_NOTHING : WIRE_CURSOR_EXT;
}

void
wire_cursor_skip(struct wire_cursor *pack)
{
    /* Values still to step over, nested ones included: no recursion. */
    uint64_t pending = 1;
    uint64_t members;
    uint64_t size;

    while (pending > 0) {
        if (pack->at >= pack->end || !kvt_msgpack_measure(pack->at, pack->end, &size, &members) ||
            size > wire_cursor_left(pack) ||
            pending - 1 + members > wire_cursor_left(pack) - size) {
            wire_cursor_fail(pack, pack->at, KVT_INVALID, "a whole value");
            return;
        }
        pack->at += size;
        pending += members - 1;
    }
}

/* Any integer: its bits, and whether it is below zero. */
static bool
integer(struct wire_cursor *pack, uint64_t *bits, bool *negative)
{
    size_t width;
    uint8_t lead;

    *bits = 0;
    *negative = false;
    if (wire_cursor_kind(pack) != WIRE_CURSOR_INT) {
        wire_cursor_skip(pack);
        return false;
    }
    lead = *pack->at;
    if (lead < KVT_MSGPACK_FIXMAP || lead >= KVT_MSGPACK_NEGATIVE_FIXINT) {
        *bits = (uint64_t)(int64_t)(int8_t)lead;
        *negative = lead >= KVT_MSGPACK_NEGATIVE_FIXINT;
        pack->at++;
        return true;
    }
    width =
        (size_t)1 << (lead - (lead <= KVT_MSGPACK_UINT64 ? KVT_MSGPACK_UINT8 : KVT_MSGPACK_INT8));
    if (!peek_number(pack, width, bits)) {
        wire_cursor_fail(pack, pack->at, KVT_INVALID, "a whole value");
        return false;
    }
    if (lead >= KVT_MSGPACK_INT8) {
        const unsigned unused = 64 - 8 * (unsigned)width;

        /* Widen by its sign. */
        *bits = (uint64_t)((int64_t)(*bits << unused) >> unused);
        *negative = *bits >> 63 != 0;
    }
    pack->at += 1 + width;
    return true;
}

bool
wire_cursor_slow_u64(struct wire_cursor *pack, uint64_t *value)
{
    bool negative;

    if (integer(pack, value, &negative) && !negative)
        return true;
    *value = 0;
    return false;
}

bool
wire_cursor_bits64(struct wire_cursor *pack, uint64_t *value)
{
    bool negative;

    return integer(pack, value, &negative);
}

bool
wire_cursor_number(struct wire_cursor *pack, double *value)
{
    uint64_t bits;
    bool negative;

    *value = 0;
    if (wire_cursor_kind(pack) != WIRE_CURSOR_FLOAT) {
        if (!integer(pack, &bits, &negative))
            return false;
        *value = negative ? (double)(int64_t)bits : (double)bits;
        return true;
    }
    if (!peek_number(pack, *pack->at == KVT_MSGPACK_FLOAT32 ? 4 : 8, &bits)) {
        wire_cursor_fail(pack, pack->at, KVT_INVALID, "a whole value");
        return false;
    }
    if (*pack->at == KVT_MSGPACK_FLOAT32) {
        const uint32_t narrow = (uint32_t)bits;
        float single;

        memcpy(&single, &narrow, sizeof(single));
        *value = (double)single;
        pack->at += 5;
    } else {
        memcpy(value, &bits, sizeof(*value));
        pack->at += 9;
    }
    return true;
}

/* A str or bin whose 8-bit lead is `lead8`. */
static bool
sized(struct wire_cursor *pack, uint8_t lead8, const uint8_t **bytes, size_t *size)
{
    const size_t width = (size_t)1 << (*pack->at - lead8);
    uint64_t length;

    if (!peek_number(pack, width, &length) || length > wire_cursor_left(pack) - 1 - width) {
        wire_cursor_fail(pack, pack->at, KVT_INVALID, "a whole value");
        return false;
    }
    *bytes = pack->at + 1 + width;
    *size = length;
    pack->at = *bytes + length;
    return true;
}

bool
wire_cursor_slow_str(struct wire_cursor *pack, struct wire_cursor_text *text)
{
    const uint8_t *bytes;

    *text = (struct wire_cursor_text){"", 0};
    /* A short string that is whole never comes here. */
    if (pack->at >= pack->end || *pack->at < KVT_MSGPACK_STR8 || *pack->at > KVT_MSGPACK_STR32) {
        wire_cursor_skip(pack);
        return false;
    }
    if (!sized(pack, KVT_MSGPACK_STR8, &bytes, &text->size))
        return false;
    text->bytes = (const char *)bytes;
    return true;
}

bool
wire_cursor_bin(struct wire_cursor *pack, const uint8_t **bytes, size_t *size)
{
    *bytes = NULL;
    *size = 0;
    if (wire_cursor_kind(pack) != WIRE_CURSOR_BIN) {
        wire_cursor_skip(pack);
        return false;
    }
    return sized(pack, KVT_MSGPACK_BIN8, bytes, size);
}

bool
wire_cursor_slow_head(struct wire_cursor *pack, uint8_t lead16, unsigned values, uint32_t *count)
{
    uint64_t length;
    size_t width;

    *count = 0;
    if (pack->at >= pack->end || (*pack->at != lead16 && *pack->at != lead16 + 1)) {
        wire_cursor_skip(pack);
        return false;
    }
    width = *pack->at == lead16 ? 2 : 4;
    /* Every member takes a byte at least: a count the input cannot hold is a lie. */
    if (!peek_number(pack, width, &length) ||
        values * length > wire_cursor_left(pack) - 1 - width) {
        wire_cursor_fail(pack, pack->at, KVT_INVALID, "a whole array or map");
        return false;
    }
    pack->at += 1 + width;
    *count = (uint32_t)length;
    return true;
}
