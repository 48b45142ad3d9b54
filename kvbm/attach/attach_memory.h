/*
 * kvbm/attach/attach_memory.h -- an engine's blocks in memory it passed.
 *
 * Why: the worker copies to and from the engine's memory itself, by the transfers every tier has.
 *
 * Ownership: the storage owns its mapping; the descriptor stays the caller's.
 * Threads:   as kvbm/storage/tier_storage.h says.  The engine may write at any time: what is
 *            copied out is checked by nobody, and means what the engine says.
 * Limits:    as kvbm/storage/tier_storage.h.
 */
#ifndef KVBM_ATTACH_ATTACH_MEMORY_H
#define KVBM_ATTACH_ATTACH_MEMORY_H

#include "kvbm/storage/tier_storage.h"

/** Blocks one after the other from the beginning of `fd` on. */
KVT_NODISCARD enum kvt_err kvbm_attach_memory_open(struct kvbm_storage **out, int fd,
                                                   uint32_t block_count, size_t block_size,
                                                   struct kvt_error *err);

#endif /* KVBM_ATTACH_ATTACH_MEMORY_H */
