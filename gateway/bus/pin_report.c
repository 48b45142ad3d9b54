#include "gateway/bus/pin_report.h"

#include <stdio.h>
#include <string.h>

#include "kvtier/key.h"

static bool
is_due(const struct gateway_pin_report *state, const struct gateway_catalog_stats *stats,
       uint64_t mono_ms)
{
    /* A report's time for each report that the last round took. */
    const uint64_t gap_ms = GATEWAY_PINS_GAP_MS * (1 + state->told / KVT_REPORT_PINS_MAX);

    if (state->round == 0)
        return true;
    if (mono_ms < state->began_ms + gap_ms)
        return false;
    return stats->pin_changes != state->changes ||
           mono_ms >= state->began_ms + GATEWAY_PINS_EVERY_MS;
}

/* Rows of one namespace, as many as fit.  What is no block of the index is passed over. */
static bool
take(void *arg, const char *key, uint64_t until_ms)
{
    struct gateway_pin_report *state = arg;
    struct kvt_key parsed;

    if (kvt_key_parse(key, &parsed) == KVT_OK) {
        if (state->count == 0)
            memcpy(state->namespace_, parsed.namespace_, sizeof(state->namespace_));
        state->full = state->count == KVT_REPORT_PINS_MAX ||
                      strcmp(state->namespace_, parsed.namespace_) != 0;
        if (state->full)
            return false;
        state->rows[state->count++] =
            (struct kvt_report_pin){.hash = parsed.hash, .until_ms = until_ms};
    }
    (void)snprintf(state->next, sizeof(state->next), "%s", key);
    return true;
}

bool
gateway_pin_report_next(struct gateway_pin_report *state, struct gateway_catalog *catalog,
                        uint64_t mono_ms, uint64_t now_ms, struct kvt_report *report)
{
    struct gateway_catalog_stats stats;

    if (!state->open) {
        gateway_catalog_stats(catalog, &stats);
        if (!is_due(state, &stats, mono_ms))
            return false;
        state->round++;
        state->changes = stats.pin_changes;
        state->told = 0;
        state->began_ms = mono_ms;
        state->open = true;
        state->after[0] = '\0';
    }
    state->count = 0;
    state->full = false;
    state->namespace_[0] = '\0';
    memcpy(state->next, state->after, sizeof(state->next));
    if (gateway_catalog_pins(catalog, state->after, now_ms, take, state) != KVT_OK) {
        state->open = false; /* it is tried again after the gap */
        state->changes = UINT64_MAX;
        return false;
    }
    state->told += state->count;
    memcpy(report->namespace_, state->namespace_, sizeof(report->namespace_));
    report->pins = (struct kvt_report_pins){.round = state->round,
                                            .told = state->told,
                                            .last = !state->full,
                                            .rows = state->rows,
                                            .count = state->count};
    return true;
}

void
gateway_pin_report_sent(struct gateway_pin_report *state, bool sent)
{
    memcpy(state->after, state->next, sizeof(state->after));
    state->open = sent && state->full;
    if (!sent)
        state->changes = UINT64_MAX; /* no count of changes: another round is due */
}
