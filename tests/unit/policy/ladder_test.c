/*
 * What is tested: policy/ladder.h.
 * How: random conversations over three tiers under lru, beside a model that keeps everything in
 * plain arrays; small workloads counted by hand for money, quotas, pins and expiry.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"

#include "policy/ladder.h"
#include "policy/ordering.h"
#include "tests/support/seed.h"

enum { BYTES = 1000, BLOCKS = 3000, CHAIN_MAX = 24, SESSIONS = 24, TIERS = 3 };
enum { HOT, WARM, COLD };
enum { HOT_BLOCKS = 60, WARM_BLOCKS = 90, STEP_MS = 10000 };

#define TIERS_TEXT                                                                                 \
    "version: 1\ntiers:\n  hot: {level: G3}\n  warm: {level: G3, holders: \"warm@*\"}\n"           \
    "  cold: {level: G4}\nmodes: {mode: enforce}\n"

static const char three_tiers[] =
    TIERS_TEXT "rules:\n"
               "  - {id: up, from: cold, to: hot, on: second_cold_hit}\n"
               "  - {id: over, from: warm, to: hot, on: second_cold_hit}\n"
               "  - {id: down, from: hot, to: warm, trigger: {start: 90%, stop: 70%}}\n"
               "  - {id: on, from: warm, to: cold, trigger: {start: 90%, stop: 80%}}\n";

struct scene {
    struct policy *policy;
    struct policy_workload *workload;
    struct policy_ladder *ladder;
    uint64_t now_ms;
};

static struct policy *
parse(const char *text)
{
    struct policy_problems *problems = kvt_calloc(1, sizeof(*problems));
    struct policy *policy;
    struct kvt_error err = {0};

    assert_non_null(problems);
    if (policy_parse(&policy, "test", text, strlen(text), problems, &err) != KVT_OK)
        fail_msg("%s%s", err.text, problems->count > 0 ? problems->list[0].text : "");
    kvt_free(problems);
    return policy;
}

static void
open_scene(struct scene *scene, const char *policy, const char *ordering, uint64_t hot,
           uint64_t warm)
{
    struct policy_ladder_options options = {
        .ordering = policy_ordering_find(ordering),
        .ordering_options = {.prices = {.hot_read = 1, .cold_read = 10, .move = 1}},
        .capacity = {hot * BYTES, warm * BYTES},
        .block_bytes = BYTES,
        .tick_ms = 100,
        .cold_reads = 2,
        .roster_bytes = 1 << 24};

    *scene = (struct scene){.policy = parse(policy)};
    assert_int_equal(policy_workload_new(&scene->workload), KVT_OK);
    options.policy = scene->policy;
    options.workload = scene->workload;
    assert_int_equal(policy_ladder_new(&scene->ladder, &options), KVT_OK);
}

static void
close_scene(struct scene *scene)
{
    policy_ladder_free(scene->ladder);
    policy_workload_free(scene->workload);
    policy_free(scene->policy);
}

/* A letter is a block; of a namespace. */
static void
ask(struct scene *scene, const char *namespace_, const char *ids)
{
    struct policy_workload_request request;
    uint64_t chain[CHAIN_MAX];
    uint32_t count = 0;
    uint32_t tenant;

    for (; ids[count] != '\0'; count++)
        chain[count] = (uint64_t)ids[count];
    assert_int_equal(policy_workload_name(scene->workload, namespace_, &tenant), KVT_OK);
    assert_int_equal(policy_workload_add_of(scene->workload, tenant, scene->now_ms, chain, count),
                     KVT_OK);
    request =
        policy_workload_request(scene->workload, policy_workload_requests(scene->workload) - 1);
    assert_int_equal(policy_ladder_request(scene->ladder, &request), KVT_OK);
    scene->now_ms += STEP_MS;
}

/* ---- the model ---- */

struct model_block {
    bool in[TIERS];
    uint64_t turn[TIERS]; /* of its last use or coming there */
    uint64_t used[TIERS]; /* request that used it last, as far as the tier heard; 0: never */
    uint32_t parent;      /* plus 1 */
    uint32_t position;
    uint32_t recent;
    bool waits;
};

/* What a tier hears is put into order before it chooses: by request, and in one by depth. */
struct model_touch {
    uint64_t request;
    uint32_t block;
    uint32_t position;
};

