/*
 * base/text/json_pull.h -- reading JSON without building it.
 *
 * Why: event planes that speak JSON bring thousands of events a second, and a tree of objects for
 * each would cost more than the events.  This is a cursor over the text: strict, exact for all 64
 * bits of an integer, never behind the end of its input, and without a byte of heap.  The first
 * fault is remembered with its offset, and everything after it reads as nothing, so that a decoder
 * asks once at its end.  (base/text/json.h is for settings and answers, where a tree is handy.)
 *
 * How to use it:
 *     kvt_json_pull_init(&pull, text, size);
 *     if (kvt_json_pull_object(&pull))
 *         while (kvt_json_pull_member(&pull, &key))
 *             ... read or skip exactly one value ...
 *     return kvt_json_pull_end(&pull, "name", err);
 * A reader of another type than what stands there steps over the value and says false: that is the
 * caller's to judge, and no fault of the text.
 *
 * Ownership: slices point into the text.
 * Threads:   none; one owner.
 * Limits:    KVT_JSON_PULL_DEPTH_MAX containers within each other; beyond is KVT_RANGE.
 */
#ifndef BASE_TEXT_JSON_PULL_H
#define BASE_TEXT_JSON_PULL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kvtier/error.h"

#define KVT_JSON_PULL_DEPTH_MAX 64

struct kvt_json_pull {
    const char *text;
    size_t size;
    size_t at;
    uint64_t arrays; /* bit d: the container at depth d is an array */
    uint64_t filled; /* bit d: it has had a member */
    unsigned depth;
    enum kvt_err code; /* of the first fault, or KVT_OK */
    size_t failed_at;
    const char *wanted; /* what should have been there */
};

enum kvt_json_kind {
    KVT_JSON_NOTHING, /* the end, or no JSON value */
    KVT_JSON_NULL,
    KVT_JSON_BOOL,
    KVT_JSON_NUMBER,
    KVT_JSON_STRING,
    KVT_JSON_ARRAY,
    KVT_JSON_OBJECT,
};

/* The inside of a string as it stands in the text; its escapes are known to be well-formed. */
struct kvt_json_slice {
    const char *bytes;
    size_t size;
    bool escaped;
};

void kvt_json_pull_init(struct kvt_json_pull *pull, const char *text, size_t size);

/** By its first character. */
enum kvt_json_kind kvt_json_pull_peek(struct kvt_json_pull *pull);

/** Go in.  False: no object (array) stands here; it was stepped over. */
bool kvt_json_pull_object(struct kvt_json_pull *pull);
bool kvt_json_pull_array(struct kvt_json_pull *pull);

/** Go to the next member: its value is next.  False at the end (the container is left) or after a
 * fault. */
bool kvt_json_pull_member(struct kvt_json_pull *pull, struct kvt_json_slice *key);
bool kvt_json_pull_element(struct kvt_json_pull *pull);

/** Step over a value, checking it. */
void kvt_json_pull_skip(struct kvt_json_pull *pull);

/* A value as what it should be; false when it is something else, and `*out` is then 0 or empty. */

/** A whole number from 0 to 2^64 - 1 without fraction or exponent. */
bool kvt_json_pull_u64(struct kvt_json_pull *pull, uint64_t *out);
bool kvt_json_pull_bool(struct kvt_json_pull *pull, bool *out);
bool kvt_json_pull_string(struct kvt_json_pull *pull, struct kvt_json_slice *out);

/** True and stepped over when it is null; otherwise nothing happens. */
bool kvt_json_pull_null(struct kvt_json_pull *pull);

/** Nothing but blanks may follow.  Then the verdict: KVT_OK, KVT_INVALID or KVT_RANGE, with "<name>
 * of N bytes: at byte K expected ...". */
KVT_NODISCARD enum kvt_err kvt_json_pull_end(struct kvt_json_pull *pull, const char *name,
                                             struct kvt_error *err);

/** Record a fault at `offset` unless there is one already. */
void kvt_json_pull_fail(struct kvt_json_pull *pull, size_t offset, enum kvt_err code,
                        const char *wanted);

/** The same, for a slice with escapes. */
bool kvt_json_slice_is_slow(const struct kvt_json_slice *slice, const char *text);

/** Is it this text, once unescaped?  Inline: a member's name is compared with several, whose
 * lengths are known when they are compiled. */
static inline bool
kvt_json_slice_is(const struct kvt_json_slice *slice, const char *text)
{
    const size_t size = strlen(text);

    if (slice->escaped)
        return kvt_json_slice_is_slow(slice, text);
    return slice->size == size && memcmp(slice->bytes, text, size) == 0;
}

/** Unescape into `out`, NUL-terminated; `*size` bytes without it (NULL is allowed, and then a NUL
 * inside is refused too).  False, and "", when it does not fit. */
bool kvt_json_slice_copy(const struct kvt_json_slice *slice, char *out, size_t capacity,
                         size_t *size);

/** Bytes of the UTF-8 character at `text`, of which there is one byte at least, or 0: overlong
 * forms, surrogates and what lies beyond U+10FFFF are none. */
size_t kvt_json_utf8(const char *text, size_t size);

#endif /* BASE_TEXT_JSON_PULL_H */
