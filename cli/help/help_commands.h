/*
 * cli/help/help_commands.h -- run functions of `kvtier help`, `version`, `completion`, `manual`.
 *
 * Why: the command table needs one function of each command.
 * Threads:   the main thread.
 */
#ifndef CLI_HELP_HELP_COMMANDS_H
#define CLI_HELP_HELP_COMMANDS_H

#include "cli/frame/context.h"

enum cli_exit cli_help_run(const struct cli_context *context);
enum cli_exit cli_help_version(const struct cli_context *context);

/** Prints the completion script of bash, zsh or fish. */
enum cli_exit cli_completion_run(const struct cli_context *context);

/** Prints kvtier(1), or kvtier-<command>(1), in roff. */
enum cli_exit cli_manual_run(const struct cli_context *context);

#endif /* CLI_HELP_HELP_COMMANDS_H */
