#include "base/text/msgpack.h"

#include <assert.h>
#include <endian.h>
#include <math.h>
#include <string.h>

#include "base/text/msgpack_lead.h"

_Static_assert((int)KVT_MSGPACK_SMALL_END == (int)FIXMAP, "one table of leading bytes");
_Static_assert((int)KVT_MSGPACK_EIGHT_BYTES == (int)UINT64, "one table of leading bytes");

void
kvt_msgpack_read(struct kvt_msgpack_reader *reader, const void *bytes, size_t size)
{
    assert(bytes != NULL || size == 0);
    *reader = (struct kvt_msgpack_reader){.bytes = bytes, .size = size};
}

void
kvt_msgpack_fail(struct kvt_msgpack_reader *reader, size_t offset, enum kvt_err code,
                 const char *wanted)
{
    assert(code != KVT_OK);
    if (reader->code != KVT_OK)
        return;
    reader->code = code;
    reader->failed_at = offset;
    reader->wanted = wanted;
}

/* The big-endian number of 1, 2, 4 or 8 bytes; one load each: a batch has dozens of them. */
static uint64_t
number_at(const uint8_t *bytes, size_t width)
{
    uint16_t two;
    uint32_t four;
    uint64_t eight;

    switch (width) {
    case 1: return bytes[0];
    case 2: memcpy(&two, bytes, sizeof(two)); return be16toh(two);
    case 4: memcpy(&four, bytes, sizeof(four)); return be32toh(four);
    default:
        assert(width == 8);
        memcpy(&eight, bytes, sizeof(eight));
        return be64toh(eight);
    }
}

/* The number of `width` bytes that stands `skip` bytes behind the cursor. */
static bool
peek_number(const struct kvt_msgpack_reader *reader, size_t skip, size_t width, uint64_t *value)
{
    const size_t left = reader->size - reader->at;

    *value = 0;
    if (left < skip || left - skip < width)
        return false;
    *value = number_at(reader->bytes + reader->at + skip, width);
    return true;
}

static bool
ready(const struct kvt_msgpack_reader *reader)
{
    return reader->code == KVT_OK && reader->at < reader->size;
}

uint64_t
kvt_msgpack_uint(struct kvt_msgpack_reader *reader, uint64_t max, const char *wanted)
{
    uint64_t value = 0;
    size_t width = 0;
    uint8_t lead;

    if (!ready(reader))
        goto fail;
    lead = reader->bytes[reader->at];
    if (lead < FIXMAP) {
        value = lead;
    } else if (lead >= UINT8 && lead <= UINT64) {
        width = (size_t)1 << (lead - UINT8);
        if (!peek_number(reader, 1, width, &value))
            goto fail;
    } else {
        goto fail;
    }
    if (value > max)
        goto fail;
    reader->at += 1 + width;
    return value;

fail:
    kvt_msgpack_fail(reader, reader->at, KVT_INVALID, wanted);
    return 0;
}

uint32_t
kvt_msgpack_u32(struct kvt_msgpack_reader *reader, const char *wanted)
{
    return (uint32_t)kvt_msgpack_uint(reader, UINT32_MAX, wanted);
}

void
kvt_msgpack_version(struct kvt_msgpack_reader *reader)
{
    if (kvt_msgpack_u64(reader, "a version") != 1)
        kvt_msgpack_fail(reader, reader->at, KVT_INVALID, "version 1 before this byte");
}

bool
kvt_msgpack_bool(struct kvt_msgpack_reader *reader, const char *wanted)
{
    uint8_t lead;

    if (ready(reader)) {
        lead = reader->bytes[reader->at];
        if (lead == TRUE_VALUE || lead == FALSE_VALUE) {
            reader->at++;
            return lead == TRUE_VALUE;
        }
    }
    kvt_msgpack_fail(reader, reader->at, KVT_INVALID, wanted);
    return false;
}

double
kvt_msgpack_real(struct kvt_msgpack_reader *reader, const char *wanted)
{
    double value = -1.0;
    uint64_t bits;
    float narrow;
    uint32_t few;

    if (!ready(reader) ||
        (reader->bytes[reader->at] != FLOAT32 && reader->bytes[reader->at] != FLOAT64))
        return (double)kvt_msgpack_uint(reader, UINT64_MAX, wanted);
    if (reader->bytes[reader->at] == FLOAT64 && peek_number(reader, 1, sizeof(bits), &bits)) {
        memcpy(&value, &bits, sizeof(value));
    } else if (reader->bytes[reader->at] == FLOAT32 && peek_number(reader, 1, sizeof(few), &bits)) {
        few = (uint32_t)bits;
        memcpy(&narrow, &few, sizeof(narrow));
        value = narrow;
    }
    if (!isfinite(value) || value < 0.0) {
        kvt_msgpack_fail(reader, reader->at, KVT_INVALID, wanted);
        return 0.0;
    }
    reader->at += reader->bytes[reader->at] == FLOAT64 ? 9 : 5;
    return value;
}

