#include "gateway/bus/events.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/thread/queue.h"
#include "gateway/tier/gateway_tiers.h"
#include "wire/message/event_codec.h"
#include "wire/message/query.h"
#include "wire/message/subject.h"

enum {
    IDLE_MS = 10,
    HEARTBEAT_MS = 1000,
    ACK_MS = 2000,
    RETRY_MS = 200,
    BATCH_EVENTS = 512,
    DUMP_ROWS = 1024,
    DUMP_EVENTS_MAX = GATEWAY_TIERS * DUMP_ROWS,
    QUESTION_BYTES_MAX = 4096,
    DRAIN_STEP_MS = 10,
};

enum ask { ASK_DUMP, ASK_RANGE };

struct question {
    enum ask ask;
    uint32_t stream;
    char reply[WIRE_SUBJECT_MAX];
    size_t size;
    uint8_t bytes[];
};

/* Where one page of a dump ended.  A page may be asked for twice: cursors stay until they fall
 * out. */
struct cursor {
    uint64_t number;
    uint32_t stream;
    uint64_t seq; /* of the dump's start */
    char after[KVT_KEY_MAX];
};

/* One stream as its publisher. */
struct lane {
    char publisher[KVT_NAME_MAX];
    char subject[WIRE_SUBJECT_MAX];
    char dump[WIRE_SUBJECT_MAX];
    char range[WIRE_SUBJECT_MAX];
    uint64_t spoke_ms;  /* when the last message went out */
    uint64_t acked_seq; /* ours: the catalog's follows a moment later */
    uint64_t retry_seq; /* last sequence of a batch whose acknowledgement did not come */
    bool proven;        /* a batch was acknowledged in this life */
    struct subscription {
        struct gateway_events *events;
        enum ask ask;
        uint32_t stream;
        bool made;
    } asked[2];
};

struct gateway_events {
    struct gateway_context *context;
    struct wire_bus *bus;
    struct kvt_queue *questions;
    struct lane lanes[GATEWAY_STREAMS_MAX];
    uint32_t lane_count;
    struct cursor cursors[GATEWAY_CURSORS];
    uint64_t next_cursor;
    struct gateway_event *read; /* BATCH_EVENTS */
    struct kvt_event *wired;    /* KVT_EVENTS_PER_BATCH_MAX */
    struct gateway_row *rows;   /* DUMP_ROWS */
    uint64_t retry_at_ms;
    _Atomic bool stop;
    pthread_t thread;
    bool started;
};

static enum kvt_err
name_publisher(char out[KVT_NAME_MAX], const char *gateway, uint32_t stream)
{
    const int size = stream == 0
                         ? snprintf(out, KVT_NAME_MAX, "gateway:%s", gateway)
                         : snprintf(out, KVT_NAME_MAX, "gateway:%s:%" PRIu32, gateway, stream);

    return size > 0 && size < KVT_NAME_MAX ? KVT_OK : KVT_RANGE;
}

/* How many locations there are to name: up to the last tier that there is. */
static unsigned
locations(const struct gateway_context *context)
{
    unsigned count = GATEWAY_TIERS;

    while (!gateway_tier_exists(&context->tiers, (enum gateway_tier)(count - 1)))
        count--;
    return count;
}

/* A tier that there is not, between two that there are or taken out since, has a name all the same:
 * its events of former times, and those of the others, could not be read without it. */
static void
name_locations(const struct gateway_context *context, unsigned count, struct kvt_event_batch *batch)
{
    while (batch->location_count < count) {
        const unsigned tier = batch->location_count++;
        struct kvt_location *location = &batch->locations[tier];

        location->tier = KVT_TIER_G4;
        if (gateway_tier_exists(&context->tiers, (enum gateway_tier)tier))
            memcpy(location->name, context->tiers.holder[tier], KVT_NAME_MAX);
        else if (tier == GATEWAY_TIER_FAR && context->tiers.former_far[0] != '\0')
            memcpy(location->name, context->tiers.former_far, KVT_NAME_MAX);
        else
            (void)snprintf(location->name, KVT_NAME_MAX, "%s@%.*s", gateway_tier_name(tier),
                           KVT_NAME_MAX - 8, context->identity.name);
    }
}

/* The next event of a batch. */
static void
add_event(const struct gateway_context *context, struct kvt_event_batch *batch,
          const struct kvt_event *event)
{
    name_locations(context, event->location + 1u, batch);
    batch->events[batch->event_count++] = *event;
}

