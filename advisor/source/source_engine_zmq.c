#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "advisor/source/source_zmq.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/text/parse.h"

/* vLLM, SGLang and the KVBM consolidator: frames topic, number, payload; a socket each, so that a
 * message is known by the endpoint it came from.  Within a connection messages keep their order:
 * a number that goes back is another life of the publisher.  One that does not follow after the
 * connection was made anew may be either; the replay socket knows. */

enum {
    NUMBER_SIZE = 8,
    HEAD_SIZE = 2 * NUMBER_SIZE, /* of a message in a collected answer */
    PREFIX_MAX = 32,
    PEERS_MAX = ADVISOR_ENDPOINTS_MAX * 2, /* where many connect to us */
    VOUCH_MS = 500,
};

struct reader;

struct advisor_source_engine {
    struct advisor_source_zmq_list endpoints;
    struct advisor_source_zmq_list replays; /* in the order of endpoints; "" = has none */
    struct reader *reader;                  /* the source's own thread's */
};

struct question {
    uint32_t endpoint;
    uint64_t from;
    uint64_t to; /* the last of interest; 0: to the newest */
    uint64_t deadline_ms;
};

/* ---- asking the replay socket for what was missed: any thread, each question has a socket of
 * its own ---- */

/* A DEALER sends ["", first number] and gets ["", number, payload] or ["", topic, number, payload]
 * for each message that is still in the engine's ring, then one whose number is all ones or whose
 * payload is empty.  The engine answers between its own messages, so this takes a while. */

/* Takes messages of an answer; false: enough. */
typedef bool take_fn(void *arg, uint64_t sequence, const struct advisor_zmq_frame *payload);

/* What became of it. */
enum ending {
    END_SAID,   /* the engine said so */
    END_ENOUGH, /* the taker did */
    END_LATE,
    END_STOPPING,
    END_ODD, /* it does not answer as an engine does */
};

static void
put_be64(uint8_t bytes[NUMBER_SIZE], uint64_t value)
{
    for (int i = 0; i < NUMBER_SIZE; i++)
        bytes[i] = (uint8_t)(value >> (56 - 8 * i));
}

static void
put_le64(uint8_t bytes[NUMBER_SIZE], uint64_t value)
{
    for (int i = 0; i < NUMBER_SIZE; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
}

static enum ending
listen_on(struct advisor_source *source, struct advisor_zmq *zmq, const struct question *question,
          take_fn *take, void *arg)
{
    struct advisor_zmq_message message;

    while (!atomic_load(&source->stopping)) {
        const uint64_t now_ms = kvt_clock_mono_ms();
        const struct advisor_zmq_frame *number;
        const struct advisor_zmq_frame *payload;
        uint64_t wait_ms = ADVISOR_SOURCE_ZMQ_WAIT_MS;
        uint64_t sequence;

        if (now_ms >= question->deadline_ms)
            return END_LATE;
        if (question->deadline_ms - now_ms < wait_ms)
            wait_ms = question->deadline_ms - now_ms;
        if (advisor_zmq_receive(zmq, wait_ms, &message) != KVT_OK)
            continue;
        if (message.count < 2)
            return END_ODD;
        number = &message.frames[message.count - 2];
        payload = &message.frames[message.count - 1];
        if (payload->size == 0)
            return END_SAID;
        if (number->size != NUMBER_SIZE)
            return END_ODD;
        sequence = advisor_source_zmq_be64(number->bytes);
        if (sequence == UINT64_MAX)
            return END_SAID;
        if (sequence < question->from)
            continue;
        if ((question->to != 0 && sequence > question->to) || !take(arg, sequence, payload))
            return END_ENOUGH;
        if (question->to != 0 && sequence == question->to)
            return END_ENOUGH;
    }
    return END_STOPPING;
}

static enum kvt_err
ask(struct advisor_source *source, const struct question *question, take_fn *take, void *arg,
    enum ending *ending, struct kvt_error *err)
{
    const struct advisor_source_engine *engine = source->own;
    const char *endpoint =
        question->endpoint < engine->replays.count ? engine->replays.texts[question->endpoint] : "";
    uint8_t number[NUMBER_SIZE];
    const struct advisor_zmq_frame frames[] = {{.bytes = number, .size = 0},
                                               {.bytes = number, .size = sizeof(number)}};
    struct advisor_zmq *zmq;
    uint32_t socket;
    enum kvt_err rc;

    *ending = END_SAID;
    if (endpoint[0] == '\0')
        return kvt_error_set(err, KVT_UNSUPPORTED, "endpoint %u has no replay socket",
                             question->endpoint);
    rc = advisor_zmq_new(&zmq);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "out of memory");
    put_be64(number, question->from);
    rc = advisor_zmq_open(zmq, ADVISOR_ZMQ_DEALER, "", &socket, err);
    if (rc == KVT_OK)
        rc = advisor_zmq_connect(zmq, socket, endpoint, err);
    if (rc == KVT_OK && advisor_zmq_send(zmq, socket, frames, 2) != KVT_OK)
        rc = kvt_error_set(err, KVT_UNAVAILABLE, "%s takes no question", endpoint);
    if (rc == KVT_OK)
        *ending = listen_on(source, zmq, question, take, arg);
    advisor_zmq_free(zmq);
    return rc;
}

