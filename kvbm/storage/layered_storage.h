/*
 * kvbm/storage/layered_storage.h -- storages over memory that an engine laid out.
 *
 * Why: engines keep their cache as they like it: a tensor a layer, blocks with room between them.
 * Such memory is a storage of whole blocks all the same: an operation on a block's packed bytes
 * (kvbm/layout/block_layout.h) is split where they are apart.
 *
 * Ownership: the memory is borrowed until the storage is closed; layout and addresses are copied.
 * Threads:   as kvbm/storage/tier_storage.h.
 * Limits:    as kvbm/storage/tier_storage.h.  A block has an address where it is in one piece that
 *            begins at a multiple of KVBM_STORAGE_ALIGN; between two storages of others transfers
 *            need bounce buffers.
 */
#ifndef KVBM_STORAGE_LAYERED_STORAGE_H
#define KVBM_STORAGE_LAYERED_STORAGE_H

#include "kvbm/layout/layout_walk.h"
#include "kvbm/storage/tier_storage.h"

/* Where the packed bytes of blocks lie: `part_bytes` of each block in each part. */
struct kvbm_layout_map {
    uint64_t *parts;
    uint32_t count;
    uint64_t part_bytes;
    uint64_t stride; /* from one block to the next in a part */
};

KVT_NODISCARD enum kvt_err kvbm_layout_map_make(struct kvbm_layout_map *map,
                                                const struct kvbm_layout_memory *memory,
                                                struct kvt_error *err);
void kvbm_layout_map_free(struct kvbm_layout_map *map);

/** The address of a byte of a block, and how many lie together from there on. */
uint64_t kvbm_layout_map_find(const struct kvbm_layout_map *map, uint32_t block, size_t offset,
                              size_t *run);

/** Host memory.  kvbm/cuda/cuda_memory.h has the same for a device's. */
KVT_NODISCARD enum kvt_err kvbm_storage_open_layers(struct kvbm_storage **out,
                                                    enum kvbm_storage_kind kind,
                                                    const struct kvbm_layout_memory *memory,
                                                    struct kvt_error *err);

#endif /* KVBM_STORAGE_LAYERED_STORAGE_H */
