/*
 * gateway/s3/upload_listing.h -- ListMultipartUploads: what was begun in a bucket and is not
 * complete.
 *
 * Why: clients look for uploads they left behind, page by page and folded as they list objects.
 * Ownership: borrowed for the call.
 * Limits:    1000 rows an answer; the uploads of this gateway, see gateway/upload/uploads.h.
 */
#ifndef GATEWAY_S3_UPLOAD_LISTING_H
#define GATEWAY_S3_UPLOAD_LISTING_H

#include "gateway/http/request.h"
#include "gateway/s3/s3_dispatch.h"

/** GET ?uploads on a bucket. */
void gateway_upload_listing_answer(struct gateway_s3 *s3, struct gateway_request *request);

#endif /* GATEWAY_S3_UPLOAD_LISTING_H */
