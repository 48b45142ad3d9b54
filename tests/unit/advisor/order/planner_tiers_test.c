/*
 * What is tested: one policy over four tiers (two volumes, two buckets): every edge down and up, in
 * orders that name the tiers; lower tiers are drained first; caps, pins and protect_recent hold;
 * copies are made ahead; what no gateway can follow says so.
 * How: a model of a gateway obeys; directed cases, and random lives (seed printed).
 */
#include <string.h>

#include "advisor/plan/dry_run.h"
#include "advisor/selection/active_rules.h"
#include "base/core/alloc.h"
#include "base/core/random.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/random_life.h"

#define TIERS                                                                                      \
    "version: 1\ntiers:\n  ssd: {level: G3, holders: \"hot@*\"}\n"                                 \
    "  hdd: {level: G3, holders: \"warm@*\"}\n  near: {level: G4, holders: cold@b}\n"              \
    "  far: {level: G4, holders: cold@far}\n"
#define UP                                                                                         \
    "  - {id: hdd-up, from: hdd, to: ssd, on: second_cold_hit}\n"                                  \
    "  - {id: near-up, from: near, to: hdd, on: second_cold_hit}\n"                                \
    "  - {id: far-up, from: far, to: near, on: second_cold_hit}\n"
#define DOWN                                                                                       \
    "  - {id: ssd-down, from: ssd, to: hdd, trigger: {start: 80%, stop: 60%}}\n"                   \
    "  - {id: hdd-down, from: hdd, to: near, trigger: {start: 80%, stop: 60%}}\n"                  \
    "  - {id: near-down, from: near, to: far, trigger: {start: 80%, stop: 70%}}\n"                 \
    "  - {id: forget, in: far, do: expire, trigger: {start: 90%, stop: 80%}}\n"
#define ENFORCE "modes: {mode: enforce}\n"

enum { CHAIN = 8, BATCH = KVT_ORDER_ITEMS_MAX };

static const int capacities[OBEDIENT_TIERS_MAX] = {
    [OBEDIENT_HOT] = 500, [OBEDIENT_WARM] = 1200, [OBEDIENT_COLD] = 2500, [OBEDIENT_FAR] = 4000};
/* From the hottest to the coldest. */
static const int ladder[] = {OBEDIENT_HOT, OBEDIENT_WARM, OBEDIENT_COLD, OBEDIENT_FAR};

static const char plain[] = TIERS "rules:\n" UP DOWN ENFORCE;
static const char protective[] = TIERS "defaults: {protect_recent: 30s}\nrules:\n" UP DOWN ENFORCE;

static struct obedient *
four_tiers(const char *policy)
{
    struct obedient *gateway = obedient_new(policy, NULL, CHAIN);

    gateway->tiers = OBEDIENT_TIERS_MAX;
    for (int t = 0; t < OBEDIENT_TIERS_MAX; t++)
        gateway->capacity[t] = (uint64_t)capacities[t] * OBEDIENT_SIZE;
    return gateway;
}

static uint64_t
blocks_of(const struct obedient *gateway, int tier)
{
    return obedient_used(gateway, tier) / OBEDIENT_SIZE;
}

static struct advisor_rule_view
rule_of(struct obedient *gateway, const char *id)
{
    struct advisor_rule_view views[16];
    const size_t count = advisor_planner_rules(gateway->rig.planner, views, 16);

    for (size_t i = 0; i < count; i++)
        if (strcmp(views[i].id, id) == 0)
            return views[i];
    fail_msg("no rule %s", id);
    return views[0];
}

/* ---- one edge after another ---- */

