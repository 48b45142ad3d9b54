/*
 * cli/inject.h -- `kvtier events inject`.
 *
 * Why: a test, a repair or an experiment says what it wants the index to hold, without an engine.
 * Ownership: as cli/command.h.
 * Threads:   the main thread.
 * Limits:    none beyond those of the flags.
 */
#ifndef CLI_INJECT_H
#define CLI_INJECT_H

#include "cli/context.h"

enum cli_exit cli_inject_run(const struct cli_context *context);

#endif /* CLI_INJECT_H */
