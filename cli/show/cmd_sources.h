/*
 * cli/show/cmd_sources.h -- `kvtier sources`.
 *
 * Why: which event plane brings what, how far behind it is, and whom not to trust.
 * Ownership: as cli/frame/command.h.
 * Threads:   the main thread.
 * Limits:    none beyond those of the flags.
 */
#ifndef CLI_SHOW_CMD_SOURCES_H
#define CLI_SHOW_CMD_SOURCES_H

#include "cli/frame/context.h"

enum cli_exit cli_sources_ls(const struct cli_context *context);
enum cli_exit cli_sources_show(const struct cli_context *context);

#endif /* CLI_SHOW_CMD_SOURCES_H */
