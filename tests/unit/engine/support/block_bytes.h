/*
 * tests/unit/engine/support/block_bytes.h -- blocks whose bytes follow from their names.
 *
 * Why: whoever has read a block can tell by its name alone whether every byte is right.
 * Ownership: plain memory.
 * Threads:   no shared state.
 * Limits:    sizes are multiples of 8.
 */
#ifndef TESTS_UNIT_ENGINE_SUPPORT_BLOCK_BYTES_H
#define TESTS_UNIT_ENGINE_SUPPORT_BLOCK_BYTES_H

#include <stdbool.h>

#include "kvbm/layout/block_layout.h"

#define BLOCKS_LAYERS 6

/** Universal; 24 KiB with 4 heads, two layers to a sum. */
struct kvbm_layout blocks_layout(uint32_t tp_size, uint32_t tp_rank, uint32_t heads);

void blocks_write(void *bytes, size_t size, uint64_t hash);
bool blocks_are(const void *bytes, size_t size, uint64_t hash);

#endif /* TESTS_UNIT_ENGINE_SUPPORT_BLOCK_BYTES_H */
