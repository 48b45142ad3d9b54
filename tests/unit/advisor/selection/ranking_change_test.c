/*
 * What is tested: a policy with other orderings takes effect without a restart; until the new order
 * of a tier is whole the old one decides; then the same blocks leave as after a start with it,
 * whatever happened meanwhile; rules of one tier each have their own order; what was ordered away
 * or refused stays out; what an ordering learned is kept; whenever the advisor ends meanwhile,
 * nothing is lost.
 * How: a model of a gateway obeys; two lives of the same seed, of which one is started anew, must
 * make the same orders.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "advisor/order/planner_private.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"

#include "policy/ordering/builtin_orderings.h"
#include "policy/ordering/ordering_table.h"
#include "tests/support/seed.h"
#include "tests/unit/advisor/support/obedient_gateway.h"

#define HEAD                                                                                       \
    "version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\ndefaults: {order_by: %s}\n"      \
    "rules:\n  - {id: down, from: hot, to: cold, trigger: {start: 80%%, stop: 50%%}}\n"            \
    "modes: {mode: enforce}\n"

enum { CHAIN = 4, BLOCKS = 600, WAIT_MS = 20000, POLICY_MAX = 2048 };

static const char *
policy_by(const char *ordering, char text[POLICY_MAX])
{
    (void)snprintf(text, POLICY_MAX, HEAD, ordering);
    return text;
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

/* A look of the planner at which no gateway is heard, and what it has to write. */
static void
tick(struct obedient *gateway)
{
    advisor_planner_tick(gateway->rig.planner, gateway->now_ms);
    test_rig_run(&gateway->rig);
}

/* Until every tier has the orders that it is to have. */
static void
settle(struct obedient *gateway)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;

    do {
        tick(gateway);
        kvt_clock_sleep_ms(1);
        assert_true(kvt_clock_mono_ms() < until_ms);
    } while (test_rig_value(gateway->rig.counters.reranking) > 0 ||
             gateway->rig.planner->reranking.rerank != NULL);
}

/* ---- the same as after a start ---- */

struct life {
    struct obedient *gateway;
    uint64_t random;
    uint64_t trail; /* of all orders, in their order */
    size_t looks;
    uint32_t stored;
};

static void
look(void *arg, const struct kvt_order *order, size_t block)
{
    struct life *life = arg;

    life->looks++;
    life->trail = (life->trail ^ (order->verb * OBEDIENT_BLOCKS + block)) * UINT64_C(0x100000001b3);
}

/* New chains, and reads of old ones. */
static void
live(struct life *life, int steps)
{
    struct obedient *gateway = life->gateway;

    for (int i = 0; i < steps; i++) {
        uint32_t chain[CHAIN];
        const uint32_t first =
            CHAIN * (uint32_t)kvt_random_below(&life->random, life->stored / CHAIN);
        const uint32_t depth = 1 + (uint32_t)kvt_random_below(&life->random, CHAIN);
        uint32_t count = 0;

        for (uint32_t k = 0; k < depth; k++)
            if (gateway->held[OBEDIENT_HOT][first + k])
                chain[count++] = first + k;
        obedient_read(gateway, OBEDIENT_HOT, chain, count);
        gateway->now_ms += kvt_random_below(&life->random, 3000);
        if (kvt_random_below(&life->random, 3) > 0)
            continue;
        obedient_store(gateway, OBEDIENT_HOT, life->stored, life->stored + CHAIN);
        life->stored += CHAIN;
    }
}

