/*
 * What is tested: advisor/selection and advisor/order under policies: the first rule that has a
 * block moves it, and no other; watermarks a rule; what is passed over; limits; and that a dry run
 * is what is ordered.
 * How: a gateway that does at once what it is told, and a clock of the test's.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "advisor/order/planner_private.h"
#include "advisor/order/traffic.h"
#include "advisor/plan/dry_run.h"
#include "advisor/selection/active_rules.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"

#include "policy/ordering/builtin_orderings.h"
#include "tests/support/seed.h"
#include "tests/unit/advisor/support/obedient_gateway.h"

#define HEAD     "version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\n"
#define ENFORCED "modes: {mode: enforce}\n"

enum { CHAIN = 10, BLOCKS = 1000, SECOND = 1000, MINUTE = 60 * SECOND };

static uint64_t
percent(const struct obedient *gateway)
{
    return obedient_used(gateway, OBEDIENT_HOT) * 100 / gateway->capacity[OBEDIENT_HOT];
}

static struct advisor_tier_view
view_of(struct obedient *gateway, const char *name)
{
    static struct advisor_tier_view views[ADVISOR_TIERS_MAX];
    const size_t count = advisor_planner_tiers(gateway->rig.planner, views, ADVISOR_TIERS_MAX);

    for (size_t i = 0; i < count; i++)
        if (strcmp(views[i].tier.name, name) == 0)
            return views[i];
    fail();
    return views[0];
}

static struct advisor_rule_view
rule_of(struct obedient *gateway, const char *id)
{
    struct advisor_rule_view views[8];
    size_t count;

    (void)obedient_step(gateway, 0); /* each look shows what the one before it did */
    count = advisor_planner_rules(gateway->rig.planner, views, 8);
    for (size_t i = 0; i < count; i++)
        if (strcmp(views[i].id, id) == 0)
            return views[i];
    fail();
    return views[0];
}

/* ---- which blocks ---- */

static void
what_a_rule_in_front_has_stays(void **state)
{
    struct obedient *gateway = obedient_full(
        CHAIN, BLOCKS,
        HEAD "rules:\n"
             "  - {id: keep-heads, do: exclude, when: depth < 3}\n"
             "  - {id: drain, from: hot, to: cold, trigger: {start: 85%, stop: 50%}}\n" ENFORCED);

    (void)state;
    obedient_run(gateway, 10, SECOND);
    assert_int_equal(percent(gateway), 50);
    for (size_t i = 0; i < BLOCKS; i++)
        assert_true(gateway->held[OBEDIENT_HOT][i] || gateway->depth[i] >= 3);
    assert_false(view_of(gateway, "hot@gw0").stuck);
    obedient_free(gateway);
}

/* 30 % are never let go, and the stop is below: it is said, and looked at again later. */
static void
a_tier_of_blocks_that_stay_is_stuck(void **state)
{
    struct obedient *gateway = obedient_full(
        CHAIN, BLOCKS,
        HEAD "rules:\n"
             "  - {id: keep-heads, do: exclude, when: depth < 3}\n"
             "  - {id: drain, from: hot, to: cold, trigger: {start: 85%, stop: 20%}}\n" ENFORCED);

    (void)state;
    obedient_run(gateway, 10, SECOND);
    assert_int_equal(percent(gateway), 30);
    assert_true(view_of(gateway, "hot@gw0").stuck);
    assert_int_equal(view_of(gateway, "hot@gw0").passed_blocks, BLOCKS * 3 / 10);
    /* Another policy looks at them anew. */
    obedient_install(
        gateway,
        HEAD "rules:\n"
             "  - {id: drain, from: hot, to: cold, trigger: {start: 29%, stop: 20%}}\n" ENFORCED);
    obedient_run(gateway, 5, SECOND);
    assert_int_equal(percent(gateway), 20);
    assert_false(view_of(gateway, "hot@gw0").stuck);
    obedient_free(gateway);
}

