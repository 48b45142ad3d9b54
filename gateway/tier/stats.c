#include "gateway/tier/stats.h"

#include <stddef.h>

/* Series of a tier that the gateway has not would only say so. */
static bool
is_shown(enum gateway_stat stat, struct gateway_stats_tiers tiers)
{
    switch (stat) {
    case GATEWAY_STAT_HITS_WARM:
    case GATEWAY_STAT_CORRUPT_WARM:
    case GATEWAY_STAT_WARM_USED:
    case GATEWAY_STAT_WARM_CAPACITY:
    case GATEWAY_STAT_WARM_BLOCKS: return tiers.warm;
    case GATEWAY_STAT_HITS_FAR:
    case GATEWAY_STAT_CORRUPT_FAR:
    case GATEWAY_STAT_FAR_USED:
    case GATEWAY_STAT_FAR_CAPACITY:
    case GATEWAY_STAT_FAR_BLOCKS:
    case GATEWAY_STAT_FAR_HEALTHY: return tiers.far;
    default: return true;
    }
}

void
gateway_stats_init(struct gateway_stats *stats, struct kvt_metrics *metrics,
                   struct gateway_stats_tiers tiers)
{
#define X(name, kind, metric, labels, help)                                                        \
    stats->series[GATEWAY_STAT_##name] =                                                           \
        is_shown(GATEWAY_STAT_##name, tiers)                                                       \
            ? kvt_metrics_add(metrics, KVT_METRIC_##kind, "kvtier_gateway_" metric, labels, help)  \
            : NULL;
    GATEWAY_STATS_MAP(X)
#undef X
}

bool
gateway_stats_traffic_seen(struct gateway_stats_traffic *traffic)
{
    static const enum gateway_stat asked[] = {GATEWAY_STAT_GET, GATEWAY_STAT_PUT, GATEWAY_STAT_HAS,
                                              GATEWAY_STAT_DELETE, GATEWAY_STAT_LIST};
    const uint64_t before = traffic->requests;

    traffic->requests = 0;
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
        traffic->requests += gateway_stats_get(traffic->stats, asked[i]);
    return traffic->requests != before;
}
