#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/thread/cond.h"
#include "base/thread/queue.h"
#include "base/thread/wake.h"

#include "engine/rpc/rpc.h"
#include "engine/rpc/rpc_links.h"

enum {
    BATCH = 64,       /* messages between two looks at the clock */
    IDLE_MS = 1000,   /* the thread sleeps at most */
    LINGER_MS = 100,  /* for farewells to leave */
    SLOW_IDLE = 1000, /* ms a thread of slow handlers sleeps at most */
    SILENCES = 3      /* a client knows well before its server that they are apart */
};

struct engine_rpc_call {
    struct engine_rpc_server *server;
    struct engine_rpc_call *next_free;
    engine_rpc_handler_fn *run;
    uint64_t link;
    uint64_t number;
    uint64_t over_ms; /* monotonic */
    uint32_t method;
    bool goes_on;
    zmq_msg_t message;
    const uint8_t *bytes; /* within it */
    size_t size;
};

struct engine_rpc_server {
    struct engine_rpc_server_options options; /* but its pointers to what is copied */
    struct engine_rpc_method methods[ENGINE_RPC_METHODS_MAX];
    struct engine_rpc_call *calls;
    char endpoint[ENGINE_RPC_ENDPOINT_MAX];
    int wake_fd;
    pthread_t thread;
    struct kvt_queue *queue; /* of slow calls */
    pthread_t slow[ENGINE_RPC_THREADS_MAX];
    uint32_t slow_count;
    bool complained;

    struct {
        pthread_mutex_t lock; /* guards this struct */
        pthread_cond_t idle;  /* nothing is under way */
        struct engine_rpc_port port;
        struct engine_rpc_links *links;
        struct engine_rpc_call *free;
        struct engine_rpc_server_stats stats;
        size_t bytes; /* of questions under way */
        bool stopping;
        bool closing;
    } shared;
};

static void
lock(struct engine_rpc_server *server)
{
    (void)pthread_mutex_lock(&server->shared.lock);
}

static void
unlock(struct engine_rpc_server *server)
{
    (void)pthread_mutex_unlock(&server->shared.lock);
}

/* The book has something to say; under the lock. */
static void
send_out(void *arg, const struct engine_rpc_peer *peer, const void *bytes, size_t size)
{
    struct engine_rpc_server *server = arg;

    engine_rpc_port_send(&server->shared.port, peer, bytes, size);
}

/* ---- calls ---- */

static void
refuse_locked(struct engine_rpc_server *server, const struct engine_rpc_message *message,
              enum kvt_err why)
{
    const struct engine_rpc_message answer = {
        .kind = ENGINE_RPC_REFUSED, .link = message->link, .number = message->number, .code = why};

    server->shared.stats.refused++;
    engine_rpc_links_answer(server->shared.links, &answer, engine_rpc_kept_new(&answer));
}

/* A place for a call, or NULL and why not. */
static struct engine_rpc_call *
find_room_locked(struct engine_rpc_server *server, const struct engine_rpc_message *message,
                 enum kvt_err *why)
{
    struct engine_rpc_call *call = server->shared.free;

    *why = KVT_OK;
    if (server->shared.stopping)
        *why = KVT_UNAVAILABLE;
    else if (message->code >= ENGINE_RPC_METHODS_MAX || server->methods[message->code].run == NULL)
        *why = KVT_UNSUPPORTED;
    else if (message->wait_ms == 0)
        *why = KVT_TIMEOUT;
    else if (call == NULL || message->size > ENGINE_RPC_BYTES_MAX - server->shared.bytes)
        *why = KVT_AGAIN;
    return *why == KVT_OK ? call : NULL;
}

static struct engine_rpc_call *
begin_call_locked(struct engine_rpc_server *server, const struct engine_rpc_message *message,
                  zmq_msg_t *whole, uint64_t now_ms)
{
    const size_t offset =
        message->size > 0 ? (size_t)(message->bytes - (const uint8_t *)zmq_msg_data(whole)) : 0;
    enum kvt_err why;
    struct engine_rpc_call *call = find_room_locked(server, message, &why);

    if (call == NULL) {
        refuse_locked(server, message, why);
        return NULL;
    }
    server->shared.free = call->next_free;
    server->shared.bytes += message->size;
    server->shared.stats.under_way++;
    server->shared.stats.calls++;
    call->run = server->methods[message->code].run;
    call->link = message->link;
    call->number = message->number;
    call->method = message->code;
    call->over_ms = now_ms + message->wait_ms;
    call->goes_on = true;
    (void)zmq_msg_init(&call->message);
    (void)zmq_msg_move(&call->message, whole);
    call->size = message->size;
    call->bytes = message->size > 0 ? (const uint8_t *)zmq_msg_data(&call->message) + offset : NULL;
    return call;
}

