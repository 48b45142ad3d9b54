#include <assert.h>
#include <stdlib.h>

#include "base/core/alloc.h"

#include "policy/decide/tier_blocks_private.h"
#include "policy/ordering/ordering_table.h"

/* What the ordering hears: in the order it wants, whatever the order in which it was told. */

/* Taken out, whether or not the ordering knows. */
enum { OUT = POLICY_TIER_BLOCKS_TAKEN | POLICY_TIER_BLOCKS_CLAIMED };

static struct kvt_ordering_use
use_of(const struct policy_tier_blocks *roster, const struct policy_told *told, uint32_t flags)
{
    const uint32_t ranks = told->ranks != 0 ? told->ranks : 1;

    return (struct kvt_ordering_use){
        .block = told->seat,
        .uses = told->uses,
        .position = told->position,
        .flags = flags,
        .bytes = roster->seats[told->seat].block.size * (uint64_t)__builtin_popcount(ranks),
        .now = roster->now,
    };
}

/* In the tier and out of it; a cold one takes its place among the cold. */
static void
follow(struct policy_tier_blocks *roster, const struct policy_told *told)
{
    struct policy_seat *seat = &roster->seats[told->seat];
    const bool in_tier = (seat->flags & POLICY_TIER_BLOCKS_IN) != 0;
    const uint8_t queue = roster->queues.queue_of[told->seat];

    if (queue == POLICY_TIER_BLOCKS_COLD ||
        (queue == POLICY_TIER_BLOCKS_PASSED && told->ranks == 0))
        policy_block_queues_remove(&roster->queues, told->seat);
    if (told->ranks != 0 && !in_tier) {
        const struct kvt_ordering_use use = use_of(roster, told, 0);

        roster->ordering->enter(roster->state, &use);
        seat->flags |= POLICY_TIER_BLOCKS_IN;
    } else if (told->ranks == 0 && in_tier) {
        if ((seat->flags & POLICY_TIER_BLOCKS_TAKEN) != 0)
            policy_promotion_left(&roster->price,
                                  roster->ordering->value(roster->state, told->seat, roster->now));
        roster->ordering->leave(roster->state, told->seat);
        roster->taken -= (seat->flags & OUT) != 0 ? 1 : 0;
        seat->flags &= (uint8_t) ~(POLICY_TIER_BLOCKS_IN | OUT);
    }
    if (told->ranks == 0)
        policy_block_queues_add(&roster->queues, POLICY_TIER_BLOCKS_COLD, told->seat);
}

static void
give_back(struct policy_tier_blocks *roster, uint32_t at)
{
    if ((roster->seats[at].flags & OUT) == 0)
        return;
    if (roster->queues.queue_of[at] == POLICY_TIER_BLOCKS_PASSED)
        policy_block_queues_remove(&roster->queues, at);
    if ((roster->seats[at].flags & POLICY_TIER_BLOCKS_TAKEN) != 0)
        roster->ordering->give_back(roster->state, at);
    roster->seats[at].flags &= (uint8_t)~OUT;
    roster->taken--;
}

/* One that was set aside is back in its place before it is used, as if it had never been out: the
 * ordering moves only what it has.  Where a use moves nothing the place is kept by those around it,
 * and it stays where it is. */
static void
return_used(struct policy_tier_blocks *roster, uint32_t at)
{
    if (roster->queues.queue_of[at] == POLICY_TIER_BLOCKS_PASSED &&
        policy_ordering_moves_used(roster->ordering))
        give_back(roster, at);
}

void
policy_tier_blocks_pass_on(struct policy_tier_blocks *roster, const struct policy_told *told,
                           uint32_t flags)
{
    struct policy_seat *seat = &roster->seats[told->seat];

    if (told->tick > roster->now)
        roster->now = told->tick;
    if (told->uses > 0) {
        const uint32_t hot = (seat->flags & POLICY_TIER_BLOCKS_IN) != 0 ? KVT_ORDERING_HOT : 0;
        const struct kvt_ordering_use use = use_of(roster, told, flags | hot);

        return_used(roster, told->seat);
        roster->ordering->touch(roster->state, &use);
        seat->flags &= (uint8_t)~POLICY_TIER_BLOCKS_ENDED;
        seat->flags |= POLICY_TIER_BLOCKS_KNOWN;
        if ((flags & KVT_ORDERING_LAST) != 0)
            seat->flags |= POLICY_TIER_BLOCKS_ENDED;
    }
    follow(roster, told);
}

/* ---- news ---- */

static int
by_tick(const void *left, const void *right)
{
    const struct policy_told *a = left;
    const struct policy_told *b = right;

    if (a->tick != b->tick)
        return a->tick < b->tick ? -1 : 1;
    if (a->position != b->position)
        return a->position > b->position ? -1 : 1;
    return a->number < b->number ? -1 : 1;
}

/* Nothing behind it was used with it: its request ended there. */
static bool
is_last(const struct policy_tier_blocks *roster, const struct policy_told *told)
{
    const uint16_t since = (uint16_t)(told->tick - roster->seats[told->seat].inner);
    const uint16_t until = (uint16_t)(roster->seats[told->seat].inner - told->tick);

    return since > roster->request_ticks && until > roster->request_ticks;
}

