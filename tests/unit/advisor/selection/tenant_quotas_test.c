/*
 * What is tested: advisor/selection/tenant_quotas.h: what a tenant has is counted as its rows come
 * to, also after a restart; beyond soft its blocks leave and nobody else's; beyond hard nothing of
 * it is promoted; pins and excludes stay; and what may not leave is said.
 * How: a gateway that does at once what it is told, three namespaces of two tenants, a model that
 * adds up what the gateway has, and long random lives (seed printed).
 */
#include <stdio.h>
#include <string.h>

#include "advisor/order/planner_private.h"
#include "advisor/selection/tenant_quotas.h"
#include "base/core/random.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/obedient_gateway.h"

#define HEAD     "version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\n"
#define DRAIN    "  - {id: drain, from: hot, to: cold, trigger: {start: 95%, stop: 90%}}\n"
#define FORGET   "  - {id: forget, in: cold, do: expire, trigger: {start: 95%, stop: 90%}}\n"
#define UP       "  - {id: up, from: cold, to: hot, on: second_cold_hit}\n"
#define ENFORCED "modes: {mode: enforce}\n"

enum { SECOND = 1000, BLOCKS = 1200, ACME = 0, LLAMA = 1, QWEN = 2 };

/* Thirds of the blocks are acme's, zeta/llama's and zeta/qwen's, in turns of a chain. */
static struct obedient *
shared(const char *policy, uint32_t chain)
{
    struct obedient *gateway = obedient_new(policy, NULL, chain);

    gateway->capacity[OBEDIENT_HOT] = (uint64_t)OBEDIENT_BLOCKS * OBEDIENT_SIZE;
    gateway->capacity[OBEDIENT_COLD] = (uint64_t)OBEDIENT_BLOCKS * OBEDIENT_SIZE;
    for (uint32_t i = 0; i < OBEDIENT_BLOCKS; i++)
        gateway->owner[i] = (uint8_t)(i / chain % OBEDIENT_OWNERS);
    return gateway;
}

static uint64_t
zeta(const struct obedient *gateway, int tier)
{
    return obedient_used_by(gateway, tier, LLAMA) + obedient_used_by(gateway, tier, QWEN);
}

static struct advisor_quota_view
view_of(struct obedient *gateway, size_t at)
{
    struct advisor_quota_view views[4];

    (void)obedient_step(gateway, 0);
    assert_true(advisor_planner_quotas(gateway->rig.planner, views, 4) > at);
    return views[at];
}

/* What the quotas of the policy should have counted: "zeta" in hot, and "zeta" in both. */
static void
check_sums(struct obedient *gateway)
{
    const struct advisor_quota_state *states = gateway->rig.planner->quotas->drain.states;

    assert_int_equal(states[0].used, zeta(gateway, OBEDIENT_HOT));
    assert_int_equal(states[1].used, zeta(gateway, OBEDIENT_HOT) + zeta(gateway, OBEDIENT_COLD));
}

/* ---- sums ---- */

static void
sums_are_what_the_rows_come_to(void **state)
{
    struct obedient *gateway = shared(HEAD "rules:\n" DRAIN "quotas:\n"
                                           "  - {tenant: zeta, tier: hot, hard: 100MB}\n"
                                           "  - {tenant: zeta, hard: 100MB}\n" ENFORCED,
                                      4);
    uint64_t random = test_seed();

    (void)state;
    for (int step = 0; step < 60; step++) {
        uint32_t blocks[64];
        size_t count = 1 + kvt_random_below(&random, 64);
        const int tier = (int)kvt_random_below(&random, OBEDIENT_TIERS);
        const bool store = kvt_random_below(&random, 3) > 0;
        const uint32_t from = (uint32_t)kvt_random_below(&random, 500);

        for (uint32_t i = 0; i < count; i++)
            blocks[i] = from + i;
        obedient_publish(gateway, tier, blocks, count, store);
        check_sums(gateway);
        if (step % 20 == 19) {
            obedient_restart(gateway);
            check_sums(gateway);
        }
    }
    /* Another policy with other quotas counts the same. */
    obedient_install(gateway, HEAD "rules:\n" DRAIN "quotas:\n"
                                   "  - {tenant: acme, tier: cold, hard: 100MB}\n" ENFORCED);
    (void)obedient_step(gateway, SECOND);
    assert_int_equal(view_of(gateway, 0).used, obedient_used_by(gateway, OBEDIENT_COLD, ACME));
    assert_string_equal(view_of(gateway, 0).tenant, "acme");
    obedient_free(gateway);
}

