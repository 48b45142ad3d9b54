/*
 * gateway/multipart.h -- multipart uploads on the S3 port.
 *
 * Why: clients cut what is larger than some megabytes into parts.  Parts wait as files of this
 * gateway (gateway/uploads.h); completion makes one object of them, under the conditions of the
 * request that completes.
 *
 * Ownership: borrows all of it.
 * Threads:   any number, one request each.
 * Limits:    those of gateway/uploads.h; a completed object has at most object_max bytes.
 */
#ifndef GATEWAY_MULTIPART_H
#define GATEWAY_MULTIPART_H

#include "gateway/request.h"
#include "gateway/s3.h"

/** A request on a key with ?uploads or ?uploadId. */
void gateway_multipart_answer(struct gateway_s3 *s3, struct gateway_request *request);

#endif /* GATEWAY_MULTIPART_H */
