/*
 * gateway/bus/orders.h -- doing what the advisor orders.
 *
 * Why: whoever can publish on the bus must not be able to move or delete blocks, a late order
 * must not undo a newer one, and an order may come twice.  So each is checked (signature,
 * address, time, epoch), executed, its result kept, reported, and only then acknowledged; one that
 * comes again is answered with the result kept, because a second deletion could meet a newer block.
 *
 * Ownership: borrows context, bus and reporter.
 * Threads:   one of its own, and the mover's.
 * Limits:    one order at a time, of KVT_ORDER_ITEMS_MAX blocks, as fast as gateway/move/mover.h
 *            lets it; GATEWAY_ORDERS_FETCH waiting here.
 */
#ifndef GATEWAY_BUS_ORDERS_H
#define GATEWAY_BUS_ORDERS_H

#include <stddef.h>
#include <stdint.h>

#include "gateway/bus/bus_report.h"
#include "gateway/move/mover.h"
#include "gateway/tier/gateway_context.h"
#include "kvtier/error.h"
#include "kvtier/order.h"
#include "wire/message/key_ring.h"
#include "wire/nats/bus.h"

#define GATEWAY_ORDERS_FETCH 16

struct gateway_orders;

struct gateway_orders_options {
    struct wire_key_ring keys;
    struct gateway_mover_options mover;
};

KVT_NODISCARD enum kvt_err
gateway_orders_start(struct gateway_orders **out, struct gateway_context *context,
                     struct wire_bus *bus, struct gateway_bus_report *report,
                     const struct gateway_orders_options *options, struct kvt_error *err);
void gateway_orders_stop(struct gateway_orders *orders);

/** Orders fetched and not yet done. */
size_t gateway_orders_queued(const struct gateway_orders *orders);

/**
 * May this order be executed?  Raises the highest epoch seen, durably.
 *
 * @return KVT_OK; KVT_INVALID (not a verb, or a holder that is none here), KVT_DENIED (other
 *         gateway, older epoch), KVT_TIMEOUT
 *         (expired, or its pin ended): never to be executed; KVT_IO, KVT_FULL ...: the epoch could
 *         not be kept
 */
KVT_NODISCARD enum kvt_err gateway_orders_accept(struct gateway_context *context,
                                                 const struct kvt_order *order, uint64_t now_ms,
                                                 struct kvt_error *err);

/** Was it finished already (one of the last GATEWAY_CATALOG_ORDERS)?  Then with this result. */
bool gateway_orders_recall(struct gateway_context *context, const struct kvt_order *order,
                           struct kvt_order_result *result);

/**
 * Execute an accepted order.
 *
 * @param mover    NULL: block after block, in this thread
 * @param working  called now and then in this thread; may be NULL
 * @return false: left half done because the context is stopping; it is to be executed again
 */
bool gateway_orders_execute(struct gateway_context *context, struct gateway_mover *mover,
                            const struct kvt_order *order, struct kvt_order_result *result,
                            void (*working)(void *arg), void *arg);

#endif /* GATEWAY_BUS_ORDERS_H */
