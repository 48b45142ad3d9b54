#include "cli/remote/listener.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "advisor/source/source.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "cli/frame/interrupt.h"
#include "wire/nats/stream.h"

enum { TAKE = 64, WAIT_MS = 200, NS_PER_MS = 1000000, LIST_MAX = 1024 };

/* One message as NATS's thread left it. */
struct held {
    uint64_t time_ns;
    size_t size;
    char subject[WIRE_SUBJECT_MAX];
    uint8_t bytes[];
};

static uint64_t
now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

const char *
cli_listener_subjects(enum wire_dialect dialect)
{
    switch (dialect) {
    case WIRE_DIALECT_KVTIER: return WIRE_SUBJECT_EVENTS_ALL;
    case WIRE_DIALECT_DYNAMO:
        return "namespace.*.component.*.kv-events,namespace.*.component.*.kv_events,"
               "namespace.*.component.*.endpoint.*.kv-events,"
               "namespace.*.component.*.endpoint.*.kv_events";
    case WIRE_DIALECT_KVBM: return "kvbm.events";
    case WIRE_DIALECT_MINIO: /* whatever the operator called it */
    case WIRE_DIALECT_ENGINE:
    case WIRE_DIALECT_COUNT: break;
    }
    return NULL;
}

/* Enough: the time is over, or Ctrl-C. */
static bool
is_over(const struct cli_listener *listener)
{
    return (listener->deadline_ms != 0 && kvt_clock_mono_ms() >= listener->deadline_ms) ||
           cli_interrupt_wait(0);
}

static uint64_t
wait_of(const struct cli_listener *listener)
{
    const uint64_t now = kvt_clock_mono_ms();

    if (listener->deadline_ms == 0 || listener->deadline_ms > now + WAIT_MS)
        return WAIT_MS;
    return listener->deadline_ms > now ? listener->deadline_ms - now : 1;
}

static void
name_message(const struct cli_listener *listener, const char *source, const char *subject,
             struct wire_recording *message)
{
    (void)snprintf(message->dialect, sizeof(message->dialect), "%s",
                   wire_dialect_name(listener->dialect));
    (void)snprintf(message->source, sizeof(message->source), "%s", source);
    (void)snprintf(message->subject, sizeof(message->subject), "%s", subject);
}

/* ---- core ---- */

/* NATS's thread: copy and leave. */
static void
on_message(void *arg, const char *subject, const char *reply, const void *bytes, size_t size)
{
    struct cli_listener *listener = arg;
    struct held *held = NULL;

    (void)reply;
    if (listener->queued + size <= CLI_LISTENER_BYTES)
        held = kvt_calloc(1, sizeof(*held) + size);
    if (held == NULL) {
        listener->dropped++;
        return;
    }
    held->time_ns = now_ns();
    held->size = size;
    (void)snprintf(held->subject, sizeof(held->subject), "%s", subject);
    if (size > 0)
        memcpy(held->bytes, bytes, size);
    listener->queued += size;
    if (kvt_queue_put(listener->queue, held) != KVT_OK) {
        listener->queued -= size;
        listener->dropped++;
        kvt_free(held);
    }
}

static bool
take_held(struct cli_listener *listener, struct held *held)
{
    struct wire_recording message = {
        .time_ns = held->time_ns, .bytes = held->bytes, .size = held->size};
    bool more;

    name_message(listener, "core", held->subject, &message);
    more = listener->each(listener->arg, &message);
    listener->queued -= held->size;
    return more;
}

static bool
take_queue(struct cli_listener *listener, uint64_t wait_ms, size_t *count)
{
    void *items[TAKE];
    bool more = true;

    *count = kvt_queue_take(listener->queue, items, TAKE, wait_ms);
    for (size_t i = 0; i < *count; i++) {
        more = more && take_held(listener, items[i]);
        kvt_free(items[i]);
    }
    return more;
}

/* The subjects one by one; the text is cut into them. */
static size_t
split(char *text, char *subjects[CLI_LISTENER_SUBJECTS])
{
    size_t count = 0;
    char *rest = text;

    for (char *word = strsep(&rest, ","); word != NULL; word = strsep(&rest, ",")) {
        if (word[0] == '\0')
            continue;
        if (count == CLI_LISTENER_SUBJECTS)
            return CLI_LISTENER_SUBJECTS + 1;
        subjects[count++] = word;
    }
    return count;
}

