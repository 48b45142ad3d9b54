#include "gateway/s3/s3_server.h"

#include <assert.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "base/http/http_daemon.h"
#include "base/thread/queue.h"
#include "gateway/block/reader.h"
#include "gateway/http/connections.h"
#include "gateway/http/payload.h"
#include "gateway/tier/body_cache.h"

enum {
    CONNECTION_MEMORY = 64 << 10, /* the library clears all of it for each request */
    IO_THREADS_MAX = 64,
    TAKE_WAIT_MS = 1000,
    CUT_EVERY_MS = 1000,
    TARGET_MAX = 8192,
};

enum phase {
    PHASE_NEW,     /* nothing but the target is known */
    PHASE_BODY,    /* signed and admitted: the body comes */
    PHASE_REFUSED, /* the answer is an error; what still comes is thrown away */
    PHASE_PARKED,  /* with an I/O thread */
    PHASE_READY,   /* answered */
    PHASE_WAITING, /* answered in part; an I/O thread fetches what comes next */
};

struct call {
    struct gateway_s3_server *front;
    struct MHD_Connection *connection;
    struct gateway_request *request; /* NULL: no memory for it */
    enum phase phase;
    bool close;    /* end the connection after the answer */
    bool failed;   /* no more of the body */
    uint64_t next; /* of the body: what is waited for */
    size_t discarded;
};

/* What a connection has from its beginning to its end. */
struct guest {
    struct gateway_connection *caller;
    struct kvt_tls_pair *pair; /* what it was shown; NULL: plain HTTP */
};

struct gateway_s3_server {
    struct gateway_s3_server_options options;
    struct kvt_http_daemon life;
    struct kvt_queue *queue; /* of struct call */
    struct gateway_connections *callers;
    _Atomic uint64_t cut_ms; /* when the callers are looked at next; monotonic */
    pthread_t threads[IO_THREADS_MAX];
    unsigned thread_count;
    _Atomic uint64_t next_id;
    _Atomic bool stopping;
};

/* ---- I/O threads ---- */

static void
handle(struct call *call)
{
    struct gateway_request *request = call->request;
    const enum gateway_s3_error fault = gateway_payload_check(request);

    if (fault != GATEWAY_S3_ERROR_NONE)
        (void)gateway_request_fail(request, fault);
    else
        gateway_s3_dispatch(call->front->options.s3, request);
}

static void
serve(struct call *call)
{
    if (call->phase == PHASE_WAITING)
        (void)!gateway_reader_fetch(call->request->reader, call->next); /* it tells again */
    else
        handle(call);
    call->phase = PHASE_READY;
    MHD_resume_connection(call->connection); /* from here on the call is the HTTP thread's */
}

/* Whoever comes by when it is time does it. */
static void
cut_callers(struct gateway_s3_server *front)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    uint64_t due_ms = atomic_load(&front->cut_ms);

    if (now_ms >= due_ms &&
        atomic_compare_exchange_strong(&front->cut_ms, &due_ms, now_ms + CUT_EVERY_MS))
        gateway_stats_add(front->options.s3->context->stats, GATEWAY_STAT_CUT,
                          gateway_connections_cut(front->callers, now_ms));
}

static void *
io_main(void *arg)
{
    struct gateway_s3_server *front = arg;
    void *call;

    for (;;) {
        cut_callers(front);
        if (kvt_queue_take(front->queue, &call, 1, TAKE_WAIT_MS) > 0)
            serve(call);
        else if (kvt_queue_closed(front->queue))
            return NULL;
    }
}

/* ---- HTTP threads ---- */

static struct gateway_connection *
caller_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    const struct guest *guest = info == NULL ? NULL : info->socket_context;

    return guest == NULL ? NULL : guest->caller;
}

static struct guest *
welcome(struct gateway_s3_server *front, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct guest *guest = kvt_calloc(1, sizeof(*guest));

    if (guest == NULL)
        return NULL; /* nobody watches it; over TLS it has no certificate, and ends there */
    if (info != NULL)
        guest->caller =
            gateway_connections_enter(front->callers, info->connect_fd, kvt_clock_mono_ms());
    if (front->options.tls != NULL)
        guest->pair = kvt_tls_greet(front->options.tls, connection);
    return guest;
}

