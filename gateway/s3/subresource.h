/*
 * gateway/s3/subresource.h -- what a bucket or an object has beside its content: as good as
 * nothing.
 *
 * Why: clients ask for versioning, ACLs, policies and more before they do their work.  What is not
 * there is said as S3 says it; what somebody wants to set is refused.
 *
 * Ownership: borrows all of it.
 * Threads:   any number, one request each; may wait for the store.
 */
#ifndef GATEWAY_S3_SUBRESOURCE_H
#define GATEWAY_S3_SUBRESOURCE_H

#include "gateway/http/request.h"
#include "gateway/s3/s3_dispatch.h"

/** Answer a request for one of request->bucket, or of the object at request->stored.
 * False: it is for none that is known here. */
bool gateway_subresource_answer(struct gateway_s3 *s3, struct gateway_request *request);

/** Is this one of S3's canned ACLs, or NULL for none? */
bool gateway_subresource_canned(const char *name);

#endif /* GATEWAY_S3_SUBRESOURCE_H */
