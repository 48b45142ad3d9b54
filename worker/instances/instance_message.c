#include "worker/instances/instance_message.h"

#include <endian.h>
#include <string.h>

enum { WORD = sizeof(uint64_t) };

void
worker_message_put(struct kvt_buffer *out, uint64_t word)
{
    const uint64_t little = htole64(word);

    kvt_buffer_append(out, &little, WORD);
}

static size_t
padding_of(size_t size)
{
    return (WORD - size % WORD) % WORD;
}

void
worker_message_put_bytes(struct kvt_buffer *out, const void *bytes, size_t size)
{
    static const uint8_t zeros[WORD];

    worker_message_put(out, size);
    kvt_buffer_append(out, bytes, size);
    kvt_buffer_append(out, zeros, padding_of(size));
}

uint64_t
worker_message_get(struct worker_message *message)
{
    uint64_t little;

    if (message->bad || message->size - message->at < WORD) {
        message->bad = true;
        return 0;
    }
    memcpy(&little, message->bytes + message->at, WORD);
    message->at += WORD;
    return le64toh(little);
}

const uint8_t *
worker_message_get_bytes(struct worker_message *message, size_t *size)
{
    const uint64_t wanted = worker_message_get(message);
    const size_t left = message->size - message->at;
    const uint8_t *bytes = message->bytes + message->at;

    *size = 0;
    if (message->bad || wanted > left || padding_of((size_t)wanted) > left - (size_t)wanted) {
        message->bad = true;
        return NULL;
    }
    *size = (size_t)wanted;
    message->at += *size + padding_of(*size);
    return bytes;
}

size_t
worker_message_get_count(struct worker_message *message, size_t each)
{
    const uint64_t count = worker_message_get(message);

    if (message->bad || count > (message->size - message->at) / (each * WORD)) {
        message->bad = true;
        return 0;
    }
    return (size_t)count;
}

bool
worker_message_end(const struct worker_message *message)
{
    return !message->bad && message->at == message->size;
}
