/*
 * kvbm/worker/serve_internal.h -- what the two files of the request path share; nobody else
 * includes it.
 *
 * Why: deciding where blocks come from (serve.c) and moving them (serve_take.c) are two things.
 * Ownership: the server owns its arrays.
 * Threads:   one.
 * Limits:    at most stack->chunk blocks a call.
 */
#ifndef KVBM_WORKER_SERVE_INTERNAL_H
#define KVBM_WORKER_SERVE_INTERNAL_H

#include <stdbool.h>

#include "kvbm/worker/serve.h"

#define KVBM_SERVE_PREFIX_DEPTH 8 /* the wire's default, docs/formats.md */

struct kvbm_serve {
    struct kvbm_stack *stack;
    struct kvbm_label *labels; /* of the request's blocks */
    struct kvt_block_id *ids;
    uint8_t *masks; /* KVT_TIER_MASK bits: where each block is */
    bool *present;
    uint32_t capacity;
    uint32_t retried; /* 1 + the block that was looked for a second time; 0: none yet */
};

/** Bring blocks [at, at + count) of the request from `tier` into G1.  Returns how many of them,
 *  from the first on, arrived and are right. */
uint32_t kvbm_serve_take(struct kvbm_serve *serve, enum kvt_tier tier, uint32_t at, uint32_t count);

/** Make blocks [at, at + count), register them in G1 and send them down. */
void kvbm_serve_compute(struct kvbm_serve *serve, uint32_t at, uint32_t count);

#endif /* KVBM_WORKER_SERVE_INTERNAL_H */
