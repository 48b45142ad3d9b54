/*
 * base/core/buffer.h -- a growing byte buffer with a ceiling.
 *
 * Why: encoders append without counting, and a peer can never make us grow without bound.
 * Ownership: the caller owns the struct (init/release); `data` is valid until the next append.
 * Threads:   none; one owner.
 * Limits:    `limit` bytes, given at init.  After an append that did not fit, `failed` stays set
 * and the content is what fitted: check kvt_buffer_ok() once at the end.
 */
#ifndef BASE_CORE_BUFFER_H
#define BASE_CORE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/file.h"
#include "kvtier/error.h"

struct kvt_buffer {
    uint8_t *data; /* NULL while empty */
    size_t size;
    size_t capacity;
    size_t limit;
    bool failed;
};

void kvt_buffer_init(struct kvt_buffer *buffer, size_t limit);
void kvt_buffer_release(struct kvt_buffer *buffer);

/** Empty it, keep the memory, forget a failure. */
void kvt_buffer_clear(struct kvt_buffer *buffer);

void kvt_buffer_append(struct kvt_buffer *buffer, const void *bytes, size_t size);
/** The same of a text, without its NUL. */
void kvt_buffer_puts(struct kvt_buffer *buffer, const char *text);
void kvt_buffer_printf(struct kvt_buffer *buffer, const char *format, ...) KVT_PRINTF(2, 3);

/** Room for `size` more bytes at the end (not counted yet), or NULL; then add to `size` yourself.
 */
uint8_t *kvt_buffer_reserve(struct kvt_buffer *buffer, size_t size);

/** NUL-terminated text of the content ("" when empty or when the terminator did not fit). */
const char *kvt_buffer_text(struct kvt_buffer *buffer);

bool kvt_buffer_ok(const struct kvt_buffer *buffer);

/** Append `text` as a JSON string with quotes and escapes. */
void kvt_buffer_json_string(struct kvt_buffer *buffer, const char *text);

#endif /* BASE_CORE_BUFFER_H */
