#include "cli/events/event_printer.h"

#include <inttypes.h>
#include <stdio.h>

#include "advisor/source/sources.h"
#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "base/core/clock.h"
#include "wire/dialect/dialect.h"
#include "wire/message/event_codec.h"

enum { NS_PER_MS = 1000000, WORKER_MAX = 64, BATCH_LINE_MAX = 4096 };

enum kvt_err
cli_event_printer_init(struct cli_event_printer *printer, const struct cli_context *context)
{
    *printer = (struct cli_event_printer){.context = context};
    printer->batch.events = kvt_calloc(KVT_EVENTS_PER_BATCH_MAX, sizeof(*printer->batch.events));
    if (printer->batch.events == NULL)
        return KVT_NOMEM;
    return wire_raw_batch_new(&printer->raw);
}

void
cli_event_printer_release(struct cli_event_printer *printer)
{
    wire_raw_batch_free(printer->raw);
    kvt_free(printer->batch.events);
    *printer = (struct cli_event_printer){0};
}

static bool
malformed(struct cli_event_printer *printer, const struct wire_recording *message, const char *why)
{
    printer->malformed++;
    (void)fprintf(printer->context->err, "kvtier: %s: %s\n", message->subject, why);
    return true;
}

/* ---- the canonical dialect ---- */

static const char *
type_name(unsigned type)
{
    switch (type) {
    case KVT_EVENT_STORE: return "store";
    case KVT_EVENT_REMOVE: return "remove";
    case KVT_EVENT_CLEAR: return "clear";
    case KVT_EVENT_BYE: return "bye";
    default: return "unknown";
    }
}

static void
json_event(FILE *out, const struct kvt_event_batch *batch, const struct kvt_event *event,
           uint64_t seq)
{
    const struct kvt_location *location =
        event->location < batch->location_count ? &batch->locations[event->location] : NULL;
    struct kvt_buffer line;
    char hash[KVT_HASH_TEXT_MAX];
    char parent[KVT_HASH_TEXT_MAX];
    char tokens[KVT_HASH_TEXT_MAX];

    kvt_hash_format(event->sequence_hash, hash);
    kvt_hash_format(event->parent, parent);
    kvt_hash_format(event->tokens_hash, tokens);
    kvt_buffer_init(&line, BATCH_LINE_MAX);
    kvt_buffer_printf(
        &line, "{\"schema_version\":1,\"time_ms\":%" PRIu64 ",\"namespace\":", batch->time_ms);
    kvt_buffer_json_string(&line, batch->namespace_);
    kvt_buffer_printf(&line, ",\"worker\":");
    kvt_buffer_json_string(&line, batch->worker);
    kvt_buffer_printf(&line, ",\"incarnation\":%" PRIu64 ",\"seq\":%" PRIu64 ",\"type\":\"%s\"",
                      batch->incarnation, seq, type_name(event->type));
    if (location != NULL) {
        kvt_buffer_printf(&line, ",\"tier\":\"%s\",\"dp_rank\":%" PRIu32 ",\"location\":",
                          kvt_tier_name(location->tier), location->dp_rank);
        kvt_buffer_json_string(&line, location->name);
    }
    kvt_buffer_printf(&line,
                      ",\"hash\":\"%s\",\"parent\":\"%s\",\"position\":%" PRIu32
                      ",\"size\":%" PRIu64 ",\"ranks\":%" PRIu32 ",\"tokens_hash\":\"%s\"}\n",
                      hash, parent, event->position, event->block_size, event->ranks, tokens);
    (void)fputs(kvt_buffer_text(&line), out);
    kvt_buffer_release(&line);
}

static void
text_event(FILE *out, const struct kvt_event_batch *batch, const struct kvt_event *event,
           uint64_t seq)
{
    const struct kvt_location *location =
        event->location < batch->location_count ? &batch->locations[event->location] : NULL;
    char time[KVT_CLOCK_TEXT_MAX];
    char hash[KVT_HASH_TEXT_MAX];

    kvt_clock_format(batch->time_ms, time);
    kvt_hash_format(event->sequence_hash, hash);
    (void)fprintf(out,
                  "%s  %-20s %10" PRIu64 "  %-6s  %s  %s  @%-6" PRIu32 " %10" PRIu64 " B  %s%s\n",
                  time, batch->worker, seq, type_name(event->type),
                  location == NULL ? "G?" : kvt_tier_name(location->tier), hash, event->position,
                  event->block_size, location == NULL ? "" : location->name,
                  batch->namespace_[0] == '\0' ? "" : "  (namespace)");
}

