#include "cli/workload/study.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"

#include "policy/simulate/belady.h"

#define MONTH_MS (365.25 / 12 * 24 * 3600 * 1000)
#define GIB      1073741824.0

/* A size is enough when it serves this share of what an endless tier would. */
#define ENOUGH 0.9

static double
percent(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : 100 * (double)part / (double)whole;
}

double
cli_study_hits(const struct cli_study *study, size_t ordering, size_t size)
{
    return percent(study->cells[ordering][size].result.prefix_hits, study->reads);
}

double
cli_study_of_best(const struct cli_study *study, size_t ordering, size_t size)
{
    if (study->best_hits[size] == 0)
        return 100;
    return percent(study->cells[ordering][size].result.prefix_hits, study->best_hits[size]);
}

/* Requests and transfer happened; storage is for the time the workload took.  A promotion reads
 * once more: the read that caused it was answered already. */
static double
money(const struct cli_study *study, const struct policy_tier_simulation_result *result,
      uint64_t size)
{
    const struct cli_study_prices *prices = &study->options.prices;
    const double gets =
        (double)(result->known_reads - result->hot_reads) + (double)result->promotions;
    const double block_gib = (double)study->options.block_bytes / GIB;
    const double months = (double)study->span_ms / MONTH_MS;

    return (double)result->uploads / 1000 * prices->put_1000 + gets / 1000 * prices->get_1000 +
           gets * block_gib * prices->transfer_gib +
           months * block_gib *
               ((double)size * prices->hot_gib_month +
                (double)study->blocks * prices->cold_gib_month);
}

/* The smallest size that serves most of what any size could, under whatever ordering serves it at
 * the least cost a read; without one that does, the largest. */
static void
pick(struct cli_study *study)
{
    study->pick_size = study->options.size_count - 1;
    for (size_t size = study->options.size_count; size-- > 0;) {
        uint64_t most = 0;

        for (size_t i = 0; i < study->options.ordering_count; i++)
            if (study->cells[i][size].result.prefix_hits > most)
                most = study->cells[i][size].result.prefix_hits;
        if ((double)most >= ENOUGH * (double)study->endless_hits)
            study->pick_size = size;
    }
    study->pick_ordering = 0;
    for (size_t i = 1; i < study->options.ordering_count; i++)
        if (study->cells[i][study->pick_size].read_cost <
            study->cells[study->pick_ordering][study->pick_size].read_cost)
            study->pick_ordering = i;
}

static enum kvt_err
run_one(struct cli_study *study, size_t ordering, size_t size)
{
    const struct cli_study_options *options = &study->options;
    const struct policy_tier_simulation_options simulate = {
        .ordering = options->orderings[ordering],
        .ordering_options = options->ordering_options,
        .capacity = options->sizes[size],
        .promotion = options->promotion,
        .second_ticks = options->second_ticks,
    };
    struct cli_study_cell *cell = &study->cells[ordering][size];
    const enum kvt_err rc = policy_tier_simulation_run(options->workload, &simulate, &cell->result);

    if (rc != KVT_OK)
        return rc;
    cell->read_cost =
        policy_tier_simulation_cost(&cell->result, &options->ordering_options.prices) /
        (double)cell->result.known_reads / options->ordering_options.prices.hot_read;
    cell->money = money(study, &cell->result, options->sizes[size]);
    return KVT_OK;
}

static void
measure(struct cli_study *study)
{
    const struct policy_workload *workload = study->options.workload;

    study->requests = policy_workload_requests(workload);
    study->reads = policy_workload_reads(workload);
    study->blocks = policy_workload_blocks(workload);
    if (study->requests > 0)
        study->span_ms = policy_workload_request(workload, study->requests - 1).time_ms -
                         policy_workload_request(workload, 0).time_ms;
}

static enum kvt_err
bound(struct cli_study *study)
{
    const struct cli_study_options *options = &study->options;
    const struct kvt_ordering_prices *prices = &options->ordering_options.prices;
    struct policy_belady *best;

    if (policy_belady_new(&best, options->workload) != KVT_OK)
        return KVT_NOMEM;
    study->endless_hits = policy_belady_hits(best, study->blocks);
    for (size_t i = 0; i < options->size_count; i++) {
        study->best_hits[i] = policy_belady_hits(best, options->sizes[i]);
        study->best_cost[i] =
            policy_belady_cost(best, options->sizes[i], study->best_hits[i], prices) /
            (double)(study->reads - study->blocks) / prices->hot_read;
    }
    policy_belady_free(best);
    return KVT_OK;
}

enum kvt_err
cli_study_run(struct cli_study *study, const struct cli_study_options *options,
              cli_study_progress *progress, void *arg, struct kvt_error *err)
{
    const size_t all = options->ordering_count * options->size_count;

    assert(options->ordering_count <= CLI_STUDY_ORDERINGS_MAX);
    assert(options->size_count <= CLI_STUDY_SIZES_MAX);
    memset(study, 0, sizeof(*study));
    study->options = *options;
    measure(study);
    if (all == 0 || study->reads == study->blocks)
        return kvt_error_set(err, KVT_INVALID,
                             "no block is read twice in %llu requests: no tier would help",
                             (unsigned long long)study->requests);
    if (bound(study) != KVT_OK)
        return kvt_error_set(err, KVT_NOMEM, "out of memory");
    for (size_t i = 0; i < all; i++) {
        progress(arg, i, all);
        if (run_one(study, i / options->size_count, i % options->size_count) != KVT_OK)
            return kvt_error_set(err, KVT_NOMEM, "out of memory");
    }
    progress(arg, all, all);
    pick(study);
    return KVT_OK;
}
