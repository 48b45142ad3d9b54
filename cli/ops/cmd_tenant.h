/*
 * cli/ops/cmd_tenant.h -- kvtier tenant usage, tenant purge.
 *
 * Why: tenants pay, and tenants leave.  What is theirs is told by tier; and when it has to go, it
 * is proven place by place that nothing is left.
 * Ownership: borrows the context.
 * Threads:   the main thread.
 * Limits:    CLI_TENANTS_MAX rows of an answer.
 */
#ifndef CLI_OPS_CMD_TENANT_H
#define CLI_OPS_CMD_TENANT_H

#include <stdint.h>

#include "cli/frame/context.h"
#include "cli/output/store_tiers.h"

#define CLI_TENANTS_MAX    10000
#define CLI_TENANT_UNNAMED "-" /* the tenant of namespaces without a first part, for people */

/* Sums over the index. */
struct cli_tenant_sum {
    uint64_t blocks; /* in volumes and buckets of gateways, each once */
    uint64_t reads;
    uint64_t cold_reads;
    uint64_t worker_places; /* G1 to G3 */
    uint64_t worker_bytes;
    uint64_t places[CLI_STORE_TIER_COUNT];
    uint64_t bytes[CLI_STORE_TIER_COUNT];
};

/** What the index has of `namespace_` and all below it.  As cli_admin_walk(). */
KVT_NODISCARD enum kvt_err cli_tenant_sum(const struct cli_context *context, const char *namespace_,
                                          struct cli_tenant_sum *sum, struct kvt_error *err);

#endif /* CLI_OPS_CMD_TENANT_H */