static void
part(struct gateway_s3_server *front, struct guest *guest)
{
    if (guest == NULL)
        return;
    gateway_connections_leave(front->callers, guest->caller);
    kvt_tls_drop(guest->pair);
    kvt_free(guest);
}

static void
on_connection(void *arg, struct MHD_Connection *connection, void **context,
              enum MHD_ConnectionNotificationCode what)
{
    struct gateway_s3_server *front = arg;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = welcome(front, connection);
    } else {
        part(front, *context);
        *context = NULL;
    }
}

/* First word of a request: its raw target.  What is returned comes back as the request's state. */
static void *
on_target(void *arg, const char *target, struct MHD_Connection *connection)
{
    struct gateway_s3_server *front = arg;
    struct call *call = kvt_calloc(1, sizeof(*call));
    struct gateway_request *request;

    if (call == NULL)
        return NULL;
    atomic_fetch_add(&front->life.call_count, 1);
    gateway_connections_begin(front->callers, caller_of(connection), kvt_clock_mono_ms());
    call->front = front;
    call->connection = connection;
    request = kvt_calloc(1, sizeof(*request));
    if (request == NULL)
        return call;
    kvt_buffer_init(&request->body, front->options.s3->batch_max + 1);
    kvt_buffer_init(&request->answer, gateway_s3_answer_max(front->options.s3));
    (void)snprintf(request->id, sizeof(request->id), "%016" PRIX64,
                   atomic_fetch_add(&front->next_id, 1));
    request->target = (struct gateway_target){.path = "/", .key = "", .query = ""};
    request->content_type = "application/xml";
    request->status = 200;
    request->takes_reader = true;
    request->takes_sealed = front->options.tls == NULL;
    request->raw = strlen(target) < TARGET_MAX ? kvt_strdup(target) : NULL;
    call->request = request;
    return call;
}

static size_t
keep_escapes(void *arg, struct MHD_Connection *connection, char *text)
{
    (void)arg;
    (void)connection;
    return strlen(text); /* targets are decoded by gateway/http/target.h, once */
}

static enum MHD_Result
on_header(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct call *call = arg;

    (void)kind;
    if (gateway_request_header_add(call->request, name, value == NULL ? "" : value) == KVT_OK)
        return MHD_YES;
    call->request->fault = GATEWAY_S3_ERROR_HEADERS_LARGE;
    return MHD_NO;
}

/* What is asked for, and by whom. */
static enum gateway_s3_error
understand(struct call *call, const char *method)
{
    struct gateway_s3_server *front = call->front;
    struct gateway_request *request = call->request;
    struct gateway_stats *stats = front->options.s3->context->stats;
    enum gateway_s3_error fault;
    const char *host;

    (void)snprintf(request->method, sizeof(request->method), "%s", method);
    if (strlen(method) >= sizeof(request->method))
        return GATEWAY_S3_ERROR_METHOD;
    if (request->raw == NULL ||
        gateway_target_parse(request->raw, &request->target, NULL) != KVT_OK) {
        gateway_stats_add(stats, GATEWAY_STAT_HTTP_BAD, 1);
        return GATEWAY_S3_ERROR_INVALID_URI;
    }
    if (kvt_http_daemon_fault(call->connection) != NULL) {
        call->close = true;
        return GATEWAY_S3_ERROR_INVALID_HEAD;
    }
    (void)MHD_get_connection_values(call->connection, MHD_HEADER_KIND, on_header, call);
    if (request->fault != GATEWAY_S3_ERROR_NONE)
        return request->fault;
    fault = gateway_auth_check(front->options.auth, request, kvt_clock_unix_ms());
    host = gateway_request_header(request, "host");
    if (host != NULL)
        gateway_target_host(&request->target, host, front->options.domains);
    if (fault == GATEWAY_S3_ERROR_NONE && !gateway_auth_permits(request, front->options.s3->bucket))
        fault = GATEWAY_S3_ERROR_FORBIDDEN;
    if (fault != GATEWAY_S3_ERROR_NONE)
        gateway_stats_add(stats, GATEWAY_STAT_AUTH_FAILED, 1);
    return fault;
}