static void
each_rule_has_its_watermarks(void **state)
{
    struct obedient *gateway = obedient_new(
        HEAD
        "rules:\n"
        "  - {id: unread, from: hot, to: cold, when: hits == 0, trigger: {start: 60%, stop: 40%}}\n"
        "  - {id: drain, from: hot, to: cold, trigger: {start: 90%, stop: 80%}}\n" ENFORCED,
        NULL, 1);
    uint32_t read[BLOCKS];

    (void)state;
    gateway->capacity[OBEDIENT_HOT] = (uint64_t)BLOCKS * OBEDIENT_SIZE;
    obedient_store(gateway, OBEDIENT_COLD, 0, BLOCKS);
    obedient_store(gateway, OBEDIENT_HOT, 0, 590);
    obedient_run(gateway, 3, SECOND);
    assert_int_equal(gateway->orders, 0); /* below both */
    for (uint32_t i = 0; i < BLOCKS; i++)
        read[i] = i;
    obedient_read(gateway, OBEDIENT_HOT, read, 300);
    obedient_store(gateway, OBEDIENT_HOT, 590, 600);
    obedient_run(gateway, 5, SECOND);
    assert_int_equal(percent(gateway), 40);
    for (uint32_t i = 0; i < 300; i++)
        assert_true(gateway->held[OBEDIENT_HOT][i]);
    /* Of those that were read, none is the first rule's: the other one waits for 90 %. */
    obedient_store(gateway, OBEDIENT_HOT, 300, 899);
    obedient_read(gateway, OBEDIENT_HOT, read, 899);
    gateway->orders = 0;
    obedient_run(gateway, 5, SECOND);
    assert_int_equal(gateway->orders, 0);
    assert_false(view_of(gateway, "hot@gw0").stuck); /* the first rule had all its blocks */
    obedient_store(gateway, OBEDIENT_HOT, 899, BLOCKS);
    obedient_read(gateway, OBEDIENT_HOT, read, BLOCKS);
    obedient_run(gateway, 5, SECOND);
    assert_int_equal(percent(gateway), 80);
    obedient_free(gateway);
}

static void
what_was_used_lately_is_left_alone(void **state)
{
    struct obedient *gateway = obedient_full(
        CHAIN, BLOCKS,
        HEAD "defaults: {protect_recent: 5m}\n"
             "rules:\n"
             "  - {id: drain, from: hot, to: cold, trigger: {start: 85%, stop: 50%}}\n" ENFORCED);

    (void)state;
    obedient_run(gateway, 10, SECOND);
    assert_int_equal(percent(gateway), 100);
    for (int i = 0; i < 10; i++)
        (void)obedient_step(gateway, MINUTE);
    assert_int_equal(percent(gateway), 50);
    obedient_free(gateway);
}

static void
each_change_of_the_policy_is_followed(void **state)
{
    struct obedient *gateway = obedient_full(
        CHAIN, BLOCKS,
        HEAD "rules:\n"
             "  - {id: drain, from: hot, to: cold, trigger: {start: 85%, stop: 70%}}\n"
             "modes: {mode: observe}\n");

    (void)state;
    obedient_run(gateway, 5, SECOND);
    assert_int_equal(gateway->orders, 0); /* the policy's own mode is the lower one */
    obedient_install(gateway, HEAD "rules:\n"
                                   "  - {id: gone, in: hot, do: expire, when: depth == 9,\n"
                                   "     trigger: {start: 85%, stop: 70%}}\n" ENFORCED);
    gateway->now_ms += 2 * MINUTE; /* what was observed is done with */
    obedient_run(gateway, 10, SECOND);
    assert_int_equal(gateway->moved[KVT_ORDER_DELETE], BLOCKS / 10);
    assert_int_equal(gateway->moved[KVT_ORDER_DEMOTE], 0);
    assert_int_equal(percent(gateway), 90);
    obedient_free(gateway);
}

/* ---- limits ---- */

static void
a_run_ends_at_its_limit_and_begins_again(void **state)
{
    struct obedient *gateway =
        obedient_full(CHAIN, BLOCKS,
                      HEAD "rules:\n"
                           "  - {id: drain, from: hot, to: cold, limits: {per_run: 30},\n"
                           "     trigger: {start: 85%, stop: 50%}}\n" ENFORCED);

    (void)state;
    obedient_run(gateway, 50, SECOND);
    assert_int_equal(gateway->moved[KVT_ORDER_DEMOTE], 30);
    assert_int_equal(rule_of(gateway, "drain").moved, 30);
    assert_true(rule_of(gateway, "drain").running);
    assert_non_null(strstr(rule_of(gateway, "drain").why, "per_run"));
    assert_true(rule_of(gateway, "drain").until_ms > gateway->now_ms);
    obedient_run(gateway, 30, SECOND);
    assert_int_equal(gateway->moved[KVT_ORDER_DEMOTE], 60);
    obedient_free(gateway);
}