/* How the life goes after another ordering was asked for: it is changed, or the advisor starts. */
static struct life *
spend(const char *before, const char *after, uint64_t seed, bool restarts)
{
    struct life *life = kvt_calloc(1, sizeof(*life));
    char text[POLICY_MAX];

    assert_non_null(life);
    life->gateway = obedient_new(policy_by(before, text), NULL, CHAIN);
    life->gateway->now_ms = UINT64_C(1700000000000);
    life->random = seed;
    life->gateway->capacity[OBEDIENT_HOT] = (uint64_t)OBEDIENT_BLOCKS * OBEDIENT_SIZE;
    obedient_store(life->gateway, OBEDIENT_HOT, 0, BLOCKS);
    life->stored = BLOCKS;
    live(life, 60);
    obedient_install(life->gateway, policy_by(after, text));
    if (restarts) {
        obedient_restart(life->gateway);
        live(life, 40);
    } else {
        tick(life->gateway); /* it begins, and hears what comes */
        live(life, 40);
    }
    settle(life->gateway);
    assert_string_equal(hot(life->gateway)->ranking.orders.list[0]->name, after);
    life->gateway->look = look;
    life->gateway->arg = life;
    life->gateway->capacity[OBEDIENT_HOT] = (uint64_t)BLOCKS * OBEDIENT_SIZE;
    for (int i = 0; i < 6; i++) {
        (void)obedient_step(life->gateway, 5000);
        live(life, 5);
    }
    return life;
}

static void
end(struct life *life)
{
    obedient_free(life->gateway);
    kvt_free(life);
}

static void
another_order_is_as_after_a_start(void **state)
{
    const uint64_t seed = test_seed();
    size_t count;
    const struct kvt_ordering *const *all = policy_ordering_all(&count);

    (void)state;
    for (size_t i = 0; i < count; i++) {
        const char *before = strcmp(all[i]->name, "lru") == 0 ? "fifo" : "lru";
        struct life *changed = spend(before, all[i]->name, seed, false);
        struct life *started = spend(before, all[i]->name, seed, true);

        assert_true(changed->looks > 100);
        assert_int_equal(changed->looks, started->looks);
        assert_int_equal(changed->trail, started->trail);
        end(changed);
        end(started);
    }
}

/* ---- meanwhile ---- */

static void
the_old_order_decides_meanwhile(void **state)
{
    char text[POLICY_MAX];
    struct obedient *gateway = obedient_new(policy_by("fifo", text), NULL, 1);
    struct advisor_tier_view view;
    const uint32_t read = 0;

    (void)state;
    gateway->capacity[OBEDIENT_HOT] = (uint64_t)100 * OBEDIENT_SIZE;
    for (uint32_t i = 0; i < 90; i++) {
        obedient_store(gateway, OBEDIENT_HOT, i, i + 1);
        gateway->now_ms += 1000;
    }
    obedient_read(gateway, OBEDIENT_HOT, &read, 1); /* the oldest was read last */
    gateway->now_ms += 1000;
    obedient_install(gateway, policy_by("lru", text));
    (void)obedient_step(gateway, 1000); /* it begins to make the order, and drains */
    assert_int_equal(obedient_used(gateway, OBEDIENT_HOT), 50 * OBEDIENT_SIZE);
    assert_false(gateway->held[OBEDIENT_HOT][0]); /* as fifo says */
    assert_int_equal(advisor_planner_tiers(gateway->rig.planner, &view, 1), 1);
    assert_true(view.reranking);
    assert_string_equal(view.orders.list[0]->name, "fifo");
    assert_int_equal(test_rig_value(gateway->rig.counters.reranking), 2); /* tiers */
    settle(gateway);
    assert_int_equal(advisor_planner_tiers(gateway->rig.planner, &view, 1), 1);
    assert_false(view.reranking);
    assert_string_equal(view.orders.list[0]->name, "lru");
    obedient_free(gateway);
}

