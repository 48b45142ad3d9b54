/*
 * advisor/route/router_thread.h -- what reaches the router over the bus, and its clock.
 *
 * Why: frontends say there what became of requests, and other replicas what they did; requests that
 * nobody ends must end.  NATS threads copy and leave; a thread of ours does the rest, also the
 * sending, so that nobody sends under the router's lock.
 *
 * Ownership: borrows router and bus.
 * Threads:   one of its own; advisor_router_thread_send(): any.
 * Limits:    ADVISOR_ROUTER_WAITING_MAX messages wait, in or out, of ADVISOR_ROUTER_WAITING_BYTES
 *            together; more are dropped and counted: a step that somebody waits for is not
 *            answered, replicas ask for what is missing.
 */
#ifndef ADVISOR_ROUTE_ROUTER_THREAD_H
#define ADVISOR_ROUTE_ROUTER_THREAD_H

#include "advisor/route/router.h"

#define ADVISOR_ROUTER_WAITING_MAX   16384
#define ADVISOR_ROUTER_WAITING_BYTES (64u << 20)
#define ADVISOR_ROUTER_TICK_MS       100

struct advisor_router_thread;
struct wire_bus;

/** Before the router, which sends through it.  KVT_OK or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err advisor_router_thread_new(struct advisor_router_thread **out,
                                                     struct kvt_metrics *metrics);
/** router_send_fn: to the other replicas, or nowhere without a group. */
void advisor_router_thread_send(void *arg, const void *bytes, size_t size);
/** @param group  of WIRE_SUBJECT_ROUTE_SYNC; "": alone */
KVT_NODISCARD enum kvt_err advisor_router_thread_start(struct advisor_router_thread *thread,
                                                       struct advisor_router *router,
                                                       struct wire_bus *bus, const char *group,
                                                       struct kvt_error *err);
/** NULL is allowed.  Before the router and the bus go. */
void advisor_router_thread_free(struct advisor_router_thread *thread);

/** One step as bytes to one answer as bytes; what is malformed is answered so. */
void advisor_router_thread_take(struct advisor_router *router, const void *bytes, size_t size,
                                struct kvt_buffer *out);

#endif /* ADVISOR_ROUTE_ROUTER_THREAD_H */
