/*
 * gateway/tier/key_lock.h -- one change of a key at a time.
 *
 * Why: a PUT, a removal and a move of the same key must not interleave inside a gateway.  A batch
 * takes all its keys at once or waits, so two batches can never wait for each other.
 *
 * Ownership: the caller's array of holds is linked into the table from acquire to release.
 * Threads:   any; acquire may wait for others' releases.
 * Limits:    none of its own: holds belong to requests, which are bounded.
 */
#ifndef GATEWAY_TIER_KEY_LOCK_H
#define GATEWAY_TIER_KEY_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

struct gateway_key_lock {
    uint64_t hash; /* of the key; two keys with one hash merely wait for each other */
    const struct gateway_key_lock *owner;
    struct gateway_key_lock *next;
};

struct gateway_key_locks;

KVT_NODISCARD enum kvt_err gateway_key_lock_new(struct gateway_key_locks **out);
void gateway_key_lock_free(struct gateway_key_locks *holds);

/** Name the key of one hold, before acquiring. */
void gateway_key_lock_init(struct gateway_key_lock *hold, const char *key);

/** Take all of them; a key named twice is fine. */
void gateway_key_lock_acquire(struct gateway_key_locks *holds, struct gateway_key_lock *array,
                              size_t count);

/** As acquire, but false at once when another has one of them. */
bool gateway_key_lock_try(struct gateway_key_locks *holds, struct gateway_key_lock *array,
                          size_t count);

/** One key; false at once when another has it. */
bool gateway_key_lock_try_one(struct gateway_key_locks *holds, struct gateway_key_lock *hold,
                              const char *key);

void gateway_key_lock_release(struct gateway_key_locks *holds, struct gateway_key_lock *array,
                              size_t count);

#endif /* GATEWAY_TIER_KEY_LOCK_H */
