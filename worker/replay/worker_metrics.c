#include "base/core/alloc.h"
#include "base/core/metrics.h"

#include "worker/replay/worker_status.h"

/* X(member, name, labels, help): sums over the logical workers' counters. */
#define COUNTED(X)                                                                                 \
    X(requests, "kvtier_worker_requests_total", "", "Requests served")                             \
    X(blocks, "kvtier_worker_blocks_total", "", "Blocks of those requests")                        \
    X(hits_g1, "kvtier_worker_hits_total", "tier=\"G1\"", "Blocks taken from a tier")              \
    X(hits_g2, "kvtier_worker_hits_total", "tier=\"G2\"", "Blocks taken from a tier")              \
    X(hits_g3, "kvtier_worker_hits_total", "tier=\"G3\"", "Blocks taken from a tier")              \
    X(hits_g4, "kvtier_worker_hits_total", "tier=\"G4\"", "Blocks taken from a tier")              \
    X(computed, "kvtier_worker_computed_total", "", "Blocks that had to be computed")              \
    X(wrong_bytes, "kvtier_worker_wrong_bytes_total", "", "Bytes that were not what they must be") \
    X(verified_blocks, "kvtier_worker_verified_blocks_total", "", "Blocks compared byte by byte")  \
    X(verified_bytes, "kvtier_worker_verified_bytes_total", "", "Bytes compared")                  \
    X(lost_hits, "kvtier_worker_lost_hits_total", "", "Planned hits gone, unreadable or wrong")    \
    X(dearer, "kvtier_worker_refused_hits_total", "reason=\"dearer\"",                             \
      "Hits not taken, by reason")                                                                 \
    X(late, "kvtier_worker_refused_hits_total", "reason=\"late\"", "Hits not taken, by reason")    \
    X(unplaced, "kvtier_worker_unplaced_total", "", "Blocks a tier had no room for")               \
    X(g4_failed, "kvtier_worker_gateway_failures_total", "", "Questions to the gateway unanswered")

/* X(stat, name, labels, help): what engines that attach have done, together. */
#define ENGINES(X)                                                                                 \
    X(offloaded, "kvtier_worker_engine_blocks_total", "move=\"offloaded\"",                        \
      "Blocks of attached engines, by what became of them")                                        \
    X(present, "kvtier_worker_engine_blocks_total", "move=\"present\"",                            \
      "Blocks of attached engines, by what became of them")                                        \
    X(failed, "kvtier_worker_engine_blocks_total", "move=\"failed\"",                              \
      "Blocks of attached engines, by what became of them")                                        \
    X(onboarded, "kvtier_worker_engine_blocks_total", "move=\"onboarded\"",                        \
      "Blocks of attached engines, by what became of them")                                        \
    X(prefetched, "kvtier_worker_engine_blocks_total", "move=\"prefetched\"",                      \
      "Blocks of attached engines, by what became of them")                                        \
    X(refused, "kvtier_worker_engine_requests_refused_total", "",                                  \
      "Requests of attached engines that were no good")

enum { TIERS = WORKER_LEDGER_TIERS, EDGES = TIERS /* each by the tier it leaves */ };

struct worker_metrics {
#define X(member, name, labels, help) struct kvt_metric *member;
    COUNTED(X)
#undef X
    struct kvt_metric *offloaded[EDGES];
    struct kvt_metric *offloaded_bytes[EDGES];
    struct kvt_metric *offload_failed[EDGES];
    struct kvt_metric *pool_blocks[TIERS];
    struct kvt_metric *pool_used[TIERS];
#define X(stat, name, labels, help) struct kvt_metric *engine_##stat;
    ENGINES(X)
#undef X
    struct kvt_metric *engines;
    struct kvt_metric *engines_attached;
    struct kvt_metric *engines_refused;
    struct kvt_metric *engines_broken;
    struct kvt_metric *events;
    struct kvt_metric *events_lost;
    struct kvt_metric *events_buffered;
};

