/*
 * cli/g4/cmd_g4_locks.h -- `kvtier g4 locks`: lock objects in a bucket.
 *
 * Why: a lock whose holder is gone must be seen, and one that nobody can wait for be broken, also
 * when no gateway runs: the bucket itself is asked.
 * Threads:   the main thread.
 * Limits:    one page of a listing in memory; --limit locks.
 */
#ifndef CLI_G4_CMD_G4_LOCKS_H
#define CLI_G4_CMD_G4_LOCKS_H

#include "cli/frame/context.h"

enum cli_exit cli_locks_run(const struct cli_context *context);

#endif /* CLI_G4_CMD_G4_LOCKS_H */
