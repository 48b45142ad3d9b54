/*
 * What is tested: policy/simulate/policy_simulation.h.
 * How: random conversations over three tiers under lru, without limits and with each, beside a
 * model that keeps everything in plain arrays and looks at its rules every tick; small workloads
 * counted by hand for money, quotas, pins and expiry.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

#include "policy/decide/decision.h"
#include "policy/file/policy_parse.h"
#include "policy/ordering/ordering_table.h"
#include "policy/simulate/policy_simulation.h"
#include "tests/support/seed.h"
#include "tests/unit/policy/simulate/simulation_scene.h"

enum { BLOCKS = 3000, SESSIONS = 24, TIERS = 3 };
enum { HOT, WARM, COLD };
enum { HOT_BLOCKS = 60, WARM_BLOCKS = 90 };
enum { BURST_MS = 5000 }; /* of a rate, saved up at most */

/* Rules of it, and of what stands in for it below. */
enum { UP, OVER, DOWN, ON, RULES };

static const char three_tiers[] =
    TEST_TIERS_TEXT "rules:\n"
                    "  - {id: up, from: cold, to: hot, on: second_cold_hit}\n"
                    "  - {id: over, from: warm, to: hot, on: second_cold_hit}\n"
                    "  - {id: down, from: hot, to: warm, trigger: {start: 90%, stop: 70%}}\n"
                    "  - {id: on, from: warm, to: cold, trigger: {start: 90%, stop: 80%}}\n";

/* ---- the model ---- */

struct model_block {
    bool in[TIERS];
    uint64_t turn[TIERS]; /* of its last use or coming there */
    uint64_t used[TIERS]; /* tick of its last use, as far as the tier heard; 0: never */
    uint32_t parent;      /* plus 1 */
    uint32_t position;
    uint32_t recent;
    bool waits;
};

/* What a tier hears is put into order before it chooses: by tick, and in one by depth. */
struct model_touch {
    uint64_t tick;
    uint32_t block;
    uint32_t position;
};

/* What a rule may do, a tick at a time. */
struct model_limit {
    uint64_t per_run; /* 0: no limit, and so below */
    uint64_t rate;
    uint64_t run;
    uint64_t did;
    uint64_t resume_ms;
    uint64_t credit_ms;
    int64_t credit; /* thousandths of bytes */
};

struct model {
    struct model_limit limits[RULES];
    uint64_t now_ms;
    uint64_t prestage; /* blocks of HOT from which on copies are made; 0: none */
    uint64_t staged_ms;
    uint64_t staged;
    struct model_block blocks[BLOCKS];
    struct model_touch heard[TIERS][4 * BLOCKS];
    uint32_t heard_count[TIERS];
    uint64_t turn;
    uint64_t capacity[TIERS]; /* blocks; 0: endless */
    uint64_t start[TIERS];
    uint64_t stop[TIERS];
    uint64_t used[TIERS];
    bool draining[TIERS];
    uint32_t candidates[BLOCKS];
    uint32_t candidate_count;
    uint64_t reads[TIERS];
    uint64_t moved[TIERS][TIERS];
};

/* From 1 on. */
static uint64_t
model_tick(const struct model *model)
{
    return model->now_ms / 100 + 1;
}

static int
nearest(const struct model *model, uint32_t block)
{
    for (int tier = 0; tier < TIERS; tier++)
        if (model->blocks[block].in[tier])
            return tier;
    return -1;
}

static void
model_hear(struct model *model, uint32_t block, int tier)
{
    assert_true(model->heard_count[tier] < 4 * BLOCKS);
    model->heard[tier][model->heard_count[tier]++] = (struct model_touch){
        .tick = model_tick(model), .block = block, .position = model->blocks[block].position};
}

static void
model_settle(struct model *model, int tier)
{
    struct model_touch *heard = model->heard[tier];

    for (uint32_t i = 1; i < model->heard_count[tier]; i++)
        for (uint32_t k = i; k > 0 && (heard[k].tick < heard[k - 1].tick ||
                                       (heard[k].tick == heard[k - 1].tick &&
                                        heard[k].position > heard[k - 1].position));
             k--) {
            const struct model_touch swapped = heard[k];

            heard[k] = heard[k - 1];
            heard[k - 1] = swapped;
        }
    for (uint32_t i = 0; i < model->heard_count[tier]; i++)
        model->blocks[heard[i].block].turn[tier] = ++model->turn;
    model->heard_count[tier] = 0;
}

