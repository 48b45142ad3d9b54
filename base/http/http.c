#include "base/http/http.h"

#include <assert.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/http/http_daemon.h"
#include "base/http/http_internal.h"

enum {
    RETRY_AFTER_MAX = 16,
    STATUS_CLASSES = 6,
    ALLOW_MAX = 64,
    READY_MAX = 8192,
};

/* A refused body is read to its end, so that the answer arrives; up to here, then it is cut off. */
#define DISCARD_MAX (4u * (size_t)KVT_HTTP_BODY_MAX)

struct kvt_http {
    struct kvt_http_options options;
    char *bind;
    char *token;
    char *hosts;
    struct kvt_http_daemon life;
    size_t memory_max;
    _Atomic size_t memory;                      /* bytes of bodies and answers held now */
    struct kvt_metric *answers[STATUS_CLASSES]; /* by the status's first digit, from 2 */
    struct kvt_metric unseen;                   /* where they are counted without a registry */
};

/* One request.  Made on its first callback, freed when libmicrohttpd says it is over. */
struct call {
    struct kvt_http *http;
    struct MHD_Connection *connection;
    const struct kvt_http_route *route; /* NULL: built in, or refused */
    bool trusted;                       /* it carries the token */
    const char *tail;
    struct kvt_buffer body;
    size_t discarded;
    size_t held;      /* this call's part of http->memory */
    unsigned refusal; /* status to answer with, once the body is through; 0: none */
    enum kvt_err code;
    const char *reason;
    char allow[ALLOW_MAX]; /* the methods a 405 names */
};

/* ---- for handlers ---- */

const char *
kvt_http_query(const struct kvt_http_request *request, const char *name)
{
    const struct call *call = request->opaque;
    const char *value = NULL;

    if (MHD_lookup_connection_value_n(call->connection, MHD_GET_ARGUMENT_KIND, name, strlen(name),
                                      &value, NULL) != MHD_YES)
        return NULL;
    return value == NULL ? "" : value;
}

const char *
kvt_http_header(const struct kvt_http_request *request, const char *name)
{
    const struct call *call = request->opaque;

    return MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND, name);
}

