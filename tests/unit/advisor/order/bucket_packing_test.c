/*
 * What is tested: advisor/order/bucket_packing.c: rules that compact order each namespace they are
 * true of, at their times, or once a quarter of what it had in the bucket went, and not again at
 * once. How: a gateway that does at once what it is told, and a clock of the test's.
 */
#include "tests/support/seed.h"
#include "tests/unit/advisor/support/obedient_gateway.h"

#define HEAD     "version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\n"
#define ENFORCED "modes: {mode: enforce}\n"

enum { SECOND = 1000, MINUTE = 60 * SECOND, BLOCKS = 300, ACME = 0, LLAMA = 1, QWEN = 2 };

/* A third of the blocks in the bucket for each namespace. */
static struct obedient *
stored(const char *policy)
{
    struct obedient *gateway = obedient_new(policy, NULL, 1);

    for (uint32_t i = 0; i < OBEDIENT_BLOCKS; i++)
        gateway->owner[i] = (uint8_t)(i % OBEDIENT_OWNERS);
    obedient_store(gateway, OBEDIENT_COLD, 0, BLOCKS);
    return gateway;
}

static void
lose(struct obedient *gateway, uint8_t owner, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        if (gateway->owner[i] == owner)
            obedient_publish(gateway, OBEDIENT_COLD, &i, 1, false);
}

static void
at_the_times_of_the_rule(void **state)
{
    struct obedient *gateway =
        stored(HEAD "rules:\n"
                    "  - {id: pack, do: compact, in: cold, schedule: {every: 10m}, "
                    "when: tenant == zeta}\n" ENFORCED);

    (void)state;
    obedient_run(gateway, 30, SECOND);
    assert_int_equal(gateway->compacted[LLAMA], 1);
    assert_int_equal(gateway->compacted[QWEN], 1);
    obedient_run(gateway, 11, MINUTE);
    assert_int_equal(gateway->compacted[LLAMA], 2);
    assert_int_equal(gateway->compacted[QWEN], 2);
    assert_int_equal(gateway->compacted[ACME], 0);
    obedient_free(gateway);
}

static void
when_much_of_a_namespace_went(void **state)
{
    struct obedient *gateway =
        stored(HEAD "rules:\n  - {id: pack, do: compact, in: cold, on: fragmentation}\n" ENFORCED);

    (void)state;
    obedient_run(gateway, 20, SECOND);
    lose(gateway, LLAMA, 0, 60); /* 20 of 100 */
    obedient_run(gateway, 20, SECOND);
    assert_int_equal(gateway->orders, 0);
    lose(gateway, LLAMA, 60, 75);
    obedient_run(gateway, 20, SECOND);
    assert_int_equal(gateway->compacted[LLAMA], 1);
    lose(gateway, LLAMA, 75, 150); /* a third of the rest: but it was packed just now */
    obedient_run(gateway, 20, SECOND);
    assert_int_equal(gateway->compacted[LLAMA], 1);
    obedient_run(gateway, 11, MINUTE);
    assert_int_equal(gateway->compacted[LLAMA], 2);
    assert_int_equal(gateway->compacted[QWEN] + gateway->compacted[ACME], 0);
    assert_int_equal(gateway->orders, 2);
    obedient_free(gateway);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_the_times_of_the_rule),
        cmocka_unit_test(when_much_of_a_namespace_went),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
