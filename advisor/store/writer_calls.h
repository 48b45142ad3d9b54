/*
 * advisor/store/writer_calls.h -- what other threads need done on the engine's thread.
 *
 * Why: the store has one writer and the planner one owner.  Who changes or asks them from an HTTP
 * thread hands over a function and waits, a bounded while; what was not begun by then never is.
 *
 * Ownership: an errand's argument is the waiting thread's, who does not leave while it is used.
 * Threads:   advisor_errands_serve() on one thread; advisor_errands_do() on any other.
 * Limits:    ADVISOR_ERRANDS_MAX wait at a time.
 */
#ifndef ADVISOR_STORE_WRITER_CALLS_H
#define ADVISOR_STORE_WRITER_CALLS_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define ADVISOR_ERRANDS_MAX     64
#define ADVISOR_ERRANDS_WAIT_MS 5000 /* that a person's request waits for its turn */

struct advisor_errands;

typedef enum kvt_err advisor_errand_fn(void *arg, struct kvt_error *err);

KVT_NODISCARD enum kvt_err advisor_errands_new(struct advisor_errands **out);
/** NULL is allowed.  Nobody waits any more. */
void advisor_errands_free(struct advisor_errands *errands);

/**
 * Have `run(arg, err)` called on the engine's thread.
 *
 * @return what it returned; KVT_AGAIN (too many wait) or KVT_TIMEOUT (its turn did not come within
 *         `wait_ms`): then it was not called, and will not be
 */
KVT_NODISCARD enum kvt_err advisor_errands_do(struct advisor_errands *errands,
                                              advisor_errand_fn *run, void *arg, uint64_t wait_ms,
                                              struct kvt_error *err);

/** Do what waits now; how many there were. */
size_t advisor_errands_serve(struct advisor_errands *errands);

#endif /* ADVISOR_STORE_WRITER_CALLS_H */
