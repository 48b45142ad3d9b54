/*
 * What is tested: a preview of a policy with other orderings chooses by those: the blocks in the
 * order in which they leave once that policy is in force, and those that were only observed too;
 * what decides now is left as it was, and goes on until the first block is looked at; and so it is
 * whenever the preview ends, and whichever allocation fails.
 * How: random lives of a gateway (seed printed); a preview, then the policy itself.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/order/planner_private.h"
#include "advisor/plan/dry_run.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/obedient_gateway.h"

enum { CHAIN = 4, BLOCKS = 1200, CAPACITY = 1300, WAIT_MS = 20000, POLICY_MAX = 2048 };

static const char *
policy_by(const char *ordering, const char *mode, char text[POLICY_MAX])
{
    (void)snprintf(text, POLICY_MAX,
                   "version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\n"
                   "defaults: {order_by: %s}\nrules:\n"
                   "  - {id: heads, do: exclude, when: depth == 0}\n"
                   "  - {id: down, from: hot, to: cold, trigger: {start: 80%%, stop: 50%%}}\n"
                   "modes: {mode: %s}\n",
                   ordering, mode);
    return text;
}

struct shown {
    uint32_t blocks[OBEDIENT_BLOCKS];
    size_t count;
    bool as_it_is;
};

static bool
show(void *arg, const struct advisor_dry_run_move *move)
{
    struct shown *shown = arg;

    shown->blocks[shown->count++] = (uint32_t)move->block.hash - 1;
    return true;
}

static void
record(void *arg, const struct kvt_order *order, size_t block)
{
    struct shown *shown = arg;

    assert_int_equal(order->verb, KVT_ORDER_DEMOTE);
    shown->blocks[shown->count++] = (uint32_t)block;
}

static struct advisor_rules *
rules_of(const char *text)
{
    static struct policy_problems problems;
    struct advisor_rules *rules;
    struct kvt_error err;

    assert_int_equal(advisor_rules_new(&rules, text, strlen(text), &problems, &err), KVT_OK);
    return rules;
}

static void
tick(struct obedient *gateway)
{
    advisor_planner_tick(gateway->rig.planner, gateway->now_ms);
    test_rig_run(&gateway->rig);
}

/* At most `steps` slices of it. */
static enum kvt_err
preview(struct obedient *gateway, const struct advisor_rules *rules, struct shown *shown, int steps)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;
    struct advisor_dry_run *it;
    enum kvt_err rc = advisor_dry_run_new(&it, gateway->rig.planner, rules, gateway->now_ms);

    shown->count = 0;
    shown->as_it_is = false;
    if (rc != KVT_OK)
        return rc;
    do {
        rc = advisor_dry_run_step(it, show, shown);
        if (rc == KVT_AGAIN && advisor_dry_run_waits(it)) {
            tick(gateway);
            kvt_clock_sleep_ms(1);
        }
        assert_true(kvt_clock_mono_ms() < until_ms);
    } while (rc == KVT_AGAIN && --steps > 0);
    shown->as_it_is = advisor_dry_run_missed(it).wanted != NULL;
    advisor_dry_run_free(it);
    return rc;
}

static struct obedient *
live(const char *policy, uint64_t *random)
{
    struct obedient *gateway = obedient_new(policy, NULL, CHAIN);

    gateway->capacity[OBEDIENT_HOT] = (uint64_t)CAPACITY * OBEDIENT_SIZE;
    obedient_store(gateway, OBEDIENT_COLD, 0, BLOCKS);
    for (uint32_t i = 0; i < BLOCKS; i += 100) {
        obedient_store(gateway, OBEDIENT_HOT, i, i + 100);
        for (int k = 0; k < 12; k++) {
            const uint32_t chain =
                CHAIN * (uint32_t)kvt_random_below(random, (uint64_t)(i + 100) / CHAIN);
            const uint32_t blocks[] = {chain, chain + 1, chain + 2, chain + 3};

            obedient_read(gateway, OBEDIENT_HOT, blocks, 1 + kvt_random_below(random, CHAIN));
            gateway->now_ms += kvt_random_below(random, 4000);
        }
    }
    (void)obedient_step(gateway, 1000);
    return gateway;
}

