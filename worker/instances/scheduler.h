/*
 * worker/instances/scheduler.h -- requests of an instance, iteration by iteration.
 *
 * Why: what an inference engine's scheduler does around a connector
 * (engine/connector/connector.h), without a model: requests wait for their match and for blocks of
 * G1, run in chunks, several at a time, and end.
 *
 * Bytes are compared by the ranks: each loaded block before its layer is used, each block of a
 * request once more when it ends.  What they must be follows from the trace alone, not from the
 * names that engine and advisor use.
 *
 * Ownership: connector and rank set are borrowed.  A request's call is answered once.
 * Threads:   one of its own; worker_scheduler_add() from any.
 * Limits:    WORKER_SCHEDULER_WAITING requests, WORKER_SCHEDULER_RUNNING at a time; one that has
 *            more blocks than G1 is cut to what fits.
 */
#ifndef WORKER_INSTANCES_SCHEDULER_H
#define WORKER_INSTANCES_SCHEDULER_H

#include "engine/connector/connector.h"
#include "engine/connector/forward_hook.h"

#define WORKER_SCHEDULER_WAITING 256
#define WORKER_SCHEDULER_RUNNING 16
#define WORKER_SCHEDULER_CHUNK   32 /* blocks of a request in one iteration */

struct worker_rank_set;
struct worker_scheduler;

struct worker_scheduler_options {
    struct engine_connector *connector;
    struct worker_rank_set *rank_set;
    struct engine_hook *hook; /* of ranks that hold the same; NULL: each rank has its own */
    uint32_t ranks;           /* of the rank set */
    uint32_t g1_blocks;
};

struct worker_scheduler_stats {
    uint64_t requests;
    uint64_t blocks;
    uint64_t matched; /* that need not be computed */
    uint64_t computed;
    uint64_t again;    /* computed after their load had failed */
    uint64_t compared; /* of all ranks */
    uint64_t wrong_bytes;
    uint64_t iterations;
    uint32_t under_way;
};

/* A request has ended: KVT_OK, or why it was not served. */
typedef void worker_served_fn(void *arg, enum kvt_err status);

KVT_NODISCARD enum kvt_err worker_scheduler_open(struct worker_scheduler **out,
                                                 const struct worker_scheduler_options *options,
                                                 struct kvt_error *err);

/** What has not ended is KVT_CANCELLED, what comes is KVT_UNAVAILABLE; figures stay.  NULL is
 *  allowed. */
void worker_scheduler_stop(struct worker_scheduler *scheduler);

/** Stop where that was not done; nobody is in a call of it any more.  NULL is allowed. */
void worker_scheduler_close(struct worker_scheduler *scheduler);

/** A request: the trace's ids of its blocks, root first.  KVT_OK: `served` is called, once.
 *  KVT_AGAIN, KVT_NOMEM, KVT_UNAVAILABLE (a rank has died). */
KVT_NODISCARD enum kvt_err worker_scheduler_add(struct worker_scheduler *scheduler,
                                                const uint64_t *ids, size_t count,
                                                worker_served_fn *served, void *arg);

/** A rank has died: nothing more can be served. */
bool worker_scheduler_failed(struct worker_scheduler *scheduler);

void worker_scheduler_stats(struct worker_scheduler *scheduler,
                            struct worker_scheduler_stats *stats);

#endif /* WORKER_INSTANCES_SCHEDULER_H */
