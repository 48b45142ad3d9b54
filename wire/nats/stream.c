#include "wire/nats/stream.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "wire/nats/ack_marks.h"
#include "wire/nats/consumer.h"

/*
 * One reader, three kinds of consumer, all pulled:
 *
 *   ordered     an ephemeral consumer that starts at `next_seq` and wants no acknowledgements.  The
 *               server may forget it at any time, or (seen of nats-server 2.9) know of no message
 *               though the stream has some; we make another one from `next_seq`.
 *   ordered and durable   the same with a name, for people to see; each message acknowledges all
 *               before it.  It is made anew with each binding, behind what is acknowledged, since
 *               a consumer that gives again what it gave before does so out of order.
 *   work queue  a durable consumer; the server keeps what was not acknowledged.
 *
 * The reader is either bound (its consumer exists as far as we know) or not.  It becomes unbound
 * when the connection was lost, when the server says that nobody answers, or when nothing came for
 * IDLE_CHECK_MS and the consumer is found gone.  Binding looks at the stream first, so every way in
 * which messages can have been lost is noticed there: the stream is another one, or shorter than
 * what we have read, or its first sequence has passed what we want next.
 */

enum {
    ACK_WAIT_DEFAULT_MS = 60000,
    ACK_PENDING_MAX = 1024,
    INACTIVE_MS = 120000,
    IDLE_CHECK_MS = 2000,
    BEHIND_CHECKS = 2,       /* with messages in the stream and none that comes, in a row */
    BEHIND_CHECKS_SOME = 15, /* ... of one subject, as they may be another's */
    AWAY_WAIT_MS = 50,       /* how long a fetch waits when the server is away */
    ACK_TIMEOUT_MS = 2000,
    WAITING_MAX = 64,
    TAKEN_STEP_MS = 20,
};

#define NS_PER_MS INT64_C(1000000)

/* How long a durable consumer is kept that nobody asks, and a message that is not acknowledged is
 * not given again: as long as our streams keep what they have. */
#define UNSEEN_MS (INT64_C(24) * 3600 * 1000)

struct wire_message {
    natsMsg *nats;
    uint64_t stream_seq;
    uint64_t consumer_seq;
    uint64_t time_ms;
    bool settled; /* the server knows that it is done or dropped */
};

struct wire_stream {
    struct wire_bus *bus;
    char *stream;
    char *subject;
    char durable[WIRE_CONSUMER_DURABLE_MAX]; /* "" = ordered */
    uint64_t ack_wait_ms;
    bool foreign;
    bool ordered;
    uint64_t next_seq; /* ordered: the lowest sequence not yet handed out */
    uint64_t applied;  /* ordered and durable: acknowledged up to here */
    struct wire_ack_marks marks;

    struct wire_consumer consumer;
    uint64_t bound_reconnects;
    uint64_t created_ms; /* of the stream we read; 0 before the first binding */
    uint64_t quiet_since_ms;
    uint64_t last_seq;     /* of the stream, when it was looked at last */
    unsigned behind;       /* checks in a row that found messages that did not come */
    uint64_t consumer_seq; /* ordered: of the last message this consumer sent us */

    /* Messages behind a gap, kept until the caller has been told of it. */
    struct wire_message *held[WIRE_STREAM_FETCH_MAX];
    size_t held_count;
    size_t held_at;
};

const void *
wire_message_bytes(const struct wire_message *message, size_t *size)
{
    const int length = natsMsg_GetDataLength(message->nats);

    *size = length > 0 ? (size_t)length : 0;
    return natsMsg_GetData(message->nats);
}

const char *
wire_message_subject(const struct wire_message *message)
{
    return natsMsg_GetSubject(message->nats);
}

uint64_t
wire_message_stream_seq(const struct wire_message *message)
{
    return message->stream_seq;
}

uint64_t
wire_message_time_ms(const struct wire_message *message)
{
    return message->time_ms;
}

void
wire_message_free(struct wire_message *message)
{
    if (message == NULL)
        return;
    natsMsg_Destroy(message->nats);
    kvt_free(message);
}

/* Takes over `nats`, also on failure.  NULL: no memory, or not a stream's message. */
static struct wire_message *
message_new(natsMsg *nats)
{
    struct wire_message *message = kvt_calloc(1, sizeof(*message));
    jsMsgMetaData *meta = NULL;

    if (message == NULL || natsMsg_GetMetaData(&meta, nats) != NATS_OK) {
        natsMsg_Destroy(nats);
        kvt_free(message);
        return NULL;
    }
    message->nats = nats;
    message->stream_seq = meta->Sequence.Stream;
    message->consumer_seq = meta->Sequence.Consumer;
    message->time_ms = (uint64_t)(meta->Timestamp / NS_PER_MS);
    jsMsgMetaData_Destroy(meta);
    return message;
}