static void
each_step_down_is_an_edge(void **state)
{
    struct obedient *gateway = four_tiers(plain);

    (void)state;
    obedient_store(gateway, OBEDIENT_HOT, 0, 450);
    for (int i = 0; i < 5; i++)
        (void)obedient_step(gateway, 5000);
    assert_int_equal(blocks_of(gateway, OBEDIENT_HOT), 300); /* down to 60% */
    assert_int_equal(gateway->edges[OBEDIENT_HOT][OBEDIENT_WARM], 150);
    obedient_store(gateway, OBEDIENT_WARM, 1000, 2000);
    for (int i = 0; i < 5; i++)
        (void)obedient_step(gateway, 5000);
    assert_int_equal(blocks_of(gateway, OBEDIENT_WARM), 720);
    assert_int_equal(gateway->edges[OBEDIENT_WARM][OBEDIENT_COLD], 430);
    obedient_store(gateway, OBEDIENT_COLD, 3000, 5000);
    for (int i = 0; i < 5; i++)
        (void)obedient_step(gateway, 5000);
    assert_int_equal(blocks_of(gateway, OBEDIENT_COLD), 1750);
    assert_int_equal(gateway->edges[OBEDIENT_COLD][OBEDIENT_FAR], 680);
    obedient_store(gateway, OBEDIENT_FAR, 5000, 8000);
    for (int i = 0; i < 5; i++)
        (void)obedient_step(gateway, 5000);
    assert_int_equal(blocks_of(gateway, OBEDIENT_FAR), 3200);
    assert_int_equal(gateway->moved[KVT_ORDER_DELETE], 480);
    obedient_free(gateway);
}

static void
each_step_up_is_an_edge(void **state)
{
    struct obedient *gateway = four_tiers(plain);
    const uint32_t block = 7;

    (void)state;
    obedient_publish(gateway, OBEDIENT_FAR, &block, 1, true);
    for (int at = 3; at > 0; at--) {
        const bool stays = ladder[at] == OBEDIENT_COLD; /* a bucket's copy stays below a volume's */

        obedient_read(gateway, ladder[at], &block, 1);
        (void)obedient_step(gateway, 5000);
        assert_false(gateway->held[ladder[at - 1]][block]); /* once is not enough */
        obedient_read(gateway, ladder[at], &block, 1);
        (void)obedient_step(gateway, 5000);
        assert_true(gateway->held[ladder[at - 1]][block]);
        assert_int_equal(gateway->edges[ladder[at]][ladder[at - 1]], 1);
        assert_int_equal(gateway->held[ladder[at]][block], stays);
    }
    obedient_free(gateway);
}

static void
policies_of_two_tiers_name_none(void **state)
{
    struct obedient *gateway = obedient_new(
        "version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\nrules:\n"
        "  - {id: down, from: hot, to: cold, trigger: {start: 80%, stop: 60%}}\n" ENFORCE,
        NULL, CHAIN);

    (void)state;
    gateway->tiers = OBEDIENT_TIERS_MAX; /* `warm@` is the policy's hot tier too */
    for (int t = 0; t < OBEDIENT_TIERS_MAX; t++)
        gateway->capacity[t] = (uint64_t)capacities[t] * OBEDIENT_SIZE;
    obedient_store(gateway, OBEDIENT_HOT, 0, 450);
    obedient_store(gateway, OBEDIENT_WARM, 1000, 2000);
    for (int i = 0; i < 5; i++)
        (void)obedient_step(gateway, 5000);
    assert_int_equal(gateway->edges[OBEDIENT_HOT][OBEDIENT_COLD], 150);
    assert_int_equal(gateway->edges[OBEDIENT_WARM][OBEDIENT_COLD], 280);
    obedient_free(gateway);
}

/* ---- room ---- */

