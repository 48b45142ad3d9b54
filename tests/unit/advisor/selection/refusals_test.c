/*
 * What is tested: advisor/selection/refusals.h: pauses that grow and end, forgetting, the bound, no
 * memory.
 */
#include "advisor/order/planner.h"
#include "advisor/selection/refusals.h"
#include "base/core/alloc.h"

#include "tests/support/seed.h"

static const struct advisor_refused first = {.hash = 7, .ns = 1, .tier = 2};

static struct advisor_refusals *
refusals_new(void)
{
    struct advisor_refusals *refusals;

    assert_int_equal(advisor_refusals_new(&refusals), KVT_OK);
    return refusals;
}

/* How many pauses are over now; each is given once. */
static size_t
ended(struct advisor_refusals *refusals, uint64_t now_ms)
{
    struct advisor_refused block;
    size_t count = 0;

    while (advisor_refusals_next(refusals, &block, now_ms))
        count++;
    return count;
}

static void
pauses_grow_up_to_the_last(void **state)
{
    struct advisor_refusals *refusals = refusals_new();
    uint64_t now_ms = 1000;
    uint64_t pause_ms = ADVISOR_REFUSAL_FIRST_MS;
    struct advisor_refused block;

    (void)state;
    assert_int_equal(ended(refusals, now_ms), 0);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(advisor_refusals_add(refusals, &first, now_ms), KVT_OK);
        assert_int_equal(advisor_refusals_count(refusals, first.tier), 1);
        assert_int_equal(advisor_refusals_count(refusals, first.tier + 1), 0);
        assert_int_equal(ended(refusals, now_ms + pause_ms - 1), 0);
        now_ms += pause_ms;
        assert_true(advisor_refusals_next(refusals, &block, now_ms));
        assert_memory_equal(&block, &first, sizeof(block));
        assert_int_equal(ended(refusals, now_ms), 0);
        assert_int_equal(advisor_refusals_count(refusals, first.tier), 0);
        pause_ms = pause_ms * 2 < ADVISOR_REFUSAL_LAST_MS ? pause_ms * 2 : ADVISOR_REFUSAL_LAST_MS;
    }
    assert_int_equal(pause_ms, ADVISOR_REFUSAL_LAST_MS);
    /* Not refused for long: it begins anew. */
    now_ms += ADVISOR_REFUSAL_LAST_MS;
    assert_int_equal(ended(refusals, now_ms), 0);
    assert_int_equal(advisor_refusals_add(refusals, &first, now_ms), KVT_OK);
    assert_int_equal(ended(refusals, now_ms + ADVISOR_REFUSAL_FIRST_MS), 1);
    advisor_refusals_free(refusals);
}

static void
a_tier_is_forgiven(void **state)
{
    struct advisor_refusals *refusals = refusals_new();
    struct advisor_refused other = first;

    (void)state;
    other.tier = 3;
    for (int i = 0; i < 3; i++) { /* twice in a pause: it came back, and was refused again */
        assert_int_equal(advisor_refusals_add(refusals, &first, 1000), KVT_OK);
        assert_int_equal(advisor_refusals_add(refusals, &other, 1000), KVT_OK);
    }
    assert_int_equal(advisor_refusals_count(refusals, first.tier), 1);
    advisor_refusals_end(refusals, first.tier);
    assert_int_equal(ended(refusals, 1000), 1);
    assert_int_equal(advisor_refusals_count(refusals, first.tier), 0);
    assert_int_equal(advisor_refusals_count(refusals, other.tier), 1);
    assert_int_equal(advisor_refusals_add(refusals, &first, 1000), KVT_OK);
    assert_int_equal(ended(refusals, 1000 + ADVISOR_REFUSAL_FIRST_MS), 1);
    assert_int_equal(ended(refusals, 1000 + 4 * ADVISOR_REFUSAL_FIRST_MS), 1); /* the other */
    advisor_refusals_free(refusals);
}

static void
rows_are_bounded_and_come_free(void **state)
{
    struct advisor_refusals *refusals = refusals_new();
    struct advisor_refused block = first;

    (void)state;
    for (uint32_t i = 0; i < ADVISOR_REFUSALS_MAX; i++) {
        block.hash = i;
        block.tier = i % 3;
        assert_int_equal(advisor_refusals_add(refusals, &block, i % 2), KVT_OK);
    }
    block.hash = ADVISOR_REFUSALS_MAX;
    assert_int_equal(advisor_refusals_add(refusals, &block, 0), KVT_FULL);
    block = (struct advisor_refused){.hash = 3, .ns = first.ns, .tier = 0};
    assert_int_equal(advisor_refusals_add(refusals, &block, 0), KVT_OK); /* that is known */
    assert_int_equal(ended(refusals, ADVISOR_REFUSAL_FIRST_MS), ADVISOR_REFUSALS_MAX / 2);
    assert_int_equal(ended(refusals, ADVISOR_REFUSAL_FIRST_MS + 1), ADVISOR_REFUSALS_MAX / 2 - 1);
    assert_int_equal(ended(refusals, ADVISOR_REFUSAL_LAST_MS), 1);
    assert_int_equal(ended(refusals, 2 * ADVISOR_REFUSAL_LAST_MS - 1), 0); /* all rows but one go */
    for (uint32_t i = 0; i < ADVISOR_REFUSALS_MAX - 1; i++) {
        block.hash = ADVISOR_REFUSALS_MAX + i;
        assert_int_equal(advisor_refusals_add(refusals, &block, 0), KVT_OK);
    }
    block.hash = 1; /* it went */
    assert_int_equal(advisor_refusals_add(refusals, &block, 0), KVT_FULL);
    assert_int_equal(advisor_refusals_count(refusals, 0), ADVISOR_REFUSALS_MAX - 1);
    advisor_refusals_free(refusals);
}

static bool
make(void *arg)
{
    struct advisor_refusals *refusals;
    bool done = false;

    (void)arg;
    if (advisor_refusals_new(&refusals) == KVT_OK) {
        done = advisor_refusals_add(refusals, &first, 0) == KVT_OK;
        assert_int_equal(advisor_refusals_count(refusals, first.tier), done);
        assert_int_equal(ended(refusals, ADVISOR_REFUSAL_FIRST_MS), done);
    } else {
        assert_null(refusals);
    }
    advisor_refusals_free(refusals);
    return done;
}

static void
without_memory(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(make, NULL) >= 5);
    advisor_refusals_free(NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pauses_grow_up_to_the_last),
        cmocka_unit_test(a_tier_is_forgiven),
        cmocka_unit_test(rows_are_bounded_and_come_free),
        cmocka_unit_test(without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