static void
no_run_deletes_more_than_it_may(void **state)
{
    struct obedient *gateway = obedient_full(
        CHAIN, BLOCKS,
        HEAD "rules:\n"
             "  - {id: forget, in: cold, do: expire, trigger: {start: 85%, stop: 50%}}\n"
             "modes: {mode: enforce, max_delete: 25}\n");

    (void)state;
    gateway->capacity[OBEDIENT_COLD] = (uint64_t)BLOCKS * OBEDIENT_SIZE;
    obedient_run(gateway, 50, SECOND);
    assert_int_equal(gateway->moved[KVT_ORDER_DELETE], 25);
    obedient_free(gateway);
}

static void
a_canary_is_the_same_share_each_time(void **state)
{
    static const char policy[] =
        HEAD "rules:\n"
             "  - {id: drain, from: hot, to: cold, trigger: {start: 40%, stop: 1%}}\n"
             "modes: {mode: enforce, canary: 10%}\n";
    struct obedient *gateway = obedient_full(CHAIN, BLOCKS, policy);
    bool *left = kvt_calloc(BLOCKS, sizeof(*left));
    size_t count = 0;

    (void)state;
    assert_non_null(left);
    obedient_run(gateway, 10, SECOND);
    for (size_t i = 0; i < BLOCKS; i++) {
        left[i] = !gateway->held[OBEDIENT_HOT][i];
        count += left[i];
    }
    assert_in_range(count, BLOCKS / 20, BLOCKS / 5);
    obedient_free(gateway);
    gateway = obedient_full(CHAIN, BLOCKS, policy);
    obedient_run(gateway, 10, SECOND);
    for (size_t i = 0; i < BLOCKS; i++)
        assert_int_equal(left[i], !gateway->held[OBEDIENT_HOT][i]);
    kvt_free(left);
    obedient_free(gateway);
}

static void
a_rule_that_fails_is_suspended_for_longer_each_time(void **state)
{
    struct obedient *gateway = obedient_full(
        CHAIN, BLOCKS,
        HEAD "rules:\n"
             "  - {id: drain, from: hot, to: cold, limits: {suspend_if_errors: 5%, per_run: 20},\n"
             "     trigger: {start: 85%, stop: 50%}}\n" ENFORCED);
    uint64_t tries[3] = {0};

    (void)state;
    memset(gateway->pinned, 1, sizeof(gateway->pinned));
    for (int i = 0; i < 600; i++) { /* after 1, 2 and 4 minutes, and 8 */
        (void)obedient_step(gateway, SECOND);
        tries[0] = i == 50 ? gateway->orders : tries[0];
        tries[1] = i == 170 ? gateway->orders : tries[1];
        tries[2] = i == 410 ? gateway->orders : tries[2];
    }
    assert_true(rule_of(gateway, "drain").refused >= 60);
    assert_int_equal(rule_of(gateway, "drain").moved, 0);
    assert_int_equal(tries[0], 1);
    assert_int_equal(tries[1], 2);
    assert_int_equal(tries[2], 3);
    obedient_free(gateway);
}

/* ---- a preview ---- */

struct shown {
    uint32_t blocks[OBEDIENT_BLOCKS];
    size_t count;
    size_t most;
};

static bool
show(void *arg, const struct advisor_dry_run_move *move)
{
    struct shown *shown = arg;

    assert_string_equal(move->gateway, "gw0");
    assert_string_equal(move->namespace_, "acme/llama");
    shown->blocks[shown->count++] = (uint32_t)move->block.hash - 1;
    return shown->count < shown->most;
}

/* What was ordered, in its order. */
static void
record(void *arg, const struct kvt_order *order, size_t block)
{
    struct shown *shown = arg;

    (void)order;
    shown->blocks[shown->count++] = (uint32_t)block;
}

