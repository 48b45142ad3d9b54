/*
 * What is tested: quotas in a preview (advisor/plan/dry_run.h): what it moves for them is what
 * the planner then orders, block by block and in that order, of a policy in force or not; no copy
 * moves twice in it; what is kept stays; what a quota keeps out is counted; it fails as a whole.
 * How: a gateway of four tiers that does at once what it is told, and three namespaces of two
 * tenants; random tiers and quotas (seed printed), a preview, then the policy itself.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/order/planner_private.h"
#include "advisor/plan/dry_run.h"
#include "base/core/alloc.h"
#include "base/core/random.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/obedient_gateway.h"

#define TIERS                                                                                      \
    "version: 1\ntiers:\n  ssd: {level: G3, holders: \"hot@*\"}\n"                                 \
    "  hdd: {level: G3, holders: \"warm@*\"}\n  near: {level: G4, holders: cold@b}\n"              \
    "  far: {level: G4, holders: cold@far}\n"
#define FORGET   "  - {id: forget, in: far, do: expire, trigger: {start: 95%, stop: 90%}}\n"
#define ENFORCED "modes: {mode: enforce}\n"
#define OFF      "modes: {mode: off}\n"

enum { SECOND = 1000, HOUR = 3600 * SECOND, BLOCKS = 900, POLICY_MAX = 4096 };
enum { KINDS_MAX = 64, ROUNDS = 12 };

/* ---- what moves ---- */

/* Moves of one kind: an order has no more of them, and in a plan other kinds lie between. */
struct kind {
    char name[160];
    uint32_t blocks[OBEDIENT_BLOCKS];
    size_t count;
};

struct moves {
    struct kind kinds[KINDS_MAX];
    size_t count;
    size_t total;
    uint64_t others;                                  /* for no quota */
    bool copies[OBEDIENT_TIERS_MAX][OBEDIENT_BLOCKS]; /* that moved */
};

static void
note(struct moves *moves, const char *why, int from, int to, uint8_t owner, uint32_t block)
{
    char name[160];
    size_t at = 0;

    (void)snprintf(name, sizeof(name), "%s: %d to %d of %d", why, from, to, owner);
    while (at < moves->count && strcmp(moves->kinds[at].name, name) != 0)
        at++;
    assert_true(at < KINDS_MAX);
    if (at == moves->count) {
        memcpy(moves->kinds[at].name, name, sizeof(name));
        moves->count++;
    }
    moves->kinds[at].blocks[moves->kinds[at].count++] = block;
    moves->total++;
}

static struct moves *
moves_new(void)
{
    struct moves *moves = kvt_calloc(1, sizeof(*moves));

    assert_non_null(moves);
    return moves;
}

static void
expect_same(const struct moves *planned, const struct moves *done)
{
    for (size_t i = 0; i < done->count; i++) {
        size_t at = 0;

        while (at < planned->count && strcmp(planned->kinds[at].name, done->kinds[i].name) != 0)
            at++;
        if (at == planned->count)
            fail_msg("%s: %zu blocks that are in no plan", done->kinds[i].name,
                     done->kinds[i].count);
        if (planned->kinds[at].count != done->kinds[i].count)
            fail_msg("%s: %zu planned, %zu ordered", done->kinds[i].name, planned->kinds[at].count,
                     done->kinds[i].count);
        for (size_t k = 0; k < done->kinds[i].count; k++)
            if (planned->kinds[at].blocks[k] != done->kinds[i].blocks[k])
                fail_msg("%s: number %zu is %u, and not %u", done->kinds[i].name, k,
                         done->kinds[i].blocks[k], planned->kinds[at].blocks[k]);
    }
    assert_int_equal(planned->total, done->total);
}

/* ---- a gateway ---- */

struct scene {
    struct obedient *gateway;
    struct moves *planned;
    struct moves *done;
    bool first[OBEDIENT_TIERS_MAX][OBEDIENT_BLOCKS]; /* copies that are there when it is planned */
};

static int
tier_of(const char *name)
{
    static const char *const names[OBEDIENT_TIERS_MAX] = {"hot@gw0", "cold@b", "warm@gw0",
                                                          "cold@far"};

    for (int t = 0; t < OBEDIENT_TIERS_MAX; t++)
        if (strcmp(names[t], name) == 0)
            return t;
    return -1;
}

