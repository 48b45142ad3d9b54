/*
 * What is tested: advisor/order/reported_pins.c: what a gateway told is pinned is not ordered by
 * any rule, also after a restart, and leaves once the gateway told that it is pinned no more.
 * How: a gateway that does at once what it is told, and a clock of the test's.
 */
#include "tests/support/seed.h"
#include "tests/unit/advisor/support/obedient_gateway.h"

#define HEAD     "version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\n"
#define ENFORCED "modes: {mode: enforce}\n"

enum { CHAIN = 10, BLOCKS = 1000, SECOND = 1000 };

/* Blocks in the hot volume. */
static uint64_t
hot(const struct obedient *gateway)
{
    return obedient_used(gateway, OBEDIENT_HOT) / OBEDIENT_SIZE;
}

/* What is pinned is not ordered at all, also after a restart; what is pinned no more leaves. */
static void
what_a_gateway_says_is_pinned_is_left_alone(void **state)
{
    struct obedient *gateway = obedient_full(
        CHAIN, BLOCKS,
        HEAD "rules:\n"
             "  - {id: drain, from: hot, to: cold, trigger: {start: 25%, stop: 20%}}\n" ENFORCED);

    (void)state;
    for (size_t i = 0; i < BLOCKS; i++)
        gateway->pinned[i] = i % CHAIN < 3;
    obedient_tell_pins(gateway, 64, UINT32_MAX);
    obedient_run(gateway, 10, SECOND);
    assert_int_equal(hot(gateway), BLOCKS * 3 / 10);
    assert_int_equal(gateway->refused, 0);
    obedient_restart(gateway);
    obedient_run(gateway, 10, SECOND);
    assert_int_equal(gateway->refused, 0);
    assert_int_equal(hot(gateway), BLOCKS * 3 / 10);
    /* A round of which a report was lost takes nothing off, and the next one does. */
    for (size_t i = 0; i < BLOCKS; i++)
        gateway->pinned[i] = i % CHAIN < 1;
    obedient_tell_pins(gateway, 64, 1);
    obedient_run(gateway, 10, SECOND);
    assert_int_equal(hot(gateway), BLOCKS * 3 / 10);
    obedient_tell_pins(gateway, 64, UINT32_MAX);
    obedient_run(gateway, 10, SECOND);
    assert_int_equal(hot(gateway), BLOCKS / 5);
    assert_int_equal(gateway->refused, 0);
    obedient_free(gateway);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_gateway_says_is_pinned_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
