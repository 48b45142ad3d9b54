#include "tests/unit/gateway/support/world.h"

#include <stdio.h>

#include "gateway/move/move.h"
#include "gateway/move/recover.h"
#include "gateway/tier/bucket_tier.h"

const unsigned test_world_bits[GATEWAY_TIERS] = {GATEWAY_HOT, GATEWAY_COLD, GATEWAY_WARM,
                                                 GATEWAY_FAR};

static void
wrap_volumes(struct test_world *w)
{
    assert_int_equal(test_faulty_store_open(&w->stores[GATEWAY_TIER_HOT], w->g.context->tiers.hot),
                     KVT_OK);
    assert_int_equal(
        test_faulty_store_open(&w->stores[GATEWAY_TIER_WARM], w->g.context->tiers.warm), KVT_OK);
    w->g.context->tiers.hot = w->stores[GATEWAY_TIER_HOT];
    w->g.context->tiers.warm = w->stores[GATEWAY_TIER_WARM];
    w->stores[GATEWAY_TIER_COLD] = w->g.bucket;
    w->stores[GATEWAY_TIER_FAR] = w->g.far_bucket;
}

void
test_world_open_with(struct test_world *w, uint64_t warm_capacity, uint64_t far_capacity)
{
    test_gateway_open(&w->g, 1 << 20, 0);
    test_gateway_extend(&w->g, warm_capacity, far_capacity);
    wrap_volumes(w);
}

void
test_world_open(struct test_world *w)
{
    test_world_open_with(w, 1 << 20, 0);
}

void
test_world_reopen(struct test_world *w)
{
    test_gateway_reopen(&w->g);
    wrap_volumes(w);
}

enum kvt_err
test_world_move(struct test_world *w, uint64_t number, unsigned from, unsigned to, bool keep)
{
    const struct gateway_move what = {.from = from, .to = to, .keep = keep};
    char key[KVT_KEY_MAX];
    uint64_t bytes;

    return gateway_move(w->g.context, test_gateway_key(key, number), &what, &bytes);
}

bool
test_world_has(struct test_world *w, uint64_t number, unsigned tier)
{
    struct g4_request head;
    char key[KVT_KEY_MAX];

    return test_gateway_store_head(w->stores[tier], test_gateway_key(key, number), &head) !=
           KVT_NOTFOUND;
}

/* What a life does by itself.  Locks that were not given back, for a request had no answer, count
 * as those of an earlier one, long ago: nobody waits for their lease here. */
void
test_world_repair(struct test_world *w)
{
    static const unsigned volumes[] = {GATEWAY_HOT, GATEWAY_WARM};

    w->g.context->identity.life++;
    w->g.context->identity.since_ms = 0;
    gateway_bucket_tier_probe(w->g.context->tiers.buckets);
    /* A PUT that failed behind a noted removal is that removal again, for the next round. */
    for (unsigned round = 0; round < 2; round++)
        (void)gateway_recover_pending(w->g.context);
    for (size_t i = 0; i < 2; i++) {
        char token[G4_TOKEN_MAX] = "";

        do
            assert_int_equal(gateway_recover_orphans(w->g.context, volumes[i], token), KVT_OK);
        while (token[0] != '\0');
    }
}

/* The rows say what is there, and the counters what the rows say. */
void
test_world_expect_true(struct test_world *w, uint64_t numbers, const char *what)
{
    uint64_t used[GATEWAY_TIERS] = {0};
    struct gateway_catalog_stats stats;

    for (uint64_t number = 1; number <= numbers; number++) {
        const unsigned tiers = test_gateway_tiers(&w->g, number, NULL);

        for (unsigned tier = 0; tier < GATEWAY_TIERS; tier++) {
            const bool said = (tiers & test_world_bits[tier]) != 0;

            if (said != test_world_has(w, number, tier))
                fail_msg("%s: block %u: its row says %x, and tier %u %s", what, (unsigned)number,
                         tiers, tier, said ? "has nothing" : "has something");
            used[tier] += said ? TEST_WORLD_SIZE : 0;
        }
    }
    gateway_catalog_stats(w->g.context->catalog, &stats);
    assert_int_equal(stats.pending, 0);
    for (unsigned tier = 0; tier < GATEWAY_TIERS; tier++) {
        assert_int_equal(stats.used[tier], used[tier]);
        assert_int_equal(stats.blocks[tier], used[tier] / TEST_WORLD_SIZE);
    }
}

void
test_world_expect_readable(struct test_world *w, uint64_t number, const char *what)
{
    const enum kvt_err rc = test_gateway_get(&w->g, number, TEST_WORLD_SIZE, NULL);

    if (rc != KVT_OK)
        fail_msg("%s: %s", what, kvt_err_text(rc));
}

/* A block in `tier`; of the volumes it is beside its bucket's copy. */
void
test_world_place(struct test_world *w, uint64_t number, unsigned tier)
{
    assert_int_equal(test_gateway_put(&w->g, number, TEST_WORLD_SIZE), KVT_OK);
    if (tier == GATEWAY_TIER_WARM)
        assert_int_equal(test_world_move(w, number, GATEWAY_HOT, GATEWAY_WARM, false), KVT_OK);
    if (tier == GATEWAY_TIER_COLD || tier == GATEWAY_TIER_FAR)
        assert_int_equal(test_world_move(w, number, GATEWAY_HOT, GATEWAY_COLD, false), KVT_OK);
    if (tier == GATEWAY_TIER_FAR)
        assert_int_equal(test_world_move(w, number, GATEWAY_COLD, GATEWAY_FAR, false), KVT_OK);
}

void
test_world_drop(struct test_world *w, uint64_t number, unsigned tier)
{
    char key[KVT_KEY_MAX];
    struct g4_request drop = {.verb = G4_DELETE, .key = test_gateway_key(key, number)};

    assert_int_equal(g4_store_perform(w->stores[tier], &drop), KVT_OK);
}

void
test_world_far_away(struct test_world *w, bool away)
{
    struct g4_fault_rule rule = {
        .fault = G4_FAULT_FAIL, .count = away ? UINT64_MAX : 0, .status = KVT_UNAVAILABLE};

    for (rule.verb = G4_GET; rule.verb <= G4_LIST; rule.verb++)
        test_faulty_store_set(w->g.far_bucket, &rule);
}