static void
complain_locked(struct engine_rpc_server *server, const struct engine_rpc_peer *peer,
                enum kvt_err why)
{
    uint32_t number = 0;

    server->shared.stats.malformed++;
    if (server->complained)
        return;
    server->complained = true;
    /* ZeroMQ's names of connections are a zero and a number. */
    if (peer->size == sizeof(number) + 1)
        memcpy(&number, peer->name + 1, sizeof(number));
    kvt_log_warn("engine.rpc", "malformed",
                 "%s: dropped what connection %u sent: %s; further ones are only counted",
                 server->endpoint, number,
                 why == KVT_UNSUPPORTED ? "another version of the protocol" : "not a message");
}

/* Take one message.  KVT_AGAIN: there is none.  `*call` is what it asks to run, or NULL. */
static enum kvt_err
take(struct engine_rpc_server *server, struct engine_rpc_call **call)
{
    struct engine_rpc_message message;
    struct engine_rpc_peer peer;
    zmq_msg_t whole;
    enum kvt_err rc;

    *call = NULL;
    (void)zmq_msg_init(&whole);
    lock(server);
    rc = engine_rpc_port_receive(&server->shared.port, &peer, &whole);
    if (rc == KVT_OK)
        rc = engine_rpc_wire_read(&message, zmq_msg_data(&whole), zmq_msg_size(&whole));
    if (rc == KVT_OK) {
        const uint64_t now_ms = kvt_clock_mono_ms();

        if (engine_rpc_links_take(server->shared.links, &peer, &message, now_ms))
            *call = begin_call_locked(server, &message, &whole, now_ms);
    } else if (rc != KVT_AGAIN) {
        complain_locked(server, &peer, rc);
    }
    unlock(server);
    (void)zmq_msg_close(&whole);
    return rc == KVT_AGAIN ? KVT_AGAIN : KVT_OK;
}

void
engine_rpc_answer(struct engine_rpc_call *call, enum kvt_err status, const void *bytes, size_t size)
{
    struct engine_rpc_server *server = call->server;
    const struct engine_rpc_message answer = {.kind = ENGINE_RPC_ANSWER,
                                              .link = call->link,
                                              .number = call->number,
                                              .code = status,
                                              .bytes = bytes,
                                              .size = size};
    struct engine_rpc_kept *kept;

    assert(call->goes_on); /* exactly one answer a call */
    assert(size <= ENGINE_RPC_PAYLOAD_MAX);
    assert((unsigned)status < KVT_ERR_COUNT);
    kept = engine_rpc_kept_new(&answer);
    (void)zmq_msg_close(&call->message);
    lock(server);
    call->goes_on = false;
    engine_rpc_links_answer(server->shared.links, &answer, kept);
    server->shared.bytes -= call->size;
    call->next_free = server->shared.free;
    server->shared.free = call;
    /* Sending may have used up the news that something came: its reader must hear of it. */
    if (!pthread_equal(pthread_self(), server->thread) &&
        (engine_rpc_port_events(&server->shared.port) & ZMQ_POLLIN) != 0)
        kvt_wake_signal(server->wake_fd);
    if (--server->shared.stats.under_way == 0)
        (void)pthread_cond_broadcast(&server->shared.idle);
    unlock(server);
}

const uint8_t *
engine_rpc_call_bytes(const struct engine_rpc_call *call, size_t *size)
{
    *size = call->size;
    return call->bytes;
}

uint32_t
engine_rpc_call_method(const struct engine_rpc_call *call)
{
    return call->method;
}

uint64_t
engine_rpc_call_link(const struct engine_rpc_call *call)
{
    return call->link;
}

bool
engine_rpc_call_is_over(const struct engine_rpc_call *call)
{
    return engine_rpc_call_wait_ms(call) == 0;
}

uint64_t
engine_rpc_call_wait_ms(const struct engine_rpc_call *call)
{
    struct engine_rpc_server *server = call->server;
    const uint64_t now_ms = kvt_clock_mono_ms();
    bool wanted;

    lock(server);
    wanted = !server->shared.stopping &&
             engine_rpc_links_wanted(server->shared.links, call->link, call->number);
    unlock(server);
    return wanted && now_ms < call->over_ms ? call->over_ms - now_ms : 0;
}

/* ---- threads ---- */

