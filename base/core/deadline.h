/*
 * base/core/deadline.h -- a moment by which something must have happened.
 *
 * Why: what waits gets a number of milliseconds, which may be without end, and hands on what is
 * left of them.  One place knows where that ends and where it would wrap around.
 * Ownership: plain numbers: monotonic milliseconds, UINT64_MAX: never.
 */
#ifndef BASE_CORE_DEADLINE_H
#define BASE_CORE_DEADLINE_H

#include <stdint.h>

/** `wait_ms` from now; UINT64_MAX: never. */
uint64_t kvt_deadline_in(uint64_t wait_ms);

/** Milliseconds until then: 0 when it is over, UINT64_MAX when it never is. */
uint64_t kvt_deadline_left(uint64_t deadline_ms);

#endif /* BASE_CORE_DEADLINE_H */
