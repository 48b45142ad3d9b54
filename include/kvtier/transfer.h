/*
 * kvtier/transfer.h -- moving blocks between storages: one bounded queue and one thread a path.
 *
 * Why: a slow disk must not hold up copies to the device, and whoever asks for a copy must be able
 * to go on, wait, or change its mind.  Device paths have streams of their own, so that they overlap
 * each other and the disk.
 *
 * A request moves blocks as they are, or with two layouts, from one to the other, all layers or
 * some.  Where neither end is host memory in one piece the storages move the bytes between
 * themselves if they can, else they go through bounce buffers: one half is filled while the other
 * is on its second hop.
 *
 * Ownership: a request's copies, storages and layouts are borrowed until its ticket is finished;
 *            the caller keeps the blocks held that long.  Tickets: kvtier/ticket.h.
 * Limits:    `queue_max` tickets wait on one path: KVT_AGAIN beyond.  Higher priorities go first,
 *            and of one the older.  KVT_COPIES_MAX blocks a request.  Copies of one request are in
 *            no order, so that none may read what another one writes.  Without bounce buffers not
 *            both ends may lie outside host memory, and no layout may change on the way to or from
 *            a disk; between two disks it never may: KVT_UNSUPPORTED.  A disk moves whole parts
 *            (kvtier/storage.h): less is KVT_INVALID of the copy.
 */
#ifndef KVTIER_TRANSFER_H
#define KVTIER_TRANSFER_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/layout.h"
#include "kvtier/storage.h"
#include "kvtier/ticket.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KVT_COPIES_MAX 4096 /* blocks in one request */
#define KVT_BOUNCE_MIN 14   /* blocks of bounce buffers: two for each path */

enum kvt_path {
    KVT_PATH_D2H,    /* device to host */
    KVT_PATH_H2D,    /* host to device; also host to host */
    KVT_PATH_H2DISK, /* host to disk; also device to disk */
    KVT_PATH_DISK2H, /* disk to host; also disk to disk */
    KVT_PATH_D2D,    /* device to device */
    KVT_PATH_DISK2D, /* disk to device */
    KVT_PATH_REMOTE, /* from or to a driver of the program */
    KVT_PATH_COUNT
};

enum kvt_priority {
    KVT_PRIORITY_NORMAL, /* making room */
    KVT_PRIORITY_HIGH,   /* what will be needed */
    KVT_PRIORITY_URGENT, /* what a request waits for */
    KVT_PRIORITY_COUNT
};

struct kvt_transfer;

struct kvt_transfer_options {
    size_t size;                /* of this structure */
    size_t queue_max;           /* tickets that wait on a path; 0 = 128 */
    struct kvt_storage *bounce; /* host memory in one piece, at least KVT_BOUNCE_MIN blocks as large
                                   as any that bounces; borrowed, and nobody else's meanwhile.
                                   NULL: nothing bounces */
};

struct kvt_copy {
    uint32_t source;     /* block of the source storage */
    uint32_t target;     /* block of the target storage */
    enum kvt_err status; /* out: KVT_OK, KVT_IO, KVT_CORRUPT (it failed its checksum), KVT_NOTFOUND
                            (never written), KVT_INVALID, KVT_FULL, KVT_CANCELLED ... */
};

struct kvt_copy_request {
    size_t size;                /* of this structure */
    struct kvt_storage *source; /* the path follows from the two kinds */
    struct kvt_storage *target; /* without layouts: of the same block size */
    struct kvt_copy *copies;
    size_t count; /* 1 .. KVT_COPIES_MAX */
    enum kvt_priority priority;
    /* Both or none: what lies where in a storage's packed block.  kvt_layout_convertible() holds.
       */
    const struct kvt_layout *source_layout;
    const struct kvt_layout *target_layout;
    uint32_t layer;           /* with layouts: layers [layer, layer + layers) */
    uint32_t layers;          /* ...; 0: all from `layer` on */
    int event_fd;             /* of eventfd(2): 1 is added when it ends; 0: none */
    kvt_ticket_done_fn *done; /* may be NULL */
    void *arg;
};

/** @return KVT_OK; KVT_INVALID (`bounce` is not what is needed), KVT_UNSUPPORTED (members this
 *          library does not know) or KVT_NOMEM, with *out NULL */
