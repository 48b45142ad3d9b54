/*
 * cli/workload/recorded_workload.h -- requests out of a recording of events, to be simulated.
 *
 * Why: the traffic to judge a policy by is one's own, and what everybody can record of it are
 * events (`kvtier events record`).  They name blocks and not requests, so requests are put
 * together:
 *
 *   - What a worker stores in its nearest tier it computed or fetched for a request: blocks that
 *     follow each other, and all that come before them in their chain, are one.
 *   - What a gateway reports as read: each end of a chain among the blocks of a report, with all
 *     that comes before it, as often as it was read.  What is stored in G4 for the first time is
 *     written, which is a block's first use.
 *
 * Where gateways reported reads their requests are taken, for they are what reaches a hot volume;
 * else the workers'.
 *
 * Ownership: the workload is the caller's, policy_workload_free().
 * Threads:   none; one owner.
 * Limits:    CLI_RECORDED_WORKLOAD_CHAIN_MAX blocks of a request,
 *            CLI_RECORDED_WORKLOAD_REPEATS_MAX times of a block in a report; memory.
 */
#ifndef CLI_WORKLOAD_RECORDED_WORKLOAD_H
#define CLI_WORKLOAD_RECORDED_WORKLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "kvtier/error.h"

#include "policy/simulate/workload.h"

#define CLI_RECORDED_WORKLOAD_CHAIN_MAX   65536 /* of a longer chain the end */
#define CLI_RECORDED_WORKLOAD_REPEATS_MAX 64

struct cli_recorded_workload_counts {
    uint64_t messages;
    uint64_t bad;     /* that could not be read, or were damaged in the file */
    uint64_t reads;   /* of blocks, that gateways reported */
    bool of_gateways; /* whose requests they are */
};

/** Is this file a recording?  False also when it cannot be read. */
bool cli_recorded_workload_is(const char *path);

/** The requests in a recording.  KVT_OK, or what wire/message/recording.h says of the file,
 * KVT_NOMEM or
 *  KVT_FULL, with *out NULL. */
KVT_NODISCARD enum kvt_err cli_recorded_workload_read(struct policy_workload **out,
                                                      const char *path,
                                                      struct cli_recorded_workload_counts *counts,
                                                      struct kvt_error *err);

#endif /* CLI_WORKLOAD_RECORDED_WORKLOAD_H */
