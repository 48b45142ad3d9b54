/*
 * cli/policy/cmd_policy_plan_private.h -- a plan in memory, and how it is shown.
 *
 * Why: making a plan and applying one both show it, and are each a page of their own.
 * Ownership: as said at each call.
 * Threads:   the main thread.
 * Limits:    as cli/policy/cmd_policy_plan.h.
 */
#ifndef CLI_POLICY_CMD_POLICY_PLAN_PRIVATE_H
#define CLI_POLICY_CMD_POLICY_PLAN_PRIVATE_H

#include <json-c/json.h>
#include <stdint.h>

#include "cli/frame/context.h"
#include "kvtier/error.h"

/** The summary of a plan, for people. */
void cli_plan_print(FILE *out, struct json_object *plan);

/** Blocks of a verb ("delete"), counted in the moves themselves; NULL: of all. */
uint64_t cli_plan_blocks(struct json_object *plan, const char *verb);

/** KVT_INVALID: it is something else; says how to make one. */
enum kvt_err cli_plan_is_none(struct kvt_error *err);

/** Is it a plan, whole and as it was signed?  KVT_OK, KVT_INVALID, KVT_CORRUPT or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err cli_plan_verify(struct json_object *plan, struct kvt_error *err);

#endif /* CLI_POLICY_CMD_POLICY_PLAN_PRIVATE_H */
