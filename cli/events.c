#include "cli/events.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/queue.h"
#include "cli/bus.h"
#include "cli/options.h"
#include "cli/watch.h"
#include "kvtier/event.h"
#include "wire/event.h"
#include "wire/stream.h"
#include "wire/subject.h"

enum { EVENTS_QUEUED = 1024, TAKE = 64, LINE_MAX_BYTES = 4096, WAIT_MS = 200 };

/* One message as NATS's thread left it. */
struct held {
    size_t size;
    char subject[WIRE_SUBJECT_MAX];
    uint8_t bytes[];
};

struct tail {
    const struct cli_context *context;
    struct kvt_queue *queue;
    _Atomic uint64_t dropped;
    struct kvt_event_batch batch;
    uint64_t limit;
    uint64_t shown;
    uint64_t malformed;
    bool heartbeats;
};

/* NATS's thread: copy and leave. */
static void
on_message(void *arg, const char *subject, const char *reply, const void *bytes, size_t size)
{
    struct tail *tail = arg;
    struct held *held = kvt_calloc(1, sizeof(*held) + size);

    (void)reply;
    if (held == NULL) {
        tail->dropped++;
        return;
    }
    held->size = size;
    (void)snprintf(held->subject, sizeof(held->subject), "%s", subject);
    memcpy(held->bytes, bytes, size);
    if (kvt_queue_put(tail->queue, held) != KVT_OK) {
        tail->dropped++;
        kvt_free(held);
    }
}

/* ---- printing ---- */

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
print_json(FILE *out, const struct kvt_event_batch *batch, const struct kvt_event *event,
           uint64_t seq)
{
    const struct kvt_location *location =
        event->location < batch->location_count ? &batch->locations[event->location] : NULL;
    struct kvt_buffer line;
    char hash[KVT_HASH_TEXT_MAX];
    char parent[KVT_HASH_TEXT_MAX];

    kvt_hash_format(event->sequence_hash, hash);
    kvt_hash_format(event->parent, parent);
    kvt_buffer_init(&line, LINE_MAX_BYTES);
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
                      ",\"size\":%" PRIu64 ",\"ranks\":%" PRIu32 "}\n",
                      hash, parent, event->position, event->block_size, event->ranks);
    (void)fputs(kvt_buffer_text(&line), out);
    kvt_buffer_release(&line);
}

static void
print_text(FILE *out, const struct kvt_event_batch *batch, const struct kvt_event *event,
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

static void
print_heartbeat(const struct tail *tail)
{
    const struct kvt_event_batch *batch = &tail->batch;
    struct kvt_buffer line;
    char time[KVT_CLOCK_TEXT_MAX];

    if (!tail->context->json) {
        kvt_clock_format(batch->time_ms, time);
        (void)fprintf(tail->context->out, "%s  %-20s %10" PRIu64 "  alive\n", time, batch->worker,
                      batch->first_seq);
        return;
    }
    kvt_buffer_init(&line, LINE_MAX_BYTES);
    kvt_buffer_printf(&line,
                      "{\"schema_version\":1,\"time_ms\":%" PRIu64 ",\"worker\":", batch->time_ms);
    kvt_buffer_json_string(&line, batch->worker);
    kvt_buffer_printf(&line,
                      ",\"incarnation\":%" PRIu64 ",\"seq\":%" PRIu64 ",\"type\":\"heartbeat\"}\n",
                      batch->incarnation, batch->first_seq);
    (void)fputs(kvt_buffer_text(&line), tail->context->out);
    kvt_buffer_release(&line);
}

/* Show one message; false when enough was shown. */
static bool
show(struct tail *tail, const char *subject, const void *bytes, size_t size)
{
    struct kvt_error err = {0};
    uint32_t skipped = 0;

    if (wire_event_decode(bytes, size, &tail->batch, KVT_EVENTS_PER_BATCH_MAX, &skipped, &err) !=
        KVT_OK) {
        tail->malformed++;
        (void)fprintf(tail->context->err, "kvtier: %s: %s\n", subject, err.text);
        return true;
    }
    if (tail->batch.event_count == 0 && tail->heartbeats)
        print_heartbeat(tail);
    for (uint32_t i = 0; i < tail->batch.event_count; i++) {
        const uint64_t seq = tail->batch.first_seq + i;

        if (tail->context->json)
            print_json(tail->context->out, &tail->batch, &tail->batch.events[i], seq);
        else
            print_text(tail->context->out, &tail->batch, &tail->batch.events[i], seq);
        if (++tail->shown == tail->limit)
            return false;
    }
    return ferror(tail->context->out) == 0;
}

/* ---- the two ways to read ---- */

static enum kvt_err
follow(struct tail *tail, struct wire_bus *bus, struct kvt_error *err)
{
    void *items[TAKE];
    bool more = true;
    enum kvt_err rc;

    rc = wire_bus_subscribe(bus, WIRE_SUBJECT_EVENTS_ALL, on_message, tail, err);
    if (rc != KVT_OK)
        return rc;
    if (isatty(STDERR_FILENO) == 1)
        (void)fprintf(tail->context->err,
                      "waiting for events; --from-start shows those of the last day\n");
    while (more && !cli_watch_wait(0)) {
        const size_t count = kvt_queue_take(tail->queue, items, TAKE, WAIT_MS);

        for (size_t i = 0; i < count; i++) {
            struct held *held = items[i];

            more = more && show(tail, held->subject, held->bytes, held->size);
            kvt_free(held);
        }
        more = fflush(tail->context->out) == 0 && more;
    }
    wire_bus_unsubscribe(bus, WIRE_SUBJECT_EVENTS_ALL, tail);
    for (size_t count = 1; count > 0;) {
        count = kvt_queue_take(tail->queue, items, TAKE, 0);
        for (size_t i = 0; i < count; i++)
            kvt_free(items[i]);
    }
    return KVT_OK;
}

static enum kvt_err
replay(struct tail *tail, struct wire_bus *bus, struct kvt_error *err)
{
    const bool stop = kvt_config_bool(tail->context->options, CLI_EVENTS_NO_FOLLOW);
    const struct wire_stream_options options = {
        .stream = WIRE_STREAM_EVENTS, .subject = "", .durable = "", .start_seq = 1};
    struct wire_message *messages[TAKE];
    struct wire_stream_state state = {0};
    struct wire_stream *stream;
    bool more = true;
    enum kvt_err rc;

    rc = wire_stream_state(bus, WIRE_STREAM_EVENTS, &state);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "stream %s: %s", WIRE_STREAM_EVENTS, kvt_err_text(rc));
    rc = wire_stream_open(&stream, bus, &options);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "stream %s: %s", WIRE_STREAM_EVENTS, kvt_err_text(rc));
    if (stop && state.last_seq == 0)
        more = false;
    while (more && !cli_watch_wait(0)) {
        size_t count = 0;

        rc = wire_stream_fetch(stream, messages, TAKE, WAIT_MS, &count);
        if (rc != KVT_OK && rc != KVT_NOTFOUND) /* NOTFOUND: begins behind what was thrown away */
            break;
        rc = KVT_OK;
        for (size_t i = 0; i < count; i++) {
            size_t size;
            const void *bytes = wire_message_bytes(messages[i], &size);

            more = more && show(tail, wire_message_subject(messages[i]), bytes, size);
            if (stop && wire_message_stream_seq(messages[i]) >= state.last_seq)
                more = false;
            wire_message_free(messages[i]);
        }
        more = fflush(tail->context->out) == 0 && more;
    }
    wire_stream_close(stream);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "stream %s: %s", WIRE_STREAM_EVENTS, kvt_err_text(rc));
    return KVT_OK;
}

