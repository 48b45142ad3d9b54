/*
 * advisor/index/advisor_counters.h -- the advisor's numbers, once, for /metrics and /v1/status.
 *
 * Why: both must say the same.
 * Ownership: the series belong to the registry.
 * Limits:    none of its own.
 */
#ifndef ADVISOR_INDEX_ADVISOR_COUNTERS_H
#define ADVISOR_INDEX_ADVISOR_COUNTERS_H

#include "base/core/metrics.h"

/* X(member, kind, name behind kvtier_advisor_, help) */
#define ADVISOR_COUNTERS(X)                                                                        \
    X(applied, COUNTER, "events_applied_total", "Events applied to the index.")                    \
    X(unknown, COUNTER, "events_skipped_total", "Events of an unknown kind, left out.")            \
    X(duplicates, COUNTER, "events_duplicate_total", "Events seen before and dropped.")            \
    X(conflicts, COUNTER, "events_conflicting_total", "Numbers seen twice with other events.")     \
    X(unproven, COUNTER, "events_unproven_total", "Repeated numbers too old to be compared.")      \
    X(intruders, COUNTER, "events_refused_total", "Events about what is not their sender's.")      \
    X(ns_refused, COUNTER, "namespaces_refused_total", "Messages whose namespace had no number.")  \
    X(ns_used, GAUGE, "namespaces", "Namespaces that have a number.")                              \
    X(ns_max, GAUGE, "namespaces_max", "Namespaces that may have one.")                            \
    X(ns_full, GAUGE, "namespaces_full", "1 while a new namespace is refused.")                    \
    X(malformed, COUNTER, "messages_malformed_total", "Messages that could not be read.")          \
    X(refused, COUNTER, "messages_refused_total", "Messages there was no room for in a table.")    \
    X(gaps, COUNTER, "gaps_total", "Gaps found in the numbers of a publisher.")                    \
    X(resyncs, COUNTER, "questions_total", "Range and dump questions sent to publishers.")         \
    X(collisions, COUNTER, "collisions_total", "Stores refused: same hash, another parent.")       \
    X(strays, COUNTER, "accesses_stray_total", "Reported accesses of blocks nobody holds.")        \
    X(commits, COUNTER, "commits_total", "Transactions committed to the durable index.")           \
    X(commit_failures, COUNTER, "commit_failures_total", "Transactions that failed.")              \
    X(reports, COUNTER, "reports_applied_total", "Gateway reports applied.")                       \
    X(reports_unsigned, COUNTER, "reports_unsigned_total", "Reports without a signature.")         \
    X(reports_denied, COUNTER, "reports_denied_total",                                             \
      "Reports that were refused: wrong signature, gateway or tier.")                              \
    X(reports_former, COUNTER, "reports_former_total",                                             \
      "Reports of an earlier life of a gateway, or repeated.")                                     \
    X(conditions, GAUGE, "conditions", "Named states that a person should know of.")               \
    X(events_last, GAUGE, "stream_last_sequence", "Newest sequence of the event stream.")          \
    X(events_seq, GAUGE, "stream_committed_sequence", "Sequence of the stream that is durable.")   \
    X(events_done, GAUGE, "stream_applied_sequence", "Sequence of the stream that is applied.")    \
    X(lag_ms, GAUGE, "lag_milliseconds", "Age of the newest message applied, while behind.")       \
    X(event_ms, GAUGE, "last_event_timestamp_milliseconds", "When the last message was sent.")     \
    X(publishers, GAUGE, "publishers", "Publishers that are not gone.")                            \
    X(uncertain, GAUGE, "publishers_uncertain", "Publishers whose blocks are not certain.")        \
    X(silent, GAUGE, "publishers_silent", "Publishers that have stopped sending.")                 \
    X(blocks, GAUGE, "blocks", "Blocks in the durable index.")                                     \
    X(evicted, GAUGE, "blocks_evicted", "Blocks with places that are on disk alone.")              \
    X(spilled, GAUGE, "index_spilled", "1 while the index does not fit in memory.")                \
    X(log_bytes, GAUGE, "index_log_bytes", "Of the durable index's log since its snapshot.")       \
    X(deposits, COUNTER, "snapshots_total", "Snapshots of the index put into NATS.")               \
    X(deposit_failures, COUNTER, "snapshot_failures_total", "Snapshots that came to nothing.")     \
    X(deposit_seq, GAUGE, "snapshot_sequence", "Sequence the newest snapshot in NATS stands for.") \
    X(ram_bytes, GAUGE, "index_bytes", "Memory of the index.")                                     \
    X(policy_bytes, GAUGE, "policy_bytes", "Memory of the policy's order of blocks.")              \
    X(db_bytes, GAUGE, "db_bytes", "File of the durable index.")                                   \
    X(ram_max, GAUGE, "index_max_bytes", "Memory that index and policy may have.")                 \
    X(db_max, GAUGE, "db_max_bytes", "What the file of the durable index may have.")               \
    X(mode, GAUGE, "policy_mode", "0: off, 1: observe, 2: enforce.")                               \
    X(gateways, GAUGE, "gateways", "Gateways that ever reported.")                                 \
    X(unhealthy, GAUGE, "gateways_unhealthy", "Gateways whose bucket does not answer.")            \
    X(stuck, GAUGE, "tiers_stuck", "Tiers to be drained of which nothing may be taken.")           \
    X(draining, GAUGE, "tiers_draining", "Tiers that are being drained.")                          \
    X(reranking, GAUGE, "tiers_reranking", "Tiers that are to get another order.")                 \
    X(to_rank, GAUGE, "reranking_blocks", "Blocks to be read for the order that is made.")         \
    X(ranked, GAUGE, "reranking_blocks_done", "Of them, those that were read.")                    \
    X(pins, GAUGE, "pins", "Blocks that gateways say are pinned.")                                 \
    X(quotas_soft, GAUGE, "quotas_above_soft", "Quotas above their soft size, not their hard.")    \
    X(quotas_hard, GAUGE, "quotas_above_hard", "Quotas above their hard size.")                    \
    X(refusals, GAUGE, "blocks_refused", "Blocks that gateways did not let go, left out for now.") \
    X(full, GAUGE, "db_full", "1 while the durable index takes nothing more.")                     \
    X(orders_issued, COUNTER, "orders_issued_total", "Orders published.")                          \
    X(orders_observed, COUNTER, "orders_observed_total", "Orders that would have been published.") \
    X(orders_done, COUNTER, "orders_done_total", "Orders that gateways finished.")                 \
    X(orders_failed, COUNTER, "orders_failed_total", "Orders that gateways gave up.")              \
    X(orders_expired, COUNTER, "orders_expired_total", "Orders without a result in time.")         \
    X(orders_pending, GAUGE, "orders_pending", "Orders without a result yet.")                     \
    X(queries, COUNTER, "queries_total", "Find and match questions answered.")                     \
    X(queries_dropped, COUNTER, "queries_dropped_total", "Questions there was no room for.")

struct advisor_counters {
#define X(member, kind, name, help) struct kvt_metric *member;
    ADVISOR_COUNTERS(X)
#undef X
};

void advisor_counters_register(struct advisor_counters *counters, struct kvt_metrics *metrics);

#endif /* ADVISOR_INDEX_ADVISOR_COUNTERS_H */