static void
begin(struct scene *scene, const char *policy, uint32_t chain)
{
    struct obedient *gateway = obedient_new(policy, NULL, chain);

    *scene = (struct scene){.gateway = gateway, .planned = moves_new(), .done = moves_new()};
    gateway->tiers = OBEDIENT_TIERS_MAX;
    for (int t = 0; t < OBEDIENT_TIERS_MAX; t++)
        gateway->capacity[t] = (uint64_t)OBEDIENT_BLOCKS * OBEDIENT_SIZE;
    for (uint32_t i = 0; i < OBEDIENT_BLOCKS; i++)
        gateway->owner[i] = (uint8_t)(i / chain % OBEDIENT_OWNERS);
    (void)obedient_step(gateway, 0); /* from now on it has its tiers, in this order */
}

static void
end(struct scene *scene)
{
    kvt_free(scene->planned);
    kvt_free(scene->done);
    obedient_free(scene->gateway);
}

static bool
show(void *arg, const struct advisor_dry_run_move *move)
{
    struct scene *scene = arg;
    struct moves *planned = scene->planned;
    const uint32_t block = (uint32_t)move->block.hash - 1;
    const int from = tier_of(move->tier);
    const bool deletes = move->verb == KVT_ORDER_DELETE;
    char why[KVT_NAME_MAX];

    assert_true(from >= 0 && !planned->copies[from][block]); /* none twice */
    assert_true(scene->gateway->held[from][block] && !scene->gateway->pinned[block]);
    planned->copies[from][block] = true;
    if (move->quota < 0) {
        planned->others++;
        return true;
    }
    (void)snprintf(why, sizeof(why), "quota %d, rule %d", move->quota, move->rule);
    note(planned, why, from, deletes ? -1 : tier_of(move->to), scene->gateway->owner[block], block);
    return true;
}

/* What a reason says, as numbers of the policy. */
static const char *
why_of(const struct scene *scene, const struct kvt_order *order, char why[KVT_NAME_MAX])
{
    const struct advisor_planner *planner = scene->gateway->rig.planner;

    for (size_t i = 0; i < planner->order_count; i++)
        if (planner->orders[i]->row.id == order->id && planner->orders[i]->quota > 0) {
            (void)snprintf(why, KVT_NAME_MAX, "quota %d, rule %d",
                           (int)planner->orders[i]->quota - 1, (int)planner->orders[i]->rule - 1);
            return why;
        }
    return NULL;
}

/* What came to its tier after the plan is no move of it. */
static void
record(void *arg, const struct kvt_order *order, size_t block)
{
    struct scene *scene = arg;
    char why[KVT_NAME_MAX];
    int from = OBEDIENT_FAR;
    int to = -1;

    if (order->verb != KVT_ORDER_DELETE)
        assert_true(obedient_ends(order, &from, &to));
    if (!scene->first[from][block] || scene->done->copies[from][block])
        return;
    scene->done->copies[from][block] = true;
    if (why_of(scene, order, why) == NULL)
        scene->done->others++;
    else
        note(scene->done, why, from, to, scene->gateway->owner[block], (uint32_t)block);
}

static struct advisor_rules *
rules_of(const char *text)
{
    static struct policy_problems problems;
    struct advisor_rules *rules = NULL;
    struct kvt_error err = {.text = ""};

    if (advisor_rules_new(&rules, text, strlen(text), &problems, &err) != KVT_OK)
        fail_msg("%s: %s\n%s", err.text, problems.list[0].text, text);
    return rules;
}

static enum kvt_err
preview(struct scene *scene, const struct advisor_rules *rules,
        struct advisor_dry_run_quota *quotas)
{
    struct advisor_dry_run *it;
    enum kvt_err rc =
        advisor_dry_run_new(&it, scene->gateway->rig.planner, rules, scene->gateway->now_ms);

    if (rc != KVT_OK)
        return rc;
    do {
        rc = advisor_dry_run_step(it, show, scene);
        if (rc == KVT_AGAIN && advisor_dry_run_waits(it)) /* an order is made */
            advisor_planner_tick(scene->gateway->rig.planner, scene->gateway->now_ms);
    } while (rc == KVT_AGAIN);
    for (size_t i = 0; i < rules->policy->quotas.count && rc == KVT_OK && quotas != NULL; i++)
        quotas[i] = advisor_dry_run_quota(it, (int32_t)i);
    advisor_dry_run_free(it);
    return rc;
}

