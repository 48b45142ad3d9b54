/*
 * What is tested: policy/simulate/workload.h, policy/simulate/tier_simulation.h and
 * policy/simulate/belady.h. How: workloads short enough to count by hand; and for the bound, every
 * way to choose what to keep on random small trees.
 */
#include <math.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

#include "policy/ordering/ordering_table.h"
#include "policy/simulate/belady.h"
#include "policy/simulate/tier_simulation.h"
#include "tests/support/seed.h"

static const struct kvt_ordering_prices prices = {.hot_read = 1, .cold_read = 10, .move = 1};

static void
add(struct policy_workload *workload, const char *ids)
{
    uint64_t chain[16];
    uint32_t count = 0;

    for (; ids[count] != '\0'; count++)
        chain[count] = (uint64_t)ids[count];
    assert_int_equal(policy_workload_add(workload, 0, chain, count), KVT_OK);
}

static struct policy_workload *
make(const char *const *requests)
{
    struct policy_workload *workload;

    assert_int_equal(policy_workload_new(&workload), KVT_OK);
    for (; *requests != NULL; requests++)
        add(workload, *requests);
    return workload;
}

static struct policy_tier_simulation_result
run(const struct policy_workload *workload, const char *ordering, uint64_t capacity,
    enum policy_promotion promotion)
{
    const struct policy_tier_simulation_options options = {
        .ordering = policy_ordering_find(ordering),
        .ordering_options = {.prices = prices, .idle_ticks = 1},
        .capacity = capacity,
        .promotion = promotion,
        .second_ticks = 3,
    };
    struct policy_tier_simulation_result result;

    assert_int_equal(policy_tier_simulation_run(workload, &options, &result), KVT_OK);
    return result;
}

static void
ids_become_numbers(void **state)
{
    static const char *const requests[] = {"ab", "", "acb", NULL};
    struct policy_workload *workload = make(requests);
    struct policy_workload_request request;

    (void)state;
    assert_int_equal(policy_workload_requests(workload), 3);
    assert_int_equal(policy_workload_blocks(workload), 3);
    assert_int_equal(policy_workload_reads(workload), 5);
    assert_int_equal(policy_workload_request(workload, 1).count, 0);
    request = policy_workload_request(workload, 2);
    assert_int_equal(request.count, 3);
    assert_int_equal(request.blocks[0], 0);
    assert_int_equal(request.blocks[1], 2);
    assert_int_equal(request.blocks[2], 1);
    policy_workload_free(workload);
}

/* abc fills three places; abd needs one: c, used as long ago as b and a but first of them, goes. */
static void
reads_and_moves_are_counted(void **state)
{
    static const char *const requests[] = {"abc", "abd", "abc", NULL};
    struct policy_workload *workload = make(requests);
    const struct policy_tier_simulation_result lru = run(workload, "lru", 3, POLICY_PROMOTE_ALWAYS);
    const struct policy_tier_simulation_result never =
        run(workload, "lru", 3, POLICY_PROMOTE_NEVER);

    (void)state;
    assert_int_equal(lru.requests, 3);
    assert_int_equal(lru.reads, 9);
    assert_int_equal(lru.blocks, 4);
    assert_int_equal(lru.known_reads, 5);
    /* abd hits ab.  abc hits ab as well, then c takes the place of d. */
    assert_int_equal(lru.prefix_hits, 4);
    assert_int_equal(lru.hot_reads, 4);
    assert_int_equal(lru.promotions, 1);
    assert_int_equal(lru.demotions, 2);
    assert_int_equal(lru.uploads, 2); /* c and d, once each */
    assert_true(fabs(policy_tier_simulation_cost(&lru, &prices) - (4 * 1 + 1 * 10 + 3 * 1)) < 1e-9);
    assert_int_equal(never.promotions, 0);
    assert_int_equal(never.demotions, 1);
    policy_workload_free(workload);
}

static void
prefixes_end_at_the_first_gap(void **state)
{
    static const char *const requests[] = {"abc", "xyz", "abc", NULL};
    struct policy_workload *workload = make(requests);
    /* Two of six are thrown out; fifo, tail first, throws c and then b: a is a prefix of one. */
    const struct policy_tier_simulation_result fifo =
        run(workload, "fifo", 4, POLICY_PROMOTE_ALWAYS);

    (void)state;
    assert_int_equal(fifo.prefix_hits, 1);
    policy_workload_free(workload);
}

static void
second_reads_promote(void **state)
{
    static const char *const soon[] = {"a", "b", "a", "a", "a", NULL};
    static const char *const late[] = {"a", "b", "a", "c", "d", "e", "f", "a", NULL};
    struct policy_workload *workload = make(soon);
    struct policy_tier_simulation_result result = run(workload, "lru", 1, POLICY_PROMOTE_SECOND);

    (void)state;
    /* Cold, cold and up, hot. */
    assert_int_equal(result.promotions, 1);
    assert_int_equal(result.hot_reads, 1);
    policy_workload_free(workload);
    workload = make(late);
    result = run(workload, "lru", 1, POLICY_PROMOTE_SECOND);
    assert_int_equal(result.promotions, 0);
    policy_workload_free(workload);
}

static void
idle_blocks_leave_an_empty_tier(void **state)
{
    static const char *const requests[] = {"a", "b", "c", "a", NULL};
    struct policy_workload *workload = make(requests);
    const struct policy_tier_simulation_result idle =
        run(workload, "idle", 100, POLICY_PROMOTE_ALWAYS);

    (void)state;
    /* a is idle for two requests before c and gone; b before the last a. */
    assert_int_equal(idle.hot_reads, 0);
    assert_int_equal(idle.demotions, 2);
    policy_workload_free(workload);
}