static void
preview(struct obedient *gateway, struct shown *shown)
{
    const struct advisor_rules *rules = advisor_rulebook_take(gateway->rig.rulebook);
    struct advisor_dry_run *it;
    enum kvt_err rc = KVT_AGAIN;

    shown->count = 0;
    assert_int_equal(advisor_dry_run_new(&it, gateway->rig.planner, rules, gateway->now_ms),
                     KVT_OK);
    while (rc == KVT_AGAIN) {
        rc = advisor_dry_run_step(it, show, shown);
        assert_int_equal(obedient_step(gateway, 0), 0); /* nothing is chosen meanwhile */
    }
    assert_int_equal(rc, KVT_OK);
    advisor_dry_run_free(it);
    advisor_rulebook_give(gateway->rig.rulebook, rules);
}

/* An order is of one rule: blocks of two take turns in the preview only. */
static void
expect_shown(void *arg, const struct kvt_order *order, size_t block)
{
    struct shown *shown = arg;

    assert_int_equal(order->verb, KVT_ORDER_DEMOTE);
    for (size_t i = 0; i < shown->count; i++)
        if (shown->blocks[i] == block) {
            shown->blocks[i] = shown->blocks[--shown->count];
            return;
        }
    fail_msg("block %zu was not in the preview", block);
}

static void
a_preview_is_what_is_ordered(void **state)
{
    struct obedient *gateway = obedient_new(
        HEAD
        "rules:\n"
        "  - {id: keep-heads, do: exclude, when: depth < 2}\n"
        "  - {id: ends, from: hot, to: cold, when: depth >= 7, trigger: {start: 85%, stop: 60%}}\n"
        "  - {id: drain, from: hot, to: cold, trigger: {start: 85%, stop: 70%}}\n"
        "modes: {mode: off}\n",
        NULL, CHAIN);
    struct shown *shown = kvt_calloc(1, sizeof(*shown));
    static uint32_t first[OBEDIENT_BLOCKS];
    size_t total;

    (void)state;
    assert_non_null(shown);
    gateway->capacity[OBEDIENT_HOT] = (uint64_t)OBEDIENT_BLOCKS * OBEDIENT_SIZE;
    obedient_store(gateway, OBEDIENT_COLD, 0, OBEDIENT_BLOCKS);
    for (uint32_t i = 0; i < OBEDIENT_BLOCKS; i += 512, gateway->now_ms += SECOND)
        obedient_store(gateway, OBEDIENT_HOT, i, i + 512);
    (void)obedient_step(gateway, SECOND);
    shown->most = 100;
    preview(gateway, shown);
    assert_int_equal(shown->count, 100);
    shown->most = OBEDIENT_BLOCKS;
    preview(gateway, shown);
    total = shown->count;
    assert_in_range(total, 2400, 3300);
    memcpy(first, shown->blocks, sizeof(first));
    preview(gateway, shown); /* it changed nothing */
    assert_int_equal(shown->count, total);
    assert_memory_equal(shown->blocks, first, total * sizeof(first[0]));
    gateway->look = expect_shown;
    gateway->arg = shown;
    obedient_install(
        gateway, HEAD
        "rules:\n"
        "  - {id: keep-heads, do: exclude, when: depth < 2}\n"
        "  - {id: ends, from: hot, to: cold, when: depth >= 7, trigger: {start: 85%, stop: 60%}}\n"
        "  - {id: drain, from: hot, to: cold, trigger: {start: 85%, stop: 70%}}\n" ENFORCED);
    obedient_run(gateway, 20, SECOND);
    assert_int_equal(shown->count, 0);
    assert_int_equal(gateway->moved[KVT_ORDER_DEMOTE], total);
    kvt_free(shown);
    obedient_free(gateway);
}