/* What a batch says beside its events: that its sender lives, or numbers of what was skipped. */
static void
note(const struct cli_event_printer *printer, const char *type, uint64_t seq, uint32_t count)
{
    const struct kvt_event_batch *batch = &printer->batch;
    struct kvt_buffer line;
    char time[KVT_CLOCK_TEXT_MAX];

    if (!printer->context->json) {
        kvt_clock_format(batch->time_ms, time);
        if (count == 0)
            (void)fprintf(printer->context->out, "%s  %-20s %10" PRIu64 "  alive\n", time,
                          batch->worker, seq);
        else
            (void)fprintf(printer->context->out,
                          "%s  %-20s %10" PRIu64 "  skip    %" PRIu32
                          " events of an unknown type or tier\n",
                          time, batch->worker, seq, count);
        return;
    }
    kvt_buffer_init(&line, BATCH_LINE_MAX);
    kvt_buffer_printf(&line,
                      "{\"schema_version\":1,\"time_ms\":%" PRIu64 ",\"worker\":", batch->time_ms);
    kvt_buffer_json_string(&line, batch->worker);
    kvt_buffer_printf(&line, ",\"incarnation\":%" PRIu64 ",\"seq\":%" PRIu64 ",\"type\":\"%s\"",
                      batch->incarnation, seq, type);
    if (count > 0)
        kvt_buffer_printf(&line, ",\"why\":\"%s\",\"count\":%" PRIu32,
                          advisor_source_why_name(WIRE_RAW_UNKNOWN_KIND), count);
    kvt_buffer_printf(&line, "}\n");
    (void)fputs(kvt_buffer_text(&line), printer->context->out);
    kvt_buffer_release(&line);
}

static bool
show_canonical(struct cli_event_printer *printer, const struct wire_recording *message)
{
    struct kvt_event_batch *batch = &printer->batch;
    struct kvt_error err = {0};
    uint32_t skipped = 0;

    if (wire_event_decode(message->bytes, message->size, batch, KVT_EVENTS_PER_BATCH_MAX, &skipped,
                          &err) != KVT_OK)
        return malformed(printer, message, err.text);
    if (batch->event_count == 0 && skipped == 0 && printer->heartbeats)
        note(printer, "heartbeat", batch->first_seq, 0);
    for (uint32_t i = 0; i < batch->event_count; i++) {
        const uint64_t seq = batch->first_seq + i;

        if (printer->context->json)
            json_event(printer->context->out, batch, &batch->events[i], seq);
        else
            text_event(printer->context->out, batch, &batch->events[i], seq);
        if (++printer->shown == printer->limit)
            return false;
    }
    if (skipped > 0)
        note(printer, "skip", batch->first_seq, skipped);
    return true;
}

/* ---- foreign ones ---- */

static const char *
kind_name(enum wire_raw_kind kind)
{
    switch (kind) {
    case WIRE_RAW_STORE: return "store";
    case WIRE_RAW_REMOVE: return "remove";
    case WIRE_RAW_CLEAR: return "clear";
    case WIRE_RAW_BYE: return "bye";
    case WIRE_RAW_SKIP: break;
    }
    return "skip";
}

static const char *
raw_tier(const struct wire_raw_event *event)
{
    if (event->tier != WIRE_RAW_TIER_ALL)
        return kvt_tier_name(event->tier);
    return event->kind == WIRE_RAW_SKIP ? "-" : "all";
}

/* Who it speaks for: a name, or a number. */
static void
raw_worker(const struct wire_raw_batch *batch, const struct wire_raw_event *event,
           char text[WORKER_MAX])
{
    if (batch->worker[0] != '\0')
        (void)snprintf(text, WORKER_MAX, "%s", batch->worker);
    else
        (void)snprintf(text, WORKER_MAX, "%" PRIu64, event->worker);
}

static uint64_t
raw_time(const struct wire_raw_batch *batch, const struct wire_recording *message)
{
    return batch->time_ms != 0 ? batch->time_ms : message->time_ns / NS_PER_MS;
}

static void
json_blocks(struct kvt_buffer *line, const struct wire_raw_batch *batch,
            const struct wire_raw_event *event)
{
    kvt_buffer_printf(line, ",\"blocks\":[");
    for (uint32_t i = 0; i < event->count; i++) {
        const struct wire_raw_block *block = &batch->blocks[event->first + i];
        char hash[KVT_HASH_TEXT_MAX];
        char tokens[KVT_HASH_TEXT_MAX];

        kvt_hash_format(block->hash, hash);
        kvt_hash_format(block->tokens_hash, tokens);
        kvt_buffer_printf(line, "%s{\"hash\":\"%s\",\"tokens_hash\":\"%s\"}", i == 0 ? "" : ",",
                          hash, tokens);
    }
    kvt_buffer_printf(line, "]");
}