static void
what_was_refused_stays_out(void **state)
{
    char text[POLICY_MAX];
    struct obedient *gateway = obedient_new(policy_by("lru", text), NULL, 1);
    uint64_t refused;

    (void)state;
    gateway->capacity[OBEDIENT_HOT] = (uint64_t)100 * OBEDIENT_SIZE;
    memset(gateway->pinned, true, 60);
    obedient_store(gateway, OBEDIENT_HOT, 0, 90);
    for (int i = 0; i < 4; i++)
        (void)obedient_step(gateway, 1000);
    refused = gateway->refused;
    assert_true(refused >= 30);
    obedient_install(gateway, policy_by("fifo", text));
    settle(gateway);
    assert_string_equal(hot(gateway)->ranking.orders.list[0]->name, "fifo");
    gateway->capacity[OBEDIENT_HOT] = (uint64_t)70 * OBEDIENT_SIZE; /* it is to be drained */
    for (int i = 0; i < 4; i++)
        (void)obedient_step(gateway, 1000);
    assert_int_equal(gateway->refused, refused);
    for (int i = 0; i < 4; i++)
        (void)obedient_step(gateway, 20000); /* their pauses end */
    assert_true(gateway->refused > refused);
    obedient_free(gateway);
}

/* The policy changes again, and the advisor ends, while an order is made. */
static void
whatever_comes_between(void **state)
{
    static const char *const names[] = {"lru", "fifo", "lfu", "prefix"};
    char text[POLICY_MAX];
    struct obedient *gateway = obedient_new(policy_by("rhi", text), NULL, CHAIN);
    uint64_t random = test_seed();
    const char *last = "rhi";

    (void)state;
    gateway->capacity[OBEDIENT_HOT] = (uint64_t)OBEDIENT_BLOCKS * OBEDIENT_SIZE;
    obedient_store(gateway, OBEDIENT_HOT, 0, 2000);
    for (int i = 0; i < 60; i++) {
        last = names[kvt_random_below(&random, 4)];
        obedient_install(gateway, policy_by(last, text));
        for (uint64_t k = kvt_random_below(&random, 4); k > 0; k--) {
            tick(gateway);
            kvt_clock_sleep_ms(kvt_random_below(&random, 3));
        }
        if (kvt_random_below(&random, 5) == 0)
            obedient_restart(gateway);
        gateway->now_ms += 1000;
    }
    settle(gateway);
    assert_string_equal(hot(gateway)->ranking.orders.list[0]->name, last);
    gateway->capacity[OBEDIENT_HOT] = (uint64_t)2000 * OBEDIENT_SIZE;
    for (int i = 0; i < 5; i++)
        (void)obedient_step(gateway, 5000);
    assert_int_equal(obedient_used(gateway, OBEDIENT_HOT), 1000 * OBEDIENT_SIZE);
    obedient_free(gateway);
}

/* ---- each rule its own ---- */

static void
rules_of_a_tier_have_their_own_orders(void **state)
{
    struct obedient *gateway = obedient_new(
        "version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\nrules:\n"
        "  - {id: first, from: hot, to: cold, order_by: fifo, when: tenant == \"acme\", trigger: "
        "{start: 80%, stop: 50%}}\n"
        "  - {id: rest, from: hot, to: cold, order_by: lru, trigger: {start: 80%, stop: 50%}}\n"
        "modes: {mode: enforce}\n",
        NULL, 1);
    uint32_t used[50];

    (void)state;
    gateway->capacity[OBEDIENT_HOT] = (uint64_t)100 * OBEDIENT_SIZE;
    for (uint32_t i = 0; i < 90; i++) {
        gateway->owner[i] = i % 2;
        obedient_store(gateway, OBEDIENT_HOT, i, i + 1);
        gateway->now_ms += 1000;
    }
    for (uint8_t owner = 0; owner < 2; owner++) { /* the older half of each is used */
        uint32_t count = 0;

        for (uint32_t i = 0; i < 44; i++)
            if (gateway->owner[i] == owner)
                used[count++] = i;
        obedient_read(gateway, OBEDIENT_HOT, used, count);
    }
    for (int i = 0; i < 4; i++)
        (void)obedient_step(gateway, 5000);
    assert_int_equal(hot(gateway)->ranking.orders.count, 2);
    assert_int_equal(obedient_used(gateway, OBEDIENT_HOT), 50 * OBEDIENT_SIZE);
    /* They take turns: twenty of each. */
    for (uint32_t i = 0; i < 90; i++)
        assert_int_equal(gateway->held[OBEDIENT_HOT][i],
                         gateway->owner[i] == 0 ? i >= 40 : i < 44 || i >= 84);
    obedient_free(gateway);
}

