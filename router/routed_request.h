/*
 * router/routed_request.h -- a request that was given to a worker, and its state.
 *
 * Why: the table of requests and its rows, router/requests.h, both speak of it.
 */
#ifndef ROUTER_ROUTED_REQUEST_H
#define ROUTER_ROUTED_REQUEST_H

#include <stdint.h>

#include "router/workers.h"

#define ROUTER_REQUEST_ID_MAX     128 /* bytes with the final NUL */
#define ROUTER_REQUEST_HASHES_MAX 16384

enum router_state { ROUTER_ADDED = 1, ROUTER_PREFILLED = 2, ROUTER_FREED = 3 };

/* A request as it is added; also a row of a snapshot.  Of a tombstone, and of one that is known by
 * a step only, there are id, state and age: the worker's name is "". */
struct router_request {
    char id[ROUTER_REQUEST_ID_MAX]; /* not empty */
    struct router_worker worker;
    uint64_t router;         /* who added it */
    uint64_t added_ms;       /* wall clock of that router */
    uint64_t age_ms;         /* since it was added; tombstones: since it was freed; 0: now */
    uint64_t prefill_tokens; /* to be computed there: prompt less what is cached */
    const uint64_t *hashes;  /* sequence hashes of its blocks, root first; borrowed */
    uint32_t hash_count;
    uint32_t blocks; /* of the prompt, hashed or not: at least hash_count */
    enum router_state state;
};

#endif /* ROUTER_ROUTED_REQUEST_H */
