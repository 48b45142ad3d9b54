/*
 * gateway/http/payload.h -- a body: how long it will be, how it is framed, whether it is right.
 *
 * Why: a body comes plain or as aws-chunked, with its hash in the header, its checksum in front or
 * behind; handlers get the payload alone, and only when it fits everything the client said of it.
 *
 * Ownership: what it makes belongs to the request.
 * Threads:   as the request.
 * Limits:    the announced length; those of gateway/http/chunked.h.
 */
#ifndef GATEWAY_HTTP_PAYLOAD_H
#define GATEWAY_HTTP_PAYLOAD_H

#include <stddef.h>
#include <stdint.h>

#include "gateway/http/request.h"

/** Before the body: its length without framing, and what there is to say against it.  The request
 * is signed (gateway_auth_check()). */
enum gateway_s3_error gateway_payload_begin(struct gateway_request *request, uint64_t *length);

/** The next bytes of the body, at most `length` of payload in all. */
enum gateway_s3_error gateway_payload_take(struct gateway_request *request, const void *bytes,
                                           size_t size);

/** The body ended: is it whole, and does it fit x-amz-content-sha256, Content-MD5 and the
 * checksums, which are in request->checksums from here on? */
enum gateway_s3_error gateway_payload_check(struct gateway_request *request);

#endif /* GATEWAY_HTTP_PAYLOAD_H */
