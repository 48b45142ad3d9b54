/*
 * cli/show/cmd_route.h -- `kvtier route`: which worker should take a request, and what runs where.
 *
 * Why: who wonders why a request went where it went sees what every worker would have cost.
 * Threads:   the main thread.
 * Limits:    CLI_ROUTE_TOKENS_MAX bytes of tokens.
 */
#ifndef CLI_SHOW_CMD_ROUTE_H
#define CLI_SHOW_CMD_ROUTE_H

#include "cli/frame/context.h"

#define CLI_ROUTE_TOKENS_MAX (16u << 20)

enum cli_exit cli_route_ask(const struct cli_context *context);
enum cli_exit cli_route_workers(const struct cli_context *context);
enum cli_exit cli_route_requests(const struct cli_context *context);
enum cli_exit cli_route_free(const struct cli_context *context);

#endif /* CLI_SHOW_CMD_ROUTE_H */
