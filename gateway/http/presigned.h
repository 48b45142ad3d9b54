/*
 * gateway/http/presigned.h -- a request that is signed in its URL.
 *
 * Why: whoever holds such a URL may do this one thing for a while, without keys.  Handlers must
 * not see how a request was signed, so its arguments are taken out of the query.
 *
 * Ownership: changes the request's own copy of its target.
 * Threads:   as the request.
 * Limits:    GATEWAY_PRESIGNED_EXPIRES_MAX_S.
 */
#ifndef GATEWAY_HTTP_PRESIGNED_H
#define GATEWAY_HTTP_PRESIGNED_H

#include <stdbool.h>
#include <stdint.h>

#include "g4/s3/sigv4.h"
#include "gateway/http/request.h"

#define GATEWAY_PRESIGNED_EXPIRES_MAX_S (7u * 24 * 3600)

struct gateway_presigned {
    struct g4_sigv4_claim claim;
    char date[G4_SIGV4_DATE_MAX];
    char hash[G4_SIGV4_SIGNATURE_MAX]; /* X-Amz-Content-Sha256, or UNSIGNED-PAYLOAD */
    uint32_t expires_s;
};

/** Is the request signed in its URL, in whatever version? */
bool gateway_presigned_is(const struct gateway_target *target);

/** Read the claim and drop the signature from the query, which is then what was signed. */
enum gateway_s3_error gateway_presigned_parse(struct gateway_request *request,
                                              struct gateway_presigned *presigned);

/** The signature is good: drop what is left of it from the query.  Other "x-amz-" arguments are
 * headers that were moved there, and become headers again. */
enum gateway_s3_error gateway_presigned_strip(struct gateway_request *request);

#endif /* GATEWAY_HTTP_PRESIGNED_H */
