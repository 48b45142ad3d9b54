#include "base/core/metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"

struct series {
    struct kvt_metric metric;
    enum kvt_metric_kind kind;
    size_t family; /* the first series with the same name */
    char *name;
    char *labels;
    char *help;
};

struct kvt_metrics {
    /* Written by the one registering thread, read by scrapes: a series below `count` is complete.
     */
    _Atomic size_t count;
    struct kvt_metric overflow; /* what is counted on series that did not fit; never shown */
    struct kvt_metric refused;
    struct series series[KVT_METRICS_MAX];
};

enum kvt_err
kvt_metrics_new(struct kvt_metrics **out)
{
    *out = kvt_calloc(1, sizeof(**out));
    return *out == NULL ? KVT_NOMEM : KVT_OK;
}

static void
series_release(struct series *series)
{
    kvt_free(series->name);
    kvt_free(series->labels);
    kvt_free(series->help);
    *series = (struct series){0};
}

void
kvt_metrics_free(struct kvt_metrics *metrics)
{
    size_t count;

    if (metrics == NULL)
        return;
    count = atomic_load_explicit(&metrics->count, memory_order_acquire);
    for (size_t i = 0; i < count; i++)
        series_release(&metrics->series[i]);
    kvt_free(metrics);
}

struct kvt_metric *
kvt_metrics_add(struct kvt_metrics *metrics, enum kvt_metric_kind kind, const char *name,
                const char *labels, const char *help)
{
    const size_t count = atomic_load_explicit(&metrics->count, memory_order_relaxed);
    struct series *made = &metrics->series[count];
    size_t family = count;

    for (size_t i = count; i > 0; i--) {
        struct series *other = &metrics->series[i - 1];

        if (strcmp(other->name, name) != 0)
            continue;
        assert(other->kind == kind); /* one name is one kind, or the exposition is invalid */
        if (strcmp(other->labels, labels) == 0)
            return &other->metric;
        family = other->family;
    }
    if (count == KVT_METRICS_MAX)
        goto refuse;
    made->name = kvt_strdup(name);
    made->labels = kvt_strdup(labels);
    made->help = kvt_strdup(help);
    if (made->name == NULL || made->labels == NULL || made->help == NULL) {
        series_release(made);
        goto refuse;
    }
    made->kind = kind;
    made->family = family;
    atomic_store_explicit(&metrics->count, count + 1, memory_order_release);
    return &made->metric;

refuse:
    kvt_metric_inc(&metrics->refused, 1);
    return &metrics->overflow;
}

/* ---- histograms ---- */

/* The series of a family in this order: the buckets, the last without a bound; the sum. */
void
kvt_metrics_add_histogram(struct kvt_metrics *metrics, struct kvt_histogram *histogram,
                          const char *name, const char *help)
{
    char label[40];

    assert(histogram->bound_count <= KVT_HISTOGRAM_BOUNDS_MAX);
    for (size_t i = 0; i < histogram->bound_count; i++) {
        (void)snprintf(label, sizeof(label), "le=\"%" PRIu64 "\"", histogram->bounds[i]);
        histogram->buckets[i] = kvt_metrics_add(metrics, KVT_METRIC_HISTOGRAM, name, label, help);
    }
    histogram->buckets[histogram->bound_count] =
        kvt_metrics_add(metrics, KVT_METRIC_HISTOGRAM, name, "le=\"+Inf\"", help);
    histogram->sum = kvt_metrics_add(metrics, KVT_METRIC_HISTOGRAM, name, "", help);
}

void
kvt_histogram_add(struct kvt_histogram *histogram, uint64_t value)
{
    size_t bucket = 0;

    while (bucket < histogram->bound_count && value > histogram->bounds[bucket])
        bucket++;
    kvt_metric_inc(histogram->buckets[bucket], 1);
    kvt_metric_inc(histogram->sum, value < INT64_MAX ? (int64_t)value : INT64_MAX);
}

/* ---- the exposition ---- */

static void
format_head(struct kvt_buffer *out, const char *name, const char *help, enum kvt_metric_kind kind)
{
    static const char *const kinds[] = {[KVT_METRIC_COUNTER] = "counter",
                                        [KVT_METRIC_GAUGE] = "gauge",
                                        [KVT_METRIC_HISTOGRAM] = "histogram"};

    kvt_buffer_printf(out, "# HELP %s ", name);
    for (; *help != '\0'; help++) {
        if (*help == '\\')
            kvt_buffer_append(out, "\\\\", 2);
        else if (*help == '\n')
            kvt_buffer_append(out, "\\n", 2);
        else
            kvt_buffer_append(out, help, 1);
    }
    kvt_buffer_printf(out, "\n# TYPE %s %s\n", name, kinds[kind]);
}

static void
format_series(struct kvt_buffer *out, struct series *series)
{
    const bool bare = series->labels[0] == '\0';

    kvt_buffer_printf(out, "%s%s%s%s %" PRId64 "\n", series->name, bare ? "" : "{", series->labels,
                      bare ? "" : "}", kvt_metric_get(&series->metric));
}

/* The format wants each bucket with all below it; so the count is never less than a bucket. */
static void
format_histogram(struct kvt_buffer *out, struct series *series, int64_t *below)
{
    const int64_t value = kvt_metric_get(&series->metric);

    if (series->labels[0] != '\0') {
        *below += value;
        kvt_buffer_printf(out, "%s_bucket{%s} %" PRId64 "\n", series->name, series->labels, *below);
        return;
    }
    kvt_buffer_printf(out, "%s_sum %" PRId64 "\n%s_count %" PRId64 "\n", series->name, value,
                      series->name, *below);
}

void
kvt_metrics_format(struct kvt_metrics *metrics, struct kvt_buffer *out)
{
    const size_t count = atomic_load_explicit(&metrics->count, memory_order_acquire);

    for (size_t i = 0; i < count; i++) {
        const struct series *head = &metrics->series[i];
        int64_t below = 0;

        if (head->family != i)
            continue;
        format_head(out, head->name, head->help, head->kind);
        /* The format wants every series of a name together, whatever order they came in. */
        for (size_t j = i; j < count; j++) {
            struct series *series = &metrics->series[j];

            if (series->family == i && series->kind == KVT_METRIC_HISTOGRAM)
                format_histogram(out, series, &below);
            else if (series->family == i)
                format_series(out, series);
        }
    }
    format_head(out, "kvtier_metrics_refused_total",
                "Series that were not registered: the registry was full or memory was short.",
                KVT_METRIC_COUNTER);
    kvt_buffer_printf(out, "kvtier_metrics_refused_total %" PRId64 "\n",
                      kvt_metric_get(&metrics->refused));
}