static const char *const edge_labels[EDGES] = {"from=\"G1\"", "from=\"G2\"", "from=\"G3\""};
static const char *const tier_labels[TIERS] = {"tier=\"G1\"", "tier=\"G2\"", "tier=\"G3\""};

static void
add_engines(struct worker_metrics *metrics, struct kvt_metrics *registry)
{
    static const char *const total = "kvtier_worker_engines_total";
    static const char *const help = "Engines that asked to attach, by what became of them";

    metrics->engines = kvt_metrics_add(registry, KVT_METRIC_GAUGE, "kvtier_worker_engines", "",
                                       "Engines that are attached now");
    metrics->engines_attached =
        kvt_metrics_add(registry, KVT_METRIC_COUNTER, total, "outcome=\"attached\"", help);
    metrics->engines_refused =
        kvt_metrics_add(registry, KVT_METRIC_COUNTER, total, "outcome=\"refused\"", help);
    metrics->engines_broken =
        kvt_metrics_add(registry, KVT_METRIC_COUNTER, total, "outcome=\"broken\"", help);
#define X(stat, name, labels, text)                                                                \
    metrics->engine_##stat = kvt_metrics_add(registry, KVT_METRIC_COUNTER, name, labels, text);
    ENGINES(X)
#undef X
}

enum kvt_err
worker_metrics_new(struct worker_metrics **out, struct kvt_metrics *registry)
{
    struct worker_metrics *metrics = kvt_calloc(1, sizeof(*metrics));

    *out = metrics;
    if (metrics == NULL)
        return KVT_NOMEM;
#define X(member, name, labels, help)                                                              \
    metrics->member = kvt_metrics_add(registry, KVT_METRIC_COUNTER, name, labels, help);
    COUNTED(X)
#undef X
    for (size_t i = 0; i < EDGES; i++) {
        metrics->offloaded[i] =
            kvt_metrics_add(registry, KVT_METRIC_COUNTER, "kvtier_worker_offloaded_total",
                            edge_labels[i], "Blocks moved one tier down");
        metrics->offloaded_bytes[i] =
            kvt_metrics_add(registry, KVT_METRIC_COUNTER, "kvtier_worker_offloaded_bytes_total",
                            edge_labels[i], "Bytes moved one tier down");
        metrics->offload_failed[i] =
            kvt_metrics_add(registry, KVT_METRIC_COUNTER, "kvtier_worker_offload_failed_total",
                            edge_labels[i], "Blocks the tier below did not take");
    }
    for (size_t i = 0; i < TIERS; i++) {
        metrics->pool_blocks[i] =
            kvt_metrics_add(registry, KVT_METRIC_GAUGE, "kvtier_worker_pool_blocks", tier_labels[i],
                            "Blocks of a tier");
        metrics->pool_used[i] =
            kvt_metrics_add(registry, KVT_METRIC_GAUGE, "kvtier_worker_pool_used_blocks",
                            tier_labels[i], "Blocks of a tier that hold something");
    }
    add_engines(metrics, registry);
    metrics->events = kvt_metrics_add(registry, KVT_METRIC_COUNTER, "kvtier_worker_events_total",
                                      "", "Events published");
    metrics->events_lost =
        kvt_metrics_add(registry, KVT_METRIC_COUNTER, "kvtier_worker_events_lost_total", "",
                        "Events given up before they were sent");
    metrics->events_buffered =
        kvt_metrics_add(registry, KVT_METRIC_GAUGE, "kvtier_worker_events_buffered", "",
                        "Events not yet acknowledged");
    return KVT_OK;
}

void
worker_metrics_free(struct worker_metrics *metrics)
{
    kvt_free(metrics);
}

