/*
 * What is tested: router/prompt_holders.h.
 * How: against a count of requests of each worker; and every allocation failed once.
 */
#include <string.h>

#include "base/core/random.h"

#include "router/prompt_holders.h"
#include "tests/support/seed.h"

enum { WORKERS = 300, STEPS = 20000 };

static void
assert_same(const struct router_prompt_holders *holders, const uint32_t *requests)
{
    bool seen[WORKERS] = {false};
    uint32_t wanted = 0;
    uint32_t count;
    const struct router_prompt_holder *all = router_prompt_holders_all(holders, &count);

    for (uint32_t i = 0; i < count; i++) {
        assert_true(all[i].worker < WORKERS && !seen[all[i].worker]);
        assert_int_equal(all[i].requests, requests[all[i].worker]);
        seen[all[i].worker] = true;
    }
    for (uint32_t w = 0; w < WORKERS; w++)
        wanted += requests[w] > 0;
    assert_int_equal(count, wanted);
    assert_int_equal(holders->count, wanted);
}

/* Sets of one, of some and of many workers; each grows and shrinks again and again. */
static void
each_worker_is_there_once_with_its_requests(void **state)
{
    static const uint32_t sizes[] = {1, 2, 3, 5, 40, WORKERS};
    uint64_t random = test_seed();

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct router_prompt_holders holders = {0};
        struct router_prompt_holders copy = {0};
        uint32_t requests[WORKERS] = {0};

        for (int step = 0; step < STEPS / TEST_ALONE_SHARE; step++) {
            uint32_t worker = (uint32_t)kvt_random_below(&random, sizes[i]);
            bool rising = step / 1000 % 2 == 0;
            bool first;

            if (kvt_random_below(&random, 10) < (rising ? 7 : 3)) {
                assert_true(router_prompt_holders_add(&holders, worker, &first));
                assert_int_equal(first, requests[worker]++ == 0);
            } else if (requests[worker] > 0) {
                assert_int_equal(router_prompt_holders_remove(&holders, worker),
                                 --requests[worker] == 0);
            }
            if (step % 16 == 0)
                assert_same(&holders, requests);
        }
        assert_true(router_prompt_holders_copy(&copy, &holders));
        router_prompt_holders_release(&holders);
        assert_same(&copy, requests);
        for (uint32_t w = 0; w < WORKERS; w++)
            while (requests[w] > 0)
                assert_int_equal(router_prompt_holders_remove(&copy, w), --requests[w] == 0);
        assert_int_equal(copy.count, 0);
        router_prompt_holders_release(&copy);
    }
}

/* What was there stays when there is no memory for more. */
static bool
attempt(void *arg)
{
    struct router_prompt_holders holders = {0};
    struct router_prompt_holders copy = {0};
    uint32_t requests[WORKERS] = {0};
    bool done = true;
    bool first;

    (void)arg;
    for (uint32_t w = 0; w < 20 && done; w++) {
        done = router_prompt_holders_add(&holders, w, &first);
        assert_int_equal(first, done);
        requests[w] = done;
        assert_same(&holders, requests);
    }
    done = done && router_prompt_holders_copy(&copy, &holders);
    if (done)
        assert_same(&copy, requests);
    else
        assert_int_equal(copy.count, 0);
    router_prompt_holders_release(&copy);
    router_prompt_holders_release(&holders);
    return done;
}

static void
without_memory_it_stays_as_it_is(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(attempt, NULL) >= 5);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_worker_is_there_once_with_its_requests),
        cmocka_unit_test(without_memory_it_stays_as_it_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