struct first {
    uint64_t sequence;
    uint64_t digest;
    bool any;
};

static bool
take_first(void *arg, uint64_t sequence, const struct advisor_zmq_frame *payload)
{
    struct first *first = arg;

    *first = (struct first){
        .sequence = sequence, .digest = XXH3_64bits(payload->bytes, payload->size), .any = true};
    return false;
}

/* Only the first message of the answer: its number and the digest (XXH3) of its payload. */
static enum kvt_err
ask_first(struct advisor_source *source, const struct question *question, uint64_t *sequence,
          uint64_t *digest)
{
    struct first first = {0};
    enum ending ending;
    enum kvt_err rc = ask(source, question, take_first, &first, &ending, NULL);

    *sequence = first.sequence;
    *digest = first.digest;
    if (rc == KVT_OK && !first.any)
        rc = ending == END_LATE ? KVT_TIMEOUT : KVT_NOTFOUND;
    return rc;
}

struct collected {
    struct kvt_buffer *answer;
    size_t messages;
    uint64_t first; /* number that was asked for */
    uint64_t last;  /* of the last one */
    bool met;       /* the message in front of the first is still there: the numbers are the same */
    bool hole;      /* the next that came was not the next one */
    bool full;
};

static bool
collect(void *arg, uint64_t sequence, const struct advisor_zmq_frame *payload)
{
    struct collected *collected = arg;
    struct kvt_buffer *answer = collected->answer;
    const size_t start = answer->size;
    uint8_t head[HEAD_SIZE];

    if (sequence < collected->first) {
        collected->met = true;
        return true;
    }
    if (collected->messages > 0 && sequence != collected->last + 1) {
        collected->hole = true;
        return false;
    }
    put_le64(head, sequence);
    put_le64(head + NUMBER_SIZE, payload->size);
    kvt_buffer_append(answer, head, sizeof(head));
    kvt_buffer_append(answer, payload->bytes, payload->size);
    if (!kvt_buffer_ok(answer)) { /* whole messages only; the rest is asked for another time */
        answer->size = start;
        answer->failed = false;
        collected->full = true;
        return false;
    }
    collected->messages++;
    collected->last = sequence;
    return true;
}

/* A ROUTER drops what its peer does not take in time, so a long answer has holes: what is behind
 * one is asked for again, while each question brings something. */
static enum kvt_err
ask_all(struct advisor_source *source, struct question *question, struct collected *collected,
        enum ending *ending, struct kvt_error *err)
{
    for (;;) {
        const size_t before = collected->messages;
        enum kvt_err rc;

        collected->hole = false;
        rc = ask(source, question, collect, collected, ending, err);
        if (rc != KVT_OK || !collected->hole || collected->messages == before)
            return rc;
        question->from = collected->last + 1;
    }
}

/* What the names of its publishers begin with: the source's name (when that is long: its beginning
 * and a digest) and ":".  Holders go by these names, and a namespace may have several sources. */
static void
put_prefix(const struct advisor_source *source, char prefix[PREFIX_MAX])
{
    const char *name = source->options.name;
    const size_t size = strlen(name);

    if (size + 1 < PREFIX_MAX)
        (void)snprintf(prefix, PREFIX_MAX, "%.*s:", (int)size, name);
    else
        (void)snprintf(prefix, PREFIX_MAX, "%.12s~%016llx:", name,
                       (unsigned long long)XXH3_64bits(name, size));
}

