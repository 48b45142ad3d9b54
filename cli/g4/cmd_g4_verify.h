/*
 * cli/g4/cmd_g4_verify.h -- `kvtier g4 verify`: read objects and check their bytes.
 *
 * Why: damage must be found before a reader finds it.  Through the gateway every copy is compared
 * with the catalog, and a bad one is taken out of sight; from the bucket each object is compared
 * with what travels beside it, and nothing is changed.
 *
 * Threads:   the main thread; bodies are read on the store's.
 * Limits:    CLI_G4_VERIFY_FLIGHT objects at once, CLI_G4_VERIFY_BYTES of them in memory; a larger
 *            object than that is counted as not checked.
 */
#ifndef CLI_G4_CMD_G4_VERIFY_H
#define CLI_G4_CMD_G4_VERIFY_H

#include "cli/frame/context.h"

#define CLI_G4_VERIFY_FLIGHT 8
#define CLI_G4_VERIFY_BYTES  (UINT64_C(256) << 20)

enum cli_exit cli_g4_verify(const struct cli_context *context);

#endif /* CLI_G4_CMD_G4_VERIFY_H */
