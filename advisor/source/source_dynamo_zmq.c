#include <stdio.h>
#include <string.h>

#include "advisor/source/source_discovery.h"
#include "advisor/source/source_dynamo.h"
#include "advisor/source/source_zmq.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "wire/dialect/dynamo.h"

/* Dynamo's event plane over ZMQ.  Direct: every publisher has an address of its own, which the
 * settings or the discovery folder tell.  With brokers: theirs.  The messages say who sent them, so
 * one socket does for all that come and go. */

enum { FRAMES = 4 };

static const char *const TOPICS[] = {"kv-events", "kv_events"};

struct reader {
    struct advisor_source *source;
    struct advisor_source_zmq_list endpoints;
    struct advisor_zmq *zmq;
    struct advisor_discovery *discovery; /* NULL: endpoints are all there is */
    uint32_t socket;
    char (*found)[ADVISOR_ZMQ_ENDPOINT_MAX]; /* connected to because of the folder; sorted */
    size_t found_count;
    uint64_t looked_ms;
    char extra[64]; /* what is wrong with the folder */
};

/* ---- who to listen to ---- */

static bool
is_listed(const struct reader *reader, const char *endpoint)
{
    for (size_t i = 0; i < reader->endpoints.count; i++)
        if (strcmp(reader->endpoints.texts[i], endpoint) == 0)
            return true;
    return false;
}

/* Make the connections those of `wanted`, which is sorted as `found` is. */
static void
follow(struct reader *reader, const char *const *wanted, size_t count)
{
    const size_t room = ADVISOR_ZMQ_CONNECTIONS_MAX;
    char(*next)[ADVISOR_ZMQ_ENDPOINT_MAX] = kvt_calloc(count + 1, sizeof(*next));
    size_t kept = 0;
    size_t old = 0;
    size_t refused = 0;

    if (next == NULL)
        return; /* the next look comes in a second */
    for (size_t i = 0; i < count; i++) {
        int order = 1;

        for (; old < reader->found_count && (order = strcmp(reader->found[old], wanted[i])) < 0;
             old++)
            advisor_zmq_disconnect(reader->zmq, reader->socket, reader->found[old]);
        if (old < reader->found_count && order == 0) {
            old++;
        } else if (is_listed(reader, wanted[i])) {
            continue;
        } else if (kept == room ||
                   advisor_zmq_connect(reader->zmq, reader->socket, wanted[i], NULL) != KVT_OK) {
            refused++;
            continue;
        }
        (void)snprintf(next[kept++], sizeof(*next), "%s", wanted[i]);
    }
    for (; old < reader->found_count; old++)
        advisor_zmq_disconnect(reader->zmq, reader->socket, reader->found[old]);
    kvt_free(reader->found);
    reader->found = next;
    reader->found_count = kept;
    if (refused > 0)
        (void)snprintf(reader->extra, sizeof(reader->extra), "; %zu publishers left out", refused);
}

/* False: the source is stopping. */
static bool
look(struct reader *reader)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    struct kvt_error err = {.text = ""};
    const char *const *wanted;
    enum kvt_err rc;
    size_t count;

    if (reader->discovery == NULL ||
        (reader->looked_ms != 0 && now_ms - reader->looked_ms < ADVISOR_SOURCE_DISCOVERY_EVERY_MS))
        return true;
    reader->looked_ms = now_ms;
    rc = advisor_source_discovery_look(reader->source, reader->discovery, &err);
    if (rc == KVT_CANCELLED)
        return false;
    if (rc != KVT_OK) {
        if (reader->extra[0] == '\0')
            kvt_log_warn("advisor.source", "discovery", "%s: %s", reader->source->options.name,
                         err.text);
        (void)snprintf(reader->extra, sizeof(reader->extra), "; %.60s", err.text);
        return true;
    }
    reader->extra[0] = '\0';
    wanted = advisor_discovery_endpoints(reader->discovery, &count);
    follow(reader, wanted, count);
    return true;
}

/* ---- what they say ---- */

/* The topic is "kv-events", or with a broker "namespace.N.component.C...kv-events". */
static bool
is_kv_topic(const struct advisor_source_options *options, const char *topic)
{
    const char *last = strrchr(topic, '.');
    const char *bare = last == NULL ? topic : last + 1;

    if (strcmp(bare, TOPICS[0]) != 0 && strcmp(bare, TOPICS[1]) != 0)
        return false;
    return last == NULL || options->topic == NULL ||
           strncmp(topic, options->topic, strlen(options->topic)) == 0;
}

