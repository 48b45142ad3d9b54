/*
 * kvbm/cuda/memory.h -- device memory and pinned host memory as storages.
 *
 * Why: G1 is the GPU's memory, and copies to and from it only run at the link's speed, and at the
 * same time as others, from host memory the driver has pinned.
 *
 * Ownership: kvbm_storage values; close them before their driver.
 * Threads:   as kvbm/storage.h.  Reads have one stream and writes another, so the two directions
 *            overlap; a call returns when its own copies have landed.  Calls in one direction take
 *            turns.
 * Limits:    as kvbm/storage.h.
 */
#ifndef KVBM_CUDA_MEMORY_H
#define KVBM_CUDA_MEMORY_H

#include "kvbm/cuda/driver.h"
#include "kvbm/storage.h"
#include "kvbm/storage_layers.h"

KVT_NODISCARD enum kvt_err kvbm_cuda_open_device(struct kvbm_storage **out, struct kvbm_cuda *cuda,
                                                 uint32_t block_count, size_t block_size,
                                                 struct kvt_error *err);

/** Device memory that an engine laid out; it is borrowed (kvbm/storage_layers.h). */
KVT_NODISCARD enum kvt_err kvbm_cuda_open_layers(struct kvbm_storage **out, struct kvbm_cuda *cuda,
                                                 const struct kvbm_layout_memory *memory,
                                                 struct kvt_error *err);

KVT_NODISCARD enum kvt_err kvbm_cuda_open_pinned(struct kvbm_storage **out, struct kvbm_cuda *cuda,
                                                 uint32_t block_count, size_t block_size,
                                                 struct kvt_error *err);

#endif /* KVBM_CUDA_MEMORY_H */
