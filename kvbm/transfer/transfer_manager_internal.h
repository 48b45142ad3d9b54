/*
 * kvbm/transfer/transfer_manager_internal.h -- what the files of the transfer manager share;
 * nobody else includes it.
 *
 * Why: who waits where (transfer_manager.c), and how bytes get from one storage to another
 * (transfer_copy.c), are two things.
 * Ownership: as kvbm/transfer/transfer_manager.h.
 * Threads:   a path's thread alone runs its tickets; `shared` is behind its lock.  Where both are
 *            taken, the path's lock comes before the ticket's.
 * Limits:    as kvbm/transfer/transfer_manager.h.
 */
#ifndef KVBM_TRANSFER_TRANSFER_MANAGER_INTERNAL_H
#define KVBM_TRANSFER_TRANSFER_MANAGER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "kvbm/transfer/queue_ticket.h"
#include "kvbm/transfer/transfer_manager.h"

struct kvbm_transfer_ticket {
    struct kvt_ticket head;
    struct kvbm_transfer_request request; /* read-only while queued */
    struct kvbm_layout layouts[2];        /* the request's, packed: source and target */
    struct kvbm_transfer_path *path;
    struct kvbm_transfer_ticket *next; /* in the path's queue, behind the path's lock */
};

/* The bounce buffers of one path: blocks [first, first + count) of the manager's. */
struct kvbm_bounce {
    struct kvbm_storage *storage;
    uint32_t first;
    uint32_t count;
};

struct kvbm_transfer_path {
    struct kvbm_transfer *transfer;
    enum kvt_path which;
    struct kvbm_bounce bounce;
    size_t queue_max;
    pthread_t thread;
    bool locks_made;
    bool started;
    _Atomic uint64_t blocks;
    _Atomic uint64_t bytes;
    _Atomic uint64_t failed;
    _Atomic uint64_t cancelled;

    struct {
        pthread_mutex_t lock; /* guards this struct */
        pthread_cond_t work;  /* a ticket, or time to stop */
        pthread_cond_t room;
        struct kvbm_transfer_ticket *first[KVT_PRIORITY_COUNT];
        struct kvbm_transfer_ticket **last[KVT_PRIORITY_COUNT];
        size_t count;
        bool closed;
    } shared;
};

struct kvbm_transfer {
    struct kvbm_transfer_path paths[KVT_PATH_COUNT];
};

/** Move a request's bytes on the thread of `path`; every copy gets its status. */
void kvbm_transfer_execute(struct kvbm_transfer_path *path,
                           const struct kvbm_transfer_request *request,
                           const _Atomic bool *unwanted);

/** kvbm_transfer_start_wait() of a request that was checked as part of another. */
KVT_NODISCARD enum kvt_err kvbm_transfer_enqueue(struct kvbm_transfer *transfer,
                                                 const struct kvbm_transfer_request *request,
                                                 uint64_t wait_ms, struct kvt_ticket **ticket);

/** A disk, or a volume, moves whole parts only: what changes its layout on the way there is changed
 *  in host memory of ours. */
bool kvbm_transfer_converts_apart(const struct kvbm_transfer_request *request);

/** Bytes one copy of the request moves. */
uint64_t kvbm_transfer_bytes(const struct kvbm_transfer_request *request);

#endif /* KVBM_TRANSFER_TRANSFER_MANAGER_INTERNAL_H */
