/*
 * cli/remote/cli_bus.h -- a connection to NATS as the settings say.
 *
 * Why: events tail and doctor connect the same way and say the same when nobody is there.
 * Ownership: the bus belongs to the caller: wire_bus_close().
 * Threads:   the main thread.
 */
#ifndef CLI_REMOTE_CLI_BUS_H
#define CLI_REMOTE_CLI_BUS_H

#include "cli/frame/context.h"
#include "wire/nats/bus.h"

/** KVT_DENIED: the server refuses our credentials, or a file with them may not be read. */
KVT_NODISCARD enum kvt_err cli_bus_open(const struct cli_context *context, struct wire_bus **bus,
                                        struct kvt_error *err);

/** What to do when that failed with `code`: a literal. */
const char *cli_bus_fix(enum kvt_err code);

/** Report `err` of something on NATS; when nobody was there, also what to do next. */
enum cli_exit cli_bus_fail(const struct cli_context *context, const struct kvt_error *err);

#endif /* CLI_REMOTE_CLI_BUS_H */