static void
act(struct scene *scene, const char *policy, int steps)
{
    struct obedient *gateway = scene->gateway;

    memcpy(scene->first, gateway->held, sizeof(scene->first));
    gateway->look = record;
    gateway->arg = scene;
    obedient_install(gateway, policy);
    for (int i = 0; i < steps; i++)
        (void)obedient_step(gateway, SECOND);
}

/* ---- random ones ---- */

static void
fill(struct scene *scene, uint64_t *random, uint32_t chain)
{
    struct obedient *gateway = scene->gateway;
    uint32_t read[8];

    for (int t = 0; t < OBEDIENT_TIERS_MAX; t++)
        for (int piece = 0; piece < 4; piece++) {
            const uint32_t from = (uint32_t)kvt_random_below(random, BLOCKS);

            obedient_store(gateway, t, from,
                           from + 1 + (uint32_t)kvt_random_below(random, BLOCKS / 3));
            gateway->now_ms += kvt_random_below(random, HOUR / 8);
        }
    gateway->now_ms += (uint64_t)2 * HOUR;
    for (int i = 0; i < 12; i++) { /* used of late */
        const uint32_t first = chain * (uint32_t)kvt_random_below(random, BLOCKS / chain);

        for (uint32_t k = 0; k < chain; k++)
            read[k] = first + k;
        obedient_read(gateway, OBEDIENT_HOT, read, 1 + kvt_random_below(random, chain));
        gateway->now_ms += SECOND;
    }
    for (uint32_t i = 0; i < OBEDIENT_BLOCKS; i++)
        gateway->pinned[i] = kvt_random_below(random, 40) == 0;
    obedient_tell_pins(gateway, 64, UINT32_MAX);
    (void)obedient_step(gateway, SECOND);
}

/* Each tenant has one in every other tier: what comes to a tier was used there a moment ago, with
 * the chain before it, and may have to leave again, which a plan does not foresee. */
static void
add_quotas(const struct scene *scene, uint64_t *random, char text[POLICY_MAX])
{
    static const char *const tiers[] = {"ssd", "hdd", "near", "far"};
    static const int numbers[] = {OBEDIENT_HOT, OBEDIENT_WARM, OBEDIENT_COLD, OBEDIENT_FAR};
    static const char *const tenants[] = {"acme", "zeta"};

    for (int tenant = 0; tenant < 2; tenant++) {
        const int odd = (int)kvt_random_below(random, 2);

        for (int i = 0; i < 4; i++) {
            uint64_t used = obedient_used_by(scene->gateway, numbers[i], (uint8_t)tenant);
            uint64_t hard;

            if (tenant == 1)
                used += obedient_used_by(scene->gateway, numbers[i], 2);
            hard = 1000 + used * (20 + kvt_random_below(random, 100)) / 100;
            if (kvt_random_below(random, 4) > 0 && i % 2 == odd)
                (void)snprintf(
                    text + strlen(text), POLICY_MAX - strlen(text),
                    "  - {tenant: %s, tier: %s, soft: %lluB, hard: %lluB}\n", tenants[tenant],
                    tiers[i],
                    (unsigned long long)(hard * (40 + kvt_random_below(random, 60)) / 100),
                    (unsigned long long)hard);
        }
    }
}

static void
random_policy(const struct scene *scene, uint64_t *random, char text[POLICY_MAX])
{
    static const char *const rules[][2] = {
        {"", "  - {id: mine, do: exclude, when: model == qwen}\n"},
        {"", "  - {id: keep, pin: {tiers: ssd}, when: model == llama}\n"},
        {"",
         "  - {id: near-down, from: near, to: far, when: depth > 1, trigger: {start: 99%, stop: "
         "98%}}\n"},
    };

    (void)snprintf(text, POLICY_MAX, TIERS "defaults: {protect_recent: 1h}\nrules:\n");
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        (void)snprintf(text + strlen(text), POLICY_MAX - strlen(text), "%s",
                       rules[i][kvt_random_below(random, 2)]);
    (void)snprintf(text + strlen(text), POLICY_MAX - strlen(text), "%s",
                   FORGET "quotas:\n  - {tenant: nobody, hard: 1B}\n");
    add_quotas(scene, random, text);
}

