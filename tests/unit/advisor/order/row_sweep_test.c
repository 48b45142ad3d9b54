/*
 * What is tested: rules without watermarks (advisor/order/row_sweep.c): each row is asked about, at
 * the times of the schedule (advisor/selection/rule_schedule.c), within the rule's limits.
 * How: a gateway that does at once what it is told, and a clock of the test's; schedules against
 * the calendar, minute by minute.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "advisor/plan/dry_run.h"
#include "advisor/selection/active_rules.h"
#include "advisor/selection/rule_set.h"
#include "base/core/alloc.h"
#include "base/core/random.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/obedient_gateway.h"

#define HEAD "version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\n"

enum { CHAIN = 10, BLOCKS = 3000, SECOND = 1000, MINUTE = 60 * SECOND, DAY_MINUTES = 1440 };

static size_t
held(const struct obedient *gateway, int tier)
{
    return obedient_used(gateway, tier) / OBEDIENT_SIZE;
}

static void
what_nobody_reads_is_forgotten(void **state)
{
    struct obedient *gateway = obedient_new(
        HEAD "rules:\n"
             "  - {id: keep, do: exclude, when: depth == 0}\n"
             "  - {id: forget, in: cold, do: expire, when: last_access > 10m and hits < 1}\n"
             "modes: {mode: enforce}\n",
        NULL, CHAIN);
    uint32_t read[1000];

    (void)state;
    for (uint32_t i = 0; i < 1000; i++)
        read[i] = i;
    obedient_store(gateway, OBEDIENT_COLD, 0, BLOCKS);
    obedient_run(gateway, 5, MINUTE);
    obedient_read(gateway, OBEDIENT_COLD, read, 1000);
    assert_int_equal(gateway->orders, 0);
    obedient_run(gateway, 10, MINUTE);
    /* 1,024 of a set, and a set a tick. */
    assert_int_equal(held(gateway, OBEDIENT_COLD), 1000 + 200);
    for (size_t i = 0; i < BLOCKS; i++)
        assert_int_equal(gateway->held[OBEDIENT_COLD][i], i < 1000 || i % CHAIN == 0);
    obedient_free(gateway);
}

static void
a_pass_ends_at_its_limit(void **state)
{
    struct obedient *gateway = obedient_new(HEAD "rules:\n"
                                                 "  - {id: forget, in: cold, do: expire,\n"
                                                 "     when: age > 1m, schedule: {every: 1h}}\n"
                                                 "modes: {mode: enforce, max_delete: 100}\n",
                                            NULL, CHAIN);

    (void)state;
    obedient_store(gateway, OBEDIENT_COLD, 0, BLOCKS);
    gateway->now_ms += 2 * (uint64_t)MINUTE;
    obedient_run(gateway, 30, SECOND);
    assert_int_equal(held(gateway, OBEDIENT_COLD), BLOCKS - 100);
    obedient_run(gateway, 58, MINUTE);
    assert_int_equal(held(gateway, OBEDIENT_COLD), BLOCKS - 100);
    obedient_run(gateway, 3, MINUTE);
    assert_int_equal(held(gateway, OBEDIENT_COLD), BLOCKS - 200);
    obedient_free(gateway);
}

static void
idle_blocks_go_down_and_shared_ones_come_up(void **state)
{
    struct obedient *gateway = obedient_new(
        HEAD "rules:\n"
             "  - {id: heads-up, from: cold, to: hot, when: depth < 2}\n"
             "  - {id: idle, from: hot, to: cold, when: depth >= 2 and last_access > 5m}\n"
             "modes: {mode: enforce}\n",
        NULL, CHAIN);

    (void)state;
    gateway->capacity[OBEDIENT_HOT] = (uint64_t)550 * OBEDIENT_SIZE;
    obedient_store(gateway, OBEDIENT_COLD, 0, BLOCKS);
    obedient_store(gateway, OBEDIENT_HOT, 0, 500);
    obedient_run(gateway, 20, MINUTE);
    for (size_t i = 0; i < BLOCKS; i++)
        assert_true(!gateway->held[OBEDIENT_HOT][i] || i % CHAIN < 2);
    assert_int_equal(held(gateway, OBEDIENT_HOT), 550); /* 600 would be wanted */
    obedient_free(gateway);
}

