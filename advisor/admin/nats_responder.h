/*
 * advisor/admin/nats_responder.h -- find, match and route over NATS request-reply.
 *
 * Why: routers that are on the bus anyway ask there.  NATS threads copy the question and leave; a
 * thread of ours answers.
 *
 * Of a group of routers one that joins is not asked before it knows what the others gave out.
 *
 * Ownership: borrows bus, finder and router.
 * Threads:   one of its own.
 * Limits:    ADVISOR_NATS_RESPONDER_QUESTIONS_MAX questions wait; more are dropped and counted,
 *            and the asker runs into its deadline.
 */
#ifndef ADVISOR_ADMIN_NATS_RESPONDER_H
#define ADVISOR_ADMIN_NATS_RESPONDER_H

#include "advisor/answer/finder.h"
#include "advisor/index/advisor_counters.h"
#include "advisor/route/router.h"

#define ADVISOR_NATS_RESPONDER_QUESTIONS_MAX 256

struct advisor_nats_responder;
struct wire_bus;

/** @param router  NULL: nobody is told which worker should take a request
 *  @param group   of routers: one of them answers, for two would give the request to two workers;
 *                 "": alone */
KVT_NODISCARD enum kvt_err
advisor_nats_responder_start(struct advisor_nats_responder **out, struct wire_bus *bus,
                             const struct advisor_finder *finder, struct advisor_router *router,
                             const char *group, const struct advisor_counters *counters,
                             struct kvt_error *err);
/** False: of a group, and not asked yet which worker should take a request. */
bool advisor_nats_responder_listens(const struct advisor_nats_responder *responder);
void advisor_nats_responder_stop(struct advisor_nats_responder *responder);

/** One question as bytes to one answer as bytes; what is malformed is answered so. */
void advisor_nats_responder_answer(const struct advisor_finder *finder, bool match,
                                   const void *bytes, size_t size, struct kvt_buffer *out);

/** The same of a question which worker should take a request. */
void advisor_nats_responder_route(struct advisor_router *router,
                                  const struct advisor_finder *finder, const void *bytes,
                                  size_t size, struct kvt_buffer *out);

#endif /* ADVISOR_ADMIN_NATS_RESPONDER_H */
