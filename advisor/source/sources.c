#include "advisor/source/sources.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "advisor/source/source_private.h"
#include "base/core/alloc.h"
#include "base/core/log.h"
#include "wire/nats/bus.h"

enum {
    RATE_WINDOW_MS = 1000,
    SERIES = 6, /* for each source */
};

/* What is shown of a source, and what its rate is reckoned from. */
struct shown {
    struct kvt_metric *series[SERIES];
    uint64_t window_ms; /* when the window began; 0: not yet */
    uint64_t window_events;
    uint64_t rate;
};

struct advisor_sources {
    struct kvt_metrics *metrics;
    struct advisor_intake *intakes[ADVISOR_SOURCES_MAX];
    struct shown shown[ADVISOR_SOURCES_MAX];
    size_t count;

    struct {
        pthread_mutex_t lock; /* guards this struct, and nothing outside it */
        struct advisor_source_view views[ADVISOR_SOURCES_MAX];
        size_t count;
    } shared;
};

static const struct {
    enum kvt_metric_kind kind;
    const char *name;
    const char *help;
} series[SERIES] = {
    {KVT_METRIC_COUNTER, "kvtier_advisor_source_messages_total", "Messages taken from the source."},
    {KVT_METRIC_COUNTER, "kvtier_advisor_source_events_total", "Events of the source applied."},
    {KVT_METRIC_COUNTER, "kvtier_advisor_source_gaps_total", "Gaps found in the source."},
    {KVT_METRIC_COUNTER, "kvtier_advisor_source_malformed_total",
     "Messages of the source that could not be read."},
    {KVT_METRIC_COUNTER, "kvtier_advisor_source_dropped_total",
     "Messages of the source there was no room for."},
    {KVT_METRIC_GAUGE, "kvtier_advisor_source_lag_messages",
     "Messages of the source's stream that are not applied yet."},
};

enum kvt_err
advisor_sources_new(struct advisor_sources **out, struct kvt_metrics *metrics)
{
    struct advisor_sources *sources = kvt_calloc(1, sizeof(*sources));

    *out = NULL;
    if (sources == NULL)
        return KVT_NOMEM;
    if (pthread_mutex_init(&sources->shared.lock, NULL) != 0) {
        kvt_free(sources);
        return KVT_NOMEM;
    }
    sources->metrics = metrics;
    *out = sources;
    return KVT_OK;
}

void
advisor_sources_stop(struct advisor_sources *sources)
{
    if (sources == NULL)
        return;
    for (size_t i = 0; i < sources->count; i++)
        if (sources->intakes[i]->source != NULL)
            advisor_source_stop(sources->intakes[i]->source);
}

void
advisor_sources_free(struct advisor_sources *sources)
{
    if (sources == NULL)
        return;
    for (size_t i = 0; i < sources->count; i++) {
        struct advisor_intake *intake = sources->intakes[i];

        while (intake->ready_at < intake->ready_count)
            advisor_inbox_item_free(intake->ready[intake->ready_at++]);
        advisor_source_close(intake->source);
        wire_bus_close(intake->bus);
        kvt_free(intake);
    }
    (void)pthread_mutex_destroy(&sources->shared.lock);
    kvt_free(sources);
}

static void
register_series(struct advisor_sources *sources, size_t at)
{
    char labels[KVT_NAME_MAX + 16];

    (void)snprintf(labels, sizeof(labels), "source=\"%s\"", sources->intakes[at]->name);
    for (size_t i = 0; i < SERIES; i++)
        sources->shown[at].series[i] = kvt_metrics_add(sources->metrics, series[i].kind,
                                                       series[i].name, labels, series[i].help);
}

