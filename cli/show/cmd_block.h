/*
 * cli/show/cmd_block.h -- `kvtier block show`: one block, explained.
 *
 * Why: "why is it there?" must have an answer for every single block.
 * Threads:   the main thread.
 */
#ifndef CLI_SHOW_CMD_BLOCK_H
#define CLI_SHOW_CMD_BLOCK_H

#include "cli/frame/context.h"

enum cli_exit cli_block_show(const struct cli_context *context);

#endif /* CLI_SHOW_CMD_BLOCK_H */