/* Everything that can be said before the body: understood, signed, admitted, and room for it. */
static enum gateway_s3_error
admit(struct call *call, const char *method)
{
    struct gateway_s3_server *front = call->front;
    struct gateway_request *request = call->request;
    struct gateway_s3 *s3 = front->options.s3;
    enum gateway_s3_error fault = understand(call, method);
    uint64_t length = 0;

    if (fault == GATEWAY_S3_ERROR_NONE)
        fault = gateway_payload_begin(request, &length);
    if (fault == GATEWAY_S3_ERROR_NONE)
        fault = gateway_s3_admit(s3, length);
    if (fault != GATEWAY_S3_ERROR_NONE)
        return fault;
    if (atomic_load(&front->stopping) || !gateway_budget_take(s3->budget, length)) {
        gateway_stats_add(s3->context->stats, GATEWAY_STAT_SLOW_DOWN, 1);
        return GATEWAY_S3_ERROR_SLOW_DOWN;
    }
    request->taken += length;
    if (length > 0 &&
        gateway_body_cache_reserve(s3->budget->body_cache, &request->body, (size_t)length) == NULL)
        return GATEWAY_S3_ERROR_SLOW_DOWN;
    g4_pieces_begin(&request->pieces, length);
    return GATEWAY_S3_ERROR_NONE;
}

static ssize_t
no_bytes(void *arg, uint64_t at, char *buffer, size_t size)
{
    (void)arg;
    (void)at;
    (void)buffer;
    (void)size;
    return MHD_CONTENT_READER_END_WITH_ERROR; /* not called: HEAD answers carry no body */
}

/* Hand the call to the I/O threads; the connection sleeps until one of them is done with it. */
static bool
suspend(struct call *call, enum phase phase)
{
    call->phase = phase;
    MHD_suspend_connection(call->connection);
    if (kvt_queue_put(call->front->queue, call) == KVT_OK)
        return true;
    call->phase = PHASE_READY;
    MHD_resume_connection(call->connection);
    return false;
}

/* The bytes of a body that is read while it is sent. */
static ssize_t
on_bytes(void *arg, uint64_t at, char *buffer, size_t size)
{
    struct call *call = arg;
    size_t got;
    enum kvt_err rc;

    if (call->failed)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    call->next = call->request->body_from + at;
    rc = gateway_reader_read(call->request->reader, call->next, buffer, size, &got);
    if (rc == KVT_AGAIN)
        call->failed = !suspend(call, PHASE_WAITING); /* or: we are closing */
    else if (rc != KVT_OK)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    return (ssize_t)got;
}

/* From sealed memory: the kernel sends it as it is.  The response closes the descriptor. */
static struct MHD_Response *
respond_sealed(const struct gateway_request *request, int fd)
{
    struct MHD_Response *response =
        MHD_create_response_from_fd_at_offset64(request->body_size, fd, request->body_from);

    if (response == NULL)
        (void)close(fd);
    return response;
}

static struct MHD_Response *
make_response(struct call *call)
{
    struct gateway_request *request = call->request;
    const void *bytes = NULL;

    if (request->head_only)
        return MHD_create_response_from_callback(request->length, 4096, no_bytes, NULL, NULL);
    if (request->reader != NULL && request->body_size > 0) {
        const int sealed = gateway_reader_take_sealed(request->reader);

        if (sealed >= 0)
            return respond_sealed(request, sealed);
        bytes = gateway_reader_held(request->reader, request->body_from, request->body_size);
        if (bytes == NULL)
            return MHD_create_response_from_callback(
                request->body_size, gateway_reader_piece(request->reader), on_bytes, call, NULL);
    } else if (request->body_size > 0) {
        bytes = request->answer.data + request->body_from;
    }
    /* The bytes are the request's, which outlives the answer's sending. */
    return MHD_create_response_from_buffer(request->body_size, (void *)(uintptr_t)bytes,
                                           MHD_RESPMEM_PERSISTENT);
}

