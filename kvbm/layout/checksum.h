/*
 * kvbm/layout/checksum.h -- crc32c, as every check of a block's bytes here uses it.
 *
 * Why: the disk tier, its index, layouts and block sets must mean the same number.
 * Threads:   no shared state.
 */
#ifndef KVBM_LAYOUT_CHECKSUM_H
#define KVBM_LAYOUT_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/** crc32c of `bytes` behind those that gave `crc`; 0 begins. */
uint32_t kvbm_crc32c(uint32_t crc, const void *bytes, size_t size);

/** Copy `count` pieces of `size` bytes that lie together, from where they may change, and sum each
 *  on the way: `sums` are of what arrived at `to`.  In one pass where the processor can (AVX-512
 *  with VPCLMULQDQ). */
void kvbm_crc32c_copy(uint32_t *sums, void *to, const void *from, size_t size, size_t count);

/** The same wherever it cannot: a part is copied, then summed out of the cache. */
void kvbm_crc32c_copy_by_steps(uint32_t *sums, void *to, const void *from, size_t size,
                               size_t count);

#endif /* KVBM_LAYOUT_CHECKSUM_H */