/* Whatever it lacked, all is given back: the next one shows the same. */
static void
a_preview_without_memory_takes_nothing(void **state)
{
    struct obedient *gateway = obedient_full(
        CHAIN, BLOCKS,
        HEAD
        "rules:\n"
        "  - {id: drain, from: hot, to: cold, when: depth > 1, trigger: {start: 85%, stop: 60%}}\n"
        "modes: {mode: off}\n");
    const struct advisor_rules *rules = advisor_rulebook_take(gateway->rig.rulebook);
    struct shown *shown = kvt_calloc(1, sizeof(*shown));
    int failed = 0;

    (void)state;
    assert_non_null(shown);
    shown->most = OBEDIENT_BLOCKS;
    (void)obedient_step(gateway, SECOND);
    for (size_t fail_after = 0; fail_after < 8; fail_after++) {
        struct advisor_dry_run *it;
        enum kvt_err rc;

        shown->count = 0;
        kvt_alloc_fail_after(fail_after);
        rc = advisor_dry_run_new(&it, gateway->rig.planner, rules, gateway->now_ms);
        if (rc == KVT_OK)
            do
                rc = advisor_dry_run_step(it, show, shown);
            while (rc == KVT_AGAIN);
        kvt_alloc_fail_after(SIZE_MAX);
        advisor_dry_run_free(it);
        failed += rc == KVT_NOMEM;
    }
    assert_true(failed > 0);
    preview(gateway, shown);
    assert_int_equal(shown->count, BLOCKS * 4 / 10);
    advisor_rulebook_give(gateway->rig.rulebook, rules);
    kvt_free(shown);
    obedient_free(gateway);
}

/* The blocks in the order in which they leave, where somebody planned for another day before.
 * Worlds that are compared begin at the same time: an ordering's clock counts in steps. */
static size_t
leave(struct shown *left, uint64_t begin_ms, uint64_t plan_ahead_ms)
{
    struct obedient *gateway =
        obedient_new(HEAD "rules:\n"
                          "  - {id: drain, from: hot, to: cold, trigger: {start: 85%, stop: 30%}}\n"
                          "modes: {mode: off}\n",
                     &policy_rhi, 1);
    const struct advisor_rules *rules;
    struct advisor_dry_run *it;
    struct shown shown = {.most = OBEDIENT_BLOCKS};
    enum kvt_err rc = KVT_AGAIN;

    gateway->now_ms = begin_ms;
    gateway->capacity[OBEDIENT_HOT] = (uint64_t)BLOCKS * OBEDIENT_SIZE;
    obedient_store(gateway, OBEDIENT_COLD, 0, BLOCKS);
    obedient_store(gateway, OBEDIENT_HOT, 0, BLOCKS);
    (void)obedient_step(gateway, SECOND);
    rules = advisor_rulebook_take(gateway->rig.rulebook);
    assert_int_equal(
        advisor_dry_run_new(&it, gateway->rig.planner, rules, gateway->now_ms + plan_ahead_ms),
        KVT_OK);
    while (rc == KVT_AGAIN)
        rc = advisor_dry_run_step(it, show, &shown);
    assert_int_equal(rc, KVT_OK);
    assert_true(shown.count > 0);
    advisor_dry_run_free(it);
    advisor_rulebook_give(gateway->rig.rulebook, rules);
    /* Each comes again after a time of its own, some for a while only. */
    for (uint32_t second = 1; second < 200; second++) {
        uint32_t blocks[BLOCKS];
        size_t count = 0;

        for (uint32_t i = 0; i < BLOCKS; i++)
            if (second % (2 + i % 37) == 0 && (i % 3 == 0 || second < 60 + i % 50))
                blocks[count++] = i;
        obedient_read(gateway, OBEDIENT_HOT, blocks, count);
        (void)obedient_step(gateway, SECOND);
    }
    gateway->look = record;
    gateway->arg = left;
    obedient_install(
        gateway,
        HEAD "rules:\n"
             "  - {id: drain, from: hot, to: cold, trigger: {start: 85%, stop: 30%}}\n" ENFORCED);
    obedient_run(gateway, 20, SECOND);
    obedient_free(gateway);
    return left->count;
}

static void
a_plan_for_another_day_changes_no_order(void **state)
{
    const uint64_t begin_ms = kvt_clock_unix_ms() - UINT64_C(30) * 24 * 60 * MINUTE;
    struct shown *left = kvt_calloc(2, sizeof(*left));

    (void)state;
    assert_non_null(left);
    assert_true(leave(&left[0], begin_ms, 0) > BLOCKS / 2);
    assert_int_equal(leave(&left[1], begin_ms, UINT64_C(3650) * 24 * 60 * MINUTE), left[0].count);
    assert_memory_equal(left[0].blocks, left[1].blocks, left[0].count * sizeof(left->blocks[0]));
    kvt_free(left);
}