/* Its text with another mode. */
static const char *
with_mode(const char *policy, const char *mode, char text[POLICY_MAX])
{
    assert_true(snprintf(text, POLICY_MAX, "%s%s", policy, mode) < POLICY_MAX);
    return text;
}

static void
the_plan_is_what_is_ordered(void **state)
{
    uint64_t random = test_seed();
    size_t moved = 0;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const uint32_t chain = round % 4 < 2 ? 1 : 4;
        char text[POLICY_MAX];
        char whole[POLICY_MAX + 64];
        struct scene scene;
        struct advisor_rules *rules;

        begin(&scene, TIERS "rules:\n" FORGET OFF, chain);
        fill(&scene, &random, chain);
        random_policy(&scene, &random, text);
        if (round % 2 == 0) { /* in force, or not */
            obedient_install(scene.gateway, with_mode(text, OFF, whole));
            (void)obedient_step(scene.gateway, 0);
        }
        rules = rules_of(with_mode(text, round % 2 == 0 ? OFF : ENFORCED, whole));
        assert_int_equal(preview(&scene, rules, NULL), KVT_OK);
        advisor_rules_free(rules);
        act(&scene, with_mode(text, ENFORCED, whole), 150);
        expect_same(scene.planned, scene.done);
        moved += scene.planned->total;
        end(&scene);
    }
    assert_true(moved > 1000);
}

/* ---- one at a time ---- */

/* Blocks of zeta/llama: each third one. */
static void
store(struct scene *scene, int tier, uint32_t from, uint32_t count)
{
    uint32_t *blocks = kvt_calloc(count, sizeof(*blocks));

    assert_non_null(blocks);
    for (uint32_t i = 0; i < count; i++)
        blocks[i] = (from + i) * OBEDIENT_OWNERS + 1;
    obedient_publish(scene->gateway, tier, blocks, count, true);
    kvt_free(blocks);
    (void)obedient_step(scene->gateway, SECOND);
}

static uint64_t
zeta(const struct scene *scene, int tier)
{
    return obedient_used_by(scene->gateway, tier, 1) / OBEDIENT_SIZE;
}

/* It is planned before it is in force, then done; the same copies leave. */
static void
plan_and_act(struct scene *scene, const char *policy, struct advisor_dry_run_quota *quotas,
             int steps)
{
    char text[POLICY_MAX];
    struct advisor_rules *rules = rules_of(with_mode(policy, ENFORCED, text));

    assert_int_equal(preview(scene, rules, quotas), KVT_OK);
    advisor_rules_free(rules);
    act(scene, with_mode(policy, ENFORCED, text), steps);
    expect_same(scene->planned, scene->done);
    assert_int_equal(scene->planned->others, scene->done->others);
    assert_memory_equal(scene->planned->copies, scene->done->copies, sizeof(scene->done->copies));
}

/* What a quota brings to the next tier makes that one's quota act, too. */
static void
what_comes_counts(void **state)
{
    struct advisor_dry_run_quota quotas[2];
    struct scene scene;

    (void)state;
    begin(&scene, TIERS "rules:\n" FORGET OFF, 1);
    store(&scene, OBEDIENT_WARM, 0, 80);
    store(&scene, OBEDIENT_HOT, 100, 150);
    plan_and_act(&scene,
                 TIERS "rules:\n" FORGET "quotas:\n  - {tenant: zeta, tier: ssd, hard: 100KB}\n"
                       "  - {tenant: zeta, tier: hdd, soft: 90KB, hard: 100KB}\n",
                 quotas, 30);
    assert_int_equal(quotas[0].before, 150 * OBEDIENT_SIZE);
    assert_int_equal(quotas[0].blocks, 50);
    assert_int_equal(quotas[0].bytes, 50 * OBEDIENT_SIZE);
    assert_int_equal(quotas[0].after, 100 * OBEDIENT_SIZE);
    assert_int_equal(quotas[1].before, 80 * OBEDIENT_SIZE);
    assert_int_equal(quotas[1].blocks, 40); /* 80 and 50 that come, and 90 may stay */
    assert_int_equal(quotas[1].after, 90 * OBEDIENT_SIZE);
    assert_int_equal(zeta(&scene, OBEDIENT_WARM), 90);
    end(&scene);
}

