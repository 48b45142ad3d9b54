/*
 * What is tested: the planner and the simulator (policy/simulate/tier_simulation.h) agree: of the
 * same requests the same blocks are hot, as near as watermarks let them be.
 * How: generated conversations over shared prompts are given to both, the live side with a gateway
 * that obeys at once and a tick a request; hits and the blocks in the tier are compared.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

#include "policy/ordering/builtin_orderings.h"
#include "policy/simulate/tier_simulation.h"
#include "tests/support/seed.h"
#include "tests/unit/advisor/support/obedient_gateway.h"

enum { REQUESTS = 2000, PROMPTS = 4, PROMPT_BLOCKS = 6, SESSIONS = 40, CHAIN_MAX = 64 };
enum { GAP = 24 };       /* blocks between the marks of the live tier */
enum { VOLUME = 10000 }; /* blocks: marks are shares of it */
enum { WORLDS = 4 };

struct session {
    uint32_t blocks[CHAIN_MAX];
    uint32_t count;
};

struct world {
    struct obedient *gateway;
    struct policy_tier_simulation *simulate;
    struct session sessions[SESSIONS];
    struct session prompts[PROMPTS];
    uint32_t next; /* block */
    uint64_t random;
    uint64_t reads;
    uint64_t hits; /* live: leading blocks that were hot */
};

static uint32_t
new_block(struct world *world, const struct session *session)
{
    const uint32_t block = world->next++;

    assert_true(block < OBEDIENT_BLOCKS);
    world->gateway->depth[block] = session->count;
    world->gateway->parent[block] =
        session->count == 0 ? 0 : session->blocks[session->count - 1] + 1;
    return block;
}

static void
grow(struct world *world, struct session *session, uint32_t count)
{
    for (uint32_t i = 0; i < count && session->count < CHAIN_MAX; i++) {
        const uint32_t block = new_block(world, session);

        session->blocks[session->count++] = block;
    }
}

/* The next turn of a conversation; most are of the few that were had of late. */
static struct session *
next_turn(struct world *world)
{
    const uint64_t draw = kvt_random_below(&world->random, SESSIONS);
    const uint64_t at = kvt_random_below(&world->random, draw + 1);
    struct session session = world->sessions[at];

    memmove(&world->sessions[1], &world->sessions[0], at * sizeof(session));
    if (session.count == 0 || session.count > CHAIN_MAX - 8 ||
        kvt_random_below(&world->random, 12) == 0)
        session = world->prompts[kvt_random_below(&world->random, PROMPTS)];
    grow(world, &session, 1 + (uint32_t)kvt_random_below(&world->random, 4));
    world->sessions[0] = session;
    return &world->sessions[0];
}

static void
serve(struct world *world, const struct session *session)
{
    struct obedient *gateway = world->gateway;
    uint32_t part[OBEDIENT_TIERS + 1][CHAIN_MAX]; /* hot, cold, new */
    uint32_t count[OBEDIENT_TIERS + 1] = {0};
    uint32_t prefix = 0;

    for (uint32_t i = 0; i < session->count; i++) {
        const uint32_t block = session->blocks[i];
        const int where = gateway->held[OBEDIENT_HOT][block]    ? OBEDIENT_HOT
                          : gateway->held[OBEDIENT_COLD][block] ? OBEDIENT_COLD
                                                                : OBEDIENT_TIERS;

        part[where][count[where]++] = block;
        prefix += where == OBEDIENT_HOT && prefix == i;
    }
    world->hits += prefix;
    world->reads += session->count;
    if (gateway->terse)
        obedient_hold(gateway, part[OBEDIENT_TIERS], count[OBEDIENT_TIERS]);
    obedient_read(gateway, OBEDIENT_HOT, part[OBEDIENT_HOT], count[OBEDIENT_HOT]);
    obedient_read(gateway, OBEDIENT_COLD, part[OBEDIENT_COLD], count[OBEDIENT_COLD]);
    obedient_publish(gateway, OBEDIENT_HOT, part[OBEDIENT_TIERS], count[OBEDIENT_TIERS], true);
    /* Until nothing is to be moved, all in this request's tick. */
    for (int i = 0; i < 6 && obedient_step(gateway, 1) > 0; i++)
        continue;
    gateway->now_ms += ADVISOR_TICK_MS - gateway->now_ms % ADVISOR_TICK_MS;
}

/* Chains are known whole, whoever told of them. */
static void
knows_parent(void *arg, const struct kvt_order *order, size_t block)
{
    const struct obedient *gateway = arg;

    for (uint32_t i = 0; i < order->item_count; i++)
        if (order->items[i].block.hash == block + 1)
            assert_int_equal(order->items[i].block.parent, gateway->parent[block]);
}

/* What both sides made of some worlds. */
struct figures {
    bool terse; /* only a worker says parents */
    uint64_t reads;
    uint64_t live;
    uint64_t simulated;
};