/* A tier that never heard of the block takes its coming for a use, which is one of all before it
 * too. */
static void
model_enter(struct model *model, uint32_t block, int tier)
{
    struct model_block *row = &model->blocks[block];
    bool first = row->used[tier] == 0;

    row->in[tier] = true;
    model_hear(model, block, tier);
    row->recent = 0;
    model->used[tier]++;
    while (first) {
        row->used[tier] = model_tick(model);
        block = row->parent - 1;
        if (row->parent == 0)
            return;
        row = &model->blocks[block];
        first = row->used[tier] != 0 && row->used[tier] != model_tick(model);
        if (first && row->in[tier])
            model_hear(model, block, tier);
    }
}

static void
model_request(struct model *model, const uint32_t *chain, uint32_t count)
{
    bool known[TEST_CHAIN_MAX];

    for (uint32_t i = count; i-- > 0;) {
        struct model_block *row = &model->blocks[chain[i]];
        const int tier = nearest(model, chain[i]);

        known[i] = tier >= 0;
        if (!known[i])
            continue;
        model->reads[tier]++;
        row->recent += tier > 0;
        if (tier > 0 && row->recent >= 2 && !row->waits) {
            model->candidates[model->candidate_count++] = chain[i];
            row->waits = true;
        }
    }
    for (uint32_t i = count; i-- > 0;) {
        struct model_block *row = &model->blocks[chain[i]];

        for (int tier = 0; tier < TIERS && known[i]; tier++) {
            row->used[tier] = model_tick(model);
            if (row->in[tier])
                model_hear(model, chain[i], tier);
        }
        if (known[i])
            continue;
        row->position = i;
        row->parent = i == 0 ? 0 : chain[i - 1] + 1;
        model_enter(model, chain[i],
                    model->used[HOT] < model->capacity[HOT]     ? HOT
                    : model->used[WARM] < model->capacity[WARM] ? WARM
                                                                : COLD);
        if (!row->in[COLD])
            model_enter(model, chain[i], COLD);
    }
    for (int tier = 0; tier < TIERS; tier++)
        model_settle(model, tier);
}

/* ---- the model's rules ---- */

static bool
model_may(struct model *model, int rule)
{
    struct model_limit *limit = &model->limits[rule];
    const uint64_t passed_ms = model->now_ms - limit->credit_ms;

    if (model->now_ms < limit->resume_ms)
        return false;
    if (limit->resume_ms != 0)
        limit->resume_ms = limit->run = 0;
    if (limit->per_run != 0 && limit->run >= limit->per_run) {
        limit->resume_ms = model->now_ms + 60000;
        return false;
    }
    if (limit->rate == 0)
        return true;
    limit->credit += (int64_t)(limit->rate * passed_ms);
    if (limit->credit > (int64_t)limit->rate * BURST_MS)
        limit->credit = (int64_t)limit->rate * BURST_MS;
    limit->credit_ms = model->now_ms;
    return limit->credit > 0;
}

static void
model_did(struct model *model, int rule)
{
    model->limits[rule].did++;
    model->limits[rule].run++;
    model->limits[rule].credit -= TEST_BLOCK_BYTES * 1000;
}

static void
model_watermarks(struct model *model, int tier)
{
    const bool before = model->draining[tier];

    if (model->used[tier] <= model->stop[tier])
        model->draining[tier] = false;
    else if (model->used[tier] >= model->start[tier])
        model->draining[tier] = true;
    if (model->draining[tier] != before)
        model->limits[tier == HOT ? DOWN : ON].run = 0;
}

/* The one to leave, but for those held. */
static uint32_t
model_first(struct model *model, int tier, const bool *held)
{
    uint32_t first = BLOCKS;

    model_settle(model, tier);
    for (uint32_t block = 0; block < BLOCKS; block++)
        if (model->blocks[block].in[tier] && !held[block] &&
            (first == BLOCKS || model->blocks[block].turn[tier] < model->blocks[first].turn[tier]))
            first = block;
    return first;
}

static bool
model_has_room(const struct model *model, uint32_t block, int tier)
{
    return model->blocks[block].in[tier] || tier == COLD || model->used[tier] < model->start[tier];
}

