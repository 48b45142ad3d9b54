#include "gateway/bus/bus_report.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "gateway/bus/pin_report.h"
#include "gateway/tier/access_counts.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/gateway_tiers.h"
#include "wire/message/report_codec.h"
#include "wire/message/signature.h"
#include "wire/message/subject.h"

enum { ACK_MS = 2000, STEP_MS = 50 };

struct gateway_bus_report {
    struct gateway_context *context;
    struct wire_bus *bus;
    const struct wire_key_ring *keys;
    uint64_t interval_ms;
    uint64_t incarnation;
    char subject[WIRE_SUBJECT_MAX];
    struct kvt_report_access *rows;  /* the reporter thread's */
    struct gateway_pin_report *pins; /* the same */
    _Atomic uint64_t next_seq;
    _Atomic bool stop;
    pthread_t thread;
    bool started;
};

static void
fill(struct gateway_bus_report *report, struct kvt_report *out)
{
    struct gateway_context *context = report->context;
    struct gateway_catalog_stats stats;

    gateway_catalog_stats(context->catalog, &stats);
    *out = (struct kvt_report){.seq = atomic_fetch_add(&report->next_seq, 1),
                               .incarnation = report->incarnation,
                               .time_ms = kvt_clock_unix_ms(),
                               .healthy = gateway_bucket_tier_healthy(context->tiers.buckets),
                               .tier_count = 0};
    out->reads[0] = gateway_stats_get(context->stats, GATEWAY_STAT_HITS_HOT) +
                    gateway_stats_get(context->stats, GATEWAY_STAT_HITS_WARM);
    out->reads[1] = gateway_stats_get(context->stats, GATEWAY_STAT_HITS_COLD) +
                    gateway_stats_get(context->stats, GATEWAY_STAT_HITS_FAR);
    out->reads[2] = gateway_stats_get(context->stats, GATEWAY_STAT_MISSES);
    memcpy(out->gateway, context->identity.name, sizeof(out->gateway));
    for (unsigned tier = 0; tier < GATEWAY_TIERS; tier++) {
        struct kvt_report_tier *row = &out->tiers[out->tier_count];

        if (!gateway_tier_exists(&context->tiers, (enum gateway_tier)tier))
            continue;
        out->tier_count++;
        memcpy(row->name, context->tiers.holder[tier], sizeof(row->name));
        row->used_bytes = stats.used[tier];
        /* What is not counted would be spared, and what is would go in its place. */
        row->capacity_bytes = gateway_tier_capacity(&context->tiers, context->catalog, tier);
        row->blocks = stats.blocks[tier];
    }
}

static enum kvt_err
send(struct gateway_bus_report *report, const struct kvt_report *out)
{
    struct kvt_buffer payload;
    struct kvt_buffer bytes;
    char id[KVT_NAME_MAX + 48];
    enum kvt_err rc;

    (void)snprintf(id, sizeof(id), "%s:%" PRIu64 ":%" PRIu64, out->gateway, out->incarnation,
                   out->seq);
    kvt_buffer_init(&payload, WIRE_REPORT_MAX);
    kvt_buffer_init(&bytes, WIRE_REPORT_MAX + WIRE_ENVELOPE_MAX);
    rc = wire_report_encode(out, report->keys->count == 0 ? &bytes : &payload);
    if (rc == KVT_OK && report->keys->count > 0)
        rc = wire_envelope_sign(report->keys, WIRE_SIGNED_REPORT, out->gateway, payload.data,
                                payload.size, &bytes);
    if (rc == KVT_OK)
        rc = wire_bus_publish_acked(report->bus, report->subject, id, bytes.data, bytes.size,
                                    ACK_MS, NULL);
    kvt_buffer_release(&payload);
    kvt_buffer_release(&bytes);
    if (rc == KVT_OK)
        gateway_stats_add(report->context->stats, GATEWAY_STAT_REPORTS, 1);
    return rc;
}

enum kvt_err
gateway_bus_report_result(struct gateway_bus_report *report, const char *namespace_,
                          struct kvt_order_result *result)
{
    struct kvt_report out;

    fill(report, &out);
    (void)snprintf(out.namespace_, sizeof(out.namespace_), "%s", namespace_);
    out.results = result;
    out.result_count = 1;
    return send(report, &out);
}

