/*
 * cli/tier.h -- kvtier tier ls.
 *
 * Why: every tier there is, of all gateways, in one table: how full, what drains it, and whether
 * anybody still hears from it.
 * Ownership: borrows the context.
 * Threads:   the main thread.
 * Limits:    as the advisor's status.
 */
#ifndef CLI_TIER_H
#define CLI_TIER_H

#include "cli/context.h"

enum cli_exit cli_tier_ls(const struct cli_context *context);

#endif /* CLI_TIER_H */
