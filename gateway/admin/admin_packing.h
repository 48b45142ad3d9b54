/*
 * gateway/admin/admin_packing.h -- packed namespaces on the admin port.
 *
 * Why: whether packing keeps up, and why it ran last, is seen where everything else is.
 * Ownership: borrows the context.
 * Threads:   as gateway/admin/admin.h.
 * Limits:    none of its own.
 */
#ifndef GATEWAY_ADMIN_ADMIN_PACKING_H
#define GATEWAY_ADMIN_ADMIN_PACKING_H

#include "base/core/buffer.h"
#include "base/http/http.h"
#include "gateway/tier/packer.h"

/** `"packing":[{...}, ...],` of /v1/status; an empty list where nothing is packed. */
void gateway_admin_packing_status(struct gateway_packer *packer, struct kvt_buffer *out);

/** POST /v1/compact {"namespace": "...", "dry_run": false}: `arg` is a gateway_admin. */
void gateway_admin_packing_ask(void *arg, const struct kvt_http_request *request,
                               struct kvt_http_response *response);

#endif /* GATEWAY_ADMIN_ADMIN_PACKING_H */
