/* Least often used since it came in first; among equals, least recently. */
#include "policy/ordering/builtin_orderings.h"
#include "policy/ordering/weight_order.h"

static double
weight(const struct policy_weight_order *weigh, uint32_t uses, uint64_t bytes)
{
    (void)weigh;
    (void)bytes;
    return uses;
}

static enum kvt_err
lfu_init(void **state, const struct kvt_ordering_options *options)
{
    return policy_weight_order_init(state, options, weight);
}

const struct kvt_ordering policy_lfu = {
    KVT_ORDERING_HEAD,
    .name = "lfu",
    .text = "least often used since it came in first",
    .init = lfu_init,
    POLICY_WEIGHT_ORDER_CALLS,
};
