/*
 * cli/g4/cmd_g4_quarantine.h -- `kvtier g4 quarantine`: what the gateway found damaged, and why;
 * what is sound after all is put back, what is of no use dropped.
 *
 * Why: a block that is a miss because it was bad must be told from one that was never there.
 * Threads:   the main thread.
 * Limits:    --limit entries, of as many as the gateway keeps (quarantine.max).
 */
#ifndef CLI_G4_CMD_G4_QUARANTINE_H
#define CLI_G4_CMD_G4_QUARANTINE_H

#include "cli/frame/context.h"

enum cli_exit cli_g4_quarantine(const struct cli_context *context);

#endif /* CLI_G4_CMD_G4_QUARANTINE_H */
