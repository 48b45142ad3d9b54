/*
 * cli/ops/cmd_migrate.h -- `kvtier migrate`: how far jobs of moves are, and the switch that stops
 * all.
 *
 * Why: whoever started to move or delete a million blocks wants to see how far it is, and to stop
 * it at once.
 * Threads:   the main thread.
 * Limits:    those of advisor/job/jobs.h.
 */
#ifndef CLI_OPS_CMD_MIGRATE_H
#define CLI_OPS_CMD_MIGRATE_H

#include <stdint.h>

#include "cli/frame/context.h"
#include "cli/frame/exit.h"

/** Wait for the end of a job, with its progress on the error stream where that is a terminal, and
 *  tell it.  CLI_EXIT_DONE, CLI_EXIT_PARTIAL (some of it failed), CLI_EXIT_PRECONDITION (it is
 *  paused or cancelled), or why it cannot be seen. */
enum cli_exit cli_migrate_follow(const struct cli_context *context, uint64_t job);

#endif /* CLI_OPS_CMD_MIGRATE_H */
