/*
 * policy/simulate/workload.h -- requests to run a tier on: who read which blocks, in order.
 *
 * Why: a simulator and a bound need the same requests several times, and only ever compare blocks
 * for being the same.  So a block's id becomes a number, counted up from 0 as ids first appear, and
 * a read costs four bytes, whatever it came from: a trace, a generator, recorded events.
 *
 * Ownership: a request's numbers belong to the workload and move when one is added.
 * Threads:   one that adds; many that read after that.
 * Limits:    POLICY_WORKLOAD_READS_MAX reads, KVT_ORDERING_BLOCKS_MAX blocks,
 *            POLICY_WORKLOAD_TENANTS_MAX namespaces.
 */
#ifndef POLICY_SIMULATE_WORKLOAD_H
#define POLICY_SIMULATE_WORKLOAD_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"

#define POLICY_WORKLOAD_READS_MAX   (UINT64_C(1) << 36)
#define POLICY_WORKLOAD_TENANTS_MAX 1024

struct policy_workload;

/* Whose requests: a namespace, and its first two parts. */
struct policy_workload_tenant {
    char namespace_[KVT_NAMESPACE_MAX];
    char tenant[KVT_NAMESPACE_MAX];
    char model[KVT_NAMESPACE_MAX];
};

struct policy_workload_request {
    const uint32_t *blocks; /* numbers, root first */
    uint32_t count;
    uint32_t tenant;
    uint64_t time_ms;
};

KVT_NODISCARD enum kvt_err policy_workload_new(struct policy_workload **out);

/** NULL is allowed. */
void policy_workload_free(struct policy_workload *workload);

/** Append a request; its ids root first.  KVT_OK, or KVT_NOMEM or KVT_FULL and nothing appended. */
KVT_NODISCARD enum kvt_err policy_workload_add(struct policy_workload *workload, uint64_t time_ms,
                                               const uint64_t *ids, uint32_t count);

/** The number of a namespace, made on first use; 0 is the empty one.  KVT_OK, KVT_NOMEM or
 *  KVT_FULL. */
KVT_NODISCARD enum kvt_err policy_workload_name(struct policy_workload *workload,
                                                const char *namespace_, uint32_t *tenant);

/** As policy_workload_add(), of a namespace: an id is another block in each. */
KVT_NODISCARD enum kvt_err policy_workload_add_of(struct policy_workload *workload, uint32_t tenant,
                                                  uint64_t time_ms, const uint64_t *ids,
                                                  uint32_t count);

/** Namespaces there are, and one of them. */
uint32_t policy_workload_tenants(const struct policy_workload *workload);
const struct policy_workload_tenant *policy_workload_tenant(const struct policy_workload *workload,
                                                            uint32_t number);

size_t policy_workload_requests(const struct policy_workload *workload);
struct policy_workload_request policy_workload_request(const struct policy_workload *workload,
                                                       size_t at);

/** Different blocks. */
uint32_t policy_workload_blocks(const struct policy_workload *workload);

/** Blocks read in all requests together. */
uint64_t policy_workload_reads(const struct policy_workload *workload);

#endif /* POLICY_SIMULATE_WORKLOAD_H */
