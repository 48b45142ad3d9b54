/*
 * kvbm/cuda/cuda_memory.h -- device memory and pinned host memory as storages.
 *
 * Why: G1 is the GPU's memory, also another process's (CUDA IPC), and copies to and from it only
 * run at the link's speed, and at the same time as others, from host memory the driver has pinned.
 *
 * Ownership: kvbm_storage values; close them before their driver.
 * Threads:   as kvbm/storage/tier_storage.h.  Reads have one stream and writes another, so the two
 *            directions overlap; a call returns when its own copies have landed.  Calls in one
 *            direction take turns.
 * Limits:    as kvbm/storage/tier_storage.h.
 */
#ifndef KVBM_CUDA_CUDA_MEMORY_H
#define KVBM_CUDA_CUDA_MEMORY_H

#include "kvbm/cuda/cuda_driver.h"
#include "kvbm/storage/layered_storage.h"
#include "kvbm/storage/tier_storage.h"

KVT_NODISCARD enum kvt_err kvbm_cuda_open_device(struct kvbm_storage **out, struct kvbm_cuda *cuda,
                                                 uint32_t block_count, size_t block_size,
                                                 struct kvt_error *err);

/** Device memory that an engine laid out; it is borrowed (kvbm/storage/layered_storage.h). */
KVT_NODISCARD enum kvt_err kvbm_cuda_open_layers(struct kvbm_storage **out, struct kvbm_cuda *cuda,
                                                 const struct kvbm_layout_memory *memory,
                                                 struct kvt_error *err);

/* Blocks of one process on a device, as another one on this machine may be told of them: plain
 * bytes.  Whoever has them can read and write that memory. */
struct kvbm_cuda_shared {
    struct kvbm_cuda_ipc handle;
    uint32_t block_count;
    uint64_t block_size;
};

/** Let other processes have a storage of kvbm_cuda_open_device().  KVT_OK; KVT_UNSUPPORTED (the
 *  driver cannot, or the memory is an engine's); KVT_IO. */
KVT_NODISCARD enum kvt_err kvbm_cuda_share(const struct kvbm_storage *storage,
                                           struct kvbm_cuda_shared *out, struct kvt_error *err);

/** What another process shares, as a storage on the device of `ours`.  What that process writes is
 *  seen at once.  It keeps its storage until this is closed; if it dies, what is read is
 *  undefined.  KVT_OK; KVT_UNSUPPORTED; KVT_INVALID or KVT_RANGE (sizes); KVT_IO (the driver
 *  refuses); KVT_NOMEM. */
KVT_NODISCARD enum kvt_err kvbm_cuda_open_beside(struct kvbm_storage **out,
                                                 const struct kvbm_storage *ours,
                                                 const struct kvbm_cuda_shared *shared,
                                                 struct kvt_error *err);

KVT_NODISCARD enum kvt_err kvbm_cuda_open_pinned(struct kvbm_storage **out, struct kvbm_cuda *cuda,
                                                 uint32_t block_count, size_t block_size,
                                                 struct kvt_error *err);

/** Pin host memory that is not ours (a region that other processes read, say), so that devices
 *  copy to and from it as from kvbm_cuda_open_pinned()'s.  Undone by kvbm_cuda_unpin_host() before
 *  the memory goes.  KVT_OK; KVT_UNSUPPORTED or KVT_IO (the driver cannot, or refuses: copies work
 *  all the same, slower); KVT_NOMEM. */
KVT_NODISCARD enum kvt_err kvbm_cuda_pin_host(struct kvbm_cuda *cuda, void *memory, size_t size,
                                              struct kvt_error *err);
void kvbm_cuda_unpin_host(struct kvbm_cuda *cuda, void *memory);

/* For libraries that put work of their own on a device's stream: a collective, say. */

/** Is it one of the two above? */
bool kvbm_cuda_is_device(const struct kvbm_storage *storage);

/** Where a byte of a block lies on its device, and how many lie together from there on. */
uint64_t kvbm_cuda_device_address(const struct kvbm_storage *storage, uint32_t block, size_t offset,
                                  size_t *run);

/** Make the storage's device this thread's.  KVT_OK or KVT_IO. */
KVT_NODISCARD enum kvt_err kvbm_cuda_device_enter(const struct kvbm_storage *storage);

/** Take a stream of the storage, and make its device this thread's; nobody else has it until it is
 *  given back.  NULL: it is lost. */
void *kvbm_cuda_device_begin(struct kvbm_storage *storage);

/** Wait for what is on that stream, and give it back.  KVT_OK, or KVT_IO: nothing of it can be
 *  trusted. */
KVT_NODISCARD enum kvt_err kvbm_cuda_device_end(struct kvbm_storage *storage);

#endif /* KVBM_CUDA_CUDA_MEMORY_H */
