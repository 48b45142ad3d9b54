#include "advisor/source/source_engine.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/core/clock.h"
#include "base/text/parse.h"

/* A DEALER sends ["", first number] and gets ["", number, payload] or ["", topic, number, payload]
 * for each message that is still in the engine's ring, then one whose number is all ones or whose
 * payload is empty.  The engine answers between its own messages, so this takes a while. */

enum { NUMBER_SIZE = 8, HEAD_SIZE = 2 * NUMBER_SIZE };

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
listen_on(struct advisor_source *source, struct advisor_zmq *zmq,
          const struct advisor_source_engine_question *question, take_fn *take, void *arg)
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
ask(struct advisor_source *source, const struct advisor_source_engine_question *question,
    take_fn *take, void *arg, enum ending *ending, struct kvt_error *err)
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

enum kvt_err
advisor_source_engine_first(struct advisor_source *source,
                            const struct advisor_source_engine_question *question,
                            uint64_t *sequence, uint64_t *digest)
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
ask_all(struct advisor_source *source, struct advisor_source_engine_question *question,
        struct collected *collected, enum ending *ending, struct kvt_error *err)
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

void
advisor_source_engine_prefix(const struct advisor_source *source,
                             char prefix[ADVISOR_SOURCE_ENGINE_PREFIX_MAX])
{
    const char *name = source->options.name;
    const size_t size = strlen(name);

    if (size + 1 < ADVISOR_SOURCE_ENGINE_PREFIX_MAX)
        (void)snprintf(prefix, ADVISOR_SOURCE_ENGINE_PREFIX_MAX, "%.*s:", (int)size, name);
    else
        (void)snprintf(prefix, ADVISOR_SOURCE_ENGINE_PREFIX_MAX, "%.12s~%016llx:", name,
                       (unsigned long long)XXH3_64bits(name, size));
}

/* "<source>:<endpoint>...", as items say it. */
static bool
endpoint_of(const struct advisor_source *source, const char *worker, uint32_t *endpoint)
{
    char start[ADVISOR_SOURCE_ENGINE_PREFIX_MAX];
    char digits[12];
    uint64_t number;
    size_t size;

    *endpoint = 0;
    advisor_source_engine_prefix(source, start);
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

enum kvt_err
advisor_source_engine_ask(struct advisor_source *source, const struct advisor_ask *asked,
                          enum advisor_answer_kind *kind, struct kvt_buffer *answer,
                          struct kvt_error *err)
{
    struct advisor_source_engine_question question = {
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
