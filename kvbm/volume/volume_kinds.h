/*
 * kvbm/volume/volume_kinds.h -- volumes in memory, in one file, and in a folder.
 *
 * Why: three places with one contract (kvbm/volume/volume_set.h).
 *
 *   ram        goes with the process
 *   file       fixed slots in one file and the index beside it: kvbm/storage/disk.h, kept; as many
 *              operations in flight as that has, no allocation by the file system later
 *   directory  a file a block, so that other programs can copy, count and delete them; written
 *              without a name, synced, then linked, so that a name is a whole block after any crash
 *
 * What is stored is durable when its put is answered (file, directory).  A block that fails its
 * check stays a miss until it is put again, which replaces it.
 *
 * Ownership: a kvbm_volume: register it or kvbm_volume_close() it.  Options are copied.
 * Threads:   as kvbm/volume/volume_set.h says; one process a file (its index is locked) or folder.
 * Limits:    `blocks` of them: the next put is KVT_FULL.  block_size is a multiple of
 *            KVBM_STORAGE_ALIGN for ram and file, anything up to KVT_BLOCK_SIZE_MAX for directory.
 */
#ifndef KVBM_VOLUME_VOLUME_KINDS_H
#define KVBM_VOLUME_VOLUME_KINDS_H

#include "kvbm/storage/aio.h"
#include "kvbm/volume/volume_set.h"

struct kvbm_volume_options {
    const char *path; /* of the file (its folder exists) or the folder; not of ram */
    uint32_t blocks;
    size_t block_size;
    uint64_t fingerprint; /* of what the blocks mean; what has another one is not found */
    const struct kvbm_aio_calls *calls; /* file: tests that make them fail */
};

KVT_NODISCARD enum kvt_err kvbm_volume_open_ram(struct kvbm_volume **out,
                                                const struct kvbm_volume_options *options,
                                                struct kvt_error *err);

/** What an earlier process stored is found again. */
KVT_NODISCARD enum kvt_err kvbm_volume_open_file(struct kvbm_volume **out,
                                                 const struct kvbm_volume_options *options,
                                                 struct kvt_error *err);

/** Likewise.  The folder is made where there is none; KVT_UNSUPPORTED where its file system has no
 *  files without a name. */
KVT_NODISCARD enum kvt_err kvbm_volume_open_directory(struct kvbm_volume **out,
                                                      const struct kvbm_volume_options *options,
                                                      struct kvt_error *err);

#endif /* KVBM_VOLUME_VOLUME_KINDS_H */
