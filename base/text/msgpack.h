/*
 * base/text/msgpack.h -- msgpack, bounded both ways.
 *
 * Why: what arrives from others may be anything.  The reader is a cursor that never reads past its
 * input, never allocates and never recurses; the first thing that does not fit is remembered with
 * its byte offset and what was wanted there, and everything after it reads as zero, so that a
 * decoder asks once at its end.  The writer appends shortest forms to a bounded buffer.  Codecs
 * with another contract (wire/dialect/msgpack_cursor.h, engine/rpc/rpc_msgpack.h) stand on the
 * functions at the end.
 *
 * Ownership: reader and writer borrow their bytes and their buffer.
 * Limits:    the reader: its input; counts larger than the bytes left are refused at once, so a
 *            decoder's loops are bounded by the input.  The writer: `max` bytes.
 */
#ifndef BASE_TEXT_MSGPACK_H
#define BASE_TEXT_MSGPACK_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/core/buffer.h"
#include "kvtier/error.h"

#define KVT_MSGPACK_HEAD_MAX 9 /* bytes of a number, or of a head without what it announces */

/* Leading bytes; the msgpack specification, "Formats". */
enum kvt_msgpack_lead {
    KVT_MSGPACK_FIXMAP = 0x80,
    KVT_MSGPACK_FIXARRAY = 0x90,
    KVT_MSGPACK_FIXSTR = 0xa0,
    KVT_MSGPACK_NIL = 0xc0,
    KVT_MSGPACK_NEVER_USED = 0xc1,
    KVT_MSGPACK_FALSE_VALUE = 0xc2,
    KVT_MSGPACK_TRUE_VALUE = 0xc3,
    KVT_MSGPACK_BIN8 = 0xc4,
    KVT_MSGPACK_BIN32 = 0xc6,
    KVT_MSGPACK_EXT8 = 0xc7,
    KVT_MSGPACK_EXT32 = 0xc9,
    KVT_MSGPACK_FLOAT32 = 0xca,
    KVT_MSGPACK_FLOAT64 = 0xcb,
    KVT_MSGPACK_UINT8 = 0xcc,
    KVT_MSGPACK_UINT64 = 0xcf,
    KVT_MSGPACK_INT8 = 0xd0,
    KVT_MSGPACK_INT64 = 0xd3,
    KVT_MSGPACK_FIXEXT1 = 0xd4,
    KVT_MSGPACK_FIXEXT16 = 0xd8,
    KVT_MSGPACK_STR8 = 0xd9,
    KVT_MSGPACK_STR32 = 0xdb,
    KVT_MSGPACK_ARRAY16 = 0xdc,
    KVT_MSGPACK_ARRAY32 = 0xdd,
    KVT_MSGPACK_MAP16 = 0xde,
    KVT_MSGPACK_MAP32 = 0xdf,
    KVT_MSGPACK_NEGATIVE_FIXINT = 0xe0,
};

struct kvt_msgpack_reader {
    const uint8_t *bytes;
    size_t size;
    size_t at;
    enum kvt_err code;  /* of the first failure, or KVT_OK */
    size_t failed_at;   /* offset of the value that did not fit */
    const char *wanted; /* what should have been there */
};

void kvt_msgpack_read(struct kvt_msgpack_reader *reader, const void *bytes, size_t size);

/** Record a failure at `offset` unless there is one already. */
void kvt_msgpack_fail(struct kvt_msgpack_reader *reader, size_t offset, enum kvt_err code,
                      const char *wanted);

/** An unsigned integer of any width, at most `max`. */
uint64_t kvt_msgpack_uint(struct kvt_msgpack_reader *reader, uint64_t max, const char *wanted);

static inline uint64_t
kvt_msgpack_be64(const uint8_t *bytes)
{
    uint64_t value;

    memcpy(&value, bytes, sizeof(value));
    return be64toh(value);
}

/** Any number.  Inline are the two forms that nearly all have in a stream of events: hashes, and
 *  what is small. */
static inline uint64_t
kvt_msgpack_u64(struct kvt_msgpack_reader *reader, const char *wanted)
{
    const uint8_t *at;

    if (reader->code != KVT_OK || reader->size - reader->at < KVT_MSGPACK_HEAD_MAX)
        return kvt_msgpack_uint(reader, UINT64_MAX, wanted);
    at = reader->bytes + reader->at;
    if (*at < KVT_MSGPACK_FIXMAP) {
        reader->at++;
        return *at;
    }
    if (*at != KVT_MSGPACK_UINT64)
        return kvt_msgpack_uint(reader, UINT64_MAX, wanted);
    reader->at += KVT_MSGPACK_HEAD_MAX;
    return kvt_msgpack_be64(at + 1);
}