/* ---- what was learned ---- */

struct learned {
    size_t size;
    uint8_t bytes[1 << 16];
};

static enum kvt_err
take(void *arg, const char *tier, const char *ordering, const void *bytes, size_t size)
{
    struct learned *learned = arg;

    if (strcmp(tier, "hot@gw0") != 0 || strcmp(ordering, "rhi") != 0)
        return KVT_OK;
    assert_true(size <= sizeof(learned->bytes));
    memcpy(learned->bytes, bytes, size);
    learned->size = size;
    return KVT_OK;
}

static void
what_was_learned_is_kept(void **state)
{
    char text[POLICY_MAX];
    struct obedient *gateway = obedient_new(policy_by("rhi", text), NULL, CHAIN);
    struct life life = {.gateway = gateway, .random = test_seed(), .stored = BLOCKS};
    struct learned *now = kvt_calloc(1, sizeof(*now));
    struct learned *kept = kvt_calloc(1, sizeof(*kept));
    struct advisor_txn txn;

    (void)state;
    assert_true(now != NULL && kept != NULL);
    gateway->capacity[OBEDIENT_HOT] = (uint64_t)OBEDIENT_BLOCKS * OBEDIENT_SIZE;
    obedient_store(gateway, OBEDIENT_HOT, 0, BLOCKS);
    live(&life, 100);
    now->size = policy_tier_blocks_save(hot(gateway)->roster, now->bytes, sizeof(now->bytes));
    assert_true(now->size > 0 && now->size <= sizeof(now->bytes));
    obedient_install(gateway, policy_by("lru", text));
    settle(gateway);
    assert_int_equal(advisor_store_read(gateway->rig.store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_store_learned(&txn, take, kept), KVT_OK);
    advisor_store_end(&txn);
    assert_int_equal(kept->size, now->size);
    assert_memory_equal(kept->bytes, now->bytes, now->size);
    obedient_install(gateway, policy_by("rhi", text));
    settle(gateway);
    kept->size = policy_tier_blocks_save(hot(gateway)->roster, kept->bytes, sizeof(kept->bytes));
    assert_int_equal(kept->size, now->size);
    assert_memory_equal(kept->bytes, now->bytes, now->size);
    kvt_free(now);
    kvt_free(kept);
    obedient_free(gateway);
}

/* ---- no long look ---- */

#ifdef __SANITIZE_THREAD__
enum { MANY = 60000 }; /* each is stored ten times as slowly */
#else
enum { MANY = 200000 };
#endif
enum { SLICE_US = 20000 }; /* under sanitizers too */

static uint64_t
cpu_us(void)
{
    struct timespec now;

    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void
store_many(struct test_rig *rig, uint32_t from, uint32_t to, uint64_t now_ms, uint64_t *stream_seq)
{
    struct kvt_event *events = kvt_calloc(KVT_EVENTS_PER_BATCH_MAX, sizeof(*events));

    assert_non_null(events);
    while (from < to) {
        struct kvt_event_batch batch = {.incarnation = 1,
                                        .first_seq = from + 1,
                                        .time_ms = now_ms + from,
                                        .worker = "gateway:gw0",
                                        .namespace_ = "acme/llama",
                                        .location_count = 1,
                                        .locations = {{.tier = KVT_TIER_G4, .name = "hot@gw0"}},
                                        .events = events};

        for (; from < to && batch.event_count < KVT_EVENTS_PER_BATCH_MAX; from++)
            events[batch.event_count++] =
                (struct kvt_event){.type = KVT_EVENT_STORE,
                                   .sequence_hash = from * UINT64_C(0x9e3779b97f4a7c15) | 1,
                                   .block_size = 1000,
                                   .ranks = 1};
        test_rig_batch(rig, ++*stream_seq, &batch);
        test_rig_run(rig);
    }
    kvt_free(events);
}

static void
no_look_is_long(void **state)
{
    struct test_rig rig;
    char folder[256];
    const struct test_rig_options options = {.path = test_folder_make(folder, sizeof(folder)),
                                             .map_bytes = UINT64_C(512) << 20,
                                             .order_bytes = UINT64_C(64) << 20};
    static const char text[] =
        "version: 1\ntiers:\n  hot: {level: G3}\ndefaults: {order_by: rhi}\n";
    const struct advisor_rulebook_change change = {
        .text = text, .size = strlen(text), .source = "test"};
    uint64_t until_ms;
    uint64_t now_ms = kvt_clock_unix_ms() - 10 * MANY;
    struct policy_problems problems;
    struct kvt_error err;
    uint64_t stream_seq = 0;
    uint64_t version;
    uint64_t longest = 0;
    uint32_t stored = MANY;
    uint32_t ticks = 0;

    (void)state;
    test_rig_open(&rig, &options);
    store_many(&rig, 0, MANY, now_ms, &stream_seq);
    assert_int_equal(
        advisor_rulebook_install(rig.rulebook, NULL, &change, &problems, &version, &err), KVT_OK);
    until_ms = kvt_clock_mono_ms() + 4 * WAIT_MS;
    do {
        const uint64_t began = cpu_us();
        uint64_t took;

        advisor_planner_tick(rig.planner, now_ms + stored);
        took = cpu_us() - began;
        longest = took > longest ? took : longest;
        ticks++;
        if (stored < MANY + 20000) { /* it goes on meanwhile */
            store_many(&rig, stored, stored + 2000, now_ms, &stream_seq);
            stored += 2000;
        }
        test_rig_run(&rig);
        assert_true(kvt_clock_mono_ms() < until_ms);
    } while (test_rig_value(rig.counters.reranking) > 0 || rig.planner->reranking.rerank != NULL);
    print_message("%u blocks: %u looks, the longest %llu us of this thread's time\n", stored, ticks,
                  (unsigned long long)longest);
    assert_string_equal(rig.planner->tiers[0].ranking.orders.list[0]->name, "rhi");
    {
        struct policy_tier_blocks_counts counts;

        policy_tier_blocks_counts(rig.planner->tiers[0].roster, &counts);
        assert_int_equal(counts.in_tier, stored);
    }
    assert_true(longest < SLICE_US);
    test_rig_close(&rig);
    test_folder_remove(folder);
}

static void
every_ordering_can_be_chosen(void **state)
{
    static const struct {
        const char *key;
        const char *fallback;
        const char *words;
    } params[] = {
#define PARAM(id, key, type, fallback, least, most, env, help) {key, fallback, most},
#include "config/advisor.def"
#undef PARAM
    };
    const struct kvt_ordering *const *all;
    size_t count;
    size_t at = 0;
    size_t words = 1;

    (void)state;
    while (strcmp(params[at].key, "policy.ordering") != 0)
        at++;
    assert_string_equal(params[at].fallback, POLICY_ORDERING_DEFAULT);
    all = policy_ordering_all(&count);
    for (size_t i = 0; i < count; i++)
        assert_non_null(strstr(params[at].words, all[i]->name));
    for (const char *c = params[at].words; *c != '\0'; c++)
        words += *c == '|';
    assert_int_equal(words, count);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_order_is_as_after_a_start),
        cmocka_unit_test(the_old_order_decides_meanwhile),
        cmocka_unit_test(what_was_refused_stays_out),
        cmocka_unit_test(whatever_comes_between),
        cmocka_unit_test(rules_of_a_tier_have_their_own_orders),
        cmocka_unit_test(what_was_learned_is_kept),
        cmocka_unit_test(no_look_is_long),
        cmocka_unit_test(every_ordering_can_be_chosen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
