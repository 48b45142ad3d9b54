/*
 * kvbm/storage/tier_storage.h -- the memory of one tier: so many blocks of one size, readable and
 * writable whole or in parts.
 *
 * Why: device memory, host memory and a disk file differ only in how bytes get in and out.  Behind
 * this one table the pool, the transfers and the offload manager are written once.
 *
 * Ownership: whoever opened a storage closes it with kvbm_storage_close(), after every user is
 *            gone. Host buffers are borrowed for the call.
 * Threads:   any thread may read and write; two threads must not touch the same block at once (the
 *            pool's handles see to that).
 * Limits:    block_size is a multiple of KVBM_STORAGE_ALIGN and at most KVT_BLOCK_SIZE_MAX; host
 *            buffers of whole blocks are aligned to KVBM_STORAGE_ALIGN; KVBM_STORAGE_BLOCKS_MAX
 *            blocks.  Memory moves any part of a block, a disk only parts it has checksums of, and
 *            a volume is written by the block.
 */
#ifndef KVBM_STORAGE_TIER_STORAGE_H
#define KVBM_STORAGE_TIER_STORAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"

#define KVBM_STORAGE_ALIGN      4096
#define KVBM_STORAGE_BLOCKS_MAX (UINT32_C(1) << 24)

enum kvbm_storage_kind {
    KVBM_STORAGE_DEVICE, /* memory of a GPU */
    KVBM_STORAGE_PINNED, /* host memory a GPU can reach directly */
    KVBM_STORAGE_SYSTEM, /* host memory */
    KVBM_STORAGE_DISK,   /* a file */
    KVBM_STORAGE_REMOTE, /* somebody else's memory, or an object store */
};

struct kvbm_storage;

/* One block, or a part of one, in or out; every one gets its own answer. */
struct kvbm_storage_io {
    void *host; /* read: filled; write: read from */
    uint32_t block;
    enum kvt_err status; /* out: KVT_OK, KVT_IO, KVT_CORRUPT, KVT_NOTFOUND (never written),
                            KVT_INVALID (no part that this storage can move by itself) ... */
    size_t offset;       /* in the block */
    size_t size;         /* 0: the whole block */
};

/* What a written block is called, for a storage that remembers it. */
struct kvbm_storage_name {
    uint32_t block;
    struct kvt_block_id id;
    uint64_t prefix_hash; /* of kvtier/event.h */
    uint64_t tokens_hash; /* of its own tokens; 0: unknown */
    enum kvt_err status;  /* out */
};

/* A part of a block from one storage to another without host memory between. */
struct kvbm_storage_move {
    uint32_t source;
    uint32_t target;
    size_t source_offset;
    size_t target_offset;
    size_t size;
    enum kvt_err status; /* out */
};

struct kvbm_storage_ops {
    void (*read)(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count);
    void (*write)(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count);
    /** Where the block lies in this process's memory, or NULL when it does not. */
    void *(*address)(struct kvbm_storage *storage, uint32_t block);
    void (*close)(struct kvbm_storage *storage);
    /** May be NULL.  Move parts between two storages one of which is this one; false: not between
     *  these two, and nothing was done.  No parts at all is the question whether it could. */
    bool (*move)(struct kvbm_storage *target, struct kvbm_storage *source,
                 struct kvbm_storage_move *moves, size_t count);
    /** May be NULL: numbers are enough.  Learn what blocks will be called, before they are written
     *  or read. */
    void (*bind)(struct kvbm_storage *storage, const struct kvbm_storage_name *names, size_t count);
    /** May both be NULL: nothing outlives the process.  Make completely written blocks last under
     *  their names, and durably forget blocks. */
    enum kvt_err (*commit)(struct kvbm_storage *storage, struct kvbm_storage_name *names,
                           size_t count);
    enum kvt_err (*forget)(struct kvbm_storage *storage, const uint32_t *blocks, size_t count);
    bool whole; /* writes blocks, or parts it has checksums of, and no other pieces of them */
};

/* The head of every implementation. */
struct kvbm_storage {
    const struct kvbm_storage_ops *ops;
    enum kvbm_storage_kind kind;
    uint32_t block_count;
    size_t block_size;
};

const char *kvbm_storage_kind_name(enum kvbm_storage_kind kind);

/** How many bytes an operation moves. */
size_t kvbm_storage_io_size(const struct kvbm_storage *storage, const struct kvbm_storage_io *io);

/** `read` and `write` of a storage all of whose blocks have addresses in host memory. */
void kvbm_storage_host_read(struct kvbm_storage *storage, struct kvbm_storage_io *ios,
                            size_t count);
void kvbm_storage_host_write(struct kvbm_storage *storage, struct kvbm_storage_io *ios,
                             size_t count);

/** KVT_OK, or KVT_RANGE / KVT_INVALID in words. */
KVT_NODISCARD enum kvt_err kvbm_storage_check(uint32_t block_count, size_t block_size,
                                              struct kvt_error *err);

/** Host memory under the name `kind` (SYSTEM; or DEVICE and PINNED on a machine without a GPU). */
KVT_NODISCARD enum kvt_err kvbm_storage_open_memory(struct kvbm_storage **out,
                                                    enum kvbm_storage_kind kind,
                                                    uint32_t block_count, size_t block_size,
                                                    struct kvt_error *err);

void kvbm_storage_read(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count);
void kvbm_storage_write(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count);
void *kvbm_storage_address(struct kvbm_storage *storage, uint32_t block);

/** Move parts without host memory between; false: these two cannot, and nothing was done.  With no
 *  parts it only says whether they could. */
bool kvbm_storage_move(struct kvbm_storage *target, struct kvbm_storage *source,
                       struct kvbm_storage_move *moves, size_t count);

/** Say what blocks will be called, before they are written or read: a storage whose blocks have no
 *  numbers elsewhere needs it, others do not listen. */
void kvbm_storage_bind(struct kvbm_storage *storage, const struct kvbm_storage_name *names,
                       size_t count);

/** After KVT_OK a storage that outlives its process has these blocks under these names, and after a
 *  forget it has them no more; one that does not answers KVT_OK.  Each name gets its status; the
 *  result is the first failure. */
enum kvt_err kvbm_storage_commit(struct kvbm_storage *storage, struct kvbm_storage_name *names,
                                 size_t count);
enum kvt_err kvbm_storage_forget(struct kvbm_storage *storage, const uint32_t *blocks,
                                 size_t count);

/** NULL is allowed. */
void kvbm_storage_close(struct kvbm_storage *storage);

#endif /* KVBM_STORAGE_TIER_STORAGE_H */
