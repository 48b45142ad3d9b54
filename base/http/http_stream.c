#include "base/http/http_stream.h"

#include <assert.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/thread/cond.h"

enum { BLOCK_SIZE = 16384, FRAME_EXTRA = 64 };

/* What is sent at once; shared by all who have not sent it to its end. */
struct frame {
    size_t refs;
    size_t size;
    uint8_t bytes[];
};

struct subscriber {
    struct kvt_http_stream *stream;
    struct MHD_Connection *connection;
    struct subscriber *next;
    struct frame *frame; /* being sent */
    struct frame *later; /* then this one; a newer takes its place */
    size_t at;           /* sent of `frame` */
    uint64_t begun_ms;   /* since when `frame` is being sent */
    uint64_t waits_ms;   /* since when `later`, or one before it, waits */
    bool suspended;
    bool dropped;
    bool fresh; /* has not had a document yet */
};

struct kvt_http_stream {
    struct kvt_http_stream_options options;
    pthread_t thread;
    bool threaded;
    struct kvt_buffer document; /* the thread's */
    struct kvt_buffer former;   /* the thread's: what was sent last, without its first line */
    uint64_t sent_ms;           /* the thread's */

    /* Guards all below.  Connections are suspended and resumed under it, which only marks them: a
     * subscriber must not end between the look at it and the mark. */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct subscriber *subscribers;
    size_t count;
    bool joined; /* somebody came since the thread looked */
    bool closed;
};

/* ---- frames ---- */

static struct frame *
frame_new(size_t size)
{
    struct frame *frame = kvt_calloc(1, sizeof(*frame) + size);

    if (frame != NULL)
        frame->refs = 1;
    return frame;
}

/* Under the lock. */
static void
frame_give(struct frame *frame)
{
    if (frame != NULL && --frame->refs == 0)
        kvt_free(frame);
}

static void
append(struct frame *frame, const void *bytes, size_t size)
{
    memcpy(frame->bytes + frame->size, bytes, size);
    frame->size += size;
}

/* "data: <line>\n" for both parts of the document, then the empty line that ends an event. */
static struct frame *
frame_of(const struct kvt_buffer *document)
{
    struct frame *frame = frame_new(document->size + FRAME_EXTRA);
    const uint8_t *text = document->data;
    const uint8_t *end = document->data + document->size;

    if (frame == NULL)
        return NULL;
    for (unsigned part = 0; part < 2 && text < end; part++) {
        const uint8_t *feed = memchr(text, '\n', (size_t)(end - text));
        const uint8_t *stop = feed == NULL ? end : feed;

        append(frame, "data: ", 6);
        append(frame, text, (size_t)(stop - text));
        append(frame, "\n", 1);
        text = feed == NULL ? end : feed + 1;
    }
    append(frame, "\n", 1);
    return frame;
}

/* ---- subscribers ---- */

/* Under the lock. */
static void
resume(struct subscriber *subscriber)
{
    if (!subscriber->suspended)
        return;
    subscriber->suspended = false;
    MHD_resume_connection(subscriber->connection);
}

static void
show_count(const struct kvt_http_stream *stream)
{
    if (stream->options.current != NULL)
        kvt_metric_set(stream->options.current, (int64_t)stream->count);
}

/* libmicrohttpd wants more to send. */
static ssize_t
on_room(void *arg, uint64_t offset, char *out, size_t room)
{
    struct subscriber *subscriber = arg;
    struct kvt_http_stream *stream = subscriber->stream;
    ssize_t given = 0;

    (void)offset;
    (void)pthread_mutex_lock(&stream->lock);
    if (subscriber->frame == NULL) {
        subscriber->frame = subscriber->later;
        subscriber->later = NULL;
        subscriber->at = 0;
        subscriber->begun_ms = kvt_clock_mono_ms();
    }
    if (stream->closed || subscriber->dropped) {
        given = MHD_CONTENT_READER_END_OF_STREAM;
    } else if (subscriber->frame == NULL) {
        MHD_suspend_connection(subscriber->connection);
        subscriber->suspended = true;
    } else {
        const struct frame *frame = subscriber->frame;
        const size_t left = frame->size - subscriber->at;

        given = (ssize_t)(left < room ? left : room);
        memcpy(out, frame->bytes + subscriber->at, (size_t)given);
        subscriber->at += (size_t)given;
        if (subscriber->at == frame->size) {
            frame_give(subscriber->frame);
            subscriber->frame = NULL;
        }
    }
    (void)pthread_mutex_unlock(&stream->lock);
    return given;
}