/* The policy is in force, and what it orders is the same in the same order. */
static void
expect_ordered(struct obedient *gateway, const char *ordering, const struct shown *shown)
{
    struct shown *done = kvt_calloc(1, sizeof(*done));
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;
    char text[POLICY_MAX];

    assert_non_null(done);
    obedient_install(gateway, policy_by(ordering, "off", text));
    do {
        tick(gateway);
        kvt_clock_sleep_ms(1);
        assert_true(kvt_clock_mono_ms() < until_ms);
    } while (test_rig_value(gateway->rig.counters.reranking) > 0 ||
             gateway->rig.planner->reranking.rerank != NULL);
    obedient_install(gateway, policy_by(ordering, "enforce", text));
    gateway->look = record;
    gateway->arg = done;
    for (int i = 0; i < 12; i++)
        (void)obedient_step(gateway, 100);
    assert_int_equal(done->count, shown->count);
    assert_memory_equal(done->blocks, shown->blocks, shown->count * sizeof(shown->blocks[0]));
    kvt_free(done);
}

static void
a_preview_is_by_its_own_order(void **state)
{
    static const char *const orders[][2] = {
        {"lru", "fifo"}, {"fifo", "lru"}, {"lru", "rhi"}, {"rhi", "lfu"}, {"lru", "lru"}};
    struct shown *shown = kvt_calloc(3, sizeof(*shown));
    uint64_t random = test_seed();
    int differ = 0;

    (void)state;
    assert_non_null(shown);
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        char text[POLICY_MAX];
        struct obedient *gateway = live(policy_by(orders[i][0], "off", text), &random);
        struct advisor_rules *own = rules_of(policy_by(orders[i][0], "off", text));
        struct advisor_rules *other = rules_of(policy_by(orders[i][1], "off", text));

        assert_int_equal(preview(gateway, own, &shown[0], INT32_MAX), KVT_OK);
        assert_int_equal(preview(gateway, other, &shown[1], INT32_MAX), KVT_OK);
        assert_false(shown[1].as_it_is);
        assert_true(shown[1].count > BLOCKS / 4);
        differ += shown[0].count != shown[1].count ||
                  memcmp(shown[0].blocks, shown[1].blocks,
                         shown[0].count * sizeof(shown[0].blocks[0])) != 0;
        /* What decides now is as it was. */
        assert_int_equal(preview(gateway, own, &shown[2], INT32_MAX), KVT_OK);
        assert_int_equal(shown[2].count, shown[0].count);
        assert_memory_equal(shown[2].blocks, shown[0].blocks,
                            shown[0].count * sizeof(shown[0].blocks[0]));
        expect_ordered(gateway, orders[i][1], &shown[1]);
        advisor_rules_free(own);
        advisor_rules_free(other);
        obedient_free(gateway);
    }
    assert_in_range(differ, 3, 4);
    kvt_free(shown);
}

/* What was only observed is where it was: a plan names it, and then it is observed again. */
static void
what_was_observed_is_planned(void **state)
{
    char text[POLICY_MAX];
    uint64_t random = test_seed();
    struct obedient *gateway = live(policy_by("lru", "off", text), &random);
    struct advisor_rules *rules = rules_of(policy_by("lru", "off", text));
    struct shown *shown = kvt_calloc(2, sizeof(*shown));
    int64_t observed = 0;

    (void)state;
    assert_non_null(shown);
    assert_int_equal(preview(gateway, rules, &shown[0], INT32_MAX), KVT_OK);
    obedient_install(gateway, policy_by("lru", "observe", text));
    for (int i = 0; i < 3; i++) {
        (void)obedient_step(gateway, 100);
        assert_true(test_rig_value(gateway->rig.counters.orders_observed) > observed);
        observed = test_rig_value(gateway->rig.counters.orders_observed);
        assert_int_equal(preview(gateway, rules, &shown[1], INT32_MAX), KVT_OK);
        assert_int_equal(shown[1].count, shown[0].count);
        assert_memory_equal(shown[1].blocks, shown[0].blocks,
                            shown[0].count * sizeof(shown[0].blocks[0]));
    }
    assert_int_equal(gateway->orders, 0);
    advisor_rules_free(rules);
    kvt_free(shown);
    obedient_free(gateway);
}

