/*
 * cli/policy/cmd_policy_versions.h -- `kvtier policy install|history|rollback`, and the one in
 * force.
 *
 * Why: a policy is put in force, and taken back, without a restart and without losing the others.
 * Threads:   the main thread.
 * Limits:    those of advisor/rule/rulebook.h.
 */
#ifndef CLI_POLICY_CMD_POLICY_VERSIONS_H
#define CLI_POLICY_CMD_POLICY_VERSIONS_H

#include <json-c/json.h>
#include <stdio.h>

#include "cli/frame/context.h"

/** An answer of /v1/policy, for people or programs. */
void cli_policy_print(const struct cli_context *context, struct json_object *policy);

/** " (43% of 2000 blocks read)", of an object that says how far another order is; nothing where
 *  none is made. */
void cli_policy_print_ranked(FILE *out, struct json_object *object);

#endif /* CLI_POLICY_CMD_POLICY_VERSIONS_H */