static void
compare_one(const struct kvt_ordering *ordering, const char *promote_by,
            enum policy_promotion promotion, uint32_t capacity, uint64_t seed,
            struct figures *figures)
{
    const struct policy_tier_simulation_options options = {
        .ordering = ordering,
        .ordering_options = {.prices = {.hot_read = 1, .cold_read = 10, .move = 1}},
        .capacity = capacity - GAP / 2,
        .promotion = promotion};
    struct world *world = kvt_calloc(1, sizeof(*world));
    struct policy_tier_simulation_result result;
    char policy[1024];
    uint32_t both = 0;

    assert_non_null(world);
    (void)snprintf(policy, sizeof(policy),
                   "version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\nrules:\n"
                   "  - {id: up, from: cold, to: hot, on: second_cold_hit, promote_by: %s}\n"
                   "  - {id: down, from: hot, to: cold, trigger: {start: %g%%, stop: %g%%}}\n"
                   "modes: {mode: enforce}\n",
                   promote_by, 100.0 * capacity / VOLUME, 100.0 * (capacity - GAP) / VOLUME);
    world->gateway = obedient_new_with(policy, ordering, 1, 1);
    world->gateway->terse = figures->terse;
    world->gateway->look = knows_parent;
    world->gateway->arg = world->gateway;
    world->gateway->capacity[OBEDIENT_HOT] = (uint64_t)VOLUME * OBEDIENT_SIZE;
    world->gateway->now_ms -= world->gateway->now_ms % ADVISOR_TICK_MS;
    world->random = seed;
    assert_int_equal(policy_tier_simulation_new(&world->simulate, &options), KVT_OK);
    for (size_t i = 0; i < PROMPTS; i++)
        grow(world, &world->prompts[i], PROMPT_BLOCKS);
    for (int i = 0; i < REQUESTS; i++) {
        const struct session *session = next_turn(world);
        const struct policy_workload_request request = {.blocks = session->blocks,
                                                        .count = session->count};

        serve(world, session);
        assert_int_equal(policy_tier_simulation_request(world->simulate, &request), KVT_OK);
    }
    result = policy_tier_simulation_result(world->simulate);
    assert_int_equal(result.reads, world->reads);
    figures->reads += world->reads;
    figures->live += world->hits;
    figures->simulated += result.prefix_hits;
    for (uint32_t i = 0; i < world->next; i++)
        both +=
            world->gateway->held[OBEDIENT_HOT][i] && policy_tier_simulation_has(world->simulate, i);
    print_message("%s, by %s: %llu hits live, %llu simulated; %u blocks, %llu promoted live, "
                  "%llu simulated; %u of %u are the same\n",
                  ordering->name, promote_by, (unsigned long long)world->hits,
                  (unsigned long long)result.prefix_hits, world->next,
                  (unsigned long long)world->gateway->moved[KVT_ORDER_PROMOTE],
                  (unsigned long long)result.promotions, both, capacity);
    assert_true(world->gateway->moved[KVT_ORDER_PROMOTE] > 0 && result.promotions > 0);
    assert_true(both >= (capacity - GAP) * 9 / 10);
    policy_tier_simulation_free(world->simulate);
    obedient_free(world->gateway);
    kvt_free(world);
}

/* One world alone may differ by more than a point, for chance alone: a block that one side promoted
 * a little sooner changes what follows. */
static void
compare(const struct kvt_ordering *ordering, const char *promote_by,
        enum policy_promotion promotion, uint32_t capacity, bool terse)
{
    uint64_t random = test_seed();
    struct figures figures = {.terse = terse};
    double live;
    double simulated;

    for (int i = 0; i < WORLDS; i++)
        compare_one(ordering, promote_by, promotion, capacity, kvt_random_next(&random), &figures);
    live = 100.0 * (double)figures.live / (double)figures.reads;
    simulated = 100.0 * (double)figures.simulated / (double)figures.reads;
    print_message("%s, by %s: %.2f %% live, %.2f %% simulated\n", ordering->name, promote_by, live,
                  simulated);
    assert_true(fabs(live - simulated) <= 1.0);
}

static void
by_reads_under_lru(void **state)
{
    (void)state;
    compare(&policy_lru, "reads", POLICY_PROMOTE_ALWAYS, 600, false);
}

static void
by_price_under_rhi(void **state)
{
    (void)state;
    compare(&policy_rhi, "price", POLICY_PROMOTE_PRICE, 600, false);
    compare(&policy_rhi, "price", POLICY_PROMOTE_PRICE, 400, false);
}

static void
by_price_where_only_workers_know_parents(void **state)
{
    (void)state;
    compare(&policy_rhi, "price", POLICY_PROMOTE_PRICE, 600, true);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_reads_under_lru),
        cmocka_unit_test(by_price_under_rhi),
        cmocka_unit_test(by_price_where_only_workers_know_parents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
