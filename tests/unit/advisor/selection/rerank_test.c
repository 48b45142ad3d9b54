/*
 * What is tested: advisor/selection/rerank.h where it fails: more is heard than may wait, and any
 * allocation of its begin, of its thread and of what it hears; what decided goes on deciding, and
 * another attempt succeeds, with every block in it.  What is made is the whole order, or none.
 * How: an ordering that keeps the thread where it is; and the planner, from one ordering to
 * another, with each allocation failed once in turn.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "advisor/order/planner_private.h"
#include "advisor/selection/rerank.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "policy/ordering/builtin_orderings.h"
#include "tests/support/seed.h"
#include "tests/unit/advisor/support/obedient_gateway.h"

enum { CHAIN = 4, BLOCKS = 400, HOLDERS = 64, WAIT_MS = 20000, AGAIN_MS = 61000, SWEEP = 40 };

#define POLICY                                                                                     \
    "version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\ndefaults: {order_by: %s}\n"      \
    "rules:\n  - {id: down, from: hot, to: cold, trigger: {start: 80%%, stop: 50%%}}\n"            \
    "modes: {mode: enforce}\n"

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void
touch_behind_the_gate(void *state, const struct kvt_ordering_use *use)
{
    (void)pthread_mutex_lock(&gate);
    policy_lru.touch(state, use);
    (void)pthread_mutex_unlock(&gate);
}

static void
more_is_heard_than_may_wait(void **state)
{
    struct kvt_ordering waiting = policy_lru;
    bool holders[HOLDERS];
    const uint32_t namespaces[] = {0};
    const struct advisor_rerank_options options = {.tier = "hot@gw0",
                                                   .orders = {.list = {&waiting}, .count = 1},
                                                   .roster = {.bytes_max = 8u << 20},
                                                   .holders = holders,
                                                   .holder_count = HOLDERS,
                                                   .namespaces = namespaces,
                                                   .namespace_count = 0};
    struct obedient *gateway = obedient_new(NULL, NULL, CHAIN);
    struct policy_tier_blocks *made[ADVISOR_RANKINGS_MAX];
    struct advisor_rerank *rerank;
    struct advisor_txn txn;
    struct kvt_error err;
    bool cut;

    (void)state;
    memset(holders, true, sizeof(holders));
    waiting.touch = touch_behind_the_gate;
    obedient_store(gateway, OBEDIENT_HOT, 0, BLOCKS);
    assert_int_equal(advisor_store_read(gateway->rig.store, &txn, &err), KVT_OK);
    (void)pthread_mutex_lock(&gate);
    assert_int_equal(advisor_rerank_new(&rerank, &options, &txn), KVT_OK);
    for (uint64_t i = 0; i < ADVISOR_RERANK_HEARD_MAX; i++)
        advisor_rerank_hear(rerank, &(struct advisor_ranking_event){.kind = ADVISOR_RANKING_LEFT});
    assert_int_equal(advisor_rerank_take(rerank, made, &cut), KVT_AGAIN);
    advisor_rerank_hear(rerank, &(struct advisor_ranking_event){.kind = ADVISOR_RANKING_LEFT});
    assert_int_equal(advisor_rerank_take(rerank, made, &cut), KVT_FULL);
    assert_null(made[0]);
    advisor_rerank_hear(rerank, &(struct advisor_ranking_event){.kind = ADVISOR_RANKING_SETTLED});
    (void)pthread_mutex_unlock(&gate);
    assert_int_equal(advisor_rerank_take(rerank, made, &cut), KVT_FULL); /* for ever */
    advisor_rerank_retire(rerank, NULL, 0);
    advisor_rerank_free(rerank);
    obedient_free(gateway);
}

/* Made while allocation number `n` of it fails, and blocks that it hears of: `seen` where it
 * succeeds, the blocks as they leave. */
static enum kvt_err
make(struct obedient *gateway, size_t n, uint32_t heard, uint32_t seen[2 * BLOCKS], uint32_t *count)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;
    bool holders[HOLDERS];
    const uint32_t namespaces[] = {0};
    const struct advisor_rerank_options options = {.tier = "hot@gw0",
                                                   .orders = {.list = {&policy_lru}, .count = 1},
                                                   .roster = {.bytes_max = 8u << 20},
                                                   .holders = holders,
                                                   .holder_count = HOLDERS,
                                                   .namespaces = namespaces,
                                                   .namespace_count = 0};
    struct policy_tier_blocks *made[ADVISOR_RANKINGS_MAX];
    struct policy_block block = {.ranks = 1, .size = OBEDIENT_SIZE};
    struct advisor_rerank *rerank;
    struct advisor_txn txn;
    struct kvt_error err;
    enum kvt_err rc;
    bool cut;

    *count = 0;
    memset(holders, true, sizeof(holders));
    assert_int_equal(advisor_store_read(gateway->rig.store, &txn, &err), KVT_OK);
    kvt_alloc_fail_after(n);
    rc = advisor_rerank_new(&rerank, &options, &txn);
    for (uint32_t i = 0; i < heard && rc == KVT_OK; i++) {
        block.hash = OBEDIENT_BLOCKS + 1 + i;
        advisor_rerank_hear(
            rerank, &(struct advisor_ranking_event){.kind = ADVISOR_RANKING_STORED,
                                                    .block = block,
                                                    .tick = gateway->now_ms / ADVISOR_TICK_MS});
    }
    if (rc == KVT_OK)
        while ((rc = advisor_rerank_take(rerank, made, &cut)) == KVT_AGAIN) {
            assert_true(kvt_clock_mono_ms() < until_ms);
            kvt_clock_sleep_ms(1);
        }
    kvt_alloc_fail_after(SIZE_MAX);
    if (rerank == NULL)
        return rc;
    if (rc == KVT_OK)
        while (policy_tier_blocks_victim(made[0], gateway->now_ms / ADVISOR_TICK_MS, &block))
            seen[(*count)++] = (uint32_t)block.hash;
    else
        assert_int_equal(advisor_rerank_take(rerank, made, &cut), rc); /* for ever */
    advisor_rerank_retire(rerank, made, rc == KVT_OK ? 1 : 0);
    advisor_rerank_free(rerank);
    return rc;
}

