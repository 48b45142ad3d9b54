#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advisor/order/planner.h"
#include "advisor/round/round_private.h"
#include "base/core/clock.h"
#include "base/core/conditions.h"
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

/* Volumes belong to one gateway; a report about another's is none. */
static const char *
foreign_tier(const struct kvt_report *report)
{
    for (uint32_t i = 0; i < report->tier_count; i++) {
        const char *name = report->tiers[i].name;
        const char *at = strchr(name, '@');
        const bool volume = strncmp(name, "hot@", 4) == 0 || strncmp(name, "warm@", 5) == 0;

        if (volume && strcmp(at + 1, report->gateway) != 0)
            return name;
    }
    return NULL;
}

static void
apply_report(struct advisor_round *round, const struct kvt_report *report)
{
    struct advisor_planner *planner = round->options.planner;
    const bool speaks = report->access_count > 0 || report->pins.count > 0;
    uint32_t ns = 0;

    if (!advisor_planner_report(planner, report, kvt_clock_unix_ms())) {
        kvt_metric_inc(round->counters.duplicates, report->access_count);
        kvt_metric_inc(round->counters.reports_former, 1);
        kvt_conditions_note(round->options.conditions, "reports-repeated", kvt_clock_unix_ms(),
                            "gateway %s: report %" PRIu64 " of life %" PRIu64
                            " was repeated or overtaken, and changed nothing",
                            report->gateway, report->seq, report->incarnation);
        return;
    }
    kvt_metric_inc(round->counters.reports, 1);
    if (speaks && advisor_name_table_namespace(round->names, report->namespace_, 0, &ns) != KVT_OK)
        return;
    advisor_planner_take_pins(planner, report, ns, kvt_clock_unix_ms());
    for (uint32_t i = 0; i < report->access_count; i++)
        apply_access(round, report, ns, &report->accesses[i]);
}

/* It is of no gateway that we know to be one: for people at most. */
static void
take_unsigned(struct advisor_round *round, const struct kvt_report *report)
{
    const bool has_keys = round->options.order_keys != NULL;

    kvt_metric_inc(round->counters.reports_unsigned, 1);
    if (!has_keys) { /* no order can be signed, so nothing follows from it */
        kvt_conditions_note(round->options.conditions, "reports-unsigned", kvt_clock_unix_ms(),
                            "gateway %s: its reports are not verified, and no order leaves: set "
                            "orders.key_file",
                            report->gateway);
        apply_report(round, report);
        return;
    }
    kvt_conditions_raise(
        round->options.conditions, "reports-unsigned", kvt_clock_unix_ms(),
        "gateway %s: a report without a signature was %s: give it a key (kvtier key derive)",
        report->gateway,
        round->options.observes_unsigned ? "shown, and orders nothing" : "refused");
    if (round->options.observes_unsigned &&
        !advisor_planner_is_verified(round->options.planner, report->gateway))
        advisor_observed_reports_take(&round->observed, report, kvt_clock_unix_ms());
}

static void
deny(struct advisor_round *round, const struct kvt_error *err)
{
    kvt_metric_inc(round->counters.reports_denied, 1);
    kvt_conditions_raise(round->options.conditions, "reports-denied", kvt_clock_unix_ms(),
                         "%s; compare the clients of NATS and the gateway's orders.key_file",
                         err->text);
}

static void
take_message(struct advisor_round *round, const struct advisor_inbox_item *item)
{
    struct kvt_report report = {
        .accesses = round->accesses, .results = round->results, .pins = {.rows = round->pins}};
    struct kvt_error err;
    bool verified;
    enum kvt_err rc = wire_report_open(item->bytes, item->size, item->subject,
                                       round->options.order_keys, &report, &verified, &err);

    if (rc == KVT_OK && foreign_tier(&report) != NULL)
        rc = kvt_error_set(&err, KVT_DENIED, "report of gateway %s: it tells of %s", report.gateway,
                           foreign_tier(&report));
    if (rc == KVT_DENIED) {
        deny(round, &err);
        return;
    }
    if (rc != KVT_OK) {
        kvt_metric_inc(round->counters.malformed, 1);
        kvt_log_warn("advisor.reports", "malformed", "%s:%" PRIu64 ": %s", item->subject,
                     item->stream_seq, err.text);
        return;
    }
    report.time_ms = advisor_round_time(report.time_ms);
    if (!verified) {
        take_unsigned(round, &report);
        return;
    }
    advisor_observed_reports_forget(&round->observed, report.gateway);
    apply_report(round, &report);
}

void
advisor_round_take_report(struct advisor_round *round, struct advisor_inbox_item *item)
{
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
        take_message(round, item);
    }
    advisor_inbox_item_free(item);
}

struct advisor_observed_reports *
advisor_round_observed(struct advisor_round *round)
{
    return &round->observed;
}