/* ---- draining ---- */

static void
beyond_soft_the_tenants_blocks_leave_and_nobody_elses(void **state)
{
    struct obedient *gateway =
        shared(HEAD "rules:\n" DRAIN "quotas:\n"
                    "  - {tenant: zeta, tier: hot, soft: 300KB, hard: 2MB}\n" ENFORCED,
               4);
    uint32_t read[8];

    (void)state;
    obedient_store(gateway, OBEDIENT_COLD, 0, BLOCKS);
    obedient_store(gateway, OBEDIENT_HOT, 0, BLOCKS);
    for (uint32_t i = 0; i < 8; i++) /* the first two chains of zeta/llama are used again */
        read[i] = 4 + i % 4 + i / 4 * 12;
    gateway->now_ms += SECOND;
    obedient_read(gateway, OBEDIENT_HOT, read, 8);
    obedient_run(gateway, 20, SECOND);
    assert_int_equal(zeta(gateway, OBEDIENT_HOT), 300 * OBEDIENT_SIZE);
    assert_int_equal(obedient_used_by(gateway, OBEDIENT_HOT, ACME), BLOCKS / 3 * OBEDIENT_SIZE);
    assert_int_equal(zeta(gateway, OBEDIENT_COLD), BLOCKS / 3 * 2 * OBEDIENT_SIZE);
    for (uint32_t i = 0; i < 8; i++)
        assert_true(gateway->held[OBEDIENT_HOT][read[i]]);
    /* Chains lose their ends, never their middles. */
    for (uint32_t i = 0; i < BLOCKS; i++)
        assert_true(!gateway->held[OBEDIENT_HOT][i] || gateway->parent[i] == 0 ||
                    gateway->held[OBEDIENT_HOT][gateway->parent[i] - 1]);
    assert_int_equal(view_of(gateway, 0).over, ADVISOR_QUOTA_WITHIN);
    assert_int_equal(gateway->moved[KVT_ORDER_DEMOTE], BLOCKS / 3 * 2 - 300);
    obedient_free(gateway);
}

/* Where nothing lies below, soft waits for the rule's condition, and hard does not. */
static void
a_bucket_is_left_by_its_expire_rule(void **state)
{
    static const char policy[] =
        HEAD "rules:\n"
             "  - {id: old, in: cold, do: expire, when: last_access > 1h, "
             "trigger: {start: 95%, stop: 90%}}\n"
             "quotas:\n  - {tenant: zeta, tier: cold, soft: 100KB, hard: 500KB}\n" ENFORCED;
    struct obedient *gateway = shared(policy, 1);

    (void)state;
    obedient_store(gateway, OBEDIENT_COLD, 0, BLOCKS);
    obedient_run(gateway, 80, SECOND);
    assert_int_equal(zeta(gateway, OBEDIENT_COLD), 500 * OBEDIENT_SIZE);
    assert_true(view_of(gateway, 0).stuck);
    assert_int_equal(view_of(gateway, 0).over, ADVISOR_QUOTA_SOFT);
    gateway->now_ms += 3600 * SECOND;
    obedient_run(gateway, 80, SECOND);
    assert_int_equal(zeta(gateway, OBEDIENT_COLD), 100 * OBEDIENT_SIZE);
    assert_false(view_of(gateway, 0).stuck);
    assert_int_equal(obedient_used_by(gateway, OBEDIENT_COLD, ACME), BLOCKS / 3 * OBEDIENT_SIZE);
    obedient_free(gateway);
}