/* A batch with the gateway's locations and no events yet. */
static void
batch_init(const struct gateway_context *context, uint32_t stream,
           const struct gateway_stream *state, struct kvt_event_batch *batch)
{
    struct gateway_catalog_stats stats;

    gateway_catalog_stats(context->catalog, &stats);
    *batch =
        (struct kvt_event_batch){.incarnation = stats.incarnation, .time_ms = kvt_clock_unix_ms()};
    memcpy(batch->namespace_, state->namespace_, sizeof(batch->namespace_));
    (void)!name_publisher(batch->worker, context->identity.name, stream);
    name_locations(context, locations(context), batch);
}

/* ---- answers ---- */

static enum kvt_err
page(enum kvt_err status, uint64_t next, const struct kvt_event_batch *batch,
     struct kvt_buffer *answer)
{
    struct kvt_buffer bytes;
    enum kvt_err rc;

    if (batch == NULL)
        return wire_query_encode_page(status, next, "", 0, answer);
    kvt_buffer_init(&bytes, WIRE_EVENT_BATCH_MAX);
    rc = wire_event_encode(batch, &bytes);
    if (rc == KVT_OK)
        rc = wire_query_encode_page(status, next, bytes.data, bytes.size, answer);
    kvt_buffer_release(&bytes);
    return rc;
}

static enum kvt_err
encode_range(struct gateway_context *context, uint32_t stream, uint64_t incarnation, uint64_t from,
             uint64_t to, struct kvt_buffer *answer)
{
    struct gateway_event *read = kvt_calloc(BATCH_EVENTS, sizeof(*read));
    struct kvt_event *wired = kvt_calloc(BATCH_EVENTS, sizeof(*wired));
    struct kvt_event_batch batch;
    struct gateway_stream state;
    size_t count = 0;
    bool up_to_date = false;
    enum kvt_err rc = KVT_NOMEM;

    if (read == NULL || wired == NULL)
        goto done;
    rc = KVT_OK;
    if (gateway_catalog_stream(context->catalog, stream, &state)) {
        batch_init(context, stream, &state, &batch);
        batch.first_seq = from;
        batch.events = wired;
        up_to_date = incarnation == batch.incarnation && from == state.durable_seq + 1;
        if (incarnation == batch.incarnation && from > 0)
            rc = gateway_catalog_events(context->catalog, stream, from, read, BATCH_EVENTS, &count);
    }
    if (rc == KVT_OK && count == 0 &&
        up_to_date) { /* nothing after what the asker has: no reason to dump */
        rc = page(KVT_OK, 0, &batch, answer);
        goto done;
    }
    if (rc != KVT_OK || count == 0 || read[0].seq != from) {
        rc = page(KVT_NOTFOUND, 0, NULL, answer);
        goto done;
    }
    for (size_t i = 0; i < count && read[i].seq <= to; i++)
        add_event(context, &batch, &read[i].event);
    rc = page(KVT_OK, 0, &batch, answer);

done:
    kvt_free(read);
    kvt_free(wired);
    return rc;
}

static void
answer_range(struct gateway_events *events, const struct question *question,
             struct kvt_buffer *answer)
{
    struct wire_query_range range;

    if (wire_query_decode_range(question->bytes, question->size, &range, NULL) != KVT_OK ||
        encode_range(events->context, question->stream, range.incarnation, range.from, range.to,
                     answer) != KVT_OK)
        (void)!page(KVT_INVALID, 0, NULL, answer);
}

/* Blocks of the stream's namespace among the rows, as Stores. */
static void
wire_rows(struct gateway_events *events, const struct gateway_scan *scan, const char *namespace_,
          struct kvt_event_batch *batch)
{
    for (size_t i = 0; i < scan->count; i++) {
        const struct gateway_row *row = &scan->rows[i];
        const unsigned visible = row->record.opaque ? 0 : gateway_record_visible(&row->record);
        struct kvt_key key;

        if (visible == 0 || kvt_key_parse(row->key, &key) != KVT_OK ||
            strcmp(key.namespace_, namespace_) != 0)
            continue;
        for (unsigned tier = 0; tier < GATEWAY_TIERS; tier++) {
            if ((visible & (1u << tier)) == 0)
                continue;
            batch->events[batch->event_count++] = (struct kvt_event){
                .type = KVT_EVENT_STORE,
                .location = (uint16_t)tier,
                .sequence_hash = key.hash,
                .prefix_hash = key.hash,
                .parent =
                    events->context->identity.revision == KVT_KEY_KVBM_C ? key.parent_fragment : 0,
                .position = key.position,
                .ranks = key.rank < KVT_RANKS_MAX ? UINT32_C(1) << key.rank : 0,
                .block_size = row->record.length,
            };
        }
    }
}