/* Accesses name a row of the report's tiers. */
static void
name_tiers(const struct gateway_context *context, struct kvt_report_access *rows, size_t count)
{
    uint8_t index[GATEWAY_TIERS] = {0};
    uint8_t used = 0;

    for (unsigned tier = 0; tier < GATEWAY_TIERS; tier++)
        if (gateway_tier_exists(&context->tiers, (enum gateway_tier)tier))
            index[tier] = used++;
    for (size_t i = 0; i < count; i++)
        rows[i].tier_index = index[rows[i].tier_index];
}

/* One report a namespace that was read; at least one, for the tiers. */
static void
send_all(struct gateway_bus_report *report)
{
    struct kvt_report out;
    size_t count;
    enum kvt_err rc;

    if (!wire_bus_connected(report->bus))
        return;
    for (bool first = true;; first = false) {
        char namespace_[KVT_NAMESPACE_MAX];

        count = gateway_access_counts_take(report->context->access_counts, namespace_, report->rows,
                                           GATEWAY_ACCESS_COUNTS_ROWS);
        if (count == 0 && !first)
            return;
        name_tiers(report->context, report->rows, count);
        fill(report, &out);
        memcpy(out.namespace_, namespace_, sizeof(out.namespace_));
        out.accesses = report->rows;
        out.access_count = (uint32_t)count;
        rc = send(report, &out);
        if (rc != KVT_OK) {
            gateway_stats_add(report->context->stats, GATEWAY_STAT_ACCESS_LOST, count);
            kvt_log_warn("gateway.report", "not_sent", "%s", kvt_err_text(rc));
            return;
        }
        if (count == 0)
            return;
    }
}

/* What is pinned, as far as it is to be told. */
static void
send_pins(struct gateway_bus_report *report)
{
    struct kvt_report told;
    struct kvt_report out;

    while (wire_bus_connected(report->bus) && !atomic_load(&report->stop) &&
           gateway_pin_report_next(report->pins, report->context->catalog, kvt_clock_mono_ms(),
                                   kvt_clock_unix_ms(), &told)) {
        fill(report, &out);
        memcpy(out.namespace_, told.namespace_, sizeof(out.namespace_));
        out.pins = told.pins;
        gateway_pin_report_sent(report->pins, send(report, &out) == KVT_OK);
    }
}

static void *
report_main(void *arg)
{
    struct gateway_bus_report *report = arg;
    uint64_t due_ms = kvt_clock_mono_ms();

    while (!atomic_load(&report->stop)) {
        if (kvt_clock_mono_ms() >= due_ms) {
            send_all(report);
            send_pins(report);
            due_ms = kvt_clock_mono_ms() + report->interval_ms;
        }
        kvt_clock_sleep_ms(STEP_MS);
    }
    send_all(report);
    return NULL;
}

enum kvt_err
gateway_bus_report_start(struct gateway_bus_report **out, struct gateway_context *context,
                         struct wire_bus *bus, const struct wire_key_ring *keys,
                         uint64_t interval_ms, struct kvt_error *err)
{
    struct gateway_bus_report *report = kvt_calloc(1, sizeof(*report));
    enum kvt_err rc;
    int sys;

    *out = NULL;
    if (report == NULL)
        return kvt_error_set(err, KVT_NOMEM, "reports");
    report->context = context;
    report->bus = bus;
    report->keys = keys;
    report->interval_ms = interval_ms;
    report->incarnation = kvt_clock_unix_ms();
    atomic_store(&report->next_seq, 1);
    report->rows = kvt_calloc(GATEWAY_ACCESS_COUNTS_ROWS, sizeof(*report->rows));
    report->pins = kvt_calloc(1, sizeof(*report->pins));
    rc = report->rows == NULL || report->pins == NULL
             ? KVT_NOMEM
             : wire_subject_named(WIRE_SUBJECT_REPORTS, report->subject, sizeof(report->subject),
                                  context->identity.name);
    if (rc != KVT_OK) {
        (void)kvt_error_set(err, rc, "reports");
        goto fail;
    }
    sys = pthread_create(&report->thread, NULL, report_main, report);
    if (sys != 0) {
        rc = kvt_error_sys(err, sys, "start the reporter");
        goto fail;
    }
    report->started = true;
    *out = report;
    return KVT_OK;

fail:
    gateway_bus_report_stop(report);
    return rc;
}

void
gateway_bus_report_stop(struct gateway_bus_report *report)
{
    if (report == NULL)
        return;
    atomic_store(&report->stop, true);
    if (report->started)
        (void)pthread_join(report->thread, NULL);
    kvt_free(report->rows);
    kvt_free(report->pins);
    kvt_free(report);
}