/* "name: value" lines, cut up where they are. */
static void
add_lines(struct MHD_Response *response, struct kvt_buffer *lines)
{
    char *at = lines->size == 0 || *kvt_buffer_text(lines) == '\0' ? NULL : (char *)lines->data;

    while (at != NULL && *at != '\0') {
        char *colon = strchr(at, ':');
        char *end = strchr(at, '\n');

        if (colon == NULL || end == NULL || end < colon + 2)
            return;
        *colon = *end = '\0';
        /* The library knows no empty header; a client takes the blank away. */
        (void)MHD_add_response_header(response, at, colon[2] == '\0' ? " " : colon + 2);
        at = end + 1;
    }
}

static enum MHD_Result
answer(struct call *call)
{
    struct gateway_request *request = call->request;
    struct MHD_Response *response = make_response(call);
    enum MHD_Result queued;

    if (response == NULL)
        return MHD_NO;
    for (size_t i = 0; i < request->field_count; i++)
        (void)MHD_add_response_header(response, request->fields[i].name, request->fields[i].value);
    add_lines(response, &request->lines);
    if (request->status != 204 && request->status != 304)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                      request->content_type);
    (void)MHD_add_response_header(response, "x-amz-request-id", request->id);
    if (request->fault == GATEWAY_S3_ERROR_SLOW_DOWN ||
        request->fault == GATEWAY_S3_ERROR_UNAVAILABLE)
        (void)MHD_add_response_header(response, "Retry-After", "1");
    if (call->close || atomic_load(&call->front->stopping))
        (void)MHD_add_response_header(response, "Connection", "close");
    queued = MHD_queue_response(call->connection, request->status, response);
    MHD_destroy_response(response);
    return queued;
}

/* First call for a request.  A refusal of one that waits for "100 Continue" is answered at once,
 * which also ends the connection; otherwise the body is read off first, so that both sides stay in
 * step. */
static enum MHD_Result
begin(struct call *call, const char *method)
{
    const enum gateway_s3_error fault = admit(call, method);

    call->phase = PHASE_BODY;
    if (fault == GATEWAY_S3_ERROR_NONE)
        return MHD_YES;
    (void)gateway_request_fail(call->request, fault);
    call->phase = PHASE_REFUSED;
    if (call->close || gateway_request_header(call->request, "expect") != NULL) {
        call->close = true;
        return answer(call);
    }
    return MHD_YES;
}

static enum MHD_Result
take_bytes(struct call *call, const char *bytes, size_t *size)
{
    const size_t given = *size;

    *size = 0;
    if (call->phase == PHASE_BODY) {
        enum gateway_s3_error fault = gateway_payload_take(call->request, bytes, given);

        if (fault == GATEWAY_S3_ERROR_NONE && call->request->body.size > call->request->taken)
            fault = GATEWAY_S3_ERROR_TOO_LARGE;
        if (fault == GATEWAY_S3_ERROR_NONE)
            return MHD_YES;
        (void)gateway_request_fail(call->request, fault);
        call->phase = PHASE_REFUSED;
    }
    call->discarded += given;
    /* A body we do not want is only read up to a bound; then the connection is cut. */
    return call->discarded <= 4 * call->front->options.s3->batch_max ? MHD_YES : MHD_NO;
}

/* What is in memory need not go from thread to thread. */
static bool
is_answered_at_once(struct call *call)
{
    struct gateway_request *request = call->request;

    return request->body.size == 0 && request->chunked == NULL &&
           gateway_payload_check(request) == GATEWAY_S3_ERROR_NONE &&
           gateway_s3_dispatch_at_once(call->front->options.s3, request);
}

static enum MHD_Result
park(struct call *call)
{
    if (is_answered_at_once(call)) {
        call->phase = PHASE_READY;
        return answer(call);
    }
    if (!suspend(call, PHASE_PARKED))
        (void)gateway_request_fail(call->request, GATEWAY_S3_ERROR_SLOW_DOWN);
    return MHD_YES;
}

