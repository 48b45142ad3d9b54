/*
 * What orderings do to workloads, for bench/rows/policy.py.
 *
 *     bench_policy hits TRACE               size (percent), hits in percent of the bound, lru's
 *     bench_policy cost TRACE               size, cost a read by price, lru's, the bound's
 *     bench_policy guard TRACE SHAPE SEED   size, hits in percent of the bound, lru's
 *     bench_policy cpu TRACE                CPU nanoseconds a read, bytes a known block
 *     bench_policy shapes                   names of workloads
 *     bench_policy table TRACE SHAPE SEED   every ordering and promotion, for people
 *
 * A size is a share of a workload's different blocks.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text/parse.h"

#include "bench/policy/shapes.h"
#include "policy/ordering/ordering_table.h"
#include "policy/simulate/belady.h"
#include "policy/simulate/tier_simulation.h"

enum { SECOND_TICKS = 1000, IDLE_TICKS = 100, CPU_PERCENT = 10 };

static const struct kvt_ordering_prices prices = {.hot_read = 1, .cold_read = 10, .move = 1};

static const uint32_t few_sizes[] = {1, 5, 10, 20};
static const uint32_t all_sizes[] = {1, 2, 3, 4, 5, 7, 10, 13, 16, 20, 25, 30, 35, 40, 45, 50};

struct subject {
    struct policy_workload *workload;
    struct policy_belady *best;
    uint64_t known_reads;
};

static void
stop(const char *what)
{
    (void)fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

static struct subject
begin(const char *shape, const char *trace, uint64_t seed)
{
    struct subject subject = {.workload = shapes_make(shape, trace, seed)};

    subject.known_reads =
        policy_workload_reads(subject.workload) - policy_workload_blocks(subject.workload);
    if (subject.known_reads == 0)
        stop("nothing is read twice");
    if (policy_belady_new(&subject.best, subject.workload) != KVT_OK)
        stop("no memory");
    return subject;
}

static void
end(struct subject *subject)
{
    policy_belady_free(subject->best);
    policy_workload_free(subject->workload);
}

static uint64_t
blocks_of(const struct subject *subject, uint32_t percent)
{
    return (uint64_t)policy_workload_blocks(subject->workload) * percent / 100;
}

static struct policy_tier_simulation_result
run(const struct subject *subject, const struct kvt_ordering *ordering, uint32_t percent,
    enum policy_promotion promotion)
{
    const struct policy_tier_simulation_options options = {
        .ordering = ordering,
        .ordering_options = {.prices = prices, .idle_ticks = IDLE_TICKS},
        .capacity = blocks_of(subject, percent),
        .promotion = promotion,
        .second_ticks = SECOND_TICKS,
    };
    struct policy_tier_simulation_result result;

    if (policy_tier_simulation_run(subject->workload, &options, &result) != KVT_OK)
        stop("no memory");
    return result;
}

static double
share(const struct policy_tier_simulation_result *result, uint64_t bound)
{
    return bound == 0 ? 100 : 100 * (double)result->prefix_hits / (double)bound;
}

static void
print_hits(const struct subject *subject, const uint32_t *sizes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint64_t bound = policy_belady_hits(subject->best, blocks_of(subject, sizes[i]));
        const struct policy_tier_simulation_result ours =
            run(subject, policy_ordering_find(POLICY_ORDERING_DEFAULT), sizes[i],
                POLICY_PROMOTE_ALWAYS);
        const struct policy_tier_simulation_result lru =
            run(subject, policy_ordering_find("lru"), sizes[i], POLICY_PROMOTE_ALWAYS);

        (void)printf("point %" PRIu32 " %.4f %.4f\n", sizes[i], share(&ours, bound),
                     share(&lru, bound));
    }
}

static double
cost(const struct subject *subject, const struct policy_tier_simulation_result *result)
{
    return policy_tier_simulation_cost(result, &prices) / (double)subject->known_reads;
}

static void
print_cost(const struct subject *subject)
{
    for (size_t i = 0; i < sizeof(few_sizes) / sizeof(few_sizes[0]); i++) {
        const uint64_t capacity = blocks_of(subject, few_sizes[i]);
        const struct policy_tier_simulation_result ours =
            run(subject, policy_ordering_find(POLICY_ORDERING_DEFAULT), few_sizes[i],
                POLICY_PROMOTE_PRICE);
        const struct policy_tier_simulation_result lru =
            run(subject, policy_ordering_find("lru"), few_sizes[i], POLICY_PROMOTE_ALWAYS);
        const double bound =
            policy_belady_cost(subject->best, capacity, policy_belady_hits(subject->best, capacity),
                               &prices) /
            (double)subject->known_reads;

        (void)printf("point %" PRIu32 " %.4f %.4f %.4f\n", few_sizes[i], cost(subject, &ours),
                     cost(subject, &lru), bound);
    }
}

/* CPU time, so that what else runs disturbs little. */
static double
cpu_ns(void)
{
    struct timespec time;

    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) != 0)
        stop("no CPU clock");
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void
print_cpu(const struct subject *subject)
{
    const double before = cpu_ns();
    const struct policy_tier_simulation_result result = run(
        subject, policy_ordering_find(POLICY_ORDERING_DEFAULT), CPU_PERCENT, POLICY_PROMOTE_ALWAYS);
    const double after = cpu_ns();

    (void)printf("point %d %.4f %.4f\n", CPU_PERCENT, (after - before) / (double)result.reads,
                 (double)result.memory / result.blocks);
}

