/*
 * cli/show/cmd_block_explain.h -- `kvtier block explain`: what the policy makes of a block, and
 * why.
 *
 * Why: who asks why a block moved, or did not, sees each rule with each clause.
 * Threads:   the main thread.
 */
#ifndef CLI_SHOW_CMD_BLOCK_EXPLAIN_H
#define CLI_SHOW_CMD_BLOCK_EXPLAIN_H

#include "cli/frame/context.h"

enum cli_exit cli_block_explain(const struct cli_context *context);

#endif /* CLI_SHOW_CMD_BLOCK_EXPLAIN_H */
