/*
 * cli/help/cmd_manual.h -- manual pages in roff, from the command table.
 *
 * Why: the installed pages say what this build does.
 * Threads:   the main thread.
 */
#ifndef CLI_HELP_CMD_MANUAL_H
#define CLI_HELP_CMD_MANUAL_H

#include "cli/frame/context.h"

/** `kvtier manual [COMMAND...]`: kvtier(1), or kvtier-<command>(1). */
enum cli_exit cli_manual_run(const struct cli_context *context);

#endif /* CLI_HELP_CMD_MANUAL_H */
