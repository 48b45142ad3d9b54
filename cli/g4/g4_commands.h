/*
 * cli/g4/g4_commands.h -- run functions of `kvtier g4`.
 *
 * Why: the command table needs one function of each command.
 * Threads:   the main thread.
 * Limits:    a listing takes one page of memory, the four listings of `fsck` and `gc` one each.
 */
#ifndef CLI_G4_G4_COMMANDS_H
#define CLI_G4_G4_COMMANDS_H

#include "cli/frame/context.h"

/* Objects as the gateway knows them, or as the bucket has them. */
enum cli_exit cli_g4_ls(const struct cli_context *context);
enum cli_exit cli_g4_stat(const struct cli_context *context);

/** Objects and bytes by namespace. */
enum cli_exit cli_g4_usage(const struct cli_context *context);

/** Reads objects and checks their bytes.  Through the gateway every copy is compared with the
 *  catalog, and a damaged one is quarantined.  In the bucket each object is compared with its own
 *  metadata, and nothing is changed. */
enum cli_exit cli_g4_verify(const struct cli_context *context);

/* One object to a file, or a file to an object. */
enum cli_exit cli_g4_get(const struct cli_context *context);
enum cli_exit cli_g4_put(const struct cli_context *context);

/* Catalog, bucket and hot volume drift apart when others touch bucket or disk.  Sorted listings are
 * compared in one pass.  Only keys that look wrong are asked about one by one, so that a key that
 * changes during the pass is no finding. */
enum cli_exit cli_g4_fsck(const struct cli_context *context);
enum cli_exit cli_g4_gc(const struct cli_context *context);

/** Starts, shows and stops the gateway's walk through a bucket that is already full.  The walk goes
 *  on without this program. */
enum cli_exit cli_g4_adopt(const struct cli_context *context);

/** Asks the gateway to pack a namespace and shows the result, or shows a dry run. */
enum cli_exit cli_g4_compact(const struct cli_context *context);

/** Shows damaged copies that the gateway put aside; restores or drops them. */
enum cli_exit cli_g4_quarantine(const struct cli_context *context);

/** Shows lock objects and breaks those of a dead holder.  Asks the bucket itself, so it works
 *  without a gateway. */
enum cli_exit cli_locks_run(const struct cli_context *context);

#endif /* CLI_G4_G4_COMMANDS_H */