/* A pass that stops at a rate between two places of a block goes on at the second one. */
static void
a_rate_orders_no_place_twice(void **state)
{
    struct obedient *gateway = obedient_new(
        HEAD "rules:\n"
             "  - {id: from-hot, in: hot, do: expire, when: age > 1m, schedule: {every: 24h}}\n"
             "  - {id: from-cold, in: cold, do: expire, when: age > 1m, schedule: {every: 24h},\n"
             "     limits: {rate: 15KB/s}}\n"
             "modes: {mode: observe}\n",
        NULL, CHAIN);
    struct advisor_rule_view views[2];

    (void)state;
    obedient_store(gateway, OBEDIENT_HOT, 0, 100);
    obedient_store(gateway, OBEDIENT_COLD, 0, 100);
    obedient_run(gateway, 30, 2 * MINUTE);
    assert_int_equal(advisor_planner_rules(gateway->rig.planner, views, 2), 2);
    assert_int_equal(views[0].ordered, 100);
    assert_int_equal(views[1].ordered, 100);
    obedient_free(gateway);
}

static void
rates_hold_for_passes_too(void **state)
{
    struct obedient *gateway = obedient_new(HEAD "rules:\n"
                                                 "  - {id: forget, in: cold, do: expire,\n"
                                                 "     when: age > 1m, limits: {rate: 10KB/s}}\n"
                                                 "modes: {mode: enforce}\n",
                                            NULL, CHAIN);

    (void)state;
    obedient_store(gateway, OBEDIENT_COLD, 0, BLOCKS);
    gateway->now_ms += 2 * (uint64_t)MINUTE;
    for (int i = 1; i <= 100; i++) {
        (void)obedient_step(gateway, SECOND);
        assert_true(BLOCKS - held(gateway, OBEDIENT_COLD) <= (size_t)(i + 5) * 10 + 1);
    }
    assert_true(BLOCKS - held(gateway, OBEDIENT_COLD) > 900);
    obedient_free(gateway);
}

/* Pinned are 1,500 of 3,000 by the rule, and 20 % of the volume at most. */
static void
pins_keep_up_to_their_budget(void **state)
{
    struct obedient *gateway = obedient_new(
        HEAD "rules:\n"
             "  - {id: keep, when: depth < 5, pin: {tiers: hot, ttl: 1h, budget: 20%}}\n"
             "  - {id: drain, from: hot, to: cold, trigger: {start: 50%, stop: 40%}}\n"
             "modes: {mode: enforce}\n",
        NULL, CHAIN);
    size_t kept = 0;

    (void)state;
    gateway->capacity[OBEDIENT_HOT] = (uint64_t)BLOCKS * OBEDIENT_SIZE;
    obedient_store(gateway, OBEDIENT_COLD, 0, BLOCKS);
    obedient_store(gateway, OBEDIENT_HOT, 0, BLOCKS / 2 - 10);
    obedient_run(gateway, 3, SECOND); /* the pass counts 745 pinned */
    gateway->now_ms += 2 * (uint64_t)MINUTE;
    obedient_store(gateway, OBEDIENT_HOT, BLOCKS / 2 - 10, BLOCKS);
    obedient_run(gateway, 10, MINUTE);
    assert_int_equal(held(gateway, OBEDIENT_HOT), BLOCKS * 4 / 10);
    for (size_t i = 0; i < BLOCKS; i++)
        kept += gateway->held[OBEDIENT_HOT][i] && i % CHAIN < 5;
    assert_true(kept >= BLOCKS / 5);
    /* Nobody read any of it for longer than pins last. */
    gateway->now_ms += 61 * (uint64_t)MINUTE;
    gateway->capacity[OBEDIENT_HOT] = (uint64_t)1000 * OBEDIENT_SIZE;
    obedient_run(gateway, 5, SECOND);
    assert_int_equal(held(gateway, OBEDIENT_HOT), 400);
    obedient_free(gateway);
}

