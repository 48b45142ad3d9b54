/*
 * kvbm/storage/disk.h -- a tier in one file (G3), for as long as the process lives or longer.
 *
 * Why: the local disk is the largest tier a worker owns.  A disk may lie, so every part of a block
 * has a crc32c that every read is checked against: a mismatch is KVT_CORRUPT, which callers treat
 * as a miss.  Several operations are in flight at once, by io_uring or by threads, and checksums
 * are worked out meanwhile.
 *
 * Without `keep` the file is taken away from its folder at once, since its content is only useful
 * to the process that knows what lies where: a crash leaves nothing behind.  With `keep` an index
 * beside it (its path and ".index") says what lies where, and the next process finds it:
 * kvbm_disk_commit() makes written blocks last under their names, kvbm_disk_found() walks over what
 * there was at opening.  After a kill or a power cut at any instant every block found is whole, and
 * none is missing whose commit was answered and which nobody wrote or forgot since.  A block that
 * its pool evicted and nobody wrote over is found too: its bytes are still those of its name.  Of
 * two blocks of one name only the one committed later is found, and when that is written over or
 * forgotten, none is.  The order of writes and syncs that makes it so is in
 * kvbm/storage/disk_index.h.
 *
 * Ownership: a kvbm_storage; close it with kvbm_storage_close().
 * Threads:   as kvbm/storage/tier_storage.h; commit, forget and found likewise.
 * Limits:    as kvbm/storage/tier_storage.h; KVBM_DISK_PARTS_MAX parts a block.  The space is
 *            claimed at opening; where the file system refuses that, a full disk shows as KVT_FULL
 *            of a later write.
 */
#ifndef KVBM_STORAGE_DISK_H
#define KVBM_STORAGE_DISK_H

#include <stdbool.h>

#include "kvbm/storage/aio.h"
#include "kvbm/storage/disk_index.h"
#include "kvbm/storage/tier_storage.h"

#define KVBM_DISK_DEPTH 16 /* unless told otherwise */

/* What a tier that outlives its process needs to know. */
struct kvbm_disk_keep {
    uint64_t fingerprint; /* of what the blocks mean: another one starts with an empty tier */
    bool trust_index;     /* do not read every block at opening; reads are checked all the same */
};

struct kvbm_disk_options {
    const char *path; /* of the file; its folder must exist */
    uint32_t block_count;
    size_t block_size;
    bool direct;    /* bypass the page cache where the file system can */
    bool keep_path; /* leave the file in its folder (tests that damage it) */
    enum kvbm_aio_engine engine;
    unsigned depth;                     /* operations in flight; 0: KVBM_DISK_DEPTH */
    size_t part_size;                   /* what can be read and checked by itself, a multiple of
                                           KVBM_STORAGE_ALIGN that divides block_size; 0: a block */
    const struct kvbm_aio_calls *calls; /* tests that make them fail */
    const struct kvbm_disk_keep *keep;  /* NULL: the content ends with the process */
};

struct kvbm_disk_stats {
    uint64_t reads;
    uint64_t writes;
    uint64_t corrupt; /* reads that failed their crc */
    uint64_t failed;  /* reads and writes the system failed */
    bool direct;      /* in force */
    bool uring;       /* in force */
    uint32_t found;   /* blocks of an earlier process */
    uint32_t dropped; /* of them, not what their record says */
};

KVT_NODISCARD enum kvt_err kvbm_disk_open(struct kvbm_storage **out,
                                          const struct kvbm_disk_options *options,
                                          struct kvt_error *err);

/** Of a storage made by kvbm_disk_open(). */
void kvbm_disk_stats(struct kvbm_storage *storage, struct kvbm_disk_stats *stats);

/**
 * Make completely written blocks last under their names: after KVT_OK a power cut does not lose
 * them, and no other block is found under these names.  Every entry gets its status; KVT_NOTFOUND:
 * the block is not written.  A tier that is not kept answers KVT_OK and does nothing.
 *
 * @return KVT_OK when all are, else the first failure
 */
enum kvt_err kvbm_disk_commit(struct kvbm_storage *storage, struct kvbm_storage_name *entries,
                              size_t count);

/** Durably forget blocks and their content.  KVT_IO: they may be found again. */
enum kvt_err kvbm_disk_forget(struct kvbm_storage *storage, const uint32_t *blocks, size_t count);

/** Blocks of an earlier process, from `*at` on, at most `capacity`; advances `*at`.  Returns how
 *  many: fewer than `capacity` means that was the end, and lets go of what is needed to ask again.
 */
size_t kvbm_disk_found(struct kvbm_storage *storage, uint32_t *at,
                       struct kvbm_storage_name *entries, size_t capacity);

#endif /* KVBM_STORAGE_DISK_H */
