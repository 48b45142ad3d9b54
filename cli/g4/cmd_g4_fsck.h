/*
 * cli/g4/cmd_g4_fsck.h -- `kvtier g4 fsck`, `kvtier g4 gc`: what does not fit together, and what
 * is left.
 *
 * Why: catalog, bucket and hot volume drift apart when others touch bucket or disk.  Three sorted
 * listings are compared in one pass, and only keys that look wrong are asked about one by one, so
 * that what changes meanwhile is no finding.
 *
 * Threads:   the main thread.
 * Limits:    four pages of listings in memory.
 */
#ifndef CLI_G4_CMD_G4_FSCK_H
#define CLI_G4_CMD_G4_FSCK_H

#include "cli/frame/context.h"

enum cli_exit cli_g4_fsck(const struct cli_context *context);
enum cli_exit cli_g4_gc(const struct cli_context *context);

#endif /* CLI_G4_CMD_G4_FSCK_H */
