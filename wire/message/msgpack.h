/*
 * wire/message/msgpack.h -- msgpack, bounded both ways.
 *
 * Why: what arrives from the bus may be anything.  The reader is a cursor that never reads past its
 * input, never allocates and never recurses; the first thing that does not fit is remembered with
 * its byte offset and what was wanted there, and everything after it reads as zero, so that a
 * decoder asks once at its end.  The writer packs with msgpack-c straight into a bounded buffer.
 *
 * Ownership: reader and writer borrow their bytes and their buffer.
 * Threads:   none; one owner.
 * Limits:    the reader: its input; counts larger than the bytes left are refused at once, so a
 *            decoder's loops are bounded by the input.  The writer: `max` bytes.
 */
#ifndef WIRE_MESSAGE_MSGPACK_H
#define WIRE_MESSAGE_MSGPACK_H

#include <endian.h>
#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/core/buffer.h"
#include "kvtier/error.h"

struct wire_msgpack_reader {
    const uint8_t *bytes;
    size_t size;
    size_t at;
    enum kvt_err code;  /* of the first failure, or KVT_OK */
    size_t failed_at;   /* offset of the value that did not fit */
    const char *wanted; /* what should have been there */
};

void wire_msgpack_read(struct wire_msgpack_reader *reader, const void *bytes, size_t size);

/** Record a failure at `offset` unless there is one already. */
void wire_msgpack_fail(struct wire_msgpack_reader *reader, size_t offset, enum kvt_err code,
                       const char *wanted);

/** An unsigned integer of any width, at most `max`. */
uint64_t wire_msgpack_uint(struct wire_msgpack_reader *reader, uint64_t max, const char *wanted);

/* Leading bytes, for the inline reader below (msgpack_lead.h has all of them). */
enum { WIRE_MSGPACK_SMALL_END = 0x80, WIRE_MSGPACK_EIGHT_BYTES = 0xcf };

/** Any number.  Inline are the two forms that nearly all have in a stream of events: hashes, and
 *  what is small. */
static inline uint64_t
wire_msgpack_u64(struct wire_msgpack_reader *reader, const char *wanted)
{
    const uint8_t *at;
    uint64_t big;

    if (reader->code != KVT_OK || reader->size - reader->at < 1 + sizeof(big))
        return wire_msgpack_uint(reader, UINT64_MAX, wanted);
    at = reader->bytes + reader->at;
    if (*at < WIRE_MSGPACK_SMALL_END) {
        reader->at++;
        return *at;
    }
    if (*at != WIRE_MSGPACK_EIGHT_BYTES)
        return wire_msgpack_uint(reader, UINT64_MAX, wanted);
    memcpy(&big, at + 1, sizeof(big));
    reader->at += 1 + sizeof(big);
    return be64toh(big);
}

uint32_t wire_msgpack_u32(struct wire_msgpack_reader *reader, const char *wanted);
/** The version that messages of ours begin with; any but 1 is a failure. */
void wire_msgpack_version(struct wire_msgpack_reader *reader);
bool wire_msgpack_bool(struct wire_msgpack_reader *reader, const char *wanted);
/** A number of any form that is not negative and finite: a float of either width, or whole. */
double wire_msgpack_real(struct wire_msgpack_reader *reader, const char *wanted);

/** Members of the array that starts here; fewer than `least` is a failure. */
uint32_t wire_msgpack_array(struct wire_msgpack_reader *reader, uint32_t least, const char *wanted);

/** As wire_msgpack_array(); more than `most` is KVT_RANGE. */
uint32_t wire_msgpack_list(struct wire_msgpack_reader *reader, size_t most, const char *wanted);

/** A string without NUL bytes that fits `capacity` with its own; `out` is "" on failure. */
void wire_msgpack_str(struct wire_msgpack_reader *reader, char *out, size_t capacity,
                      const char *wanted);

/** Bytes, as a pointer into the input. */
const void *wire_msgpack_bin(struct wire_msgpack_reader *reader, size_t *size, const char *wanted);

/** Is the next value a string?  (Answers differ from failures by it.) */
bool wire_msgpack_is_str(const struct wire_msgpack_reader *reader);

/** Step over what an array of `members` has behind the `known` ones that were read. */
void wire_msgpack_rest(struct wire_msgpack_reader *reader, uint32_t members, uint32_t known);

/** Nothing may follow.  Then the reader's verdict, with offset and expectation in `err`. */
KVT_NODISCARD enum kvt_err wire_msgpack_end(struct wire_msgpack_reader *reader, const char *what,
                                            struct kvt_error *err);

struct wire_msgpack_writer {
    msgpack_packer packer;
    struct kvt_buffer *out;
    size_t start; /* of this message in `out` */
    size_t max;
    bool too_large;
};

/** The packer points into the writer: do not move it. */
void wire_msgpack_write(struct wire_msgpack_writer *writer, struct kvt_buffer *out, size_t max);

void wire_msgpack_put_array(struct wire_msgpack_writer *writer, size_t members);
void wire_msgpack_put_uint(struct wire_msgpack_writer *writer, uint64_t value);
void wire_msgpack_put_bool(struct wire_msgpack_writer *writer, bool value);
void wire_msgpack_put_real(struct wire_msgpack_writer *writer, double value);
void wire_msgpack_put_str(struct wire_msgpack_writer *writer, const char *text);
void wire_msgpack_put_bin(struct wire_msgpack_writer *writer, const void *bytes, size_t size);

/** KVT_OK, KVT_RANGE (larger than `max` or the buffer's limit) or KVT_NOMEM; on failure the
 * buffer's content is what it was before. */
KVT_NODISCARD enum kvt_err wire_msgpack_done(struct wire_msgpack_writer *writer);

#endif /* WIRE_MESSAGE_MSGPACK_H */
