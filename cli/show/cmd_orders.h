/*
 * cli/show/cmd_orders.h -- `kvtier orders ls`: what the advisor ordered.
 *
 * Why: every move has an order, and every order a result.
 * Threads:   the main thread.
 */
#ifndef CLI_SHOW_CMD_ORDERS_H
#define CLI_SHOW_CMD_ORDERS_H

#include "cli/frame/context.h"

enum cli_exit cli_orders_ls(const struct cli_context *context);

#endif /* CLI_SHOW_CMD_ORDERS_H */
