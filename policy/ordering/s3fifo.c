/*
 * Three queues (S3-FIFO): newcomers are on probation; who is read there moves to the main queue,
 * who is not leaves and is remembered for a while, and goes straight to main when it returns.  Main
 * lets what was read go round again.
 *
 * Probation gets half of the tier, not the tenth of the paper: a chat's next turn comes after a
 * pause, and a short probation throws it out just before.
 */
#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"

#include "policy/ordering/block_queues.h"
#include "policy/ordering/builtin_orderings.h"

enum { PROBATION, MAIN, GONE, TAKEN_PROBATION, TAKEN_MAIN };

enum { READS_MAX = 3, PROBATION_SHARE = 2 /* one of that many */ };

struct s3fifo {
    struct policy_block_queues queues;
    uint8_t *reads; /* since it came into its queue, up to READS_MAX */
    uint32_t known;
};

static void
s3fifo_free(void *state)
{
    struct s3fifo *s3fifo = state;

    if (s3fifo == NULL)
        return;
    policy_block_queues_release(&s3fifo->queues);
    kvt_free(s3fifo->reads);
    kvt_free(s3fifo);
}

static enum kvt_err
s3fifo_init(void **state, const struct kvt_ordering_options *options)
{
    struct s3fifo *s3fifo = kvt_calloc(1, sizeof(*s3fifo));

    (void)options;
    *state = s3fifo;
    if (s3fifo == NULL)
        return KVT_NOMEM;
    policy_block_queues_init(&s3fifo->queues);
    return KVT_OK;
}

static enum kvt_err
s3fifo_reserve(void *state, uint32_t count)
{
    struct s3fifo *s3fifo = state;
    uint8_t *reads;

    if (count <= s3fifo->known)
        return KVT_OK;
    reads = kvt_realloc(s3fifo->reads, count, sizeof(*reads));
    if (reads == NULL)
        return KVT_NOMEM;
    s3fifo->reads = reads;
    if (policy_block_queues_reserve(&s3fifo->queues, count) != KVT_OK)
        return KVT_NOMEM;
    memset(reads + s3fifo->known, 0, count - s3fifo->known);
    s3fifo->known = count;
    return KVT_OK;
}

static uint32_t
count_of(const struct s3fifo *s3fifo, uint32_t queue)
{
    return s3fifo->queues.queues[queue].count;
}

static void
move(struct s3fifo *s3fifo, uint32_t block, uint32_t queue)
{
    policy_block_queues_remove(&s3fifo->queues, block);
    policy_block_queues_add(&s3fifo->queues, queue, block);
}

static void
s3fifo_touch(void *state, const struct kvt_ordering_use *use)
{
    struct s3fifo *s3fifo = state;
    const uint8_t queue = s3fifo->queues.queue_of[use->block];

    if ((use->flags & KVT_ORDERING_AGAIN) != 0)
        return;
    if (queue != POLICY_BLOCK_QUEUE_NONE && queue != GONE && s3fifo->reads[use->block] < READS_MAX)
        s3fifo->reads[use->block]++;
}

static void
s3fifo_enter(void *state, const struct kvt_ordering_use *use)
{
    struct s3fifo *s3fifo = state;

    s3fifo->reads[use->block] = 0;
    if (s3fifo->queues.queue_of[use->block] == GONE)
        move(s3fifo, use->block, MAIN);
    else
        policy_block_queues_add(&s3fifo->queues, PROBATION, use->block);
}

/* The next of probation that nobody read; those that were read move to main. */
static bool
take_probation(struct s3fifo *s3fifo, uint32_t *block)
{
    while ((*block = s3fifo->queues.queues[PROBATION].oldest) != POLICY_NONE) {
        if (s3fifo->reads[*block] == 0) {
            move(s3fifo, *block, TAKEN_PROBATION);
            return true;
        }
        s3fifo->reads[*block] = 0;
        move(s3fifo, *block, MAIN);
    }
    return false;
}

