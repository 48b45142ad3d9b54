/*
 * kvbm/public/public_handle.h -- what the files behind the public headers share; nobody else
 * includes it.
 *
 * Why: kvtier/{kvbm,layout,storage,transfer,volume,offload}.h hand out handles and take structures
 * that grow.  What is behind a handle, and how such a structure is read, is said once.
 * Ownership: as the public headers say.
 * Threads:   as the public headers say.
 * Limits:    as the public headers say.
 */
#ifndef KVBM_PUBLIC_PUBLIC_HANDLE_H
#define KVBM_PUBLIC_PUBLIC_HANDLE_H

#include <stdbool.h>
#include <stddef.h>

#include "kvbm/cuda/cuda_driver.h"
#include "kvbm/layout/layout_walk.h"
#include "kvbm/pool/block_pool.h"
#include "kvbm/storage/tier_storage.h"
#include "kvbm/transfer/transfer_manager.h"
#include "kvbm/volume/volume_set.h"
#include "kvtier/kvbm.h"
#include "kvtier/layout.h"
#include "kvtier/storage.h"
#include "kvtier/transfer.h"
#include "kvtier/volume.h"

struct kvt_pool {
    struct kvbm_pool *pool;
    kvt_pool_event_fn *on_store;
    kvt_pool_event_fn *on_remove;
    void *arg;
};

struct kvt_layout {
    struct kvbm_layout layout;
};

struct kvt_device {
    struct kvbm_cuda *cuda;
    int ordinal;
};

struct kvt_storage {
    struct kvbm_storage *storage;
};

struct kvt_transfer {
    struct kvbm_transfer *transfer;
};

struct kvt_volumes {
    struct kvbm_volumes *set;
};

/** What a caller's structure says, whose first member is its size; false when it says more than we
 *  know.  What it does not say is 0. */
bool kvbm_public_read(void *to, size_t to_size, const void *from);

/** As much as the caller's structure has room for; the rest of it is 0, and its size stays. */
void kvbm_public_write(void *to, const void *from, size_t from_size);

/** A name as callers see it. */
struct kvt_block_info kvbm_public_info(const struct kvbm_label *label);

/** And back; KVT_INVALID or KVT_UNSUPPORTED in words. */
KVT_NODISCARD enum kvt_err kvbm_public_label(struct kvbm_label *label,
                                             const struct kvt_block_info *info,
                                             struct kvt_error *err);

/** A caller's memory as ours; KVT_INVALID or KVT_UNSUPPORTED in words. */
KVT_NODISCARD enum kvt_err kvbm_public_memory(struct kvbm_layout_memory *to,
                                              const struct kvt_memory *from, struct kvt_error *err);

/** The layout behind a handle, or NULL. */
const struct kvbm_layout *kvbm_public_layout(const struct kvt_layout *layout);

#endif /* KVBM_PUBLIC_PUBLIC_HANDLE_H */
