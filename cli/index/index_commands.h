/*
 * cli/index/index_commands.h -- run functions of `kvtier index`.
 *
 * Why: the command table needs one function of each command.
 * Threads:   the main thread.
 * Limits:    as advisor/archive/index_export.h and advisor/archive/index_import.h.
 */
#ifndef CLI_INDEX_INDEX_COMMANDS_H
#define CLI_INDEX_INDEX_COMMANDS_H

#include "cli/frame/context.h"

enum cli_exit cli_index_stats(const struct cli_context *context);
enum cli_exit cli_index_match(const struct cli_context *context);
enum cli_exit cli_index_dump(const struct cli_context *context);
enum cli_exit cli_index_copy_export(const struct cli_context *context);
enum cli_exit cli_index_copy_import(const struct cli_context *context);

/** Checks that the advisor's memory, its database and the tables of the database agree. */
enum cli_exit cli_index_verify(const struct cli_context *context);

#endif /* CLI_INDEX_INDEX_COMMANDS_H */