static void
what_a_rule_or_a_person_keeps_stays(void **state)
{
    struct obedient *gateway =
        shared(HEAD "rules:\n"
                    "  - {id: mine, do: exclude, when: model == qwen}\n" DRAIN
                    "quotas:\n  - {tenant: zeta, tier: hot, hard: 10KB}\n" ENFORCED,
               1);

    (void)state;
    for (uint32_t i = 0; i < BLOCKS; i++)
        gateway->pinned[i] = i % 30 == 1; /* of llama */
    obedient_store(gateway, OBEDIENT_HOT, 0, BLOCKS);
    obedient_tell_pins(gateway, 16, UINT32_MAX);
    obedient_run(gateway, 10, SECOND);
    assert_int_equal(gateway->refused, 0);
    assert_int_equal(obedient_used_by(gateway, OBEDIENT_HOT, QWEN), BLOCKS / 3 * OBEDIENT_SIZE);
    assert_int_equal(obedient_used_by(gateway, OBEDIENT_HOT, LLAMA), BLOCKS / 30 * OBEDIENT_SIZE);
    obedient_run(gateway, 200, SECOND);
    assert_true(view_of(gateway, 0).stuck);
    assert_int_equal(view_of(gateway, 0).over, ADVISOR_QUOTA_HARD);
    assert_int_equal(obedient_used_by(gateway, OBEDIENT_HOT, LLAMA), BLOCKS / 30 * OBEDIENT_SIZE);
    obedient_free(gateway);
}

/* Beyond hard a bucket lets go what was used a moment ago; but deleting takes all copies. */
static void
what_a_rule_pins_elsewhere_is_not_deleted(void **state)
{
    struct obedient *gateway =
        shared(HEAD "rules:\n"
                    "  - {id: keep, pin: {tiers: hot}, when: model == llama}\n"
                    "  - {id: old, in: cold, do: expire, when: last_access > 1h}\n"
                    "quotas:\n  - {tenant: zeta, tier: cold, hard: 10KB}\n" ENFORCED,
               1);

    (void)state;
    obedient_store(gateway, OBEDIENT_COLD, 0, BLOCKS);
    obedient_store(gateway, OBEDIENT_HOT, 0, BLOCKS / 2);
    obedient_run(gateway, 80, SECOND);
    assert_int_equal(obedient_used_by(gateway, OBEDIENT_HOT, LLAMA), BLOCKS / 6 * OBEDIENT_SIZE);
    assert_int_equal(obedient_used_by(gateway, OBEDIENT_COLD, LLAMA), BLOCKS / 6 * OBEDIENT_SIZE);
    assert_int_equal(zeta(gateway, OBEDIENT_COLD), BLOCKS / 6 * OBEDIENT_SIZE);
    assert_true(view_of(gateway, 0).stuck);
    obedient_free(gateway);
}

static void
observing_moves_nothing(void **state)
{
    struct obedient *gateway =
        shared(HEAD "rules:\n" DRAIN "quotas:\n  - {tenant: zeta, tier: hot, hard: 10KB}\n"
                    "modes: {mode: observe}\n",
               1);

    (void)state;
    obedient_store(gateway, OBEDIENT_HOT, 0, BLOCKS);
    obedient_run(gateway, 10, SECOND);
    assert_int_equal(gateway->orders, 0);
    assert_int_equal(view_of(gateway, 0).over, ADVISOR_QUOTA_HARD);
    obedient_free(gateway);
}

/* ---- promotions ---- */