/* False: the source is stopping. */
static bool
pass_on(struct reader *reader, const struct advisor_zmq_message *message)
{
    const struct advisor_zmq_frame *topic = &message->frames[0];
    char subject[ADVISOR_DISCOVERY_TEXT_MAX];
    struct wire_dynamo_frames frames;
    struct advisor_zmq_frame envelope;
    struct advisor_inbox_item *item;

    if (message->count != FRAMES || topic->size >= sizeof(subject) ||
        wire_dynamo_frames(message->frames[1].bytes, message->frames[1].size,
                           message->frames[2].bytes, message->frames[2].size,
                           message->frames[3].bytes, message->frames[3].size, &frames,
                           NULL) != KVT_OK) {
        advisor_source_zmq_refuse(reader->source);
        return true;
    }
    memcpy(subject, topic->bytes, topic->size);
    subject[topic->size] = '\0';
    if (!is_kv_topic(&reader->source->options, subject))
        return true;
    envelope = (struct advisor_zmq_frame){frames.envelope, frames.envelope_size};
    item = advisor_source_zmq_item(subject, &envelope);
    return item == NULL || advisor_source_push_wait(reader->source, item);
}

static void
receive(struct reader *reader)
{
    struct advisor_zmq_message message;
    uint64_t told_ms = 0;

    while (!atomic_load(&reader->source->stopping)) {
        enum kvt_err rc;

        if (!look(reader))
            return;
        rc = advisor_zmq_receive(reader->zmq, ADVISOR_SOURCE_ZMQ_WAIT_MS, &message);
        advisor_source_zmq_tell(reader->source, reader->zmq, &told_ms, reader->extra);
        if (rc == KVT_OK && !pass_on(reader, &message))
            return;
    }
}

static void *
run(void *arg)
{
    struct advisor_source *source = arg;

    receive(source->own);
    return NULL;
}

static enum kvt_err
open_sockets(struct reader *reader, struct kvt_error *err)
{
    enum kvt_err rc = advisor_zmq_new(&reader->zmq);

    for (size_t i = 0; rc == KVT_OK && i < reader->endpoints.count; i++) {
        rc = advisor_zmq_open(reader->zmq, ADVISOR_ZMQ_SUBSCRIBER, "", &reader->socket, err);
        if (rc == KVT_OK)
            rc = advisor_zmq_connect(reader->zmq, reader->socket, reader->endpoints.texts[i], err);
    }
    if (rc == KVT_OK) /* the last one is for those the folder tells */
        rc = advisor_zmq_open(reader->zmq, ADVISOR_ZMQ_SUBSCRIBER, "", &reader->socket, err);
    return rc;
}

static enum kvt_err
dynamo_open(struct advisor_source *source)
{
    const struct advisor_source_options *options = &source->options;
    const bool has_folder = options->discovery != NULL && options->discovery[0] != '\0';
    struct reader *reader = kvt_calloc(1, sizeof(*reader));
    struct kvt_error err = {.text = "neither endpoints nor a discovery folder"};
    enum kvt_err rc;

    source->own = reader;
    if (reader == NULL)
        return KVT_NOMEM;
    reader->source = source;
    rc = advisor_source_zmq_split(&reader->endpoints, options->endpoints, false, &err);
    if (rc == KVT_OK && reader->endpoints.count == 0 && !has_folder)
        rc = KVT_INVALID;
    if (rc != KVT_OK)
        return advisor_source_zmq_fail(source, rc, &err);
    (void)kvt_error_set(&err, KVT_NOMEM, "out of memory");
    rc = open_sockets(reader, &err);
    if (rc == KVT_OK && has_folder)
        rc = advisor_discovery_new(&reader->discovery, options->discovery, options->topic);
    if (rc != KVT_OK)
        return advisor_source_zmq_fail(source, rc, &err);
    return advisor_source_zmq_start(source, run);
}

static void
dynamo_close(struct advisor_source *source)
{
    struct reader *reader = source->own;

    advisor_source_join(source);
    if (reader != NULL) {
        advisor_zmq_free(reader->zmq);
        advisor_discovery_free(reader->discovery);
        advisor_source_zmq_release(&reader->endpoints);
        kvt_free(reader->found);
    }
    kvt_free(reader);
    source->own = NULL;
}

const struct advisor_source_ops advisor_source_dynamo_zmq = {
    .name = "dynamo-zmq",
    .dialect = WIRE_DIALECT_DYNAMO,
    .open = dynamo_open,
    .close = dynamo_close,
    .ask = advisor_dynamo_ask,
};