static struct cursor *
find_cursor(struct gateway_events *events, uint64_t number, uint32_t stream)
{
    struct cursor *cursor = &events->cursors[number % GATEWAY_CURSORS];

    return cursor->number == number && cursor->stream == stream ? cursor : NULL;
}

/* Keys of a named namespace share a prefix; those of the empty one are anywhere. */
static enum kvt_err
scan_page(struct gateway_events *events, struct gateway_scan *scan, const char *namespace_,
          size_t limit, struct kvt_event_batch *batch)
{
    char prefix[KVT_NAMESPACE_MAX + 1];
    enum kvt_err rc = KVT_OK;

    (void)snprintf(prefix, sizeof(prefix), "%s/", namespace_);
    scan->prefix = namespace_[0] == '\0' ? NULL : prefix;
    scan->rows = events->rows;
    scan->capacity = limit / GATEWAY_TIERS;
    if (scan->capacity == 0)
        scan->capacity = 1;
    if (scan->capacity > DUMP_ROWS)
        scan->capacity = DUMP_ROWS;
    while (rc == KVT_OK && batch->event_count == 0 && !scan->end) {
        rc = gateway_catalog_scan(events->context->catalog, scan);
        if (rc == KVT_OK)
            wire_rows(events, scan, namespace_, batch);
    }
    scan->prefix = NULL;
    return rc;
}

static void
answer_dump(struct gateway_events *events, const struct question *question,
            struct kvt_buffer *answer)
{
    struct gateway_scan scan = {.rows = events->rows};
    struct kvt_event_batch batch;
    struct wire_query_dump dump;
    struct gateway_stream state;
    struct cursor *cursor;
    uint64_t next = 0;
    uint64_t seq;

    if (wire_query_decode_dump(question->bytes, question->size, &dump, NULL) != KVT_OK ||
        !gateway_catalog_stream(events->context->catalog, question->stream, &state)) {
        (void)!page(KVT_INVALID, 0, NULL, answer);
        return;
    }
    seq = state.durable_seq; /* read before the rows: they include at least these events */
    if (dump.cursor != 0) {
        cursor = find_cursor(events, dump.cursor, question->stream);
        if (cursor == NULL) {
            (void)!page(KVT_NOTFOUND, 0, NULL, answer);
            return;
        }
        seq = cursor->seq;
        memcpy(scan.after, cursor->after, sizeof(scan.after));
    }
    batch_init(events->context, question->stream, &state, &batch);
    batch.first_seq = seq;
    batch.events = events->wired;
    if (scan_page(events, &scan, state.namespace_, dump.limit, &batch) != KVT_OK) {
        (void)!page(KVT_IO, 0, NULL, answer);
        return;
    }
    if (!scan.end) {
        next = events->next_cursor++;
        cursor = &events->cursors[next % GATEWAY_CURSORS];
        *cursor = (struct cursor){.number = next, .stream = question->stream, .seq = seq};
        memcpy(cursor->after, scan.after, sizeof(cursor->after));
    }
    if (page(KVT_OK, next, &batch, answer) != KVT_OK) {
        kvt_buffer_clear(answer);
        (void)!page(KVT_RANGE, 0, NULL, answer);
    }
}

static void
serve(struct gateway_events *events, struct question *question)
{
    struct kvt_buffer answer;

    kvt_buffer_init(&answer, WIRE_BUS_MESSAGE_MAX);
    if (question->ask == ASK_DUMP)
        answer_dump(events, question, &answer);
    else
        answer_range(events, question, &answer);
    if (kvt_buffer_ok(&answer))
        (void)!wire_bus_publish(events->bus, question->reply, answer.data, answer.size);
    kvt_buffer_release(&answer);
    kvt_free(question);
}

/* A NATS thread: copy and leave.  No room: the asker asks again. */
static void
on_question(void *arg, const char *subject, const char *reply, const void *bytes, size_t size)
{
    const struct subscription *subscription = arg;
    struct question *question;

    (void)subject;
    if (reply == NULL || strlen(reply) >= WIRE_SUBJECT_MAX || size > QUESTION_BYTES_MAX)
        return;
    question = kvt_calloc(1, sizeof(*question) + size);
    if (question == NULL)
        return;
    question->ask = subscription->ask;
    question->stream = subscription->stream;
    (void)snprintf(question->reply, sizeof(question->reply), "%s", reply);
    question->size = size;
    memcpy(question->bytes, bytes, size);
    if (kvt_queue_put(subscription->events->questions, question) != KVT_OK)
        kvt_free(question);
}

