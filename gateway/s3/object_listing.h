/*
 * gateway/s3/object_listing.h -- ListObjects, both versions, over the bucket.
 *
 * Why: the bucket is the truth about what is there, whoever wrote it; prefixes are folded here
 * because stores only list keys.
 * Ownership: borrowed for the call.
 * Limits:    1000 rows an answer; GATEWAY_KEY_CURSOR_PAGES store pages looked at in one request,
 *            then the answer is cut short with a token to go on.
 */
#ifndef GATEWAY_S3_OBJECT_LISTING_H
#define GATEWAY_S3_OBJECT_LISTING_H

#include "gateway/s3/s3_context.h"

/** GET on the bucket without a subresource. */
void gateway_object_listing_answer(struct gateway_s3 *s3, struct gateway_request *request);

/** Is there nothing that a listing would show? */
enum gateway_s3_error gateway_object_listing_empty(struct gateway_s3 *s3,
                                                   const struct gateway_client_bucket *bucket,
                                                   bool *empty);

#endif /* GATEWAY_S3_OBJECT_LISTING_H */
