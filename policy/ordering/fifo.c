/* What came first leaves first, whatever is read: the plainest ordering, to compare with. */
#include "policy/ordering/builtin_orderings.h"
#include "policy/ordering/queue_order.h"

static void
fifo_touch(void *state, const struct kvt_ordering_use *use)
{
    (void)state;
    (void)use;
}

const struct kvt_ordering policy_fifo = {
    KVT_ORDERING_HEAD,   .name = "fifo",           .text = "first in, first out",
    .touch = fifo_touch, POLICY_QUEUE_ORDER_CALLS,
};
