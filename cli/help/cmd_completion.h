/*
 * cli/help/cmd_completion.h -- completion for bash, zsh and fish, from the command table.
 *
 * Why: a flag that exists completes, without anybody keeping three scripts.
 * Threads:   the main thread.
 */
#ifndef CLI_HELP_CMD_COMPLETION_H
#define CLI_HELP_CMD_COMPLETION_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/frame/context.h"

/** `kvtier completion bash|zsh|fish`. */
enum cli_exit cli_completion_run(const struct cli_context *context);

/** Write the script of `shell`; false when it is none of the three. */
bool cli_completion_print(FILE *out, const char *shell);

#endif /* CLI_HELP_CMD_COMPLETION_H */
