/*
 * cli/ops/cmd_context.h -- kvtier context add, use, ls, rm.
 *
 * Why: see cli/frame/contexts.h.
 * Ownership: borrows the context.
 * Threads:   the main thread.
 * Limits:    as cli/frame/contexts.h.
 */
#ifndef CLI_OPS_CMD_CONTEXT_H
#define CLI_OPS_CMD_CONTEXT_H

#include "cli/frame/context.h"

enum cli_exit cli_context_command_add(const struct cli_context *context);
enum cli_exit cli_context_command_use(const struct cli_context *context);
enum cli_exit cli_context_command_ls(const struct cli_context *context);
enum cli_exit cli_context_command_rm(const struct cli_context *context);

#endif /* CLI_OPS_CMD_CONTEXT_H */
