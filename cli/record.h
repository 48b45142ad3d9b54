/*
 * cli/record.h -- `kvtier events record`.
 *
 * Why: what a cluster published is kept to be looked at, replayed and measured later.
 * Ownership: as cli/command.h.
 * Threads:   the main thread.
 * Limits:    none beyond those of the flags.
 */
#ifndef CLI_RECORD_H
#define CLI_RECORD_H

#include "cli/context.h"

enum cli_exit cli_record_run(const struct cli_context *context);

#endif /* CLI_RECORD_H */