static void
full_tiers_are_drained_first(void **state)
{
    struct obedient *gateway = four_tiers(plain);

    (void)state;
    obedient_store(gateway, OBEDIENT_FAR, 4000, 7600); /* at its start */
    obedient_store(gateway, OBEDIENT_COLD, 2000, 4000);
    memset(gateway->pinned + 4000, true, 3600); /* and nothing of it may go */
    for (int i = 0; i < 5; i++)
        (void)obedient_step(gateway, 5000);
    assert_int_equal(gateway->edges[OBEDIENT_COLD][OBEDIENT_FAR], 0);
    assert_int_equal(blocks_of(gateway, OBEDIENT_COLD), 2000);
    assert_non_null(strstr(rule_of(gateway, "near-down").why, "drained first"));
    assert_string_equal(rule_of(gateway, "ssd-down").why, "");
    memset(gateway->pinned, false, sizeof(gateway->pinned));
    for (int i = 0; i < 400 && blocks_of(gateway, OBEDIENT_COLD) > 1750; i++)
        (void)obedient_step(gateway, 10000);
    assert_int_equal(blocks_of(gateway, OBEDIENT_COLD), 1750);
    assert_int_equal(gateway->edges[OBEDIENT_COLD][OBEDIENT_FAR], 250);
    obedient_free(gateway);
}

/* What is below already needs no room there. */
static void
forgetting_needs_no_room(void **state)
{
    struct obedient *gateway = four_tiers(plain);

    (void)state;
    obedient_store(gateway, OBEDIENT_COLD, 0, 2200);
    obedient_store(gateway, OBEDIENT_FAR, 4000, 7600);
    memset(gateway->pinned + 2200, true, OBEDIENT_BLOCKS - 2200); /* far and near are full */
    obedient_store(gateway, OBEDIENT_WARM, 0, 1000);
    for (int i = 0; i < 5; i++)
        (void)obedient_step(gateway, 5000);
    assert_int_equal(blocks_of(gateway, OBEDIENT_WARM), 720);
    assert_int_equal(gateway->edges[OBEDIENT_WARM][OBEDIENT_COLD], 280);
    obedient_free(gateway);
}

static void
copies_are_made_ahead(void **state)
{
    struct obedient *gateway = four_tiers(
        TIERS "rules:\n  - {id: ssd-down, from: ssd, to: hdd, trigger: {start: 80%, stop: 60%, "
              "prestage: 40%}}\n" ENFORCE);

    (void)state;
    obedient_store(gateway, OBEDIENT_HOT, 0, 300);
    for (int i = 0; i < 8; i++)
        (void)obedient_step(gateway, 5000);
    assert_int_equal(blocks_of(gateway, OBEDIENT_HOT), 300); /* nothing left */
    assert_int_equal(blocks_of(gateway, OBEDIENT_WARM), 100);
    assert_int_equal(gateway->copied, 100); /* once each */
    obedient_store(gateway, OBEDIENT_HOT, 1000, 1150);
    for (int i = 0; i < 8; i++)
        (void)obedient_step(gateway, 5000);
    assert_int_equal(blocks_of(gateway, OBEDIENT_HOT), 300);
    for (uint32_t i = 0; i < 300; i++)
        assert_true(gateway->held[OBEDIENT_HOT][i] || gateway->held[OBEDIENT_WARM][i]);
    obedient_free(gateway);
}

/* The same between hot volume and bucket, whose orders name no tiers otherwise. */
static void
copies_are_made_ahead_in_the_bucket(void **state)
{
    struct obedient *gateway =
        obedient_new("version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\nrules:\n  - "
                     "{id: down, from: hot, to: cold, trigger: {start: 80%, "
                     "stop: 60%, prestage: 40%}}\n" ENFORCE,
                     NULL, CHAIN);

    (void)state;
    gateway->capacity[OBEDIENT_HOT] = (uint64_t)500 * OBEDIENT_SIZE;
    obedient_store(gateway, OBEDIENT_HOT, 0, 300);
    for (int i = 0; i < 8; i++)
        (void)obedient_step(gateway, 5000);
    assert_int_equal(blocks_of(gateway, OBEDIENT_HOT), 300); /* nothing left */
    assert_int_equal(blocks_of(gateway, OBEDIENT_COLD), 100);
    assert_int_equal(gateway->copied, 100);
    obedient_restart(gateway);
    obedient_store(gateway, OBEDIENT_HOT, 1000, 1150);
    for (int i = 0; i < 8; i++)
        (void)obedient_step(gateway, 5000);
    assert_int_equal(blocks_of(gateway, OBEDIENT_HOT), 300);
    for (uint32_t i = 0; i < 300; i++)
        assert_true(gateway->held[OBEDIENT_HOT][i] || gateway->held[OBEDIENT_COLD][i]);
    obedient_free(gateway);
}

