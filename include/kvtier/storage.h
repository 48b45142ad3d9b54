/*
 * kvtier/storage.h -- the memory of one tier: so many blocks of one size.
 *
 * Why: device memory, host memory, a file and what a program brings itself differ only in how bytes
 * get in and out.  Behind one handle, pools count their blocks and transfers (kvtier/transfer.h)
 * move them alike: block n of a pool is block n of its storage.
 *
 * Ownership: from an open to kvt_storage_close(), after everything that uses it: transfers, their
 *            tickets, offloading.  An engine's memory, and a device, are borrowed until then;
 *            options are copied.
 * Threads:   any; two threads must not touch the same block at once (a pool's handles see to that).
 * Limits:    block_size is a multiple of KVT_STORAGE_ALIGN and at most KVT_BLOCK_SIZE_MAX;
 *            KVT_STORAGE_BLOCKS_MAX blocks.
 */
#ifndef KVTIER_STORAGE_H
#define KVTIER_STORAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"
#include "kvtier/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KVT_STORAGE_ALIGN      4096
#define KVT_STORAGE_BLOCKS_MAX (UINT32_C(1) << 24)

enum kvt_storage_kind {
    KVT_STORAGE_DEVICE, /* memory of a GPU */
    KVT_STORAGE_PINNED, /* host memory a GPU can reach directly */
    KVT_STORAGE_SYSTEM, /* host memory */
    KVT_STORAGE_DISK,   /* a file */
    KVT_STORAGE_REMOTE, /* somebody else's: a volume, functions of the program */
};

struct kvt_device;
struct kvt_storage;

/* ---- a GPU ---- */

struct kvt_device_info {
    size_t size;    /* of this structure, in */
    int ordinal;    /* as it was opened */
    int driver;     /* its version: 13000 is 13.0 */
    bool kernels;   /* fragments are copied by a kernel of ours */
    char name[128]; /* what the driver calls it */
};

/**
 * Open NVIDIA's driver and take one of its devices.  Nothing is linked: the driver is looked for
 * now.
 *
 * @param library  the driver's file; NULL: where the system looks
 * @return KVT_OK; KVT_UNSUPPORTED (no driver, no such device, or one too old: `err` says which),
 *         KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err kvt_device_open(struct kvt_device **out, const char *library,
                                           int ordinal, struct kvt_error *err);

/** After every storage that was opened with it.  NULL is allowed. */
void kvt_device_close(struct kvt_device *device);

void kvt_device_info(const struct kvt_device *device, struct kvt_device_info *info);

/* ---- storages ---- */

struct kvt_memory_options {
    size_t size;                /* of this structure */
    enum kvt_storage_kind kind; /* SYSTEM; PINNED and DEVICE with a device */
    uint32_t block_count;
    uint64_t block_size;       /* bytes */
    struct kvt_device *device; /* borrowed */
};

/** Memory of the library's own; its content is undefined.
 *
 *  @return KVT_OK; KVT_RANGE, KVT_INVALID, KVT_UNSUPPORTED (a kind without its device, members this
 *          library does not know), KVT_NOMEM, KVT_IO (the driver) with *out NULL */
KVT_NODISCARD enum kvt_err kvt_storage_open_memory(struct kvt_storage **out,
                                                   const struct kvt_memory_options *options,
                                                   struct kvt_error *err);

/**
 * Memory that an engine laid out: one tensor, one a layer, blocks with room between.  What reads
 * and writes whole blocks sees their packed bytes (kvtier/layout.h); `memory` is borrowed, its
 * layout and addresses are copied.
 *
 * @param kind    SYSTEM or PINNED: addresses of this process; DEVICE: of `device`
 * @param device  NULL but for DEVICE
 */
KVT_NODISCARD enum kvt_err kvt_storage_open_engine(struct kvt_storage **out,
                                                   enum kvt_storage_kind kind,
                                                   const struct kvt_memory *memory,
                                                   struct kvt_device *device,
                                                   struct kvt_error *err);

struct kvt_disk_options {
    size_t size;      /* of this structure */
    const char *path; /* of the file; its folder exists */
    uint32_t block_count;
    uint32_t depth;       /* operations in flight; 0 = 16 */
    uint64_t block_size;  /* bytes */
    uint64_t part_size;   /* bytes that are read and checked by themselves: a multiple of
                            KVT_STORAGE_ALIGN that divides block_size; 0: a block.  Copies of some
                            layers need parts no larger than a layer */
    bool buffered;        /* through the page cache; else past it where the file system can */
    bool keep;            /* it outlives the process: an index beside it, `path`.index.  Otherwise
                            the file has no name while it is used, and a crash leaves nothing */
    bool trust_index;     /* keep: do not read every block at opening; reads are checked anyway */
    uint64_t fingerprint; /* keep: of what the blocks mean; another one starts empty */
};

/** A file.  Every part of a block has a crc32c that each read is checked against.
 *
 *  @return KVT_OK; KVT_RANGE, KVT_INVALID, KVT_UNSUPPORTED, KVT_FULL (no space), KVT_BUSY (another
 *          process has it), KVT_IO, KVT_NOMEM, with *out NULL */
KVT_NODISCARD enum kvt_err kvt_storage_open_disk(struct kvt_storage **out,
                                                 const struct kvt_disk_options *options,
                                                 struct kvt_error *err);

