/*
 * cli/index/cmd_index_verify.h -- `kvtier index verify`.
 *
 * Why: that memory, database and the database's own tables say the same is a promise; here anybody
 * can look.
 * Ownership: as cli/frame/command.h.
 * Threads:   the main thread.
 * Limits:    problems beyond CLI_INDEX_VERIFY_SHOWN are counted and not shown.
 */
#ifndef CLI_INDEX_CMD_INDEX_VERIFY_H
#define CLI_INDEX_CMD_INDEX_VERIFY_H

#include "cli/frame/context.h"

#define CLI_INDEX_VERIFY_SHOWN 100

enum cli_exit cli_index_verify(const struct cli_context *context);

#endif /* CLI_INDEX_CMD_INDEX_VERIFY_H */
