/*
 * cli/g4/cmd_g4_copy.h -- `kvtier g4 get`, `kvtier g4 put`: one object to a file, or a file to an
 * object.
 *
 * Why: a block must be looked at, or put back from a copy, with its checks and without another
 * program.
 * Threads:   the main thread.
 * Limits:    CLI_G4_COPY_MAX bytes, which are held in memory.
 */
#ifndef CLI_G4_CMD_G4_COPY_H
#define CLI_G4_CMD_G4_COPY_H

#include "cli/frame/context.h"

#define CLI_G4_COPY_MAX (UINT64_C(1) << 30)

enum cli_exit cli_g4_get(const struct cli_context *context);
enum cli_exit cli_g4_put(const struct cli_context *context);

#endif /* CLI_G4_CMD_G4_COPY_H */
