/*
 * cli/show/cmd_status.h -- `kvtier status`: the whole system on one screen.
 *
 * Why: one question must tell whether anything needs a person; half an answer beats none.
 * Threads:   the main thread.
 */
#ifndef CLI_SHOW_CMD_STATUS_H
#define CLI_SHOW_CMD_STATUS_H

#include "cli/frame/context.h"

enum cli_exit cli_status_run(const struct cli_context *context);

#endif /* CLI_SHOW_CMD_STATUS_H */
