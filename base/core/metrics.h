/*
 * base/core/metrics.h -- counters and gauges, in the Prometheus text format.
 *
 * Why: numerators and denominators, never rates; a series exists from the start, at zero.
 * Ownership: a registry owns its series; a program has one and passes it down.  Series pointers are
 *            valid until kvt_metrics_free().
 * Threads:   register at start-up from one thread; add/set from any thread, without a lock.
 * Limits:    KVT_METRICS_MAX series; labels are fixed text given at registration.
 */
#ifndef BASE_CORE_METRICS_H
#define BASE_CORE_METRICS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "kvtier/error.h"

#define KVT_METRICS_MAX 512

#define KVT_HISTOGRAM_BOUNDS_MAX 16

enum kvt_metric_kind { KVT_METRIC_COUNTER, KVT_METRIC_GAUGE, KVT_METRIC_HISTOGRAM };

struct kvt_metric {
    _Atomic int64_t value;
};

/* What was seen up to each of some bounds, beyond the last, and the sum of it. */
struct kvt_histogram {
    const uint64_t *bounds; /* rising; borrowed */
    size_t bound_count;
    struct kvt_metric *buckets[KVT_HISTOGRAM_BOUNDS_MAX + 1]; /* each without those below it */
    struct kvt_metric *sum;
};

struct kvt_metrics;

KVT_NODISCARD enum kvt_err kvt_metrics_new(struct kvt_metrics **out);
void kvt_metrics_free(struct kvt_metrics *metrics);

/**
 * Register a series.  `name` carries the prefix and unit ("kvtier_gateway_puts_total"), `labels` is
 * the text between the braces ("tier=\"hot\"") or "".  Strings are copied.
 *
 * @return the series; a full registry gives a shared overflow series, never NULL
 */
struct kvt_metric *kvt_metrics_add(struct kvt_metrics *metrics, enum kvt_metric_kind kind,
                                   const char *name, const char *labels, const char *help);

/** Register a histogram: `name` without "_bucket", its bounds in the unit of the name.  `histogram`
 *  has `bounds` and `bound_count` set; the rest is filled in. */
void kvt_metrics_add_histogram(struct kvt_metrics *metrics, struct kvt_histogram *histogram,
                               const char *name, const char *help);

/** `value` was seen. */
void kvt_histogram_add(struct kvt_histogram *histogram, uint64_t value);

static inline void
kvt_metric_inc(struct kvt_metric *metric, int64_t by)
{
    atomic_fetch_add_explicit(&metric->value, by, memory_order_relaxed);
}

static inline void
kvt_metric_set(struct kvt_metric *metric, int64_t value)
{
    atomic_store_explicit(&metric->value, value, memory_order_relaxed);
}

static inline int64_t
kvt_metric_get(struct kvt_metric *metric)
{
    return atomic_load_explicit(&metric->value, memory_order_relaxed);
}

/** Append the whole exposition, HELP and TYPE once per name. */
void kvt_metrics_format(struct kvt_metrics *metrics, struct kvt_buffer *out);

#endif /* BASE_CORE_METRICS_H */
