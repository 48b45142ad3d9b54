/*
 * gateway/s3/s3_dispatch.h -- what a request on the S3 port means.
 *
 * Why: the S3 subset and the batch API, without any HTTP library: a request goes in, its answer is
 * filled in.
 *
 * Ownership: borrows all of it.
 * Threads:   any number, one request each; may wait for disk and bucket.
 * Limits:    as gateway/http/request.h; an answer's bodies are reserved from the budget first.
 */
#ifndef GATEWAY_S3_S3_DISPATCH_H
#define GATEWAY_S3_S3_DISPATCH_H

#include "gateway/http/request.h"
#include "gateway/s3/client_buckets.h"
#include "gateway/tier/gateway_context.h"

struct gateway_listing_prefetch;

struct gateway_s3 {
    struct gateway_context *context;
    struct gateway_budget *budget;
    struct gateway_client_buckets *buckets;
    struct gateway_listing_prefetch *ahead; /* NULL: nothing is listed before it is asked for */
    const char *bucket;                     /* the configured one */
    const char *region;
    uint64_t batch_max; /* bytes of one body or batch answer */
};

/** Answer it.  The request is signed and its body whole. */
void gateway_s3_dispatch(struct gateway_s3 *s3, struct gateway_request *request);

/** The same for what waits for nothing and nobody, as most GETs of hot blocks: any thread may do it
 *  on the way.  False: nothing was done, gateway_s3_dispatch() it. */
bool gateway_s3_dispatch_at_once(struct gateway_s3 *s3, struct gateway_request *request);

/** Is there an argument besides these and those of a presigned URL? */
bool gateway_s3_strange(const struct gateway_request *request, const char *const *known,
                        size_t count);

/** Bytes that an answer may have: a batch, or the largest listing. */
size_t gateway_s3_answer_max(const struct gateway_s3 *s3);

/** May the body be this long?  Asked before it is read. */
enum gateway_s3_error gateway_s3_admit(const struct gateway_s3 *s3,
                                       const struct gateway_request *request, uint64_t length);

#endif /* GATEWAY_S3_S3_DISPATCH_H */
