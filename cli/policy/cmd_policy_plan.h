/*
 * cli/policy/cmd_policy_plan.h -- `kvtier policy plan` and `kvtier policy apply`.
 *
 * Why: what a policy would do is looked at before it does it, and then exactly that is done.
 * Threads:   the main thread.
 * Limits:    CLI_PLAN_SIZE_MAX bytes of a plan; those of advisor/plan/plan_document.h.
 */
#ifndef CLI_POLICY_CMD_POLICY_PLAN_H
#define CLI_POLICY_CMD_POLICY_PLAN_H

#include "cli/frame/context.h"
#include "cli/frame/exit.h"

#define CLI_PLAN_SIZE_MAX (64u << 20)

enum cli_exit cli_plan_make(const struct cli_context *context);

/** It can be killed at any instant and run again: what was given already is not given once more. */
enum cli_exit cli_plan_apply(const struct cli_context *context);

#endif /* CLI_POLICY_CMD_POLICY_PLAN_H */
