/*
 * gateway/tier/courtesy.h -- do requests come?
 *
 * Why: what the gateway does on its own account (uploads of the backlog, orders) shares disk,
 * bucket and processors with its clients, and stands back while there are any.
 *
 * Ownership: borrows the statistics.
 * Threads:   one owner.
 * Limits:    counts requests when they begin: one that runs long is not seen for as long.
 */
#ifndef GATEWAY_TIER_COURTESY_H
#define GATEWAY_TIER_COURTESY_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/tier/stats.h"

struct gateway_stats_traffic {
    struct gateway_stats *stats;
    uint64_t requests; /* that had come when it was asked last */
};

/** Have requests of clients come since this was asked last? */
bool gateway_stats_traffic_seen(struct gateway_stats_traffic *courtesy);

#endif /* GATEWAY_TIER_COURTESY_H */
