/*
 * kvbm/storage/aio.h -- many reads or writes of one file at once, whole or failed.
 *
 * Why: a disk is only busy with several requests in flight.  Where the kernel has io_uring one
 * thread keeps them in flight by itself; where it has not, or a container forbids it, a few threads
 * do the same with pread() and pwrite().  Which one is found out when it is opened.
 *
 * io_uring is spoken to with its three system calls: what is used of it is one ring of reads and
 * writes, less than a library would add.
 *
 * Ownership: buffers and operations are borrowed for the call, which returns when none of them is
 *            in flight any more, whatever failed.
 * Threads:   any.  With io_uring reads and writes have a ring each, and one batch runs on each at a
 *            time.  The callback runs on the calling thread, while other operations are in flight;
 *            no lock that anybody else takes is held, but one thread a ring must not call back into
 *            the same engine.
 * Limits:    1 <= depth <= KVBM_AIO_DEPTH_MAX operations in flight a batch.
 */
#ifndef KVBM_STORAGE_AIO_H
#define KVBM_STORAGE_AIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "kvtier/error.h"

#define KVBM_AIO_DEPTH_MAX   128
#define KVBM_AIO_THREADS_MAX 8

enum kvbm_aio_engine { KVBM_AIO_AUTO, KVBM_AIO_URING, KVBM_AIO_THREADS };

struct kvbm_aio;
struct kvbm_aio_batch;

struct kvbm_aio_op {
    void *bytes;
    size_t size;
    uint64_t offset;
    /* out: KVT_OK (all bytes moved), KVT_FULL, KVT_IO (also where the file ends early),
     * KVT_UNSUPPORTED (the file refuses such an operation: alignment, or O_DIRECT at all) */
    enum kvt_err status;
    /* The engine's own. */
    size_t done;
    int fd;
    bool writing;
    struct kvbm_aio_batch *batch;
    struct kvbm_aio_op *next;
};

/* What the threads call; for tests that make them fail. */
struct kvbm_aio_calls {
    ssize_t (*read)(int fd, void *bytes, size_t size, off_t offset);
    ssize_t (*write)(int fd, const void *bytes, size_t size, off_t offset);
    int (*sync)(int fd);
};

struct kvbm_aio_options {
    enum kvbm_aio_engine engine;
    unsigned depth;
    const struct kvbm_aio_calls *calls; /* NULL: the system's.  Otherwise threads are used */
};

typedef void kvbm_aio_landed_fn(void *arg, struct kvbm_aio_op *op);

/** KVT_UNSUPPORTED: io_uring was demanded and is not to be had. */
KVT_NODISCARD enum kvt_err
kvbm_aio_open(struct kvbm_aio **out, const struct kvbm_aio_options *options, struct kvt_error *err);

/** NULL is allowed. */
void kvbm_aio_close(struct kvbm_aio *aio);

/** Which it became: never AUTO. */
enum kvbm_aio_engine kvbm_aio_engine(const struct kvbm_aio *aio);

/** Do them all; each has its own status.  `landed` (may be NULL) hears of each once. */
void kvbm_aio_run(struct kvbm_aio *aio, int fd, bool writing, struct kvbm_aio_op *ops, size_t count,
                  kvbm_aio_landed_fn *landed, void *arg);

/** Write `size` bytes and read them, without a batch. */
KVT_NODISCARD enum kvt_err kvbm_aio_write(struct kvbm_aio *aio, int fd, const void *bytes,
                                          size_t size, uint64_t offset);
KVT_NODISCARD enum kvt_err kvbm_aio_read(struct kvbm_aio *aio, int fd, void *bytes, size_t size,
                                         uint64_t offset);

/** fdatasync().  After a failure nobody knows what is on the disk. */
KVT_NODISCARD enum kvt_err kvbm_aio_sync(struct kvbm_aio *aio, int fd);

#endif /* KVBM_STORAGE_AIO_H */
