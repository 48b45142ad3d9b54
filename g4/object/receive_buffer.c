#include "g4/object/receive_buffer.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"

enum { ALIGNMENT = 4096, FIRST_SIZE = 64 * 1024 };

void
g4_receive_buffer_init(struct g4_receive_buffer *buffer, void *memory, size_t limit)
{
    *buffer = (struct g4_receive_buffer){
        .bytes = memory, .capacity = memory == NULL ? 0 : limit, .limit = limit};
    buffer->own = memory == NULL;
}

static enum kvt_err
grow(struct g4_receive_buffer *buffer, size_t capacity)
{
    uint8_t *grown = kvt_aligned(ALIGNMENT, capacity);

    if (grown == NULL)
        return KVT_NOMEM;
    if (buffer->size > 0)
        memcpy(grown, buffer->bytes, buffer->size);
    kvt_free(buffer->bytes);
    buffer->bytes = grown;
    buffer->capacity = capacity;
    return KVT_OK;
}

enum kvt_err
g4_receive_buffer_expect(struct g4_receive_buffer *buffer, uint64_t size)
{
    if (size > buffer->limit)
        return KVT_RANGE;
    return size <= buffer->capacity ? KVT_OK : grow(buffer, (size_t)size);
}

/* Room for `more` bytes, all of which the limit allows. */
static enum kvt_err
make_room(struct g4_receive_buffer *buffer, size_t more)
{
    const size_t wanted = buffer->size + more;
    size_t capacity = buffer->capacity < FIRST_SIZE ? FIRST_SIZE : buffer->capacity;

    if (wanted <= buffer->capacity)
        return KVT_OK;
    while (capacity < wanted && capacity <= buffer->limit / 2)
        capacity *= 2;
    if (capacity < wanted || capacity > buffer->limit)
        capacity = buffer->limit;
    return grow(buffer, capacity);
}

const uint8_t *
g4_receive_buffer_append(struct g4_receive_buffer *buffer, const void *bytes, size_t size,
                         enum kvt_err *rc)
{
    uint8_t *to;

    *rc = size > buffer->limit - buffer->size ? KVT_RANGE : make_room(buffer, size);
    if (*rc != KVT_OK)
        return NULL;
    assert(size <= buffer->capacity - buffer->size);
    to = buffer->bytes + buffer->size;
    if (size > 0)
        memcpy(to, bytes, size);
    buffer->size += size;
    return to;
}

void *
g4_receive_buffer_take(struct g4_receive_buffer *buffer)
{
    void *memory = buffer->bytes;

    if (memory == NULL)
        memory = kvt_aligned(ALIGNMENT, 0); /* a body of no bytes is one, too */
    *buffer = (struct g4_receive_buffer){.bytes = NULL};
    return memory;
}

void
g4_receive_buffer_release(struct g4_receive_buffer *buffer)
{
    if (buffer->own)
        kvt_free(buffer->bytes);
    *buffer = (struct g4_receive_buffer){.bytes = NULL};
}
