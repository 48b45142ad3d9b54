/*
 * gateway/admin/admin_internal.h -- the handlers of the admin port, by topic.
 *
 * Why: only the table of routes in admin.c calls them.
 *
 * Each handler has the arguments of a route; its `arg` is a gateway_admin.
 */
#ifndef GATEWAY_ADMIN_ADMIN_INTERNAL_H
#define GATEWAY_ADMIN_ADMIN_INTERNAL_H

#include "gateway/admin/admin.h"
#include "gateway/tier/packer.h"

/** The query's "limit", at most `max`; `fallback` where it has none. */
size_t gateway_admin_limit(const struct kvt_http_request *request, size_t fallback, size_t max);

/* ---- adoption of objects that the bucket has (kvtier g4 adopt) ---- */

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

/* ---- packed namespaces ---- */

/** `"packing":[{...}, ...],` of /v1/status; an empty list where nothing is packed. */
void gateway_admin_packing_status(struct gateway_packer *packer, struct kvt_buffer *out);

/** POST /v1/compact {"namespace": "...", "dry_run": false}. */
void gateway_admin_packing_ask(void *arg, const struct kvt_http_request *request,
                               struct kvt_http_response *response);

/* ---- purge of a namespace (limits: gateway/care/purge.h) ---- */

/** POST /v1/purge {"namespace": "...", "act": false, "cursor": ""}. */
void gateway_admin_purge(void *arg, const struct kvt_http_request *request,
                         struct kvt_http_response *response);

/* ---- damaged copies (kvtier g4 quarantine) ---- */

/** GET /v1/quarantine?limit=N; at most GATEWAY_QUARANTINE_ENTRIES_MAX. */
void gateway_admin_quarantine_list(void *arg, const struct kvt_http_request *request,
                                   struct kvt_http_response *response);

/** POST /v1/quarantine {action: "restore"|"drop", id, dry_run} (token). */
void gateway_admin_quarantine_act(void *arg, const struct kvt_http_request *request,
                                  struct kvt_http_response *response);

/* ---- what the stores really have (kvtier g4 fsck, gc) ---- */

/** GET /v1/store?tier=hot|cold&prefix=P&after=K&cursor=C: JSON lines, at most
 *  G4_LIST_KEYS_MAX, then {"next_cursor"}. */
void gateway_admin_store_list(void *arg, const struct kvt_http_request *request,
                              struct kvt_http_response *response);

/** GET /v1/inspect/KEY. */
void gateway_admin_store_inspect(void *arg, const struct kvt_http_request *request,
                                 struct kvt_http_response *response);

/** POST /v1/repair {key, older_ms, alone} (token). */
void gateway_admin_store_repair(void *arg, const struct kvt_http_request *request,
                                struct kvt_http_response *response);

#endif /* GATEWAY_ADMIN_ADMIN_INTERNAL_H */
