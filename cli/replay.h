/*
 * cli/replay.h -- `kvtier events replay`.
 *
 * Why: a recording is the same load again, as fast as wanted.
 * Ownership: as cli/command.h.
 * Threads:   the main thread.
 * Limits:    none beyond those of the flags.
 */
#ifndef CLI_REPLAY_H
#define CLI_REPLAY_H

#include "cli/context.h"

enum cli_exit cli_replay_run(const struct cli_context *context);

#endif /* CLI_REPLAY_H */