static void
rules_without_their_tiers_say_so(void **state)
{
    struct obedient *gateway = obedient_new(plain, NULL, CHAIN); /* one volume, one bucket */

    (void)state;
    gateway->capacity[OBEDIENT_HOT] = (uint64_t)500 * OBEDIENT_SIZE;
    obedient_store(gateway, OBEDIENT_HOT, 0, 490);
    for (int i = 0; i < 5; i++)
        (void)obedient_step(gateway, 5000);
    assert_int_equal(gateway->orders, 0);
    assert_non_null(strstr(rule_of(gateway, "ssd-down").why, "no gateway has both"));
    assert_string_equal(rule_of(gateway, "hdd-down").why, ""); /* there is no hdd at all */
    gateway->tiers = OBEDIENT_TIERS_MAX;
    gateway->capacity[OBEDIENT_WARM] = (uint64_t)500 * OBEDIENT_SIZE;
    for (int i = 0; i < 5; i++)
        (void)obedient_step(gateway, 5000);
    assert_string_equal(rule_of(gateway, "ssd-down").why, "");
    assert_int_equal(gateway->edges[OBEDIENT_HOT][OBEDIENT_WARM], 190);
    obedient_free(gateway);
}

static void
what_came_down_is_not_stored(void **state)
{
    struct obedient *gateway = four_tiers(
        TIERS "rules:\n  - {id: hdd-new, from: hdd, to: ssd, on: stored}\n" DOWN ENFORCE);

    (void)state;
    obedient_store(gateway, OBEDIENT_HOT, 0, 450);
    for (int i = 0; i < 8; i++)
        (void)obedient_step(gateway, 5000);
    assert_int_equal(gateway->edges[OBEDIENT_HOT][OBEDIENT_WARM], 150);
    assert_int_equal(gateway->edges[OBEDIENT_WARM][OBEDIENT_HOT], 0);
    obedient_store(gateway, OBEDIENT_WARM, 1000, 1010); /* by somebody else */
    for (int i = 0; i < 4; i++)
        (void)obedient_step(gateway, 5000);
    assert_int_equal(gateway->edges[OBEDIENT_WARM][OBEDIENT_HOT], 0); /* no room above 60% */
    gateway->capacity[OBEDIENT_HOT] *= 2;
    obedient_store(gateway, OBEDIENT_WARM, 1010, 1020);
    for (int i = 0; i < 4; i++)
        (void)obedient_step(gateway, 5000);
    assert_int_equal(gateway->edges[OBEDIENT_WARM][OBEDIENT_HOT], 10);
    obedient_free(gateway);
}

/* Without a watermark: from bucket to bucket and from volume to volume, by passes over the rows. */
static void
passes_go_along_edges(void **state)
{
    struct obedient *gateway =
        four_tiers(TIERS "rules:\n  - {id: age, from: near, to: far, when: last_access > 1h}\n"
                         "  - {id: warm-up, from: hdd, to: ssd, when: depth < 1}\n" ENFORCE);

    (void)state;
    obedient_store(gateway, OBEDIENT_COLD, 0, 80);
    gateway->now_ms += 2 * 3600000;
    obedient_store(gateway, OBEDIENT_COLD, 80, 160);
    obedient_store(gateway, OBEDIENT_WARM, 160, 240);
    for (int i = 0; i < 4; i++)
        (void)obedient_step(gateway, 5000);
    assert_int_equal(gateway->edges[OBEDIENT_COLD][OBEDIENT_FAR], 80);
    assert_int_equal(gateway->edges[OBEDIENT_WARM][OBEDIENT_HOT], 80 / CHAIN);
    assert_int_equal(blocks_of(gateway, OBEDIENT_COLD), 80);
    obedient_free(gateway);
}

