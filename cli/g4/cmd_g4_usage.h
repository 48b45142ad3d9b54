/*
 * cli/g4/cmd_g4_usage.h -- `kvtier g4 usage`: objects and bytes by namespace.
 *
 * Why: who fills the bucket, and with what, is the first question when a cap is near.
 * Threads:   the main thread.
 * Limits:    CLI_G4_USAGE_ROWS rows; what is beyond is one row called "(others)".
 */
#ifndef CLI_G4_CMD_G4_USAGE_H
#define CLI_G4_CMD_G4_USAGE_H

#include "cli/frame/context.h"

#define CLI_G4_USAGE_ROWS 1024

enum cli_exit cli_g4_usage(const struct cli_context *context);

#endif /* CLI_G4_CMD_G4_USAGE_H */
