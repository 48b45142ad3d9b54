/*
 * kvbm/disk.h -- a tier in one file (G3).
 *
 * Why: the local disk is the largest tier a worker owns.  Its content is only useful while the
 * worker that indexed it lives, so the file is taken away from its folder at once: nothing is left
 * behind by a crash.  A disk may lie, so every block has a crc32c in memory that every read is
 * checked against: a mismatch is KVT_CORRUPT, which callers treat as a miss.
 *
 * Ownership: a kvbm_storage; close it with kvbm_storage_close().
 * Threads:   as kvbm/storage.h.
 * Limits:    as kvbm/storage.h.  The space is claimed at opening; where the file system refuses
 *            that, a full disk shows as KVT_FULL of a later write.
 */
#ifndef KVBM_DISK_H
#define KVBM_DISK_H

#include <stdbool.h>

#include "kvbm/storage.h"

struct kvbm_disk_options {
    const char *path; /* of the file; its folder must exist */
    uint32_t block_count;
    size_t block_size;
    bool direct;    /* bypass the page cache where the file system can */
    bool keep_path; /* leave the file in its folder (tests that damage it) */
};

struct kvbm_disk_stats {
    uint64_t reads;
    uint64_t writes;
    uint64_t corrupt; /* reads that failed their crc */
    uint64_t failed;  /* reads and writes the system failed */
    bool direct;      /* in force */
};

KVT_NODISCARD enum kvt_err kvbm_disk_open(struct kvbm_storage **out,
                                          const struct kvbm_disk_options *options,
                                          struct kvt_error *err);

/** Of a storage made by kvbm_disk_open(). */
void kvbm_disk_stats(struct kvbm_storage *storage, struct kvbm_disk_stats *stats);

#endif /* KVBM_DISK_H */
