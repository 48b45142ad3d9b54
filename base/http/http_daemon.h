/*
 * base/http/http_daemon.h -- how a libmicrohttpd server ends, and what it logs.
 *
 * Why: the admin server and the gateway's S3 port end alike: clients go elsewhere at once, requests
 * that run are answered.  Not by MHD_quiesce_daemon(): caller and polling threads may then both
 * take the socket out of an epoll set, and who comes second aborts the process.
 *
 * Ownership: the listening socket is the caller's until `daemon` runs, then the library's, which
 *            closes it.
 * Threads:   drain and end from one thread; the rest from any.
 * Limits:    requests that run are waited for KVT_HTTP_DAEMON_DRAIN_MS.
 */
#ifndef BASE_HTTP_HTTP_DAEMON_H
#define BASE_HTTP_HTTP_DAEMON_H

#include <microhttpd.h>
#include <stdarg.h>
#include <stdbool.h>

#include "kvtier/error.h"

#define KVT_HTTP_DAEMON_DRAIN_MS 5000

struct kvt_http_daemon {
    struct MHD_Daemon *daemon;   /* NULL: not running */
    int fd;                      /* the listening socket while it is ours; else -1 */
    _Atomic unsigned call_count; /* requests begun and not finished */
    _Atomic bool drains;         /* connections are closed as they come */
};

/** For MHD_OPTION_EXTERNAL_LOGGER: the library's words go to the debug log.  `area`: a literal. */
void kvt_http_daemon_log(void *area, const char *format, va_list args) KVT_PRINTF(2, 0);

/** The MHD_AcceptPolicyCallback that start must be given, with the struct kvt_http_daemon. */
enum MHD_Result kvt_http_daemon_accept(void *life, const struct sockaddr *address, socklen_t size);

/** Take no new connections and give those that are served time to end. */
void kvt_http_daemon_drain(struct kvt_http_daemon *life);

/** Stop the daemon, whose connections must not be suspended, or close the socket of one that never
 *  ran. */
void kvt_http_daemon_end(struct kvt_http_daemon *life);

#endif /* BASE_HTTP_HTTP_DAEMON_H */
