/*
 * gateway/gateway_app.h -- the gateway as one running thing.
 *
 * Why: who starts before whom, and who stops first, in one place.
 * Ownership: everything that runs.
 * Threads:   called from the main thread.
 * Limits:    none of its own.
 */
#ifndef GATEWAY_GATEWAY_APP_H
#define GATEWAY_GATEWAY_APP_H

#include "base/config/config.h"
#include "kvtier/error.h"

/** Start, wait for SIGTERM, drain, stop. */
KVT_NODISCARD enum kvt_err gateway_app_run(const struct kvt_config *config, struct kvt_error *err);

#endif /* GATEWAY_GATEWAY_APP_H */
