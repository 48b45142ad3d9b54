#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "advisor/source/source_engine.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"

/* vLLM, SGLang and the KVBM consolidator: frames topic, number, payload; a socket each, so that a
 * message is known by the endpoint it came from.  Within a connection messages keep their order:
 * a number that goes back is another life of the publisher.  One that does not follow after the
 * connection was made anew may be either; the replay socket knows. */

enum {
    NUMBER_SIZE = 8,
    PEERS_MAX = ADVISOR_ENDPOINTS_MAX * 2, /* where many connect to us */
    VOUCH_MS = 500,
};

static const char EPOCH_MARK[] = "sgl-kv-epoch="; /* behind a NUL in the topic frame */

/* A publisher, as heard. */
struct peer {
    char subject[KVT_NAME_MAX];
    uint64_t last;       /* number of its last message */
    uint64_t digest;     /* of that message's payload */
    uint64_t connection; /* made when its numbers last did not follow, or when it was first heard */
    uint64_t epoch;
    uint32_t endpoint;
};

struct advisor_source_engine_reader {
    struct advisor_source *source;
    struct advisor_zmq *zmq;
    size_t count;
    size_t oldest;                              /* gives way when there are too many */
    struct peer *direct[ADVISOR_ENDPOINTS_MAX]; /* where we connect: by endpoint */
    struct peer peers[PEERS_MAX];
};

static uint64_t
epoch_of(const struct advisor_zmq_frame *topic)
{
    const uint8_t *nul = topic->size == 0 ? NULL : memchr(topic->bytes, 0, topic->size);
    const size_t mark = sizeof(EPOCH_MARK) - 1;
    size_t left;
    uint64_t epoch;

    if (nul == NULL)
        return 0;
    left = topic->size - (size_t)(nul + 1 - topic->bytes);
    if (left <= mark || memcmp(nul + 1, EPOCH_MARK, mark) != 0)
        return 0;
    epoch = XXH3_64bits(nul + 1 + mark, left - mark);
    return epoch == 0 ? 1 : epoch;
}

/* Topics of those who connect to us tell them apart; they may hold anything. */
static void
subject_of(const struct advisor_source_engine_reader *reader,
           const struct advisor_zmq_message *message, char subject[KVT_NAME_MAX])
{
    const struct advisor_zmq_frame *topic = &message->frames[0];
    char text[ADVISOR_ZMQ_PEER_MAX + 32 + ADVISOR_SOURCE_ENGINE_PREFIX_MAX];
    char prefix[ADVISOR_SOURCE_ENGINE_PREFIX_MAX];
    size_t used;
    size_t size;

    advisor_source_engine_prefix(reader->source, prefix);
    if (!reader->source->options.bind) {
        (void)snprintf(subject, KVT_NAME_MAX, "%s%u", prefix, message->socket);
        return;
    }
    (void)snprintf(text, sizeof(text), "%s%u%s%s", prefix, message->socket,
                   message->peer[0] == '\0' ? "" : "@", message->peer);
    size = message->count < 3 ? 0 : strnlen((const char *)topic->bytes, topic->size);
    used = strlen(text);
    if (used + 1 + size < KVT_NAME_MAX) {
        (void)snprintf(subject, KVT_NAME_MAX, "%.*s%s%.*s", (int)used, text, size == 0 ? "" : "/",
                       (int)size, (const char *)topic->bytes);
    } else {
        const uint64_t digest = XXH3_64bits(topic->bytes, size) ^ XXH3_64bits(text, used);

        (void)snprintf(subject, KVT_NAME_MAX, "%s%u~%016llx", prefix, message->socket,
                       (unsigned long long)digest);
    }
    for (char *at = subject; *at != '\0'; at++)
        if ((unsigned char)*at <= ' ' || (unsigned char)*at >= 0x7f)
            *at = '_';
}

/* NULL: it is heard for the first time. */
static struct peer *
find_peer(struct advisor_source_engine_reader *reader, const char *subject, uint32_t socket)
{
    if (!reader->source->options.bind)
        return reader->direct[socket];
    for (size_t i = 0; i < reader->count; i++)
        if (strcmp(reader->peers[i].subject, subject) == 0)
            return &reader->peers[i];
    return NULL;
}

static struct peer *
add_peer(struct advisor_source_engine_reader *reader, const char *subject,
         const struct advisor_zmq_message *message)
{
    struct peer *peer;

    if (reader->count < PEERS_MAX) {
        peer = &reader->peers[reader->count++];
    } else {
        peer = &reader->peers[reader->oldest];
        reader->oldest = (reader->oldest + 1) % PEERS_MAX;
    }
    *peer = (struct peer){.endpoint = message->socket, .connection = message->connection};
    (void)snprintf(peer->subject, sizeof(peer->subject), "%s", subject);
    if (!reader->source->options.bind)
        reader->direct[message->socket] = peer;
    return peer;
}

/* Is the message we heard last still what the publisher says it sent under that number? */
static bool
vouched(struct advisor_source_engine_reader *reader, const struct peer *peer)
{
    const struct advisor_source_engine_question question = {
        .endpoint = peer->endpoint,
        .from = peer->last,
        .to = peer->last,
        .deadline_ms = kvt_clock_mono_ms() + VOUCH_MS,
    };
    uint64_t sequence = 0;
    uint64_t digest = 0;

    return advisor_source_engine_first(reader->source, &question, &sequence, &digest) == KVT_OK &&
           sequence == peer->last && digest == peer->digest;
}

/* Did the publisher begin anew in front of this message?  Messages of an earlier connection may
 * still be read after the next was made, so one that follows says nothing about the connection. */
