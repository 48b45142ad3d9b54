/*
 * gateway/admin/admin_adoption.h -- the admin port's view of taking up what the bucket has.
 *
 * Why: a walk over millions of objects goes on in the gateway; people start it, look at it and stop
 * it from outside (kvtier g4 adopt).
 * Ownership: borrows the gateway_admin that the routes are called with.
 * Threads:   HTTP threads, several at once.
 * Limits:    none of its own.
 */
#ifndef GATEWAY_ADMIN_ADMIN_ADOPTION_H
#define GATEWAY_ADMIN_ADMIN_ADOPTION_H

#include <stddef.h>

#include "base/http/http.h"

struct gateway_admin;

/** Append the object that says how far the walk is, and whether the cap of the bucket holds. */
void gateway_admin_adoption_append(const struct gateway_admin *admin, struct kvt_buffer *out);

/** One line for people while the bucket has objects that are not counted; false: it has none. */
bool gateway_admin_adoption_reason(const struct gateway_admin *admin, char *text, size_t size);

/** GET /v1/adoption. */
void gateway_admin_adoption_get(void *arg, const struct kvt_http_request *request,
                                struct kvt_http_response *response);

/** POST /v1/adoption {action: "start"|"stop", rate} (token). */
void gateway_admin_adoption_post(void *arg, const struct kvt_http_request *request,
                                 struct kvt_http_response *response);

#endif /* GATEWAY_ADMIN_ADMIN_ADOPTION_H */