enum kvt_err
cli_listener_core(struct cli_listener *listener, struct wire_bus *bus, const char *subjects,
                  struct kvt_error *err)
{
    char *words[CLI_LISTENER_SUBJECTS];
    char text[LIST_MAX];
    size_t count;
    size_t open = 0;
    bool more = true;
    enum kvt_err rc;

    if (snprintf(text, sizeof(text), "%s", subjects) >= (int)sizeof(text))
        return kvt_error_set(err, KVT_RANGE, "--subject: too long");
    count = split(text, words);
    if (count == 0 || count > CLI_LISTENER_SUBJECTS)
        return kvt_error_set(err, KVT_INVALID, "--subject: 1 to %d subjects, with commas between",
                             CLI_LISTENER_SUBJECTS);
    rc = kvt_queue_new(&listener->queue, CLI_LISTENER_QUEUED);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "out of memory");
    for (; open < count && rc == KVT_OK; open++)
        rc = wire_bus_subscribe(bus, words[open], on_message, listener, err);
    if (rc != KVT_OK)
        open--; /* the one that failed */
    if (rc == KVT_OK && listener->heard != NULL) {
        wire_bus_settle(bus);
        listener->heard(listener->arg);
    }
    while (rc == KVT_OK && more && !is_over(listener)) {
        size_t taken;

        more = take_queue(listener, wait_of(listener), &taken);
        if (taken < TAKE)
            more = listener->pause(listener->arg) && more;
    }
    for (size_t i = 0; i < open; i++)
        wire_bus_unsubscribe(bus, words[i], listener);
    /* What had come by then still counts, unless there was enough. */
    for (size_t taken = 1; taken > 0;) {
        void *items[TAKE];

        taken = kvt_queue_take(listener->queue, items, TAKE, 0);
        for (size_t i = 0; i < taken; i++) {
            more = more && take_held(listener, items[i]);
            kvt_free(items[i]);
        }
    }
    kvt_queue_free(listener->queue);
    listener->queue = NULL;
    return rc;
}

/* ---- a stream ---- */

static bool
take_message(struct cli_listener *listener, const char *name, const struct wire_message *from)
{
    struct wire_recording message = {
        .time_ns = wire_message_time_ms(from) * NS_PER_MS,
        .sequence = wire_message_stream_seq(from),
    };

    message.bytes = wire_message_bytes(from, &message.size);
    name_message(listener, name, wire_message_subject(from), &message);
    return listener->each(listener->arg, &message);
}

enum kvt_err
cli_listener_stream(struct cli_listener *listener, struct wire_bus *bus, const char *name,
                    const char *subject, uint64_t from_seq, bool stop, struct kvt_error *err)
{
    const struct wire_stream_options options = {.stream = name,
                                                .subject = subject,
                                                .durable = "",
                                                .start_seq = from_seq == 0 ? 1 : from_seq,
                                                .foreign = true};
    struct wire_message *messages[TAKE];
    struct wire_stream_state state = {0};
    struct wire_stream *stream = NULL;
    bool begun = false;
    bool more = true;
    enum kvt_err rc;

    rc = wire_stream_state(bus, name, &state);
    if (rc == KVT_OK)
        rc = wire_stream_open(&stream, bus, &options);
    if (rc == KVT_OK && stop &&
        (state.last_seq == 0 || state.first_seq > state.last_seq ||
         options.start_seq > state.last_seq))
        more = false;
    while (rc == KVT_OK && more && !is_over(listener)) {
        size_t count = 0;

        rc = wire_stream_fetch(stream, messages, TAKE, wait_of(listener), &count);
        if (rc == KVT_NOTFOUND) { /* it begins behind what was thrown away */
            listener->gaps += begun || options.start_seq > 1 ? 1 : 0;
            rc = KVT_OK;
        }
        begun = true;
        for (size_t i = 0; i < count; i++) {
            more = more && take_message(listener, name, messages[i]);
            if (stop && wire_message_stream_seq(messages[i]) >= state.last_seq)
                more = false;
            wire_message_free(messages[i]);
        }
        /* With a filter the newest message may be another's: the end is when nothing comes. */
        if (stop && subject[0] != '\0' && count == 0)
            more = false;
        if (count < TAKE)
            more = listener->pause(listener->arg) && more;
    }
    wire_stream_close(stream);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "stream %s: %s", name, kvt_err_text(rc));
    return KVT_OK;
}

/* ---- ZMQ ---- */