enum kvt_err
wire_stream_state(struct wire_bus *bus, const char *stream, struct wire_stream_state *state)
{
    jsStreamInfo *info = NULL;
    jsErrCode code = 0;
    natsStatus s;

    assert(bus != NULL && stream != NULL && state != NULL);
    *state = (struct wire_stream_state){.first_seq = 0};
    if (!wire_bus_connected(bus))
        return KVT_UNAVAILABLE;
    s = js_GetStreamInfo(&info, bus->js, stream, NULL, &code);
    if (s == NATS_OK) {
        state->first_seq = info->State.FirstSeq;
        state->last_seq = info->State.LastSeq;
        state->created_ms = (uint64_t)(info->Created / NS_PER_MS);
    }
    jsStreamInfo_Destroy(info);
    if (s == NATS_OK)
        return KVT_OK;
    return code == JSStreamNotFoundErr ? KVT_NOTFOUND : KVT_UNAVAILABLE;
}

/* A durable's name may not hold '.', '*', '>', blanks or slashes. */
static enum kvt_err
durable_name(char out[WIRE_CONSUMER_DURABLE_MAX], const char *name)
{
    size_t used = 0;

    for (const char *c = name; *c != '\0'; c++) {
        const bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                           (*c >= '0' && *c <= '9') || *c == '-' || *c == '_';

        if (used + 4 > WIRE_CONSUMER_DURABLE_MAX)
            return KVT_RANGE;
        if (plain)
            out[used++] = *c;
        else
            used += (size_t)snprintf(out + used, 4, "=%02X", (unsigned)(unsigned char)*c);
    }
    out[used] = '\0';
    return KVT_OK;
}

enum kvt_err
wire_stream_open(struct wire_stream **out, struct wire_bus *bus,
                 const struct wire_stream_options *options)
{
    struct wire_stream *stream;
    enum kvt_err rc = KVT_NOMEM;

    assert(out != NULL && bus != NULL && options != NULL && options->stream != NULL);
    *out = NULL;
    stream = kvt_calloc(1, sizeof(*stream));
    if (stream == NULL)
        return KVT_NOMEM;
    stream->bus = bus;
    stream->next_seq = options->start_seq > 0 ? options->start_seq : 1;
    stream->ack_wait_ms = options->ack_wait_ms > 0 ? options->ack_wait_ms : ACK_WAIT_DEFAULT_MS;
    stream->foreign = options->foreign;
    stream->stream = kvt_strdup(options->stream);
    stream->subject = kvt_strdup(options->subject != NULL ? options->subject : "");
    if (stream->stream == NULL || stream->subject == NULL)
        goto fail;
    stream->consumer = (struct wire_consumer){.bus = bus, .stream = stream->stream};
    rc = durable_name(stream->durable, options->durable != NULL ? options->durable : "");
    if (rc != KVT_OK)
        goto fail;
    stream->ordered = options->ordered || stream->durable[0] == '\0';
    stream->applied = stream->next_seq - 1;
    *out = stream;
    return KVT_OK;

fail:
    wire_stream_close(stream);
    return rc;
}

static void
drop_held(struct wire_stream *stream)
{
    while (stream->held_at < stream->held_count)
        wire_message_free(stream->held[stream->held_at++]);
    stream->held_at = stream->held_count = 0;
}

void
wire_stream_close(struct wire_stream *stream)
{
    if (stream == NULL)
        return;
    wire_consumer_unbind(&stream->consumer);
    drop_held(stream);
    wire_ack_marks_clear(&stream->marks);
    kvt_free(stream->stream);
    kvt_free(stream->subject);
    kvt_free(stream);
}

static bool
is_ordered(const struct wire_stream *stream)
{
    return stream->ordered;
}

/* Ordered, and acknowledged. */
static bool
is_marked(const struct wire_stream *stream)
{
    return stream->ordered && stream->durable[0] != '\0';
}

