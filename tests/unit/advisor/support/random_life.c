#include "tests/unit/advisor/support/random_life.h"

#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

#include "tests/support/seed.h"

int
life_rung(const struct life *life, int tier)
{
    for (int i = 0; i < life->gateway->tiers; i++)
        if (life->ladder[i] == tier)
            return i;
    return -1;
}

static void
mark(struct life *life, uint64_t value)
{
    life->trail = (life->trail ^ value) * UINT64_C(0x100000001b3);
}

static void
look(void *arg, const struct kvt_order *order, size_t block)
{
    struct life *life = arg;
    bool leaves = order->verb == KVT_ORDER_DELETE;
    int from;
    int to;

    life->looks++;
    mark(life, order->verb * OBEDIENT_BLOCKS + block);
    if (obedient_ends(order, &from, &to)) {
        mark(life, (uint64_t)from * OBEDIENT_TIERS_MAX + (uint64_t)to);
        assert_int_equal(life_rung(life, from) < life_rung(life, to),
                         order->verb == KVT_ORDER_DEMOTE);
        leaves = leaves || order->verb == KVT_ORDER_DEMOTE;
    }
    if (leaves && life->used_ms[block] + life->protect_ms > life->gateway->now_ms)
        fail_msg("%s of block %zu, last used %llu ms ago", kvt_order_verb_name(order->verb), block,
                 (unsigned long long)(life->gateway->now_ms - life->used_ms[block]));
    if (order->verb == KVT_ORDER_PROMOTE &&
        (life->gateway->tiers == OBEDIENT_TIERS || !life->gateway->held[to][block]))
        life->used_ms[block] = life->gateway->now_ms; /* it comes up, and stays for a while */
}

struct life *
life_new(struct obedient *gateway, uint64_t seed, uint64_t protect_ms)
{
    static const int ladder[OBEDIENT_TIERS_MAX] = {OBEDIENT_HOT, OBEDIENT_WARM, OBEDIENT_COLD,
                                                   OBEDIENT_FAR};
    struct life *life = kvt_calloc(1, sizeof(*life));
    int count = 0;

    assert_non_null(life);
    for (int i = 0; i < OBEDIENT_TIERS_MAX; i++)
        if (ladder[i] < gateway->tiers)
            life->ladder[count++] = ladder[i];
    life->gateway = gateway;
    gateway->now_ms = UINT64_C(1700000000000); /* the same in every life */
    gateway->look = look;
    gateway->arg = life;
    life->random = seed;
    life->protect_ms = protect_ms;
    return life;
}

void
life_free(struct life *life)
{
    obedient_free(life->gateway);
    kvt_free(life);
}

static uint32_t
draw_chain(struct life *life)
{
    uint64_t below = OBEDIENT_BLOCKS / LIFE_CHAIN;

    if (life->gateway->tiers > OBEDIENT_TIERS && kvt_random_below(&life->random, 2) == 0)
        below = 64;
    return (uint32_t)kvt_random_below(&life->random, below);
}

void
life_live(struct life *life)
{
    struct obedient *gateway = life->gateway;
    uint32_t part[OBEDIENT_TIERS_MAX + 1][LIFE_CHAIN * 32];
    uint32_t count[OBEDIENT_TIERS_MAX + 1] = {0};

    for (int i = 0; i < 24; i++) {
        const uint32_t chain = draw_chain(life);

        for (uint32_t at = chain * LIFE_CHAIN; at < (chain + 1) * LIFE_CHAIN; at++) {
            int where = OBEDIENT_TIERS_MAX;

            for (int rung = gateway->tiers - 1; rung >= 0; rung--)
                where = gateway->held[life->ladder[rung]][at] ? life->ladder[rung] : where;
            if (life->used_ms[at] == gateway->now_ms)
                continue; /* this chain was drawn before */
            part[where][count[where]++] = at;
            life->used_ms[at] = gateway->now_ms;
        }
    }
    for (int t = 0; t < gateway->tiers; t++)
        obedient_read(gateway, t, part[t], count[t]);
    obedient_publish(gateway, OBEDIENT_COLD, part[OBEDIENT_TIERS_MAX], count[OBEDIENT_TIERS_MAX],
                     true);
    obedient_publish(gateway, OBEDIENT_HOT, part[OBEDIENT_TIERS_MAX], count[OBEDIENT_TIERS_MAX],
                     true);
}

void
life_pin_some(struct life *life)
{
    memset(life->gateway->pinned, 0, sizeof(life->gateway->pinned));
    for (int i = 0; i < LIFE_PINS; i++)
        life->gateway->pinned[kvt_random_below(&life->random, OBEDIENT_BLOCKS)] = true;
}

void
life_nothing_flaps(struct life *life, int ticks)
{
    for (int step = 0; step < LIFE_STEPS; step++) {
        life_live(life);
        obedient_run(life->gateway, ticks, 500);
        life->gateway->now_ms += 1000 + kvt_random_below(&life->random, 10000);
    }
    assert_true(life->gateway->moved[KVT_ORDER_DEMOTE] > 1000);
    assert_true(life->gateway->moved[KVT_ORDER_PROMOTE] > 100);
    life_free(life);
}

uint64_t
life_trail(struct life *life, bool twice)
{
    uint64_t trail;

    life->gateway->twice = twice;
    for (int step = 0; step < LIFE_STEPS / 4; step++) {
        life_live(life);
        obedient_run(life->gateway, 3, 100);
        life->gateway->now_ms += 100 * kvt_random_below(&life->random, 100);
    }
    assert_true(life->looks > 1000);
    trail = life->trail;
    life_free(life);
    return trail;
}