static void
sample_pools(const struct worker_status *status)
{
    uint64_t blocks[TIERS] = {0};
    uint64_t used[TIERS] = {0};

    for (uint32_t s = 0; s < status->stack_count; s++) {
        const struct worker_stack *stack = status->stacks[s];
        struct kvbm_pool *const pools[TIERS] = {stack->g1.pool, stack->g2.pool, stack->g3.pool};

        for (size_t i = 0; i < TIERS; i++) {
            struct kvbm_pool_stats stats;

            if (pools[i] == NULL)
                continue;
            stats = kvbm_pool_stats(pools[i]);
            blocks[i] += stats.blocks;
            used[i] += stats.blocks - stats.free;
        }
    }
    for (size_t i = 0; i < TIERS; i++) {
        kvt_metric_set(status->metrics->pool_blocks[i], (int64_t)blocks[i]);
        kvt_metric_set(status->metrics->pool_used[i], (int64_t)used[i]);
    }
}

static void
sample_edges(const struct worker_status *status)
{
    for (size_t i = 0; i < EDGES; i++) {
        struct kvt_offload_stats sum = {0};

        for (uint32_t s = 0; s < status->stack_count; s++) {
            struct kvt_offload_stats stats;

            (void)kvbm_manager_stats(status->stacks[s]->manager, (enum kvt_tier)(KVT_TIER_G1 + i),
                                     &stats);
            sum.blocks += stats.blocks;
            sum.bytes += stats.bytes;
            sum.failed += stats.failed;
        }
        kvt_metric_set(status->metrics->offloaded[i], (int64_t)sum.blocks);
        kvt_metric_set(status->metrics->offloaded_bytes[i], (int64_t)sum.bytes);
        kvt_metric_set(status->metrics->offload_failed[i], (int64_t)sum.failed);
    }
}

static void
sample_engines(const struct worker_status *status)
{
    const struct worker_metrics *metrics = status->metrics;
    struct kvbm_attach_stats stats;

    if (status->engines == NULL)
        return;
    worker_engines_stats(status->engines, &stats);
    kvt_metric_set(metrics->engines, (int64_t)stats.engines);
    kvt_metric_set(metrics->engines_attached, (int64_t)stats.attached);
    kvt_metric_set(metrics->engines_refused, (int64_t)stats.refused);
    kvt_metric_set(metrics->engines_broken, (int64_t)stats.broken);
#define X(stat, name, labels, help)                                                                \
    kvt_metric_set(metrics->engine_##stat, (int64_t)stats.moved[KVBM_ATTACH_STAT_##stat]);
    ENGINES(X)
#undef X
}

static void
sample_events(const struct worker_status *status)
{
    uint64_t published = 0;
    uint64_t lost = 0;
    uint64_t buffered = 0;

    for (uint32_t s = 0; s < status->stack_count; s++) {
        struct wire_event_publisher_stats stats;

        if (status->stacks[s]->ledger.publisher == NULL)
            continue;
        wire_event_publisher_stats(status->stacks[s]->ledger.publisher, &stats);
        published += stats.next_seq > 0 ? stats.next_seq - 1 : 0;
        lost += stats.lost;
        buffered += stats.buffered;
    }
    kvt_metric_set(status->metrics->events, (int64_t)published);
    kvt_metric_set(status->metrics->events_lost, (int64_t)lost);
    kvt_metric_set(status->metrics->events_buffered, (int64_t)buffered);
}

void
worker_status_sample(const struct worker_status *status)
{
#define X(member, name, labels, help)                                                              \
    {                                                                                              \
        uint64_t sum = 0;                                                                          \
                                                                                                   \
        for (uint32_t s = 0; s < status->stack_count; s++)                                         \
            sum += worker_counter_read(&status->stacks[s]->counters.member);                       \
        kvt_metric_set(status->metrics->member, (int64_t)sum);                                     \
    }
    COUNTED(X)
#undef X
    sample_pools(status);
    sample_edges(status);
    sample_engines(status);
    sample_events(status);
}
