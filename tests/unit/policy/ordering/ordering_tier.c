#include "tests/unit/policy/ordering/ordering_tier.h"

#include <string.h>

#include "base/core/random.h"

#include "tests/support/seed.h"

void
tier_init(struct tier *tier, const struct kvt_ordering *ordering, uint64_t seed)
{
    const struct kvt_ordering_options options = {.prices = {1, 10, 1}, .idle_ticks = 50};

    memset(tier, 0, sizeof(*tier));
    tier->ordering = ordering;
    tier->random = seed;
    tier->counts[TIER_UNKNOWN] = TIER_BLOCKS;
    assert_int_equal(ordering->init(&tier->order, &options), KVT_OK);
    assert_int_equal(ordering->reserve(tier->order, TIER_BLOCKS / 2), KVT_OK);
    assert_int_equal(ordering->reserve(tier->order, TIER_BLOCKS), KVT_OK);
}

void
tier_free(struct tier *tier)
{
    tier->ordering->free(tier->order);
}

static void
put(struct tier *tier, uint32_t block, enum tier_place place)
{
    tier->counts[tier->places[block]]--;
    tier->places[block] = place;
    tier->counts[place]++;
}

void
tier_use(struct tier *tier, uint32_t block, bool enters)
{
    const bool hot = tier->places[block] == TIER_HOT || tier->places[block] == TIER_TAKEN;
    const struct kvt_ordering_use use = {
        .block = block,
        .uses = ++tier->uses[block],
        .position = block % 10,
        .flags = (hot ? (uint32_t)KVT_ORDERING_HOT : 0) |
                 (kvt_random_below(&tier->random, 5) == 0 ? (uint32_t)KVT_ORDERING_LAST : 0),
        .bytes = 1,
        .now = tier->now,
    };

    tier->ordering->touch(tier->order, &use);
    if (tier->places[block] == TIER_UNKNOWN)
        put(tier, block, TIER_COLD);
    if (hot || !enters)
        return;
    tier->ordering->enter(tier->order, &use);
    put(tier, block, TIER_HOT);
}

bool
tier_victim(struct tier *tier, uint32_t *block)
{
    const bool found = tier->ordering->victim(tier->order, tier->now, block);

    assert_int_equal(found, tier->counts[TIER_HOT] > 0);
    if (!found)
        return false;
    assert_true(*block < TIER_BLOCKS);
    assert_int_equal(tier->places[*block], TIER_HOT); /* in the tier, and not taken already */
    put(tier, *block, TIER_TAKEN);
    return true;
}

void
tier_leave(struct tier *tier, uint32_t block)
{
    tier->ordering->leave(tier->order, block);
    put(tier, block, TIER_COLD);
}

void
tier_forget(struct tier *tier, uint32_t block)
{
    tier->ordering->forget(tier->order, block);
    tier->uses[block] = 0;
    put(tier, block, TIER_UNKNOWN);
}

static void
take_due(struct tier *tier)
{
    uint32_t block;

    if (tier->ordering->due == NULL || !tier->ordering->due(tier->order, tier->now, &block))
        return;
    assert_int_equal(tier->places[block], TIER_HOT);
    put(tier, block, TIER_TAKEN);
}

void
tier_step(struct tier *tier)
{
    const uint32_t block = (uint32_t)kvt_random_below(&tier->random, TIER_BLOCKS);
    uint32_t victim;

    tier->now += kvt_random_below(&tier->random, 3);
    switch (kvt_random_below(&tier->random, 8)) {
    case 0: (void)tier_victim(tier, &victim); return;
    case 1: take_due(tier); return;
    case 2:
        if (tier->places[block] == TIER_HOT || tier->places[block] == TIER_TAKEN)
            tier_leave(tier, block);
        else
            tier_forget(tier, block);
        return;
    case 3:
        if (tier->places[block] == TIER_TAKEN) {
            tier->ordering->give_back(tier->order, block);
            put(tier, block, TIER_HOT);
        }
        return;
    default: tier_use(tier, block, kvt_random_below(&tier->random, 3) > 0);
    }
}