/* "<source>:<endpoint>...", as items say it. */
static bool
endpoint_of(const struct advisor_source *source, const char *worker, uint32_t *endpoint)
{
    char start[PREFIX_MAX];
    char digits[12];
    uint64_t number;
    size_t size;

    *endpoint = 0;
    put_prefix(source, start);
    if (worker == NULL || strncmp(worker, start, strlen(start)) != 0)
        return false;
    worker += strlen(start);
    size = strspn(worker, "0123456789");
    if (size == 0 || size >= sizeof(digits))
        return false;
    (void)snprintf(digits, sizeof(digits), "%.*s", (int)size, worker);
    if (kvt_parse_u64(digits, &number) != KVT_OK || number >= ADVISOR_ENDPOINTS_MAX)
        return false;
    *endpoint = (uint32_t)number;
    return true;
}

static enum kvt_err
engine_ask(struct advisor_source *source, const struct advisor_ask *asked,
           enum advisor_answer_kind *kind, struct kvt_buffer *answer, struct kvt_error *err)
{
    struct question question = {
        .from = asked->from, .to = asked->to, .deadline_ms = asked->deadline_ms};
    struct collected collected = {.answer = answer, .first = asked->from};
    enum ending ending;
    enum kvt_err rc;

    *kind = ADVISOR_ANSWER_MESSAGES;
    if (!endpoint_of(source, asked->worker, &question.endpoint))
        return kvt_error_set(err, KVT_UNSUPPORTED, "%s is not a publisher of this source",
                             asked->worker == NULL ? "nobody" : asked->worker);
    /* Is there anything newer?  "No" counts only from somebody who knows what we know last. */
    if (asked->to == 0 && asked->from > 0)
        question.from--;
    rc = ask_all(source, &question, &collected, &ending, err);
    if (rc != KVT_OK || collected.messages > 0)
        return rc;
    if (collected.full)
        return kvt_error_set(err, KVT_RANGE, "a message is larger than an answer may be");
    switch (ending) {
    case END_LATE: return kvt_error_set(err, KVT_TIMEOUT, "the replay socket does not answer");
    case END_STOPPING: return kvt_error_set(err, KVT_CANCELLED, "stopping");
    case END_ODD: return kvt_error_set(err, KVT_INVALID, "the replay socket answers oddly");
    case END_SAID:
        if (collected.met)
            return KVT_OK; /* there is nothing newer */
        /* fall through */
    default: return kvt_error_set(err, KVT_NOTFOUND, "the engine no longer has those messages");
    }
}

/* ---- reading ---- */

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

struct reader {
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
subject_of(const struct reader *reader, const struct advisor_zmq_message *message,
           char subject[KVT_NAME_MAX])
{
    const struct advisor_zmq_frame *topic = &message->frames[0];
    char text[ADVISOR_ZMQ_PEER_MAX + 32 + PREFIX_MAX];
    char prefix[PREFIX_MAX];
    size_t used;
    size_t size;

    put_prefix(reader->source, prefix);
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
find_peer(struct reader *reader, const char *subject, uint32_t socket)
{
    if (!reader->source->options.bind)
        return reader->direct[socket];
    for (size_t i = 0; i < reader->count; i++)
        if (strcmp(reader->peers[i].subject, subject) == 0)
            return &reader->peers[i];
    return NULL;
}

static struct peer *
add_peer(struct reader *reader, const char *subject, const struct advisor_zmq_message *message)
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
vouched(struct reader *reader, const struct peer *peer)
{
    const struct question question = {
        .endpoint = peer->endpoint,
        .from = peer->last,
        .to = peer->last,
        .deadline_ms = kvt_clock_mono_ms() + VOUCH_MS,
    };
    uint64_t sequence = 0;
    uint64_t digest = 0;

    return ask_first(reader->source, &question, &sequence, &digest) == KVT_OK &&
           sequence == peer->last && digest == peer->digest;
}

/* Did the publisher begin anew in front of this message?  Messages of an earlier connection may
 * still be read after the next was made, so one that follows says nothing about the connection. */
static bool
is_new_life(struct reader *reader, struct peer *peer, const struct advisor_inbox_item *item,
            const struct advisor_zmq_message *message)
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
pass_on(struct reader *reader, const struct advisor_zmq_message *message)
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
receive(struct reader *reader)
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
    .ask = engine_ask,
};
