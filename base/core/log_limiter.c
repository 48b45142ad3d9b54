#include "base/core/log_limiter.h"

#include <string.h>

static size_t
slot_of(const char *area, const char *event)
{
    uint32_t hash = 2166136261u; /* FNV-1a: a few short keys, no attacker */

    for (; *area != '\0'; area++)
        hash = (hash ^ (unsigned char)*area) * 16777619u;
    for (; *event != '\0'; event++)
        hash = (hash ^ (unsigned char)*event) * 16777619u;
    return hash % (KVT_LOG_LIMITER_ROWS - 1);
}

/* Linear probing over all rows but the last, which the kinds beyond the table share. */
static struct kvt_log_limiter_row *
row_of(struct kvt_log_limiter *limiter, const char *area, const char *event)
{
    const size_t start = slot_of(area, event);

    for (size_t i = 0; i < KVT_LOG_LIMITER_ROWS - 1; i++) {
        struct kvt_log_limiter_row *row = &limiter->rows[(start + i) % (KVT_LOG_LIMITER_ROWS - 1)];

        if (row->area == NULL) {
            row->area = area;
            row->event = event;
        }
        /* Compared by content: the same literal in two files may have two addresses. */
        if (strcmp(row->area, area) == 0 && strcmp(row->event, event) == 0)
            return row;
    }
    limiter->rows[KVT_LOG_LIMITER_ROWS - 1].area = "base.log";
    limiter->rows[KVT_LOG_LIMITER_ROWS - 1].event = "many_kinds";
    return &limiter->rows[KVT_LOG_LIMITER_ROWS - 1];
}

bool
kvt_log_limiter_pass(struct kvt_log_limiter *limiter, const char *area, const char *event,
                     uint64_t now_ms, uint64_t *held_before)
{
    struct kvt_log_limiter_row *row = row_of(limiter, area, event);

    *held_before = 0;
    if (row->passed == 0 || now_ms - row->start_ms >= limiter->window_ms) {
        *held_before = row->held;
        row->held = 0;
        row->passed = 0;
        row->start_ms = now_ms;
    }
    if (row->passed >= limiter->passes) {
        row->held++;
        return false;
    }
    row->passed++;
    return true;
}

bool
kvt_log_limiter_sum(struct kvt_log_limiter *limiter, uint64_t now_ms, bool all,
                    struct kvt_log_limiter_row *sum)
{
    for (size_t i = 0; i < KVT_LOG_LIMITER_ROWS; i++) {
        struct kvt_log_limiter_row *row = &limiter->rows[i];

        if (row->area == NULL || row->held == 0)
            continue;
        if (!all && now_ms - row->start_ms < limiter->window_ms)
            continue;
        *sum = *row;
        row->held = 0;
        return true;
    }
    return false;
}
