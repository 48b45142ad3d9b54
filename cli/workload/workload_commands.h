/*
 * cli/workload/workload_commands.h -- run functions of `kvtier workload` and `policy simulate`.
 *
 * Why: the command table needs one function of each command.
 * Threads:   the main thread.
 * Limits:    `stats` keeps 32 bytes for each different block; `simulate` as cli/workload/study.h.
 */
#ifndef CLI_WORKLOAD_WORKLOAD_COMMANDS_H
#define CLI_WORKLOAD_WORKLOAD_COMMANDS_H

#include "cli/frame/context.h"

enum cli_exit cli_workload_generate(const struct cli_context *context);
enum cli_exit cli_workload_stats(const struct cli_context *context);
enum cli_exit cli_policy_simulate(const struct cli_context *context);

#endif /* CLI_WORKLOAD_WORKLOAD_COMMANDS_H */
