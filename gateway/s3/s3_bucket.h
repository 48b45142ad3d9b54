/*
 * gateway/s3/s3_bucket.h -- what is asked of the service and of whole buckets.
 *
 * Why: ListBuckets, CreateBucket, HeadBucket, GetBucketLocation and DeleteBucket decide who may see
 * which buckets; no answer tells of a bucket more than that its name is taken.
 *
 * Ownership: borrows all of it.
 * Threads:   any number, one request each; may wait for the store.
 * Limits:    as gateway/s3/client_buckets.h.
 */
#ifndef GATEWAY_S3_S3_BUCKET_H
#define GATEWAY_S3_S3_BUCKET_H

#include "gateway/s3/s3_context.h"

/** The bucket of that name, whoever asks.  GATEWAY_S3_ERROR_NO_SUCH_BUCKET. */
enum gateway_s3_error gateway_s3_bucket_find(struct gateway_s3 *s3, const char *name,
                                             struct gateway_client_bucket *bucket);

/** Answer GET / . */
void gateway_s3_bucket_list(struct gateway_s3 *s3, struct gateway_request *request);

/** Answer PUT, HEAD, DELETE and GET ?location of request->target.bucket. */
void gateway_s3_bucket_create(struct gateway_s3 *s3, struct gateway_request *request);
void gateway_s3_bucket_head(struct gateway_s3 *s3, struct gateway_request *request);
void gateway_s3_bucket_location(struct gateway_s3 *s3, struct gateway_request *request);
void gateway_s3_bucket_remove(struct gateway_s3 *s3, struct gateway_request *request);

#endif /* GATEWAY_S3_S3_BUCKET_H */
