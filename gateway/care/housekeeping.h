/*
 * gateway/care/housekeeping.h -- the thread that keeps the gateway in order.
 *
 * Why: probing the bucket, settling what a crash left unfinished, sweeping hot orphans and
 * publishing gauges must go on whether or not requests come.
 * Ownership: borrows the context.
 * Threads:   one of its own.
 * Limits:    one bounded round a tick.
 */
#ifndef GATEWAY_CARE_HOUSEKEEPING_H
#define GATEWAY_CARE_HOUSEKEEPING_H

#include "gateway/tier/budget.h"
#include "gateway/tier/gateway_context.h"
#include "kvtier/error.h"
#include "wire/nats/bus.h"

struct gateway_housekeeping;

/** `bus` may be NULL. */
KVT_NODISCARD enum kvt_err gateway_housekeeping_start(struct gateway_housekeeping **out,
                                                      struct gateway_context *context,
                                                      struct gateway_budget *budget,
                                                      struct wire_bus *bus, struct kvt_error *err);
void gateway_housekeeping_stop(struct gateway_housekeeping *keeper);

#endif /* GATEWAY_CARE_HOUSEKEEPING_H */