static void
fill_consumer(const struct wire_stream *stream, jsConsumerConfig *config)
{
    (void)jsConsumerConfig_Init(config);
    config->FilterSubject = stream->subject[0] != '\0' ? stream->subject : NULL;
    config->MaxWaiting = WAITING_MAX;
    if (is_marked(stream)) {
        config->Durable = stream->durable;
        config->DeliverPolicy = js_DeliverByStartSequence;
        config->OptStartSeq = stream->applied + 1;
        config->AckPolicy = js_AckAll;
        config->AckWait = UNSEEN_MS * NS_PER_MS;
        config->MaxDeliver = -1;
        config->MaxAckPending = WIRE_STREAM_UNACKED_MAX;
        config->InactiveThreshold = UNSEEN_MS * NS_PER_MS;
    } else if (is_ordered(stream)) {
        config->DeliverPolicy = js_DeliverByStartSequence;
        config->OptStartSeq = stream->next_seq;
        config->AckPolicy = js_AckNone;
        config->InactiveThreshold = INACTIVE_MS * NS_PER_MS;
        config->MemoryStorage = true;
    } else {
        config->Durable = stream->durable;
        config->DeliverPolicy = js_DeliverAll;
        config->AckPolicy = js_AckExplicit;
        config->AckWait = (int64_t)stream->ack_wait_ms * NS_PER_MS;
        config->MaxDeliver = -1;
        config->MaxAckPending = ACK_PENDING_MAX;
    }
}

static enum kvt_err
bind_consumer(struct wire_stream *stream)
{
    jsConsumerConfig config;
    enum kvt_err rc;

    fill_consumer(stream, &config);
    if (is_marked(stream)) {
        wire_ack_marks_clear(&stream->marks);
        (void)js_DeleteConsumer(stream->bus->js, stream->stream, stream->durable, NULL, NULL);
    }
    rc = wire_consumer_bind(&stream->consumer, &config);
    if (rc != KVT_OK)
        return rc;
    stream->consumer_seq = 0;
    stream->quiet_since_ms = kvt_clock_mono_ms();
    return KVT_OK;
}

/*
 * Compare the stream with what we have read of it.  KVT_NOTFOUND: something we wanted is not there
 * any more; `next_seq` then is the first sequence that is.
 */
static enum kvt_err
compare_state(struct wire_stream *stream, const struct wire_stream_state *state)
{
    const bool other = stream->created_ms != 0 && stream->created_ms != state->created_ms;

    stream->created_ms = state->created_ms;
    stream->last_seq = state->last_seq;
    if (!is_ordered(stream))
        return KVT_OK;
    if (!other && stream->next_seq >= state->first_seq && stream->next_seq <= state->last_seq + 1)
        return KVT_OK;
    /* An empty stream that never had a message has first 0; reading starts at 1. */
    if (!other && stream->next_seq == 1 && state->first_seq == 0)
        return KVT_OK;
    stream->next_seq = state->first_seq > 0 ? state->first_seq : 1;
    stream->applied = stream->next_seq - 1;
    return KVT_NOTFOUND;
}

static enum kvt_err
check_state(struct wire_stream *stream)
{
    struct wire_stream_state state;
    enum kvt_err rc = wire_stream_state(stream->bus, stream->stream, &state);

    if (rc == KVT_NOTFOUND) {
        /* Somebody removed it, or the server lost its disk.  The next fetch finds the new one. */
        wire_consumer_unbind(&stream->consumer);
        rc = stream->foreign ? KVT_UNAVAILABLE : wire_bus_ensure_streams(stream->bus, NULL);
        if (rc == KVT_OK)
            rc = wire_stream_state(stream->bus, stream->stream, &state);
        if (rc != KVT_OK)
            return KVT_UNAVAILABLE;
    }
    return rc == KVT_OK ? compare_state(stream, &state) : rc;
}

static enum kvt_err
bind_stream(struct wire_stream *stream)
{
    enum kvt_err rc;

    stream->bound_reconnects = wire_bus_reconnects(stream->bus);
    rc = check_state(stream);
    if (rc != KVT_OK)
        return rc;
    return bind_consumer(stream);
}

static void
mark(struct wire_stream *stream, const struct wire_message *message)
{
    if (is_marked(stream))
        wire_ack_marks_add(&stream->marks, message->stream_seq, natsMsg_GetReply(message->nats));
}

/* Keep one message that came.  KVT_AGAIN: the consumer sent others before it that never arrived. */
static enum kvt_err
hold(struct wire_stream *stream, natsMsg *nats)
{
    struct wire_message *message = message_new(nats);

    if (message == NULL)
        return KVT_NOMEM;
    if (is_ordered(stream)) {
        const bool missed = message->consumer_seq != stream->consumer_seq + 1;

        if (missed) {
            wire_message_free(message);
            return KVT_AGAIN;
        }
        stream->consumer_seq++;
        if (message->stream_seq < stream->next_seq) {
            mark(stream, message); /* by the consumer that was before */
            wire_message_free(message);
            return KVT_OK;
        }
    }
    stream->held[stream->held_count++] = message;
    return KVT_OK;
}