/* The request is over, however it ended. */
static void
on_end(void *arg)
{
    struct subscriber *subscriber = arg;
    struct kvt_http_stream *stream = subscriber->stream;

    (void)pthread_mutex_lock(&stream->lock);
    for (struct subscriber **link = &stream->subscribers; *link != NULL; link = &(*link)->next)
        if (*link == subscriber) {
            *link = subscriber->next;
            break;
        }
    stream->count--;
    show_count(stream);
    frame_give(subscriber->frame);
    frame_give(subscriber->later);
    (void)pthread_mutex_unlock(&stream->lock);
    kvt_free(subscriber);
}

/* Into the list, where there is room. */
static bool
enter(struct kvt_http_stream *stream, struct subscriber *subscriber)
{
    bool entered;

    (void)pthread_mutex_lock(&stream->lock);
    entered = !stream->closed && stream->count < stream->options.subscriber_max;
    if (entered) {
        subscriber->next = stream->subscribers;
        stream->subscribers = subscriber;
        stream->count++;
        stream->joined = true;
        show_count(stream);
        (void)pthread_cond_signal(&stream->wake);
    }
    (void)pthread_mutex_unlock(&stream->lock);
    return entered;
}

struct MHD_Response *
kvt_http_stream_join(struct kvt_http_stream *stream, struct MHD_Connection *connection)
{
    struct subscriber *subscriber = kvt_calloc(1, sizeof(*subscriber));
    struct MHD_Response *response;

    if (subscriber == NULL)
        return NULL;
    *subscriber = (struct subscriber){.stream = stream, .connection = connection, .fresh = true};
    if (!enter(stream, subscriber)) {
        kvt_free(subscriber);
        return NULL;
    }
    response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_SIZE, on_room, subscriber,
                                                 on_end);
    if (response == NULL)
        on_end(subscriber);
    return response;
}

/* ---- the thread ---- */

/* A frame that went to the library in one piece is on its way as long as it does not ask for the
 * next, which then waits. */
static bool
is_slow(const struct subscriber *subscriber, uint64_t now_ms)
{
    const uint64_t slow_ms = subscriber->stream->options.slow_ms;

    return (subscriber->frame != NULL && now_ms - subscriber->begun_ms > slow_ms) ||
           (subscriber->later != NULL && now_ms - subscriber->waits_ms > slow_ms);
}

/* Under the lock.  Who is still busy with a frame gets this one next, in the place of any other
 * that waits; who is busy for too long is dropped. */
static void
offer(struct subscriber *subscriber, struct frame *frame, uint64_t now_ms)
{
    struct kvt_http_stream *stream = subscriber->stream;

    if (is_slow(subscriber, now_ms) && !subscriber->dropped) {
        subscriber->dropped = true;
        if (stream->options.dropped != NULL)
            kvt_metric_inc(stream->options.dropped, 1);
    }
    if (subscriber->later == NULL)
        subscriber->waits_ms = now_ms;
    frame_give(subscriber->later);
    frame->refs++;
    subscriber->later = frame;
    subscriber->fresh = false;
    resume(subscriber);
}

enum audience { ALL, FRESH, IDLE /* who has nothing else to be sent */ };

static bool
is_meant(const struct subscriber *subscriber, enum audience audience)
{
    switch (audience) {
    case ALL: return true;
    case FRESH: return subscriber->fresh;
    case IDLE: return subscriber->frame == NULL && subscriber->later == NULL;
    }
    return false;
}

static void
offer_to(struct kvt_http_stream *stream, struct frame *frame, enum audience audience)
{
    const uint64_t now_ms = kvt_clock_mono_ms();

    (void)pthread_mutex_lock(&stream->lock);
    for (struct subscriber *at = stream->subscribers; at != NULL; at = at->next)
        if (is_meant(at, audience))
            offer(at, frame, now_ms);
    frame_give(frame);
    (void)pthread_mutex_unlock(&stream->lock);
}

/* What of a document counts as a change. */
static const uint8_t *
compared(const struct kvt_buffer *document, size_t *size)
{
    const uint8_t *feed = document->size == 0 ? NULL : memchr(document->data, '\n', document->size);

    *size = feed == NULL ? document->size : document->size - (size_t)(feed - document->data);
    return feed == NULL ? document->data : feed;
}

