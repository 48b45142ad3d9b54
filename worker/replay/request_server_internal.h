/*
 * worker/replay/request_server_internal.h -- what the two files of the request path share; nobody
 * else includes it.
 *
 * Why: deciding which blocks there are (request_server.c) and having them (request_server_take.c)
 * are two things.
 * Ownership: the server owns its arrays.
 * Threads:   one.
 * Limits:    at most stack->take_max, or stack->chunk, blocks a call.
 */
#ifndef WORKER_REPLAY_REQUEST_SERVER_INTERNAL_H
#define WORKER_REPLAY_REQUEST_SERVER_INTERNAL_H

#include <stdbool.h>

#include "worker/replay/request_server.h"

#define WORKER_REQUEST_SERVER_PREFIX_DEPTH 8 /* the wire's default, docs/formats.md */

struct worker_request_server {
    struct worker_stack *stack;
    struct kvbm_label *labels; /* of the request's blocks */
    struct kvt_block_id *ids;
    uint8_t *masks; /* KVT_TIER_MASK bits: where each block is */
    bool *present;
    uint32_t capacity;
};

/**
 * Take blocks [at, at + count) of the request: those that G1 has, from the first on; has it none,
 * all of them, from wherever they are into G1.
 *
 * @param deadline_ms  from now; 0: none
 * @param[out] why     KVT_OK: go on behind them; KVT_TIMEOUT, KVT_RANGE (sooner computed),
 *                     KVT_AGAIN (no room), KVT_CORRUPT (wrong), or what else the manager said
 * @param[out] again   the first that did not come was wrong in G1, and is there no more: a tier
 *                     below may have a right copy
 * @return how many of them, from the first on, arrived and are right
 */
uint32_t worker_request_server_take(struct worker_request_server *serve, uint32_t at,
                                    uint32_t count, uint64_t deadline_ms, enum kvt_err *why,
                                    bool *again);

/** Make blocks [at, at + count), register them in G1 and send them down. */
void worker_request_server_compute(struct worker_request_server *serve, uint32_t at,
                                   uint32_t count);

#endif /* WORKER_REPLAY_REQUEST_SERVER_INTERNAL_H */