static bool
note(void *arg, const struct advisor_dry_run_move *move)
{
    bool *planned = arg;

    assert_int_equal(move->verb, KVT_ORDER_DELETE);
    planned[move->block.hash - 1] = true;
    return true;
}

/* Which blocks would be deleted; nothing is, as long as the mode is off. */
static void
plan(struct obedient *gateway, bool planned[BLOCKS])
{
    const struct advisor_rules *rules = advisor_rulebook_take(gateway->rig.rulebook);
    struct advisor_dry_run *preview;
    enum kvt_err rc = KVT_AGAIN;

    assert_int_equal(advisor_dry_run_new(&preview, gateway->rig.planner, rules, gateway->now_ms),
                     KVT_OK);
    while (rc == KVT_AGAIN) {
        rc = advisor_dry_run_step(preview, note, planned);
        assert_int_equal(obedient_step(gateway, 0), 0);
    }
    assert_int_equal(rc, KVT_OK);
    advisor_dry_run_free(preview);
    advisor_rulebook_give(gateway->rig.rulebook, rules);
}

/* What leaves a pin that is over its budget goes by an expire rule; but deleting takes all copies,
 * and one of them is pinned in a volume, by the same rule even. */
static void
no_budget_deletes_what_is_pinned_elsewhere(void **state)
{
    struct obedient *gateway = obedient_new(
        HEAD "rules:\n"
             "  - {id: keep, when: depth < 5, pin: {budget: 10%}}\n"
             "  - {id: drain, in: cold, do: expire, trigger: {start: 50%, stop: 40%}}\n"
             "modes: {mode: enforce}\n",
        NULL, CHAIN);
    bool planned[BLOCKS] = {false};
    size_t pinned = 0;

    (void)state;
    for (int tier = 0; tier < OBEDIENT_TIERS; tier++)
        gateway->capacity[tier] = (uint64_t)4 * BLOCKS * OBEDIENT_SIZE;
    obedient_store(gateway, OBEDIENT_COLD, 0, BLOCKS);
    obedient_store(gateway, OBEDIENT_HOT, 0, BLOCKS / 2);
    obedient_run(gateway, 3, SECOND); /* the pass counts 1,500 that are pinned in the bucket */
    assert_int_equal(gateway->orders, 0);
    assert_int_equal(advisor_planner_set_mode(gateway->rig.planner, ADVISOR_MODE_OFF), KVT_OK);
    gateway->capacity[OBEDIENT_COLD] = (uint64_t)BLOCKS * OBEDIENT_SIZE;
    obedient_run(gateway, 1, SECOND);
    plan(gateway, planned);
    assert_int_equal(advisor_planner_set_mode(gateway->rig.planner, ADVISOR_MODE_ENFORCE), KVT_OK);
    obedient_run(gateway, 10, MINUTE);
    assert_int_equal(held(gateway, OBEDIENT_COLD), BLOCKS * 4 / 10);
    for (size_t i = 0; i < BLOCKS; i++) {
        const bool stays = i < BLOCKS / 2 && i % CHAIN < 5;

        assert_int_equal(planned[i], !gateway->held[OBEDIENT_COLD][i]);
        assert_true(!stays || (gateway->held[OBEDIENT_HOT][i] && gateway->held[OBEDIENT_COLD][i]));
        pinned += !stays && i % CHAIN < 5 && gateway->held[OBEDIENT_COLD][i];
    }
    assert_true(pinned < BLOCKS / 4); /* of those in the bucket alone some had to go */
    obedient_free(gateway);
}

