/*
 * advisor/store/writer_calls.h -- what other threads need done on the engine's thread.
 *
 * Why: the store has one writer and the planner one owner.  Who changes or asks them from an HTTP
 * thread hands over a function and waits, a bounded while; what was not begun by then never is.
 *
 * Ownership: an call's argument is the waiting thread's, who does not leave while it is used.
 * Threads:   advisor_writer_calls_serve() on one thread; advisor_writer_calls_do() on any other.
 * Limits:    ADVISOR_WRITER_CALLS_MAX wait at a time.
 */
#ifndef ADVISOR_STORE_WRITER_CALLS_H
#define ADVISOR_STORE_WRITER_CALLS_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define ADVISOR_WRITER_CALLS_MAX     64
#define ADVISOR_WRITER_CALLS_WAIT_MS 5000 /* that a person's request waits for its turn */

struct advisor_writer_calls;

typedef enum kvt_err advisor_writer_call_fn(void *arg, struct kvt_error *err);

KVT_NODISCARD enum kvt_err advisor_writer_calls_new(struct advisor_writer_calls **out);
/** NULL is allowed.  Nobody waits any more. */
void advisor_writer_calls_free(struct advisor_writer_calls *calls);

/**
 * Have `run(arg, err)` called on the engine's thread.
 *
 * @return what it returned; KVT_AGAIN (too many wait) or KVT_TIMEOUT (its turn did not come within
 *         `wait_ms`): then it was not called, and will not be
 */
KVT_NODISCARD enum kvt_err advisor_writer_calls_do(struct advisor_writer_calls *calls,
                                                   advisor_writer_call_fn *run, void *arg,
                                                   uint64_t wait_ms, struct kvt_error *err);

/** Do what waits now; how many there were. */
size_t advisor_writer_calls_serve(struct advisor_writer_calls *calls);

#endif /* ADVISOR_STORE_WRITER_CALLS_H */