/* Going down takes nothing from a quota of all tiers; what leaves the last one does. */
static void
all_tiers_together(void **state)
{
    struct advisor_dry_run_quota quota;
    struct scene scene;

    (void)state;
    begin(&scene, TIERS "rules:\n" FORGET OFF, 1);
    store(&scene, OBEDIENT_FAR, 0, 300);
    store(&scene, OBEDIENT_COLD, 300, 200);
    store(&scene, OBEDIENT_HOT, 500, 100);
    plan_and_act(&scene, TIERS "rules:\n" FORGET "quotas:\n  - {tenant: zeta, hard: 400KB}\n",
                 &quota, 60);
    assert_int_equal(quota.before, 600 * OBEDIENT_SIZE);
    assert_int_equal(quota.after, 400 * OBEDIENT_SIZE);
    assert_int_equal(quota.blocks, 100 + 200 + 200);
    end(&scene);
}

/* Rules that drain make room below: what a quota could not move before goes then. */
static void
rules_make_room_for_quotas(void **state)
{
    struct advisor_dry_run_quota quota;
    struct scene scene;

    (void)state;
    begin(&scene, TIERS "rules:\n" FORGET OFF, 1);
    scene.gateway->capacity[OBEDIENT_WARM] = (uint64_t)500 * OBEDIENT_SIZE;
    store(&scene, OBEDIENT_WARM, 0, 490);
    store(&scene, OBEDIENT_HOT, 600, 150);
    plan_and_act(&scene,
                 TIERS "rules:\n"
                       "  - {id: hdd-down, from: hdd, to: near, trigger: {start: 90%, stop: 50%}}\n"
                       "quotas:\n  - {tenant: zeta, tier: ssd, hard: 100KB}\n",
                 &quota, 90);
    assert_int_equal(quota.blocks, 50);
    assert_int_equal(scene.planned->others, 240);
    end(&scene);
}

/* It was below its watermark, and what comes for a quota brings it there. */
static void
a_tier_that_a_quota_fills_is_drained(void **state)
{
    struct advisor_dry_run_quota quota;
    struct scene scene;

    (void)state;
    begin(&scene, TIERS "rules:\n" FORGET OFF, 1);
    scene.gateway->capacity[OBEDIENT_WARM] = (uint64_t)500 * OBEDIENT_SIZE;
    store(&scene, OBEDIENT_WARM, 0, 400);
    store(&scene, OBEDIENT_HOT, 600, 180);
    plan_and_act(&scene,
                 TIERS "defaults: {order_by: lru}\nrules:\n"
                       "  - {id: hdd-down, from: hdd, to: near, trigger: {start: 90%, stop: 50%}}\n"
                       "quotas:\n  - {tenant: zeta, tier: ssd, hard: 100KB}\n",
                 &quota, 90);
    assert_int_equal(quota.blocks, 80);
    assert_int_equal(scene.planned->others, 200);
    end(&scene);
}

/* What leaves for a quota need not leave by a watermark, and does not leave twice. */
static void
quotas_and_watermarks_count_together(void **state)
{
    struct advisor_dry_run_quota quota;
    struct scene scene;

    (void)state;
    begin(&scene, TIERS "rules:\n" FORGET OFF, 1);
    scene.gateway->capacity[OBEDIENT_HOT] = (uint64_t)1000 * OBEDIENT_SIZE;
    store(&scene, OBEDIENT_HOT, 0, 316); /* of zeta: they are the first for both */
    obedient_store(scene.gateway, OBEDIENT_HOT, 0, 950);
    (void)obedient_step(scene.gateway, SECOND);
    plan_and_act(&scene,
                 TIERS "defaults: {order_by: lru}\nrules:\n"
                       "  - {id: ssd-down, from: ssd, to: hdd, trigger: {start: 70%, stop: 60%}}\n"
                       "quotas:\n  - {tenant: zeta, tier: ssd, hard: 500KB}\n",
                 &quota, 30);
    assert_int_equal(quota.blocks, 633 - 500);
    assert_int_equal(scene.planned->others, 950 - 600 - quota.blocks);
    assert_int_equal(obedient_used(scene.gateway, OBEDIENT_HOT), 600 * OBEDIENT_SIZE);
    end(&scene);
}

