#include <stdio.h>

#include "advisor/source/source_private.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "wire/message/event_codec.h"
#include "wire/nats/bus.h"
#include "wire/nats/stream.h"

/* A thread reads the stream in order, from the message behind the applied one on. */

enum {
    FETCH_WAIT_MS = 100,
    AWAY_WAIT_MS = 200,
    LOOK_EVERY_MS = 1000, /* at how long the stream is */
};

struct reader {
    struct advisor_source *source;
    struct wire_stream *stream;
    uint64_t last_seq;   /* handed over */
    uint64_t created_ms; /* of the stream that is read */
    uint64_t looked_ms;
    bool durable;
};

static bool
stopping(const struct reader *reader)
{
    return atomic_load(&reader->source->stopping);
}

/* Ours is made when it is missing; another's is waited for. */
static bool
is_ours(const struct reader *reader)
{
    return reader->source->ops->dialect == WIRE_DIALECT_KVTIER;
}

/* What the stream is now; waits for server and stream.  False: stopping. */
static bool
look(struct reader *reader, struct wire_stream_state *state)
{
    struct advisor_source *source = reader->source;
    struct kvt_error err = {.text = ""};

    while (!stopping(reader)) {
        enum kvt_err rc = wire_stream_state(source->options.bus, source->options.stream, state);

        if (rc == KVT_NOTFOUND && is_ours(reader))
            rc = wire_bus_ensure_streams(source->options.bus, &err) == KVT_OK ? KVT_AGAIN : rc;
        if (rc == KVT_OK) {
            advisor_source_set_last(source, state->last_seq);
            reader->looked_ms = kvt_clock_mono_ms();
            return true;
        }
        if (rc == KVT_AGAIN)
            continue;
        advisor_source_set_running(source, false,
                                   rc != KVT_NOTFOUND ? "NATS does not answer"
                                   : is_ours(reader)  ? "the stream cannot be made"
                                                      : "the stream is not there");
        kvt_clock_sleep_ms(AWAY_WAIT_MS);
    }
    return false;
}

static bool
tell(struct reader *reader, enum advisor_inbox_item_kind kind)
{
    struct advisor_inbox_item *item;

    while (advisor_inbox_item_new(&item, kind, reader->source->options.stream, NULL, 0) != KVT_OK) {
        if (stopping(reader))
            return false;
        kvt_clock_sleep_ms(AWAY_WAIT_MS);
    }
    item->created_ms = reader->created_ms;
    item->stream_seq = reader->last_seq;
    return advisor_source_push_wait(reader->source, item);
}

/* Messages behind the last one read are there no more (their age, a purge): nothing will ever come
 * that says so when the stream is empty. */
static bool
is_cut(const struct reader *reader, const struct wire_stream_state *state)
{
    return state->first_seq > reader->last_seq + 1;
}

/* Another stream than the one we read up to `last_seq`? */
static bool
is_other(const struct reader *reader, const struct wire_stream_state *state)
{
    return state->created_ms != reader->created_ms || state->last_seq < reader->last_seq;
}

static void
restart(struct reader *reader, const struct wire_stream_state *state)
{
    reader->created_ms = state->created_ms;
    reader->last_seq = state->first_seq > 0 ? state->first_seq - 1 : 0;
}

/* Two advisors that read by one consumer would each get a part of the events. */
static void
choose_consumer(struct reader *reader, struct wire_stream_options *stream)
{
    const struct advisor_source_options *options = &reader->source->options;

    if (!is_ours(reader) || options->durable == NULL || options->durable[0] == '\0')
        return;
    if (wire_stream_durable_free(options->bus, options->stream, options->durable) == KVT_BUSY) {
        kvt_log_error("advisor.source", "durable_taken",
                      "another advisor reads %s by the consumer %s: this one goes on without; give "
                      "it an events.consumer of its own",
                      options->stream, options->durable);
        return;
    }
    stream->durable = options->durable;
    stream->ordered = true;
    reader->durable = true;
}

/* Again and again: what was said while the server was away is known to nobody, and what comes again
 * for that is to be acknowledged, too. */
static void
acknowledge(struct reader *reader)
{
    if (reader->durable)
        wire_stream_applied(reader->stream,
                            advisor_source_applied_seq(reader->source, reader->created_ms));
}

/* Once: who has followed the stream knows what was purged. */
static bool
wants_snapshot(const struct advisor_source_options *options)
{
    return options->created_ms == 0 && options->snapshot_bucket != NULL &&
           options->snapshot_bucket[0] != '\0';
}