bool
kvt_http_is_left(const struct kvt_http_request *request)
{
    const struct call *call = request->opaque;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(call->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct pollfd wire = {.events = POLLRDHUP};

    if (info == NULL)
        return false;
    wire.fd = info->connect_fd;
    return poll(&wire, 1, 0) > 0 && (wire.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void
kvt_http_fail(struct kvt_http_response *response, unsigned status, enum kvt_err code,
              const char *format, ...)
{
    char message[512];
    va_list args;

    va_start(args, format);
    if (vsnprintf(message, sizeof(message), format, args) < 0)
        message[0] = '\0';
    va_end(args);
    response->status = status;
    response->content_type = "application/json";
    kvt_buffer_clear(&response->body);
    kvt_buffer_printf(&response->body,
                      "{\"error\":{\"code\":\"%s\",\"message\":", kvt_err_name(code));
    kvt_buffer_json_string(&response->body, message);
    kvt_buffer_append(&response->body, "}}\n", 3);
}

/* ---- memory ---- */

/* Count `size` bytes to the call, or false when all calls together hold enough. */
static bool
hold(struct call *call, size_t size)
{
    struct kvt_http *http = call->http;

    if (atomic_fetch_add(&http->memory, size) + size > http->memory_max) {
        atomic_fetch_sub(&http->memory, size);
        return false;
    }
    call->held += size;
    return true;
}

static void
let_go(struct call *call)
{
    atomic_fetch_sub(&call->http->memory, call->held);
    call->held = 0;
}

/* ---- answers ---- */

/* What a page may load and who may frame it; it is told nobody where a link was followed from. */
static void
add_page_headers(struct MHD_Response *answer, const char *policy)
{
    (void)MHD_add_response_header(answer, "Content-Security-Policy", policy);
    (void)MHD_add_response_header(answer, "X-Frame-Options", "DENY");
    (void)MHD_add_response_header(answer, "Referrer-Policy", "no-referrer");
    (void)MHD_add_response_header(answer, "Cross-Origin-Opener-Policy", "same-origin");
}

static void
add_retry_after(struct MHD_Response *answer, unsigned seconds)
{
    char text[RETRY_AFTER_MAX];

    (void)snprintf(text, sizeof(text), "%u", seconds);
    (void)MHD_add_response_header(answer, MHD_HTTP_HEADER_RETRY_AFTER, text);
}

static enum MHD_Result
queue_response(struct call *call, unsigned status, const char *content_type,
               struct MHD_Response *answer)
{
    enum MHD_Result rc;

    if (answer == NULL)
        return MHD_NO;
    (void)MHD_add_response_header(answer, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    (void)MHD_add_response_header(answer, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    (void)MHD_add_response_header(answer, "X-Content-Type-Options", "nosniff");
    if (status == 401)
        (void)MHD_add_response_header(answer, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (call->refusal == 400)
        (void)MHD_add_response_header(answer, MHD_HTTP_HEADER_CONNECTION, "close");
    if (status == 405)
        (void)MHD_add_response_header(answer, MHD_HTTP_HEADER_ALLOW, call->allow);
    kvt_metric_inc(call->http->answers[status / 100], 1);
    rc = MHD_queue_response(call->connection, status, answer);
    MHD_destroy_response(answer);
    return rc;
}

/* When there is no memory even for saying so. */
static enum MHD_Result
queue_static(struct call *call, unsigned status, const char *text)
{
    static char empty[] = "";
    char *copy = kvt_strdup(text);

    if (copy == NULL)
        return queue_response(call, status, "application/json",
                              MHD_create_response_from_buffer(0, empty, MHD_RESPMEM_PERSISTENT));
    return queue_response(
        call, status, "application/json",
        MHD_create_response_from_buffer_with_free_callback(strlen(copy), copy, kvt_free));
}

static enum MHD_Result
queue_stream(struct call *call, struct kvt_http_response *response)
{
    struct MHD_Response *answer = kvt_http_stream_join(response->stream, call->connection);

    kvt_buffer_release(&response->body);
    if (answer == NULL)
        return queue_static(
            call, 503, "{\"error\":{\"code\":\"AGAIN\",\"message\":\"too many follow it\"}}\n");
    return queue_response(call, response->status, "text/event-stream", answer);
}

/* Hand the response's memory to libmicrohttpd; it is freed when the last byte has left. */
static enum MHD_Result
queue_answer(struct call *call, struct kvt_http_response *response)
{
    struct kvt_buffer *body = &response->body;
    struct MHD_Response *answer;

    if (response->stream != NULL)
        return queue_stream(call, response);
    if (!kvt_buffer_ok(body)) {
        kvt_buffer_release(body);
        return queue_static(
            call, 500, "{\"error\":{\"code\":\"RANGE\",\"message\":\"the answer did not fit\"}}\n");
    }
    if (!hold(call, body->size)) {
        kvt_buffer_release(body);
        return queue_static(
            call, 503,
            "{\"error\":{\"code\":\"AGAIN\",\"message\":\"too many answers at once\"}}\n");
    }
    answer = MHD_create_response_from_buffer_with_free_callback(body->size, body->data, kvt_free);
    if (answer == NULL)
        kvt_buffer_release(body);
    else
        *body = (struct kvt_buffer){0};
    if (answer != NULL && response->retry_after_s > 0)
        add_retry_after(answer, response->retry_after_s);
    if (answer != NULL && response->page_policy[0] != '\0')
        add_page_headers(answer, response->page_policy);
    return queue_response(call, response->status, response->content_type, answer);
}

/* ---- built-in routes ---- */

static void
answer_ready(struct call *call, const struct kvt_http_request *request,
             struct kvt_http_response *response)
{
    const struct kvt_http_options *options = &call->http->options;
    const bool verbose = kvt_http_query(request, "verbose") != NULL;
    struct kvt_buffer why;
    bool ready;

    kvt_buffer_init(&why, READY_MAX);
    ready = options->ready == NULL || options->ready(options->arg, &why);
    response->content_type = "text/plain; charset=utf-8";
    response->status = ready ? 200 : 503;
    /* Not ready without a reason helps nobody, so the reasons then come unasked. */
    if (verbose || !ready)
        kvt_buffer_append(&response->body, kvt_buffer_text(&why), why.size);
    if (response->body.size > 0 && response->body.data[response->body.size - 1] != '\n')
        kvt_buffer_append(&response->body, "\n", 1);
    kvt_buffer_printf(&response->body, ready ? "ok\n" : "not ready\n");
    kvt_buffer_release(&why);
}

static bool
is_builtin(const char *path)
{
    return strcmp(path, "/livez") == 0 || strcmp(path, "/healthz") == 0 ||
           strcmp(path, "/readyz") == 0 || strcmp(path, "/metrics") == 0;
}

static void
answer_builtin(struct call *call, const struct kvt_http_request *request,
               struct kvt_http_response *response)
{
    if (strcmp(request->path, "/readyz") == 0) {
        answer_ready(call, request, response);
    } else if (strcmp(request->path, "/metrics") == 0) {
        response->content_type = "text/plain; version=0.0.4; charset=utf-8";
        if (call->http->options.metrics != NULL)
            kvt_metrics_format(call->http->options.metrics, &response->body);
        if (call->http->options.more_metrics != NULL)
            call->http->options.more_metrics(call->http->options.arg, &response->body);
    } else {
        response->content_type = "text/plain; charset=utf-8";
        kvt_buffer_printf(&response->body, "ok\n");
    }
}

static enum MHD_Result
perform(struct call *call, const char *method, const char *path)
{
    struct kvt_http_request request = {
        .method = method,
        .path = path,
        .tail = call->tail,
        .body = call->body.data,
        .body_size = call->body.size,
        .trusted = call->trusted,
        .opaque = call,
    };
    struct kvt_http_response response = {.status = 200, .content_type = "application/json"};

    kvt_buffer_init(&response.body, KVT_HTTP_RESPONSE_MAX);
    if (call->refusal == 405)
        kvt_http_fail(&response, 405, call->code, "%s takes %s", path, call->allow);
    else if (call->refusal != 0)
        kvt_http_fail(&response, call->refusal, call->code, "%s", call->reason);
    else if (call->route == NULL)
        answer_builtin(call, &request, &response);
    else
        call->route->handler(call->http->options.arg, &request, &response);
    assert(response.status >= 200 && response.status < 600);
    kvt_buffer_release(&call->body); /* the answer may take its room */
    let_go(call);
    return queue_answer(call, &response);
}

/* ---- who may, and where to ---- */

static void
refuse(struct call *call, unsigned status, enum kvt_err code, const char *reason)
{
    call->refusal = status;
    call->code = code;
    call->reason = reason;
    kvt_buffer_release(&call->body);
    let_go(call);
}

static bool
same_method(const char *route_method, const char *method)
{
    if (strcmp(method, "HEAD") == 0)
        method = "GET";
    return strcmp(route_method, method) == 0;
}

/* Does `pattern` match, and with which tail? */
static bool
match_path(const char *pattern, const char *path, const char **tail)
{
    const size_t size = strlen(pattern);

    *tail = "";
    if (size == 0 || pattern[size - 1] != '*')
        return strcmp(pattern, path) == 0;
    if (strncmp(pattern, path, size - 1) != 0)
        return false;
    *tail = path + size - 1;
    return true;
}

static void
add_allowed(struct call *call, const char *method)
{
    const size_t size = strlen(call->allow);

    (void)snprintf(call->allow + size, sizeof(call->allow) - size, "%s%s", size == 0 ? "" : ", ",
                   method);
}

static void
find_route(struct call *call, const char *method, const char *path)
{
    const struct kvt_http_options *options = &call->http->options;

    for (size_t i = 0; i < options->route_count; i++) {
        const struct kvt_http_route *route = &options->routes[i];
        const char *tail;

        if (!match_path(route->path, path, &tail))
            continue;
        if (same_method(route->method, method)) {
            call->route = route;
            call->tail = tail;
            return;
        }
        add_allowed(call, route->method);
    }
    if (is_builtin(path)) {
        if (same_method("GET", method))
            return;
        add_allowed(call, "GET");
    }
    if (call->allow[0] != '\0')
        refuse(call, 405, KVT_INVALID, "");
    else
        refuse(call, 404, KVT_NOTFOUND, "no such path");
}

static const char *
header(const struct call *call, const char *name)
{
    return MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND, name);
}

/* Everything that can be said from the request's head alone. */
static void
judge(struct call *call, const char *method, const char *path)
{
    const struct kvt_http *http = call->http;
    const char *host = header(call, "Host");

    if (!kvt_http_host_ok(host, http->bind, http->hosts)) {
        refuse(call, 403, KVT_DENIED, "the Host header is no name of this server");
        return;
    }
    if (!kvt_http_origin_ok(header(call, "Origin"), host)) {
        refuse(call, 403, KVT_DENIED, "the Origin header is of another site");
        return;
    }
    call->trusted = kvt_http_token_ok(header(call, "Authorization"), http->token);
    find_route(call, method, path);
    if (call->route == NULL || !call->route->mutating)
        return;
    if (http->token[0] == '\0')
        refuse(call, 403, KVT_DENIED, "no admin token is set, so nothing may be changed here");
    else if (!call->trusted)
        refuse(call, 401, KVT_DENIED, "this needs \"Authorization: Bearer <admin token>\"");
}

/* ---- libmicrohttpd's callbacks ---- */

static bool
announces_too_much(const struct call *call)
{
    const char *text = header(call, MHD_HTTP_HEADER_CONTENT_LENGTH);
    unsigned long long size;
    char *end;

    if (text == NULL)
        return false;
    size = strtoull(text, &end, 10);
    return size > KVT_HTTP_BODY_MAX;
}

static enum MHD_Result
begin(struct kvt_http *http, struct MHD_Connection *connection, const char *method,
      const char *path, void **state)
{
    struct call *call = kvt_calloc(1, sizeof(*call));
    const char *fault;

    if (call == NULL)
        return MHD_NO; /* the connection is closed; there is no memory to say more */
    call->http = http;
    call->connection = connection;
    call->tail = "";
    kvt_buffer_init(&call->body, KVT_HTTP_BODY_MAX);
    atomic_fetch_add(&http->life.call_count, 1);
    *state = call;
    fault = kvt_http_daemon_fault(connection);
    if (fault != NULL) {
        /* An answer before the body: the library closes the connection after it. */
        refuse(call, 400, KVT_INVALID, fault);
        return perform(call, method, path);
    }
    judge(call, method, path);
    if (announces_too_much(call)) {
        /* Answered before the body: whoever asked "Expect: 100-continue" need not send it. */
        refuse(call, 413, KVT_RANGE, "the request's body is too large");
        return perform(call, method, path);
    }
    return MHD_YES;
}

/* One piece of the body; false when the sender will not stop. */
static bool
take_piece(struct call *call, const char *bytes, size_t size)
{
    if (call->refusal != 0) {
        call->discarded += size;
        return call->discarded <= DISCARD_MAX;
    }
    if (call->body.size + size > KVT_HTTP_BODY_MAX) {
        refuse(call, 413, KVT_RANGE, "the request's body is too large");
        return true;
    }
    if (!hold(call, size)) {
        refuse(call, 503, KVT_AGAIN, "too many requests at once");
        return true;
    }
    kvt_buffer_append(&call->body, bytes, size);
    if (!kvt_buffer_ok(&call->body))
        refuse(call, 503, KVT_NOMEM, "out of memory");
    return true;
}

/* Eight parameters, because libmicrohttpd says so. */
/* NOLINTBEGIN(readability-function-size) */
static enum MHD_Result
on_request(void *arg, struct MHD_Connection *connection, const char *path, const char *method,
           const char *version, const char *bytes, size_t *size, void **state)
{
    struct call *call = *state;

    (void)version;
    if (call == NULL)
        return begin(arg, connection, method, path, state);
    if (*size > 0) {
        const bool go_on = take_piece(call, bytes, *size);

        *size = 0;
        return go_on ? MHD_YES : MHD_NO;
    }
    return perform(call, method, path);
}

/* NOLINTEND(readability-function-size) */

static void
on_completed(void *arg, struct MHD_Connection *connection, void **state,
             enum MHD_RequestTerminationCode why)
{
    struct call *call = *state;
    struct kvt_http *http = arg;

    (void)connection;
    (void)why;
    if (call == NULL)
        return;
    *state = NULL;
    let_go(call);
    kvt_buffer_release(&call->body);
    kvt_free(call);
    atomic_fetch_sub(&http->life.call_count, 1);
}

/* ---- life ---- */

/* What comes behind a NUL would be cut off, and "/%00rubbish" be "/": it is left as it came. */
static size_t
unescape(void *arg, struct MHD_Connection *connection, char *text)
{
    (void)arg;
    (void)connection;
    return strstr(text, "%00") != NULL ? strlen(text) : MHD_http_unescape(text);
}

static void
register_metrics(struct kvt_http *http)
{
    static const char *const labels[STATUS_CLASSES] = {
        [2] = "code=\"2xx\"",
        [3] = "code=\"3xx\"",
        [4] = "code=\"4xx\"",
        [5] = "code=\"5xx\"",
    };

    for (size_t i = 2; i < STATUS_CLASSES; i++) {
        http->answers[i] = &http->unseen;
        if (http->options.metrics != NULL)
            http->answers[i] = kvt_metrics_add(http->options.metrics, KVT_METRIC_COUNTER,
                                               "kvtier_http_answers_total", labels[i],
                                               "Answers of the admin server, by kind of status.");
    }
}

enum kvt_err
kvt_http_start(struct kvt_http **out, const struct kvt_http_options *options, struct kvt_error *err)
{
    struct kvt_http *http;
    enum kvt_err rc;

    assert(options->bind != NULL && options->token != NULL);
    *out = NULL;
    http = kvt_calloc(1, sizeof(*http));
    if (http == NULL)
        return kvt_error_set(err, KVT_NOMEM, "HTTP server: out of memory");
    http->options = *options;
    http->memory_max = options->memory_max == 0 ? KVT_HTTP_MEMORY_MAX : options->memory_max;
    register_metrics(http);
    http->bind = kvt_strdup(options->bind);
    http->token = kvt_strdup(options->token);
    http->hosts = kvt_strdup(options->hosts == NULL ? "" : options->hosts);
    if (http->bind == NULL || http->token == NULL || http->hosts == NULL) {
        rc = kvt_error_set(err, KVT_NOMEM, "HTTP server: out of memory");
        goto fail;
    }
    if (strlen(options->token) >= KVT_HTTP_TOKEN_MAX) {
        rc = kvt_error_set(err, KVT_RANGE, "the admin token is longer than %d bytes",
                           KVT_HTTP_TOKEN_MAX - 1);
        goto fail;
    }
    rc = kvt_http_daemon_start(
        &http->life,
        &(struct kvt_http_daemon_options){.bind = options->bind,
                                          .port = options->port,
                                          .what = "the HTTP server",
                                          .area = "base.http",
                                          .threads = KVT_HTTP_THREADS,
                                          .connections_max = KVT_HTTP_CONNECTIONS_MAX,
                                          .on_request = on_request,
                                          .on_completed = on_completed,
                                          .unescape = unescape,
                                          .arg = http},
        err);
    if (rc != KVT_OK)
        goto fail;
    *out = http;
    return KVT_OK;

fail:
    kvt_http_stop(http);
    return rc;
}

uint16_t
kvt_http_port(const struct kvt_http *http)
{
    return http->life.port;
}

void
kvt_http_stop(struct kvt_http *http)
{
    if (http == NULL)
        return;
    kvt_http_daemon_drain(&http->life);
    kvt_http_daemon_end(&http->life);
    kvt_free(http->bind);
    if (http->token != NULL)
        explicit_bzero(http->token, strlen(http->token));
    kvt_free(http->token);
    kvt_free(http->hosts);
    kvt_free(http);
}
