/*
 * gateway/s3/s3_handlers.h -- handlers that only the dispatcher calls.
 *
 * Why: one declaration each is too little for a header each.
 *
 * Ownership: borrow everything.
 * Threads:   any number, one request each; may wait for disk and bucket.
 */
#ifndef GATEWAY_S3_S3_HANDLERS_H
#define GATEWAY_S3_S3_HANDLERS_H

#include "gateway/s3/s3_context.h"

/** DeleteObjects.  Limits: 1000 keys a request, GATEWAY_REMOVAL_TOGETHER at once.  After a key that
 *  is refused for the moment, perhaps after its whole patience, no more are tried. */
void gateway_deletes_answer(struct gateway_s3 *s3, struct gateway_request *request);

/** A request on a key with ?uploads or ?uploadId.  Parts wait as files of this gateway
 *  (gateway/upload/uploads.h); completion makes one object of them, under the conditions of the
 *  request that completes.  A completed object has at most object_max bytes. */
void gateway_multipart_answer(struct gateway_s3 *s3, struct gateway_request *request);

/** ListMultipartUploads: GET ?uploads on a bucket, at most 1000 rows an answer. */
void gateway_upload_listing_answer(struct gateway_s3 *s3, struct gateway_request *request);

/** Whether it is GET k?attributes. */
bool gateway_s3_object_attributes_is(const struct gateway_request *request);

/** GetObjectAttributes, at most 1000 parts an answer.  Only the checksum of the whole is stored:
 *  the object is read whole when the checksums of its parts are requested. */
void gateway_s3_object_attributes_answer(struct gateway_s3 *s3, struct gateway_request *request);

/**
 * Answer a request for a subresource (versioning, ACL, policy ...) of request->bucket, or of the
 * object at request->stored.  Clients ask for them before they do their work.  A subresource that
 * does not exist is answered as S3 answers; setting one is refused.
 *
 * @return false when the request names no known subresource
 */
bool gateway_subresource_answer(struct gateway_s3 *s3, struct gateway_request *request);

/** Whether `name` is one of S3's canned ACLs, or NULL. */
bool gateway_subresource_canned(const char *name);

#endif /* GATEWAY_S3_S3_HANDLERS_H */
