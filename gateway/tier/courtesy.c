#include "gateway/tier/courtesy.h"

#include <stddef.h>

bool
gateway_stats_traffic_seen(struct gateway_stats_traffic *courtesy)
{
    static const enum gateway_stat asked[] = {GATEWAY_STAT_GET, GATEWAY_STAT_PUT, GATEWAY_STAT_HAS,
                                              GATEWAY_STAT_DELETE, GATEWAY_STAT_LIST};
    const uint64_t before = courtesy->requests;

    courtesy->requests = 0;
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
        courtesy->requests += gateway_stats_get(courtesy->stats, asked[i]);
    return courtesy->requests != before;
}