uint32_t
kvt_msgpack_array(struct kvt_msgpack_reader *reader, uint32_t least, const char *wanted)
{
    uint64_t count = 0;
    size_t width = 0;
    uint8_t lead;

    if (!ready(reader))
        goto fail;
    lead = reader->bytes[reader->at];
    if (lead >= FIXARRAY && lead < FIXSTR) {
        count = lead & 0x0fu;
    } else if (lead == ARRAY16 || lead == ARRAY32) {
        width = lead == ARRAY16 ? 2 : 4;
        if (!peek_number(reader, 1, width, &count))
            goto fail;
    } else {
        goto fail;
    }
    /* Every member takes a byte at least: a count the input cannot hold is a lie. */
    if (count < least || count > reader->size - reader->at - 1 - width)
        goto fail;
    reader->at += 1 + width;
    return (uint32_t)count;

fail:
    kvt_msgpack_fail(reader, reader->at, KVT_INVALID, wanted);
    return 0;
}

uint32_t
kvt_msgpack_list(struct kvt_msgpack_reader *reader, size_t most, const char *wanted)
{
    const size_t offset = reader->at;
    const uint32_t count = kvt_msgpack_array(reader, 0, wanted);

    if (count <= most)
        return count;
    kvt_msgpack_fail(reader, offset, KVT_RANGE, wanted);
    return 0;
}

/* Length of a str (or bin) whose lead is here, and how long its own head is. */
static bool
peek_length(const struct kvt_msgpack_reader *reader, uint8_t lead8, size_t *head, uint64_t *length)
{
    const uint8_t lead = reader->bytes[reader->at];
    size_t width;

    if (lead < lead8 || lead > lead8 + 2)
        return false;
    width = (size_t)1 << (lead - lead8);
    *head = 1 + width;
    return peek_number(reader, 1, width, length) && *length <= reader->size - reader->at - *head;
}

void
kvt_msgpack_str(struct kvt_msgpack_reader *reader, char *out, size_t capacity, const char *wanted)
{
    uint64_t length = 0;
    size_t head = 1;
    uint8_t lead;

    assert(capacity > 0);
    out[0] = '\0';
    if (!ready(reader))
        goto fail;
    lead = reader->bytes[reader->at];
    if (lead >= FIXSTR && lead < NIL) {
        length = lead & 0x1fu;
        if (length > reader->size - reader->at - head)
            goto fail;
    } else if (!peek_length(reader, STR8, &head, &length)) {
        goto fail;
    }
    if (length >= capacity || memchr(reader->bytes + reader->at + head, 0, length) != NULL)
        goto fail;
    memcpy(out, reader->bytes + reader->at + head, length);
    out[length] = '\0';
    reader->at += head + length;
    return;

fail:
    kvt_msgpack_fail(reader, reader->at, KVT_INVALID, wanted);
}

const void *
kvt_msgpack_bin(struct kvt_msgpack_reader *reader, size_t *size, const char *wanted)
{
    const uint8_t *bytes;
    uint64_t length = 0;
    size_t head = 0;

    *size = 0;
    if (!ready(reader) || !peek_length(reader, BIN8, &head, &length)) {
        kvt_msgpack_fail(reader, reader->at, KVT_INVALID, wanted);
        return NULL;
    }
    bytes = reader->bytes + reader->at + head;
    *size = length;
    reader->at += head + length;
    return bytes;
}

bool
kvt_msgpack_is_str(const struct kvt_msgpack_reader *reader)
{
    uint8_t lead;

    if (!ready(reader))
        return false;
    lead = reader->bytes[reader->at];
    return (lead >= FIXSTR && lead < NIL) || (lead >= STR8 && lead <= STR32);
}

/*
 * Size of the value at the cursor without its members, and how many members it has.  False when the
 * head itself is cut off or is the one lead byte msgpack never uses.
 */