/* One message from the inbox: of the stream, or about a request. */
static enum kvt_err
take(struct wire_stream *stream, natsMsg *nats)
{
    bool of_stream;
    const enum kvt_err rc = wire_consumer_understand(&stream->consumer, nats, &of_stream);

    if (of_stream)
        return hold(stream, nats);
    natsMsg_Destroy(nats);
    return rc;
}

/* Up to `max` messages from the server into held[]. */
static enum kvt_err
pull(struct wire_stream *stream, size_t max, uint64_t wait_ms)
{
    const uint64_t end_ms = kvt_clock_mono_ms() + (wait_ms > 0 ? wait_ms : 1);
    bool asked_now = false;
    enum kvt_err rc = KVT_OK;
    natsStatus s = NATS_OK;

    while (rc == KVT_OK && stream->held_count < max) {
        natsMsg *nats = NULL;

        s = wire_consumer_next(&stream->consumer, &nats, max, end_ms, stream->held_count > 0,
                               &asked_now);
        if (s != NATS_OK)
            break;
        rc = take(stream, nats);
    }
    if (s != NATS_OK && s != NATS_TIMEOUT && rc == KVT_OK)
        rc = s == NATS_NO_MEMORY ? KVT_NOMEM : KVT_UNAVAILABLE;
    if (rc == KVT_OK)
        return KVT_OK;
    /* What came before the consumer was lost is good.  Else what was not handed out is read again
     * from next_seq, or redelivered. */
    if (rc != KVT_UNAVAILABLE)
        drop_held(stream);
    wire_consumer_unbind(&stream->consumer);
    return rc == KVT_AGAIN || stream->held_count > 0 ? KVT_OK : rc;
}

/* Did the stream drop something between what was handed out and what is held? */
static enum kvt_err
check_gap(struct wire_stream *stream)
{
    const uint64_t held_seq = stream->held[stream->held_at]->stream_seq;
    struct wire_stream_state state;
    bool jump = held_seq > stream->next_seq;
    enum kvt_err rc;

    for (size_t i = stream->held_at + 1; i < stream->held_count && !jump; i++)
        jump = stream->held[i]->stream_seq != stream->held[i - 1]->stream_seq + 1;
    if (!jump)
        return KVT_OK;
    /* Sequences are missing: removed in the middle, of another subject, or dropped at the front.
     * Only the last is a loss, and then the stream's first sequence has passed what we wanted. */
    rc = wire_stream_state(stream->bus, stream->stream, &state);
    if (rc != KVT_OK)
        return KVT_UNAVAILABLE;
    if (state.created_ms == stream->created_ms && state.first_seq <= stream->next_seq)
        return KVT_OK;
    if (state.created_ms != stream->created_ms) {
        drop_held(stream);
        wire_consumer_unbind(&stream->consumer);
        return compare_state(stream, &state);
    }
    stream->next_seq = held_seq;
    return KVT_NOTFOUND;
}

static size_t
hand_out(struct wire_stream *stream, struct wire_message **messages, size_t max)
{
    size_t count = 0;

    while (count < max && stream->held_at < stream->held_count) {
        messages[count] = stream->held[stream->held_at++];
        stream->next_seq = messages[count]->stream_seq + 1;
        count++;
    }
    if (stream->held_at == stream->held_count)
        stream->held_at = stream->held_count = 0;
    if (count > 0)
        mark(stream, messages[count - 1]);
    return count;
}

static enum kvt_err
away(uint64_t wait_ms)
{
    kvt_clock_sleep_ms(wait_ms < AWAY_WAIT_MS ? wait_ms : AWAY_WAIT_MS);
    return KVT_UNAVAILABLE;
}

/* Are there messages that the consumer does not know of? */
static bool
is_stuck(struct wire_stream *stream)
{
    const unsigned most = stream->subject[0] == '\0' ? BEHIND_CHECKS : BEHIND_CHECKS_SOME;

    if (!is_ordered(stream) || stream->last_seq < stream->next_seq)
        stream->behind = 0;
    else
        stream->behind++;
    return stream->behind >= most;
}

/* Nothing came: look whether there is still something to wait for. */
static enum kvt_err
check_quiet(struct wire_stream *stream)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    enum kvt_err rc;

    if (now_ms - stream->quiet_since_ms < IDLE_CHECK_MS)
        return KVT_OK;
    stream->quiet_since_ms = now_ms;
    rc = check_state(stream);
    if (rc != KVT_OK ||
        (stream->consumer.nats != NULL && !wire_consumer_exists(&stream->consumer))) {
        wire_consumer_unbind(&stream->consumer);
    } else if (is_stuck(stream)) {
        stream->behind = 0;
        wire_consumer_unbind(&stream->consumer);
    }
    return rc;
}

