/*
 * advisor/route/router.h -- the router: which worker should take this request.
 *
 * Why: the index says what each worker would not have to compute, the cold tier included; the slot
 * table says what it does already; both together are a decision.  A request with an id is booked in
 * the same breath, so that two that come together see each other.
 *
 * Who learns of workers tells advisor_router_workers().  What a worker did that left is dropped
 * before the next decision.
 *
 * Ownership: owns the workers, the slot table and the replica.
 * Threads:   any.  Coverage is looked up without a lock; one leaf lock is round decision, booking
 *            and every step; advisor/route/router_thread.h brings the steps and the time.
 * Limits:    ROUTER_WORKERS_MAX workers, WIRE_ROUTE_VALUES_MAX blocks of a request; the slot
 *            table's own.
 */
#ifndef ADVISOR_ROUTE_ROUTER_H
#define ADVISOR_ROUTE_ROUTER_H

#include <stdbool.h>
#include <stdint.h>

#include "advisor/answer/finder.h"
#include "kvtier/error.h"
#include "wire/message/route.h"

#include "router/cost.h"
#include "router/replica.h"
#include "router/request_table.h"
#include "router/workers.h"

struct kvt_metrics;

struct advisor_router;

struct advisor_router_options {
    struct router_weights weights; /* where a request says nothing else */
    uint32_t block_tokens;         /* as well; at least 1 */
    uint64_t expiry_ms;            /* of requests that nobody ends */
    uint32_t requests_max;
    uint64_t number;      /* of this replica; 0: drawn */
    uint64_t seed;        /* of chance; 0: the system's */
    router_send_fn *send; /* to the other replicas; NULL: alone */
    void *send_arg;
    struct kvt_metrics *metrics;
};

KVT_NODISCARD enum kvt_err advisor_router_new(struct advisor_router **out,
                                              const struct advisor_router_options *options,
                                              struct kvt_error *err);
void advisor_router_free(struct advisor_router *router);

/** Who may be chosen. */
struct router_workers *advisor_router_workers(struct advisor_router *router);

/**
 * A decision.
 *
 * @param answer  wire_route_answer_release() it, whatever comes back; its rows are there when the
 *                question asks for them
 * @return KVT_OK, KVT_NOTFOUND (no worker, or none of those that are allowed), KVT_INVALID and
 *         KVT_RANGE (the question), KVT_EXISTS (a request of this id runs already), or as
 *         advisor_finder_matches(); a request that the slot table has no room for is routed and not
 *         booked
 */
KVT_NODISCARD enum kvt_err advisor_router_ask(struct advisor_router *router,
                                              const struct advisor_finder *finder,
                                              const struct wire_route_question *question,
                                              struct wire_route_answer *answer,
                                              struct kvt_error *err);

/**
 * A step of a request.
 *
 * @param[out] changed  false: it was known already, or the request has ended
 * @return KVT_OK; KVT_NOTFOUND: prefilled or freed before it was added here, which is remembered;
 *         KVT_EXISTS, KVT_FULL, KVT_NOMEM as router_request_table_merge(); KVT_INVALID, KVT_RANGE
 */
KVT_NODISCARD enum kvt_err advisor_router_step(struct advisor_router *router,
                                               const struct wire_route_step *step, bool *changed,
                                               struct kvt_error *err);

/** False: of a group, and it does not know yet what the others gave out. */
bool advisor_router_ready(struct advisor_router *router);

/** What another replica sent. */
void advisor_router_hear(struct advisor_router *router, const void *bytes, size_t size);
/** What time asks for: expiry, heartbeats, who left.  Call some times a second.
 *  @param linked  the others can be heard: from the first time on they are waited for */
void advisor_router_tick(struct advisor_router *router, bool linked);

/* ---- for people ---- */

struct advisor_router_view {
    struct router_request_table_stats slots;
    struct router_replica_stats replica; /* all 0: alone */
    struct router_weights weights;
    uint64_t number;
    uint64_t expiry_ms;
    uint64_t decisions;
    uint64_t ties; /* decisions by load or chance among equal costs */
    uint64_t workers;
    uint32_t requests_max;
    uint32_t block_tokens;
    bool shared; /* there is a group */
};

void advisor_router_view(struct advisor_router *router, struct advisor_router_view *view);

/* A worker and what it does. */
struct advisor_router_load {
    struct router_worker worker;
    uint32_t origins;
    uint32_t active_requests;
    uint64_t active_prefill_tokens;
    uint64_t decode_blocks;
};

/** All of them, by name and rank; kvt_free() `*loads`. */
KVT_NODISCARD enum kvt_err advisor_router_loads(struct advisor_router *router,
                                                struct advisor_router_load **loads, size_t *count);

/** Rows from `*cursor` (0 at first) on, ADVISOR_ROUTER_ROWS_MAX at most; false: that was all.  The
 *  callback runs under the lock: it copies and leaves. */
#define ADVISOR_ROUTER_ROWS_MAX 256
bool advisor_router_requests(struct advisor_router *router, uint64_t *cursor,
                             router_request_table_fn *callback, void *arg);

#endif /* ADVISOR_ROUTE_ROUTER_H */
