#include "base/core/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/escape.h"

enum { CAPACITY_MIN = 64 };

void
kvt_buffer_init(struct kvt_buffer *buffer, size_t limit)
{
    *buffer = (struct kvt_buffer){.limit = limit};
}

void
kvt_buffer_release(struct kvt_buffer *buffer)
{
    kvt_free(buffer->data);
    *buffer = (struct kvt_buffer){.limit = buffer->limit};
}

void
kvt_buffer_clear(struct kvt_buffer *buffer)
{
    buffer->size = 0;
    buffer->failed = false;
}

uint8_t *
kvt_buffer_reserve(struct kvt_buffer *buffer, size_t size)
{
    size_t capacity = buffer->capacity;
    uint8_t *grown;

    /* After the first append that did not fit, later ones would leave a hole: they fail too. */
    if (buffer->failed || size > buffer->limit - buffer->size) {
        buffer->failed = true;
        return NULL;
    }
    if (buffer->data != NULL && size <= capacity - buffer->size)
        return buffer->data + buffer->size;

    if (capacity < CAPACITY_MIN)
        capacity = CAPACITY_MIN;
    while (capacity - buffer->size < size)
        capacity = capacity > buffer->limit / 2 ? buffer->limit : capacity * 2;
    if (capacity > buffer->limit)
        capacity = buffer->limit;
    /* One byte more than is counted, so that kvt_buffer_text() never has to grow. */
    grown = kvt_realloc(buffer->data, capacity + 1, 1);
    if (grown == NULL) {
        buffer->failed = true;
        return NULL;
    }
    buffer->data = grown;
    buffer->capacity = capacity;
    return buffer->data + buffer->size;
}

void
kvt_buffer_append(struct kvt_buffer *buffer, const void *bytes, size_t size)
{
    uint8_t *room;

    if (size == 0)
        return;
    room = kvt_buffer_reserve(buffer, size);
    if (room == NULL)
        return;
    memcpy(room, bytes, size);
    buffer->size += size;
}

void
kvt_buffer_puts(struct kvt_buffer *buffer, const char *text)
{
    kvt_buffer_append(buffer, text, strlen(text));
}

void
kvt_buffer_printf(struct kvt_buffer *buffer, const char *format, ...)
{
    /* Into the room there is, and the final NUL into the byte that is never counted. */
    const size_t free = buffer->data == NULL ? 0 : buffer->capacity - buffer->size + 1;
    va_list again;
    va_list args;
    int size;

    va_start(args, format);
    va_copy(again, args);
    size = vsnprintf(free == 0 ? NULL : (char *)buffer->data + buffer->size, free, format, args);
    va_end(args);
    if (size < 0) {
        buffer->failed = true;
    } else {
        uint8_t *room = kvt_buffer_reserve(buffer, (size_t)size);

        if (room != NULL && (size_t)size >= free) /* it did not fit */
            (void)vsnprintf((char *)room, (size_t)size + 1, format, again);
        if (room != NULL)
            buffer->size += (size_t)size;
    }
    va_end(again);
}

const char *
kvt_buffer_text(struct kvt_buffer *buffer)
{
    if (buffer->data == NULL)
        return "";
    buffer->data[buffer->size] = '\0';
    return (const char *)buffer->data;
}

bool
kvt_buffer_ok(const struct kvt_buffer *buffer)
{
    return !buffer->failed;
}

void
kvt_buffer_json_string(struct kvt_buffer *buffer, const char *text)
{
    const size_t longest = strlen(text) * KVT_ESCAPE_GROWTH + 2;
    char piece[256];
    size_t size;
    char *all;

    /* Short text, which is nearly all of it, must not ask for six times its size. */
    if (longest <= sizeof(piece)) {
        piece[0] = '"';
        size = 1 + kvt_escape_json(piece + 1, sizeof(piece) - 2, text);
        piece[size++] = '"';
        kvt_buffer_append(buffer, piece, size);
        return;
    }
    all = kvt_calloc(longest, 1);
    if (all == NULL) {
        buffer->failed = true;
        return;
    }
    all[0] = '"';
    size = 1 + kvt_escape_json(all + 1, longest - 2, text);
    all[size++] = '"';
    kvt_buffer_append(buffer, all, size);
    kvt_free(all);
}