/* ---- publishing ---- */

static void
open_lane(struct gateway_events *events, uint32_t stream, const struct gateway_stream *state)
{
    struct lane *lane = &events->lanes[stream];
    struct kvt_error err;
    bool named;

    named = name_publisher(lane->publisher, events->context->identity.name, stream) == KVT_OK &&
            wire_subject_events(lane->subject, sizeof(lane->subject), state->namespace_, 0,
                                lane->publisher) == KVT_OK &&
            wire_subject_named(WIRE_SUBJECT_DUMP, lane->dump, sizeof(lane->dump),
                               lane->publisher) == KVT_OK &&
            wire_subject_named(WIRE_SUBJECT_RANGE, lane->range, sizeof(lane->range),
                               lane->publisher) == KVT_OK;
    assert(named); /* names are bounded so that subjects fit */
    for (unsigned i = 0; i < 2; i++) {
        struct subscription *subscription = &lane->asked[i];

        *subscription = (struct subscription){
            .events = events, .ask = i == 0 ? ASK_DUMP : ASK_RANGE, .stream = stream};
        if (wire_bus_subscribe(events->bus, i == 0 ? lane->dump : lane->range, on_question,
                               subscription, &err) == KVT_OK)
            subscription->made = true;
        else
            kvt_log_error("gateway.events", "subscribe", "%s", err.text);
    }
}

static void
close_lane(struct gateway_events *events, struct lane *lane)
{
    if (lane->asked[0].made)
        wire_bus_unsubscribe(events->bus, lane->dump, &lane->asked[0]);
    if (lane->asked[1].made)
        wire_bus_unsubscribe(events->bus, lane->range, &lane->asked[1]);
}

/* How many events the next batch takes.  A batch that may have arrived is repeated with the same
 * bounds, and the first of a life, whose predecessor's bounds are not known, is one event: the bus
 * knows a repeat by the first sequence, and must not take a longer batch for a shorter one. */
static size_t
batch_size(const struct lane *lane, uint64_t from)
{
    if (lane->retry_seq >= from)
        return (size_t)(lane->retry_seq - from + 1);
    return lane->proven ? BATCH_EVENTS : 1;
}

static enum kvt_err
send_batch(struct gateway_events *events, struct lane *lane, const struct kvt_event_batch *batch)
{
    char id[KVT_NAME_MAX + 48];
    struct kvt_buffer bytes;
    enum kvt_err rc;

    (void)snprintf(id, sizeof(id), "%s:%" PRIu64 ":%" PRIu64, batch->worker, batch->incarnation,
                   batch->first_seq);
    kvt_buffer_init(&bytes, WIRE_EVENT_BATCH_MAX);
    rc = wire_event_encode(batch, &bytes);
    if (rc == KVT_OK && batch->event_count > 0)
        rc = wire_bus_publish_acked(events->bus, lane->subject, id, bytes.data, bytes.size, ACK_MS,
                                    NULL);
    else if (rc == KVT_OK)
        rc = wire_bus_publish(events->bus, lane->subject, bytes.data, bytes.size);
    kvt_buffer_release(&bytes);
    return rc;
}

/* Publish the next batch of a stream, or its heartbeat.  True when a batch went out. */
static bool
publish(struct gateway_events *events, uint32_t stream, const struct gateway_stream *state)
{
    struct lane *lane = &events->lanes[stream];
    const uint64_t now_ms = kvt_clock_mono_ms();
    const uint64_t from =
        (state->acked_seq > lane->acked_seq ? state->acked_seq : lane->acked_seq) + 1;
    struct kvt_event_batch batch;
    size_t count = 0;
    enum kvt_err rc;

    if (state->durable_seq >= from &&
        gateway_catalog_events(events->context->catalog, stream, from, events->read,
                               batch_size(lane, from), &count) != KVT_OK)
        return false;
    if (count == 0 && now_ms - lane->spoke_ms < HEARTBEAT_MS)
        return false;
    batch_init(events->context, stream, state, &batch);
    batch.first_seq = count > 0 ? events->read[0].seq : from;
    batch.events = events->wired;
    for (size_t i = 0; i < count && events->read[i].seq == batch.first_seq + i; i++)
        add_event(events->context, &batch, &events->read[i].event);
    rc = send_batch(events, lane, &batch);
    lane->spoke_ms = now_ms;
    if (batch.event_count == 0)
        return false;
    if (rc != KVT_OK) {
        lane->retry_seq = batch.first_seq + batch.event_count - 1;
        events->retry_at_ms = kvt_clock_mono_ms() + RETRY_MS;
        kvt_log_debug("gateway.events", "not_acknowledged", "%s from %" PRIu64 ": %s",
                      lane->publisher, batch.first_seq, kvt_err_text(rc));
        return false;
    }
    lane->retry_seq = 0;
    lane->proven = true;
    lane->acked_seq = batch.first_seq + batch.event_count - 1;
    gateway_catalog_acked(events->context->catalog, stream, lane->acked_seq);
    gateway_stats_add(events->context->stats, GATEWAY_STAT_BATCHES, 1);
    return true;
}