/* Whenever it is given up, the next one is whole; one may be given up at the end of the advisor. */
static void
it_may_end_at_any_time(void **state)
{
    char text[POLICY_MAX];
    uint64_t random = test_seed();
    struct obedient *gateway = live(policy_by("lru", "off", text), &random);
    struct advisor_rules *rules = rules_of(policy_by("lfu", "off", text));
    struct shown *shown = kvt_calloc(2, sizeof(*shown));

    (void)state;
    assert_non_null(shown);
    assert_int_equal(preview(gateway, rules, &shown[0], INT32_MAX), KVT_OK);
    for (int steps = 1; steps < 5; steps++) {
        const enum kvt_err rc = preview(gateway, rules, &shown[1], steps);

        assert_true(rc == KVT_OK || rc == KVT_AGAIN);
        assert_int_equal(preview(gateway, rules, &shown[1], INT32_MAX), KVT_OK);
        assert_int_equal(shown[1].count, shown[0].count);
        assert_memory_equal(shown[1].blocks, shown[0].blocks,
                            shown[0].count * sizeof(shown[0].blocks[0]));
    }
    (void)preview(gateway, rules, &shown[1], 1);
    obedient_restart(gateway);
    advisor_rules_free(rules);
    kvt_free(shown);
    obedient_free(gateway);
}

/* Another policy is being taken up meanwhile: first that, then the plan's. */
static void
beside_a_change(void **state)
{
    char text[POLICY_MAX];
    uint64_t random = test_seed();
    struct obedient *gateway = live(policy_by("lru", "off", text), &random);
    struct advisor_rules *rules = rules_of(policy_by("lfu", "off", text));
    struct shown *shown = kvt_calloc(2, sizeof(*shown));

    (void)state;
    assert_non_null(shown);
    assert_int_equal(preview(gateway, rules, &shown[0], INT32_MAX), KVT_OK);
    obedient_install(gateway, policy_by("fifo", "off", text));
    tick(gateway);
    assert_int_equal(preview(gateway, rules, &shown[1], INT32_MAX), KVT_OK);
    assert_int_equal(shown[1].count, shown[0].count);
    assert_memory_equal(shown[1].blocks, shown[0].blocks,
                        shown[0].count * sizeof(shown[0].blocks[0]));
    expect_ordered(gateway, "lfu", &shown[0]);
    advisor_rules_free(rules);
    kvt_free(shown);
    obedient_free(gateway);
}

/* While the order is made tiers are drained; then nothing leaves that the plan may name. */
static void
until_it_chooses_tiers_are_drained(void **state)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;
    char text[POLICY_MAX];
    uint64_t random = test_seed();
    struct obedient *gateway = live(policy_by("lru", "off", text), &random);
    struct advisor_rules *rules = rules_of(policy_by("lfu", "off", text));
    struct shown *shown = kvt_calloc(1, sizeof(*shown));
    struct advisor_dry_run *it;
    uint64_t orders;
    enum kvt_err rc;

    (void)state;
    assert_non_null(shown);
    obedient_install(gateway, policy_by("lru", "enforce", text));
    assert_int_equal(advisor_dry_run_new(&it, gateway->rig.planner, rules, gateway->now_ms),
                     KVT_OK);
    assert_int_equal(advisor_dry_run_step(it, show, shown), KVT_AGAIN);
    assert_true(advisor_dry_run_waits(it));
    for (int i = 0; i < 12; i++)
        (void)obedient_step(gateway, 100);
    assert_true(gateway->orders > 0);
    assert_true(obedient_used(gateway, OBEDIENT_HOT) <=
                (uint64_t)CAPACITY * OBEDIENT_SIZE * 55 / 100);
    /* As full as it was before, so that there is something to choose. */
    obedient_install(gateway, policy_by("lru", "off", text));
    obedient_store(gateway, OBEDIENT_HOT, 0, BLOCKS);
    (void)obedient_step(gateway, 100);
    while ((rc = advisor_dry_run_step(it, show, shown)) == KVT_AGAIN) {
        assert_true(kvt_clock_mono_ms() < until_ms);
        kvt_clock_sleep_ms(1);
    }
    assert_int_equal(rc, KVT_OK);
    assert_true(shown->count > BLOCKS / 4);
    orders = gateway->orders;
    obedient_install(gateway, policy_by("lru", "enforce", text));
    for (int i = 0; i < 12; i++)
        (void)obedient_step(gateway, 100);
    assert_int_equal(gateway->orders, orders);
    advisor_dry_run_free(it);
    for (int i = 0; i < 12; i++)
        (void)obedient_step(gateway, 100);
    assert_true(gateway->orders > orders);
    advisor_rules_free(rules);
    kvt_free(shown);
    obedient_free(gateway);
}

