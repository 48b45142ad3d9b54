/*
 * base/thread/cond.h -- condition variables that wait on the monotonic clock.
 *
 * Why: a clock that is set must not hang a thread or cut its wait short.
 * Ownership: the caller owns the condition variable.
 * Limits:    waits are cut at 2^32 - 1 milliseconds.
 */
#ifndef BASE_THREAD_COND_H
#define BASE_THREAD_COND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/** False when the system has no room for one; destroy with pthread_cond_destroy(). */
bool kvt_cond_init(pthread_cond_t *cond);

/** The moment `wait_ms` from now. */
struct timespec kvt_cond_deadline(uint64_t wait_ms);

/** Wait for a signal; false once `deadline` has passed.  `lock` is held before and after. */
bool kvt_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, const struct timespec *deadline);

#endif /* BASE_THREAD_COND_H */
