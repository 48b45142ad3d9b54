/*
 * Reuse-hazard index: blocks are sorted into kinds by how often they were used and whether their
 * request ended with them, and each kind is a queue by last use.  policy/ordering/hazard.h learns
 * from all known blocks, hot and cold, what a kind at an age still promises; what leaves is the
 * oldest block of the kind whose oldest promises least.
 *
 * Everything is per place: a block that will be used for sure, but late, may be worth less than one
 * that will perhaps be used soon.  policy/DESIGN.md has the figures.
 */
#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"

#include "policy/ordering/block_queues.h"
#include "policy/ordering/builtin_orderings.h"
#include "policy/ordering/hazard.h"
#include "policy/ordering/tick_stamp.h"

enum { KINDS = POLICY_HAZARD_KINDS, COUNTS = POLICY_HAZARD_COUNTS, UNKNOWN = 0xff };

struct rhi {
    struct policy_block_queues queues; /* by kind, what is in the tier */
    struct policy_hazard *hazard;
    uint32_t *used; /* tick of the last use */
    uint8_t *kinds;
    uint32_t known;
    uint64_t now; /* of the last call that said it */
};

static void
rhi_free(void *state)
{
    struct rhi *rhi = state;

    if (rhi == NULL)
        return;
    policy_block_queues_release(&rhi->queues);
    policy_hazard_free(rhi->hazard);
    kvt_free(rhi->used);
    kvt_free(rhi->kinds);
    kvt_free(rhi);
}

static enum kvt_err
rhi_init(void **state, const struct kvt_ordering_options *options)
{
    struct rhi *rhi = kvt_calloc(1, sizeof(*rhi));

    (void)options;
    *state = NULL;
    if (rhi == NULL)
        return KVT_NOMEM;
    policy_block_queues_init(&rhi->queues);
    if (policy_hazard_new(&rhi->hazard) != KVT_OK) {
        rhi_free(rhi);
        return KVT_NOMEM;
    }
    *state = rhi;
    return KVT_OK;
}

static enum kvt_err
rhi_reserve(void *state, uint32_t count)
{
    struct rhi *rhi = state;
    uint8_t *kinds;

    if (count <= rhi->known)
        return KVT_OK;
    if (policy_tick_stamp_reserve(&rhi->used, rhi->known, count) != KVT_OK)
        return KVT_NOMEM;
    kinds = kvt_realloc(rhi->kinds, count, sizeof(*kinds));
    if (kinds == NULL)
        return KVT_NOMEM;
    rhi->kinds = kinds;
    if (policy_block_queues_reserve(&rhi->queues, count) != KVT_OK)
        return KVT_NOMEM;
    memset(kinds + rhi->known, UNKNOWN, count - rhi->known);
    rhi->known = count;
    return KVT_OK;
}

/* Those that ended their request come first: of equals they leave first, as ends of chains do. */
static uint8_t
kind_of(const struct kvt_ordering_use *use)
{
    static const uint32_t up_to[COUNTS] = {1, 2, 3, 5, 9, 30, UINT32_MAX};
    uint8_t kind = 0;

    while (use->uses > up_to[kind])
        kind++;
    return (use->flags & KVT_ORDERING_LAST) != 0 ? kind : (uint8_t)(kind + COUNTS);
}

static uint64_t
since(const struct rhi *rhi, uint32_t block, uint64_t now)
{
    return now - policy_tick_stamp_age(rhi->used[block], now);
}

static void
rhi_touch(void *state, const struct kvt_ordering_use *use)
{
    struct rhi *rhi = state;
    uint8_t *kind = &rhi->kinds[use->block];

    rhi->now = use->now;
    if ((use->flags & KVT_ORDERING_RESTORED) != 0)
        policy_hazard_rest(rhi->hazard);
    else
        policy_hazard_refresh(rhi->hazard, use->now);
    if (*kind != UNKNOWN)
        policy_hazard_end(rhi->hazard, *kind, since(rhi, use->block, use->now), use->now,
                          (use->flags & (KVT_ORDERING_RESTORED | KVT_ORDERING_AGAIN)) == 0);
    *kind = kind_of(use);
    rhi->used[use->block] = (uint32_t)use->now;
    policy_hazard_wait(rhi->hazard, *kind, use->now);
    if (rhi->queues.queue_of[use->block] == POLICY_BLOCK_QUEUE_NONE)
        return;
    policy_block_queues_remove(&rhi->queues, use->block);
    policy_block_queues_add(&rhi->queues, *kind, use->block);
}