static const struct advisor_source_ops *
zmq_kind(enum wire_dialect dialect)
{
    switch (dialect) {
    case WIRE_DIALECT_DYNAMO: return &advisor_source_dynamo_zmq;
    case WIRE_DIALECT_ENGINE: return &advisor_source_engine_zmq;
    case WIRE_DIALECT_KVBM: return &advisor_source_kvbm_zmq;
    case WIRE_DIALECT_KVTIER:
    case WIRE_DIALECT_MINIO:
    case WIRE_DIALECT_COUNT: break;
    }
    return NULL;
}

static bool
take_item(struct cli_listener *listener, const struct advisor_inbox_item *item)
{
    struct wire_recording message = {.time_ns = item->time_ms * NS_PER_MS,
                                     .sequence = item->has_sequence ? item->sequence : 0,
                                     .bytes = item->bytes,
                                     .size = item->size};

    if (item->kind != ADVISOR_INBOX_ITEM_MESSAGE) {
        listener->gaps += item->kind == ADVISOR_INBOX_ITEM_GONE ? 0 : 1;
        return true;
    }
    name_message(listener, "zmq", item->subject == NULL ? "" : item->subject, &message);
    return listener->each(listener->arg, &message);
}

enum kvt_err
cli_listener_zmq(struct cli_listener *listener, const char *endpoints, bool bind,
                 struct kvt_error *err)
{
    struct advisor_source_options options = advisor_source_unset;
    const struct advisor_source_ops *kind = zmq_kind(listener->dialect);
    struct advisor_source_state state = {0};
    struct advisor_source *source;
    struct advisor_inbox_item *items[TAKE];
    bool more = true;
    enum kvt_err rc;

    if (kind == NULL)
        return kvt_error_set(err, KVT_UNSUPPORTED, "--zmq wants --dialect engine, dynamo or kvbm");
    (void)snprintf(options.name, sizeof(options.name), "kvtier");
    options.endpoints = endpoints;
    options.bind = bind;
    rc = advisor_source_open(&source, kind, &options);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "--zmq %.120s: %s", endpoints, kvt_err_text(rc));
    while (more && !is_over(listener)) {
        const size_t count = advisor_source_poll(source, items, TAKE, wait_of(listener));

        for (size_t i = 0; i < count; i++) {
            more = more && take_item(listener, items[i]);
            advisor_inbox_item_free(items[i]);
        }
        if (count < TAKE)
            more = listener->pause(listener->arg) && more;
    }
    advisor_source_state(source, &state);
    listener->dropped += state.dropped;
    advisor_source_close(source);
    return KVT_OK;
}

/* ---- a recording ---- */

enum kvt_err
cli_listener_recording(struct cli_listener *listener, const char *path, bool skip_bad,
                       struct kvt_error *err)
{
    struct wire_recording_reader *reader = NULL;
    struct wire_recording message;
    struct kvt_error cause = {0};
    bool more = true;
    enum kvt_err rc = wire_recording_open(&reader, path, err);

    if (rc != KVT_OK)
        return rc;
    while (more && !is_over(listener)) {
        rc = wire_recording_next(reader, &message, &cause);
        if (rc == KVT_CORRUPT && skip_bad) {
            listener->bad++;
            (void)fprintf(listener->context->err, "kvtier: %s; skipped\n", cause.text);
        } else if (rc != KVT_OK) {
            break;
        } else {
            more = listener->each(listener->arg, &message);
        }
    }
    listener->torn = wire_recording_torn(reader);
    wire_recording_free(reader);
    if (rc == KVT_NOTFOUND)
        rc = KVT_OK;
    if (rc == KVT_CORRUPT && skip_bad)
        rc = KVT_OK;
    if (rc != KVT_OK && err != NULL)
        *err = cause;
    return rc;
}

bool
cli_listener_complain(const struct cli_listener *listener)
{
    FILE *out = listener->context->err;

    if (listener->dropped > 0)
        (void)fprintf(out,
                      "kvtier: %" PRIu64 " messages came faster than they could be taken and were "
                      "left out\n",
                      (uint64_t)listener->dropped);
    if (listener->gaps > 0)
        (void)fprintf(out, "kvtier: some messages are no longer there, or were lost on the way\n");
    if (listener->bad > 0)
        (void)fprintf(out, "kvtier: %" PRIu64 " bad records were skipped\n", listener->bad);
    if (listener->torn > 0)
        (void)fprintf(
            out, "kvtier: the recording ends inside a record: %" PRIu64 " bytes were left over\n",
            listener->torn);
    return listener->dropped > 0 || listener->gaps > 0 || listener->bad > 0 || listener->torn > 0;
}
