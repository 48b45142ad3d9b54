/*
 * gateway/s3/multipart.h -- multipart uploads on the S3 port.
 *
 * Why: clients cut what is larger than some megabytes into parts.  Parts wait as files of this
 * gateway (gateway/upload/uploads.h); completion makes one object of them, under the conditions of
 * the request that completes.
 *
 * Ownership: borrows all of it.
 * Threads:   any number, one request each.
 * Limits:    those of gateway/upload/uploads.h; a completed object has at most object_max bytes.
 */
#ifndef GATEWAY_S3_MULTIPART_H
#define GATEWAY_S3_MULTIPART_H

#include "gateway/http/request.h"
#include "gateway/s3/s3_dispatch.h"

/** A request on a key with ?uploads or ?uploadId. */
void gateway_multipart_answer(struct gateway_s3 *s3, struct gateway_request *request);

#endif /* GATEWAY_S3_MULTIPART_H */
