/*
 * cli/policy/cmd_policy_file.h -- `kvtier policy validate|show|diff|schema` of policy files.
 *
 * Why: a policy is written, checked and compared before any daemon hears of it.
 * Ownership: as said at each call.
 * Threads:   the main thread.
 * Limits:    those of policy/file/policy_file.h.
 */
#ifndef CLI_POLICY_CMD_POLICY_FILE_H
#define CLI_POLICY_CMD_POLICY_FILE_H

#include <stdbool.h>

#include "cli/frame/context.h"

#include "policy/file/policy_file.h"

/** Has the file a policy: section, as the advisor's settings have, and no key of a policy?  An
 *  empty section counts beside others: all of them are, in an example file.  All else is judged as
 *  a policy: a file cut short must not pass as settings that leave all out. */
bool cli_policy_file_is_settings(const char *path);

/** Read a policy, which belongs to the caller; what is wrong with it is told, and `out` NULL. */
enum cli_exit cli_policy_file_load(const struct cli_context *context, const char *path,
                                   struct policy **out);

enum cli_exit cli_policy_file_validate(const struct cli_context *context);
enum cli_exit cli_policy_file_show(const struct cli_context *context);

#endif /* CLI_POLICY_CMD_POLICY_FILE_H */
