/*
 * cli/show/show_commands.h -- run functions of the commands that show state.
 *
 * Why: the command table needs one function of each command.
 * Threads:   the main thread.
 */
#ifndef CLI_SHOW_SHOW_COMMANDS_H
#define CLI_SHOW_SHOW_COMMANDS_H

#include "cli/frame/context.h"

/** Advisor and gateway on one screen.  Shows the part of one when the other does not answer. */
enum cli_exit cli_status_run(const struct cli_context *context);

enum cli_exit cli_top_run(const struct cli_context *context);
enum cli_exit cli_tier_ls(const struct cli_context *context);
enum cli_exit cli_block_show(const struct cli_context *context);

/** The facts of a block, and every rule with the truth of each clause. */
enum cli_exit cli_block_explain(const struct cli_context *context);

enum cli_exit cli_orders_ls(const struct cli_context *context);
enum cli_exit cli_sources_ls(const struct cli_context *context);
enum cli_exit cli_sources_show(const struct cli_context *context);

/* A prefix is a block and everything that hangs on it. */
enum cli_exit cli_prefix_top(const struct cli_context *context);
enum cli_exit cli_prefix_tree(const struct cli_context *context);
enum cli_exit cli_prefix_pin(const struct cli_context *context);
enum cli_exit cli_prefix_unpin(const struct cli_context *context);
enum cli_exit cli_prefix_warm(const struct cli_context *context);
enum cli_exit cli_prefix_purge(const struct cli_context *context);

/** Shows what every worker would have cost for a request. */
enum cli_exit cli_route_ask(const struct cli_context *context);
enum cli_exit cli_route_workers(const struct cli_context *context);
enum cli_exit cli_route_requests(const struct cli_context *context);
enum cli_exit cli_route_free(const struct cli_context *context);

#endif /* CLI_SHOW_SHOW_COMMANDS_H */
