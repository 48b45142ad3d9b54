/*
 * kvbm/storage/disk_internal.h -- what the two files of the disk tier share; nobody else includes
 * it.
 *
 * Why: moving bytes (disk.c) and outliving the process (disk_keep.c) are two things.
 * Ownership: as kvbm/storage/disk.h.
 * Threads:   `crcs` of a block belong to whoever may touch the block; `written` is also looked at
 *            by kvbm_disk_found(), which walks over everybody's.
 * Limits:    as kvbm/storage/disk.h.
 */
#ifndef KVBM_STORAGE_DISK_INTERNAL_H
#define KVBM_STORAGE_DISK_INTERNAL_H

#include <stdatomic.h>

#include "kvbm/storage/disk.h"

/* Operations given to the engine in one call: many times its depth, since nothing flies between two
 * calls. */
#define KVBM_DISK_BATCH 256

struct kvbm_disk {
    struct kvbm_storage head;
    int fd;
    struct kvbm_aio *aio;
    struct kvbm_disk_index *index; /* NULL: not kept */
    size_t part_size;
    uint32_t parts;
    uint32_t *crcs;           /* of every part of every block */
    _Atomic uint8_t *written; /* 0 or 1, of every part */
    _Atomic bool direct;
    _Atomic uint64_t reads;
    _Atomic uint64_t writes;
    _Atomic uint64_t corrupt;
    _Atomic uint64_t failed;
    uint32_t found;
    uint32_t dropped;
};

/** The disk behind a storage made by kvbm_disk_open(). */
struct kvbm_disk *kvbm_disk_of(struct kvbm_storage *storage);

bool kvbm_disk_whole(const struct kvbm_disk *disk, uint32_t block);

/** `count` parts of the whole tier from `first` on. */
void kvbm_disk_set_written(struct kvbm_disk *disk, size_t first, size_t count, uint8_t written);

/** Open the index: the lock on it is the tier's, so this comes before the data is touched. */
KVT_NODISCARD enum kvt_err kvbm_disk_open_index(struct kvbm_disk *disk,
                                                const struct kvbm_disk_options *options,
                                                struct kvt_error *err);

/** Take over what the index says; the data file is open. */
KVT_NODISCARD enum kvt_err kvbm_disk_recover(struct kvbm_disk *disk,
                                             const struct kvbm_disk_options *options,
                                             struct kvt_error *err);

/** Before new data: erase the records of these blocks; those that could not get status KVT_IO. */
void kvbm_disk_retire(struct kvbm_disk *disk, struct kvbm_storage_io *ios, size_t count);

#endif /* KVBM_STORAGE_DISK_INTERNAL_H */