/* A place in the table, not counted yet. */
static enum kvt_err
prepare(struct advisor_sources *sources, const struct advisor_source_ops *ops,
        const struct advisor_source_options *options, uint32_t number, struct advisor_intake **out)
{
    struct advisor_intake *intake;

    *out = NULL;
    if (sources->count == ADVISOR_SOURCES_MAX)
        return KVT_FULL;
    for (size_t i = 0; i < sources->count; i++)
        if (strcmp(sources->intakes[i]->name, options->name) == 0 ||
            sources->intakes[i]->number == number)
            return KVT_EXISTS;
    intake = kvt_calloc(1, sizeof(*intake));
    if (intake == NULL)
        return KVT_NOMEM;
    (void)snprintf(intake->name, sizeof(intake->name), "%s", options->name);
    (void)snprintf(intake->namespace_, sizeof(intake->namespace_), "%s", options->namespace_);
    intake->ops = ops;
    intake->number = number;
    intake->block_tokens = options->block_tokens;
    intake->kept = options->stream != NULL && options->stream[0] != '\0';
    intake->taken = (struct advisor_position){options->seq, options->created_ms};
    intake->committed = intake->taken;
    *out = intake;
    return KVT_OK;
}

static void
include(struct advisor_sources *sources, struct advisor_intake *intake)
{
    sources->intakes[sources->count] = intake;
    register_series(sources, sources->count);
    sources->count++;
    advisor_sources_show(sources, 0);
}

enum kvt_err
advisor_sources_add(struct advisor_sources *sources, const struct advisor_source_ops *ops,
                    const struct advisor_source_options *options, struct wire_bus *own_bus,
                    uint32_t number, struct kvt_error *err)
{
    struct advisor_intake *intake;
    enum kvt_err rc = prepare(sources, ops, options, number, &intake);

    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "source %s: %s", options->name, kvt_err_text(rc));
    rc = advisor_source_open(&intake->source, ops, options);
    if (rc == KVT_NOMEM) {
        kvt_free(intake);
        return kvt_error_set(err, rc, "source %s: %s", options->name, kvt_err_text(rc));
    }
    if (rc != KVT_OK) {
        (void)snprintf(intake->counts.last_error, sizeof(intake->counts.last_error),
                       "cannot be opened: %s", kvt_err_text(rc));
        kvt_log_error("advisor.sources", "failed", "%s (%s): %s", options->name, ops->name,
                      intake->counts.last_error);
    }
    intake->bus = own_bus;
    include(sources, intake);
    return KVT_OK;
}

enum kvt_err
advisor_sources_adopt(struct advisor_sources *sources, struct advisor_source *source,
                      uint32_t number)
{
    struct advisor_intake *intake;
    const enum kvt_err rc =
        prepare(sources, advisor_source_dialect(source), &source->options, number, &intake);

    if (rc != KVT_OK)
        return rc;
    intake->source = source;
    include(sources, intake);
    return KVT_OK;
}

size_t
advisor_sources_count(const struct advisor_sources *sources)
{
    return sources->count;
}

struct advisor_intake *
advisor_sources_at(struct advisor_sources *sources, size_t at)
{
    return sources->intakes[at];
}

struct advisor_intake *
advisor_sources_by_number(struct advisor_sources *sources, uint32_t number)
{
    for (size_t i = 0; i < sources->count; i++)
        if (sources->intakes[i]->number == number)
            return sources->intakes[i];
    return NULL;
}

/* ---- for people ---- */

const char *
advisor_source_status_name(enum advisor_source_status status)
{
    switch (status) {
    case ADVISOR_SOURCE_WAITING: return "waiting";
    case ADVISOR_SOURCE_RUNNING: return "running";
    case ADVISOR_SOURCE_FAILED: return "failed";
    }
    return "failed";
}

const char *
advisor_source_why_name(enum wire_raw_why why)
{
    switch (why) {
    case WIRE_RAW_FINE: return "fine";
    case WIRE_RAW_UNKNOWN_KIND: return "unknown_kind";
    case WIRE_RAW_UNKNOWN_TIER: return "unknown_tier";
    case WIRE_RAW_FOREIGN_DOMAIN: return "foreign_domain";
    case WIRE_RAW_FILTERED_GROUP: return "filtered_group";
    case WIRE_RAW_MALFORMED: return "malformed";
    case WIRE_RAW_NOT_A_BLOCK: return "not_a_block";
    case WIRE_RAW_WHY_COUNT: break;
    }
    return "unknown";
}