static void
expiring_ends_the_block(void **state)
{
    struct obedient *gateway = four_tiers(
        TIERS "rules:\n  - {id: old, in: far, do: expire, when: last_access > 1h}\n" ENFORCE);

    (void)state;
    obedient_store(gateway, OBEDIENT_FAR, 0, 10);
    obedient_store(gateway, OBEDIENT_HOT, 5, 10);
    gateway->now_ms += 2 * 3600000;
    for (int i = 0; i < 4; i++)
        (void)obedient_step(gateway, 5000);
    assert_int_equal(blocks_of(gateway, OBEDIENT_FAR), 0);
    assert_int_equal(blocks_of(gateway, OBEDIENT_HOT), 0); /* with all its copies */
    obedient_free(gateway);
}

static void
a_pin_of_another_copy_keeps_the_block(void **state)
{
    struct obedient *gateway =
        four_tiers(TIERS "rules:\n  - {id: keep, pin: {tiers: ssd}, when: depth < 1}\n"
                         "  - {id: old, in: far, do: expire, when: last_access > 1h}\n" ENFORCE);

    (void)state;
    obedient_store(gateway, OBEDIENT_FAR, 0, 5 * CHAIN);
    obedient_store(gateway, OBEDIENT_HOT, 0, 3 * CHAIN);
    gateway->now_ms += 2 * 3600000;
    for (int i = 0; i < 4; i++)
        (void)obedient_step(gateway, 5000);
    for (size_t i = 0; i < (size_t)5 * CHAIN; i++)
        assert_int_equal(gateway->held[OBEDIENT_FAR][i], i < (size_t)3 * CHAIN && i % CHAIN == 0);
    assert_int_equal(blocks_of(gateway, OBEDIENT_HOT), 3);
    obedient_free(gateway);
}

/* ---- plans ---- */

struct planned {
    uint64_t blocks[OBEDIENT_TIERS_MAX];
    uint64_t deleted;
};

static bool
take(void *arg, const struct advisor_dry_run_move *move)
{
    static const char *const from[OBEDIENT_TIERS_MAX] = {"hot@gw0", "cold@b", "warm@gw0",
                                                         "cold@far"};
    static const char *const to[OBEDIENT_TIERS_MAX] = {"warm@gw0", "cold@far", "cold@b", ""};
    struct planned *planned = arg;

    for (int t = 0; t < OBEDIENT_TIERS_MAX; t++)
        if (strcmp(move->tier, from[t]) == 0) {
            assert_string_equal(move->to, to[t]);
            planned->blocks[t]++;
        }
    planned->deleted += move->verb == KVT_ORDER_DELETE ? 1 : 0;
    return true;
}

static void
plans_drain_the_coldest_first(void **state)
{
    struct obedient *gateway = four_tiers(plain);
    struct planned planned = {.deleted = 0};
    const struct advisor_rules *rules = advisor_rulebook_take(gateway->rig.rulebook);
    struct advisor_dry_run *preview;
    enum kvt_err rc;

    (void)state;
    obedient_store(gateway, OBEDIENT_FAR, 4000, 7600);
    obedient_store(gateway, OBEDIENT_COLD, 2000, 4000);
    obedient_store(gateway, OBEDIENT_HOT, 0, 450);
    assert_int_equal(advisor_planner_set_mode(gateway->rig.planner, ADVISOR_MODE_OFF), KVT_OK);
    (void)obedient_step(gateway, 5000);
    assert_int_equal(advisor_dry_run_new(&preview, gateway->rig.planner, rules, gateway->now_ms),
                     KVT_OK);
    do
        rc = advisor_dry_run_step(preview, take, &planned);
    while (rc == KVT_AGAIN);
    assert_int_equal(rc, KVT_OK);
    advisor_dry_run_free(preview);
    advisor_rulebook_give(gateway->rig.rulebook, rules);
    assert_int_equal(planned.blocks[OBEDIENT_FAR], 400);
    assert_int_equal(planned.deleted, 400);
    assert_int_equal(planned.blocks[OBEDIENT_COLD], 250); /* into what was made room there */
    assert_int_equal(planned.blocks[OBEDIENT_HOT], 150);
    obedient_free(gateway);
}