static void
run_call(struct engine_rpc_server *server, struct engine_rpc_call *call)
{
    if (!server->methods[call->method].slow)
        call->run(server->options.arg, call);
    else if (kvt_queue_put(server->queue, call) != KVT_OK)
        engine_rpc_answer(call, KVT_UNAVAILABLE, NULL, 0); /* it is closed: there is room for all */
}

static void *
run_slow(void *arg)
{
    struct engine_rpc_server *server = arg;
    void *item;

    while (!kvt_queue_closed(server->queue) || kvt_queue_count(server->queue) > 0) {
        struct engine_rpc_call *call;

        if (kvt_queue_take(server->queue, &item, 1, SLOW_IDLE) == 0)
            continue;
        call = item;
        if (engine_rpc_call_is_over(call))
            engine_rpc_answer(call, KVT_TIMEOUT, NULL, 0); /* nobody hears that */
        else
            call->run(server->options.arg, call);
    }
    return NULL;
}

/* End links that are silent, and tell of those that ended.  @return ms the thread may sleep; 0: it
 * used the socket, or may have */
static uint64_t
look_at_links(struct engine_rpc_server *server)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    uint64_t next_ms;
    bool moved = false;

    lock(server);
    next_ms = engine_rpc_links_expire(server->shared.links, now_ms);
    for (;;) {
        const uint64_t gone = engine_rpc_links_next_gone(server->shared.links);

        if (gone == 0)
            break;
        moved = true;
        unlock(server);
        if (server->options.gone != NULL)
            server->options.gone(server->options.arg, gone);
        lock(server);
    }
    unlock(server);
    if (moved)
        return 0;
    return next_ms - now_ms < IDLE_MS ? next_ms - now_ms : IDLE_MS;
}

static void
rest(struct engine_rpc_server *server, uint64_t wait_ms)
{
    struct pollfd files[] = {{.fd = server->shared.port.fd, .events = POLLIN},
                             {.fd = server->wake_fd, .events = POLLIN}};

    if (poll(files, 2, (int)wait_ms) > 0 && (files[1].revents & POLLIN) != 0)
        kvt_wake_clear(server->wake_fd);
}

static bool
closing(struct engine_rpc_server *server)
{
    bool answer;

    lock(server);
    answer = server->shared.closing;
    unlock(server);
    return answer;
}

static void *
run(void *arg)
{
    struct engine_rpc_server *server = arg;

    while (!closing(server)) {
        bool more = true;
        uint64_t wait_ms;

        for (size_t i = 0; i < BATCH && more; i++) {
            struct engine_rpc_call *call;

            more = take(server, &call) == KVT_OK;
            if (call != NULL)
                run_call(server, call);
        }
        wait_ms = look_at_links(server);
        if (!more && wait_ms > 0)
            rest(server, wait_ms);
    }
    (void)look_at_links(server); /* those that the farewell ended are told of, too */
    return NULL;
}

/* ---- life ---- */

static enum kvt_err
take_methods(struct engine_rpc_server *server, const struct engine_rpc_server_options *options,
             struct kvt_error *err)
{
    if (options->threads > ENGINE_RPC_THREADS_MAX || options->calls > ENGINE_RPC_CALLS_MAX)
        return kvt_error_set(err, KVT_INVALID, "rpc: %u threads, %u calls: too many",
                             options->threads, options->calls);
    for (size_t i = 0; i < options->method_count; i++) {
        const struct engine_rpc_method *method = &options->methods[i];

        if (method->number >= ENGINE_RPC_METHODS_MAX || method->run == NULL ||
            server->methods[method->number].run != NULL || (method->slow && options->threads == 0))
            return kvt_error_set(err, KVT_INVALID,
                                 "rpc: method %u: number too high or given twice, no handler, or "
                                 "slow without threads",
                                 method->number);
        server->methods[method->number] = *method;
    }
    server->options = *options;
    server->options.methods = NULL;
    server->options.endpoint = NULL;
    if (server->options.calls == 0)
        server->options.calls = ENGINE_RPC_CALLS_MAX;
    if (server->options.silence_ms == 0)
        server->options.silence_ms = SILENCES * ENGINE_RPC_SILENCE_MS;
    return KVT_OK;
}

static enum kvt_err
make_calls(struct engine_rpc_server *server)
{
    server->calls = kvt_calloc(server->options.calls, sizeof(*server->calls));
    if (server->calls == NULL)
        return KVT_NOMEM;
    for (uint32_t i = server->options.calls; i > 0; i--) {
        struct engine_rpc_call *call = &server->calls[i - 1];

        call->server = server;
        call->next_free = server->shared.free;
        server->shared.free = call;
    }
    return KVT_OK;
}

