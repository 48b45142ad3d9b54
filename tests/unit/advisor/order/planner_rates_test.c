/*
 * What is tested: limits.rate in advisor/selection/active_rules.c: a rule reaches its rate, and
 * never goes beyond it by more than what may be saved up.
 * How: a full volume, a gateway that does at once what it is told, and a clock of the test's.
 */
#include <stdio.h>

#include "advisor/order/planner_private.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/obedient_gateway.h"

#define HEAD     "version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\n"
#define ENFORCED "modes: {mode: enforce}\n"

enum { CHAIN = 10, BLOCKS = 1000, SECOND = 1000, MINUTE = 60 * SECOND };

static void
a_rate_is_kept(void **state)
{
    struct obedient *gateway =
        obedient_full(CHAIN, BLOCKS,
                      HEAD "rules:\n"
                           "  - {id: drain, from: hot, to: cold, limits: {rate: 20KB/s},\n"
                           "     trigger: {start: 85%, stop: 50%}}\n" ENFORCED);

    (void)state;
    for (int i = 0; i < 10; i++)
        (void)obedient_step(gateway, SECOND);
    assert_in_range(gateway->moved[KVT_ORDER_DEMOTE], 200, 301);
    for (int i = 0; i < 20; i++)
        (void)obedient_step(gateway, SECOND);
    assert_int_equal(obedient_used(gateway, OBEDIENT_HOT) / OBEDIENT_SIZE, BLOCKS / 2);
    obedient_free(gateway);
}

/* Over `minutes` of looks every `step_ms`, `rate` bytes a second; `interval_ms` is the setting. */
static void
check_rate(uint64_t rate, uint64_t step_ms, uint64_t interval_ms, uint64_t minutes)
{
    const uint64_t burst_ms =
        2 * interval_ms > POLICY_RATE_BURST_MS ? 2 * interval_ms : POLICY_RATE_BURST_MS;
    const uint64_t meant = rate * 60 * minutes / OBEDIENT_SIZE;
    char policy[512];
    struct obedient *gateway;
    uint64_t first;

    (void)snprintf(policy, sizeof(policy),
                   HEAD "rules:\n"
                        "  - {id: drain, from: hot, to: cold, limits: {rate: %lluB/s},\n"
                        "     trigger: {start: 85%%, stop: 5%%}}\n" ENFORCED,
                   (unsigned long long)rate);
    gateway = obedient_full(CHAIN, BLOCKS, policy);
    gateway->rig.planner->options.interval_ms = interval_ms;
    (void)obedient_step(gateway, step_ms);
    first = gateway->moved[KVT_ORDER_DEMOTE];
    assert_in_range(first, 1, rate * burst_ms / 1000 / OBEDIENT_SIZE + 1);
    for (uint64_t passed_ms = step_ms; passed_ms <= minutes * MINUTE; passed_ms += step_ms) {
        (void)obedient_step(gateway, step_ms);
        assert_true(gateway->moved[KVT_ORDER_DEMOTE] <=
                    rate * (burst_ms + passed_ms) / 1000 / OBEDIENT_SIZE + 1);
    }
    assert_in_range(gateway->moved[KVT_ORDER_DEMOTE] - first, meant * 95 / 100, meant + 1);
    obedient_free(gateway);
}

/* However seldom looks are, or how long a set is on its way, and whatever is owed for a block. */
static void
a_rate_is_reached(void **state)
{
    (void)state;
    check_rate(10000, SECOND, 0, 1);
    check_rate(10000, 2 * SECOND, 0, 1);
    check_rate(10000, 5 * SECOND, 0, 1);
    check_rate(10000, 10 * SECOND, 10 * SECOND, 1);
    check_rate(10000, 20 * SECOND, 10 * SECOND, 1); /* a set is on its way at each other look */
    check_rate(50, 100, 0, 10);                     /* a block is paid for in 20 seconds */
    check_rate(50, 60 * SECOND, 60 * SECOND, 20);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rate_is_kept),
        cmocka_unit_test(a_rate_is_reached),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