static bool
model_drain(struct model *model, int tier)
{
    const int rule = tier == HOT ? DOWN : ON;
    bool held[BLOCKS] = {false};
    bool moved = false;
    bool may;

    model_watermarks(model, tier);
    may = model->draining[tier] && model_may(model, rule);
    while (may && model->draining[tier] && model->used[tier] > model->stop[tier]) {
        const uint32_t first = model_first(model, tier, held);

        if (first == BLOCKS)
            break;
        if (!model_has_room(model, first, tier + 1)) {
            held[first] = true;
            continue;
        }
        model->moved[tier][tier + 1]++;
        if (!model->blocks[first].in[tier + 1])
            model_enter(model, first, tier + 1);
        model->blocks[first].in[tier] = false;
        model->used[tier]--;
        model_did(model, rule);
        may = model_may(model, rule);
        moved = true;
    }
    model_watermarks(model, tier);
    return moved;
}

/* Copies in WARM of what leaves HOT next. */
static bool
model_stage(struct model *model)
{
    const uint64_t before = model->staged;
    uint64_t used = model->used[HOT];
    bool held[BLOCKS] = {false};
    bool may;

    if (model->prestage == 0 || model->now_ms < model->staged_ms || used <= model->prestage)
        return false;
    may = model_may(model, DOWN);
    if (!may)
        return false;
    while (may && used > model->prestage) {
        const uint32_t first = model_first(model, HOT, held);

        if (first == BLOCKS)
            break;
        held[first] = true;
        if (!model_has_room(model, first, WARM))
            continue;
        used--;
        if (!model->blocks[first].in[WARM]) {
            model_enter(model, first, WARM);
            model->staged++;
            model_did(model, DOWN);
        }
        may = model_may(model, DOWN);
    }
    if (model->staged == before)
        model->staged_ms = model->now_ms + 5000;
    return model->staged > before;
}

static bool
model_promote(struct model *model)
{
    uint32_t kept = 0;
    bool moved = false;

    for (uint32_t i = 0; i < model->candidate_count; i++) {
        const uint32_t block = model->candidates[i];
        const int tier = nearest(model, block);
        const int rule = tier == COLD ? UP : OVER;

        if (tier > 0 && model->blocks[block].recent >= 2) {
            if (model->draining[HOT] || model->used[HOT] >= model->start[HOT]) {
                model->candidates[kept++] = block;
                continue;
            }
            if (model_may(model, rule)) {
                model->moved[tier][HOT]++;
                model_enter(model, block, HOT);
                model->used[WARM] -= model->blocks[block].in[WARM];
                model->blocks[block].in[WARM] = false;
                model_did(model, rule);
                moved = true;
            }
        }
        model->blocks[block].waits = false;
    }
    model->candidate_count = kept;
    return moved;
}

static void
model_act(struct model *model)
{
    bool moved = true;

    while (moved) {
        moved = model_drain(model, WARM);
        moved = model_drain(model, HOT) || moved;
        moved = model_stage(model) || moved;
        moved = model_promote(model) || moved;
    }
}

/* What limits keep back goes on between two requests. */
static void
model_wait(struct model *model, uint64_t until_ms)
{
    for (uint64_t at = model->now_ms + 100; at < until_ms; at += 100) {
        model->now_ms = at;
        if (model->draining[HOT] || model->draining[WARM] || model->prestage != 0)
            model_act(model);
    }
    model->now_ms = until_ms;
}

static void
compare(const struct test_scene *scene, const struct model *model, uint32_t blocks)
{
    const struct policy_simulation_result result = policy_simulation_result(scene->simulation);

    assert_int_equal(result.staged, model->staged);
    for (size_t i = 0; i < RULES; i++)
        assert_int_equal(policy_simulation_figures(scene->simulation, i).blocks,
                         model->limits[i].did);
    for (uint32_t tier = 0; tier < TIERS; tier++) {
        assert_int_equal(result.tiers[tier].reads, model->reads[tier]);
        assert_int_equal(result.tiers[tier].blocks, model->used[tier]);
        for (uint32_t to = 0; to < TIERS; to++)
            assert_int_equal(result.edges[tier][to].blocks, model->moved[tier][to]);
        for (uint32_t block = 0; block < blocks; block++)
            assert_int_equal(policy_simulation_has(scene->simulation, tier, block),
                             model->blocks[block].in[tier]);
    }
}

/* Text of the rules, and the same for the model. */
struct variant {
    const char *policy;
    uint64_t per_run[RULES];
    uint64_t rate[RULES];
    uint64_t prestage;
};

