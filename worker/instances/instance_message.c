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
worker_message_get(struct worker_message *words)
{
    uint64_t little;

    if (words->bad || words->size - words->at < WORD) {
        words->bad = true;
        return 0;
    }
    memcpy(&little, words->bytes + words->at, WORD);
    words->at += WORD;
    return le64toh(little);
}

const uint8_t *
worker_message_get_bytes(struct worker_message *words, size_t *size)
{
    const uint64_t wanted = worker_message_get(words);
    const size_t left = words->size - words->at;
    const uint8_t *bytes = words->bytes + words->at;

    *size = 0;
    if (words->bad || wanted > left || padding_of((size_t)wanted) > left - (size_t)wanted) {
        words->bad = true;
        return NULL;
    }
    *size = (size_t)wanted;
    words->at += *size + padding_of(*size);
    return bytes;
}

size_t
worker_message_get_count(struct worker_message *words, size_t each)
{
    const uint64_t count = worker_message_get(words);

    if (words->bad || count > (words->size - words->at) / (each * WORD)) {
        words->bad = true;
        return 0;
    }
    return (size_t)count;
}

bool
worker_message_end(const struct worker_message *words)
{
    return !words->bad && words->at == words->size;
}
