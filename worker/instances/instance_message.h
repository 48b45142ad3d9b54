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
 * Threads:   none.
 * Limits:    those of the buffer and of engine/rpc/rpc.h.
 */
#ifndef WORKER_INSTANCES_INSTANCE_MESSAGE_H
#define WORKER_INSTANCES_INSTANCE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"

struct kvbm_words {
    const uint8_t *bytes;
    size_t size;
    size_t at;
    bool bad; /* something was read that is not there */
};

void kvbm_words_put(struct kvt_buffer *out, uint64_t word);
void kvbm_words_put_bytes(struct kvt_buffer *out, const void *bytes, size_t size);

/** 0 where there is none. */
uint64_t kvbm_words_get(struct kvbm_words *words);

/** NULL, and `*size` 0, where there are none. */
const uint8_t *kvbm_words_get_bytes(struct kvbm_words *words, size_t *size);

/** A number of things to come of `each` words: as many as may be there, else 0 and bad. */
size_t kvbm_words_get_count(struct kvbm_words *words, size_t each);

/** All was there, and nothing is left. */
bool kvbm_words_end(const struct kvbm_words *words);

#endif /* WORKER_INSTANCES_INSTANCE_MESSAGE_H */
