#include "policy/ordering/queue_order.h"

#include <assert.h>

#include "base/core/alloc.h"

void
policy_queue_order_free(void *state)
{
    struct policy_queue_order *line = state;

    if (line == NULL)
        return;
    policy_block_queues_release(&line->queues);
    kvt_free(line->stamps);
    kvt_free(line);
}

enum kvt_err
policy_queue_order_init(void **state, const struct kvt_ordering_options *options)
{
    struct policy_queue_order *line = kvt_calloc(1, sizeof(*line));

    (void)options;
    *state = line;
    if (line == NULL)
        return KVT_NOMEM;
    policy_block_queues_init(&line->queues);
    return KVT_OK;
}

enum kvt_err
policy_queue_order_reserve(void *state, uint32_t count)
{
    struct policy_queue_order *line = state;

    if (count <= line->known)
        return KVT_OK;
    if (policy_tick_stamp_reserve(&line->stamps, line->known, count) != KVT_OK ||
        policy_block_queues_reserve(&line->queues, count) != KVT_OK)
        return KVT_NOMEM;
    line->known = count;
    return KVT_OK;
}

void
policy_queue_order_enter(void *state, const struct kvt_ordering_use *use)
{
    struct policy_queue_order *line = state;

    line->stamps[use->block] = (uint32_t)use->now;
    policy_block_queues_add(&line->queues, 0, use->block);
}

bool
policy_queue_order_victim(void *state, uint64_t now, uint32_t *block)
{
    struct policy_queue_order *line = state;

    (void)now;
    *block = line->queues.queues[0].oldest;
    if (*block == POLICY_NONE)
        return false;
    policy_block_queues_remove(&line->queues, *block);
    return true;
}

void
policy_queue_order_give_back(void *state, uint32_t block)
{
    struct policy_queue_order *line = state;

    policy_block_queues_add_oldest(&line->queues, 0, block);
}

void
policy_queue_order_leave(void *state, uint32_t block)
{
    struct policy_queue_order *line = state;

    if (line->queues.queue_of[block] != POLICY_BLOCK_QUEUE_NONE)
        policy_block_queues_remove(&line->queues, block);
}

void
policy_queue_order_forget(void *state, uint32_t block)
{
    struct policy_queue_order *line = state;

    assert(line->queues.queue_of[block] == POLICY_BLOCK_QUEUE_NONE);
    line->stamps[block] = 0;
}

double
policy_queue_order_value(const void *state, uint32_t block, uint64_t now)
{
    const struct policy_queue_order *line = state;

    return -(double)policy_tick_stamp_age(line->stamps[block], now);
}

size_t
policy_queue_order_memory(const void *state)
{
    const struct policy_queue_order *line = state;

    return sizeof(*line) + line->known * (POLICY_BLOCK_QUEUES_BLOCK_BYTES + sizeof(*line->stamps));
}