static bool
begin(struct reader *reader)
{
    const struct advisor_source_options *options = &reader->source->options;
    struct wire_stream_options stream = {.stream = options->stream,
                                         .subject = is_ours(reader) ? "" : options->subject,
                                         .durable = "",
                                         .foreign = !is_ours(reader)};
    struct wire_stream_state state;

    reader->last_seq = options->seq;
    reader->created_ms = options->created_ms;
    if (!look(reader, &state))
        return false;
    if (wants_snapshot(options) && !advisor_source_tell_snapshot(reader->source, &state))
        return false;
    if (is_other(reader, &state)) {
        restart(reader, &state);
        if (!tell(reader, ADVISOR_INBOX_ITEM_START))
            return false;
    } else if (is_cut(reader, &state)) {
        reader->last_seq = state.first_seq - 1;
        if (!tell(reader, ADVISOR_INBOX_ITEM_GAP))
            return false;
    }
    stream.start_seq = reader->last_seq + 1;
    choose_consumer(reader, &stream);
    while (wire_stream_open(&reader->stream, options->bus, &stream) != KVT_OK) {
        if (stopping(reader))
            return false;
        kvt_clock_sleep_ms(AWAY_WAIT_MS);
    }
    return true;
}

static bool
gap(struct reader *reader)
{
    struct wire_stream_state state;

    if (!look(reader, &state))
        return false;
    if (!is_other(reader, &state)) {
        if (is_cut(reader, &state))
            reader->last_seq = state.first_seq - 1;
        return tell(reader, ADVISOR_INBOX_ITEM_GAP);
    }
    restart(reader, &state);
    return tell(reader, ADVISOR_INBOX_ITEM_START);
}

/* Memory may be short for a while: a message is never skipped. */
static bool
hand_over(struct reader *reader, struct wire_message *message)
{
    const struct advisor_inbox_item like = {.kind = ADVISOR_INBOX_ITEM_MESSAGE,
                                            .stream_seq = wire_message_stream_seq(message),
                                            .time_ms = wire_message_time_ms(message)};
    size_t size;
    const void *bytes = wire_message_bytes(message, &size);

    reader->last_seq = like.stream_seq;
    return advisor_source_copy_wait(reader->source, &like, wire_message_subject(message), bytes,
                                    size);
}

static void
read_on(struct reader *reader)
{
    struct wire_message *messages[WIRE_STREAM_FETCH_MAX];
    struct advisor_source *source = reader->source;
    struct wire_stream_state state;
    bool going = true;

    while (going && !stopping(reader)) {
        size_t count = 0;
        const enum kvt_err rc = wire_stream_fetch(reader->stream, messages, WIRE_STREAM_FETCH_MAX,
                                                  FETCH_WAIT_MS, &count);

        if (rc == KVT_OK)
            advisor_source_set_running(source, true, "");
        for (size_t i = 0; i < count; i++) {
            going = going && hand_over(reader, messages[i]);
            wire_message_free(messages[i]);
        }
        if (rc == KVT_NOTFOUND) {
            kvt_log_warn("advisor.source", "gap", "%s lost messages behind %llu",
                         source->options.stream, (unsigned long long)reader->last_seq);
            going = gap(reader);
        } else if (rc != KVT_OK) {
            advisor_source_set_running(source, false, "NATS does not answer");
            kvt_clock_sleep_ms(AWAY_WAIT_MS);
        }
        acknowledge(reader);
        if (kvt_clock_mono_ms() - reader->looked_ms >= LOOK_EVERY_MS) {
            reader->looked_ms = kvt_clock_mono_ms();
            if (wire_stream_state(source->options.bus, source->options.stream, &state) == KVT_OK) {
                advisor_source_set_last(source, state.last_seq);
                if (going && rc == KVT_OK && count == 0 && is_cut(reader, &state))
                    going = gap(reader);
            }
        }
    }
}

static void *
run(void *arg)
{
    struct reader reader = {.source = arg};

    if (begin(&reader))
        read_on(&reader);
    wire_stream_close(reader.stream);
    return NULL;
}

enum kvt_err
advisor_source_open_stream(struct advisor_source *source)
{
    advisor_source_set_running(source, false, "connecting");
    return advisor_source_start(source, run, source);
}

void
advisor_source_close_stream(struct advisor_source *source)
{
    advisor_source_join(source);
}

const struct advisor_source_ops advisor_source_jetstream = {
    .name = "kvtier-jetstream",
    .dialect = WIRE_DIALECT_KVTIER,
    .open = advisor_source_open_stream,
    .close = advisor_source_close_stream,
    .decode = wire_event_decode,
};
