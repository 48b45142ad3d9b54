/*
 * worker/instances/instance_message.h -- the messages between the processes of instances: 64-bit
 * words.
 *
 * Why: one program speaks to itself, so that numbers in a row are enough; they are checked all the
 * same, since a process may be killed and another one started in the middle of anything.
 *
 * A message is words, little-endian; bytes in it are a word with their size, then they, then zeros
 * up to a whole word.
 *
 * Ownership: a reader borrows its bytes.
 * Limits:    those of the buffer and of engine/rpc/rpc.h.
 */
#ifndef WORKER_INSTANCES_INSTANCE_MESSAGE_H
#define WORKER_INSTANCES_INSTANCE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"

struct worker_message {
    const uint8_t *bytes;
    size_t size;
    size_t at;
    bool bad; /* something was read that is not there */
};

void worker_message_put(struct kvt_buffer *out, uint64_t word);
void worker_message_put_bytes(struct kvt_buffer *out, const void *bytes, size_t size);

/** 0 where there is none. */
uint64_t worker_message_get(struct worker_message *message);

/** NULL, and `*size` 0, where there are none. */
const uint8_t *worker_message_get_bytes(struct worker_message *message, size_t *size);

/** A number of things to come of `each` words: as many as may be there, else 0 and bad. */
size_t worker_message_get_count(struct worker_message *message, size_t each);

/** All was there, and nothing is left. */
bool worker_message_end(const struct worker_message *message);

#endif /* WORKER_INSTANCES_INSTANCE_MESSAGE_H */
