/*
 * gateway/admin/admin_purge.h -- purging a namespace on the admin port.
 *
 * Why: whoever purges walks in steps, and hears what was found in each place.
 * Ownership: borrows the context.
 * Threads:   as gateway/admin/admin.h.
 * Limits:    as gateway/care/purge.h.
 */
#ifndef GATEWAY_ADMIN_ADMIN_PURGE_H
#define GATEWAY_ADMIN_ADMIN_PURGE_H

#include "base/http/http.h"

/** POST /v1/purge {"namespace": "...", "act": false, "cursor": ""}: `arg` is a gateway_admin. */
void gateway_admin_purge(void *arg, const struct kvt_http_request *request,
                         struct kvt_http_response *response);

#endif /* GATEWAY_ADMIN_ADMIN_PURGE_H */
