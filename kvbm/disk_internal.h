/*
 * kvbm/disk_internal.h -- what the two files of the disk tier share; nobody else includes it.
 *
 * Why: moving bytes (disk.c) and outliving the process (disk_keep.c) are two things.
 * Ownership: as kvbm/disk.h.
 * Threads:   `crcs` and `written` of a block belong to whoever may touch the block.
 * Limits:    as kvbm/disk.h.
 */
#ifndef KVBM_DISK_INTERNAL_H
#define KVBM_DISK_INTERNAL_H

#include <stdatomic.h>

#include "kvbm/disk.h"

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
    uint32_t *crcs;   /* of every part of every block */
    uint8_t *written; /* 0 or 1, of every part */
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

/** Open the index and take over what it says; the data file is open. */
KVT_NODISCARD enum kvt_err kvbm_disk_recover(struct kvbm_disk *disk,
                                             const struct kvbm_disk_options *options,
                                             struct kvt_error *err);

/** Before new data: erase the records of these blocks; those that could not get status KVT_IO. */
void kvbm_disk_retire(struct kvbm_disk *disk, struct kvbm_storage_io *ios, size_t count);

#endif /* KVBM_DISK_INTERNAL_H */
