/*
 * cli/cli_app.h -- from argv to a command and back to an exit status.
 *
 * Why: flags may stand before or behind the command and its arguments, global ones and the
 * command's own alike; a mistake is answered with the nearest right word and exit status 2.
 * Ownership: everything lives for the call.
 * Threads:   the main thread.
 * Limits:    as base/config/config.h.
 */
#ifndef CLI_CLI_APP_H
#define CLI_CLI_APP_H

#include "cli/frame/exit.h"

/** The whole program. */
enum cli_exit cli_app_run(int argc, const char *const *argv);

#endif /* CLI_CLI_APP_H */
