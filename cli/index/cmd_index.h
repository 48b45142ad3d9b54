/*
 * cli/index/cmd_index.h -- `kvtier index ...`: the advisor's index from outside.
 *
 * Why: people and tests compare what the advisor believes with what is.
 * Threads:   the main thread.
 */
#ifndef CLI_INDEX_CMD_INDEX_H
#define CLI_INDEX_CMD_INDEX_H

#include "cli/frame/context.h"

enum cli_exit cli_index_stats(const struct cli_context *context);
enum cli_exit cli_index_match(const struct cli_context *context);
enum cli_exit cli_index_dump(const struct cli_context *context);

#endif /* CLI_INDEX_CMD_INDEX_H */
