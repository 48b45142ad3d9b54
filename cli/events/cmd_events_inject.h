/*
 * cli/events/cmd_events_inject.h -- `kvtier events inject`.
 *
 * Why: a test, a repair or an experiment says what it wants the index to hold, without an engine.
 * Ownership: as cli/frame/command.h.
 * Threads:   the main thread.
 * Limits:    none beyond those of the flags.
 */
#ifndef CLI_EVENTS_CMD_EVENTS_INJECT_H
#define CLI_EVENTS_CMD_EVENTS_INJECT_H

#include "cli/frame/context.h"

enum cli_exit cli_inject_run(const struct cli_context *context);

#endif /* CLI_EVENTS_CMD_EVENTS_INJECT_H */
