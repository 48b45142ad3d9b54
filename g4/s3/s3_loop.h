/*
 * g4/s3/s3_loop.h -- one thread that carries requests to an S3 service and back.
 *
 * Why: every attempt, every wait between attempts and every second question lies within a request's
 * deadline, and none of them may take more than its share: connections, retries and hedges are all
 * counted here.
 *
 * A slot belongs to a request from its first attempt to its last.  Retries wait a random time under
 * a bound that doubles ("full jitter"), and draw on a budget that successes fill again: a service
 * that is down is not asked many times over.  A hedge is a second GET for the same request on
 * another connection, when the first has taken unusually long; the first good answer counts and the
 * other attempt is cut off.
 *
 * Ownership: as g4/object/g4_store.h says of requests; the endpoint is borrowed.
 * Threads:   any thread submits; `done` runs on the loop's thread.
 * Limits:    `connections_max` requests at once, `queue_max` waiting; G4_S3_RETRY_BUDGET retries
 *            in a row without a success; a hedge for `hedge_share_ppm` of the GETs.
 */
#ifndef G4_S3_S3_LOOP_H
#define G4_S3_S3_LOOP_H

#include <stdint.h>

#include "g4/object/g4_store.h"
#include "g4/s3/endpoint.h"
#include "g4/s3/s3.h"
#include "kvtier/error.h"

#define G4_S3_RETRY_BUDGET 100 /* retries; an answered request gives a fifth of one back */

struct g4_s3_loop_options {
    unsigned connections_max;
    unsigned queue_max;
    unsigned attempts_max;
    uint64_t timeout_ms;
    uint64_t hedge_ms;        /* least time before a hedge; 0 without hedge_p95 = none */
    bool hedge_p95;           /* and not before 19 in 20 GETs have been answered */
    uint32_t hedge_share_ppm; /* most hedges, in parts per million of GETs */
};

struct g4_s3_loop;

KVT_NODISCARD enum kvt_err g4_s3_loop_start(struct g4_s3_loop **out, struct g4_endpoint *endpoint,
                                            const struct g4_s3_loop_options *options);

/** Answers what is in flight, then ends: it takes no more (KVT_CANCELLED).  NULL is allowed. */
void g4_s3_loop_stop(struct g4_s3_loop *loop);

/** Stops it as well.  What ends on one loop may be followed by requests to others: stop all of them
 *  before the first is freed.  NULL is allowed. */
void g4_s3_loop_free(struct g4_s3_loop *loop);

/** KVT_OK, KVT_AGAIN (full) or KVT_CANCELLED (stopping). */
KVT_NODISCARD enum kvt_err g4_s3_loop_submit(struct g4_s3_loop *loop, struct g4_request *request);

/** Any thread: add what was counted so far to `counts`. */
void g4_s3_loop_count(struct g4_s3_loop *loop, struct g4_s3_counts *counts);

#endif /* G4_S3_S3_LOOP_H */
