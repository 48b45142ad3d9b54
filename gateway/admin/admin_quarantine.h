/*
 * gateway/admin/admin_quarantine.h -- the admin port's view of what was found damaged.
 *
 * Why: evidence is looked at, put back where it is sound after all, and dropped, from outside
 * (kvtier g4 quarantine).
 * Ownership: borrows the gateway_admin that the routes are called with.
 * Threads:   HTTP threads, several at once.
 * Limits:    GATEWAY_QUARANTINE_ENTRIES_MAX entries in an answer.
 */
#ifndef GATEWAY_ADMIN_ADMIN_QUARANTINE_H
#define GATEWAY_ADMIN_ADMIN_QUARANTINE_H

#include "base/http/http.h"

/** GET /v1/quarantine?limit=N. */
void gateway_admin_quarantine_list(void *arg, const struct kvt_http_request *request,
                                   struct kvt_http_response *response);

/** POST /v1/quarantine {action: "restore"|"drop", id, dry_run} (token). */
void gateway_admin_quarantine_act(void *arg, const struct kvt_http_request *request,
                                  struct kvt_http_response *response);

#endif /* GATEWAY_ADMIN_ADMIN_QUARANTINE_H */