/* Who asked for it and went away stops nobody from draining, and gets no more of it. */
static void
leave_a_plan(bool looked)
{
    struct obedient *gateway = obedient_full(
        CHAIN, BLOCKS,
        HEAD "rules:\n"
             "  - {id: drain, from: hot, to: cold, trigger: {start: 85%, stop: 50%}}\n"
             "modes: {mode: off}\n");
    const struct advisor_rules *rules = advisor_rulebook_take(gateway->rig.rulebook);
    struct shown shown = {.most = OBEDIENT_BLOCKS};
    struct advisor_dry_run *left;
    struct advisor_dry_run *other;
    size_t count;

    (void)obedient_step(gateway, SECOND);
    assert_int_equal(advisor_dry_run_new(&left, gateway->rig.planner, rules, gateway->now_ms),
                     KVT_OK);
    assert_int_equal(advisor_dry_run_new(&other, gateway->rig.planner, rules, gateway->now_ms),
                     KVT_BUSY);
    assert_null(other);
    if (looked)
        assert_int_not_equal(advisor_dry_run_step(left, show, &shown), KVT_TIMEOUT);
    count = shown.count;
    assert_int_equal(count > 0, looked);
    obedient_install(
        gateway,
        HEAD "rules:\n"
             "  - {id: drain, from: hot, to: cold, trigger: {start: 85%, stop: 50%}}\n" ENFORCED);
    obedient_run(gateway, ADVISOR_DRY_RUN_MS_MAX / SECOND - 1, SECOND);
    assert_int_equal(gateway->orders == 0, looked); /* nothing was set aside before */
    assert_int_equal(advisor_dry_run_new(&other, gateway->rig.planner, rules, gateway->now_ms),
                     KVT_BUSY);
    obedient_run(gateway, 20, SECOND);
    assert_int_equal(percent(gateway), 50);
    assert_int_equal(advisor_dry_run_new(&other, gateway->rig.planner, rules, gateway->now_ms),
                     KVT_OK);
    assert_int_equal(advisor_dry_run_step(left, show, &shown), KVT_TIMEOUT);
    assert_int_equal(shown.count, count);
    advisor_dry_run_free(left);
    assert_int_equal(obedient_step(gateway, 0), 0); /* the other goes on */
    advisor_dry_run_free(other);
    advisor_rulebook_give(gateway->rig.rulebook, rules);
    obedient_free(gateway);
}

static void
a_plan_that_is_left_ends(void **state)
{
    (void)state;
    leave_a_plan(false);
    leave_a_plan(true);
}

/* The blocks in the order in which they leave by one policy, where perhaps another one, which
 * takes some of them only, was looked at before. */
static size_t
leave_after_preview(struct shown *left, bool previewed)
{
    static const char *const drain =
        HEAD "rules:\n"
             "  - {id: drain, from: hot, to: cold, trigger: {start: 85%, stop: 30%}}\n" ENFORCED;
    struct obedient *gateway =
        obedient_new(HEAD "rules:\n"
                          "  - {id: keep-ends, do: exclude, when: depth == 9}\n"
                          "  - {id: drain, from: hot, to: cold, trigger: {start: 85%, stop: 30%}}\n"
                          "modes: {mode: off}\n",
                     &policy_lru, CHAIN);
    struct shown *shown = kvt_calloc(1, sizeof(*shown));

    assert_non_null(shown);
    shown->most = OBEDIENT_BLOCKS;
    gateway->capacity[OBEDIENT_HOT] = (uint64_t)BLOCKS * OBEDIENT_SIZE;
    obedient_store(gateway, OBEDIENT_COLD, 0, BLOCKS);
    for (uint32_t i = 0; i < BLOCKS; i += 50, gateway->now_ms += SECOND)
        obedient_store(gateway, OBEDIENT_HOT, i, i + 50);
    (void)obedient_step(gateway, SECOND);
    if (previewed)
        preview(gateway, shown);
    gateway->look = record;
    gateway->arg = left;
    left->count = 0;
    obedient_install(gateway, drain);
    obedient_run(gateway, 20, SECOND);
    kvt_free(shown);
    obedient_free(gateway);
    return left->count;
}

