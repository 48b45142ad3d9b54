/*
 * gateway/s3/object_copy.h -- CopyObject: one object's bytes under another key.
 *
 * Why: clients rename by copying, and change metadata by copying an object onto itself.
 *
 * Ownership: borrows all of it.
 * Threads:   any number, one request each.
 * Limits:    objects of at most object_max bytes; the source's bytes come from the budget.
 */
#ifndef GATEWAY_S3_OBJECT_COPY_H
#define GATEWAY_S3_OBJECT_COPY_H

#include "gateway/s3/s3_context.h"

void gateway_object_copy_answer(struct gateway_s3 *s3, struct gateway_request *request);

/** Where what x-amz-copy-source names is in the store: NONE; NO_SUCH_BUCKET, NOT_IMPLEMENTED for a
 *  version, FORBIDDEN without the right to read it. */
enum gateway_s3_error gateway_object_copy_source(struct gateway_s3 *s3,
                                                 const struct gateway_request *request,
                                                 struct g4_object_name *name);

/** Answer that a copy was made: of an object, or as a part; `root` says which.  `checksums` are
 *  told, NULL = none. */
enum gateway_s3_error gateway_object_copy_tell(struct gateway_request *request, const char *root,
                                               const char *etag,
                                               const struct gateway_body_checksums *checksums);

#endif /* GATEWAY_S3_OBJECT_COPY_H */
