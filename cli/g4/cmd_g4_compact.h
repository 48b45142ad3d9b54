/*
 * cli/g4/cmd_g4_compact.h -- `kvtier g4 compact`: a namespace is packed, or it is said what that
 * would do.
 *
 * Why: packing is the gateway's and goes on without anybody watching; this asks for it and shows
 * what became of it.
 * Threads:   the main thread.
 * Limits:    none of its own.
 */
#ifndef CLI_G4_CMD_G4_COMPACT_H
#define CLI_G4_CMD_G4_COMPACT_H

#include "cli/frame/context.h"

enum cli_exit cli_g4_compact(const struct cli_context *context);

#endif /* CLI_G4_CMD_G4_COMPACT_H */