static bool
peek_any(const struct kvt_msgpack_reader *reader, uint64_t *size, uint64_t *members)
{
    const uint8_t lead = reader->bytes[reader->at];
    uint64_t length = 0;
    size_t width = 0;

    *size = 1;
    *members = 0;
    if (lead < FIXMAP || lead >= NEGATIVE_FIXINT) {
        return true;
    } else if (lead < FIXARRAY) {
        *members = 2 * (uint64_t)(lead & 0x0fu);
    } else if (lead < FIXSTR) {
        *members = lead & 0x0fu;
    } else if (lead < NIL) {
        *size += lead & 0x1fu;
    } else if (lead >= BIN8 && lead <= EXT32) {
        /* bin 8/16/32, then ext 8/16/32, which has one byte more for its type */
        width = (size_t)1 << (lead - (lead <= BIN32 ? BIN8 : EXT8));
        if (!peek_number(reader, 1, width, &length))
            return false;
        *size += width + length + (lead >= EXT8 ? 1 : 0);
    } else if (lead >= FLOAT32 && lead < UINT8) {
        *size += lead == FLOAT32 ? 4 : 8;
    } else if (lead >= UINT8 && lead <= INT64) {
        *size += (uint64_t)1 << (lead - (lead <= UINT64 ? UINT8 : INT8));
    } else if (lead >= FIXEXT1 && lead <= FIXEXT16) {
        *size += 1 + ((uint64_t)1 << (lead - FIXEXT1));
    } else if (lead >= STR8 && lead <= STR32) {
        width = (size_t)1 << (lead - STR8);
        if (!peek_number(reader, 1, width, &length))
            return false;
        *size += width + length;
    } else if (lead >= ARRAY16) {
        width = lead == ARRAY16 || lead == MAP16 ? 2 : 4;
        if (!peek_number(reader, 1, width, &length))
            return false;
        *size += width;
        *members = lead >= MAP16 ? 2 * length : length;
    }
    return lead != NEVER_USED;
}

void
kvt_msgpack_rest(struct kvt_msgpack_reader *reader, uint32_t members_total, uint32_t known)
{
    /* Values still to step over, nested ones included: no recursion. */
    uint64_t pending = members_total > known ? members_total - known : 0;
    uint64_t members;
    uint64_t size;

    while (pending > 0 && reader->code == KVT_OK) {
        if (!ready(reader) || !peek_any(reader, &size, &members) ||
            size > reader->size - reader->at ||
            pending - 1 + members > reader->size - reader->at - size) {
            kvt_msgpack_fail(reader, reader->at, KVT_INVALID, "a whole value");
            return;
        }
        reader->at += size;
        pending += members - 1;
    }
}

enum kvt_err
kvt_msgpack_end(struct kvt_msgpack_reader *reader, const char *what, struct kvt_error *err)
{
    if (reader->at != reader->size)
        kvt_msgpack_fail(reader, reader->at, KVT_INVALID, "the end");
    if (reader->code == KVT_OK)
        return KVT_OK;
    return kvt_error_set(err, reader->code, "%s of %zu bytes: at byte %zu expected %s", what,
                         reader->size, reader->failed_at, reader->wanted);
}

/* msgpack-c's output: the result is ignored by its packers, so the writer remembers. */
static int
append(void *data, const char *bytes, size_t size)
{
    struct kvt_msgpack_writer *writer = data;
    struct kvt_buffer *out = writer->out;

    if (size > writer->max - (out->size - writer->start) || size > out->limit - out->size)
        writer->too_large = true;
    else if (size > 0)
        kvt_buffer_append(out, bytes, size);
    return writer->too_large || !kvt_buffer_ok(out) ? -1 : 0;
}

void
kvt_msgpack_write(struct kvt_msgpack_writer *writer, struct kvt_buffer *out, size_t max)
{
    writer->out = out;
    writer->start = out->size;
    writer->max = max;
    writer->too_large = false;
    msgpack_packer_init(&writer->packer, writer, append);
}

void
kvt_msgpack_put_array(struct kvt_msgpack_writer *writer, size_t members)
{
    (void)msgpack_pack_array(&writer->packer, members);
}

void
kvt_msgpack_put_uint(struct kvt_msgpack_writer *writer, uint64_t value)
{
    (void)msgpack_pack_uint64(&writer->packer, value);
}

void
kvt_msgpack_put_bool(struct kvt_msgpack_writer *writer, bool value)
{
    if (value)
        (void)msgpack_pack_true(&writer->packer);
    else
        (void)msgpack_pack_false(&writer->packer);
}

void
kvt_msgpack_put_real(struct kvt_msgpack_writer *writer, double value)
{
    (void)msgpack_pack_double(&writer->packer, value);
}

void
kvt_msgpack_put_str(struct kvt_msgpack_writer *writer, const char *text)
{
    (void)msgpack_pack_str_with_body(&writer->packer, text, strlen(text));
}

void
kvt_msgpack_put_bin(struct kvt_msgpack_writer *writer, const void *bytes, size_t size)
{
    (void)msgpack_pack_bin_with_body(&writer->packer, bytes, size);
}

enum kvt_err
kvt_msgpack_done(struct kvt_msgpack_writer *writer)
{
    const bool ok = kvt_buffer_ok(writer->out);

    if (ok && !writer->too_large)
        return KVT_OK;
    writer->out->size = writer->start;
    return ok ? KVT_RANGE : KVT_NOMEM;
}
