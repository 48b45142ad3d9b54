/*
 * base/http_life.h -- how a libmicrohttpd server ends, and what it logs.
 *
 * Why: the admin server and the gateway's S3 port end alike: clients go elsewhere at once, requests
 * that run are answered, and the listening socket is closed only when no thread of the library can
 * have it in its hands.
 *
 * Ownership: the listening socket is the caller's until `daemon` runs, then the library's, and the
 *            caller's again from kvt_http_life_drain() on; kvt_http_life_end() closes it.
 * Threads:   drain and end from one thread; `call_count` from any.
 * Limits:    requests that run are waited for KVT_HTTP_LIFE_DRAIN_MS.
 */
#ifndef BASE_HTTP_LIFE_H
#define BASE_HTTP_LIFE_H

#include <stdarg.h>

#include "kvtier/error.h"

#define KVT_HTTP_LIFE_DRAIN_MS 5000

struct MHD_Daemon;

struct kvt_http_life {
    struct MHD_Daemon *daemon;   /* NULL: not running */
    int fd;                      /* the listening socket while it is ours; else -1 */
    _Atomic unsigned call_count; /* requests begun and not finished */
};

/** For MHD_OPTION_EXTERNAL_LOGGER: the library's words go to the debug log.  `area`: a literal. */
void kvt_http_life_log(void *area, const char *format, va_list args) KVT_PRINTF(2, 0);

/** Take no new connections and give those that are served time to end. */
void kvt_http_life_drain(struct kvt_http_life *life);

/** Stop the daemon, whose connections must not be suspended, and close the socket.  Also for one
 *  that never ran. */
void kvt_http_life_end(struct kvt_http_life *life);

#endif /* BASE_HTTP_LIFE_H */
