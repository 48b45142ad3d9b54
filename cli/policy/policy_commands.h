/*
 * cli/policy/policy_commands.h -- run functions of `kvtier policy`.
 *
 * Why: the command table needs one function of each command.
 * Threads:   the main thread.
 * Limits:    those of policy/file/policy_file.h, advisor/plan/plan_document.h and
 *            advisor/rule/rulebook.h.
 */
#ifndef CLI_POLICY_POLICY_COMMANDS_H
#define CLI_POLICY_POLICY_COMMANDS_H

#include "cli/frame/context.h"

enum cli_exit cli_policy_show(const struct cli_context *context);
enum cli_exit cli_policy_validate(const struct cli_context *context);
enum cli_exit cli_policy_mode(const struct cli_context *context);

/** Runs a policy's own tests. */
enum cli_exit cli_policy_test(const struct cli_context *context);

enum cli_exit cli_policy_file_diff(const struct cli_context *context);
enum cli_exit cli_policy_file_schema(const struct cli_context *context);
enum cli_exit cli_policy_install(const struct cli_context *context);
enum cli_exit cli_policy_history(const struct cli_context *context);
enum cli_exit cli_policy_rollback(const struct cli_context *context);
enum cli_exit cli_plan_make(const struct cli_context *context);

/** May be killed at any instant and run again: moves that were given are not given twice. */
enum cli_exit cli_plan_apply(const struct cli_context *context);

#endif /* CLI_POLICY_POLICY_COMMANDS_H */
