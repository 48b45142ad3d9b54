/*
 * kvbm/transfer.h -- moving blocks between storages, one bounded queue and one thread a path.
 *
 * Why: a slow disk must not hold up copies to the device, and whoever asks for a copy must be able
 * to go on, wait, or change its mind.  A device storage runs its copies on its own streams, so the
 * two device paths overlap each other and the disk paths.
 *
 * Ownership: a request's copy array and storages are borrowed until the ticket is finished; the
 *            caller keeps the blocks held that long.  A ticket belongs to the caller until
 *            kvbm_transfer_release(), which is only legal when it is finished (asserted).
 * Threads:   any thread may start, wait and cancel.  No callbacks.
 * Limits:    `queue_max` tickets wait on one path; more is KVT_AGAIN.  Both ends of a copy must not
 *            lie outside host memory at once: KVT_UNSUPPORTED.
 */
#ifndef KVBM_TRANSFER_H
#define KVBM_TRANSFER_H

#include <stddef.h>
#include <stdint.h>

#include "kvbm/storage.h"
#include "kvtier/error.h"

#define KVBM_TRANSFER_COPIES_MAX 4096 /* blocks in one request */

enum kvbm_path {
    KVBM_PATH_D2H,    /* device to host */
    KVBM_PATH_H2D,    /* host to device */
    KVBM_PATH_H2DISK, /* host to disk */
    KVBM_PATH_DISK2H, /* disk to host */
    KVBM_PATH_COUNT
};

struct kvbm_transfer;
struct kvbm_ticket;

struct kvbm_copy {
    uint32_t source;
    uint32_t target;
    enum kvt_err status; /* out */
};

struct kvbm_transfer_request {
    enum kvbm_path path;
    struct kvbm_storage *source;
    struct kvbm_storage *target; /* same block size as the source */
    struct kvbm_copy *copies;
    size_t count;
};

struct kvbm_transfer_stats {
    uint64_t blocks;
    uint64_t bytes;
    uint64_t failed;    /* blocks */
    uint64_t cancelled; /* tickets */
};

/** "d2h", "h2d", "h2disk", "disk2h". */
const char *kvbm_path_name(enum kvbm_path path);

KVT_NODISCARD enum kvt_err kvbm_transfer_new(struct kvbm_transfer **out, size_t queue_max,
                                             struct kvt_error *err);

/** Finishes what is queued.  NULL is allowed. */
void kvbm_transfer_free(struct kvbm_transfer *transfer);

/**
 * Queue a request.
 *
 * @param[out] ticket  NULL on failure
 * @return KVT_OK, KVT_AGAIN (the path's queue is full), KVT_NOMEM, KVT_INVALID (no copies, too
 *         many, or block sizes differ), KVT_UNSUPPORTED
 */
KVT_NODISCARD enum kvt_err kvbm_transfer_start(struct kvbm_transfer *transfer,
                                               const struct kvbm_transfer_request *request,
                                               struct kvbm_ticket **ticket);

/** Wait until the ticket is finished: KVT_OK (every copy), the status of the first that failed,
 *  KVT_CANCELLED, or KVT_TIMEOUT (it is not finished). */
KVT_NODISCARD enum kvt_err kvbm_transfer_wait(struct kvbm_ticket *ticket, uint64_t wait_ms);

/** Take back a ticket that no thread has begun.  KVT_OK: it is finished as cancelled, nothing was
 *  copied.  KVT_BUSY: it has begun or is finished; wait for it. */
enum kvt_err kvbm_transfer_cancel(struct kvbm_ticket *ticket);

/** NULL is allowed. */
void kvbm_transfer_release(struct kvbm_ticket *ticket);

/** Start, wait for room in the queue and for the end. */
KVT_NODISCARD enum kvt_err kvbm_transfer_run(struct kvbm_transfer *transfer,
                                             const struct kvbm_transfer_request *request);

void kvbm_transfer_stats(struct kvbm_transfer *transfer, enum kvbm_path path,
                         struct kvbm_transfer_stats *stats);

#endif /* KVBM_TRANSFER_H */
