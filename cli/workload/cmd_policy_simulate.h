/*
 * cli/workload/cmd_policy_simulate.h -- `kvtier policy simulate`: what a hot tier would do, before
 * there is one.
 *
 * Why: orderings and sizes are chosen by what they would have done to one's own traffic, not by
 * their names.
 * Threads:   the main thread.
 * Limits:    cli/workload/study.h.
 */
#ifndef CLI_WORKLOAD_CMD_POLICY_SIMULATE_H
#define CLI_WORKLOAD_CMD_POLICY_SIMULATE_H

#include "cli/frame/context.h"

enum cli_exit cli_policy_simulate(const struct cli_context *context);

#endif /* CLI_WORKLOAD_CMD_POLICY_SIMULATE_H */
