/*
 * gateway/bus/bus_report.h -- telling the advisor how full the tiers are, what was read, and how
 * orders went.
 *
 * Why: a policy needs more than where things are; and an order counts as done only when its
 * result is on the bus, so results are published before the order is acknowledged.
 *
 * Ownership: borrows context, bus and keys; without a key reports are not signed.
 * Threads:   one of its own for the regular report; gateway_bus_report_result() from any other.
 * Limits:    as kvtier/report.h; accesses not delivered are dropped, the next interval has new
 *            ones.
 */
#ifndef GATEWAY_BUS_BUS_REPORT_H
#define GATEWAY_BUS_BUS_REPORT_H

#include <stdint.h>

#include "gateway/tier/gateway_context.h"
#include "kvtier/error.h"
#include "kvtier/order.h"
#include "wire/message/key_ring.h"
#include "wire/nats/bus.h"

struct gateway_bus_report;

KVT_NODISCARD enum kvt_err gateway_bus_report_start(struct gateway_bus_report **out,
                                                    struct gateway_context *context,
                                                    struct wire_bus *bus,
                                                    const struct wire_key_ring *keys,
                                                    uint64_t interval_ms, struct kvt_error *err);
void gateway_bus_report_stop(struct gateway_bus_report *report);

/** Publish one order's result and wait for the bus's word. */
KVT_NODISCARD enum kvt_err gateway_bus_report_result(struct gateway_bus_report *report,
                                                     const char *namespace_,
                                                     struct kvt_order_result *result);

#endif /* GATEWAY_BUS_BUS_REPORT_H */
