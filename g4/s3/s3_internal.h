/*
 * g4/s3/s3_internal.h -- how an S3 store carries requests: loops, and large objects in parts.
 *
 * Why: s3.h shows none of them.
 */
#ifndef G4_S3_S3_INTERNAL_H
#define G4_S3_S3_INTERNAL_H

#include "g4/s3/endpoint.h"
#include "g4/s3/s3.h"
#include "g4/s3/upload_notes.h"

/* ---- loop ---- */

/*
 * One thread that carries requests to an S3 service and back.
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

/* ---- parts ---- */

/*
 * Large objects, to and from S3 in several transfers at once.
 *
 * Why: one connection carries one stream, and one lost connection loses all of it.  A GET asks for
 * the first part and learns how large the object is and which version; the others are asked for
 * with If-Match, so that no two versions are ever put together.  A PUT is a multipart upload; its
 * condition goes with the last step, which makes the object, and what fails is aborted.  What
 * cannot be, or whose name an answer took with it, is left with its note (g4/s3/upload_notes.h).
 *
 * Ownership: as g4/object/g4_store.h says of requests; a job is its own and ends with its last
 *            transfer.
 * Threads:   any thread starts one; the rest happens where requests end.
 * Limits:    G4_S3_PARTS_AT_ONCE transfers a request, G4_S3_PARTS_MAX parts: larger bodies have
 *            larger parts.  The caller's memory is all there is, and for a GET without any, the
 *            object's size and one part.
 */

#define G4_S3_PARTS_AT_ONCE 4
#define G4_S3_PARTS_MAX     10000
#define G4_S3_PARTS_LEAST   (5u << 20) /* smaller ones S3 refuses */

struct g4_s3_parts {
    uint64_t part_size;
    uint64_t timeout_ms; /* of a request without a deadline */
    enum kvt_err (*submit)(void *arg, struct g4_request *request);
    void *arg;
    struct g4_upload_notes *notes; /* where uploads are written down first; NULL: nowhere */
};

/** Is it larger than a part, or may it be? */
bool g4_s3_parts_wanted(const struct g4_s3_parts *parts, const struct g4_request *request);

/** KVT_OK (request->done will be called), KVT_NOMEM, or what submit said. */
KVT_NODISCARD enum kvt_err g4_s3_parts_start(const struct g4_s3_parts *parts,
                                             struct g4_request *request);

#endif /* G4_S3_S3_INTERNAL_H */
