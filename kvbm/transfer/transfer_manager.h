/*
 * kvbm/transfer/transfer_manager.h -- moving blocks between storages, one bounded queue and one
 * thread a path.
 *
 * Why: a slow disk must not hold up copies to the device, and whoever asks for a copy must be able
 * to go on, wait, or change its mind.  A device storage runs its copies on its own streams, so the
 * device paths overlap each other and the disk paths.
 *
 * A request moves blocks as they are, or with two layouts, from one to the other, all layers or
 * some.  Where neither end is host memory the two storages move the bytes themselves when they can
 * (one device's memory, a device beside a disk), else they go through bounce buffers: while one
 * half of them is on its second hop, on that hop's own path, the other half is filled.
 *
 * Paths, priorities, limits and counters are those of kvtier/transfer.h.
 *
 * Ownership: a request's copy array, storages and layouts are borrowed until the ticket is
 *            finished; the caller keeps the blocks held that long.  Tickets: kvtier/ticket.h.
 * Threads:   any thread may start, wait and cancel.
 * Limits:    `queue_max` tickets wait on one path; more is KVT_AGAIN.  Within a path the higher
 *            priority goes first, and of one priority the older.  KVT_COPIES_MAX blocks a
 *            request.  Without bounce buffers not both ends may lie outside host memory, and no
 *            layout may change on the way to or from a disk or a volume; between two of these it
 *            never may: KVT_UNSUPPORTED.  A disk moves whole parts (kvbm/storage/disk.h): some
 *            layers of a universal block are none, KVT_INVALID; nor are any of a block in a volume
 *            (kvbm/volume/volume_storage.h) that is written.
 */
#ifndef KVBM_TRANSFER_TRANSFER_MANAGER_H
#define KVBM_TRANSFER_TRANSFER_MANAGER_H

#include <stddef.h>
#include <stdint.h>

#include "kvbm/layout/block_layout.h"
#include "kvbm/storage/tier_storage.h"
#include "kvtier/error.h"
#include "kvtier/transfer.h"

struct kvbm_transfer;

struct kvbm_transfer_request {
    enum kvt_path path;
    struct kvbm_storage *source;
    struct kvbm_storage *target; /* without layouts: same block size as the source */
    struct kvt_copy *copies;
    size_t count;
    enum kvt_priority priority;
    /* Both or none.  They say what lies where in a storage's block (kvbm_layout_packed_offset());
     * kvbm_layout_convertible() must hold. */
    const struct kvbm_layout *source_layout;
    const struct kvbm_layout *target_layout;
    uint32_t layer; /* with layouts: layers [layer, layer + layers) */
    uint32_t layers;
    kvt_ticket_done_fn *done; /* may be NULL */
    void *arg;
    int event_fd; /* of eventfd(2): 1 is added when it ends; 0: none */
};

struct kvbm_transfer_options {
    size_t queue_max;
    /* Host memory (pinned where there is a device), at least KVT_BOUNCE_MIN blocks as
     * large as any that bounces; borrowed.  NULL: nothing bounces. */
    struct kvbm_storage *bounce;
};

/** "d2h", "h2d", "h2disk", "disk2h", "d2d", "disk2d", "remote". */
const char *kvbm_path_name(enum kvt_path path);

/** The path that leads from one storage to another, by their kinds. */
enum kvt_path kvbm_path_between(const struct kvbm_storage *source,
                                const struct kvbm_storage *target);

KVT_NODISCARD enum kvt_err kvbm_transfer_open(struct kvbm_transfer **out,
                                              const struct kvbm_transfer_options *options,
                                              struct kvt_error *err);

/** The same without bounce buffers. */
KVT_NODISCARD enum kvt_err kvbm_transfer_new(struct kvbm_transfer **out, size_t queue_max,
                                             struct kvt_error *err);

/** Finishes what is queued.  NULL is allowed. */
void kvbm_transfer_free(struct kvbm_transfer *transfer);

/**
 * Queue a request.
 *
 * @param[out] ticket  NULL on failure
 * @return KVT_OK, KVT_AGAIN (the path's queue is full), KVT_NOMEM, KVT_INVALID (no copies, too
 *         many, block sizes differ, layouts that do not fit), KVT_PRECONDITION (layouts of
 *         different content), KVT_UNSUPPORTED
 */
KVT_NODISCARD enum kvt_err kvbm_transfer_start(struct kvbm_transfer *transfer,
                                               const struct kvbm_transfer_request *request,
                                               struct kvt_ticket **ticket);

/** The same, waiting up to `wait_ms` for room in the queue. */
KVT_NODISCARD enum kvt_err kvbm_transfer_start_wait(struct kvbm_transfer *transfer,
                                                    const struct kvbm_transfer_request *request,
                                                    uint64_t wait_ms, struct kvt_ticket **ticket);

/** Start, wait for room in the queue and for the end. */
KVT_NODISCARD enum kvt_err kvbm_transfer_run(struct kvbm_transfer *transfer,
                                             const struct kvbm_transfer_request *request);

/** Whole blocks as they are, over the path that leads there, to the end. */
KVT_NODISCARD enum kvt_err kvbm_copy_blocks(struct kvbm_transfer *transfer,
                                            struct kvbm_storage *source,
                                            struct kvbm_storage *target, struct kvt_copy *copies,
                                            size_t count);

void kvbm_transfer_stats(struct kvbm_transfer *transfer, enum kvt_path path,
                         struct kvt_transfer_stats *stats);

#endif /* KVBM_TRANSFER_TRANSFER_MANAGER_H */
