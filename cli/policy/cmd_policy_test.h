/*
 * cli/policy/cmd_policy_test.h -- `kvtier policy test`: a policy's own tests.
 *
 * Why: who changes a rule sees at once which blocks it takes from another.
 * Threads:   the main thread.
 * Limits:    those of policy/file/policy_file.h.
 */
#ifndef CLI_POLICY_CMD_POLICY_TEST_H
#define CLI_POLICY_CMD_POLICY_TEST_H

#include "cli/frame/context.h"

enum cli_exit cli_policy_test(const struct cli_context *context);

#endif /* CLI_POLICY_CMD_POLICY_TEST_H */
