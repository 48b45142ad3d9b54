/*
 * gateway/auth.h -- who may use the S3 port: AWS Signature Version 4 in the header.
 *
 * Why: every request is signed, whatever it asks for; nothing of its body is kept before its
 * header's signature was found good.
 * Ownership: the caller owns the struct; secrets live in it.
 * Threads:   read-only after loading; then any.
 * Limits:    GATEWAY_AUTH_PAIRS key pairs.
 */
#ifndef GATEWAY_AUTH_H
#define GATEWAY_AUTH_H

#include <stddef.h>
#include <stdint.h>

#include "gateway/request.h"
#include "kvtier/error.h"

#define GATEWAY_AUTH_PAIRS   64
#define GATEWAY_AUTH_SKEW_MS (15 * 60 * 1000)

struct gateway_auth_pair {
    char access[128];
    char secret[128];
};

struct gateway_auth {
    struct gateway_auth_pair pairs[GATEWAY_AUTH_PAIRS];
    size_t count;
};

/** Read "access:secret" lines; blank lines and lines that start with '#' are passed over. */
KVT_NODISCARD enum kvt_err gateway_auth_load(struct gateway_auth *auth, const char *text,
                                             struct kvt_error *err);

/** NONE, or what is wrong with the request's signature. */
enum gateway_fault gateway_auth_check(const struct gateway_auth *auth,
                                      const struct gateway_request *request, uint64_t now_ms);

/** Once the body is there: does it fit x-amz-content-sha256 (and Content-MD5, when given)? */
enum gateway_fault gateway_auth_check_body(const struct gateway_request *request);

#endif /* GATEWAY_AUTH_H */