static void
a_preview_changes_no_order(void **state)
{
    struct shown *left = kvt_calloc(2, sizeof(*left));

    (void)state;
    assert_non_null(left);
    assert_true(leave_after_preview(&left[0], false) > BLOCKS / 2);
    assert_int_equal(leave_after_preview(&left[1], true), left[0].count);
    assert_memory_equal(left[0].blocks, left[1].blocks, left[0].count * sizeof(left->blocks[0]));
    kvt_free(left);
}

/* A rule that has enough does not turn round the blocks that it leaves where they are. */
static void
what_a_rule_leaves_keeps_its_order(void **state)
{
    struct obedient *gateway = obedient_full(
        CHAIN, BLOCKS,
        HEAD
        "rules:\n"
        "  - {id: ends, from: hot, to: cold, when: depth >= 5, trigger: {start: 85%, stop: 80%}}\n"
        "  - {id: heads, from: hot, to: cold, trigger: {start: 85%, stop: 60%}}\n" ENFORCED);
    struct shown *left = kvt_calloc(1, sizeof(*left));

    (void)state;
    assert_non_null(left);
    obedient_run(gateway, 1, SECOND);
    assert_int_equal(percent(gateway), 60);
    gateway->look = record;
    gateway->arg = left;
    obedient_install(
        gateway,
        HEAD "rules:\n"
             "  - {id: drain, from: hot, to: cold, trigger: {start: 50%, stop: 10%}}\n" ENFORCED);
    obedient_run(gateway, 5, SECOND);
    assert_int_equal(left->count, BLOCKS / 2);
    for (size_t i = 1; i < left->count; i++) /* all came at once: the ends of chains first */
        assert_true(gateway->depth[left->blocks[i]] <= gateway->depth[left->blocks[i - 1]]);
    kvt_free(left);
    obedient_free(gateway);
}

/* Each look goes up a long chain: a tick looks at some blocks only, and the next ones at others. */
static void
a_tick_ends_in_time(void **state)
{
    struct obedient *gateway = obedient_new(
        HEAD "rules:\n"
             "  - {id: keep, do: exclude, when: not prefix(0x7fffffffffff)}\n"
             "  - {id: drain, from: hot, to: cold, trigger: {start: 85%, stop: 50%}}\n" ENFORCED,
        NULL, OBEDIENT_BLOCKS);
    uint64_t passed = 0;
    int steps = 0;

    (void)state;
    gateway->capacity[OBEDIENT_HOT] = (uint64_t)OBEDIENT_BLOCKS * OBEDIENT_SIZE;
    obedient_store(gateway, OBEDIENT_HOT, 0, OBEDIENT_BLOCKS);
    test_rig_slow_down(10);
    for (; passed < OBEDIENT_BLOCKS && steps < 2000; steps++) {
        (void)obedient_step(gateway, 0);
        passed = view_of(gateway, "hot@gw0").passed_blocks;
    }
    test_rig_slow_down(0);
    assert_int_equal(passed, OBEDIENT_BLOCKS);
    assert_in_range(steps, OBEDIENT_BLOCKS / 32, OBEDIENT_BLOCKS / 8); /* 30 ms a tick */
    obedient_free(gateway);
}

static void
children_are_counted_where_a_rule_asks(void **state)
{
    struct obedient *gateway = obedient_full(
        CHAIN, BLOCKS,
        HEAD "rules:\n"
             "  - {id: keep, do: exclude, when: fanout >= 1}\n"
             "  - {id: drain, from: hot, to: cold, trigger: {start: 85%, stop: 50%}}\n" ENFORCED);

    (void)state;
    obedient_run(gateway, 3, SECOND);
    assert_int_equal(percent(gateway), 100 - 100 / CHAIN);
    obedient_free(gateway);
    gateway = obedient_full(
        CHAIN, BLOCKS,
        HEAD "classes:\n"
             "  shared: fanout >= 1\n"
             "rules:\n"
             "  - {id: keep, do: exclude, when: class(shared)}\n"
             "  - {id: drain, from: hot, to: cold, trigger: {start: 85%, stop: 50%}}\n" ENFORCED);
    obedient_run(gateway, 3, SECOND);
    assert_int_equal(percent(gateway), 100 - 100 / CHAIN);
    obedient_free(gateway);
}

