/*
 * gateway/admin/admin.h -- the admin port's routes (docs/api.md, "Gateway admin").
 *
 * Why: people and the CLI see the same state the gateway acts on.
 * Ownership: borrows everything in the context.
 * Threads:   HTTP threads, several at once; everything asked is thread-safe.
 * Limits:    a listing shows at most GATEWAY_ADMIN_ROWS rows.
 */
#ifndef GATEWAY_ADMIN_ADMIN_H
#define GATEWAY_ADMIN_ADMIN_H

#include "base/http/http.h"
#include "gateway/admin/gateway_settings.h"
#include "gateway/admin/reload.h"
#include "gateway/bus/orders.h"
#include "gateway/care/adoption.h"
#include "gateway/tier/budget.h"
#include "gateway/tier/gateway_context.h"

#define GATEWAY_ADMIN_ROWS   1000
#define GATEWAY_ADMIN_ROUTES 13

struct gateway_admin {
    const struct gateway_settings *settings;
    struct gateway_context *context;
    struct gateway_budget *budget;
    struct wire_bus *bus;
    struct gateway_orders *orders; /* NULL: none are taken */
    struct gateway_backlog *backlog;
    struct gateway_adoption *adoption;
    struct gateway_reload *reload;
    uint64_t started_ms; /* monotonic */
};

extern const struct kvt_http_route gateway_admin_routes[GATEWAY_ADMIN_ROUTES];

/** For kvt_http_options.ready: `arg` is a gateway_admin.  One line a reason. */
bool gateway_admin_ready(void *arg, struct kvt_buffer *why);

#endif /* GATEWAY_ADMIN_ADMIN_H */
