/*
 * base/core/random.h -- a small seeded generator, and the system's.
 *
 * Why: workloads, jitter and tests must replay from a printed seed; nonces and incarnations must
 * not.
 * Ownership: the caller owns the state.
 * Threads:   one state, one thread.
 * Limits:    not for secrets, except kvt_random_system().
 */
#ifndef BASE_CORE_RANDOM_H
#define BASE_CORE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/** Next 64 bits (splitmix64, Steele et al. 2014); any state, also 0, is a fine start. */
uint64_t kvt_random_next(uint64_t *state);

/** Uniform in [0, bound); bound 0 gives 0. */
uint64_t kvt_random_below(uint64_t *state, uint64_t bound);

/** Uniform in [0, 1). */
double kvt_random_unit(uint64_t *state);

/** Bytes from the system's generator; aborts when it has none. */
void kvt_random_system(void *bytes, size_t size);

#endif /* BASE_CORE_RANDOM_H */