static bool
publish_lane(struct gateway_events *events, uint32_t stream)
{
    struct gateway_stream state;

    if (!gateway_catalog_stream(events->context->catalog, stream, &state))
        return false;
    if (stream == events->lane_count) {
        open_lane(events, stream, &state);
        events->lane_count++;
    }
    if (!wire_bus_connected(events->bus) || kvt_clock_mono_ms() < events->retry_at_ms)
        return false;
    return publish(events, stream, &state);
}

static void *
events_main(void *arg)
{
    struct gateway_events *events = arg;
    void *question;

    while (!atomic_load(&events->stop)) {
        bool busy = false;

        for (uint32_t stream = 0; stream <= events->lane_count && stream < GATEWAY_STREAMS_MAX;
             stream++)
            busy = publish_lane(events, stream) || busy;
        while (kvt_queue_take(events->questions, &question, 1, busy ? 0 : IDLE_MS) > 0) {
            serve(events, question);
            busy = true;
        }
    }
    return NULL;
}

enum kvt_err
gateway_events_start(struct gateway_events **out, struct gateway_context *context,
                     struct wire_bus *bus, struct kvt_error *err)
{
    struct gateway_events *events = kvt_calloc(1, sizeof(*events));
    char name[KVT_NAME_MAX];
    enum kvt_err rc;
    int sys;

    *out = NULL;
    if (events == NULL)
        return kvt_error_set(err, KVT_NOMEM, "events");
    events->context = context;
    events->bus = bus;
    /* Cursors of another life must not be taken for ours. */
    events->next_cursor = kvt_clock_unix_ms() << 16;
    rc = name_publisher(name, context->identity.name, GATEWAY_STREAMS_MAX);
    if (rc != KVT_OK) {
        (void)kvt_error_set(err, rc, "name is too long for a publisher's name");
        goto fail;
    }
    rc = kvt_queue_new(&events->questions, GATEWAY_QUESTIONS_MAX);
    events->read = kvt_calloc(BATCH_EVENTS, sizeof(*events->read));
    events->wired = kvt_calloc(DUMP_EVENTS_MAX, sizeof(*events->wired));
    events->rows = kvt_calloc(DUMP_ROWS, sizeof(*events->rows));
    if (rc != KVT_OK || events->read == NULL || events->wired == NULL || events->rows == NULL) {
        rc = kvt_error_set(err, KVT_NOMEM, "events");
        goto fail;
    }
    sys = pthread_create(&events->thread, NULL, events_main, events);
    if (sys != 0) {
        rc = kvt_error_sys(err, sys, "start the event publisher");
        goto fail;
    }
    events->started = true;
    *out = events;
    return KVT_OK;

fail:
    gateway_events_stop(events, 0);
    return rc;
}

void
gateway_events_stop(struct gateway_events *events, uint64_t drain_ms)
{
    const uint64_t end_ms = kvt_clock_mono_ms() + drain_ms;
    struct gateway_catalog_stats stats;
    void *question;

    if (events == NULL)
        return;
    while (events->started && kvt_clock_mono_ms() < end_ms) {
        gateway_catalog_stats(events->context->catalog, &stats);
        if (stats.events_acked >= stats.events || !wire_bus_connected(events->bus))
            break;
        kvt_clock_sleep_ms(DRAIN_STEP_MS);
    }
    atomic_store(&events->stop, true);
    if (events->started)
        (void)pthread_join(events->thread, NULL);
    for (uint32_t i = 0; i < events->lane_count; i++)
        close_lane(events, &events->lanes[i]);
    if (events->questions != NULL)
        while (kvt_queue_take(events->questions, &question, 1, 0) > 0)
            kvt_free(question);
    kvt_queue_free(events->questions);
    kvt_free(events->read);
    kvt_free(events->wired);
    kvt_free(events->rows);
    kvt_free(events);
}
