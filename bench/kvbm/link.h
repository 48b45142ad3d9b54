/*
 * bench/kvbm/link.h -- memory at the far end of a link that carries so many bytes a second.
 *
 * Why: without a GPU the second hop is a memcpy, beside which a disk takes so long that it hardly
 * matters whether the two overlap.  Here the hop takes as long as it is told to, and no CPU.
 * Ownership: a kvbm_storage; close it with kvbm_storage_close().
 * Threads:   one, and the rate is set while nothing moves.
 * Limits:    as kvbm/storage/tier_storage.h.
 */
#ifndef BENCH_KVBM_LINK_H
#define BENCH_KVBM_LINK_H

#include "kvbm/storage/tier_storage.h"

/** Device memory without addresses.  Without a rate the link is as fast as memory. */
KVT_NODISCARD enum kvt_err link_open(struct kvbm_storage **out, uint32_t block_count,
                                     size_t block_size, struct kvt_error *err);

/** From now on; 0: as fast as memory. */
void link_set_rate(struct kvbm_storage *storage, double bytes_per_second);

/** Where the block lies, for who wants to see what has arrived. */
uint8_t *link_bytes(struct kvbm_storage *storage, uint32_t block);

#endif /* BENCH_KVBM_LINK_H */