static bool
is_new_life(struct advisor_source_engine_reader *reader, struct peer *peer,
            const struct advisor_inbox_item *item, const struct advisor_zmq_message *message)
{
    const bool same_epoch = item->epoch == peer->epoch;
    uint64_t before;

    if (same_epoch && item->sequence == peer->last + 1)
        return false;
    before = peer->connection;
    peer->connection = advisor_zmq_connections(reader->zmq, message->socket);
    if (!same_epoch || item->sequence <= peer->last)
        return true;
    return peer->connection != before && !vouched(reader, peer);
}

/* False: the source is stopping. */
static bool
pass_on(struct advisor_source_engine_reader *reader, const struct advisor_zmq_message *message)
{
    const struct advisor_zmq_frame *number = &message->frames[message->count - 2];
    const struct advisor_zmq_frame *payload = &message->frames[message->count - 1];
    char subject[KVT_NAME_MAX];
    struct advisor_inbox_item *item;
    struct peer *peer;

    subject_of(reader, message, subject);
    item = advisor_source_zmq_item(subject, payload);
    if (item == NULL)
        return true;
    item->endpoint = message->socket;
    item->has_sequence = true;
    item->sequence = advisor_source_zmq_be64(number->bytes);
    item->epoch = message->count < 3 ? 0 : epoch_of(&message->frames[0]);
    peer = find_peer(reader, subject, message->socket);
    if (peer == NULL)
        peer = add_peer(reader, subject, message);
    else
        item->new_life = is_new_life(reader, peer, item, message);
    peer->last = item->sequence;
    peer->epoch = item->epoch;
    peer->digest = XXH3_64bits(payload->bytes, payload->size);
    return advisor_source_push_wait(reader->source, item);
}

static bool
is_framed(const struct advisor_zmq_message *message)
{
    return (message->count == 2 || message->count == 3) &&
           message->frames[message->count - 2].size == NUMBER_SIZE &&
           message->frames[message->count - 1].size > 0;
}

static void
receive(struct advisor_source_engine_reader *reader)
{
    struct advisor_zmq_message message;
    uint64_t told_ms = 0;

    while (!atomic_load(&reader->source->stopping)) {
        const enum kvt_err rc =
            advisor_zmq_receive(reader->zmq, ADVISOR_SOURCE_ZMQ_WAIT_MS, &message);

        advisor_source_zmq_tell(reader->source, reader->zmq, &told_ms, "");
        if (rc != KVT_OK)
            continue;
        if (!is_framed(&message))
            advisor_source_zmq_refuse(reader->source);
        else if (!pass_on(reader, &message))
            return;
    }
}

static void *
run(void *arg)
{
    struct advisor_source *source = arg;
    const struct advisor_source_engine *engine = source->own;
    bool going = true;

    for (uint32_t i = 0; source->options.bind && going && i < engine->endpoints.count; i++)
        going = advisor_source_zmq_bind(source, engine->reader->zmq, i, engine->endpoints.texts[i]);
    if (going)
        receive(engine->reader);
    return NULL;
}

/* A socket an endpoint, numbered alike.  Binding is left to the thread: it may take a while. */
static enum kvt_err
open_sockets(struct advisor_source *source, struct advisor_zmq *zmq, struct kvt_error *err)
{
    const struct advisor_source_options *options = &source->options;
    const struct advisor_source_engine *engine = source->own;
    const char *topic = options->topic == NULL ? "" : options->topic;
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; rc == KVT_OK && i < engine->endpoints.count; i++) {
        uint32_t socket;

        rc = advisor_zmq_open(zmq, ADVISOR_ZMQ_SUBSCRIBER, topic, &socket, err);
        if (rc == KVT_OK && !options->bind)
            rc = advisor_zmq_connect(zmq, socket, engine->endpoints.texts[i], err);
    }
    return rc;
}

static enum kvt_err
engine_open(struct advisor_source *source)
{
    struct advisor_source_engine *engine = kvt_calloc(1, sizeof(*engine));
    struct kvt_error err = {.text = "no address of a publisher"};
    enum kvt_err rc;

    source->own = engine;
    if (engine == NULL)
        return KVT_NOMEM;
    rc = advisor_source_zmq_split(&engine->endpoints, source->options.endpoints, false, &err);
    if (rc == KVT_OK)
        rc = advisor_source_zmq_split(&engine->replays, source->options.replay, true, &err);
    if (rc == KVT_OK && engine->endpoints.count == 0)
        rc = KVT_INVALID;
    if (rc != KVT_OK)
        return advisor_source_zmq_fail(source, rc, &err);
    engine->reader = kvt_calloc(1, sizeof(*engine->reader));
    if (engine->reader == NULL || advisor_zmq_new(&engine->reader->zmq) != KVT_OK)
        return KVT_NOMEM;
    engine->reader->source = source;
    rc = open_sockets(source, engine->reader->zmq, &err);
    if (rc != KVT_OK)
        return advisor_source_zmq_fail(source, rc, &err);
    return advisor_source_zmq_start(source, run);
}

static void
engine_close(struct advisor_source *source)
{
    struct advisor_source_engine *engine = source->own;

    advisor_source_join(source);
    if (engine != NULL) {
        advisor_source_zmq_release(&engine->endpoints);
        advisor_source_zmq_release(&engine->replays);
        if (engine->reader != NULL)
            advisor_zmq_free(engine->reader->zmq);
        kvt_free(engine->reader);
    }
    kvt_free(engine);
    source->own = NULL;
}

const struct advisor_source_ops advisor_source_engine_zmq = {
    .name = "engine-zmq",
    .dialect = WIRE_DIALECT_ENGINE,
    .open = engine_open,
    .close = engine_close,
    .ask = advisor_source_engine_ask,
};
