/*
 * cli/ops/cmd_dev.h -- `kvtier dev`: the whole system in one foreground command.
 *
 * Why: a first try must cost one command and leave nothing running.
 * Ownership: children are ours: they end before we do.
 * Threads:   the main thread.
 * Limits:    one run per state folder (a lock file holds it).
 */
#ifndef CLI_OPS_CMD_DEV_H
#define CLI_OPS_CMD_DEV_H

#include "cli/frame/context.h"

enum cli_exit cli_dev_run(const struct cli_context *context);

#endif /* CLI_OPS_CMD_DEV_H */
