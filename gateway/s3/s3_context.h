/*
 * gateway/s3/s3_context.h -- what the handlers of the S3 port share.
 *
 * Why: handlers stand below the dispatcher that chooses among them.
 *
 * Ownership: borrows everything.
 * Threads:   any number, one request each.
 */
#ifndef GATEWAY_S3_S3_CONTEXT_H
#define GATEWAY_S3_S3_CONTEXT_H

#include "gateway/http/request.h"
#include "gateway/s3/client_buckets.h"
#include "gateway/tier/gateway_context.h"

struct gateway_listing_prefetch;

struct gateway_s3 {
    struct gateway_context *context;
    struct gateway_budget *budget;
    struct gateway_client_buckets *buckets;
    struct gateway_listing_prefetch *prefetch; /* NULL: listings are not prefetched */
    const char *bucket;                        /* the configured one */
    const char *region;
    uint64_t batch_max; /* bytes of one body or batch answer */
};

/** Whether the query has an argument besides `known` and those of a presigned URL. */
bool gateway_s3_strange(const struct gateway_request *request, const char *const *known,
                        size_t count);

/** The most bytes that an answer may have: a batch, or the largest listing. */
size_t gateway_s3_answer_max(const struct gateway_s3 *s3);

/** Whether a body of this length is accepted.  Called before the body is read. */
enum gateway_s3_error gateway_s3_admit(const struct gateway_s3 *s3, uint64_t length);

#endif /* GATEWAY_S3_S3_CONTEXT_H */
