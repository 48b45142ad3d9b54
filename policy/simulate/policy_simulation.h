/*
 * policy/simulate/policy_simulation.h -- a policy over all of its tiers, request by request.
 *
 * Why: policy/simulate/tier_simulation.h answers how large one tier should be; this answers what a
 * policy file would do: how many reads each of its tiers serves, what moves between which two,
 * what that costs and who has how much.  It asks what the advisor asks (a roster for each tier,
 * the same rules, the same watermarks), so that it foretells what the running system does.
 *
 * A request's reads find what is there when it comes.  Then its new blocks are stored: in the first
 * tier that is no worker's memory, or below it where that is full, and in the first bucket, for a
 * gateway writes through.  Then rules and quotas act until nothing is left to be moved: moves take
 * no time.  Time is the requests' own; rules that a limit keeps back go on in between, when it
 * allows.
 *
 * Rules that act: demote and expire with watermarks, promote on second_cold_hit, pin, exclude; and
 * demote, expire and promote that have neither trigger nor event, once a minute or as
 * schedule.every says, before which one with a trigger does not begin again.  Below a watermark
 * nothing leaves for being idle.  policy_simulation_leaves_out() tells which rules do not act:
 * those of other events, of times of the day, and compact.  limits.rate, limits.per_run,
 * modes.max_delete, modes.canary and trigger.prestage are kept as the advisor keeps them; nothing
 * fails, so suspend_if_errors is not.
 *
 * Ownership: policy_simulation_free() ends it; policy and ordering must live as long.
 * Threads:   one owner; several run side by side.
 * Limits:    POLICY_SIMULATION_TIERS_MAX tiers, POLICY_SIMULATION_TENANTS_MAX tenants; about 64
 *            bytes a block, and a roster a tier.
 */
#ifndef POLICY_SIMULATE_POLICY_SIMULATION_H
#define POLICY_SIMULATE_POLICY_SIMULATION_H

#include <stdbool.h>
#include <stdint.h>

#include "kvtier/error.h"
#include "kvtier/ordering.h"

#include "policy/file/policy_file.h"
#include "policy/simulate/workload.h"

#define POLICY_SIMULATION_TIERS_MAX   8
#define POLICY_SIMULATION_TENANTS_MAX POLICY_WORKLOAD_TENANTS_MAX

struct policy_simulation;

struct policy_simulation_options {
    const struct policy *policy;
    const struct policy_workload *workload; /* whose tenants the requests name */
    const struct kvt_ordering *ordering;    /* of every tier */
    struct kvt_ordering_options ordering_options;
    uint64_t capacity[POLICY_SIMULATION_TIERS_MAX]; /* bytes, by tier of the policy; 0: endless */
    uint64_t block_bytes;
    uint64_t tick_ms;      /* of the orderings */
    uint32_t cold_reads;   /* that are a second_cold_hit */
    uint64_t roster_bytes; /* memory of each tier's */
};

struct policy_simulation_tier {
    uint64_t reads;  /* that it served */
    uint64_t puts;   /* blocks that came to it and were not there */
    uint64_t gets;   /* blocks read from it, by requests and to be copied */
    uint64_t blocks; /* at the end */
    uint64_t most;   /* blocks, after a request's moves */
    double block_ms; /* blocks times how long it had them */
};

struct policy_simulation_edge {
    uint64_t blocks; /* that left the upper or lower end for the other */
    uint64_t copied; /* of them, those that the other end did not have */
};

struct policy_simulation_result {
    uint64_t requests;
    uint64_t reads;
    uint64_t known_reads; /* of blocks that some tier had */
    uint64_t lost_reads;  /* of blocks that had been there, and expired */
    uint64_t prefix_hits; /* reads up to the first block that is not in the tier of new blocks */
    uint64_t blocks;      /* different ones */
    uint64_t span_ms;     /* from the first request to the last */
    uint64_t expired;
    uint64_t refused;  /* promotions that a quota did not admit */
    uint64_t staged;   /* copies made ahead, by `prestage` */
    uint64_t observed; /* times that a rule had a block which modes.canary leaves alone */
    struct policy_simulation_tier tiers[POLICY_SIMULATION_TIERS_MAX];
    struct policy_simulation_edge edges[POLICY_SIMULATION_TIERS_MAX][POLICY_SIMULATION_TIERS_MAX];
    uint32_t tier_count;
    uint32_t entry; /* tier of new blocks */
};

/* Why a rule does not act. */
enum policy_simulation_stop {
    POLICY_SIMULATION_ACTS,
    POLICY_SIMULATION_RATE,       /* it moved what limits.rate allows */
    POLICY_SIMULATION_PER_RUN,    /* its run moved limits.per_run blocks */
    POLICY_SIMULATION_MAX_DELETE, /* its run deleted modes.max_delete blocks */
    POLICY_SIMULATION_STOPS,
};

struct policy_simulation_figures {
    uint64_t blocks;                             /* that it moved, deleted or copied */
    uint64_t dropped;                            /* promotions that a limit did not allow */
    uint64_t stops[POLICY_SIMULATION_STOPS];     /* runs that a limit ended */
    uint64_t waited_ms[POLICY_SIMULATION_STOPS]; /* with something to do */
};

/** KVT_OK, KVT_NOMEM, KVT_INVALID (the policy has no tier but workers' memory, or more than there
 *  may be), or what the ordering's init() says. */
KVT_NODISCARD enum kvt_err policy_simulation_new(struct policy_simulation **out,
                                                 const struct policy_simulation_options *options);

/** NULL is allowed. */
void policy_simulation_free(struct policy_simulation *simulation);

/** The next request, not before the former one.  KVT_OK, or KVT_NOMEM: it is of no more use. */
KVT_NODISCARD enum kvt_err policy_simulation_request(struct policy_simulation *simulation,
                                                     const struct policy_workload_request *request);

struct policy_simulation_result
policy_simulation_result(const struct policy_simulation *simulation);

/** Has the tier the block now? */
bool policy_simulation_has(const struct policy_simulation *simulation, uint32_t tier,
                           uint32_t block);

/** Bytes that a tenant has in a tier. */
uint64_t policy_simulation_used_by(const struct policy_simulation *simulation, uint32_t tenant,
                                   uint32_t tier);

/** What a rule of the policy did, and what kept it back. */
struct policy_simulation_figures
policy_simulation_figures(const struct policy_simulation *simulation, size_t rule);

/** Does a simulation leave this rule of the policy out? */
bool policy_simulation_leaves_out(const struct policy_rule *rule);

/** What the tiers' prices make of it, in their currency: requests, transfer, and storage for the
 *  time the workload took. */
double policy_simulation_money(const struct policy_simulation_result *result,
                               const struct policy_simulation_options *options, uint32_t tier);

/** Mean time of a read of a known block, by the tiers' latencies, in milliseconds. */
double policy_simulation_latency_ms(const struct policy_simulation_result *result,
                                    const struct policy *policy);

#endif /* POLICY_SIMULATE_POLICY_SIMULATION_H */
