#include "base/metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"

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

static void
format_head(struct kvt_buffer *out, const char *name, const char *help, enum kvt_metric_kind kind)
{
    kvt_buffer_printf(out, "# HELP %s ", name);
    for (; *help != '\0'; help++) {
        if (*help == '\\')
            kvt_buffer_append(out, "\\\\", 2);
        else if (*help == '\n')
            kvt_buffer_append(out, "\\n", 2);
        else
            kvt_buffer_append(out, help, 1);
    }
    kvt_buffer_printf(out, "\n# TYPE %s %s\n", name,
                      kind == KVT_METRIC_COUNTER ? "counter" : "gauge");
}

void
kvt_metrics_format(struct kvt_metrics *metrics, struct kvt_buffer *out)
{
    const size_t count = atomic_load_explicit(&metrics->count, memory_order_acquire);

    for (size_t i = 0; i < count; i++) {
        const struct series *head = &metrics->series[i];

        if (head->family != i)
            continue;
        format_head(out, head->name, head->help, head->kind);
        /* The format wants every series of a name together, whatever order they came in. */
        for (size_t j = i; j < count; j++) {
            struct series *series = &metrics->series[j];
            const bool bare = series->labels[0] == '\0';

            if (series->family == i)
                kvt_buffer_printf(out, "%s%s%s%s %" PRId64 "\n", series->name, bare ? "" : "{",
                                  series->labels, bare ? "" : "}", kvt_metric_get(&series->metric));
        }
    }
    format_head(out, "kvtier_metrics_refused_total",
                "Series that were not registered: the registry was full or memory was short.",
                KVT_METRIC_COUNTER);
    kvt_buffer_printf(out, "kvtier_metrics_refused_total %" PRId64 "\n",
                      kvt_metric_get(&metrics->refused));
}
