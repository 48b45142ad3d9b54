/*
 * router/requests.h -- the rows of the slot table: requests by id, live ones and remembered ones.
 *
 * Why: a row is found by its id, walked in an order that survives changes between two steps of the
 * walk, and due at a time of its own.  What a row means is slots.c's.
 *
 * Ownership: the set owns its rows.
 * Threads:   none; one owner.
 * Limits:    memory.
 */
#ifndef ROUTER_REQUESTS_H
#define ROUTER_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "router/deadlines.h"
#include "router/routed_request.h"

struct router_row {
    struct router_deadline deadline; /* first: a deadline is its row */
    struct router_row *next;         /* with the same head, by key */
    uint64_t key;                    /* of its id; the order of walks */
    enum router_state state;
    bool live; /* what follows counts; otherwise id, state and deadline are what is remembered */

    uint32_t worker; /* number, in the columns */
    uint32_t end;    /* of its prompt, in the tree */
    uint32_t hash_count;
    uint32_t blocks;
    uint64_t router;
    uint64_t added_ms;
    uint64_t prefill_tokens;
    uint64_t content; /* digest of all that was added */
    struct router_row *worker_next;
    struct router_row *worker_before;

    char id[]; /* with its NUL */
};

struct router_requests {
    struct router_row **heads; /* by the highest bits of keys */
    unsigned bits;
    size_t count;
    uint64_t seed;
};

/** False: no memory.  Release it all the same. */
bool router_requests_init(struct router_requests *requests);
void router_requests_release(struct router_requests *requests);

/** NULL: no such row. */
struct router_row *router_requests_find(const struct router_requests *requests, const char *id);
/** A row of an id that has none, zero but for its id; NULL: no memory. */
struct router_row *router_requests_add(struct router_requests *requests, const char *id);
/** Take it out and free it. */
void router_requests_remove(struct router_requests *requests, struct router_row *row);
/** The first row whose key is at least `key`, or NULL. */
struct router_row *router_requests_from(const struct router_requests *requests, uint64_t key);

#endif /* ROUTER_REQUESTS_H */
