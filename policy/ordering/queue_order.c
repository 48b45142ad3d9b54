#include "policy/ordering/queue_order.h"

#include <assert.h>

#include "base/core/alloc.h"

void
policy_line_free(void *state)
{
    struct policy_line *line = state;

    if (line == NULL)
        return;
    policy_queues_release(&line->queues);
    kvt_free(line->stamps);
    kvt_free(line);
}

enum kvt_err
policy_line_init(void **state, const struct kvt_ordering_options *options)
{
    struct policy_line *line = kvt_calloc(1, sizeof(*line));

    (void)options;
    *state = line;
    if (line == NULL)
        return KVT_NOMEM;
    policy_queues_init(&line->queues);
    return KVT_OK;
}

enum kvt_err
policy_line_reserve(void *state, uint32_t count)
{
    struct policy_line *line = state;

    if (count <= line->known)
        return KVT_OK;
    if (policy_stamp_reserve(&line->stamps, line->known, count) != KVT_OK ||
        policy_queues_reserve(&line->queues, count) != KVT_OK)
        return KVT_NOMEM;
    line->known = count;
    return KVT_OK;
}

void
policy_line_enter(void *state, const struct kvt_ordering_use *use)
{
    struct policy_line *line = state;

    line->stamps[use->block] = (uint32_t)use->now;
    policy_queues_add(&line->queues, 0, use->block);
}

bool
policy_line_victim(void *state, uint64_t now, uint32_t *block)
{
    struct policy_line *line = state;

    (void)now;
    *block = line->queues.queues[0].oldest;
    if (*block == POLICY_NONE)
        return false;
    policy_queues_remove(&line->queues, *block);
    return true;
}

void
policy_line_give_back(void *state, uint32_t block)
{
    struct policy_line *line = state;

    policy_queues_add_oldest(&line->queues, 0, block);
}

void
policy_line_leave(void *state, uint32_t block)
{
    struct policy_line *line = state;

    if (line->queues.queue_of[block] != POLICY_QUEUE_NONE)
        policy_queues_remove(&line->queues, block);
}

void
policy_line_forget(void *state, uint32_t block)
{
    struct policy_line *line = state;

    assert(line->queues.queue_of[block] == POLICY_QUEUE_NONE);
    line->stamps[block] = 0;
}

double
policy_line_value(const void *state, uint32_t block, uint64_t now)
{
    const struct policy_line *line = state;

    return -(double)policy_stamp_age(line->stamps[block], now);
}

size_t
policy_line_memory(const void *state)
{
    const struct policy_line *line = state;

    return sizeof(*line) + line->known * (POLICY_QUEUES_BLOCK_BYTES + sizeof(*line->stamps));
}
