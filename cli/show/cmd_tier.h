/*
 * cli/show/cmd_tier.h -- kvtier tier ls.
 *
 * Why: every tier there is, of all gateways, in one table: how full, what drains it, and whether
 * anybody still hears from it.
 * Ownership: borrows the context.
 * Threads:   the main thread.
 * Limits:    as the advisor's status.
 */
#ifndef CLI_SHOW_CMD_TIER_H
#define CLI_SHOW_CMD_TIER_H

#include <stdint.h>

#include "cli/frame/context.h"

struct json_object;

enum cli_exit cli_tier_ls(const struct cli_context *context);

/** Bytes that watermarks of a tier of the advisor's answer are shares of; 0: no cap. */
uint64_t cli_tier_limit(struct json_object *tier);

#endif /* CLI_SHOW_CMD_TIER_H */