static enum MHD_Result
on_request(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
           const char *version, const char *bytes, size_t *size, void **state)
{
    struct call *call = *state;

    (void)arg;
    (void)connection;
    (void)url;
    (void)version;
    if (call == NULL || call->request == NULL)
        return MHD_NO; /* no memory: cut the connection */
    switch (call->phase) {
    case PHASE_NEW: return begin(call, method);
    case PHASE_BODY: return *size > 0 ? take_bytes(call, bytes, size) : park(call);
    case PHASE_REFUSED: return *size > 0 ? take_bytes(call, bytes, size) : answer(call);
    case PHASE_PARKED:
    case PHASE_WAITING: return MHD_YES;
    case PHASE_READY: return answer(call);
    }
    return MHD_NO;
}

static void
on_completed(void *arg, struct MHD_Connection *connection, void **state,
             enum MHD_RequestTerminationCode why)
{
    struct gateway_s3_server *front = arg;
    struct call *call = *state;

    (void)why;
    gateway_connections_begin(front->callers, caller_of(connection), kvt_clock_mono_ms());
    if (call == NULL)
        return;
    *state = NULL;
    gateway_request_release(call->request, front->options.s3->budget);
    kvt_free(call);
    atomic_fetch_sub(&front->life.call_count, 1);
}

/* ---- life ---- */

static enum kvt_err
start_http(struct gateway_s3_server *front, struct kvt_error *err)
{
    const struct gateway_s3_server_options *options = &front->options;
    const bool tls = options->tls != NULL;
    const struct MHD_OptionItem end = {MHD_OPTION_END, 0, NULL};
    const struct MHD_OptionItem more[] = {
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY, NULL},
        {MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)on_target, front},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, front},
        tls ? kvt_tls_option() : end,
        end};

    return kvt_http_daemon_start(
        &front->life,
        &(struct kvt_http_daemon_options){.bind = options->bind,
                                          .port = options->port,
                                          .what = "the S3 port",
                                          .area = "gateway.front",
                                          .flags = tls ? MHD_USE_TLS : 0u,
                                          .threads = options->http_threads,
                                          .connections_max = options->connections_max,
                                          .on_request = on_request,
                                          .on_completed = on_completed,
                                          .unescape = keep_escapes,
                                          .arg = front,
                                          .more = more},
        err);
}

enum kvt_err
gateway_s3_server_start(struct gateway_s3_server **out,
                        const struct gateway_s3_server_options *options, struct kvt_error *err)
{
    struct gateway_s3_server *front;
    uint64_t id;
    enum kvt_err rc;

    *out = NULL;
    front = kvt_calloc(1, sizeof(*front));
    if (front == NULL)
        return kvt_error_set(err, KVT_NOMEM, "S3 port");
    front->options = *options;
    kvt_random_system(&id, sizeof(id));
    atomic_store(&front->next_id, id);
    rc = gateway_connections_new(&front->callers, options->patience_ms);
    if (rc == KVT_OK)
        rc = kvt_queue_new(&front->queue, options->connections_max);
    if (rc != KVT_OK) {
        (void)kvt_error_set(err, rc, "S3 port");
        goto fail;
    }
    while (front->thread_count < options->io_threads && front->thread_count < IO_THREADS_MAX) {
        const int sys = pthread_create(&front->threads[front->thread_count], NULL, io_main, front);

        if (sys != 0) {
            rc = kvt_error_sys(err, sys, "start an I/O thread");
            goto fail;
        }
        front->thread_count++;
    }
    rc = start_http(front, err);
    if (rc != KVT_OK)
        goto fail;
    *out = front;
    return KVT_OK;

fail:
    gateway_s3_server_stop(front);
    return rc;
}

uint16_t
gateway_s3_server_port(const struct gateway_s3_server *front)
{
    return front->life.port;
}

void
gateway_s3_server_stop(struct gateway_s3_server *front)
{
    if (front == NULL)
        return;
    atomic_store(&front->stopping, true);
    kvt_http_daemon_drain(&front->life);
    /* What is parked is answered, whatever it takes: stores have deadlines.  Only then may the
     * daemon go, which must not have suspended connections. */
    if (front->queue != NULL)
        kvt_queue_close(front->queue);
    for (unsigned i = 0; i < front->thread_count; i++)
        (void)pthread_join(front->threads[i], NULL);
    kvt_http_daemon_end(&front->life);
    kvt_queue_free(front->queue);
    gateway_connections_free(front->callers);
    kvt_free(front);
}