static bool
changed(struct kvt_http_stream *stream)
{
    size_t size;
    const uint8_t *text = compared(&stream->document, &size);

    if (size == stream->former.size && size > 0 && memcmp(text, stream->former.data, size) == 0)
        return false;
    kvt_buffer_clear(&stream->former);
    kvt_buffer_append(&stream->former, text, size);
    return true;
}

/* One look at the document.  Without memory, or when it is too large, there is none this time. */
static void
look(struct kvt_http_stream *stream)
{
    static const char comment[] = ": still here\n\n";
    const uint64_t now_ms = kvt_clock_mono_ms();
    struct frame *frame;
    bool new;

    kvt_buffer_clear(&stream->document);
    stream->options.render(stream->options.arg, &stream->document);
    if (!kvt_buffer_ok(&stream->document) || stream->document.size == 0)
        return;
    new = changed(stream);
    frame = frame_of(&stream->document);
    if (frame == NULL)
        return;
    offer_to(stream, frame, new ? ALL : FRESH);
    if (new)
        stream->sent_ms = now_ms;
    if (new || now_ms - stream->sent_ms < stream->options.heartbeat_ms)
        return;
    frame = frame_new(sizeof(comment));
    if (frame == NULL)
        return;
    append(frame, comment, sizeof(comment) - 1);
    offer_to(stream, frame, IDLE);
    stream->sent_ms = now_ms;
}

static void *
run(void *arg)
{
    struct kvt_http_stream *stream = arg;

    (void)pthread_mutex_lock(&stream->lock);
    while (!stream->closed) {
        struct timespec deadline;

        if (stream->count == 0) {
            (void)pthread_cond_wait(&stream->wake, &stream->lock);
            continue;
        }
        stream->joined = false;
        deadline = kvt_cond_deadline(stream->options.every_ms);
        (void)pthread_mutex_unlock(&stream->lock);
        look(stream);
        (void)pthread_mutex_lock(&stream->lock);
        while (!stream->closed && !stream->joined &&
               kvt_cond_wait(&stream->wake, &stream->lock, &deadline)) {
        }
    }
    (void)pthread_mutex_unlock(&stream->lock);
    return NULL;
}

/* ---- life ---- */

enum kvt_err
kvt_http_stream_new(struct kvt_http_stream **out, const struct kvt_http_stream_options *options)
{
    struct kvt_http_stream *stream = kvt_calloc(1, sizeof(*stream));

    assert(options->render != NULL && options->every_ms > 0 && options->subscriber_max > 0);
    *out = NULL;
    if (stream == NULL)
        return KVT_NOMEM;
    stream->options = *options;
    kvt_buffer_init(&stream->document, KVT_HTTP_STREAM_DOCUMENT_MAX);
    kvt_buffer_init(&stream->former, KVT_HTTP_STREAM_DOCUMENT_MAX);
    if (pthread_mutex_init(&stream->lock, NULL) != 0)
        goto fail;
    if (!kvt_cond_init(&stream->wake))
        goto fail_cond;
    if (pthread_create(&stream->thread, NULL, run, stream) != 0)
        goto fail_thread;
    stream->threaded = true;
    *out = stream;
    return KVT_OK;

fail_thread:
    (void)pthread_cond_destroy(&stream->wake);
fail_cond:
    (void)pthread_mutex_destroy(&stream->lock);
fail:
    kvt_free(stream);
    return KVT_NOMEM;
}

void
kvt_http_stream_close(struct kvt_http_stream *stream)
{
    if (stream == NULL || !stream->threaded)
        return;
    (void)pthread_mutex_lock(&stream->lock);
    stream->closed = true;
    for (struct subscriber *at = stream->subscribers; at != NULL; at = at->next)
        resume(at);
    (void)pthread_cond_signal(&stream->wake);
    (void)pthread_mutex_unlock(&stream->lock);
    (void)pthread_join(stream->thread, NULL);
    stream->threaded = false;
}

void
kvt_http_stream_free(struct kvt_http_stream *stream)
{
    if (stream == NULL)
        return;
    kvt_http_stream_close(stream);
    assert(stream->count == 0);
    kvt_buffer_release(&stream->document);
    kvt_buffer_release(&stream->former);
    (void)pthread_cond_destroy(&stream->wake);
    (void)pthread_mutex_destroy(&stream->lock);
    kvt_free(stream);
}