static void
json_raw(struct cli_event_printer *printer, const struct wire_recording *message,
         const struct wire_raw_event *event)
{
    const struct wire_raw_batch *batch = printer->raw;
    struct kvt_buffer line;
    char worker[WORKER_MAX];
    char parent[KVT_HASH_TEXT_MAX];

    raw_worker(batch, event, worker);
    kvt_hash_format(event->parent, parent);
    kvt_buffer_init(&line, CLI_EVENT_PRINTER_LINE_MAX);
    kvt_buffer_printf(&line, "{\"schema_version\":1,\"dialect\":");
    kvt_buffer_json_string(&line, message->dialect);
    kvt_buffer_printf(&line, ",\"subject\":");
    kvt_buffer_json_string(&line, message->subject);
    kvt_buffer_printf(&line, ",\"time_ms\":%" PRIu64 ",\"worker\":", raw_time(batch, message));
    kvt_buffer_json_string(&line, worker);
    kvt_buffer_printf(&line, ",\"publisher\":%" PRIu64, batch->publisher);
    if (batch->has_sequence)
        kvt_buffer_printf(&line, ",\"sequence\":%" PRIu64, batch->sequence);
    kvt_buffer_printf(&line, ",\"event_id\":%" PRIu64 ",\"type\":\"%s\"", event->id,
                      kind_name(event->kind));
    if (event->kind == WIRE_RAW_SKIP)
        kvt_buffer_printf(&line, ",\"why\":\"%s\"", advisor_source_why_name(event->why));
    kvt_buffer_printf(&line, ",\"tier\":\"%s\",\"dp_rank\":%" PRIu32, raw_tier(event),
                      event->dp_rank);
    if (event->has_parent || event->parent != 0)
        kvt_buffer_printf(&line, ",\"parent\":\"%s\"", parent);
    if (event->position != WIRE_RAW_POSITION_UNKNOWN)
        kvt_buffer_printf(&line, ",\"position\":%" PRIu32, event->position);
    kvt_buffer_printf(&line,
                      ",\"block_tokens\":%" PRIu32 ",\"ranks\":%" PRIu32 ",\"size\":%" PRIu64,
                      event->block_tokens, event->ranks, event->size);
    if (batch->namespace_[0] != '\0') {
        kvt_buffer_printf(&line, ",\"namespace\":");
        kvt_buffer_json_string(&line, batch->namespace_);
    }
    if (batch->holder[0] != '\0') {
        kvt_buffer_printf(&line, ",\"holder\":");
        kvt_buffer_json_string(&line, batch->holder);
    }
    json_blocks(&line, batch, event);
    kvt_buffer_printf(&line, "}\n");
    (void)fputs(kvt_buffer_text(&line), printer->context->out);
    kvt_buffer_release(&line);
}

static void
text_raw(struct cli_event_printer *printer, const struct wire_recording *message,
         const struct wire_raw_event *event)
{
    const struct wire_raw_batch *batch = printer->raw;
    FILE *out = printer->context->out;
    char time[KVT_CLOCK_TEXT_MAX];
    char worker[WORKER_MAX];
    char hash[KVT_HASH_TEXT_MAX];

    kvt_clock_format(raw_time(batch, message), time);
    raw_worker(batch, event, worker);
    (void)fprintf(out, "%s  %-20s %10" PRIu64 "  %-6s  %-3s", time, worker, event->id,
                  kind_name(event->kind), raw_tier(event));
    if (event->kind == WIRE_RAW_SKIP) {
        (void)fprintf(out, " %s\n", advisor_source_why_name(event->why));
        return;
    }
    if (event->count > 0) {
        kvt_hash_format(batch->blocks[event->first].hash, hash);
        (void)fprintf(out, " %s", hash);
    }
    if (event->position != WIRE_RAW_POSITION_UNKNOWN)
        (void)fprintf(out, "  @%-6" PRIu32, event->position);
    if (event->count > 1)
        (void)fprintf(out, "  and %" PRIu32 " more", event->count - 1);
    (void)fprintf(out, "  rank %" PRIu32 "  %s\n", event->dp_rank, message->dialect);
}

static bool
show_raw(struct cli_event_printer *printer, enum wire_dialect dialect,
         const struct wire_recording *message)
{
    struct kvt_error err = {0};

    wire_raw_batch_clear(printer->raw);
    if (wire_dialect_decode(dialect, message->bytes, message->size, printer->raw, &err) != KVT_OK)
        return malformed(printer, message, err.text);
    if (dialect == WIRE_DIALECT_ENGINE) { /* its number came in a frame of its own */
        printer->raw->sequence = message->sequence;
        printer->raw->has_sequence = true;
    }
    for (uint32_t i = 0; i < printer->raw->event_count; i++) {
        if (printer->context->json)
            json_raw(printer, message, &printer->raw->events[i]);
        else
            text_raw(printer, message, &printer->raw->events[i]);
        if (++printer->shown == printer->limit)
            return false;
    }
    return true;
}

bool
cli_event_printer_show(struct cli_event_printer *printer, const struct wire_recording *message)
{
    enum wire_dialect dialect;
    bool more;

    if (!wire_dialect_parse(message->dialect, &dialect))
        more = malformed(printer, message, "a dialect this program does not know");
    else if (dialect == WIRE_DIALECT_KVTIER)
        more = show_canonical(printer, message);
    else
        more = show_raw(printer, dialect, message);
    return more && ferror(printer->context->out) == 0;
}
