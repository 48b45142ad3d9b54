/*
 * gateway/tier/stats.h -- every counter of the gateway, once.
 *
 * Why: /metrics and /v1/status must show the same numbers.
 * Ownership: series belong to the registry given at init.
 * Threads:   any; no lock.
 * Limits:    the rows below.
 */
#ifndef GATEWAY_TIER_STATS_H
#define GATEWAY_TIER_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/core/metrics.h"

/* X(NAME, kind, "metric", "labels", "help") */
#define GATEWAY_STATS_MAP(X)                                                                       \
    X(GET, COUNTER, "requests_total", "verb=\"get\"", "Objects asked for, by verb.")               \
    X(PUT, COUNTER, "requests_total", "verb=\"put\"", "Objects asked for, by verb.")               \
    X(HAS, COUNTER, "requests_total", "verb=\"has\"", "Objects asked for, by verb.")               \
    X(DELETE, COUNTER, "requests_total", "verb=\"delete\"", "Objects asked for, by verb.")         \
    X(LIST, COUNTER, "requests_total", "verb=\"list\"", "Objects asked for, by verb.")             \
    X(HITS_HOT, COUNTER, "reads_total", "result=\"hot\"", "Reads by where they were answered.")    \
    X(HITS_COLD, COUNTER, "reads_total", "result=\"cold\"", "Reads by where they were answered.")  \
    X(HITS_WARM, COUNTER, "reads_total", "result=\"warm\"", "Reads by where they were answered.")  \
    X(HITS_FAR, COUNTER, "reads_total", "result=\"far\"", "Reads by where they were answered.")    \
    X(HITS_SEALED, COUNTER, "sealed_reads_total", "",                                              \
      "Hot reads that were answered from memory (hot.memory).")                                    \
    X(MISSES, COUNTER, "reads_total", "result=\"miss\"", "Reads by where they were answered.")     \
    X(BYTES_IN, COUNTER, "bytes_in_total", "", "Bytes of object bodies accepted.")                 \
    X(BYTES_OUT, COUNTER, "bytes_out_total", "", "Bytes of object bodies served.")                 \
    X(STORED, COUNTER, "puts_total", "result=\"stored\"", "PUTs by outcome.")                      \
    X(PRESENT, COUNTER, "puts_total", "result=\"present\"", "PUTs by outcome.")                    \
    X(REPAIRED, COUNTER, "puts_total", "result=\"repaired\"", "PUTs by outcome.")                  \
    X(CONFLICT, COUNTER, "puts_total", "result=\"conflict\"", "PUTs by outcome.")                  \
    X(REFUSED_FULL, COUNTER, "puts_total", "result=\"full\"", "PUTs by outcome.")                  \
    X(PUT_FAILED, COUNTER, "puts_total", "result=\"failed\"", "PUTs by outcome.")                  \
    X(CORRUPT_HOT, COUNTER, "corrupt_total", "tier=\"hot\"", "Copies that failed their check.")    \
    X(CORRUPT_COLD, COUNTER, "corrupt_total", "tier=\"cold\"", "Copies that failed their check.")  \
    X(CORRUPT_WARM, COUNTER, "corrupt_total", "tier=\"warm\"", "Copies that failed their check.")  \
    X(CORRUPT_FAR, COUNTER, "corrupt_total", "tier=\"far\"", "Copies that failed their check.")    \
    X(FOREIGN, COUNTER, "foreign_total", "", "Objects under a block's key without our metadata.")  \
    X(OTHER_LAYOUT, COUNTER, "other_layout_total", "",                                             \
      "Blocks asked for by a layout that is not theirs: misses.")                                  \
    X(GONE, COUNTER, "gone_total", "", "Blocks that others removed from the bucket.")              \
    X(QUARANTINED, COUNTER, "quarantined_total", "", "Objects copied into the quarantine.")        \
    X(SLOW_DOWN, COUNTER, "slow_down_total", "",                                                   \
      "Requests turned away for want of memory or room.")                                          \
    X(AUTH_FAILED, COUNTER, "auth_failed_total", "", "Requests whose signature was refused.")      \
    X(CUT, COUNTER, "connections_cut_total", "",                                                   \
      "Connections cut because a request took too long.")                                          \
    X(HTTP_BAD, COUNTER, "http_bad_total", "", "Requests that could not be understood.")           \
    X(ORDERS_DONE, COUNTER, "orders_total", "result=\"executed\"", "Orders by outcome.")           \
    X(ORDERS_REFUSED, COUNTER, "orders_total", "result=\"refused\"", "Orders by outcome.")         \
    X(ORDERS_FAILED, COUNTER, "orders_total", "result=\"failed\"", "Orders by outcome.")           \
    X(ITEMS_DONE, COUNTER, "order_items_total", "result=\"done\"", "Blocks of orders by outcome.") \
    X(ITEMS_FAILED, COUNTER, "order_items_total", "result=\"failed\"",                             \
      "Blocks of orders by outcome.")                                                              \
    X(ITEMS_PINNED, COUNTER, "order_items_pinned_total", "",                                       \
      "Blocks that an order was to demote or delete, and that stay because they are pinned.")      \
    X(DELETES_REFUSED_OTHER, COUNTER, "deletes_refused_total", "cause=\"other\"",                  \
      "Blocks that an order was to delete and that stay, by the cause that it states.")            \
    X(DELETES_REFUSED_ROOM, COUNTER, "deletes_refused_total", "cause=\"room\"",                    \
      "Blocks that an order was to delete and that stay, by the cause that it states.")            \
    X(DELETES_REFUSED_QUOTA, COUNTER, "deletes_refused_total", "cause=\"quota\"",                  \
      "Blocks that an order was to delete and that stay, by the cause that it states.")            \
    X(DELETES_REFUSED_EXPIRE, COUNTER, "deletes_refused_total", "cause=\"expire\"",                \
      "Blocks that an order was to delete and that stay, by the cause that it states.")            \
    X(DELETES_REFUSED_JOB, COUNTER, "deletes_refused_total", "cause=\"job\"",                      \
      "Blocks that an order was to delete and that stay, by the cause that it states.")            \
    X(BYTES_MOVED, COUNTER, "bytes_moved_total", "", "Bytes copied between tiers.")                \
    X(BATCHES, COUNTER, "event_batches_total", "", "Event batches acknowledged by the bus.")       \
    X(REPORTS, COUNTER, "reports_total", "", "Reports acknowledged by the bus.")                   \
    X(ACCESS_LOST, COUNTER, "accesses_dropped_total", "", "Accesses not reported: table full.")    \
    X(RESOLVED, COUNTER, "intents_resolved_total", "", "Unfinished PUTs settled afterwards.")      \
    X(BACKLOG_ADDED, COUNTER, "backlog_blocks_total", "result=\"added\"",                          \
      "Blocks acknowledged before they were in the bucket, and what became of them.")              \
    X(BACKLOG_UPLOADED, COUNTER, "backlog_blocks_total", "result=\"uploaded\"",                    \
      "Blocks acknowledged before they were in the bucket, and what became of them.")              \
    X(BACKLOG_LOST, COUNTER, "backlog_blocks_total", "result=\"lost\"",                            \
      "Blocks acknowledged before they were in the bucket, and what became of them.")              \
    X(BACKLOG_REMOVED, COUNTER, "backlog_blocks_total", "result=\"removed\"",                      \
      "Blocks acknowledged before they were in the bucket, and what became of them.")              \
    X(BACKLOG_FAILED, COUNTER, "backlog_failures_total", "", "Uploads that are to be repeated.")   \
    X(BACKLOG_FULL, COUNTER, "backlog_full_total", "",                                             \
      "Blocks that went to the bucket first, because the backlog had no room.")                    \
    X(PACKER_DONE, COUNTER, "packer_runs_total", "result=\"done\"", "Runs of packing.")            \
    X(PACKER_FAILED, COUNTER, "packer_runs_total", "result=\"failed\"", "Runs of packing.")        \
    X(PACKER_PACKED, COUNTER, "packer_blocks_total", "result=\"packed\"",                          \
      "Blocks written into segments: from objects of their own, or from other segments.")          \
    X(PACKER_FORWARDED, COUNTER, "packer_blocks_total", "result=\"forwarded\"",                    \
      "Blocks written into segments: from objects of their own, or from other segments.")          \
    X(PACKER_BYTES, COUNTER, "packer_bytes_total", "", "Their bytes.")                             \
    X(ORPHANS, COUNTER, "orphans_total", "", "Hot files without a catalog row, removed.")          \
    X(HOT_USED, GAUGE, "tier_used_bytes", "tier=\"hot\"", "Bytes of blocks on a tier.")            \
    X(COLD_USED, GAUGE, "tier_used_bytes", "tier=\"cold\"", "Bytes of blocks on a tier.")          \
    X(WARM_USED, GAUGE, "tier_used_bytes", "tier=\"warm\"", "Bytes of blocks on a tier.")          \
    X(FAR_USED, GAUGE, "tier_used_bytes", "tier=\"far\"", "Bytes of blocks on a tier.")            \
    X(HOT_CAPACITY, GAUGE, "tier_capacity_bytes", "tier=\"hot\"", "Cap of a tier; 0 is none.")     \
    X(COLD_CAPACITY, GAUGE, "tier_capacity_bytes", "tier=\"cold\"", "Cap of a tier; 0 is none.")   \
    X(WARM_CAPACITY, GAUGE, "tier_capacity_bytes", "tier=\"warm\"", "Cap of a tier; 0 is none.")   \
    X(FAR_CAPACITY, GAUGE, "tier_capacity_bytes", "tier=\"far\"", "Cap of a tier; 0 is none.")     \
    X(HOT_BLOCKS, GAUGE, "tier_blocks", "tier=\"hot\"", "Blocks on a tier.")                       \
    X(COLD_BLOCKS, GAUGE, "tier_blocks", "tier=\"cold\"", "Blocks on a tier.")                     \
    X(WARM_BLOCKS, GAUGE, "tier_blocks", "tier=\"warm\"", "Blocks on a tier.")                     \
    X(FAR_BLOCKS, GAUGE, "tier_blocks", "tier=\"far\"", "Blocks on a tier.")                       \
    X(FAR_HEALTHY, GAUGE, "far_healthy", "", "1 while the second bucket answers.")                 \
    X(COLD_HEALTHY, GAUGE, "cold_healthy", "", "1 while the bucket answers.")                      \
    X(CATALOG_BYTES, GAUGE, "catalog_bytes", "", "Bytes of the catalog in use.")                   \
    X(CATALOG_MAX, GAUGE, "catalog_max_bytes", "", "Bytes the catalog may have.")                  \
    X(CATALOG_ENTRIES, GAUGE, "catalog_entries", "", "Rows of the catalog.")                       \
    X(INTENTS, GAUGE, "catalog_pending", "", "Rows whose PUT or removal is not finished.")         \
    X(BACKLOG_BLOCKS, GAUGE, "backlog_blocks", "", "Blocks that wait for their upload.")           \
    X(BACKLOG_BYTES, GAUGE, "backlog_bytes", "", "Their bytes.")                                   \
    X(BACKLOG_MAX, GAUGE, "backlog_max_bytes", "", "Bytes that may wait for their upload.")        \
    X(BACKLOG_AGE, GAUGE, "backlog_oldest_seconds", "", "How long the first of them has waited.")  \
    X(PACKED_SEGMENTS, GAUGE, "packed_segments", "", "Segments of packed namespaces.")             \
    X(PACKED_BLOCKS, GAUGE, "packed_blocks", "", "Blocks in them that live.")                      \
    X(PACKED_LIVE, GAUGE, "packed_live_bytes", "", "Their bytes.")                                 \
    X(PACKED_SEGMENT_BYTES, GAUGE, "packed_segment_bytes", "", "Bytes of the segments.")           \
    X(PINNED_BLOCKS, GAUGE, "pinned_blocks", "", "Blocks that orders neither demote nor delete.")  \
    X(PINNED_BYTES, GAUGE, "pinned_bytes", "", "Their bytes.")                                     \
    X(PINNED_MAX, GAUGE, "pinned_max_bytes", "", "Bytes that may be pinned.")                      \
    X(EVENTS_PENDING, GAUGE, "events_pending", "", "Events not yet acknowledged by the bus.")      \
    X(CERTIFICATE_END, GAUGE, "certificate_end_timestamp_seconds", "",                             \
      "When the S3 port's certificate ends, in seconds since 1970; 0: plain HTTP.")                \
    X(MEMORY_USED, GAUGE, "memory_used_bytes", "", "Bodies of requests in flight.")                \
    X(MEMORY_MAX, GAUGE, "memory_max_bytes", "", "Bytes that bodies in flight may take.")          \
    X(NATS_UP, GAUGE, "nats_connected", "", "1 while connected to NATS.")