static bool
kept_back(struct policy_simulation_figures figures)
{
    return figures.dropped + figures.waited_ms[POLICY_SIMULATION_RATE] +
               figures.waited_ms[POLICY_SIMULATION_PER_RUN] >
           0;
}

static void
check_variant(const struct variant *variant, uint64_t random)
{
    static uint32_t sessions[SESSIONS][TEST_CHAIN_MAX];
    uint32_t counts[SESSIONS] = {0};
    struct model *model = kvt_calloc(1, sizeof(*model));
    struct test_scene scene;
    uint32_t blocks = 0;

    assert_non_null(model);
    test_scene_open(&scene, variant->policy, "lru", HOT_BLOCKS, WARM_BLOCKS);
    *model = (struct model){.prestage = variant->prestage,
                            .capacity = {HOT_BLOCKS, WARM_BLOCKS},
                            .start = {HOT_BLOCKS * 9 / 10, WARM_BLOCKS * 9 / 10},
                            .stop = {HOT_BLOCKS * 7 / 10, WARM_BLOCKS * 8 / 10}};
    for (int i = 0; i < RULES; i++)
        model->limits[i] = (struct model_limit){.per_run = variant->per_run[i],
                                                .rate = variant->rate[i],
                                                .credit = (int64_t)variant->rate[i] * BURST_MS};
    while (blocks < BLOCKS - TEST_CHAIN_MAX) {
        const uint64_t draw = kvt_random_below(&random, SESSIONS);
        const size_t at = kvt_random_below(&random, draw + 1);
        struct policy_workload_request request = {.blocks = sessions[at], .time_ms = scene.now_ms};

        if (counts[at] > TEST_CHAIN_MAX - 6 || kvt_random_below(&random, 15) == 0)
            counts[at] = 0;
        for (uint64_t n = kvt_random_below(&random, 6); n > 0 || counts[at] == 0; n -= n > 0)
            sessions[at][counts[at]++] = blocks++;
        request.count = counts[at];
        assert_int_equal(policy_simulation_request(scene.simulation, &request), KVT_OK);
        model_wait(model, scene.now_ms);
        model_request(model, sessions[at], counts[at]);
        model_act(model);
        compare(&scene, model, blocks);
        scene.now_ms += TEST_STEP_MS;
    }
    assert_true(model->moved[HOT][WARM] > 0 && model->moved[WARM][COLD] > 0);
    /* Limits may well keep all of it down. */
    assert_true(variant->policy != three_tiers ||
                (model->moved[COLD][HOT] > 0 && model->moved[WARM][HOT] > 0));
    assert_true((model->staged > 0) == (variant->prestage > 0));
    for (size_t i = 0; i < RULES; i++)
        assert_true((variant->per_run[i] == 0 && variant->rate[i] == 0) ||
                    kept_back(policy_simulation_figures(scene.simulation, i)));
    test_scene_close(&scene);
    kvt_free(model);
}

static void
three_tiers_are_as_the_model_says(void **state)
{
    const struct variant variant = {.policy = three_tiers};

    (void)state;
    check_variant(&variant, test_seed());
}

#define UP_TEXT   "  - {id: up, from: cold, to: hot, on: second_cold_hit}\n"
#define OVER_TEXT "  - {id: over, from: warm, to: hot, on: second_cold_hit}\n"
#define ON_TEXT   "  - {id: on, from: warm, to: cold, trigger: {start: 90%, stop: 80%}}\n"