/* One block, or a part of it, in or out. */
struct kvt_storage_io {
    void *host;          /* read: filled; write: read from */
    uint64_t offset;     /* in the block */
    uint64_t bytes;      /* of it */
    uint32_t block;      /* below block_count */
    enum kvt_err status; /* out: KVT_OK, or why it was not moved */
};

/* Memory of a program's own: a peer, a device of another make.  Each function may be called by
 * several threads at once, gives every operation its status, and returns when nothing of it is
 * under way. */
struct kvt_storage_driver {
    size_t size; /* of this structure */
    void (*read)(void *context, struct kvt_storage_io *ios, size_t count);
    void (*write)(void *context, struct kvt_storage_io *ios, size_t count);
    void (*close)(void *context); /* may be NULL */
};

#define KVT_STORAGE_IOS_MAX 64 /* operations a driver is given at once */

/** A storage of the kind REMOTE.  `context` is the driver's on KVT_OK: `close` ends it. */
KVT_NODISCARD enum kvt_err kvt_storage_open_driver(struct kvt_storage **out,
                                                   const struct kvt_storage_driver *driver,
                                                   void *context, uint32_t block_count,
                                                   uint64_t block_size, struct kvt_error *err);

struct kvt_volumes; /* kvtier/volume.h */

struct kvt_volume_storage_options {
    size_t size;             /* of this structure */
    struct kvt_volumes *set; /* borrowed */
    uint64_t volume;         /* its number there */
    uint32_t block_count;
    bool own;            /* names are made of `first` and the number: memory that is elsewhere */
    uint64_t block_size; /* bytes; the volume's */
    uint64_t first;      /* own: block n is called first + n */
};

/** A volume as a tier, of the kind REMOTE: an object store, a folder, another process's memory.
 *  What a block is called there is said by kvt_storage_bind() before it is written or read, unless
 *  the names are the tier's own.  Blocks are written whole.  To write what has no
 *  name is KVT_PRECONDITION; what fails its check is KVT_CORRUPT, and a volume that is away
 *  KVT_UNAVAILABLE. */
KVT_NODISCARD enum kvt_err kvt_storage_open_volume(struct kvt_storage **out,
                                                   const struct kvt_volume_storage_options *options,
                                                   struct kvt_error *err);

/** NULL is allowed. */
void kvt_storage_close(struct kvt_storage *storage);

struct kvt_storage_info {
    size_t size; /* of this structure, in */
    enum kvt_storage_kind kind;
    uint32_t block_count;
    uint64_t block_size; /* bytes */
    uint64_t reads;      /* of a disk: operations, ... */
    uint64_t writes;
    uint64_t corrupt; /* ... of them, that failed their checksum, ... */
    uint64_t failed;  /* ... and that the system failed */
    uint32_t found;   /* of a disk that is kept: blocks of an earlier process */
    uint32_t dropped; /* ... that were not what their record says */
};

void kvt_storage_info(struct kvt_storage *storage, struct kvt_storage_info *info);

/** Where the block lies in this process's memory: block_size bytes.  NULL: there is no such block,
 *  it is not in this process's memory, or (an engine's) not in one piece that begins at a multiple
 *  of KVT_STORAGE_ALIGN. */
void *kvt_storage_address(struct kvt_storage *storage, uint32_t block);

/* ---- names ---- */

/* What a block of a kept disk, or of a volume, is called. */
struct kvt_storage_name {
    struct kvt_block_id id;
    uint64_t prefix_hash; /* of kvtier/event.h; 0: unknown */
    uint64_t tokens_hash; /* of its own tokens; 0: unknown */
    uint32_t block;       /* below block_count */
    enum kvt_err status;  /* out, of commit: KVT_OK, KVT_NOTFOUND (not written), KVT_IO ... */
};

/** Say what blocks of a volume are called; others do not listen.  KVT_OK, or KVT_RANGE (no such
 *  block), and nothing was done. */
KVT_NODISCARD enum kvt_err kvt_storage_bind(struct kvt_storage *storage,
                                            const struct kvt_storage_name *names, size_t count);

/** Make completely written blocks last under their names: after KVT_OK a power cut does not lose
 *  them.  What does not outlive the process answers KVT_OK and does nothing.
 *
 *  @return KVT_OK when all are; KVT_RANGE (no such block, and nothing was done); else the first
 *          failure */
KVT_NODISCARD enum kvt_err kvt_storage_commit(struct kvt_storage *storage,
                                              struct kvt_storage_name *names, size_t count);

/** Durably forget blocks.  KVT_OK; KVT_RANGE; KVT_IO: they may be found again. */
KVT_NODISCARD enum kvt_err kvt_storage_forget(struct kvt_storage *storage, const uint32_t *blocks,
                                              size_t count);

/** Blocks of an earlier process, from `*at` (0 at first) on, at most `capacity`; advances `*at`.
 *  Returns how many: fewer than `capacity` was the end, and what is needed to ask again is let
 *  go. */
size_t kvt_storage_found(struct kvt_storage *storage, uint32_t *at, struct kvt_storage_name *names,
                         size_t capacity);

#ifdef __cplusplus
}
#endif

#endif /* KVTIER_STORAGE_H */