enum gateway_stat {
#define X(name, kind, metric, labels, help) GATEWAY_STAT_##name,
    GATEWAY_STATS_MAP(X)
#undef X
        GATEWAY_STAT_COUNT
};

struct gateway_stats {
    struct kvt_metric *series[GATEWAY_STAT_COUNT]; /* NULL: of a tier that there is not */
};

/** Which of the tiers that a gateway need not have it has. */
struct gateway_stats_tiers {
    bool warm;
    bool far;
};

void gateway_stats_init(struct gateway_stats *stats, struct kvt_metrics *metrics,
                        struct gateway_stats_tiers tiers);

static inline void
gateway_stats_add(struct gateway_stats *stats, enum gateway_stat stat, uint64_t by)
{
    if (stats->series[stat] != NULL)
        kvt_metric_inc(stats->series[stat], (int64_t)by);
}

static inline void
gateway_stats_set(struct gateway_stats *stats, enum gateway_stat stat, uint64_t value)
{
    if (stats->series[stat] != NULL)
        kvt_metric_set(stats->series[stat], (int64_t)value);
}

static inline uint64_t
gateway_stats_get(struct gateway_stats *stats, enum gateway_stat stat)
{
    return stats->series[stat] == NULL ? 0 : (uint64_t)kvt_metric_get(stats->series[stat]);
}

/* Do requests come?  The gateway's own work (uploads of the backlog, orders, packing) shares disk,
 * bucket and processors with its clients, and waits while there are any.  One owner.  Requests
 * count when they begin: one that runs long is not seen for as long. */
struct gateway_stats_traffic {
    struct gateway_stats *stats;
    uint64_t requests; /* that had come at the last call */
};

/** Have requests of clients come since the last call? */
bool gateway_stats_traffic_seen(struct gateway_stats_traffic *traffic);

#endif /* GATEWAY_TIER_STATS_H */
