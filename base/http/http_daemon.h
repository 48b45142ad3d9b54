/*
 * base/http/http_daemon.h -- how a libmicrohttpd server starts and ends.
 *
 * Why: the admin server and the gateway's S3 port start and end alike: a port that is taken is a
 * clear error, and at the end clients go elsewhere at once while running requests are answered.
 * MHD_quiesce_daemon() is not used: caller and polling threads may then both take the socket out of
 * an epoll set, and the second of them aborts the process.
 *
 * Threads:   one.
 * Limits:    requests that run are waited for KVT_HTTP_DAEMON_DRAIN_MS.
 */
#ifndef BASE_HTTP_HTTP_DAEMON_H
#define BASE_HTTP_HTTP_DAEMON_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define KVT_HTTP_DAEMON_DRAIN_MS 5000

struct kvt_http_daemon {
    struct MHD_Daemon *daemon;   /* NULL: not running */
    uint16_t port;               /* in use */
    _Atomic unsigned call_count; /* requests begun and not finished: the server counts them */
    _Atomic bool drains;         /* connections are closed as they come */
};

struct kvt_http_daemon_options {
    const char *bind; /* a numeric address or "localhost" */
    uint16_t port;    /* 0: a free one */
    const char *what; /* "the HTTP server", in errors */
    const char *area; /* of the library's words in the debug log; a literal */
    unsigned flags;   /* of the library, beyond those of every server here */
    unsigned threads; /* below 2: one, without a pool */
    unsigned connections_max;
    MHD_AccessHandlerCallback on_request;
    MHD_RequestCompletedCallback on_completed;
    size_t (*unescape)(void *arg, struct MHD_Connection *connection, char *text);
    void *arg;                         /* of on_request and on_completed; unescape gets NULL */
    const struct MHD_OptionItem *more; /* up to MHD_OPTION_END */
};

/**
 * Listen and serve.  The daemon must be zeroed.  A request that stalls is cut after 30 s.
 *
 * @return KVT_OK, KVT_BUSY (the port is taken), KVT_DENIED (a port below 1024), KVT_INVALID or
 *         KVT_IO
 */
KVT_NODISCARD enum kvt_err kvt_http_daemon_start(struct kvt_http_daemon *life,
                                                 const struct kvt_http_daemon_options *options,
                                                 struct kvt_error *err);

/** Why the head of a request can be read in two ways, by this server and by what stands before it;
 *  NULL: it cannot.  Such a request is answered with 400, and its connection closed. */
const char *kvt_http_daemon_fault(struct MHD_Connection *connection);

/** Take no new connections and give those that are served time to end. */
void kvt_http_daemon_drain(struct kvt_http_daemon *life);

/** Stop the daemon, whose connections must not be suspended.  Also when it never ran. */
void kvt_http_daemon_end(struct kvt_http_daemon *life);

#endif /* BASE_HTTP_HTTP_DAEMON_H */