enum kvt_err
wire_stream_fetch(struct wire_stream *stream, struct wire_message **messages, size_t max,
                  uint64_t wait_ms, size_t *count)
{
    enum kvt_err rc;

    assert(stream != NULL && messages != NULL && count != NULL && max > 0);
    *count = 0;
    if (max > WIRE_STREAM_FETCH_MAX)
        max = WIRE_STREAM_FETCH_MAX;
    if (stream->held_count > 0) {
        *count = hand_out(stream, messages, max);
        return KVT_OK;
    }
    if (!wire_bus_connected(stream->bus))
        return away(wait_ms);
    if (stream->consumer.nats != NULL &&
        stream->bound_reconnects != wire_bus_reconnects(stream->bus))
        wire_consumer_unbind(&stream->consumer);
    if (stream->consumer.nats == NULL) {
        rc = bind_stream(stream);
        if (rc == KVT_UNAVAILABLE)
            return away(wait_ms);
        if (rc != KVT_OK)
            return rc;
    }
    rc = pull(stream, max, wait_ms);
    if (rc == KVT_UNAVAILABLE)
        return away(wait_ms);
    if (rc != KVT_OK)
        return rc;
    if (stream->held_count == 0)
        return stream->consumer.nats == NULL ? KVT_OK : check_quiet(stream);
    stream->quiet_since_ms = kvt_clock_mono_ms();
    stream->behind = 0;
    if (is_ordered(stream)) {
        rc = check_gap(stream);
        if (rc != KVT_OK)
            return rc;
    }
    *count = hand_out(stream, messages, max);
    return KVT_OK;
}

void
wire_stream_applied(struct wire_stream *stream, uint64_t seq)
{
    struct wire_ack_mark mark;

    assert(is_marked(stream));
    if (stream->consumer.nats == NULL || !wire_bus_connected(stream->bus))
        return;
    mark = wire_ack_marks_take(&stream->marks, seq);
    if (mark.subject == NULL)
        return;
    if (natsConnection_PublishString(stream->bus->nc, mark.subject, "+ACK") == NATS_OK)
        stream->applied = mark.seq;
    kvt_free(mark.subject);
}

enum kvt_err
wire_stream_durable_free(struct wire_bus *bus, const char *stream, const char *durable)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WIRE_STREAM_TAKEN_MS;
    char name[WIRE_CONSUMER_DURABLE_MAX];

    if (durable_name(name, durable) != KVT_OK)
        return KVT_OK; /* opening it says what is wrong */
    while (kvt_clock_mono_ms() < until_ms) {
        jsConsumerInfo *info = NULL;
        jsErrCode code = 0;
        const natsStatus s = js_GetConsumerInfo(&info, bus->js, stream, name, NULL, &code);
        const bool asked = s == NATS_OK && info->NumWaiting > 0;

        jsConsumerInfo_Destroy(info);
        if (s != NATS_OK)
            return code == JSConsumerNotFoundErr || code == JSStreamNotFoundErr ? KVT_OK
                                                                                : KVT_UNAVAILABLE;
        if (asked && kvt_clock_mono_ms() + WIRE_STREAM_TAKEN_MS / 2 >= until_ms)
            return KVT_BUSY;
        kvt_clock_sleep_ms(TAKEN_STEP_MS);
    }
    return KVT_OK;
}

enum kvt_err
wire_stream_ack(struct wire_stream *stream, struct wire_message *message)
{
    natsMsg *answer = NULL;
    natsStatus s;

    assert(stream != NULL && message != NULL);
    if (!wire_bus_connected(stream->bus))
        return KVT_UNAVAILABLE;
    if (message->settled)
        return KVT_OK;
    s = natsConnection_RequestString(&answer, stream->bus->nc, natsMsg_GetReply(message->nats),
                                     "+ACK", ACK_TIMEOUT_MS);
    natsMsg_Destroy(answer);
    message->settled = s == NATS_OK;
    return wire_bus_error(s);
}

void
wire_stream_working(struct wire_stream *stream, struct wire_message *message)
{
    if (wire_bus_connected(stream->bus) && !message->settled)
        (void)natsConnection_PublishString(stream->bus->nc, natsMsg_GetReply(message->nats),
                                           "+WPI");
}

void
wire_stream_reject(struct wire_stream *stream, struct wire_message *message)
{
    if (!wire_bus_connected(stream->bus) || message->settled)
        return;
    message->settled = natsConnection_PublishString(
                           stream->bus->nc, natsMsg_GetReply(message->nats), "+TERM") == NATS_OK;
}
