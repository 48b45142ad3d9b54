/*
 * cli/help/cmd_help.h -- usage and help, from the command table.
 *
 * Why: help that a person asked for goes to the answer's stream; help because something is missing
 * goes to the error stream with exit status 2.
 * Threads:   the main thread.
 */
#ifndef CLI_HELP_CMD_HELP_H
#define CLI_HELP_CMD_HELP_H

#include <stdbool.h>
#include <stdio.h>

#include "base/config/config.h"
#include "cli/frame/context.h"

/** Help of the context's command, of all commands of `noun`, or of the program. */
enum cli_exit cli_help_print(const struct cli_context *context, const char *noun, bool asked);

#define CLI_HELP_FLAG_MAX 96

/** "--admin-port N": a flag and the word for its value (none for BOOL), as help and manual show. */
void cli_help_flag(const struct kvt_param *param, char name[CLI_HELP_FLAG_MAX],
                   char value[CLI_HELP_FLAG_MAX]);

#endif /* CLI_HELP_CMD_HELP_H */
