/*
 * worker/instances/scheduler_internal.h -- what the files of the scheduler share.
 *
 * Why: scheduler.c has the queue of requests and the thread; scheduler_pass.c is one iteration of
 * those that run: what ranks are told, what they say, and who has ended by it.
 * Ownership: as worker/instances/scheduler.h; a request is in one of the lists, or incoming.
 * Threads:   `shared` is behind its lock, a leaf.  The rest is the scheduler's thread's.
 * Limits:    as worker/instances/scheduler.h.
 */
#ifndef WORKER_INSTANCES_SCHEDULER_INTERNAL_H
#define WORKER_INSTANCES_SCHEDULER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/core/buffer.h"

#include "worker/instances/instance_plan.h"
#include "worker/instances/scheduler.h"

struct worker_request {
    struct worker_request *next;
    char id[32];
    uint32_t *tokens;
    uint64_t *names; /* of its blocks, for their bytes */
    uint32_t *g1;    /* one more than blocks: the last token's */
    uint32_t blocks;
    uint32_t matched;
    uint32_t done;    /* blocks that are there */
    uint32_t highest; /* ... and were, once */
    uint32_t chunk;   /* of this iteration */
    bool loads;       /* in this iteration */
    bool ended;       /* its blocks of G1 are not free yet */
    worker_served_fn *served;
    void *arg;
};

struct worker_scheduler {
    struct worker_scheduler_options options;
    pthread_t thread;
    bool started;
    struct worker_request *waiting; /* in their order */
    struct worker_request *running; /* and those that have ended and wait for their blocks */
    uint32_t running_count;
    uint32_t *free_blocks;
    uint32_t free_count;
    uint64_t iteration;
    uint64_t numbers;
    struct kvt_buffer answers[WORKER_INSTANCE_RANKS_MAX];
    bool *failed;      /* by block of G1: the leader's hook could not load it in this iteration */
    _Atomic bool dead; /* a rank is */

    struct {
        pthread_mutex_t lock; /* guards this struct */
        pthread_cond_t some;
        struct worker_request *incoming;
        struct worker_request **incoming_end;
        uint32_t count; /* that have not ended */
        bool stop;
        struct worker_scheduler_stats stats;
    } shared;
};

/** Nobody waits for it any more, and its blocks are given back. */
void worker_request_free(struct worker_request *request);

/** Its call is answered. */
void worker_request_tell(struct worker_scheduler *scheduler, struct worker_request *request,
                         enum kvt_err status);

/** One iteration of all that run; those whose blocks are free again are no more.  Non-OK: a rank
 *  has died, or answers nonsense. */
KVT_NODISCARD enum kvt_err worker_scheduler_pass(struct worker_scheduler *scheduler,
                                                 struct kvt_error *err);

#endif /* WORKER_INSTANCES_SCHEDULER_INTERNAL_H */
