/*
 * advisor/route/router_private.h -- what the files router*.c share.
 *
 * Why: deciding, and the table of requests with its clock, are a page each.
 */
#ifndef ADVISOR_ROUTE_ROUTER_PRIVATE_H
#define ADVISOR_ROUTE_ROUTER_PRIVATE_H

#include <pthread.h>

#include "advisor/route/coverage.h"
#include "advisor/route/router.h"
#include "base/core/metrics.h"

enum { ADVISOR_ROUTER_SPARES = 8 };

/* X(member, kind, name behind kvtier_advisor_route_, help) */
#define ADVISOR_ROUTER_COUNTERS(X)                                                                 \
    X(decisions, COUNTER, "decisions_total", "Workers chosen for a request.")                      \
    X(ties, COUNTER, "ties_total", "Of them, among equal costs: by load or by chance.")            \
    X(booked, COUNTER, "booked_total", "Requests that were booked with their decision.")           \
    X(refused, COUNTER, "refused_total", "Questions that no worker was the answer to.")            \
    X(steps, COUNTER, "steps_total", "Steps of requests that changed the table.")                  \
    X(expired, COUNTER, "expired_total", "Requests that nobody ended.")                            \
    X(untracked, COUNTER, "untracked_total", "Requests there was no room for.")                    \
    X(requests, GAUGE, "requests", "Running requests that are known.")                             \
    X(workers, GAUGE, "workers", "Workers that may be chosen.")                                    \
    X(peers, GAUGE, "replicas", "Other replicas that are heard.")                                  \
    X(gaps, COUNTER, "replica_gaps_total", "Steps of other replicas that were missing.")

struct advisor_router_counters {
#define X(member, kind, name, help) struct kvt_metric *member;
    ADVISOR_ROUTER_COUNTERS(X)
#undef X
    struct kvt_histogram decision_us;
};

struct advisor_router {
    struct advisor_router_options options;
    struct advisor_router_counters counters;
    struct router_workers *workers;
    pthread_mutex_t lock;
    /* Under the lock: */
    struct router_request_table *slots;
    struct router_replica *replica; /* NULL: alone */
    struct advisor_worker_set *set; /* that the slot table is bound to */
    struct advisor_coverage *spares[ADVISOR_ROUTER_SPARES];
    size_t spare_count;
    uint64_t random;
    bool linked; /* the other replicas could have been heard */
};

/** With the lock held: who is there now is whom the table is bound to, and what those did that left
 *  is over.  KVT_OK, KVT_NOMEM or KVT_FULL: as before. */
KVT_NODISCARD enum kvt_err advisor_router_refresh(struct advisor_router *router);

/** With the lock held: a request is given to a worker, and the others hear of it. */
KVT_NODISCARD enum kvt_err advisor_router_book(struct advisor_router *router,
                                               struct router_request *request, bool *changed);

#endif /* ADVISOR_ROUTE_ROUTER_PRIVATE_H */
