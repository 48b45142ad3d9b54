/*
 * cli/policy/cmd_policy.h -- `kvtier policy ...`: see, check and switch the policy.
 *
 * Why: a policy is checked before the advisor sees it, and switched without a restart.
 * Threads:   the main thread.
 */
#ifndef CLI_POLICY_CMD_POLICY_H
#define CLI_POLICY_CMD_POLICY_H

#include "cli/frame/context.h"

enum cli_exit cli_policy_show(const struct cli_context *context);
enum cli_exit cli_policy_validate(const struct cli_context *context);
enum cli_exit cli_policy_mode(const struct cli_context *context);

#endif /* CLI_POLICY_CMD_POLICY_H */
