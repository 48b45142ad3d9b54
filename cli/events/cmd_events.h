/*
 * cli/events/cmd_events.h -- `kvtier events tail`: events as they pass.
 *
 * Why: the bus is the first place to look when the index surprises.
 * Threads:   NATS threads copy into a bounded queue; the main thread decodes and prints.
 * Limits:    EVENTS_QUEUED messages wait; more are dropped and counted on the error stream.
 */
#ifndef CLI_EVENTS_CMD_EVENTS_H
#define CLI_EVENTS_CMD_EVENTS_H

#include "cli/frame/context.h"

enum cli_exit cli_events_tail(const struct cli_context *context);

#endif /* CLI_EVENTS_CMD_EVENTS_H */