KVT_NODISCARD enum kvt_err kvt_transfer_new(struct kvt_transfer **out,
                                            const struct kvt_transfer_options *options,
                                            struct kvt_error *err);

/** Finishes what is queued; nobody may be inside another call.  NULL is allowed. */
void kvt_transfer_free(struct kvt_transfer *transfer);

/**
 * Queue a request, waiting up to `wait_ms` for room.
 *
 * @param[out] ticket  NULL on failure
 * @return KVT_OK; KVT_AGAIN (the path's queue is full), KVT_INVALID (no copies, too many, block
 *         sizes that differ, layouts that do not fit), KVT_RANGE (a block or layer that is not
 *         there), KVT_PRECONDITION (layouts of different content), KVT_UNSUPPORTED, KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err kvt_transfer_start(struct kvt_transfer *transfer,
                                              const struct kvt_copy_request *request,
                                              uint64_t wait_ms, struct kvt_ticket **ticket,
                                              struct kvt_error *err);

/** Start, wait for room and for the end.  What is not started is the status of every copy. */
KVT_NODISCARD enum kvt_err kvt_transfer_run(struct kvt_transfer *transfer,
                                            const struct kvt_copy_request *request,
                                            struct kvt_error *err);

/** Whole blocks as they are, to the end. */
KVT_NODISCARD enum kvt_err kvt_copy_blocks(struct kvt_transfer *transfer,
                                           struct kvt_storage *source, struct kvt_storage *target,
                                           struct kvt_copy *copies, size_t count,
                                           struct kvt_error *err);

/** Layers [layer, layer + layers) of blocks of one layout, to the end. */
KVT_NODISCARD enum kvt_err kvt_copy_blocks_by_layer(struct kvt_transfer *transfer,
                                                    struct kvt_storage *source,
                                                    struct kvt_storage *target,
                                                    const struct kvt_layout *layout, uint32_t layer,
                                                    uint32_t layers, struct kvt_copy *copies,
                                                    size_t count, struct kvt_error *err);

/** "d2h", "h2d", "h2disk", "disk2h", "d2d", "disk2d", "remote". */
const char *kvt_path_name(enum kvt_path path);

/** The path that leads from one storage to another. */
enum kvt_path kvt_path_between(struct kvt_storage *source, struct kvt_storage *target);

struct kvt_transfer_stats {
    size_t size;     /* of this structure, in */
    uint64_t blocks; /* or parts of blocks, where requests were for some layers */
    uint64_t bytes;
    uint64_t failed;    /* blocks */
    uint64_t cancelled; /* tickets */
    uint64_t waiting;   /* tickets, now */
};

/** Of one path; all zero for one that there is not. */
void kvt_transfer_stats(struct kvt_transfer *transfer, enum kvt_path path,
                        struct kvt_transfer_stats *stats);

/* ---- over two hops ---- */

#define KVT_PIPELINE_AHEAD 4 /* steps on either hop at once */

struct kvt_relay {
    uint32_t source;
    uint32_t middle;
    uint32_t target;
    enum kvt_err status; /* out: of the first hop and layer that failed */
};

/** Layers below `layers` of every block that has not failed are in the target. */
typedef void kvt_pipeline_landed_fn(void *arg, uint32_t layers);

struct kvt_pipeline_request {
    size_t size; /* of this structure */
    struct kvt_storage *source;
    struct kvt_storage *middle; /* host memory in one piece */
    struct kvt_storage *target;
    struct kvt_relay *relays;
    size_t count;                           /* 1 .. KVT_COPIES_MAX */
    const struct kvt_layout *source_layout; /* of the source and the middle */
    const struct kvt_layout *target_layout;
    uint32_t step; /* layers that go together; 0: one */
    enum kvt_priority priority;
    kvt_pipeline_landed_fn *landed; /* on the calling thread; may be NULL */
    void *arg;
};

/**
 * Move all layers of all blocks through the middle: a layer is on its second hop while the next one
 * is on its first.  A block that failed somewhere goes no further.  Returns at the end.
 *
 * @return KVT_OK when every block arrived, else the first failure; what is refused before anything
 *         moved is the status of every block
 */
KVT_NODISCARD enum kvt_err kvt_transfer_pipeline(struct kvt_transfer *transfer,
                                                 const struct kvt_pipeline_request *request,
                                                 struct kvt_error *err);

#ifdef __cplusplus
}
#endif

#endif /* KVTIER_TRANSFER_H */
