#include "base/text/msgpack.h"

#include <assert.h>
#include <endian.h>
#include <math.h>
#include <string.h>

enum { VERSION = 1 }; /* of all messages of ours */

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

/* One load each: a batch has dozens of them. */
uint64_t
kvt_msgpack_number(const uint8_t *bytes, size_t width)
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
    *value = kvt_msgpack_number(reader->bytes + reader->at + skip, width);
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
    if (lead < KVT_MSGPACK_FIXMAP) {
        value = lead;
    } else if (lead >= KVT_MSGPACK_UINT8 && lead <= KVT_MSGPACK_UINT64) {
        width = (size_t)1 << (lead - KVT_MSGPACK_UINT8);
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

bool
kvt_msgpack_bool(struct kvt_msgpack_reader *reader, const char *wanted)
{
    uint8_t lead;

    if (ready(reader)) {
        lead = reader->bytes[reader->at];
        if (lead == KVT_MSGPACK_TRUE_VALUE || lead == KVT_MSGPACK_FALSE_VALUE) {
            reader->at++;
            return lead == KVT_MSGPACK_TRUE_VALUE;
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

    if (!ready(reader) || (reader->bytes[reader->at] != KVT_MSGPACK_FLOAT32 &&
                           reader->bytes[reader->at] != KVT_MSGPACK_FLOAT64))
        return (double)kvt_msgpack_uint(reader, UINT64_MAX, wanted);
    if (reader->bytes[reader->at] == KVT_MSGPACK_FLOAT64 &&
        peek_number(reader, 1, sizeof(bits), &bits)) {
        memcpy(&value, &bits, sizeof(value));
    } else if (reader->bytes[reader->at] == KVT_MSGPACK_FLOAT32 &&
               peek_number(reader, 1, sizeof(few), &bits)) {
        few = (uint32_t)bits;
        memcpy(&narrow, &few, sizeof(narrow));
        value = narrow;
    }
    if (!isfinite(value) || value < 0.0) {
        kvt_msgpack_fail(reader, reader->at, KVT_INVALID, wanted);
        return 0.0;
    }
    reader->at += reader->bytes[reader->at] == KVT_MSGPACK_FLOAT64 ? 9 : 5;
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
    if (lead >= KVT_MSGPACK_FIXARRAY && lead < KVT_MSGPACK_FIXSTR) {
        count = lead & 0x0fu;
    } else if (lead == KVT_MSGPACK_ARRAY16 || lead == KVT_MSGPACK_ARRAY32) {
        width = lead == KVT_MSGPACK_ARRAY16 ? 2 : 4;
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
    if (lead >= KVT_MSGPACK_FIXSTR && lead < KVT_MSGPACK_NIL) {
        length = lead & 0x1fu;
        if (length > reader->size - reader->at - head)
            goto fail;
    } else if (!peek_length(reader, KVT_MSGPACK_STR8, &head, &length)) {
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
    if (!ready(reader) || !peek_length(reader, KVT_MSGPACK_BIN8, &head, &length)) {
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
    return (lead >= KVT_MSGPACK_FIXSTR && lead < KVT_MSGPACK_NIL) ||
           (lead >= KVT_MSGPACK_STR8 && lead <= KVT_MSGPACK_STR32);
}

/* The number of `width` bytes after the leading one. */
static bool
number_after(const uint8_t *at, const uint8_t *end, size_t width, uint64_t *value)
{
    if ((size_t)(end - at) < 1 + width)
        return false;
    *value = kvt_msgpack_number(at + 1, width);
    return true;
}

bool
kvt_msgpack_measure(const uint8_t *at, const uint8_t *end, uint64_t *size, uint64_t *members)
{
    const uint8_t lead = *at;
    uint64_t length = 0;
    size_t width = 0;

    *size = 1;
    *members = 0;
    if (lead < KVT_MSGPACK_FIXMAP || lead >= KVT_MSGPACK_NEGATIVE_FIXINT) {
        return true;
    } else if (lead < KVT_MSGPACK_FIXARRAY) {
        *members = 2 * (uint64_t)(lead & 0x0fu);
    } else if (lead < KVT_MSGPACK_FIXSTR) {
        *members = lead & 0x0fu;
    } else if (lead < KVT_MSGPACK_NIL) {
        *size += lead & 0x1fu;
    } else if (lead >= KVT_MSGPACK_BIN8 && lead <= KVT_MSGPACK_EXT32) {
        /* bin 8/16/32, then ext 8/16/32, which has one byte more for its type */
        width =
            (size_t)1 << (lead - (lead <= KVT_MSGPACK_BIN32 ? KVT_MSGPACK_BIN8 : KVT_MSGPACK_EXT8));
        if (!number_after(at, end, width, &length))
            return false;
        *size += width + length + (lead >= KVT_MSGPACK_EXT8 ? 1 : 0);
    } else if (lead >= KVT_MSGPACK_FLOAT32 && lead < KVT_MSGPACK_UINT8) {
        *size += lead == KVT_MSGPACK_FLOAT32 ? 4 : 8;
    } else if (lead >= KVT_MSGPACK_UINT8 && lead <= KVT_MSGPACK_INT64) {
        *size += (uint64_t)1 << (lead - (lead <= KVT_MSGPACK_UINT64 ? KVT_MSGPACK_UINT8
                                                                    : KVT_MSGPACK_INT8));
    } else if (lead >= KVT_MSGPACK_FIXEXT1 && lead <= KVT_MSGPACK_FIXEXT16) {
        *size += 1 + ((uint64_t)1 << (lead - KVT_MSGPACK_FIXEXT1));
    } else if (lead >= KVT_MSGPACK_STR8 && lead <= KVT_MSGPACK_STR32) {
        width = (size_t)1 << (lead - KVT_MSGPACK_STR8);
        if (!number_after(at, end, width, &length))
            return false;
        *size += width + length;
    } else if (lead >= KVT_MSGPACK_ARRAY16) {
        width = lead == KVT_MSGPACK_ARRAY16 || lead == KVT_MSGPACK_MAP16 ? 2 : 4;
        if (!number_after(at, end, width, &length))
            return false;
        *size += width;
        *members = lead >= KVT_MSGPACK_MAP16 ? 2 * length : length;
    }
    return lead != KVT_MSGPACK_NEVER_USED;
}

void
kvt_msgpack_rest(struct kvt_msgpack_reader *reader, uint32_t members_total, uint32_t known)
{
    /* Values still to step over, nested ones included: no recursion. */
    uint64_t pending = members_total > known ? members_total - known : 0;
    uint64_t members;
    uint64_t size;

    while (pending > 0 && reader->code == KVT_OK) {
        if (!ready(reader) ||
            !kvt_msgpack_measure(reader->bytes + reader->at, reader->bytes + reader->size, &size,
                                 &members) ||
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

enum kvt_err
kvt_msgpack_close(struct kvt_msgpack_reader *reader, uint32_t members, uint32_t known,
                  const char *what, struct kvt_error *err)
{
    kvt_msgpack_rest(reader, members, known);
    return kvt_msgpack_end(reader, what, err);
}

uint32_t
kvt_msgpack_message(struct kvt_msgpack_reader *reader, const void *bytes, size_t size,
                    uint32_t least, const char *wanted)
{
    uint32_t members;

    kvt_msgpack_read(reader, bytes, size);
    members = kvt_msgpack_array(reader, least, wanted);
    if (kvt_msgpack_u64(reader, "a version") != VERSION)
        kvt_msgpack_fail(reader, reader->at, KVT_INVALID, "version 1 before this byte");
    return members;
}

enum kvt_err
kvt_msgpack_refuse(const char *what, size_t size, size_t max, struct kvt_error *err)
{
    return kvt_error_set(err, KVT_RANGE, "%s of %zu bytes: more than %zu", what, size, max);
}

/* ---- writing ---- */

static size_t
form(uint8_t *bytes, unsigned lead, uint64_t value, size_t width)
{
    const uint64_t wire = htobe64(value << (64 - 8 * width));

    bytes[0] = (uint8_t)lead;
    memcpy(bytes + 1, &wire, sizeof(wire)); /* the rest is overwritten, or not counted */
    return 1 + width;
}

/* 0: one byte, 1: two, 2: four, 3: eight. */
static unsigned
width_log2(uint64_t value)
{
    return value <= UINT8_MAX ? 0 : value <= UINT16_MAX ? 1 : value <= UINT32_MAX ? 2 : 3;
}

size_t
kvt_msgpack_form_uint(uint8_t bytes[KVT_MSGPACK_HEAD_MAX], uint64_t value)
{
    const unsigned log2 = width_log2(value);

    if (value < KVT_MSGPACK_FIXMAP) {
        bytes[0] = (uint8_t)value;
        return 1;
    }
    return form(bytes, KVT_MSGPACK_UINT8 + log2, value, (size_t)1 << log2);
}

/* Of an array or a map. */
static size_t
form_members(uint8_t *bytes, unsigned lead_few, unsigned lead16, size_t members)
{
    if (members < KVT_MSGPACK_FIXSTR - KVT_MSGPACK_FIXARRAY) {
        bytes[0] = (uint8_t)(lead_few + members);
        return 1;
    }
    return members <= UINT16_MAX ? form(bytes, lead16, members, 2)
                                 : form(bytes, lead16 + 1, members, 4);
}

size_t
kvt_msgpack_form_array(uint8_t bytes[KVT_MSGPACK_HEAD_MAX], size_t members)
{
    return form_members(bytes, KVT_MSGPACK_FIXARRAY, KVT_MSGPACK_ARRAY16, members);
}

size_t
kvt_msgpack_form_bin(uint8_t bytes[KVT_MSGPACK_HEAD_MAX], size_t size)
{
    const unsigned log2 = width_log2(size);

    assert(size <= UINT32_MAX);
    return form(bytes, KVT_MSGPACK_BIN8 + log2, size, (size_t)1 << log2);
}

static void
append(struct kvt_msgpack_writer *writer, const void *bytes, size_t size)
{
    struct kvt_buffer *out = writer->out;

    if (size > writer->max - (out->size - writer->start) || size > out->limit - out->size)
        writer->too_large = true;
    else
        kvt_buffer_append(out, bytes, size);
}

/* Where a head may be written at once; NULL: it has to be appended, with all checks. */
static uint8_t *
head_room(const struct kvt_msgpack_writer *writer)
{
    const struct kvt_buffer *out = writer->out;

    return !out->failed && out->capacity - out->size >= KVT_MSGPACK_HEAD_MAX &&
                   out->limit - out->size >= KVT_MSGPACK_HEAD_MAX &&
                   writer->max - (out->size - writer->start) >= KVT_MSGPACK_HEAD_MAX
               ? out->data + out->size
               : NULL;
}

void
kvt_msgpack_write(struct kvt_msgpack_writer *writer, struct kvt_buffer *out, size_t max)
{
    *writer = (struct kvt_msgpack_writer){.out = out, .start = out->size, .max = max};
}

void
kvt_msgpack_put_array(struct kvt_msgpack_writer *writer, size_t members)
{
    uint8_t bytes[KVT_MSGPACK_HEAD_MAX];
    uint8_t *room = head_room(writer);

    if (room != NULL)
        writer->out->size += kvt_msgpack_form_array(room, members);
    else
        append(writer, bytes, kvt_msgpack_form_array(bytes, members));
}

void
kvt_msgpack_put_uint(struct kvt_msgpack_writer *writer, uint64_t value)
{
    uint8_t bytes[KVT_MSGPACK_HEAD_MAX];
    uint8_t *room = head_room(writer);

    if (room != NULL)
        writer->out->size += kvt_msgpack_form_uint(room, value);
    else
        append(writer, bytes, kvt_msgpack_form_uint(bytes, value));
}

void
kvt_msgpack_put_message(struct kvt_msgpack_writer *writer, struct kvt_buffer *out, size_t max,
                        size_t members)
{
    kvt_msgpack_write(writer, out, max);
    kvt_msgpack_put_array(writer, members);
    kvt_msgpack_put_uint(writer, VERSION);
}

void
kvt_msgpack_put_map(struct kvt_msgpack_writer *writer, size_t members)
{
    uint8_t bytes[KVT_MSGPACK_HEAD_MAX];

    append(writer, bytes, form_members(bytes, KVT_MSGPACK_FIXMAP, KVT_MSGPACK_MAP16, members));
}

void
kvt_msgpack_put_nil(struct kvt_msgpack_writer *writer)
{
    append(writer, &(uint8_t){KVT_MSGPACK_NIL}, 1);
}

void
kvt_msgpack_put_bool(struct kvt_msgpack_writer *writer, bool value)
{
    append(writer, &(uint8_t){value ? KVT_MSGPACK_TRUE_VALUE : KVT_MSGPACK_FALSE_VALUE}, 1);
}

void
kvt_msgpack_put_real(struct kvt_msgpack_writer *writer, double value)
{
    uint8_t bytes[KVT_MSGPACK_HEAD_MAX];
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    append(writer, bytes, form(bytes, KVT_MSGPACK_FLOAT64, bits, sizeof(bits)));
}

void
kvt_msgpack_put_str(struct kvt_msgpack_writer *writer, const char *text)
{
    const size_t size = strlen(text);
    const unsigned log2 = width_log2(size);
    uint8_t bytes[KVT_MSGPACK_HEAD_MAX] = {(uint8_t)(KVT_MSGPACK_FIXSTR + size)};

    append(writer, bytes,
           size < KVT_MSGPACK_NIL - KVT_MSGPACK_FIXSTR
               ? 1
               : form(bytes, KVT_MSGPACK_STR8 + log2, size, (size_t)1 << log2));
    append(writer, text, size);
}

void
kvt_msgpack_put_bin(struct kvt_msgpack_writer *writer, const void *bytes, size_t size)
{
    uint8_t head[KVT_MSGPACK_HEAD_MAX];

    append(writer, head, kvt_msgpack_form_bin(head, size));
    append(writer, bytes, size);
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
