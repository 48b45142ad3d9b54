/*
 * cli/events/cmd_events_record.h -- `kvtier events record`.
 *
 * Why: what a cluster published is kept to be looked at, replayed and measured later.
 * Ownership: as cli/frame/command.h.
 * Threads:   the main thread.
 * Limits:    none beyond those of the flags.
 */
#ifndef CLI_EVENTS_CMD_EVENTS_RECORD_H
#define CLI_EVENTS_CMD_EVENTS_RECORD_H

#include "cli/frame/context.h"

enum cli_exit cli_record_run(const struct cli_context *context);

#endif /* CLI_EVENTS_CMD_EVENTS_RECORD_H */
