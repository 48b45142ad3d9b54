/*
 * cli/workload/simulate_policy.h -- `kvtier policy simulate --policy`: what a policy would do to a
 * workload.
 *
 * Why: what several tiers serve, move and cost together no table of one tier's sizes says.
 * Ownership: none; the caller keeps what it lends.
 * Threads:   the main thread.
 * Limits:    policy/simulate/policy_simulation.h.
 */
#ifndef CLI_WORKLOAD_SIMULATE_POLICY_H
#define CLI_WORKLOAD_SIMULATE_POLICY_H

#include "cli/frame/context.h"
#include "kvtier/ordering.h"

#include "policy/simulate/workload.h"

struct cli_simulate_policy {
    const struct policy_workload *workload;
    const struct kvt_ordering *ordering; /* NULL: the policy's */
    struct kvt_ordering_options ordering_options;
    uint64_t block_bytes;
    const char *path;     /* of the policy */
    const char *capacity; /* "ssd=200GiB,near=2TiB": in place of the policy's */
};

enum cli_exit cli_simulate_policy(const struct cli_context *context,
                                  const struct cli_simulate_policy *job);

#endif /* CLI_WORKLOAD_SIMULATE_POLICY_H */
