/*
 * cli/index/cmd_index_copy.h -- `kvtier index export` and `index import`.
 *
 * Why: an index is moved to another machine, kept before an upgrade, or looked at with other tools.
 * Ownership: as cli/frame/command.h.
 * Threads:   the main thread.
 * Limits:    as advisor/archive/index_export.h and advisor/archive/index_import.h.
 */
#ifndef CLI_INDEX_CMD_INDEX_COPY_H
#define CLI_INDEX_CMD_INDEX_COPY_H

#include "cli/frame/context.h"

enum cli_exit cli_index_copy_export(const struct cli_context *context);
enum cli_exit cli_index_copy_import(const struct cli_context *context);

#endif /* CLI_INDEX_CMD_INDEX_COPY_H */