static void
nothing_is_promoted_beyond_hard(void **state)
{
    struct obedient *gateway =
        shared(HEAD "rules:\n" UP DRAIN
                    "quotas:\n  - {tenant: zeta, tier: hot, soft: 200KB, hard: 200KB}\n" ENFORCED,
               1);
    uint32_t blocks[OBEDIENT_OWNERS][BLOCKS / OBEDIENT_OWNERS];

    (void)state;
    obedient_store(gateway, OBEDIENT_COLD, 0, BLOCKS);
    obedient_run(gateway, 2, SECOND);
    for (uint32_t i = 0; i < BLOCKS; i++)
        blocks[i % OBEDIENT_OWNERS][i / OBEDIENT_OWNERS] = i;
    for (int pass = 0; pass < 3; pass++) {
        for (int owner = 0; owner < OBEDIENT_OWNERS; owner++)
            obedient_read(gateway, OBEDIENT_COLD, blocks[owner], BLOCKS / OBEDIENT_OWNERS);
        for (int i = 0; i < 8; i++) {
            obedient_run(gateway, 1, SECOND);
            assert_true(zeta(gateway, OBEDIENT_HOT) <= 200 * OBEDIENT_SIZE);
        }
    }
    assert_int_equal(zeta(gateway, OBEDIENT_HOT), 200 * OBEDIENT_SIZE);
    assert_int_equal(obedient_used_by(gateway, OBEDIENT_HOT, ACME), BLOCKS / 3 * OBEDIENT_SIZE);
    assert_int_equal(gateway->moved[KVT_ORDER_DEMOTE], 0);
    obedient_free(gateway);
}

/* ---- long lives ---- */

struct life {
    struct obedient *gateway;
    bool within; /* no tenant but zeta may lose anything */
};

static void
look(void *arg, const struct kvt_order *order, size_t block)
{
    const struct life *life = arg;

    if (order->verb == KVT_ORDER_DEMOTE || order->verb == KVT_ORDER_DELETE)
        assert_true(!life->within || life->gateway->owner[block] != ACME);
}

/* Whatever comes, and over restarts: at most a batch above hard once the planner acted, at soft in
 * the end, and who is within its quota loses nothing. */
static void
random_lives_stay_within_their_quotas(void **state)
{
    static const char policy[] =
        HEAD "rules:\n" UP DRAIN FORGET "quotas:\n"
             "  - {tenant: zeta, tier: hot, soft: 150KB, hard: 250KB}\n"
             "  - {tenant: zeta, soft: 900KB, hard: 1MB}\n"
             "  - {tenant: acme, tier: hot, soft: 3MB, hard: 4MB}\n" ENFORCED;
    uint64_t random = test_seed();

    (void)state;
    for (int round = 0; round < 3; round++) {
        struct life life = {.gateway = shared(policy, 4), .within = true};
        struct obedient *gateway = life.gateway;

        gateway->look = look;
        gateway->arg = &life;
        for (int step = 0; step < 120; step++) {
            const uint32_t from = (uint32_t)kvt_random_below(&random, 2400);
            const uint32_t count = 1 + (uint32_t)kvt_random_below(&random, 60);
            uint32_t read[16];

            obedient_store(gateway, (int)kvt_random_below(&random, OBEDIENT_TIERS), from,
                           from + count);
            for (uint32_t i = 0; i < 16; i++)
                read[i] = from / 12 * 12 + 4 + i % 4;
            obedient_read(gateway, (int)kvt_random_below(&random, OBEDIENT_TIERS), read, 4);
            obedient_run(gateway, 1 + (int)kvt_random_below(&random, 3), SECOND);
            if (step % 50 == 25) {
                obedient_restart(gateway);
                check_sums(gateway);
            }
        }
        obedient_run(gateway, 200, SECOND);
        check_sums(gateway);
        assert_true(zeta(gateway, OBEDIENT_HOT) <= 150 * OBEDIENT_SIZE);
        assert_true(zeta(gateway, OBEDIENT_HOT) + zeta(gateway, OBEDIENT_COLD) <=
                    900 * OBEDIENT_SIZE);
        obedient_free(gateway);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_what_the_rows_come_to),
        cmocka_unit_test(beyond_soft_the_tenants_blocks_leave_and_nobody_elses),
        cmocka_unit_test(a_bucket_is_left_by_its_expire_rule),
        cmocka_unit_test(what_a_rule_or_a_person_keeps_stays),
        cmocka_unit_test(what_a_rule_pins_elsewhere_is_not_deleted),
        cmocka_unit_test(observing_moves_nothing),
        cmocka_unit_test(nothing_is_promoted_beyond_hard),
        cmocka_unit_test(random_lives_stay_within_their_quotas),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