static void
what_is_stored_is_asked_about_at_once(void **state)
{
    struct obedient *gateway =
        obedient_new(HEAD "rules:\n"
                          "  - {id: heads, from: cold, to: hot, on: stored, when: depth < 2}\n"
                          "  - {id: ends, in: cold, do: expire, on: stored, when: depth >= 8}\n"
                          "modes: {mode: enforce}\n",
                     NULL, CHAIN);

    (void)state;
    gateway->capacity[OBEDIENT_HOT] = (uint64_t)BLOCKS * OBEDIENT_SIZE;
    (void)obedient_step(gateway, SECOND);
    obedient_store(gateway, OBEDIENT_COLD, 0, BLOCKS);
    obedient_run(gateway, 10, SECOND);
    for (size_t i = 0; i < BLOCKS; i++) {
        assert_int_equal(gateway->held[OBEDIENT_HOT][i], i % CHAIN < 2);
        assert_int_equal(gateway->held[OBEDIENT_COLD][i], i % CHAIN < 8);
    }
    gateway->orders = 0; /* said again, it is no news */
    obedient_store(gateway, OBEDIENT_COLD, 0, 8);
    obedient_run(gateway, 3, SECOND);
    assert_int_equal(gateway->orders, 0);
    obedient_free(gateway);
}

/* ---- schedules ---- */

static bool
is_listed(const struct policy_schedule *schedule, const struct tm *at)
{
    const uint32_t monday_first = (uint32_t)(at->tm_wday + 6) % 7;

    if (schedule->days != 0 && (schedule->days >> monday_first & 1) == 0)
        return false;
    for (uint32_t i = 0; i < schedule->at.count; i++)
        if (schedule->at.minutes[i] == at->tm_hour * 60 + at->tm_min)
            return true;
    return false;
}

static void
times_are_those_of_the_calendar(void **state)
{
    uint64_t random = test_seed();
    struct policy_rule rule = {.id = "r"};
    uint64_t minute = UINT64_C(29000000);
    uint64_t begun_ms = 0;
    int runs = 0;

    (void)state;
    rule.schedule.head.place.line = 1;
    rule.schedule.at.count = 3;
    for (int i = 0; i < 3; i++)
        rule.schedule.at.minutes[i] = (uint16_t)kvt_random_below(&random, DAY_MINUTES);
    rule.schedule.days = 1 + (uint32_t)kvt_random_below(&random, 127);
    for (const uint64_t end = minute + UINT64_C(15) * DAY_MINUTES; minute < end; minute++) {
        const time_t seconds = (time_t)(minute * 60);
        struct tm at;

        assert_non_null(gmtime_r(&seconds, &at));
        for (uint64_t s = 0; s < 60; s += 20) { /* three looks a minute, and one run */
            const uint64_t now_ms = (minute * 60 + s) * 1000;
            const bool due = advisor_rule_is_due(&rule, begun_ms, now_ms);

            assert_int_equal(due, s == 0 && is_listed(&rule.schedule, &at));
            begun_ms = due ? now_ms : begun_ms;
            runs += due;
        }
    }
    assert_true(runs >= 2);
    rule.schedule = (struct policy_schedule){.every = 90 * SECOND};
    rule.schedule.head.place.line = 1;
    assert_true(advisor_rule_is_due(&rule, 0, 5000));
    assert_false(advisor_rule_is_due(&rule, 5000, 5000 + 89999));
    assert_true(advisor_rule_is_due(&rule, 5000, 5000 + 90000));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_reads_is_forgotten),
        cmocka_unit_test(a_pass_ends_at_its_limit),
        cmocka_unit_test(idle_blocks_go_down_and_shared_ones_come_up),
        cmocka_unit_test(pins_keep_up_to_their_budget),
        cmocka_unit_test(no_budget_deletes_what_is_pinned_elsewhere),
        cmocka_unit_test(what_is_stored_is_asked_about_at_once),
        cmocka_unit_test(a_rate_orders_no_place_twice),
        cmocka_unit_test(rates_hold_for_passes_too),
        cmocka_unit_test(times_are_those_of_the_calendar),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
