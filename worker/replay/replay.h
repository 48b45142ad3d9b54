/*
 * worker/replay/replay.h -- a trace through N logical workers.
 *
 * Why: one thread reads the trace and keeps its time, each logical worker serves its requests in
 * order on a thread of its own.  Request number k of the trace belongs to the process k mod n (the
 * shard) and in it to worker (k / n) mod N.  At the end everything on its way down is waited for,
 * and every event handed over, so that what the workers hold stands still.
 *
 * Ownership: a replay owns its threads and jobs; the stacks are borrowed.
 * Threads:   its own; the calls are for the program's main thread, the status for any.
 * Limits:    WORKER_REPLAY_QUEUE requests wait for one worker; the reader waits when they do.
 */
#ifndef WORKER_REPLAY_REPLAY_H
#define WORKER_REPLAY_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "kvtier/error.h"

#include "worker/replay/tier_stack.h"

#define WORKER_REPLAY_QUEUE 32

struct worker_replay;

struct worker_replay_status {
    uint64_t requests_total; /* of this process; 0 while not known (standard input) */
    uint64_t requests_fed;
    uint64_t requests_done;
    uint64_t bad_lines;             /* lines of the trace that were no request */
    bool finished;                  /* all served, all moved down, all events handed over */
    bool drained;                   /* ... in time */
    bool failed;                    /* the trace could not be read to its end */
    char error[KVT_ERROR_TEXT_MAX]; /* the first bad line, or why reading failed */
};

/** Begin.  Fails when the trace cannot be opened. */
KVT_NODISCARD enum kvt_err worker_replay_start(struct worker_replay **out,
                                               const struct worker_settings *settings,
                                               struct worker_stack *const *stacks, uint32_t count,
                                               struct kvt_error *err);

void worker_replay_status(struct worker_replay *replay, struct worker_replay_status *status);

/** End early: feed no more, serve what each worker is at and forget what waits.  Does not wait for
 *  offloading, whose sources are about to go anyway.  Returns when all threads have ended and every
 *  event was handed over, or could not be in time; the status stays readable. */
void worker_replay_stop(struct worker_replay *replay);

/** Stops if need be.  NULL is allowed. */
void worker_replay_free(struct worker_replay *replay);

#endif /* WORKER_REPLAY_REPLAY_H */
