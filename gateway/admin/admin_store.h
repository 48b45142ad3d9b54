/*
 * gateway/admin/admin_store.h -- the admin port's view of what bucket and hot volume really have.
 *
 * Why: whoever reconciles them with the catalog (kvtier g4 fsck, gc) needs listings that say what
 * is there, not what should be, and one judge of each key.
 * Ownership: borrows the gateway_admin that the routes are called with.
 * Threads:   HTTP threads, several at once.
 * Limits:    a page of G4_LIST_KEYS_MAX rows.
 */
#ifndef GATEWAY_ADMIN_ADMIN_STORE_H
#define GATEWAY_ADMIN_ADMIN_STORE_H

#include "base/http/http.h"

/** GET /v1/store?tier=hot|cold&prefix=P&after=K&cursor=C: JSON lines, then {"next_cursor"}. */
void gateway_admin_store_list(void *arg, const struct kvt_http_request *request,
                              struct kvt_http_response *response);

/** GET /v1/inspect/KEY. */
void gateway_admin_store_inspect(void *arg, const struct kvt_http_request *request,
                                 struct kvt_http_response *response);

/** POST /v1/repair {key, older_ms, alone} (token). */
void gateway_admin_store_repair(void *arg, const struct kvt_http_request *request,
                                struct kvt_http_response *response);

#endif /* GATEWAY_ADMIN_ADMIN_STORE_H */
