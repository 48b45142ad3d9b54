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

struct gateway_hold {
    uint64_t hash; /* of the key; two keys with one hash merely wait for each other */
    const struct gateway_hold *owner;
    struct gateway_hold *next;
};

struct gateway_holds;

KVT_NODISCARD enum kvt_err gateway_hold_new(struct gateway_holds **out);
void gateway_hold_free(struct gateway_holds *holds);

/** Name the key of one hold, before acquiring. */
void gateway_hold_init(struct gateway_hold *hold, const char *key);

/** Take all of them; a key named twice is fine. */
void gateway_hold_acquire(struct gateway_holds *holds, struct gateway_hold *array, size_t count);

/** As acquire, but false at once when another has one of them. */
bool gateway_hold_try(struct gateway_holds *holds, struct gateway_hold *array, size_t count);

void gateway_hold_release(struct gateway_holds *holds, struct gateway_hold *array, size_t count);

#endif /* GATEWAY_TIER_KEY_LOCK_H */
