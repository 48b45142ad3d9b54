/*
 * cli/context_command.h -- kvtier context add, use, ls, rm.
 *
 * Why: see cli/contexts.h.
 * Ownership: borrows the context.
 * Threads:   the main thread.
 * Limits:    as cli/contexts.h.
 */
#ifndef CLI_CONTEXT_COMMAND_H
#define CLI_CONTEXT_COMMAND_H

#include "cli/context.h"

enum cli_exit cli_context_command_add(const struct cli_context *context);
enum cli_exit cli_context_command_use(const struct cli_context *context);
enum cli_exit cli_context_command_ls(const struct cli_context *context);
enum cli_exit cli_context_command_rm(const struct cli_context *context);

#endif /* CLI_CONTEXT_COMMAND_H */
