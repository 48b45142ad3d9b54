/*
 * gateway/s3/s3_dispatch.h -- chooses the handler of a request on the S3 port.
 *
 * Why: the S3 subset and the batch API without any HTTP library: a request goes in, its answer is
 * filled in.
 *
 * Ownership: borrows everything.
 * Threads:   any number, one request each; may wait for disk and bucket.
 * Limits:    as gateway/http/request.h; an answer's bodies are reserved from the budget first.
 */
#ifndef GATEWAY_S3_S3_DISPATCH_H
#define GATEWAY_S3_S3_DISPATCH_H

#include "gateway/s3/s3_context.h"

/** Answer a request that is signed and whose body is complete. */
void gateway_s3_dispatch(struct gateway_s3 *s3, struct gateway_request *request);

/** The same for a request that waits for nothing, as most GETs of hot blocks.  Any thread may call
 *  it.  False: nothing was done; call gateway_s3_dispatch(). */
bool gateway_s3_dispatch_at_once(struct gateway_s3 *s3, struct gateway_request *request);

#endif /* GATEWAY_S3_S3_DISPATCH_H */
