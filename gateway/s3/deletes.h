/*
 * gateway/s3/deletes.h -- DeleteObjects: many keys in one request.
 *
 * Why: clients that empty a prefix send a thousand keys at a time; each has an answer of its own.
 *
 * Ownership: borrows all of it.
 * Threads:   any number, one request each.
 * Limits:    GATEWAY_DELETES_MAX keys a request, GATEWAY_REMOVAL_TOGETHER of them at once; behind
 *            those of which one is refused for the moment, perhaps after its whole patience, no
 *            more are tried.
 */
#ifndef GATEWAY_S3_DELETES_H
#define GATEWAY_S3_DELETES_H

#include "gateway/http/request.h"
#include "gateway/s3/s3_dispatch.h"

#define GATEWAY_DELETES_MAX 1000

void gateway_deletes_answer(struct gateway_s3 *s3, struct gateway_request *request);

#endif /* GATEWAY_S3_DELETES_H */