/* Blocks are told of in any order.  One that was used with what comes behind it, and is told of
 * later, is no end all the same. */
static void
link_loose(struct policy_tier_blocks *roster)
{
    for (size_t i = 0; i < roster->told_count; i++) {
        const struct policy_block *block = &roster->seats[roster->told[i].seat].block;
        const uint32_t parent = roster->told[i].loose
                                    ? policy_tier_blocks_find(roster, block->ns, block->parent)
                                    : POLICY_NONE;

        if (parent != POLICY_NONE)
            roster->seats[parent].inner = (uint16_t)roster->told[i].tick;
    }
}

static uint32_t
flags_of(const struct policy_tier_blocks *roster, const struct policy_told *told)
{
    return (is_last(roster, told) ? KVT_ORDERING_LAST : 0u) |
           (told->again ? KVT_ORDERING_AGAIN : 0u);
}

void
policy_tier_blocks_settle(struct policy_tier_blocks *roster)
{
    if (roster->restoring)
        (void)!policy_tier_blocks_restored(roster, NULL, NULL); /* in some order they are there */
    if (roster->told_count == 0)
        return;
    link_loose(roster);
    qsort(roster->told, roster->told_count, sizeof(*roster->told), by_tick);
    for (size_t i = 0; i < roster->told_count; i++)
        policy_tier_blocks_pass_on(roster, &roster->told[i], flags_of(roster, &roster->told[i]));
    roster->told_count = 0;
}

/* ---- victims ---- */

static bool
take(struct policy_tier_blocks *roster, uint64_t tick, struct policy_block *block,
     bool (*choose)(void *state, uint64_t now, uint32_t *block))
{
    uint32_t at;

    *block = (struct policy_block){.hash = 0};
    if (choose == NULL)
        return false;
    policy_tier_blocks_settle(roster);
    if (tick > roster->newest)
        roster->newest = tick;
    if (tick > roster->now)
        roster->now = tick;
    while (choose(roster->state, roster->now, &at)) {
        struct policy_seat *seat = &roster->seats[at];
        const bool claimed = (seat->flags & POLICY_TIER_BLOCKS_CLAIMED) != 0;

        assert(at < roster->seats_max && (seat->flags & POLICY_TIER_BLOCKS_IN) != 0 &&
               (seat->flags & POLICY_TIER_BLOCKS_TAKEN) == 0);
        seat->flags |= POLICY_TIER_BLOCKS_TAKEN;
        seat->flags &= (uint8_t)~POLICY_TIER_BLOCKS_CLAIMED;
        if (claimed)
            continue; /* now the ordering knows too */
        roster->taken++;
        *block = seat->block;
        return true;
    }
    return false;
}

bool
policy_tier_blocks_victim(struct policy_tier_blocks *roster, uint64_t tick,
                          struct policy_block *block)
{
    return take(roster, tick, block, roster->ordering->victim);
}

bool
policy_tier_blocks_due(struct policy_tier_blocks *roster, uint64_t tick, struct policy_block *block)
{
    return take(roster, tick, block, roster->ordering->due);
}

bool
policy_tier_blocks_claim(struct policy_tier_blocks *roster, uint32_t ns, uint64_t hash)
{
    const uint32_t at = policy_tier_blocks_find(roster, ns, hash);
    struct policy_seat *seat;

    if (at == POLICY_NONE)
        return false;
    policy_tier_blocks_settle(roster);
    seat = &roster->seats[at];
    if ((seat->flags & POLICY_TIER_BLOCKS_IN) == 0)
        return false;
    if (roster->queues.queue_of[at] == POLICY_TIER_BLOCKS_PASSED) {
        policy_block_queues_remove(&roster->queues, at); /* it is out as before */
        return true;
    }
    if ((seat->flags & OUT) != 0)
        return false;
    seat->flags |= POLICY_TIER_BLOCKS_CLAIMED;
    roster->taken++;
    return true;
}

bool
policy_tier_blocks_scan(const struct policy_tier_blocks *roster, uint32_t *at, uint32_t max,
                        policy_tier_blocks_scan_fn *callback, void *arg)
{
    for (; *at < roster->seats_max && max > 0; (*at)++, max--) {
        const struct policy_seat *seat = &roster->seats[*at];

        if (seat->block.ranks != 0 &&
            ((seat->flags & OUT) == 0 || roster->queues.queue_of[*at] == POLICY_TIER_BLOCKS_PASSED))
            callback(arg, &seat->block,
                     roster->newest - (uint32_t)((uint32_t)roster->newest - seat->stamp));
    }
    return *at < roster->seats_max;
}

void
policy_tier_blocks_give_back(struct policy_tier_blocks *roster, uint32_t ns, uint64_t hash)
{
    const uint32_t at = policy_tier_blocks_find(roster, ns, hash);

    policy_tier_blocks_settle(roster);
    if (at != POLICY_NONE)
        give_back(roster, at);
}

