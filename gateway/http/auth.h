/*
 * gateway/http/auth.h -- who sent a request, and what may they do: AWS Signature Version 4.
 *
 * Why: every request is signed, whatever it asks for; nothing of its body is kept before its
 * header's signature was found good.
 * Ownership: holds the table of credentials in use; a request holds the one it was checked with.
 * Threads:   any; the table may be replaced at any time.
 * Limits:    those of gateway/http/client_credentials.h.
 */
#ifndef GATEWAY_HTTP_AUTH_H
#define GATEWAY_HTTP_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/http/client_bucket.h"
#include "gateway/http/client_credentials.h"
#include "gateway/http/request.h"
#include "kvtier/error.h"

#define GATEWAY_AUTH_SKEW_MS (15 * 60 * 1000)

struct gateway_auth;

/** Takes the table over, also on failure. */
KVT_NODISCARD enum kvt_err gateway_auth_new(struct gateway_auth **out,
                                            struct gateway_client_credentials *credentials,
                                            struct kvt_error *err);
/** NULL is allowed. */
void gateway_auth_free(struct gateway_auth *auth);

/** Requests that begin from here on are checked with this table, which is taken over. */
void gateway_auth_replace(struct gateway_auth *auth,
                          struct gateway_client_credentials *credentials);

/** NONE and request->principal, or what is wrong with the request's signature. */
enum gateway_s3_error gateway_auth_check(struct gateway_auth *auth, struct gateway_request *request,
                                         uint64_t now_ms);

/** May who signed it do what its method and target ask for, as far as that can be told without
 * asking the store: in the configured bucket.  The rest, keys in a body and x-amz-copy-source are
 * for the handler to judge. */
bool gateway_auth_permits(const struct gateway_request *request, const char *configured);

/**
 * May it?  Whose a bucket is may do all in it, others what a grant says.
 *
 * @param principal  NULL: nobody, who may nothing
 * @param bucket     NULL: the configured one
 * @param key        for LIST the prefix that is listed
 */
bool gateway_auth_may(const struct gateway_principal *principal, enum gateway_right right,
                      const struct gateway_client_bucket *bucket, const char *key);

/** May it know of the bucket: is it its own, or does any grant say something of it? */
bool gateway_auth_sees(const struct gateway_principal *principal,
                       const struct gateway_client_bucket *bucket);

/** Is it its own? */
bool gateway_auth_owns(const struct gateway_principal *principal,
                       const struct gateway_client_bucket *bucket);

#endif /* GATEWAY_HTTP_AUTH_H */
