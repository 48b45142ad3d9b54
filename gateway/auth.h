/*
 * gateway/auth.h -- who sent a request, and what may they do: AWS Signature Version 4.
 *
 * Why: every request is signed, whatever it asks for; nothing of its body is kept before its
 * header's signature was found good.
 * Ownership: holds the table of credentials in use; a request holds the one it was checked with.
 * Threads:   any; the table may be replaced at any time.
 * Limits:    those of gateway/credentials.h.
 */
#ifndef GATEWAY_AUTH_H
#define GATEWAY_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/credentials.h"
#include "gateway/request.h"
#include "kvtier/error.h"

#define GATEWAY_AUTH_SKEW_MS (15 * 60 * 1000)

struct gateway_auth;

/** Takes the table over, also on failure. */
KVT_NODISCARD enum kvt_err gateway_auth_new(struct gateway_auth **out,
                                            struct gateway_credentials *credentials,
                                            struct kvt_error *err);
/** NULL is allowed. */
void gateway_auth_free(struct gateway_auth *auth);

/** Requests that begin from here on are checked with this table, which is taken over. */
void gateway_auth_replace(struct gateway_auth *auth, struct gateway_credentials *credentials);

/** NONE and request->principal, or what is wrong with the request's signature. */
enum gateway_fault gateway_auth_check(struct gateway_auth *auth, struct gateway_request *request,
                                      uint64_t now_ms);

/** May who signed it do what its method and target ask for?  Keys in a body or in
 * x-amz-copy-source are for its handler to judge. */
bool gateway_auth_permits(const struct gateway_request *request);

/** May it?  For LIST, `key` is the prefix that is listed.  No principal (NULL) may nothing. */
bool gateway_auth_may(const struct gateway_principal *principal, enum gateway_right right,
                      const char *key);

#endif /* GATEWAY_AUTH_H */