/* What a rule would bring up and a quota does not let in. */
static void
what_may_not_come_is_counted(void **state)
{
    struct advisor_dry_run_quota quota;
    struct scene scene;

    (void)state;
    begin(&scene, TIERS "rules:\n" FORGET OFF, 1);
    store(&scene, OBEDIENT_WARM, 0, 150);
    store(&scene, OBEDIENT_HOT, 200, 40);
    plan_and_act(&scene,
                 TIERS "rules:\n  - {id: up, from: hdd, to: ssd, when: depth < 1}\n"
                       "quotas:\n  - {tenant: zeta, tier: ssd, hard: 100KB}\n",
                 &quota, 10);
    assert_int_equal(scene.planned->others, 60);
    assert_int_equal(quota.refused_blocks, 90);
    assert_int_equal(quota.refused_bytes, 90 * OBEDIENT_SIZE);
    assert_int_equal(quota.after, 100 * OBEDIENT_SIZE);
    assert_int_equal(zeta(&scene, OBEDIENT_HOT), 100);
    end(&scene);
}

/* What was ordered and did not go yet is not planned again. */
static void
what_was_ordered_counts_as_gone(void **state)
{
    char text[POLICY_MAX];
    const char *policy =
        with_mode(TIERS "rules:\n" FORGET "quotas:\n  - {tenant: zeta, tier: ssd, hard: 100KB}\n",
                  ENFORCED, text);
    struct advisor_dry_run_quota quota;
    const struct advisor_rules *rules;
    struct scene scene;

    (void)state;
    begin(&scene, TIERS "rules:\n" FORGET OFF, 1);
    store(&scene, OBEDIENT_HOT, 0, 1500);
    obedient_install(scene.gateway, policy);
    advisor_planner_tick(scene.gateway->rig.planner, scene.gateway->now_ms);
    test_rig_run(&scene.gateway->rig);
    assert_int_equal(scene.gateway->rig.planner->orders[0]->row.items, KVT_ORDER_ITEMS_MAX);
    rules = advisor_rulebook_take(scene.gateway->rig.rulebook);
    assert_int_equal(preview(&scene, rules, &quota), KVT_OK);
    advisor_rulebook_give(scene.gateway->rig.rulebook, rules);
    assert_int_equal(quota.before, 1500 * OBEDIENT_SIZE);
    assert_int_equal(quota.blocks, 1500 - 100 - KVT_ORDER_ITEMS_MAX);
    assert_int_equal(quota.after, 100 * OBEDIENT_SIZE);
    end(&scene);
}

/* It has all of it or says that it has not. */
static void
without_memory_nothing_is_left_out(void **state)
{
    char text[POLICY_MAX];
    struct advisor_rules *rules = rules_of(
        with_mode(TIERS "rules:\n" FORGET "quotas:\n  - {tenant: zeta, tier: ssd, hard: 100KB}\n",
                  OFF, text));
    struct scene scene;
    int failed = 0;
    bool whole = false;

    (void)state;
    begin(&scene, TIERS "rules:\n" FORGET OFF, 1);
    store(&scene, OBEDIENT_HOT, 0, 600);
    for (size_t n = 0; n < 100 && !whole; n++) {
        enum kvt_err rc;

        kvt_free(scene.planned);
        scene.planned = moves_new();
        kvt_alloc_fail_after(n);
        rc = preview(&scene, rules, NULL);
        kvt_alloc_fail_after(SIZE_MAX);
        assert_true(rc == KVT_OK || rc == KVT_NOMEM);
        assert_null(scene.gateway->rig.planner->guest);
        failed += rc == KVT_NOMEM;
        whole = rc == KVT_OK && scene.planned->total == 500;
        assert_true(rc == KVT_NOMEM || whole);
    }
    assert_true(whole && failed >= 5);
    advisor_rules_free(rules);
    end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plan_is_what_is_ordered),
        cmocka_unit_test(what_comes_counts),
        cmocka_unit_test(all_tiers_together),
        cmocka_unit_test(rules_make_room_for_quotas),
        cmocka_unit_test(a_tier_that_a_quota_fills_is_drained),
        cmocka_unit_test(quotas_and_watermarks_count_together),
        cmocka_unit_test(what_may_not_come_is_counted),
        cmocka_unit_test(what_was_ordered_counts_as_gone),
        cmocka_unit_test(without_memory_nothing_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