static void
print_table(const struct subject *subject)
{
    size_t count;
    const struct kvt_ordering *const *all = policy_ordering_all(&count);

    (void)printf("%-8s %-12s", "", "");
    for (size_t k = 0; k < sizeof(few_sizes) / sizeof(few_sizes[0]); k++)
        (void)printf("   %10" PRIu32 " %%", few_sizes[k]);
    for (size_t i = 0; i < count; i++) {
        for (int promotion = POLICY_PROMOTE_ALWAYS; promotion <= POLICY_PROMOTE_PRICE;
             promotion++) {
            (void)printf("\n%-8s %-12s", all[i]->name,
                         policy_promotion_text((enum policy_promotion)promotion));
            for (size_t k = 0; k < sizeof(few_sizes) / sizeof(few_sizes[0]); k++) {
                const struct policy_tier_simulation_result result =
                    run(subject, all[i], few_sizes[k], (enum policy_promotion)promotion);
                const uint64_t bound =
                    policy_belady_hits(subject->best, blocks_of(subject, few_sizes[k]));

                (void)printf("  %5.1f %6.2f", share(&result, bound), cost(subject, &result));
            }
        }
    }
    (void)printf("\n");
}

int
main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    const char *shape = argc > 3 ? argv[3] : "recorded";
    struct subject subject;
    uint64_t seed = 1;
    size_t count;

    if (strcmp(what, "shapes") == 0) {
        const struct shape *shapes = shapes_all(&count);

        for (size_t i = 0; i < count; i++)
            (void)printf("%s %d %s\n", shapes[i].name, shapes[i].traced, shapes[i].text);
        return 0;
    }
    if (argc < 3 || (argc > 4 && kvt_parse_u64(argv[4], &seed) != KVT_OK))
        stop("usage: bench_policy hits|cost|guard|cpu|table TRACE [SHAPE SEED]");
    subject = begin(shape, argv[2], seed);
    if (strcmp(what, "hits") == 0)
        print_hits(&subject, few_sizes, sizeof(few_sizes) / sizeof(few_sizes[0]));
    else if (strcmp(what, "guard") == 0)
        print_hits(&subject, all_sizes, sizeof(all_sizes) / sizeof(all_sizes[0]));
    else if (strcmp(what, "cost") == 0)
        print_cost(&subject);
    else if (strcmp(what, "cpu") == 0)
        print_cpu(&subject);
    else if (strcmp(what, "table") == 0)
        print_table(&subject);
    else
        stop("hits, cost, guard, cpu, table or shapes");
    end(&subject);
    return 0;
}