void
policy_tier_blocks_pass(struct policy_tier_blocks *roster, uint32_t ns, uint64_t hash)
{
    const uint32_t at = policy_tier_blocks_find(roster, ns, hash);

    policy_tier_blocks_settle(roster);
    if (at != POLICY_NONE && (roster->seats[at].flags & OUT) != 0 &&
        roster->queues.queue_of[at] == POLICY_BLOCK_QUEUE_NONE)
        policy_block_queues_add(&roster->queues, POLICY_TIER_BLOCKS_PASSED, at);
}

uint32_t
policy_tier_blocks_resume(struct policy_tier_blocks *roster, uint32_t max)
{
    const struct policy_block_queue *passed = &roster->queues.queues[POLICY_TIER_BLOCKS_PASSED];
    uint32_t count = 0;

    policy_tier_blocks_settle(roster);
    while (count < max && passed->count > 0) {
        give_back(roster, passed->newest); /* each in front of those that came after it */
        count++;
    }
    return count;
}

void
policy_tier_blocks_give_back_all(struct policy_tier_blocks *roster)
{
    policy_tier_blocks_settle(roster);
    for (uint32_t at = 0; at < roster->seats_max && roster->taken > 0; at++)
        give_back(roster, at);
}

bool
policy_tier_blocks_is_taken(const struct policy_tier_blocks *roster, uint32_t ns, uint64_t hash)
{
    const uint32_t at = policy_tier_blocks_find(roster, ns, hash);

    return at != POLICY_NONE && roster->seats[at].block.ranks != 0 &&
           (roster->seats[at].flags & OUT) != 0;
}

bool
policy_tier_blocks_is_leaving(const struct policy_tier_blocks *roster, uint32_t ns, uint64_t hash)
{
    const uint32_t at = policy_tier_blocks_find(roster, ns, hash);

    return policy_tier_blocks_is_taken(roster, ns, hash) &&
           roster->queues.queue_of[at] != POLICY_TIER_BLOCKS_PASSED;
}

enum kvt_err
policy_tier_blocks_standing(struct policy_tier_blocks *roster, uint32_t ns, uint64_t hash,
                            uint64_t tick, uint64_t window, struct policy_standing *standing)
{
    const uint32_t at = policy_tier_blocks_find(roster, ns, hash);
    const struct policy_seat *seat;
    uint64_t now;

    *standing = (struct policy_standing){.chance = -1};
    if (at == POLICY_NONE)
        return KVT_NOTFOUND;
    policy_tier_blocks_settle(roster);
    seat = &roster->seats[at];
    now = tick > roster->now ? tick : roster->now;
    *standing = (struct policy_standing){
        .block = seat->block,
        .in_tier = seat->block.ranks != 0,
        .taken = (seat->flags & OUT) != 0,
        .uses = seat->uses,
        .tick = now - (uint32_t)((uint32_t)now - seat->stamp),
        .value = roster->ordering->value(roster->state, at, now),
        .chance = roster->ordering->chance == NULL
                      ? -1
                      : roster->ordering->chance(roster->state, at, now, window),
    };
    return KVT_OK;
}

uint32_t
policy_tier_blocks_before(struct policy_tier_blocks *roster, double value, uint64_t tick)
{
    const uint64_t step = 1 + (uint64_t)(roster->seats_max - 1) / POLICY_TIER_BLOCKS_SAMPLE;
    uint64_t now;
    uint64_t seen = 0;
    uint64_t lower = 0;

    policy_tier_blocks_settle(roster);
    now = tick > roster->now ? tick : roster->now;
    for (uint64_t at = 0; at < roster->seats_max; at += step) {
        const uint8_t flags = roster->seats[at].flags;

        if ((flags & POLICY_TIER_BLOCKS_IN) == 0 || (flags & OUT) != 0)
            continue;
        seen++;
        lower += roster->ordering->value(roster->state, (uint32_t)at, now) < value;
    }
    return seen == 0 ? 0 : (uint32_t)(lower * (roster->in_tier - roster->taken) / seen);
}

bool
policy_tier_blocks_pays(struct policy_tier_blocks *roster, uint32_t ns, uint64_t hash,
                        uint64_t tick)
{
    const uint32_t at = policy_tier_blocks_find(roster, ns, hash);

    if (at == POLICY_NONE)
        return false;
    policy_tier_blocks_settle(roster);
    return policy_promotion_pays(&roster->price, &(struct policy_promotion_candidate){
                                                     .ordering = roster->ordering,
                                                     .state = roster->state,
                                                     .prices = roster->prices,
                                                     .block = at,
                                                     .now = tick > roster->now ? tick : roster->now,
                                                 });
}

/* ---- what was learned ---- */

size_t
policy_tier_blocks_save(const struct policy_tier_blocks *roster, void *bytes, size_t room)
{
    return roster->ordering->save == NULL ? 0 : roster->ordering->save(roster->state, bytes, room);
}

enum kvt_err
policy_tier_blocks_load(struct policy_tier_blocks *roster, const void *bytes, size_t size)
{
    assert(roster->now == 0 && !roster->restoring && roster->known == 0);
    return roster->ordering->load == NULL ? KVT_OK
                                          : roster->ordering->load(roster->state, bytes, size);
}
