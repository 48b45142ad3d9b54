/*
 * worker/replay/block_content.h -- the bytes a block must have.
 *
 * Why: a replay has no model, but wrong bytes must be noticed as surely as with one.  So a block's
 * bytes follow from its sequence hash alone, and every read compares every byte.
 *
 * Word i (64 bits, little-endian) is m ^ (m >> 29) with m = (start + i) * odd constant, where start
 * is the mixed hash: a block of another hash, a shifted block and a torn block all differ.
 *
 * Threads:   no shared state.
 * Limits:    sizes are multiples of 64 bytes, buffers aligned to 8 (asserted).
 */
#ifndef WORKER_REPLAY_BLOCK_CONTENT_H
#define WORKER_REPLAY_BLOCK_CONTENT_H

#include <stddef.h>
#include <stdint.h>

/** Write the `size` bytes that block `hash` must have. */
void worker_content_fill(uint64_t hash, void *bytes, size_t size);

/** Compare with them.  Returns how many bytes differ; `first` is then the offset of the first. */
size_t worker_content_check(uint64_t hash, const void *bytes, size_t size, size_t *first);

#endif /* WORKER_REPLAY_BLOCK_CONTENT_H */
