/* What saves least for its bytes first, ageing as prefix does (greedy-dual, size and frequency). */
#include "policy/ordering/builtin_orderings.h"
#include "policy/ordering/weight_order.h"

static double
weight(const struct policy_weight_order *weigh, uint32_t uses, uint64_t bytes)
{
    const double saved = weigh->prices.cold_read - weigh->prices.hot_read;

    /* Where nobody said what things cost, all uses save the same. */
    return weigh->floor + uses * (saved > 0 ? saved : 1) / (double)(bytes == 0 ? 1 : bytes);
}

static enum kvt_err
gdsf_init(void **state, const struct kvt_ordering_options *options)
{
    return policy_weight_order_init(state, options, weight);
}

const struct kvt_ordering policy_gdsf = {
    KVT_ORDERING_HEAD,
    .name = "gdsf",
    .text = "least saved for a byte first, counts age with what leaves",
    .init = gdsf_init,
    POLICY_WEIGHT_ORDER_CALLS,
};
