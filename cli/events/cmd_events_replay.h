/*
 * cli/events/cmd_events_replay.h -- `kvtier events replay`.
 *
 * Why: a recording is the same load again, as fast as wanted.
 * Ownership: as cli/frame/command.h.
 * Threads:   the main thread.
 * Limits:    none beyond those of the flags.
 */
#ifndef CLI_EVENTS_CMD_EVENTS_REPLAY_H
#define CLI_EVENTS_CMD_EVENTS_REPLAY_H

#include "cli/frame/context.h"

enum cli_exit cli_replay_run(const struct cli_context *context);

#endif /* CLI_EVENTS_CMD_EVENTS_REPLAY_H */
