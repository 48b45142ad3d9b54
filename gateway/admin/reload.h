/*
 * gateway/admin/reload.h -- what SIGHUP reads again: credentials, and certificate with its key.
 *
 * Why: keys change hands and certificates end while clients are served, and none of their requests
 * may be lost by it.  What runs ends with what it began with; a file that is wrong changes nothing,
 * and both the log and the status say so until it is right.
 *
 * Ownership: borrows all of its options.
 * Threads:   run from one thread; reasons from any, under a leaf lock.
 * Limits:    none of its own.
 */
#ifndef GATEWAY_ADMIN_RELOAD_H
#define GATEWAY_ADMIN_RELOAD_H

#include <stdbool.h>

#include "base/config/config.h"
#include "base/http/tls.h"
#include "gateway/http/auth.h"
#include "gateway/tier/stats.h"

enum gateway_reload_part { GATEWAY_RELOAD_CREDENTIALS, GATEWAY_RELOAD_CERTIFICATE };

#define GATEWAY_RELOAD_PARTS 2

struct gateway_reload;

struct gateway_reload_options {
    const struct kvt_config *config;
    struct gateway_auth *auth;
    struct kvt_tls *tls; /* NULL: the S3 port speaks plain HTTP, and goes on so */
    struct gateway_stats *stats;
};

/** After the first reading, which is the start's. */
KVT_NODISCARD enum kvt_err gateway_reload_new(struct gateway_reload **out,
                                              const struct gateway_reload_options *options);

/** NULL is allowed. */
void gateway_reload_free(struct gateway_reload *reload);

/** Read all of it again. */
void gateway_reload_run(struct gateway_reload *reload);

/** Is there something to say of it at `now_ms` (since 1970): the last reading failed, or the
 *  certificate is not valid?  `text` is "" when not. */
bool gateway_reload_reason(struct gateway_reload *reload, enum gateway_reload_part part,
                           uint64_t now_ms, char text[KVT_ERROR_TEXT_MAX]);

#endif /* GATEWAY_ADMIN_RELOAD_H */
