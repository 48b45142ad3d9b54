/* Least often used first, where what left lifts all that comes later (LFU with dynamic ageing);
 * chains leave from their ends, so that shared beginnings stay. */
#include "policy/ordering/builtin_orderings.h"
#include "policy/ordering/weight_order.h"

static double
weight(const struct policy_weight_order *weigh, uint32_t uses, uint64_t bytes)
{
    (void)bytes;
    return weigh->floor + uses;
}

static enum kvt_err
prefix_init(void **state, const struct kvt_ordering_options *options)
{
    return policy_weight_order_init(state, options, weight);
}

const struct kvt_ordering policy_prefix = {
    KVT_ORDERING_HEAD,
    .name = "prefix",
    .text = "least often used first, counts age with what leaves",
    .init = prefix_init,
    POLICY_WEIGHT_ORDER_CALLS,
};