static void
limits_keep_back_what_the_model_says(void **state)
{
    static const struct variant variants[] = {
        {TEST_TIERS_TEXT "rules:\n" UP_TEXT OVER_TEXT
                         "  - {id: down, from: hot, to: warm, trigger: "
                         "{start: 90%, stop: 70%}, limits: {per_run: 5}}\n" ON_TEXT,
         .per_run = {[DOWN] = 5}},
        {TEST_TIERS_TEXT "rules:\n" UP_TEXT OVER_TEXT
                         "  - {id: down, from: hot, to: warm, trigger: "
                         "{start: 90%, stop: 70%}, limits: {rate: 600B/s}}\n" ON_TEXT,
         .rate = {[DOWN] = 600}},
        {TEST_TIERS_TEXT
         "rules:\n"
         "  - {id: up, from: cold, to: hot, on: second_cold_hit, limits: {per_run: 2}}\n"
         "  - {id: over, from: warm, to: hot, on: second_cold_hit, "
         "limits: {rate: 500B/s}}\n"
         "  - {id: down, from: hot, to: warm, trigger: {start: 90%, stop: 70%}}\n"
         "  - {id: on, from: warm, to: cold, trigger: {start: 90%, stop: 80%}, "
         "limits: {rate: 900B/s}}\n",
         .per_run = {[UP] = 2}, .rate = {[OVER] = 500, [ON] = 900}},
        {TEST_TIERS_TEXT "rules:\n" UP_TEXT OVER_TEXT
                         "  - {id: down, from: hot, to: warm, trigger: "
                         "{start: 90%, stop: 70%, prestage: 50%}}\n" ON_TEXT,
         .prestage = HOT_BLOCKS / 2},
        {TEST_TIERS_TEXT "rules:\n" UP_TEXT OVER_TEXT
                         "  - {id: down, from: hot, to: warm, trigger: {start: 90%, stop: 70%, "
                         "prestage: 60%}, limits: {per_run: 20}}\n" ON_TEXT,
         .per_run = {[DOWN] = 20}, .prestage = HOT_BLOCKS * 6 / 10},
    };
    const uint64_t seed = test_seed();

    (void)state;
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++)
        check_variant(&variants[i], seed + i);
}

/* ---- by hand ---- */

static void
what_is_full_is_passed_by(void **state)
{
    struct test_scene scene;
    struct policy_simulation_result result;

    (void)state;
    test_scene_open(&scene, TEST_TIERS_TEXT, "lru", 2, 1);
    test_scene_ask(&scene, "",
                   "abcd"); /* d and c find room in hot, b in warm, a in the bucket only */
    test_scene_ask(&scene, "", "abcd");
    result = policy_simulation_result(scene.simulation);
    assert_int_equal(result.tiers[HOT].reads, 2);
    assert_int_equal(result.tiers[WARM].reads, 1);
    assert_int_equal(result.tiers[COLD].reads, 1);
    assert_int_equal(result.tiers[COLD].puts, 4); /* written through */
    assert_int_equal(result.prefix_hits, 0);
    assert_int_equal(result.known_reads, 4);
    assert_int_equal(result.blocks, 4);
    test_scene_close(&scene);
}

static void
tiers_have_prices(void **state)
{
    static const char text[] =
        "version: 1\ntiers:\n"
        "  hot: {level: G3, prices: {gib_month: 8, latency: 1ms}}\n"
        "  cold: {level: G4, prices: {gib_month: 2, put_1k: 5, get_1k: 3, latency: 41ms}}\n"
        "modes: {mode: enforce}\n";
    const double months = 10.0 / (365.25 / 12 * 24 * 3600);
    const double gib = TEST_BLOCK_BYTES / 1073741824.0;
    struct policy_simulation_options options = {.block_bytes = TEST_BLOCK_BYTES};
    struct policy_simulation_result result;
    struct test_scene scene;

    (void)state;
    test_scene_open(&scene, text, "lru", 1, 0);
    test_scene_ask(&scene, "", "ab");
    test_scene_ask(&scene, "", "ab"); /* ten seconds later */
    result = policy_simulation_result(scene.simulation);
    options.policy = scene.policy;
    assert_true(fabs(policy_simulation_money(&result, &options, 0) - months * gib * 8) < 1e-12);
    assert_true(fabs(policy_simulation_money(&result, &options, 1) -
                     (0.005 * 2 + 0.003 * 1 + months * gib * 2 * 2)) < 1e-12);
    assert_true(fabs(policy_simulation_latency_ms(&result, scene.policy) - 21) < 1e-9);
    test_scene_close(&scene);
}

