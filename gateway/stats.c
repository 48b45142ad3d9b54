#include "gateway/stats.h"

void
gateway_stats_init(struct gateway_stats *stats, struct kvt_metrics *metrics)
{
#define X(name, kind, metric, labels, help)                                                        \
    stats->series[GATEWAY_STAT_##name] =                                                           \
        kvt_metrics_add(metrics, KVT_METRIC_##kind, "kvtier_gateway_" metric, labels, help);
    GATEWAY_STATS_MAP(X)
#undef X
}