static void
reckon_rate(struct shown *shown, uint64_t events, uint64_t now_ms)
{
    const uint64_t past_ms = now_ms - shown->window_ms;

    if (shown->window_ms != 0 && past_ms < RATE_WINDOW_MS)
        return;
    if (shown->window_ms != 0)
        shown->rate = (events - shown->window_events) * 1000 / past_ms;
    shown->window_ms = now_ms;
    shown->window_events = events;
}

static void
fill_view(struct advisor_source_view *view, const struct advisor_intake *intake, uint64_t rate)
{
    struct advisor_source_state state = {.running = false};

    if (intake->source != NULL)
        advisor_source_state(intake->source, &state);
    memset(view, 0, sizeof(*view));
    memcpy(view->name, intake->name, sizeof(view->name));
    memcpy(view->namespace_, intake->namespace_, sizeof(view->namespace_));
    memcpy(view->detail, state.detail, sizeof(view->detail));
    view->number = intake->number;
    view->kind = intake->ops->name;
    view->status = intake->source == NULL ? ADVISOR_SOURCE_FAILED
                   : state.running        ? ADVISOR_SOURCE_RUNNING
                                          : ADVISOR_SOURCE_WAITING;
    view->counts = intake->counts;
    view->received = state.messages;
    view->waiting = state.waiting;
    view->dropped = state.dropped;
    view->discovery_skipped = state.discovery_skipped;
    view->counts.malformed += state.refused; /* they never came as far as a decoder */
    view->events_per_second = rate;
    view->applied_seq = intake->taken.seq;
    view->committed_seq = intake->committed.seq;
    view->last_seq = state.last_seq > intake->taken.seq ? state.last_seq : intake->taken.seq;
    view->lag = view->last_seq - intake->taken.seq;
    view->publishers = intake->publishers;
    view->uncertain = intake->uncertain;
}

static void
set_series(const struct shown *shown, const struct advisor_source_view *view)
{
    const uint64_t values[SERIES] = {
        view->counts.messages,  view->counts.events, view->counts.gaps,
        view->counts.malformed, view->dropped,       view->lag,
    };

    for (size_t i = 0; i < SERIES; i++)
        kvt_metric_set(shown->series[i], (int64_t)values[i]);
}

void
advisor_sources_show(struct advisor_sources *sources, uint64_t now_ms)
{
    for (size_t i = 0; i < sources->count; i++)
        if (now_ms != 0)
            reckon_rate(&sources->shown[i], sources->intakes[i]->counts.events, now_ms);
    (void)pthread_mutex_lock(&sources->shared.lock);
    for (size_t i = 0; i < sources->count; i++) {
        fill_view(&sources->shared.views[i], sources->intakes[i], sources->shown[i].rate);
        set_series(&sources->shown[i], &sources->shared.views[i]);
    }
    sources->shared.count = sources->count;
    (void)pthread_mutex_unlock(&sources->shared.lock);
}

size_t
advisor_sources_views(struct advisor_sources *sources,
                      struct advisor_source_view views[ADVISOR_SOURCES_MAX])
{
    size_t count;

    (void)pthread_mutex_lock(&sources->shared.lock);
    count = sources->shared.count;
    memcpy(views, sources->shared.views, count * sizeof(*views));
    (void)pthread_mutex_unlock(&sources->shared.lock);
    return count;
}

bool
advisor_sources_view(struct advisor_sources *sources, const char *name,
                     struct advisor_source_view *view)
{
    bool found = false;

    memset(view, 0, sizeof(*view));
    (void)pthread_mutex_lock(&sources->shared.lock);
    for (size_t i = 0; i < sources->shared.count && !found; i++) {
        found = strcmp(sources->shared.views[i].name, name) == 0;
        if (found)
            *view = sources->shared.views[i];
    }
    (void)pthread_mutex_unlock(&sources->shared.lock);
    return found;
}
