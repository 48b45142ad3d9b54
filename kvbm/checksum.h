/*
 * kvbm/checksum.h -- crc32c, as every check of a block's bytes here uses it.
 *
 * Why: the disk tier, its index and layouts must mean the same number.
 * Ownership: none.
 * Threads:   no shared state.
 * Limits:    none.
 */
#ifndef KVBM_CHECKSUM_H
#define KVBM_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/** crc32c of `bytes` behind those that gave `crc`; 0 begins. */
uint32_t kvbm_crc32c(uint32_t crc, const void *bytes, size_t size);

#endif /* KVBM_CHECKSUM_H */
