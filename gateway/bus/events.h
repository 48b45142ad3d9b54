/*
 * gateway/bus/events.h -- the gateway's events on the bus, and its answers about them.
 *
 * Why: what is stored where must reach the advisor exactly as it happened, over crashes of both:
 * the outbox of the catalog is published in order, with acknowledgements; range() is answered
 * from the outbox and dump() from the rows.
 *
 * Each namespace is a publisher of its own, because sequences have no holes and a batch has one
 * namespace: "gateway:<name>" for the first one seen, "gateway:<name>:<number>" for the others.
 *
 * Ownership: borrows context and bus.
 * Threads:   one of its own; NATS threads only copy questions into its queue.
 * Limits:    GATEWAY_QUESTIONS_MAX questions waiting, GATEWAY_CURSORS dumps under way: a cursor
 *            that fell out is answered KVT_NOTFOUND, and the asker starts again.
 */
#ifndef GATEWAY_BUS_EVENTS_H
#define GATEWAY_BUS_EVENTS_H

#include <stdint.h>

#include "gateway/tier/gateway_context.h"
#include "kvtier/error.h"
#include "wire/nats/bus.h"

#define GATEWAY_QUESTIONS_MAX 256
#define GATEWAY_CURSORS       64

struct gateway_events;

KVT_NODISCARD enum kvt_err gateway_events_start(struct gateway_events **out,
                                                struct gateway_context *context,
                                                struct wire_bus *bus, struct kvt_error *err);

/** Gives the outbox up to `drain_ms` to empty; the rest is published by the next life. */
void gateway_events_stop(struct gateway_events *events, uint64_t drain_ms);

#endif /* GATEWAY_BUS_EVENTS_H */
