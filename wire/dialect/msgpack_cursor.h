/*
 * wire/dialect/msgpack_cursor.h -- a msgpack cursor for foreign messages.
 *
 * Why: base/text/msgpack.h reads our own formats, where anything unexpected is an error.
 * Foreign messages are read by name, have members nobody told us of, and a value of the wrong type
 * spoils one event, not the message.  So a reader here says false and steps over what it does not
 * want, and only a message that is no msgpack at all is a fault.  It is all inline: a block is two
 * numbers, and a call each would cost more than they do.
 *
 * Ownership: borrows its bytes.
 * Threads:   none; one owner.
 * Limits:    its input.  Counts larger than the bytes left are a fault at once, so that a decoder's
 *            loops are bounded by the input; nothing recurses.
 */
#ifndef WIRE_DIALECT_MSGPACK_CURSOR_H
#define WIRE_DIALECT_MSGPACK_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/text/msgpack.h"
#include "kvtier/error.h"

struct wire_cursor {
    const uint8_t *at;
    const uint8_t *end;
    const uint8_t *start;
    const uint8_t *failed_at; /* of the first fault, or NULL */
    enum kvt_err code;
    const char *wanted;
};

enum wire_cursor_kind {
    WIRE_CURSOR_NOTHING, /* the end, or a byte that begins nothing */
    WIRE_CURSOR_NIL,
    WIRE_CURSOR_BOOL,
    WIRE_CURSOR_INT,
    WIRE_CURSOR_FLOAT,
    WIRE_CURSOR_STR,
    WIRE_CURSOR_BIN,
    WIRE_CURSOR_EXT,
    WIRE_CURSOR_ARRAY,
    WIRE_CURSOR_MAP,
};

struct wire_cursor_text {
    const char *bytes;
    size_t size;
};

/* Record a fault unless there is one already; nothing is left to read then. */
void wire_cursor_fail(struct wire_cursor *pack, const uint8_t *at, enum kvt_err code,
                      const char *wanted);

enum wire_cursor_kind wire_cursor_kind(const struct wire_cursor *pack);

/* Step over a whole value. */
void wire_cursor_skip(struct wire_cursor *pack);

/* The slow paths of what is inline below. */
bool wire_cursor_slow_u64(struct wire_cursor *pack, uint64_t *value);
bool wire_cursor_slow_str(struct wire_cursor *pack, struct wire_cursor_text *text);
bool wire_cursor_slow_head(struct wire_cursor *pack, uint8_t lead16, unsigned values,
                           uint32_t *count);

/* A signed number as its bits (-1 is 2^64 - 1), besides what wire_cursor_u64() takes. */
bool wire_cursor_bits64(struct wire_cursor *pack, uint64_t *value);

/* float, or a whole number. */
bool wire_cursor_number(struct wire_cursor *pack, double *value);

bool wire_cursor_bin(struct wire_cursor *pack, const uint8_t **bytes, size_t *size);

/* KVT_OK or the first fault, "<name> of N bytes: at byte K expected ...".  Bytes behind the value
 * are nobody's concern. */
KVT_NODISCARD enum kvt_err wire_cursor_end(const struct wire_cursor *pack, const char *name,
                                           struct kvt_error *err);

static inline void
wire_cursor_init(struct wire_cursor *pack, const void *bytes, size_t size)
{
    pack->start = pack->at = bytes;
    pack->end = pack->start + size;
    pack->failed_at = NULL;
    pack->code = KVT_OK;
    pack->wanted = NULL;
}

static inline size_t
wire_cursor_left(const struct wire_cursor *pack)
{
    return (size_t)(pack->end - pack->at);
}

/* A whole number from 0 on; false (and stepped over) for anything else. */
static inline bool
wire_cursor_u64(struct wire_cursor *pack, uint64_t *value)
{
    if (wire_cursor_left(pack) >= 9 && *pack->at == KVT_MSGPACK_UINT64) {
        *value = kvt_msgpack_be64(pack->at + 1);
        pack->at += 9;
        return true;
    }
    if (pack->at < pack->end && *pack->at < KVT_MSGPACK_FIXMAP) {
        *value = *pack->at++;
        return true;
    }
    return wire_cursor_slow_u64(pack, value);
}

static inline bool
wire_cursor_u32(struct wire_cursor *pack, uint32_t *value)
{
    uint64_t wide;
    const bool ok = wire_cursor_u64(pack, &wide) && wide <= UINT32_MAX;

    *value = ok ? (uint32_t)wide : 0;
    return ok;
}

static inline bool
wire_cursor_str(struct wire_cursor *pack, struct wire_cursor_text *text)
{
    if (pack->at < pack->end && *pack->at >= KVT_MSGPACK_FIXSTR && *pack->at < KVT_MSGPACK_NIL) {
        const size_t size = *pack->at & 0x1fu;

        if (size < wire_cursor_left(pack)) {
            text->bytes = (const char *)pack->at + 1;
            text->size = size;
            pack->at += 1 + size;
            return true;
        }
    }
    return wire_cursor_slow_str(pack, text);
}

static inline bool
wire_cursor_array(struct wire_cursor *pack, uint32_t *count)
{
    if (pack->at < pack->end && *pack->at >= KVT_MSGPACK_FIXARRAY &&
        *pack->at < KVT_MSGPACK_FIXSTR) {
        *count = *pack->at & 0x0fu;
        if (*count < wire_cursor_left(pack)) {
            pack->at++;
            return true;
        }
    }
    return wire_cursor_slow_head(pack, KVT_MSGPACK_ARRAY16, 1, count);
}

static inline bool
wire_cursor_map(struct wire_cursor *pack, uint32_t *count)
{
    if (pack->at < pack->end && *pack->at >= KVT_MSGPACK_FIXMAP &&
        *pack->at < KVT_MSGPACK_FIXARRAY) {
        *count = *pack->at & 0x0fu;
        if (2u * *count < wire_cursor_left(pack)) {
            pack->at++;
            return true;
        }
    }
    return wire_cursor_slow_head(pack, KVT_MSGPACK_MAP16, 2, count);
}

/* True and stepped over when it is nil; otherwise nothing happens. */
static inline bool
wire_cursor_nil(struct wire_cursor *pack)
{
    if (pack->at < pack->end && *pack->at == KVT_MSGPACK_NIL) {
        pack->at++;
        return true;
    }
    return false;
}

/* The name of a map's member; a name that is no text is one that nobody knows. */
static inline struct wire_cursor_text
wire_cursor_key(struct wire_cursor *pack)
{
    struct wire_cursor_text key;

    if (!wire_cursor_str(pack, &key))
        key = (struct wire_cursor_text){"", 0};
    return key;
}

/* Compared by length and then in a load or two: both lengths are known when it is compiled. */
#define WIRE_CURSOR_IS(text, literal)                                                              \
    ((text).size == sizeof(literal) - 1 && memcmp((text).bytes, literal, sizeof(literal) - 1) == 0)

#endif /* WIRE_DIALECT_MSGPACK_CURSOR_H */