static enum kvt_err
start_threads(struct engine_rpc_server *server, struct kvt_error *err)
{
    int sys = 0;

    for (; server->slow_count < server->options.threads && sys == 0; server->slow_count++) {
        sys = pthread_create(&server->slow[server->slow_count], NULL, run_slow, server);
        if (sys != 0)
            break;
    }
    if (sys == 0) {
        /* A handler asks whether it is on this thread, and it may run before this returns. */
        lock(server);
        sys = pthread_create(&server->thread, NULL, run, server);
        unlock(server);
    }
    return sys == 0 ? KVT_OK : kvt_error_sys(err, sys, "rpc: thread");
}

static void
destroy(struct engine_rpc_server *server)
{
    if (server->queue != NULL)
        kvt_queue_close(server->queue);
    for (uint32_t i = 0; i < server->slow_count; i++)
        (void)pthread_join(server->slow[i], NULL);
    engine_rpc_port_close(&server->shared.port, LINGER_MS);
    engine_rpc_links_free(server->shared.links);
    kvt_queue_free(server->queue);
    kvt_free(server->calls);
    if (server->wake_fd >= 0)
        (void)close(server->wake_fd);
    (void)pthread_cond_destroy(&server->shared.idle);
    (void)pthread_mutex_destroy(&server->shared.lock);
    kvt_free(server);
}

static struct engine_rpc_server *
make(void)
{
    struct engine_rpc_server *server = kvt_calloc(1, sizeof(*server));

    if (server == NULL)
        return NULL;
    server->wake_fd = -1;
    if (pthread_mutex_init(&server->shared.lock, NULL) != 0)
        goto fail;
    if (kvt_cond_init(&server->shared.idle))
        return server;
    (void)pthread_mutex_destroy(&server->shared.lock);
fail:
    kvt_free(server);
    return NULL;
}

enum kvt_err
engine_rpc_server_open(struct engine_rpc_server **out,
                       const struct engine_rpc_server_options *options, struct kvt_error *err)
{
    struct engine_rpc_server *server = make();
    enum kvt_err rc = KVT_NOMEM;

    *out = NULL;
    (void)kvt_error_set(err, rc, "rpc: out of memory");
    if (server == NULL)
        return rc;
    rc = take_methods(server, options, err);
    if (rc != KVT_OK)
        goto fail;
    rc = make_calls(server);
    if (rc == KVT_OK)
        rc = kvt_queue_new(&server->queue, server->options.calls);
    if (rc == KVT_OK)
        rc = engine_rpc_links_new(&server->shared.links, server->options.silence_ms, send_out,
                                  server);
    if (rc != KVT_OK)
        goto fail;
    server->wake_fd = kvt_wake_open();
    if (server->wake_fd < 0) {
        rc = kvt_error_sys(err, errno, "rpc: eventfd");
        goto fail;
    }
    rc = engine_rpc_port_bind(&server->shared.port, options->endpoint, err);
    if (rc != KVT_OK)
        goto fail;
    memcpy(server->endpoint, server->shared.port.endpoint, sizeof(server->endpoint));
    rc = start_threads(server, err);
    if (rc != KVT_OK)
        goto fail;
    *out = server;
    return KVT_OK;

fail:
    destroy(server);
    return rc;
}

const char *
engine_rpc_server_endpoint(const struct engine_rpc_server *server)
{
    return server->endpoint;
}

void
engine_rpc_server_stop(struct engine_rpc_server *server)
{
    lock(server);
    server->shared.stopping = true;
    engine_rpc_links_stop(server->shared.links);
    unlock(server);
}

void
engine_rpc_server_close(struct engine_rpc_server *server)
{
    struct timespec deadline;
    bool answered = true;

    if (server == NULL)
        return;
    engine_rpc_server_stop(server);
    deadline = kvt_cond_deadline(ENGINE_RPC_CLOSE_MS);
    lock(server);
    while (server->shared.stats.under_way > 0 && answered)
        answered = kvt_cond_wait(&server->shared.idle, &server->shared.lock, &deadline);
    assert(answered); /* a handler did not answer */
    engine_rpc_links_bye(server->shared.links);
    server->shared.closing = true;
    unlock(server);
    kvt_wake_signal(server->wake_fd);
    (void)pthread_join(server->thread, NULL);
    destroy(server);
}

struct engine_rpc_server_stats
engine_rpc_server_stats(struct engine_rpc_server *server)
{
    struct engine_rpc_server_stats stats;

    lock(server);
    stats = server->shared.stats;
    engine_rpc_links_stats(server->shared.links, &stats);
    unlock(server);
    return stats;
}