enum cli_exit
cli_events_tail(const struct cli_context *context)
{
    struct tail tail = {.context = context,
                        .limit = kvt_config_u64(context->options, CLI_EVENTS_LIMIT),
                        .heartbeats = kvt_config_bool(context->options, CLI_EVENTS_HEARTBEATS)};
    struct wire_bus *bus = NULL;
    struct kvt_error err = {0};
    enum kvt_err rc;

    if (kvt_config_bool(context->options, CLI_EVENTS_NO_FOLLOW) &&
        !kvt_config_bool(context->options, CLI_EVENTS_FROM_START))
        return cli_context_usage(context, "--no-follow wants --from-start");
    cli_watch_begin();
    tail.batch.events = kvt_calloc(KVT_EVENTS_PER_BATCH_MAX, sizeof(*tail.batch.events));
    rc = kvt_queue_new(&tail.queue, EVENTS_QUEUED);
    if (tail.batch.events == NULL || rc != KVT_OK) {
        rc = kvt_error_set(&err, KVT_NOMEM, "out of memory");
        goto done;
    }
    rc = cli_bus_open(context, &bus, &err);
    if (rc == KVT_OK && kvt_config_bool(context->options, CLI_EVENTS_FROM_START))
        rc = replay(&tail, bus, &err);
    else if (rc == KVT_OK)
        rc = follow(&tail, bus, &err);
done:
    wire_bus_close(bus);
    kvt_queue_free(tail.queue);
    kvt_free(tail.batch.events);
    if (tail.dropped > 0)
        (void)fprintf(context->err,
                      "kvtier: %" PRIu64 " messages came faster than they could be "
                      "shown and were left out\n",
                      (uint64_t)tail.dropped);
    if (rc == KVT_OK)
        return tail.malformed > 0 ? CLI_EXIT_PARTIAL : CLI_EXIT_DONE;
    (void)cli_context_fail(context, &err);
    if (rc == KVT_UNAVAILABLE || rc == KVT_TIMEOUT)
        (void)fputs("  start one here:  kvtier dev\n"
                    "  it is elsewhere: kvtier --nats-url URL events tail\n"
                    "  what is wrong:   kvtier doctor\n",
                    context->err);
    else if (rc == KVT_DENIED)
        (void)fprintf(context->err, "  next: %s\n", cli_bus_fix(rc));
    return cli_exit_of(rc);
}
