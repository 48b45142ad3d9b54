#include "policy/ordering/block_queues.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"

void
policy_block_queues_init(struct policy_block_queues *queues)
{
    *queues = (struct policy_block_queues){.links = NULL};
    for (uint32_t i = 0; i < POLICY_BLOCK_QUEUES_MAX; i++)
        queues->queues[i] = (struct policy_block_queue){POLICY_NONE, POLICY_NONE, 0};
}

void
policy_block_queues_release(struct policy_block_queues *queues)
{
    kvt_free(queues->links);
    kvt_free(queues->queue_of);
    policy_block_queues_init(queues);
}

enum kvt_err
policy_block_queues_reserve(struct policy_block_queues *queues, uint32_t count)
{
    struct policy_link *links;
    uint8_t *queue_of;

    if (count <= queues->count)
        return KVT_OK;
    links = kvt_realloc(queues->links, count, sizeof(*links));
    if (links == NULL)
        return KVT_NOMEM;
    queues->links = links;
    queue_of = kvt_realloc(queues->queue_of, count, sizeof(*queue_of));
    if (queue_of == NULL)
        return KVT_NOMEM;
    queues->queue_of = queue_of;
    memset(queue_of + queues->count, POLICY_BLOCK_QUEUE_NONE, count - queues->count);
    queues->count = count;
    return KVT_OK;
}

static void
link_between(struct policy_block_queues *queues, uint32_t queue, uint32_t block,
             struct policy_link neighbours)
{
    struct policy_block_queue *into = &queues->queues[queue];

    assert(queue < POLICY_BLOCK_QUEUES_MAX && block < queues->count);
    assert(queues->queue_of[block] == POLICY_BLOCK_QUEUE_NONE);
    queues->queue_of[block] = (uint8_t)queue;
    queues->links[block] = neighbours;
    if (neighbours.older == POLICY_NONE)
        into->oldest = block;
    else
        queues->links[neighbours.older].newer = block;
    if (neighbours.newer == POLICY_NONE)
        into->newest = block;
    else
        queues->links[neighbours.newer].older = block;
    into->count++;
}

void
policy_block_queues_add(struct policy_block_queues *queues, uint32_t queue, uint32_t block)
{
    link_between(queues, queue, block,
                 (struct policy_link){queues->queues[queue].newest, POLICY_NONE});
}

void
policy_block_queues_add_oldest(struct policy_block_queues *queues, uint32_t queue, uint32_t block)
{
    link_between(queues, queue, block,
                 (struct policy_link){POLICY_NONE, queues->queues[queue].oldest});
}

void
policy_block_queues_remove(struct policy_block_queues *queues, uint32_t block)
{
    const struct policy_link link = queues->links[block];
    struct policy_block_queue *from;

    assert(block < queues->count && queues->queue_of[block] != POLICY_BLOCK_QUEUE_NONE);
    from = &queues->queues[queues->queue_of[block]];
    if (link.older == POLICY_NONE)
        from->oldest = link.newer;
    else
        queues->links[link.older].newer = link.newer;
    if (link.newer == POLICY_NONE)
        from->newest = link.older;
    else
        queues->links[link.newer].older = link.older;
    from->count--;
    queues->queue_of[block] = POLICY_BLOCK_QUEUE_NONE;
}
