/*
 * kvbm/storage/disk_index.h -- which block of the disk tier's file holds what, across restarts.
 *
 * Why: a disk tier outlives its process when what lies where is on the disk as well, and when what
 * is found there can be trusted after a kill or a power cut at any instant.
 *
 * On the disk: a header of KVBM_DISK_HEADER_BYTES (shape, fingerprint, nonce, crc), then one record
 * a block at a fixed place: name, serial, the crcs of the block's parts, the header's nonce, and a
 * crc over all of it.  A record that is torn fails its own crc; one of an earlier life of the file
 * has another nonce; either is no record.
 *
 * The order that makes it safe, for each block:
 *   1. kvbm_disk_index_erase(): the old record is zeroed and *synced* before the first byte of new
 *      data is written, so no record ever speaks of data that is being replaced;
 *   2. the data is written, and synced;
 *   3. kvbm_disk_index_put() writes the record, kvbm_disk_index_sync() makes it last.
 *   4. kvbm_disk_index_erase_doubles(): a record of the same name in another block is zeroed and
 *      synced, so that it cannot come back when the later one goes.
 * A valid record thus means whole data.  A crash between 1 and 3 loses the block and nothing else.
 * After one between 3 and 4 a name is there twice: the higher serial counts, and opening erases the
 * other one before anything else is done.
 *
 * Ownership: the index owns its file and holds a lock on it; close it after the last call.  The
 *            engine is borrowed.
 * Threads:   any, as long as no two of them speak of the same block at once.  Blocks that lost
 *            their name to another one may be anybody's meanwhile.
 * Limits:    KVBM_DISK_PARTS_MAX parts a block.  After a failed sync, or a record that could
 *            neither be written nor taken back, nobody knows what is on the disk: every later erase
 *            and put is KVT_IO.
 */
#ifndef KVBM_STORAGE_DISK_INDEX_H
#define KVBM_STORAGE_DISK_INDEX_H

#include <stdbool.h>

#include "kvbm/storage/aio.h"
#include "kvbm/storage/tier_storage.h"

#define KVBM_DISK_PARTS_MAX    1024
#define KVBM_DISK_HEADER_BYTES 4096

struct kvbm_disk_index;

struct kvbm_disk_index_options {
    const char *path;
    uint32_t block_count;
    uint64_t block_size;
    uint32_t parts;
    uint64_t fingerprint; /* of what the blocks mean; another one finds nothing */
    struct kvbm_aio *aio;
};

/**
 * Open or make the index.  An index of another shape or fingerprint, or one that is cut short or
 * has a torn header, is emptied.
 *
 * @return KVT_OK; KVT_BUSY (another process has it); KVT_NOMEM; what the system said
 */
KVT_NODISCARD enum kvt_err kvbm_disk_index_open(struct kvbm_disk_index **out,
                                                const struct kvbm_disk_index_options *options,
                                                struct kvt_error *err);

/** NULL is allowed. */
void kvbm_disk_index_close(struct kvbm_disk_index *index);

/** Is there a record of this block, or might there be?  Then it must be erased before new data. */
bool kvbm_disk_index_live(struct kvbm_disk_index *index, uint32_t block);

/** The record of a block found at opening, and its crcs (`parts` of them); false: none, or no
 *  longer. */
bool kvbm_disk_index_get(struct kvbm_disk_index *index, uint32_t block,
                         struct kvbm_storage_name *entry, uint32_t *crcs);

/** Let go of what opening found and kvbm_disk_index_get() gives. */
void kvbm_disk_index_forget_found(struct kvbm_disk_index *index);

/** Zero the records of these blocks and sync.  KVT_IO: their data must not be replaced. */
KVT_NODISCARD enum kvt_err kvbm_disk_index_erase(struct kvbm_disk_index *index,
                                                 const uint32_t *blocks, size_t count);

/* A record that a later one of the same name took the place of. */
struct kvbm_disk_double {
    uint64_t serial; /* 0: there is none */
    uint32_t block;
};

/** Write a record; it lasts after kvbm_disk_index_sync().
 *
 *  @param[out] before  the record of this name until now, for kvbm_disk_index_erase_doubles() */
KVT_NODISCARD enum kvt_err kvbm_disk_index_put(struct kvbm_disk_index *index,
                                               const struct kvbm_storage_name *entry,
                                               const uint32_t *crcs,
                                               struct kvbm_disk_double *before);
KVT_NODISCARD enum kvt_err kvbm_disk_index_sync(struct kvbm_disk_index *index);

/** Zero these records, if they are still there, and sync.  Only after the sync of what took their
 *  place.  KVT_IO: they may come back. */
KVT_NODISCARD enum kvt_err kvbm_disk_index_erase_doubles(struct kvbm_disk_index *index,
                                                         const struct kvbm_disk_double *doubles,
                                                         size_t count);

/** Sync the data's file: a failure counts as one of the index's own. */
KVT_NODISCARD enum kvt_err kvbm_disk_index_sync_data(struct kvbm_disk_index *index, int fd);

#endif /* KVBM_STORAGE_DISK_INDEX_H */