/* What is hot cools down by our clock, whatever gateways have for theirs. */
static void
clocks_of_gateways_cool_nothing_down(void **state)
{
    struct obedient *gateway = obedient_full(
        CHAIN, BLOCKS, HEAD "rules:\n  - {id: keep, do: exclude}\nmodes: {mode: off}\n");
    const uint32_t often = 5;
    const uint32_t once = 500;
    struct advisor_hot_block top[2];
    struct kvt_metrics *metrics;
    struct advisor_traffic *tally;

    (void)state;
    assert_int_equal(kvt_metrics_new(&metrics), KVT_OK);
    assert_int_equal(advisor_traffic_new(&tally, metrics), KVT_OK);
    gateway->rig.planner->options.traffic = tally;
    for (int i = 0; i < 8; i++)
        obedient_read(gateway, OBEDIENT_HOT, &often, 1);
    gateway->now_ms += 24 * 60 * (uint64_t)MINUTE;
    obedient_read(gateway, OBEDIENT_HOT, &once, 1);
    assert_int_equal(advisor_traffic_hottest(tally, top, 2), 2);
    assert_int_equal(top[0].hash, often + 1);
    assert_int_equal(top[0].reads, 8);
    assert_int_equal(top[1].hash, once + 1);
    gateway->rig.planner->options.traffic = NULL;
    obedient_free(gateway);
    advisor_traffic_free(tally);
    kvt_metrics_free(metrics);
}

/* How often the log names rule "up" while its policy comes into force. */
static int
times_named(uint64_t promote_after)
{
    FILE *file = tmpfile();
    const int saved = dup(STDERR_FILENO);
    struct obedient *gateway;
    char line[1024];
    int count = 0;

    assert_non_null(file);
    kvt_log_flush(true);
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
    gateway = obedient_new_with(
        HEAD "rules:\n"
             "  - {id: up, from: cold, to: hot, do: promote, on: second_cold_hit}\n" ENFORCED,
        NULL, promote_after, CHAIN);
    (void)obedient_step(gateway, SECOND);
    obedient_free(gateway);
    kvt_log_flush(true);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    (void)close(saved);
    rewind(file);
    while (fgets(line, sizeof(line), file) != NULL)
        count += strstr(line, "event=unfollowed") != NULL && strstr(line, "rule up ") != NULL &&
                 strstr(line, "policy.promote_after") != NULL;
    (void)fclose(file);
    return count;
}

static void
a_rule_that_no_setting_lets_act_is_named(void **state)
{
    (void)state;
    assert_int_equal(times_named(0), 1);
    assert_int_equal(times_named(2), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_rule_in_front_has_stays),
        cmocka_unit_test(a_tier_of_blocks_that_stay_is_stuck),
        cmocka_unit_test(each_rule_has_its_watermarks),
        cmocka_unit_test(what_was_used_lately_is_left_alone),
        cmocka_unit_test(each_change_of_the_policy_is_followed),
        cmocka_unit_test(a_run_ends_at_its_limit_and_begins_again),
        cmocka_unit_test(no_run_deletes_more_than_it_may),
        cmocka_unit_test(a_canary_is_the_same_share_each_time),
        cmocka_unit_test(a_rule_that_fails_is_suspended_for_longer_each_time),
        cmocka_unit_test(a_preview_is_what_is_ordered),
        cmocka_unit_test(a_preview_without_memory_takes_nothing),
        cmocka_unit_test(a_plan_for_another_day_changes_no_order),
        cmocka_unit_test(a_plan_that_is_left_ends),
        cmocka_unit_test(clocks_of_gateways_cool_nothing_down),
        cmocka_unit_test(a_preview_changes_no_order),
        cmocka_unit_test(what_a_rule_leaves_keeps_its_order),
        cmocka_unit_test(a_tick_ends_in_time),
        cmocka_unit_test(a_rule_that_no_setting_lets_act_is_named),
        cmocka_unit_test(children_are_counted_where_a_rule_asks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
