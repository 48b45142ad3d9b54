/* Least recently used first.  With chains touched from their ends this is leaf-first by itself. */
#include "policy/ordering/builtin_orderings.h"
#include "policy/ordering/queue_order.h"

static void
lru_touch(void *state, const struct kvt_ordering_use *use)
{
    struct policy_queue_order *line = state;

    line->stamps[use->block] = (uint32_t)use->now;
    if (line->queues.queue_of[use->block] == POLICY_BLOCK_QUEUE_NONE)
        return;
    policy_block_queues_remove(&line->queues, use->block);
    policy_block_queues_add(&line->queues, 0, use->block);
}

const struct kvt_ordering policy_lru = {
    KVT_ORDERING_HEAD,
    .name = "lru",
    .text = "least recently used first",
    .touch = lru_touch,
    POLICY_QUEUE_ORDER_CALLS,
};