struct swept {
    uint64_t moved[OBEDIENT_TIERS_MAX][OBEDIENT_TIERS_MAX];
    uint64_t deleted;
    uint64_t heads; /* of them all, in the class of that name */
};

static bool
take_swept(void *arg, const struct advisor_dry_run_move *move)
{
    struct swept *swept = arg;

    swept->heads += move->classes[0];
    if (move->verb == KVT_ORDER_DELETE) {
        assert_string_equal(move->tier, "cold@far");
        swept->deleted++;
    } else if (move->verb == KVT_ORDER_PROMOTE) {
        assert_string_equal(move->tier, "warm@gw0");
        assert_string_equal(move->to, "hot@gw0");
        swept->moved[OBEDIENT_WARM][OBEDIENT_HOT]++;
    } else {
        assert_int_equal(move->verb, KVT_ORDER_DEMOTE);
        assert_string_equal(move->tier, "cold@b");
        assert_string_equal(move->to, "cold@far");
        swept->moved[OBEDIENT_COLD][OBEDIENT_FAR]++;
    }
    return true;
}

/* Whatever their schedule; and what is planned is what is done. */
static void
plans_have_what_rules_without_watermarks_do(void **state)
{
    struct obedient *gateway = four_tiers(
        TIERS "classes: {head: depth < 1}\n"
              "rules:\n  - {id: keep, pin: {tiers: ssd}, when: depth < 1}\n"
              "  - {id: old, in: far, do: expire, when: last_access > 3h}\n"
              "  - {id: age, from: near, to: far, when: last_access > 1h, schedule: {every: 24h}}\n"
              "  - {id: warm-up, from: hdd, to: ssd, when: class(head)}\n" ENFORCE);
    const struct advisor_rules *rules = advisor_rulebook_take(gateway->rig.rulebook);
    struct advisor_dry_run *preview;
    struct swept swept = {.deleted = 0};
    enum kvt_err rc;

    (void)state;
    assert_int_equal(advisor_planner_set_mode(gateway->rig.planner, ADVISOR_MODE_OFF), KVT_OK);
    obedient_store(gateway, OBEDIENT_FAR, 240, 264);
    (void)obedient_step(gateway, 5000);
    gateway->now_ms += UINT64_C(9000000);
    obedient_store(gateway, OBEDIENT_COLD, 0, 80);
    (void)obedient_step(gateway, 5000);
    gateway->now_ms += UINT64_C(5400000);
    obedient_store(gateway, OBEDIENT_COLD, 80, 160);
    obedient_store(gateway, OBEDIENT_WARM, 160, 240);
    obedient_store(gateway, OBEDIENT_HOT, 304, 344);
    (void)obedient_step(gateway, 5000);
    assert_int_equal(advisor_dry_run_new(&preview, gateway->rig.planner, rules, gateway->now_ms),
                     KVT_OK);
    do
        rc = advisor_dry_run_step(preview, take_swept, &swept);
    while (rc == KVT_AGAIN);
    assert_int_equal(rc, KVT_OK);
    assert_int_equal(advisor_dry_run_pinned(preview, 0).blocks, 40 / CHAIN);
    assert_int_equal(advisor_dry_run_pinned(preview, 0).bytes, 40 / CHAIN * OBEDIENT_SIZE);
    assert_int_equal(advisor_dry_run_pinned(preview, 1).blocks, 0);
    advisor_dry_run_free(preview);
    advisor_rulebook_give(gateway->rig.rulebook, rules);
    assert_int_equal(swept.deleted, 24);
    assert_int_equal(swept.moved[OBEDIENT_COLD][OBEDIENT_FAR], 80);
    assert_int_equal(swept.moved[OBEDIENT_WARM][OBEDIENT_HOT], 80 / CHAIN);
    assert_int_equal(swept.heads, (24 + 80 + 80) / CHAIN);

    assert_int_equal(gateway->orders, 0);
    assert_int_equal(advisor_planner_set_mode(gateway->rig.planner, ADVISOR_MODE_ENFORCE), KVT_OK);
    for (int i = 0; i < 4; i++)
        (void)obedient_step(gateway, 5000);
    assert_int_equal(gateway->edges[OBEDIENT_COLD][OBEDIENT_FAR], 80);
    assert_int_equal(gateway->edges[OBEDIENT_WARM][OBEDIENT_HOT], 80 / CHAIN);
    assert_int_equal(blocks_of(gateway, OBEDIENT_FAR), 80);
    obedient_free(gateway);
}

