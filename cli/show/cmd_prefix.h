/*
 * cli/show/cmd_prefix.h -- kvtier prefix: which are hot, what hangs on one, and what to do with it.
 *
 * Why: people think in prompts, not in blocks: a block and everything behind it is one thing.
 * Ownership: borrows the context.
 * Threads:   the main thread.
 * Limits:    CLI_PREFIX_NODES_MAX blocks of a tree are asked for.
 */
#ifndef CLI_SHOW_CMD_PREFIX_H
#define CLI_SHOW_CMD_PREFIX_H

#include "cli/frame/context.h"

#define CLI_PREFIX_NODES_MAX 1000

enum cli_exit cli_prefix_top(const struct cli_context *context);
enum cli_exit cli_prefix_tree(const struct cli_context *context);
enum cli_exit cli_prefix_pin(const struct cli_context *context);
enum cli_exit cli_prefix_unpin(const struct cli_context *context);
enum cli_exit cli_prefix_warm(const struct cli_context *context);
enum cli_exit cli_prefix_purge(const struct cli_context *context);

#endif /* CLI_SHOW_CMD_PREFIX_H */