/* Without memory it fails, or says that the order is the one that decides now. */
static void
without_memory_it_says_so(void **state)
{
    char text[POLICY_MAX];
    uint64_t random = test_seed();
    struct obedient *gateway = live(policy_by("lru", "off", text), &random);
    struct advisor_rules *rules = rules_of(policy_by("lfu", "off", text));
    struct advisor_rules *own = rules_of(policy_by("lru", "off", text));
    struct shown *shown = kvt_calloc(3, sizeof(*shown)); /* by lfu, now, by lru */
    int said = 0;

    (void)state;
    assert_non_null(shown);
    assert_int_equal(preview(gateway, rules, &shown[0], INT32_MAX), KVT_OK);
    assert_int_equal(preview(gateway, own, &shown[2], INT32_MAX), KVT_OK);
    for (size_t n = 0; n < 24; n++) {
        struct advisor_dry_run *it = NULL;
        enum kvt_err rc;

        while (gateway->rig.planner->reranking.plan != ADVISOR_PLAN_NONE)
            tick(gateway);
        shown[1].count = 0;
        kvt_alloc_fail_after(n);
        rc = advisor_dry_run_new(&it, gateway->rig.planner, rules, gateway->now_ms);
        for (int i = 0; i < 4 && (rc == KVT_OK || rc == KVT_AGAIN); i++)
            rc = advisor_dry_run_step(it, show, &shown[1]);
        kvt_alloc_fail_after(SIZE_MAX);
        while (rc == KVT_AGAIN) {
            kvt_clock_sleep_ms(1);
            rc = advisor_dry_run_step(it, show, &shown[1]);
        }
        if (rc == KVT_OK) {
            const struct advisor_dry_run_miss miss = advisor_dry_run_missed(it);
            const struct shown *right = &shown[miss.wanted != NULL ? 2 : 0];

            said += miss.wanted != NULL;
            if (miss.wanted != NULL) {
                assert_string_equal(miss.tier, "hot@gw0");
                assert_string_equal(miss.now, "lru");
                assert_string_equal(miss.wanted, "lfu");
            }
            /* Nothing leaves an ordering that has no memory; there may be some again. */
            if (miss.wanted == NULL || shown[1].count != 0)
                assert_int_equal(shown[1].count, right->count);
            assert_memory_equal(shown[1].blocks, right->blocks,
                                shown[1].count * sizeof(right->blocks[0]));
        }
        advisor_dry_run_free(it);
    }
    assert_true(said > 0);
    advisor_rules_free(own);
    advisor_rules_free(rules);
    kvt_free(shown);
    obedient_free(gateway);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_preview_is_by_its_own_order),
        cmocka_unit_test(what_was_observed_is_planned),
        cmocka_unit_test(it_may_end_at_any_time),
        cmocka_unit_test(beside_a_change),
        cmocka_unit_test(until_it_chooses_tiers_are_drained),
        cmocka_unit_test(without_memory_it_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
