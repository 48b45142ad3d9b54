/*
 * What is tested: what must hold of the planner whatever happens: volumes stay below their start
 * watermark, what is pinned stays, nothing goes down that was used or came up within
 * protect_recent, an order may be executed twice, and the same events make the same orders.
 * How: random lives of a gateway (seed printed), each look and each order checked.
 */
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/random_life.h"

#define HEAD "version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\n"
#define UP   "  - {id: up, from: cold, to: hot, on: second_cold_hit}\n"
#define DOWN "  - {id: down, from: hot, to: cold, trigger: {start: 80%, stop: 60%}}\n"
#define CAP  "  - {id: forget, in: cold, do: expire, trigger: {start: 90%, stop: 80%}}\n"

enum { HOT = 1000, COLD = 4000 };

static const char plain[] = HEAD "rules:\n" UP DOWN CAP "modes: {mode: enforce}\n";
static const char protective[] =
    HEAD "defaults: {protect_recent: 30s}\nrules:\n" UP DOWN CAP "modes: {mode: enforce}\n";

static struct life *
new_life(const char *policy, uint64_t seed, uint64_t protect_ms)
{
    struct obedient *gateway = obedient_new(policy, NULL, LIFE_CHAIN);

    gateway->capacity[OBEDIENT_HOT] = (uint64_t)HOT * OBEDIENT_SIZE;
    gateway->capacity[OBEDIENT_COLD] = (uint64_t)COLD * OBEDIENT_SIZE;
    return life_new(gateway, seed, protect_ms);
}

static void
caps_hold_and_pins_stay(void **state)
{
    struct life *life = new_life(plain, test_seed(), 0);
    struct obedient *gateway = life->gateway;
    bool had[OBEDIENT_BLOCKS];

    (void)state;
    for (int step = 0; step < LIFE_STEPS; step++) {
        if (step % 50 == 0)
            life_pin_some(life);
        life_live(life);
        memcpy(had, gateway->held[OBEDIENT_HOT], sizeof(had));
        for (int i = 0; i < 4; i++)
            (void)obedient_step(gateway, 1);
        assert_true(obedient_used(gateway, OBEDIENT_HOT) <=
                    gateway->capacity[OBEDIENT_HOT] * 8 / 10);
        assert_true(obedient_used(gateway, OBEDIENT_COLD) <=
                    gateway->capacity[OBEDIENT_COLD] * 9 / 10 +
                        (uint64_t)LIFE_PINS * OBEDIENT_SIZE);
        for (size_t i = 0; i < OBEDIENT_BLOCKS; i++)
            if (gateway->pinned[i] && had[i])
                assert_true(gateway->held[OBEDIENT_HOT][i]);
        gateway->now_ms += 1000 + kvt_random_below(&life->random, 20000);
    }
    assert_true(gateway->moved[KVT_ORDER_DEMOTE] > 1000 && gateway->moved[KVT_ORDER_DELETE] > 1000);
    assert_true(gateway->moved[KVT_ORDER_PROMOTE] > 100);
    life_free(life);
}

static void
nothing_flaps(void **state)
{
    (void)state;
    life_nothing_flaps(new_life(protective, test_seed(), LIFE_PROTECT_MS), 3);
}

static void
the_same_events_make_the_same_orders(void **state)
{
    const uint64_t seed = test_seed();
    const uint64_t trail = life_trail(new_life(plain, seed, 0), false);

    (void)state;
    assert_int_equal(life_trail(new_life(plain, seed, 0), false), trail);
    assert_int_equal(life_trail(new_life(plain, seed, 0), true),
                     trail); /* also where each is executed twice */
    assert_true(life_trail(new_life(plain, seed + 1, 0), false) != trail);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caps_hold_and_pins_stay),
        cmocka_unit_test(nothing_flaps),
        cmocka_unit_test(the_same_events_make_the_same_orders),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
