/*
 * base/http/http.h -- the admin HTTP server of every daemon (libmicrohttpd).
 *
 * Why: all three daemons answer the same questions the same way: /livez, /readyz, /metrics and
 * their own /v1 routes.  It binds loopback, checks Host and Origin, bounds bodies, and asks a token
 * for every route marked as mutating.
 *
 * Built in: /livez and /healthz (the process answers), /readyz[?verbose] (ready() said yes; else
 * 503 and why), /metrics.  A refusal is 401 (token missing or wrong), 403 (Host, Origin, no token
 * set), 404, 405, 413 or 503 (memory), each with the JSON error of kvt_http_fail().
 *
 * Ownership: routes are a static table of the daemon; request and response live for the handler's
 *            call.
 * Threads:   handlers run on the server's threads, several at once; they must lock what they share.
 * Limits:    KVT_HTTP_BODY_MAX bytes of request, KVT_HTTP_RESPONSE_MAX of response,
 *            KVT_HTTP_CONNECTIONS_MAX connections, a request that stalls is cut after 30 s.
 */
#ifndef BASE_HTTP_HTTP_H
#define BASE_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "base/core/metrics.h"
#include "base/http/http_stream.h"
#include "kvtier/error.h"

#define KVT_HTTP_BODY_MAX        (8u << 20)
#define KVT_HTTP_RESPONSE_MAX    (64u << 20)
#define KVT_HTTP_CONNECTIONS_MAX 256
#define KVT_HTTP_THREADS         8 /* so many handlers run at once */
#define KVT_HTTP_TOKEN_MAX       128
#define KVT_HTTP_MEMORY_MAX      (256u << 20)
#define KVT_HTTP_PAGE_POLICY_MAX 512

struct kvt_http;

struct kvt_http_request {
    const char *method; /* "GET", "POST", ... */
    const char *path;   /* decoded, without the query */
    const char *tail;   /* what follows the route's path when it ended in "/" + "*"; else "" */
    const uint8_t *body;
    size_t body_size;
    bool trusted;       /* it carried the token; of a route that is mutating it always did */
    const void *opaque; /* for kvt_http_query() */
};

struct kvt_http_response {
    unsigned status;          /* preset to 200 */
    const char *content_type; /* preset to application/json; a static string */
    unsigned retry_after_s;   /* not 0: a client may ask again after this */
    struct kvt_buffer body;
    struct kvt_http_stream *stream; /* not NULL: it is followed, and there is no body */
    /* Of a page for a browser, its Content-Security-Policy; else "". */
    char page_policy[KVT_HTTP_PAGE_POLICY_MAX];
};

/** The value of query argument `name`: "" for a bare `?name`, NULL when it is not there. */
const char *kvt_http_query(const struct kvt_http_request *request, const char *name);

/** The value of a header, NULL when it is not there. */
const char *kvt_http_header(const struct kvt_http_request *request, const char *name);

/** Did whoever asked hang up, so that nobody waits for the answer?  For handlers that take long. */
bool kvt_http_is_left(const struct kvt_http_request *request);

/** Answer `status` with {"error":{"code","message"}}. */
void kvt_http_fail(struct kvt_http_response *response, unsigned status, enum kvt_err code,
                   const char *format, ...) KVT_PRINTF(4, 5);

struct kvt_http_route {
    const char *method; /* GET also answers HEAD */
    const char *path;   /* "/v1/status", or a prefix that ends in "*": "/v1/blocks/" + "*" */
    bool mutating;      /* needs "Authorization: Bearer <token>" */
    void (*handler)(void *arg, const struct kvt_http_request *request,
                    struct kvt_http_response *response);
};

struct kvt_http_options {
    const char *bind;  /* an address; loopback unless the operator says otherwise */
    uint16_t port;     /* 0: a free one */
    const char *token; /* "" refuses every mutating request */
    const struct kvt_http_route *routes;
    size_t route_count;
    void *arg; /* passed to handlers and to ready() */
    /** Fill `why` with one line per failing check and return false when not ready. */
    bool (*ready)(void *arg, struct kvt_buffer *why);
    /** Append whole families whose labels come and go, under names that `metrics` has not; NULL:
     *  none.  Runs on any connection's thread. */
    void (*more_metrics)(void *arg, struct kvt_buffer *out);
    struct kvt_metrics *metrics; /* what /metrics shows; NULL: nothing */
    size_t memory_max;           /* bodies and answers of all connections; 0: KVT_HTTP_MEMORY_MAX */
    const char
        *hosts; /* more Host names to answer to, "a,b" (base/http/http_internal.h); NULL: none */
};

/** Start serving.  KVT_BUSY with a clear message when the port is taken. */
KVT_NODISCARD enum kvt_err kvt_http_start(struct kvt_http **out,
                                          const struct kvt_http_options *options,
                                          struct kvt_error *err);

/** The port in use. */
uint16_t kvt_http_port(const struct kvt_http *http);

/** Stop accepting, finish what runs, free.  NULL is allowed. */
void kvt_http_stop(struct kvt_http *http);

#endif /* BASE_HTTP_HTTP_H */
