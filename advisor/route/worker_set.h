/*
 * advisor/route/worker_set.h -- the workers that are there at one instant, found by name.
 *
 * Why: a decision is made among the same workers from its beginning to its end, and thousands are
 * made between two changes of who is there; so they are copied once and shared.
 *
 * Ownership: whoever made or kept one leaves it; the last one frees it.
 * Threads:   any: it does not change.
 * Limits:    ROUTER_WORKERS_MAX workers.
 */
#ifndef ADVISOR_ROUTE_WORKER_SET_H
#define ADVISOR_ROUTE_WORKER_SET_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#include "router/workers.h"

struct advisor_worker_set {
    struct router_worker_row *rows; /* by (name, dp rank) */
    size_t count;
    uint64_t version; /* of the workers */
    uint32_t *table;  /* from a name to its row + 1; 0: free */
    size_t table_mask;
    atomic_uint users;
};

/** Who is there now; one user.  KVT_OK or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err advisor_worker_set_new(struct advisor_worker_set **out,
                                                  struct router_workers *workers);
/** One user more. */
struct advisor_worker_set *advisor_worker_set_keep(struct advisor_worker_set *set);
/** One user less.  NULL is allowed. */
void advisor_worker_set_leave(struct advisor_worker_set *set);

/** The row of a worker; `count` when there is none. */
size_t advisor_worker_set_find(const struct advisor_worker_set *set, const char *name,
                               uint32_t dp_rank);

#endif /* ADVISOR_ROUTE_WORKER_SET_H */
