#include "advisor/round/observed_reports.h"

#include <string.h>

void
advisor_observed_reports_init(struct advisor_observed_reports *observed)
{
    observed->count = 0;
    (void)pthread_mutex_init(&observed->lock, NULL);
}

void
advisor_observed_reports_release(struct advisor_observed_reports *observed)
{
    (void)pthread_mutex_destroy(&observed->lock);
}

static struct advisor_observed_report *
find(struct advisor_observed_reports *observed, const char *gateway)
{
    for (size_t i = 0; i < observed->count; i++)
        if (strcmp(observed->rows[i].gateway, gateway) == 0)
            return &observed->rows[i];
    return NULL;
}

/* The row that a new gateway gets. */
static struct advisor_observed_report *
make_room(struct advisor_observed_reports *observed)
{
    struct advisor_observed_report *oldest = &observed->rows[0];

    if (observed->count < ADVISOR_OBSERVED_MAX)
        return &observed->rows[observed->count++];
    for (size_t i = 1; i < observed->count; i++)
        if (observed->rows[i].last_report_ms < oldest->last_report_ms)
            oldest = &observed->rows[i];
    return oldest;
}

void
advisor_observed_reports_take(struct advisor_observed_reports *observed,
                              const struct kvt_report *report, uint64_t now_ms)
{
    struct advisor_observed_report *row;

    (void)pthread_mutex_lock(&observed->lock);
    row = find(observed, report->gateway);
    if (row == NULL)
        row = make_room(observed);
    memcpy(row->gateway, report->gateway, sizeof(row->gateway));
    row->last_report_ms = now_ms;
    memcpy(row->tiers, report->tiers, sizeof(row->tiers));
    row->tier_count = report->tier_count;
    (void)pthread_mutex_unlock(&observed->lock);
}

void
advisor_observed_reports_forget(struct advisor_observed_reports *observed, const char *gateway)
{
    struct advisor_observed_report *row;

    (void)pthread_mutex_lock(&observed->lock);
    row = find(observed, gateway);
    if (row != NULL)
        *row = observed->rows[--observed->count];
    (void)pthread_mutex_unlock(&observed->lock);
}

size_t
advisor_observed_reports_list(struct advisor_observed_reports *observed,
                              struct advisor_observed_report *rows)
{
    size_t count;

    (void)pthread_mutex_lock(&observed->lock);
    count = observed->count;
    memcpy(rows, observed->rows, count * sizeof(*rows));
    (void)pthread_mutex_unlock(&observed->lock);
    return count;
}
