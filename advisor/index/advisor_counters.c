#include "advisor/index/advisor_counters.h"

void
advisor_counters_register(struct advisor_counters *counters, struct kvt_metrics *metrics)
{
#define X(member, kind, name, help)                                                                \
    counters->member =                                                                             \
        kvt_metrics_add(metrics, KVT_METRIC_##kind, "kvtier_advisor_" name, "", help);
    ADVISOR_COUNTERS(X)
#undef X
}