static bool
take_main(struct s3fifo *s3fifo, uint32_t *block)
{
    while ((*block = s3fifo->queues.queues[MAIN].oldest) != POLICY_NONE) {
        if (s3fifo->reads[*block] == 0) {
            move(s3fifo, *block, TAKEN_MAIN);
            return true;
        }
        s3fifo->reads[*block]--;
        move(s3fifo, *block, MAIN);
    }
    return false;
}

static uint64_t
in_tier(const struct s3fifo *s3fifo)
{
    return (uint64_t)count_of(s3fifo, PROBATION) + count_of(s3fifo, MAIN) +
           count_of(s3fifo, TAKEN_PROBATION) + count_of(s3fifo, TAKEN_MAIN);
}

static bool
s3fifo_victim(void *state, uint64_t now, uint32_t *block)
{
    struct s3fifo *s3fifo = state;
    const uint64_t share = in_tier(s3fifo) / PROBATION_SHARE;

    (void)now;
    if (count_of(s3fifo, PROBATION) >= share || count_of(s3fifo, MAIN) == 0)
        return take_probation(s3fifo, block) || take_main(s3fifo, block);
    return take_main(s3fifo, block);
}

static void
s3fifo_give_back(void *state, uint32_t block)
{
    struct s3fifo *s3fifo = state;
    const uint32_t queue = s3fifo->queues.queue_of[block] == TAKEN_PROBATION ? PROBATION : MAIN;

    policy_block_queues_remove(&s3fifo->queues, block);
    policy_block_queues_add_oldest(&s3fifo->queues, queue, block);
}

/* What left probation is remembered, as many as the tier holds. */
static void
s3fifo_leave(void *state, uint32_t block)
{
    struct s3fifo *s3fifo = state;
    const bool remembered = s3fifo->queues.queue_of[block] == TAKEN_PROBATION;
    const uint64_t room = in_tier(s3fifo);

    policy_block_queues_remove(&s3fifo->queues, block);
    if (!remembered)
        return;
    policy_block_queues_add(&s3fifo->queues, GONE, block);
    while (count_of(s3fifo, GONE) > room)
        policy_block_queues_remove(&s3fifo->queues, s3fifo->queues.queues[GONE].oldest);
}

static void
s3fifo_forget(void *state, uint32_t block)
{
    struct s3fifo *s3fifo = state;

    if (s3fifo->queues.queue_of[block] != POLICY_BLOCK_QUEUE_NONE)
        policy_block_queues_remove(&s3fifo->queues, block);
}

/* Queues have no value but a place; read more often and in main is better. */
static double
s3fifo_value(const void *state, uint32_t block, uint64_t now)
{
    const struct s3fifo *s3fifo = state;
    const uint8_t queue = s3fifo->queues.queue_of[block];

    (void)now;
    if (queue == MAIN || queue == TAKEN_MAIN || queue == GONE)
        return READS_MAX + 1 + s3fifo->reads[block];
    return queue == POLICY_BLOCK_QUEUE_NONE ? 0 : s3fifo->reads[block];
}

static size_t
s3fifo_memory(const void *state)
{
    const struct s3fifo *s3fifo = state;

    return sizeof(*s3fifo) +
           s3fifo->known * (POLICY_BLOCK_QUEUES_BLOCK_BYTES + sizeof(*s3fifo->reads));
}

const struct kvt_ordering policy_s3fifo = {
    KVT_ORDERING_HEAD,
    .name = "s3fifo",
    .text = "half on probation, main for what was read there",
    .init = s3fifo_init,
    .reserve = s3fifo_reserve,
    .touch = s3fifo_touch,
    .enter = s3fifo_enter,
    .victim = s3fifo_victim,
    .give_back = s3fifo_give_back,
    .leave = s3fifo_leave,
    .forget = s3fifo_forget,
    .value = s3fifo_value,
    .memory = s3fifo_memory,
    .free = s3fifo_free,
};
