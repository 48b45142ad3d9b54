#include <inttypes.h>
#include <stdio.h>

#include "advisor/order/planner.h"
#include "advisor/round/round_private.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "wire/message/report_codec.h"

/* One access row becomes one change of a block. */
static void
apply_access(struct advisor_round *round, const struct kvt_report *report, uint32_t ns,
             const struct kvt_report_access *access)
{
    struct index_holder key = {.tier = KVT_TIER_G4};
    struct advisor_op op = {
        .kind = ADVISOR_OP_ACCESS,
        .hash = access->hash,
        .time_ms = report->time_ms,
        .ns = ns,
        .count = access->count,
    };

    if (access->tier_index >= report->tier_count)
        return;
    (void)snprintf(key.name, sizeof(key.name), "%s", report->tiers[access->tier_index].name);
    op.hot = advisor_holder_is_hot(&key);
    op.warm = advisor_holder_is_warm(&key);
    op.cold = advisor_holder_is_cold(&key);
    if (advisor_name_table_holder(round->names, &key, &op.holder) != KVT_OK)
        return;
    if (op.hot || op.warm || op.cold)
        advisor_traffic_bytes(advisor_planner_settings(round->options.planner)->traffic,
                              op.hot ? 0 : (op.cold ? 1 : 2), access->bytes, kvt_clock_unix_ms());
    op.reporter = advisor_planner_gateway(round->options.planner, report->gateway);
    /* Statistics only: one that does not fit is lost without harm. */
    if (advisor_change_group_add(round->group, &op) != KVT_OK)
        kvt_metric_inc(round->counters.refused, 1);
}

static void
apply_report(struct advisor_round *round, const struct kvt_report *report)
{
    struct advisor_planner *planner = round->options.planner;
    const bool speaks = report->access_count > 0 || report->pins.count > 0;
    uint32_t ns = 0;

    if (!advisor_planner_report(planner, report, kvt_clock_unix_ms())) {
        kvt_metric_inc(round->counters.duplicates, report->access_count);
        return;
    }
    kvt_metric_inc(round->counters.reports, 1);
    if (speaks && advisor_name_table_namespace(round->names, report->namespace_, &ns) != KVT_OK)
        return;
    advisor_planner_take_pins(planner, report, ns, kvt_clock_unix_ms());
    for (uint32_t i = 0; i < report->access_count; i++)
        apply_access(round, report, ns, &report->accesses[i]);
}

void
advisor_round_take_report(struct advisor_round *round, struct advisor_inbox_item *item)
{
    struct kvt_report report = {
        .accesses = round->accesses, .results = round->results, .pins = {.rows = round->pins}};
    struct kvt_error err;

    if (item->kind == ADVISOR_INBOX_ITEM_START) {
        round->reports =
            (struct advisor_position){.seq = item->stream_seq, .created_ms = item->created_ms};
        round->moved = true;
    }
    if (item->kind == ADVISOR_INBOX_ITEM_GAP && item->stream_seq > round->reports.seq) {
        round->reports.seq = item->stream_seq;
        round->moved = true;
    }
    if (item->kind == ADVISOR_INBOX_ITEM_MESSAGE) {
        if (item->stream_seq != 0) {
            round->reports.seq = item->stream_seq;
            round->moved = true;
        }
        if (wire_report_decode(item->bytes, item->size, &report, &err) == KVT_OK) {
            report.time_ms = advisor_round_time(report.time_ms);
            apply_report(round, &report);
        } else {
            kvt_metric_inc(round->counters.malformed, 1);
            kvt_log_warn("advisor.reports", "malformed", "%s:%" PRIu64 ": %s", item->subject,
                         item->stream_seq, err.text);
        }
    }
    advisor_inbox_item_free(item);
}