static void
rhi_enter(void *state, const struct kvt_ordering_use *use)
{
    struct rhi *rhi = state;

    policy_block_queues_add(&rhi->queues, rhi->kinds[use->block], use->block);
}

static double
rhi_value(const void *state, uint32_t block, uint64_t now)
{
    const struct rhi *rhi = state;

    if (rhi->kinds[block] == UNKNOWN)
        return 0;
    return policy_hazard_index(rhi->hazard, rhi->kinds[block],
                               policy_tick_stamp_age(rhi->used[block], now));
}

static bool
rhi_victim(void *state, uint64_t now, uint32_t *block)
{
    struct rhi *rhi = state;
    double lowest = 0;
    uint32_t oldest = 0;

    rhi->now = now;
    *block = POLICY_NONE;
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        const uint32_t tail = rhi->queues.queues[kind].oldest;
        double value;
        uint32_t age;

        if (tail == POLICY_NONE)
            continue;
        value = rhi_value(rhi, tail, now);
        age = policy_tick_stamp_age(rhi->used[tail], now);
        if (*block == POLICY_NONE || value < lowest || (!(lowest < value) && age > oldest)) {
            *block = tail;
            lowest = value;
            oldest = age;
        }
    }
    if (*block == POLICY_NONE)
        return false;
    policy_block_queues_remove(&rhi->queues, *block);
    return true;
}

static void
rhi_give_back(void *state, uint32_t block)
{
    struct rhi *rhi = state;

    policy_block_queues_add_oldest(&rhi->queues, rhi->kinds[block], block);
}

static void
rhi_leave(void *state, uint32_t block)
{
    struct rhi *rhi = state;

    if (rhi->queues.queue_of[block] != POLICY_BLOCK_QUEUE_NONE)
        policy_block_queues_remove(&rhi->queues, block);
}

static void
rhi_forget(void *state, uint32_t block)
{
    struct rhi *rhi = state;

    assert(rhi->queues.queue_of[block] == POLICY_BLOCK_QUEUE_NONE);
    if (rhi->kinds[block] == UNKNOWN)
        return;
    policy_hazard_end(rhi->hazard, rhi->kinds[block], since(rhi, block, rhi->now), rhi->now, false);
    rhi->kinds[block] = UNKNOWN;
}

static double
rhi_chance(const void *state, uint32_t block, uint64_t now, uint64_t window)
{
    const struct rhi *rhi = state;

    if (rhi->kinds[block] == UNKNOWN)
        return 0;
    return policy_hazard_chance(rhi->hazard, rhi->kinds[block],
                                policy_tick_stamp_age(rhi->used[block], now), window);
}

static size_t
rhi_save(const void *state, void *bytes, size_t room)
{
    return policy_hazard_save(((const struct rhi *)state)->hazard, bytes, room);
}

static enum kvt_err
rhi_load(void *state, const void *bytes, size_t size)
{
    return policy_hazard_load(((struct rhi *)state)->hazard, bytes, size);
}

static size_t
rhi_memory(const void *state)
{
    const struct rhi *rhi = state;

    return sizeof(*rhi) + policy_hazard_memory() +
           rhi->known *
               (POLICY_BLOCK_QUEUES_BLOCK_BYTES + sizeof(*rhi->used) + sizeof(*rhi->kinds));
}

const struct kvt_ordering policy_rhi = {
    KVT_ORDERING_HEAD,
    .name = "rhi",
    .text = "what promises the fewest uses for its place first, learned from all reads",
    .init = rhi_init,
    .reserve = rhi_reserve,
    .touch = rhi_touch,
    .enter = rhi_enter,
    .victim = rhi_victim,
    .give_back = rhi_give_back,
    .leave = rhi_leave,
    .forget = rhi_forget,
    .value = rhi_value,
    .chance = rhi_chance,
    .save = rhi_save,
    .load = rhi_load,
    .memory = rhi_memory,
    .free = rhi_free,
};