/* Whichever is the first allocation that fails, of the order itself or of what it hears. */
static void
it_is_whole_or_fails(void **state)
{
    enum { FAILS_MAX = 400 };
    static uint32_t whole[2 * BLOCKS];
    static uint32_t seen[2 * BLOCKS];
    struct obedient *gateway = obedient_new(NULL, NULL, CHAIN);
    uint32_t count;

    (void)state;
    for (uint32_t i = BLOCKS; i > 0; i -= BLOCKS / 4, gateway->now_ms += 5000)
        obedient_store(gateway, OBEDIENT_HOT, i - BLOCKS / 4, i);
    for (uint32_t heard = 0; heard < BLOCKS; heard += BLOCKS - 1) {
        uint32_t all;
        size_t n = 0;

        assert_int_equal(make(gateway, SIZE_MAX, heard, whole, &all), KVT_OK);
        assert_int_equal(all, BLOCKS + heard);
        while (make(gateway, n, heard, seen, &count) == KVT_NOMEM)
            assert_true(++n < FAILS_MAX);
        assert_true(n > 10);
        assert_int_equal(count, all);
        assert_memory_equal(seen, whole, all * sizeof(seen[0]));
    }
    obedient_free(gateway);
}

static const struct advisor_tier *
hot(const struct obedient *gateway)
{
    const struct advisor_planner *planner = gateway->rig.planner;

    for (uint32_t i = 0; i < planner->tier_count; i++)
        if (strcmp(planner->tiers[i].name, "hot@gw0") == 0)
            return &planner->tiers[i];
    fail_msg("no hot volume");
    return NULL;
}

static void
install(struct obedient *gateway, const char *ordering)
{
    char text[1024];

    (void)snprintf(text, sizeof(text), POLICY, ordering);
    obedient_install(gateway, text);
}

/* Until every tier has its orders, or gave up for now. */
static void
wait_for_it(struct obedient *gateway)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;
    struct advisor_planner *planner = gateway->rig.planner;

    do {
        advisor_planner_tick(planner, gateway->now_ms);
        kvt_clock_sleep_ms(1);
        assert_true(kvt_clock_mono_ms() < until_ms);
    } while (planner->reranking.rerank != NULL ||
             (test_rig_value(gateway->rig.counters.reranking) > 0 &&
              gateway->now_ms >= planner->reranking.again_ms &&
              planner->reranking.parting == NULL));
}

static void
whichever_allocation_fails(void **state)
{
    static const char *const names[] = {"fifo", "lru"};
    char text[1024];
    struct obedient *gateway;
    bool whole = false;
    size_t tried = 0;
    size_t failed = 0;

    (void)state;
    (void)snprintf(text, sizeof(text), POLICY, "lru");
    gateway = obedient_new(text, NULL, CHAIN);
    gateway->capacity[OBEDIENT_HOT] = (uint64_t)OBEDIENT_BLOCKS * OBEDIENT_SIZE;
    obedient_store(gateway, OBEDIENT_HOT, 0, BLOCKS);
    (void)obedient_step(gateway, 1000);
    /* Each of the first, then here and there, until there are enough for all. */
    for (size_t n = 0; n < SWEEP || !whole; n += 1 + (n < SWEEP ? 0 : n / 4)) {
        const char *wanted = names[tried % 2];
        const char *before = names[++tried % 2];

        install(gateway, wanted);
        kvt_alloc_fail_after(n);
        for (int i = 0; i < 3; i++) {
            advisor_planner_tick(gateway->rig.planner, gateway->now_ms);
            kvt_clock_sleep_ms(2);
        }
        kvt_alloc_fail_after(SIZE_MAX);
        wait_for_it(gateway);
        whole = strcmp(hot(gateway)->ranking.orders.list[0]->name, wanted) == 0;
        if (!whole) {
            failed++;
            assert_string_equal(hot(gateway)->ranking.orders.list[0]->name, before);
            assert_null(hot(gateway)->ranking.hear);
        }
        for (int i = 0; i < 4; i++) {
            gateway->now_ms += AGAIN_MS;
            test_rig_run(&gateway->rig);
            wait_for_it(gateway);
        }
        assert_string_equal(hot(gateway)->ranking.orders.list[0]->name, wanted);
        assert_true(policy_tier_blocks_has(hot(gateway)->roster, 0, 1));
    }
    assert_true(failed > 0);
    /* All are there and leave. */
    gateway->capacity[OBEDIENT_HOT] = (uint64_t)BLOCKS * OBEDIENT_SIZE;
    for (int i = 0; i < 6; i++)
        (void)obedient_step(gateway, 5000);
    assert_int_equal(obedient_used(gateway, OBEDIENT_HOT), BLOCKS / 2 * OBEDIENT_SIZE);
    obedient_free(gateway);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_is_heard_than_may_wait),
        cmocka_unit_test(it_is_whole_or_fails),
        cmocka_unit_test(whichever_allocation_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
