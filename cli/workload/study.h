/*
 * cli/workload/study.h -- several orderings at several sizes of a hot tier, on one workload.
 *
 * Why: a size and an ordering are chosen together, and against the best there could be.
 *
 * Ownership: the caller owns the struct; workload and orderings are borrowed.
 * Threads:   one owner.
 * Limits:    CLI_STUDY_ORDERINGS_MAX, CLI_STUDY_SIZES_MAX.
 */
#ifndef CLI_WORKLOAD_STUDY_H
#define CLI_WORKLOAD_STUDY_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#include "policy/simulate/tier_simulation.h"
#include "policy/simulate/workload.h"

enum { CLI_STUDY_ORDERINGS_MAX = 12, CLI_STUDY_SIZES_MAX = 32 };

/* What people pay, in any currency. */
struct cli_study_prices {
    double put_1000;
    double get_1000;
    double hot_gib_month;
    double cold_gib_month;
    double transfer_gib; /* out of the bucket */
};

struct cli_study_options {
    const struct policy_workload *workload;
    const struct kvt_ordering *orderings[CLI_STUDY_ORDERINGS_MAX];
    size_t ordering_count;
    uint64_t sizes[CLI_STUDY_SIZES_MAX]; /* in blocks, growing */
    size_t size_count;
    enum policy_promotion promotion;
    struct kvt_ordering_options ordering_options;
    uint64_t second_ticks;
    uint64_t block_bytes;
    struct cli_study_prices prices;
};

struct cli_study_cell {
    struct policy_tier_simulation_result result;
    double read_cost; /* of a read of a known block, moves included, in hot reads */
    double money;     /* for the time of the workload */
};

struct cli_study {
    struct cli_study_options options;
    uint64_t requests;
    uint64_t reads;
    uint64_t blocks;
    uint64_t span_ms;
    uint64_t endless_hits; /* of a tier that never lets go */
    uint64_t best_hits[CLI_STUDY_SIZES_MAX];
    double best_cost[CLI_STUDY_SIZES_MAX];
    struct cli_study_cell cells[CLI_STUDY_ORDERINGS_MAX][CLI_STUDY_SIZES_MAX];
    size_t pick_size;
    size_t pick_ordering;
};

/** Called before each run; `done` of `all` are over. */
typedef void cli_study_progress(void *arg, size_t done, size_t all);

/** KVT_OK, KVT_INVALID (nothing is read twice, or no size) or KVT_NOMEM, with a line in `err`. */
KVT_NODISCARD enum kvt_err cli_study_run(struct cli_study *study,
                                         const struct cli_study_options *options,
                                         cli_study_progress *progress, void *arg,
                                         struct kvt_error *err);

/** Hits in percent of all reads, and of the best at that size. */
double cli_study_hits(const struct cli_study *study, size_t ordering, size_t size);
double cli_study_of_best(const struct cli_study *study, size_t ordering, size_t size);

#endif /* CLI_WORKLOAD_STUDY_H */
