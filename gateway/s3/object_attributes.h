/*
 * gateway/s3/object_attributes.h -- GetObjectAttributes: what is known of an object and its parts.
 *
 * Why: a client that checks what it uploaded asks for size, checksum and parts in one request.
 * Checksums of parts are computed from the object, as only those of the whole are kept with it.
 *
 * Ownership: the request's.
 * Threads:   any I/O thread.
 * Limits:    GATEWAY_OBJECT_ATTRIBUTES_PARTS parts an answer; an object whose parts' checksums are
 *            asked for is read whole.
 */
#ifndef GATEWAY_S3_OBJECT_ATTRIBUTES_H
#define GATEWAY_S3_OBJECT_ATTRIBUTES_H

#include "gateway/s3/s3_dispatch.h"

#define GATEWAY_OBJECT_ATTRIBUTES_PARTS 1000

/** Is it GET k?attributes? */
bool gateway_s3_object_attributes_is(const struct gateway_request *request);

void gateway_s3_object_attributes_answer(struct gateway_s3 *s3, struct gateway_request *request);

#endif /* GATEWAY_S3_OBJECT_ATTRIBUTES_H */
