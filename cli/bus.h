/*
 * cli/bus.h -- a connection to NATS as the settings say.
 *
 * Why: events tail and doctor connect the same way and say the same when nobody is there.
 * Ownership: the bus belongs to the caller: wire_bus_close().
 * Threads:   the main thread.
 * Limits:    none.
 */
#ifndef CLI_BUS_H
#define CLI_BUS_H

#include "cli/context.h"
#include "wire/bus.h"

KVT_NODISCARD enum kvt_err cli_bus_open(const struct cli_context *context, struct wire_bus **bus,
                                        struct kvt_error *err);

#endif /* CLI_BUS_H */
