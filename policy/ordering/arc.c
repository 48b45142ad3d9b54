/*
 * Adaptive replacement (ARC): what was read once and what was read again, each in order of use, and
 * for each a list of what left; a return of what left says which of the two was too small.
 */
#include <assert.h>

#include "base/core/alloc.h"

#include "policy/ordering/block_queues.h"
#include "policy/ordering/builtin_orderings.h"

enum { ONCE, AGAIN, GONE_ONCE, GONE_AGAIN, TAKEN_ONCE, TAKEN_AGAIN };

struct arc {
    struct policy_block_queues queues;
    double target;        /* for ONCE, in blocks */
    bool again_was_short; /* the read in hand is of what left AGAIN */
};

static void
arc_free(void *state)
{
    struct arc *arc = state;

    if (arc == NULL)
        return;
    policy_block_queues_release(&arc->queues);
    kvt_free(arc);
}

static enum kvt_err
arc_init(void **state, const struct kvt_ordering_options *options)
{
    struct arc *arc = kvt_calloc(1, sizeof(*arc));

    (void)options;
    *state = arc;
    if (arc == NULL)
        return KVT_NOMEM;
    policy_block_queues_init(&arc->queues);
    return KVT_OK;
}

static enum kvt_err
arc_reserve(void *state, uint32_t count)
{
    struct arc *arc = state;

    return policy_block_queues_reserve(&arc->queues, count);
}

static uint32_t
count_of(const struct arc *arc, uint32_t queue)
{
    return arc->queues.queues[queue].count;
}

static double
in_tier(const struct arc *arc)
{
    return (double)count_of(arc, ONCE) + count_of(arc, AGAIN) + count_of(arc, TAKEN_ONCE) +
           count_of(arc, TAKEN_AGAIN);
}

static void
move(struct arc *arc, uint32_t block, uint32_t queue)
{
    policy_block_queues_remove(&arc->queues, block);
    policy_block_queues_add(&arc->queues, queue, block);
}

static double
ratio(uint32_t other, uint32_t own)
{
    return other > own && own > 0 ? (double)other / own : 1.0;
}

static void
arc_touch(void *state, const struct kvt_ordering_use *use)
{
    struct arc *arc = state;
    const uint8_t queue = arc->queues.queue_of[use->block];

    if ((use->flags & KVT_ORDERING_AGAIN) != 0) {
        if (queue == ONCE || queue == AGAIN)
            move(arc, use->block, queue);
        return;
    }
    arc->again_was_short = queue == GONE_AGAIN;
    if (queue == ONCE || queue == AGAIN)
        move(arc, use->block, AGAIN);
    else if (queue == TAKEN_ONCE)
        move(arc, use->block, TAKEN_AGAIN);
    else if (queue == GONE_ONCE)
        arc->target += ratio(count_of(arc, GONE_AGAIN), count_of(arc, GONE_ONCE));
    else if (queue == GONE_AGAIN)
        arc->target -= ratio(count_of(arc, GONE_ONCE), count_of(arc, GONE_AGAIN));
    if (arc->target > in_tier(arc))
        arc->target = in_tier(arc);
    if (arc->target < 0)
        arc->target = 0;
}

static void
trim(struct arc *arc, uint32_t queue, double room)
{
    while (count_of(arc, queue) > 0 && count_of(arc, queue) > room)
        policy_block_queues_remove(&arc->queues, arc->queues.queues[queue].oldest);
}

/* What is remembered of ONCE is no more than what AGAIN has of the tier, and of both together as
 * much as the tier. */
static void
arc_enter(void *state, const struct kvt_ordering_use *use)
{
    struct arc *arc = state;
    double capacity;

    if (arc->queues.queue_of[use->block] == POLICY_BLOCK_QUEUE_NONE)
        policy_block_queues_add(&arc->queues, ONCE, use->block);
    else
        move(arc, use->block, AGAIN);
    arc->again_was_short = false;
    capacity = in_tier(arc);
    trim(arc, GONE_ONCE, capacity - count_of(arc, ONCE) - count_of(arc, TAKEN_ONCE));
    trim(arc, GONE_AGAIN, capacity - count_of(arc, GONE_ONCE));
}

static bool
arc_victim(void *state, uint64_t now, uint32_t *block)
{
    struct arc *arc = state;
    const uint32_t once = count_of(arc, ONCE);
    const bool from_once =
        once > 0 && (once > arc->target || (arc->again_was_short && !(once < arc->target)) ||
                     count_of(arc, AGAIN) == 0);

    (void)now;
    *block = arc->queues.queues[from_once ? ONCE : AGAIN].oldest;
    if (*block == POLICY_NONE)
        return false;
    move(arc, *block, from_once ? TAKEN_ONCE : TAKEN_AGAIN);
    return true;
}

static void
arc_give_back(void *state, uint32_t block)
{
    struct arc *arc = state;
    const uint32_t queue = arc->queues.queue_of[block] == TAKEN_ONCE ? ONCE : AGAIN;

    policy_block_queues_remove(&arc->queues, block);
    policy_block_queues_add_oldest(&arc->queues, queue, block);
}

static void
arc_leave(void *state, uint32_t block)
{
    struct arc *arc = state;
    const uint8_t queue = arc->queues.queue_of[block];

    if (queue == TAKEN_ONCE || queue == TAKEN_AGAIN)
        move(arc, block, queue == TAKEN_ONCE ? GONE_ONCE : GONE_AGAIN);
    else
        policy_block_queues_remove(&arc->queues, block); /* deleted: its return would say nothing */
}

static void
arc_forget(void *state, uint32_t block)
{
    struct arc *arc = state;

    if (arc->queues.queue_of[block] != POLICY_BLOCK_QUEUE_NONE)
        policy_block_queues_remove(&arc->queues, block);
}

/* By how much its queue is within its share: the queue that is too long gives the next. */
static double
arc_value(const void *state, uint32_t block, uint64_t now)
{
    const struct arc *arc = state;
    const uint8_t queue = arc->queues.queue_of[block];
    const double spare = arc->target - count_of(arc, ONCE);

    (void)now;
    return queue == AGAIN || queue == TAKEN_AGAIN || queue == GONE_AGAIN ? -spare : spare;
}

static size_t
arc_memory(const void *state)
{
    const struct arc *arc = state;

    return sizeof(*arc) + arc->queues.count * POLICY_BLOCK_QUEUES_BLOCK_BYTES;
}

const struct kvt_ordering policy_arc = {
    KVT_ORDERING_HEAD,
    .name = "arc",
    .text = "read once against read again, balanced by what returns",
    .init = arc_init,
    .reserve = arc_reserve,
    .touch = arc_touch,
    .enter = arc_enter,
    .victim = arc_victim,
    .give_back = arc_give_back,
    .leave = arc_leave,
    .forget = arc_forget,
    .value = arc_value,
    .memory = arc_memory,
    .free = arc_free,
};
