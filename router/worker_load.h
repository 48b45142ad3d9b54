/*
 * router/worker_load.h -- what each worker has to do, as columns in the order decisions look at
 * them.
 *
 * Why: a decision reads three numbers of every worker and nothing else.  A worker has a number as
 * long as it is in the view or a request names it; where it stands in the columns is another
 * thing: those of the view first and in its order, the others behind.
 *
 * Ownership: owns all.
 * Threads:   none; one owner.
 * Limits:    ROUTER_WORKERS_MAX workers in the view, and as many others that are reached.
 */
#ifndef ROUTER_WORKER_LOAD_H
#define ROUTER_WORKER_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#include "router/workers.h"

#define ROUTER_WORKER_LOAD_MAX  (3 * ROUTER_WORKERS_MAX) /* while one view takes another's place */
#define ROUTER_WORKER_LOAD_NONE UINT32_MAX

struct router_worker_load_worker;

struct router_worker_load {
    /* By worker number. */
    struct router_worker_load_worker *workers;
    uint32_t *places; /* in the columns */
    size_t workers_capacity;
    size_t places_capacity;
    uint32_t used; /* numbers ever given */
    uint32_t free; /* head of those to give again; ROUTER_WORKER_LOAD_NONE: none */

    /* By place; `count` of them, the first `bound` are the view. */
    uint64_t *prefill_tokens;
    uint64_t *blocks;
    uint64_t *scratch; /* for whoever works on the columns */
    uint32_t *requests;
    uint32_t *numbers;
    uint32_t count;
    uint32_t bound;
    size_t capacity;

    uint32_t *heads; /* workers by name and rank */
    size_t head_count;
    uint64_t seed;
};

/** False: no memory.  Release it all the same. */
bool router_worker_load_init(struct router_worker_load *columns);
void router_worker_load_release(struct router_worker_load *columns);

/** As router_request_table_bind(). */
KVT_NODISCARD enum kvt_err router_worker_load_bind(struct router_worker_load *columns,
                                                   const struct router_worker_row *rows,
                                                   size_t count);

/** Its number, or ROUTER_WORKER_LOAD_NONE. */
uint32_t router_worker_load_find(const struct router_worker_load *columns,
                                 const struct router_worker *worker);
/** Its number, one of its own if it had none; it goes with router_worker_load_tidy().  KVT_OK,
 * KVT_FULL
 *  (so many others that a view would have no room) or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err router_worker_load_reach(struct router_worker_load *columns,
                                                    const struct router_worker *worker,
                                                    uint32_t *number);
/** Forget a worker that is not in the view and has no requests; else nothing. */
void router_worker_load_tidy(struct router_worker_load *columns, uint32_t number);

/** Who has a number. */
const struct router_worker *router_worker_load_name(const struct router_worker_load *columns,
                                                    uint32_t number);
/** The owner's, NULL at first. */
void **router_worker_load_mark(struct router_worker_load *columns, uint32_t number);

#endif /* ROUTER_WORKER_LOAD_H */
