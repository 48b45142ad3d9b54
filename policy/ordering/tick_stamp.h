/*
 * policy/ordering/tick_stamp.h -- ticks kept in 32 bits.
 *
 * Why: half the memory a block needs would be ticks if they were kept whole; ages are what
 * orderings ask for, and an age is right modulo 2^32 (kvtier/ordering.h, Limits).
 *
 * Ownership: the caller's array.
 * Threads:   none; one owner.
 * Limits:    ages below 2^32 ticks.
 */
#ifndef POLICY_ORDERING_TICK_STAMP_H
#define POLICY_ORDERING_TICK_STAMP_H

#include <stdint.h>

#include "kvtier/error.h"

/** How long ago `stamp` was at tick `now`. */
static inline uint32_t
policy_tick_stamp_age(uint32_t stamp, uint64_t now)
{
    return (uint32_t)now - stamp;
}

/** Room for `count` stamps, those beyond `known` being 0; KVT_OK, or KVT_NOMEM and nothing done. */
KVT_NODISCARD enum kvt_err policy_tick_stamp_reserve(uint32_t **stamps, uint32_t known,
                                                     uint32_t count);

#endif /* POLICY_ORDERING_TICK_STAMP_H */