struct model {
    struct model_block blocks[BLOCKS];
    struct model_touch heard[TIERS][4 * BLOCKS];
    uint32_t heard_count[TIERS];
    uint64_t turn;
    uint64_t request;
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
        .request = model->request, .block = block, .position = model->blocks[block].position};
}

static void
model_settle(struct model *model, int tier)
{
    struct model_touch *heard = model->heard[tier];

    for (uint32_t i = 1; i < model->heard_count[tier]; i++)
        for (uint32_t k = i; k > 0 && (heard[k].request < heard[k - 1].request ||
                                       (heard[k].request == heard[k - 1].request &&
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
        row->used[tier] = model->request;
        block = row->parent - 1;
        if (row->parent == 0)
            return;
        row = &model->blocks[block];
        first = row->used[tier] != 0 && row->used[tier] != model->request;
        if (first && row->in[tier])
            model_hear(model, block, tier);
    }
}

static void
model_request(struct model *model, const uint32_t *chain, uint32_t count)
{
    bool known[CHAIN_MAX];

    model->request++;
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
            row->used[tier] = model->request;
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

static void
model_watermarks(struct model *model, int tier)
{
    if (model->used[tier] <= model->stop[tier])
        model->draining[tier] = false;
    else if (model->used[tier] >= model->start[tier])
        model->draining[tier] = true;
}

static bool
model_drain(struct model *model, int tier)
{
    bool held[BLOCKS] = {false};
    bool moved = false;

    model_watermarks(model, tier);
    while (model->draining[tier] && model->used[tier] > model->stop[tier]) {
        uint32_t first = BLOCKS;

        model_settle(model, tier);
        for (uint32_t block = 0; block < BLOCKS; block++)
            if (model->blocks[block].in[tier] && !held[block] &&
                (first == BLOCKS ||
                 model->blocks[block].turn[tier] < model->blocks[first].turn[tier]))
                first = block;
        if (first == BLOCKS)
            break;
        if (!model->blocks[first].in[tier + 1] && tier + 1 != COLD &&
            model->used[tier + 1] >= model->start[tier + 1]) {
            held[first] = true;
            continue;
        }
        model->moved[tier][tier + 1]++;
        if (!model->blocks[first].in[tier + 1])
            model_enter(model, first, tier + 1);
        model->blocks[first].in[tier] = false;
        model->used[tier]--;
        moved = true;
    }
    model_watermarks(model, tier);
    return moved;
}

static bool
model_promote(struct model *model)
{
    uint32_t kept = 0;
    bool moved = false;

    for (uint32_t i = 0; i < model->candidate_count; i++) {
        const uint32_t block = model->candidates[i];
        const int tier = nearest(model, block);

        if (tier > 0 && model->blocks[block].recent >= 2) {
            if (model->draining[HOT] || model->used[HOT] >= model->start[HOT]) {
                model->candidates[kept++] = block;
                continue;
            }
            model->moved[tier][HOT]++;
            model_enter(model, block, HOT);
            model->used[WARM] -= model->blocks[block].in[WARM];
            model->blocks[block].in[WARM] = false;
            moved = true;
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
        moved = model_promote(model) || moved;
    }
}

static void
compare(const struct scene *scene, const struct model *model, uint32_t blocks)
{
    const struct policy_ladder_result result = policy_ladder_result(scene->ladder);

    for (uint32_t tier = 0; tier < TIERS; tier++) {
        assert_int_equal(result.tiers[tier].reads, model->reads[tier]);
        assert_int_equal(result.tiers[tier].blocks, model->used[tier]);
        for (uint32_t to = 0; to < TIERS; to++)
            assert_int_equal(result.edges[tier][to].blocks, model->moved[tier][to]);
        for (uint32_t block = 0; block < blocks; block++)
            assert_int_equal(policy_ladder_has(scene->ladder, tier, block),
                             model->blocks[block].in[tier]);
    }
}

static void
three_tiers_are_as_the_model_says(void **state)
{
    static uint32_t sessions[SESSIONS][CHAIN_MAX];
    uint32_t counts[SESSIONS] = {0};
    uint64_t random = test_seed();
    struct model *model = kvt_calloc(1, sizeof(*model));
    struct scene scene;
    uint32_t blocks = 0;

    (void)state;
    assert_non_null(model);
    open_scene(&scene, three_tiers, "lru", HOT_BLOCKS, WARM_BLOCKS);
    *model = (struct model){.capacity = {HOT_BLOCKS, WARM_BLOCKS},
                            .start = {HOT_BLOCKS * 9 / 10, WARM_BLOCKS * 9 / 10},
                            .stop = {HOT_BLOCKS * 7 / 10, WARM_BLOCKS * 8 / 10}};
    while (blocks < BLOCKS - CHAIN_MAX) {
        const uint64_t draw = kvt_random_below(&random, SESSIONS);
        const size_t at = kvt_random_below(&random, draw + 1);
        struct policy_workload_request request = {.blocks = sessions[at], .time_ms = scene.now_ms};

        if (counts[at] > CHAIN_MAX - 6 || kvt_random_below(&random, 15) == 0)
            counts[at] = 0;
        for (uint64_t n = kvt_random_below(&random, 6); n > 0 || counts[at] == 0; n -= n > 0)
            sessions[at][counts[at]++] = blocks++;
        request.count = counts[at];
        assert_int_equal(policy_ladder_request(scene.ladder, &request), KVT_OK);
        model_request(model, sessions[at], counts[at]);
        model_act(model);
        compare(&scene, model, blocks);
        scene.now_ms += STEP_MS;
    }
    assert_true(model->moved[COLD][HOT] > 0 && model->moved[WARM][HOT] > 0 &&
                model->moved[WARM][COLD] > 0);
    close_scene(&scene);
    kvt_free(model);
}

/* ---- by hand ---- */

static void
what_is_full_is_passed_by(void **state)
{
    struct scene scene;
    struct policy_ladder_result result;

    (void)state;
    open_scene(&scene, TIERS_TEXT, "lru", 2, 1);
    ask(&scene, "", "abcd"); /* d and c find room in hot, b in warm, a in the bucket only */
    ask(&scene, "", "abcd");
    result = policy_ladder_result(scene.ladder);
    assert_int_equal(result.tiers[HOT].reads, 2);
    assert_int_equal(result.tiers[WARM].reads, 1);
    assert_int_equal(result.tiers[COLD].reads, 1);
    assert_int_equal(result.tiers[COLD].puts, 4); /* written through */
    assert_int_equal(result.prefix_hits, 0);
    assert_int_equal(result.known_reads, 4);
    assert_int_equal(result.blocks, 4);
    close_scene(&scene);
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
    const double gib = BYTES / 1073741824.0;
    struct policy_ladder_options options = {.block_bytes = BYTES};
    struct policy_ladder_result result;
    struct scene scene;

    (void)state;
    open_scene(&scene, text, "lru", 1, 0);
    ask(&scene, "", "ab");
    ask(&scene, "", "ab"); /* ten seconds later */
    result = policy_ladder_result(scene.ladder);
    options.policy = scene.policy;
    assert_true(fabs(policy_ladder_money(&result, &options, 0) - months * gib * 8) < 1e-12);
    assert_true(fabs(policy_ladder_money(&result, &options, 1) -
                     (0.005 * 2 + 0.003 * 1 + months * gib * 2 * 2)) < 1e-12);
    assert_true(fabs(policy_ladder_latency_ms(&result, scene.policy) - 21) < 1e-9);
    close_scene(&scene);
}

static void
a_tenant_leaves_down_to_its_quota(void **state)
{
    static const char text[] =
        TIERS_TEXT "rules:\n  - {id: up, from: warm, to: hot, on: second_cold_hit}\n"
                   "quotas:\n  - {tenant: acme, tier: hot, soft: 3000B, hard: 3000B}\n";
    struct policy_ladder_result result;
    struct scene scene;

    (void)state;
    open_scene(&scene, text, "lru", 100, 100);
    ask(&scene, "zeta/llama", "abcdefgh");
    ask(&scene, "acme/llama", "ab");
    ask(&scene, "acme/qwen", "ab"); /* other blocks: one too many */
    result = policy_ladder_result(scene.ladder);
    assert_int_equal(result.edges[HOT][WARM].blocks, 1);
    assert_int_equal(policy_ladder_used_by(scene.ladder, 2, HOT), 1000); /* the end went first */
    assert_int_equal(policy_ladder_used_by(scene.ladder, 3, HOT), 2000);
    assert_int_equal(policy_ladder_used_by(scene.ladder, 1, HOT), 8000);
    /* Read again it may not come up: that would be above `hard`. */
    ask(&scene, "acme/llama", "ab");
    ask(&scene, "acme/llama", "ab");
    result = policy_ladder_result(scene.ladder);
    assert_int_equal(result.refused, 1);
    assert_int_equal(result.edges[WARM][HOT].blocks, 0);
    close_scene(&scene);
}

static void
what_a_rule_pins_stays(void **state)
{
    static const char text[] =
        TIERS_TEXT "rules:\n  - {id: roots, when: depth == 0, pin: {tiers: [hot], budget: 30%}}\n"
                   "  - {id: down, from: hot, to: cold, trigger: {start: 80%, stop: 40%}}\n";
    struct policy_ladder_result result;
    struct scene scene;

    (void)state;
    open_scene(&scene, text, "lru", 10, 100);
    ask(&scene, "", "abc");
    ask(&scene, "", "def");
    ask(&scene, "", "gh"); /* eight: four have to go */
    for (uint32_t block = 0; block < 8; block++)
        assert_int_equal(policy_ladder_has(scene.ladder, HOT, block),
                         block == 0 || block == 3 || block >= 6);
    result = policy_ladder_result(scene.ladder);
    assert_int_equal(result.edges[HOT][COLD].blocks, 4);
    assert_int_equal(result.edges[HOT][COLD].copied, 0); /* the bucket has all */
    close_scene(&scene);
}

static void
what_expired_is_lost(void **state)
{
    static const char text[] =
        TIERS_TEXT "rules:\n  - {id: old, in: cold, do: expire, when: last_access > 5m}\n"
                   "  - {id: ends, in: hot, do: expire, on: session_end, when: depth > 9}\n";
    struct policy_ladder_result result;
    struct scene scene;

    (void)state;
    open_scene(&scene, text, "lru", 100, 100);
    assert_false(policy_ladder_leaves_out(policy_rule_at(scene.policy, 0)));
    assert_true(policy_ladder_leaves_out(policy_rule_at(scene.policy, 1)));
    ask(&scene, "", "ab");
    scene.now_ms += 400000;
    ask(&scene, "", "cd");
    ask(&scene, "", "ab");
    result = policy_ladder_result(scene.ladder);
    assert_int_equal(result.expired, 2);
    assert_int_equal(result.lost_reads, 2);
    assert_int_equal(result.known_reads, 0);
    assert_int_equal(result.blocks, 4);
    close_scene(&scene);
}

static bool
run_small(void *arg)
{
    struct policy_ladder_options options = {.policy = arg,
                                            .ordering = policy_ordering_find("rhi"),
                                            .capacity = {2 * BYTES, 2 * BYTES},
                                            .block_bytes = BYTES,
                                            .tick_ms = 100,
                                            .cold_reads = 2,
                                            .roster_bytes = 1 << 20};
    const uint64_t ids[] = {1, 2, 3, 4, 5};
    struct policy_ladder *ladder = NULL;
    bool done =
        policy_workload_new((struct policy_workload **)(uintptr_t)&options.workload) == KVT_OK;

    done = done && policy_ladder_new(&ladder, &options) == KVT_OK;
    done = done && policy_workload_add((struct policy_workload *)(uintptr_t)options.workload, 0,
                                       ids, 5) == KVT_OK;
    if (done) {
        const struct policy_workload_request request = policy_workload_request(options.workload, 0);

        done = policy_ladder_request(ladder, &request) == KVT_OK;
    }
    policy_ladder_free(ladder);
    policy_workload_free((struct policy_workload *)(uintptr_t)options.workload);
    return done;
}

static void
every_failing_allocation_is_survived(void **state)
{
    struct policy *policy = parse(three_tiers);

    (void)state;
    assert_true(test_sweep_allocations(run_small, policy) > 5);
    policy_free(policy);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_tiers_are_as_the_model_says),
        cmocka_unit_test(what_is_full_is_passed_by),
        cmocka_unit_test(tiers_have_prices),
        cmocka_unit_test(a_tenant_leaves_down_to_its_quota),
        cmocka_unit_test(what_a_rule_pins_stays),
        cmocka_unit_test(what_expired_is_lost),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