static void
a_tenant_leaves_down_to_its_quota(void **state)
{
    static const char text[] =
        TEST_TIERS_TEXT "rules:\n  - {id: up, from: warm, to: hot, on: second_cold_hit}\n"
                        "quotas:\n  - {tenant: acme, tier: hot, soft: 3000B, hard: 3000B}\n";
    struct policy_simulation_result result;
    struct test_scene scene;

    (void)state;
    test_scene_open(&scene, text, "lru", 100, 100);
    test_scene_ask(&scene, "zeta/llama", "abcdefgh");
    test_scene_ask(&scene, "acme/llama", "ab");
    test_scene_ask(&scene, "acme/qwen", "ab"); /* other blocks: one too many */
    result = policy_simulation_result(scene.simulation);
    assert_int_equal(result.edges[HOT][WARM].blocks, 1);
    assert_int_equal(policy_simulation_used_by(scene.simulation, 2, HOT),
                     1000); /* the end went first */
    assert_int_equal(policy_simulation_used_by(scene.simulation, 3, HOT), 2000);
    assert_int_equal(policy_simulation_used_by(scene.simulation, 1, HOT), 8000);
    /* Read again it may not come up: that would be above `hard`. */
    test_scene_ask(&scene, "acme/llama", "ab");
    test_scene_ask(&scene, "acme/llama", "ab");
    result = policy_simulation_result(scene.simulation);
    assert_int_equal(result.refused, 1);
    assert_int_equal(result.edges[WARM][HOT].blocks, 0);
    test_scene_close(&scene);
}

static void
what_a_rule_pins_stays(void **state)
{
    static const char text[] = TEST_TIERS_TEXT
        "rules:\n  - {id: roots, when: depth == 0, pin: {tiers: [hot], budget: 30%}}\n"
        "  - {id: down, from: hot, to: cold, trigger: {start: 80%, stop: 40%}}\n";
    struct policy_simulation_result result;
    struct test_scene scene;

    (void)state;
    test_scene_open(&scene, text, "lru", 10, 100);
    test_scene_ask(&scene, "", "abc");
    test_scene_ask(&scene, "", "def");
    test_scene_ask(&scene, "", "gh"); /* eight: four have to go */
    for (uint32_t block = 0; block < 8; block++)
        assert_int_equal(policy_simulation_has(scene.simulation, HOT, block),
                         block == 0 || block == 3 || block >= 6);
    result = policy_simulation_result(scene.simulation);
    assert_int_equal(result.edges[HOT][COLD].blocks, 4);
    assert_int_equal(result.edges[HOT][COLD].copied, 0); /* the bucket has all */
    test_scene_close(&scene);
}

static void
what_expired_is_lost(void **state)
{
    static const char text[] =
        TEST_TIERS_TEXT "rules:\n  - {id: old, in: cold, do: expire, when: last_access > 5m}\n"
                        "  - {id: ends, in: hot, do: expire, on: session_end, when: depth > 9}\n";
    struct policy_simulation_result result;
    struct test_scene scene;

    (void)state;
    test_scene_open(&scene, text, "lru", 100, 100);
    assert_false(policy_simulation_leaves_out(policy_rule_at(scene.policy, 0)));
    assert_true(policy_simulation_leaves_out(policy_rule_at(scene.policy, 1)));
    test_scene_ask(&scene, "", "ab");
    scene.now_ms += 400000;
    test_scene_ask(&scene, "", "cd");
    test_scene_ask(&scene, "", "ab");
    result = policy_simulation_result(scene.simulation);
    assert_int_equal(result.expired, 2);
    assert_int_equal(result.lost_reads, 2);
    assert_int_equal(result.known_reads, 0);
    assert_int_equal(result.blocks, 4);
    test_scene_close(&scene);
}

/* A copy that is pinned keeps the others, whatever the budget in its own tier; when the pin is over
 * they go. */
static void
what_is_pinned_elsewhere_does_not_expire(void **state)
{
    static const char text[] =
        TEST_TIERS_TEXT "rules:\n"
                        "  - {id: roots, when: depth == 0, pin: {tiers: [hot], ttl: 10m, "
                        "budget: 0%}}\n"
                        "  - {id: old, in: cold, do: expire, when: last_access > 5m}\n";
    struct test_scene scene;

    (void)state;
    test_scene_open(&scene, text, "lru", 100, 100);
    test_scene_ask(&scene, "", "abc");
    scene.now_ms += 400000;
    test_scene_ask(&scene, "", "d");
    assert_int_equal(policy_simulation_result(scene.simulation).expired, 2);
    assert_true(policy_simulation_has(scene.simulation, HOT, 0) &&
                policy_simulation_has(scene.simulation, COLD, 0));
    assert_false(policy_simulation_has(scene.simulation, HOT, 1));
    scene.now_ms += 400000;
    test_scene_ask(&scene, "", "e");
    assert_false(policy_simulation_has(scene.simulation, HOT, 0));
    assert_true(policy_simulation_has(scene.simulation, COLD, 3)); /* a root, and younger */
    assert_int_equal(policy_simulation_result(scene.simulation).expired, 3);
    test_scene_close(&scene);
}