/* ---- whatever happens ---- */

static struct life *
new_life(const char *policy, uint64_t seed, uint64_t protect_ms)
{
    return life_new(four_tiers(policy), seed, protect_ms);
}

static void
caps_hold_and_pins_stay(void **state)
{
    struct life *life = new_life(plain, test_seed(), 0);
    struct obedient *gateway = life->gateway;
    bool had[OBEDIENT_TIERS_MAX][OBEDIENT_BLOCKS];

    (void)state;
    for (int step = 0; step < LIFE_STEPS; step++) {
        if (step % 50 == 0)
            life_pin_some(life);
        life_live(life);
        memcpy(had, gateway->held, sizeof(had));
        for (int i = 0; i < 5; i++)
            (void)obedient_step(gateway, 200);
        for (int t = 0; t < OBEDIENT_TIERS_MAX; t++)
            assert_true(blocks_of(gateway, t) <= (uint64_t)capacities[t] * 9 / 10 + BATCH);
        assert_true(blocks_of(gateway, OBEDIENT_HOT) <= (uint64_t)capacities[OBEDIENT_HOT]);
        for (size_t i = 0; i < OBEDIENT_BLOCKS; i++)
            for (int rung = 0; rung < OBEDIENT_TIERS_MAX && gateway->pinned[i]; rung++)
                if (had[ladder[rung]][i] && rung != life_rung(life, OBEDIENT_FAR) &&
                    rung != life_rung(life, OBEDIENT_WARM)) /* which a promotion may leave */
                    assert_true(gateway->held[ladder[rung]][i]);
        gateway->now_ms += 1000 + kvt_random_below(&life->random, 20000);
    }
    for (int rung = 0; rung + 1 < OBEDIENT_TIERS_MAX; rung++) {
        assert_true(gateway->edges[ladder[rung]][ladder[rung + 1]] > 100);
        assert_true(gateway->edges[ladder[rung + 1]][ladder[rung]] > 50);
    }
    assert_true(gateway->moved[KVT_ORDER_DELETE] > 100);
    life_free(life);
}

static void
nothing_flaps(void **state)
{
    (void)state;
    life_nothing_flaps(new_life(protective, test_seed(), LIFE_PROTECT_MS), 4);
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
        cmocka_unit_test(each_step_down_is_an_edge),
        cmocka_unit_test(each_step_up_is_an_edge),
        cmocka_unit_test(policies_of_two_tiers_name_none),
        cmocka_unit_test(full_tiers_are_drained_first),
        cmocka_unit_test(forgetting_needs_no_room),
        cmocka_unit_test(copies_are_made_ahead),
        cmocka_unit_test(copies_are_made_ahead_in_the_bucket),
        cmocka_unit_test(rules_without_their_tiers_say_so),
        cmocka_unit_test(what_came_down_is_not_stored),
        cmocka_unit_test(passes_go_along_edges),
        cmocka_unit_test(expiring_ends_the_block),
        cmocka_unit_test(a_pin_of_another_copy_keeps_the_block),
        cmocka_unit_test(plans_drain_the_coldest_first),
        cmocka_unit_test(plans_have_what_rules_without_watermarks_do),
        cmocka_unit_test(caps_hold_and_pins_stay),
        cmocka_unit_test(nothing_flaps),
        cmocka_unit_test(the_same_events_make_the_same_orders),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