uint32_t kvt_msgpack_u32(struct kvt_msgpack_reader *reader, const char *wanted);
bool kvt_msgpack_bool(struct kvt_msgpack_reader *reader, const char *wanted);
/** A number of any form that is not negative and finite: a float of either width, or whole. */
double kvt_msgpack_real(struct kvt_msgpack_reader *reader, const char *wanted);

/** Members of the array that starts here; fewer than `least` is a failure. */
uint32_t kvt_msgpack_array(struct kvt_msgpack_reader *reader, uint32_t least, const char *wanted);

/** As kvt_msgpack_array(); more than `most` is KVT_RANGE. */
uint32_t kvt_msgpack_list(struct kvt_msgpack_reader *reader, size_t most, const char *wanted);

/** A string without NUL bytes that fits `capacity` with its own; `out` is "" on failure. */
void kvt_msgpack_str(struct kvt_msgpack_reader *reader, char *out, size_t capacity,
                     const char *wanted);

/** Bytes, as a pointer into the input. */
const void *kvt_msgpack_bin(struct kvt_msgpack_reader *reader, size_t *size, const char *wanted);

/** Is the next value a string?  (Answers differ from failures by it.) */
bool kvt_msgpack_is_str(const struct kvt_msgpack_reader *reader);

/** Step over what an array of `members` has behind the `known` ones that were read. */
void kvt_msgpack_rest(struct kvt_msgpack_reader *reader, uint32_t members, uint32_t known);

/** Begin a message of ours: an array of `least` members or more, whose first is version 1.  How
 *  many it has. */
uint32_t kvt_msgpack_message(struct kvt_msgpack_reader *reader, const void *bytes, size_t size,
                             uint32_t least, const char *wanted);

/** KVT_RANGE: a message `what` of `size` bytes is larger than `max`. */
enum kvt_err kvt_msgpack_refuse(const char *what, size_t size, size_t max, struct kvt_error *err);

/** Nothing may follow.  Then the reader's verdict, with offset and expectation in `err`. */
KVT_NODISCARD enum kvt_err kvt_msgpack_end(struct kvt_msgpack_reader *reader, const char *what,
                                           struct kvt_error *err);

/** kvt_msgpack_rest(), then kvt_msgpack_end(). */
KVT_NODISCARD enum kvt_err kvt_msgpack_close(struct kvt_msgpack_reader *reader, uint32_t members,
                                             uint32_t known, const char *what,
                                             struct kvt_error *err);

struct kvt_msgpack_writer {
    struct kvt_buffer *out;
    size_t start; /* of this message in `out` */
    size_t max;
    bool too_large;
};

void kvt_msgpack_write(struct kvt_msgpack_writer *writer, struct kvt_buffer *out, size_t max);

/** The same of a message of ours: an array of `members`, whose first is version 1. */
void kvt_msgpack_put_message(struct kvt_msgpack_writer *writer, struct kvt_buffer *out, size_t max,
                             size_t members);

void kvt_msgpack_put_array(struct kvt_msgpack_writer *writer, size_t members);
/** `members` names, each with its value. */
void kvt_msgpack_put_map(struct kvt_msgpack_writer *writer, size_t members);
void kvt_msgpack_put_nil(struct kvt_msgpack_writer *writer);
void kvt_msgpack_put_uint(struct kvt_msgpack_writer *writer, uint64_t value);
void kvt_msgpack_put_bool(struct kvt_msgpack_writer *writer, bool value);
void kvt_msgpack_put_real(struct kvt_msgpack_writer *writer, double value);
void kvt_msgpack_put_str(struct kvt_msgpack_writer *writer, const char *text);
void kvt_msgpack_put_bin(struct kvt_msgpack_writer *writer, const void *bytes, size_t size);

/** KVT_OK, KVT_RANGE (larger than `max` or the buffer's limit) or KVT_NOMEM; on failure the
 * buffer's content is what it was before. */
KVT_NODISCARD enum kvt_err kvt_msgpack_done(struct kvt_msgpack_writer *writer);

/* ---- parts, for codecs with another contract ---- */

/** Shortest forms; each returns its length. */
size_t kvt_msgpack_form_uint(uint8_t bytes[KVT_MSGPACK_HEAD_MAX], uint64_t value);
size_t kvt_msgpack_form_array(uint8_t bytes[KVT_MSGPACK_HEAD_MAX], size_t members);
size_t kvt_msgpack_form_bin(uint8_t bytes[KVT_MSGPACK_HEAD_MAX], size_t size);

/** The big-endian number of 1, 2, 4 or 8 bytes. */
uint64_t kvt_msgpack_number(const uint8_t *bytes, size_t width);

/**
 * Measure the value that begins at `at` (before `end`): its size without its members, and how many
 * members it has.
 *
 * @return false: the head itself is cut off, or is the one leading byte that msgpack never uses
 */
bool kvt_msgpack_measure(const uint8_t *at, const uint8_t *end, uint64_t *size, uint64_t *members);

#endif /* BASE_TEXT_MSGPACK_H */