/* Nor does a quota delete it. */
static void
what_is_pinned_elsewhere_leaves_for_no_quota(void **state)
{
    static const char text[] =
        TEST_TIERS_TEXT "rules:\n"
                        "  - {id: roots, when: depth == 0, pin: {tiers: [hot]}}\n"
                        "  - {id: old, in: cold, do: expire, when: last_access > 1h}\n"
                        "quotas:\n  - {tenant: acme, tier: cold, hard: 1000B}\n";
    struct test_scene scene;

    (void)state;
    test_scene_open(&scene, text, "lru", 100, 100);
    test_scene_ask(&scene, "acme/llama", "ab");
    test_scene_ask(&scene, "acme/llama", "cd");
    test_scene_ask(&scene, "zeta/llama", "e"); /* time passes */
    for (uint32_t block = 0; block < 4; block++)
        for (uint32_t tier = HOT; tier <= COLD; tier += COLD)
            assert_int_equal(policy_simulation_has(scene.simulation, tier, block), block % 2 == 0);
    assert_int_equal(policy_simulation_result(scene.simulation).expired, 2);
    test_scene_close(&scene);
}

/* Nor does a pin that is over its budget let it be deleted: in the bucket the same rule pins it. */
static void
what_is_pinned_elsewhere_leaves_for_no_budget(void **state)
{
    static const char text[] =
        TEST_TIERS_TEXT "rules:\n"
                        "  - {id: roots, when: depth == 0, pin: {budget: 10%}}\n"
                        "  - {id: drain, in: hot, do: expire, trigger: {start: 80%, stop: 50%}}\n";
    struct test_scene scene;

    (void)state;
    test_scene_open(&scene, text, "lru", 10, 100);
    for (char id[] = "a"; id[0] <= 'g'; id[0]++)
        test_scene_ask(&scene, "", id); /* the last pass counts seven in the volume */
    test_scene_ask(&scene, "", "hi");
    for (uint32_t block = 0; block < 9; block++)
        for (uint32_t tier = HOT; tier <= COLD; tier += COLD)
            assert_int_equal(policy_simulation_has(scene.simulation, tier, block), block < 8);
    assert_int_equal(policy_simulation_result(scene.simulation).expired, 1);
    test_scene_close(&scene);
}

static bool
run_small(void *arg)
{
    struct policy_simulation_options options = {
        .policy = arg,
        .ordering = policy_ordering_find("rhi"),
        .capacity = {2 * TEST_BLOCK_BYTES, 2 * TEST_BLOCK_BYTES},
        .block_bytes = TEST_BLOCK_BYTES,
        .tick_ms = 100,
        .cold_reads = 2,
        .roster_bytes = 1 << 20};
    const uint64_t ids[] = {1, 2, 3, 4, 5};
    struct policy_simulation *simulation = NULL;
    bool done =
        policy_workload_new((struct policy_workload **)(uintptr_t)&options.workload) == KVT_OK;

    done = done && policy_simulation_new(&simulation, &options) == KVT_OK;
    done = done && policy_workload_add((struct policy_workload *)(uintptr_t)options.workload, 0,
                                       ids, 5) == KVT_OK;
    if (done) {
        const struct policy_workload_request request = policy_workload_request(options.workload, 0);

        done = policy_simulation_request(simulation, &request) == KVT_OK;
    }
    policy_simulation_free(simulation);
    policy_workload_free((struct policy_workload *)(uintptr_t)options.workload);
    return done;
}

static void
every_failing_allocation_is_survived(void **state)
{
    struct policy *policy = test_policy(three_tiers);

    (void)state;
    assert_true(test_sweep_allocations(run_small, policy) > 5);
    policy_free(policy);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_tiers_are_as_the_model_says),
        cmocka_unit_test(limits_keep_back_what_the_model_says),
        cmocka_unit_test(what_is_full_is_passed_by),
        cmocka_unit_test(tiers_have_prices),
        cmocka_unit_test(a_tenant_leaves_down_to_its_quota),
        cmocka_unit_test(what_a_rule_pins_stays),
        cmocka_unit_test(what_expired_is_lost),
        cmocka_unit_test(what_is_pinned_elsewhere_does_not_expire),
        cmocka_unit_test(what_is_pinned_elsewhere_leaves_for_no_quota),
        cmocka_unit_test(what_is_pinned_elsewhere_leaves_for_no_budget),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
