/*
 * gateway/http/condition.h -- the conditional headers of requests, judged against what is there.
 *
 * Why: clients that cache, and clients that race, lean on them; RFC 9110 section 13.2.2 has their
 * order.
 * Threads:   any; pure functions.
 */
#ifndef GATEWAY_HTTP_CONDITION_H
#define GATEWAY_HTTP_CONDITION_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/http/request.h"

/** Does a list of ETags, or "*", name this one (unquoted)? */
bool gateway_condition_lists(const char *list, const char *etag);

/** May what is there (ETag unquoted, Unix milliseconds) be read?  NONE, NOT_MODIFIED or
 *  PRECONDITION. */
enum gateway_s3_error gateway_condition_read(const struct gateway_request *request,
                                             const char *etag, uint64_t modified_ms);

/** The same by the x-amz-copy-source-if-* headers: NONE or PRECONDITION. */
enum gateway_s3_error gateway_condition_copy(const struct gateway_request *request,
                                             const char *etag, uint64_t modified_ms);

/** May it be written over?  `etag` NULL: nothing is there.  NONE, NO_SUCH_KEY or PRECONDITION. */
enum gateway_s3_error gateway_condition_write(const struct gateway_request *request,
                                              const char *etag);

#endif /* GATEWAY_HTTP_CONDITION_H */
