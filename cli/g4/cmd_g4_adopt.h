/*
 * cli/g4/cmd_g4_adopt.h -- `kvtier g4 adopt`: the gateway takes up what others put into its bucket.
 *
 * Why: the walk is the gateway's and goes on without anybody watching; this starts it, shows how
 * far it is, and stops it.
 * Threads:   the main thread.
 * Limits:    none of its own.
 */
#ifndef CLI_G4_CMD_G4_ADOPT_H
#define CLI_G4_CMD_G4_ADOPT_H

#include "cli/frame/context.h"

enum cli_exit cli_g4_adopt(const struct cli_context *context);

#endif /* CLI_G4_CMD_G4_ADOPT_H */
