/*
 * base/http/http_stream.h -- server-sent events: a document to whoever wants to follow it.
 *
 * Why: a page that shows what is going on should not ask every second.  The document is rendered
 * once for all who follow it, on a thread of its own, and sent when it changed; the others hear a
 * comment now and then, so that a connection that is dead is noticed.
 *
 * A document has two parts: what stands before its first line feed (clocks) does not count as a
 * change.  Both lines become `data:` lines of one event.
 *
 * Ownership: the stream owns its frames; libmicrohttpd owns the subscribers' responses and hands
 *            them back.  Close it, stop the server, then free it.
 * Threads:   any.  render() runs on the stream's thread alone, and without a lock of ours.
 * Limits:    `subscriber_max` at once, one frame each that waits for its turn and at most one that
 *            is being sent; who has not taken a frame in `slow_ms` is dropped.
 *            Documents of KVT_HTTP_STREAM_DOCUMENT_MAX bytes; a larger one is not sent.
 */
#ifndef BASE_HTTP_HTTP_STREAM_H
#define BASE_HTTP_HTTP_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "base/core/metrics.h"
#include "kvtier/error.h"

#define KVT_HTTP_STREAM_DOCUMENT_MAX (1u << 20)

struct MHD_Connection;
struct MHD_Response;
struct kvt_http_stream;

struct kvt_http_stream_options {
    void (*render)(void *arg, struct kvt_buffer *out);
    void *arg;
    uint64_t every_ms;     /* it is looked at this often while somebody follows it */
    uint64_t heartbeat_ms; /* a comment after this long without a change */
    uint64_t slow_ms;      /* at most that long for a frame */
    size_t subscriber_max;
    struct kvt_metric *current; /* who follows it now; NULL: not shown */
    struct kvt_metric *dropped; /* who was too slow; NULL: not shown */
};

KVT_NODISCARD enum kvt_err kvt_http_stream_new(struct kvt_http_stream **out,
                                               const struct kvt_http_stream_options *options);

/** End all that are followed; nobody can join any more.  To be called before kvt_http_stop(), which
 *  waits for requests to end.  NULL is allowed. */
void kvt_http_stream_close(struct kvt_http_stream *stream);

/** After kvt_http_stop().  NULL is allowed. */
void kvt_http_stream_free(struct kvt_http_stream *stream);

/** The answer to somebody who wants to follow (base/http/http.c); NULL: there are too many, or no
 *  memory. */
struct MHD_Response *kvt_http_stream_join(struct kvt_http_stream *stream,
                                          struct MHD_Connection *connection);

#endif /* BASE_HTTP_HTTP_STREAM_H */
