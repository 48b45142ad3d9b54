/*
 * cli/g4.h -- `kvtier g4 ...`: objects behind the gateway.
 *
 * Why: what is in the bucket must be visible and checkable without reading the bucket by hand.
 * Ownership: none.
 * Threads:   the main thread.
 * Limits:    none.
 */
#ifndef CLI_G4_H
#define CLI_G4_H

#include "cli/context.h"

enum cli_exit cli_g4_ls(const struct cli_context *context);
enum cli_exit cli_g4_stat(const struct cli_context *context);
enum cli_exit cli_g4_verify(const struct cli_context *context);

#endif /* CLI_G4_H */