static void
no_room_is_no_hits(void **state)
{
    static const char *const requests[] = {"ab", "ab", NULL};
    struct policy_workload *workload = make(requests);
    struct policy_belady *best;
    size_t count;
    const struct kvt_ordering *const *all = policy_ordering_all(&count);

    (void)state;
    for (size_t i = 0; i < count; i++) {
        const struct policy_tier_simulation_result result =
            run(workload, all[i]->name, 0, POLICY_PROMOTE_PRICE);

        assert_int_equal(result.prefix_hits + result.hot_reads + result.promotions, 0);
    }
    assert_int_equal(policy_belady_new(&best, workload), KVT_OK);
    assert_int_equal(policy_belady_hits(best, 0), 0);
    assert_int_equal(policy_belady_hits(best, 1), 1);
    assert_int_equal(policy_belady_hits(best, 2), 2);
    /* Reads: two; of one place one is cold; one block has to move down. */
    assert_true(fabs(policy_belady_cost(best, 1, 1, &prices) - (10 + 1 + 1)) < 1e-9);
    policy_belady_free(best);
    policy_workload_free(workload);
}

/* ---- the bound against every choice there is ---- */

enum { TREE = 6, REQUESTS = 8, SETS = 1 << TREE };

/* The most prefix hits that any way to keep at most `capacity` of TREE blocks can have. */
static uint64_t
search(const struct policy_workload *workload, uint64_t capacity)
{
    int64_t best[SETS];
    int64_t next[SETS];
    int64_t most = 0;

    for (uint32_t set = 0; set < SETS; set++)
        best[set] = set == 0 ? 0 : -1;
    for (size_t i = 0; i < policy_workload_requests(workload); i++) {
        const struct policy_workload_request request = policy_workload_request(workload, i);
        uint32_t chain = 0;

        for (uint32_t k = 0; k < request.count; k++)
            chain |= 1u << request.blocks[k];
        for (uint32_t set = 0; set < SETS; set++)
            next[set] = -1;
        for (uint32_t set = 0; set < SETS; set++) {
            uint32_t hits = 0;

            if (best[set] < 0)
                continue;
            while (hits < request.count && (set >> request.blocks[hits] & 1) != 0)
                hits++;
            /* Afterwards: any subset of what was there and what was read, if it fits. */
            for (uint32_t kept = set | chain;; kept = (kept - 1) & (set | chain)) {
                if ((uint64_t)__builtin_popcount(kept) <= capacity && best[set] + hits > next[kept])
                    next[kept] = best[set] + hits;
                if (kept == 0)
                    break;
            }
        }
        memcpy(best, next, sizeof(best));
    }
    for (uint32_t set = 0; set < SETS; set++)
        most = best[set] > most ? best[set] : most;
    return (uint64_t)most;
}

static void
nothing_beats_the_bound(void **state)
{
    uint64_t random = test_seed();

    (void)state;
    for (uint32_t round = 0; round < 300; round++) {
        uint64_t parents[TREE];
        struct policy_workload *workload;
        struct policy_belady *best;
        size_t count;
        const struct kvt_ordering *const *all = policy_ordering_all(&count);

        assert_int_equal(policy_workload_new(&workload), KVT_OK);
        for (uint64_t i = 0; i < TREE; i++)
            parents[i] = kvt_random_below(&random, i + 1); /* itself: a root */
        for (uint32_t i = 0; i < REQUESTS; i++) {
            uint64_t chain[TREE];
            uint32_t size = 0;
            uint64_t at = kvt_random_below(&random, TREE);

            for (;; at = parents[at]) {
                memmove(chain + 1, chain, size * sizeof(*chain));
                chain[0] = at;
                size++;
                if (parents[at] == at)
                    break;
            }
            assert_int_equal(policy_workload_add(workload, i, chain, size), KVT_OK);
        }
        assert_int_equal(policy_belady_new(&best, workload), KVT_OK);
        for (uint64_t capacity = 0; capacity <= 4; capacity++) {
            const uint64_t hits = policy_belady_hits(best, capacity);

            assert_int_equal(hits, search(workload, capacity));
            for (size_t i = 0; i < count; i++) {
                const struct policy_tier_simulation_result result =
                    run(workload, all[i]->name, capacity, POLICY_PROMOTE_ALWAYS);

                assert_true(result.prefix_hits <= hits);
                assert_true(policy_tier_simulation_cost(&result, &prices) + 1e-9 >=
                            policy_belady_cost(best, capacity, hits, &prices));
            }
        }
        policy_belady_free(best);
        policy_workload_free(workload);
    }
}

static bool
run_small(void *arg)
{
    const struct policy_tier_simulation_options options = {
        .ordering = policy_ordering_find("rhi"), .capacity = 1, .promotion = POLICY_PROMOTE_PRICE};
    const uint64_t ids[] = {1, 2};
    struct policy_workload *workload;
    struct policy_belady *best = NULL;
    struct policy_tier_simulation_result result;
    bool done = policy_workload_new(&workload) == KVT_OK;

    (void)arg;
    done = done && policy_workload_add(workload, 0, ids, 2) == KVT_OK;
    done = done && policy_belady_new(&best, workload) == KVT_OK;
    done = done && policy_tier_simulation_run(workload, &options, &result) == KVT_OK;
    policy_belady_free(best);
    policy_workload_free(workload);
    return done;
}

static void
every_failing_allocation_is_survived(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(run_small, NULL) > 5);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_become_numbers),
        cmocka_unit_test(reads_and_moves_are_counted),
        cmocka_unit_test(prefixes_end_at_the_first_gap),
        cmocka_unit_test(second_reads_promote),
        cmocka_unit_test(idle_blocks_leave_an_empty_tier),
        cmocka_unit_test(no_room_is_no_hits),
        cmocka_unit_test(nothing_beats_the_bound),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
