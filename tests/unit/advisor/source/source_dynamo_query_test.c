/*
 * What is tested: advisor/source/source_dynamo.h: asking a worker over TCP and over NATS, and the
 * dump
 *                 where the worker does not answer.
 * How: a worker of the test's own, with the frames of wire/dialect/dynamo_rpc.h, that misbehaves in
 *      every way it is told to; a real nats-server.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "advisor/source/source_dynamo.h"
#include "advisor/source/source_dynamo_callback.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "wire/dialect/dynamo_answer.h"
#include "wire/dialect/dynamo_rpc.h"
#include "wire/nats/bus.h"

#include "tests/support/nats_server.h"
#include "tests/support/seed.h"

enum { PATIENCE_MS = 20000, SHORT_MS = 400, QUICK_MS = 2000, ANSWER_MAX = 4 << 20 };
enum { LARGE = 3 << 20, REQUEST_MAX = 1 << 16 };

enum behaviour {
    FAIR,
    TRICKLE, /* a byte at a time */
    LARGE_ANSWER,
    STRANGERS,   /* others dial first: one with another name, one with garbage, one that leaves */
    SILENT,      /* others dial first and say nothing; it does not wait for them to be gone */
    SILENT_LONG, /* it waits until they have been hung up on */
    NO_ACK,      /* takes the question and says nothing */
    NO_DIAL,     /* says yes and never dials */
    REFUSE,      /* says no */
    PROLOGUE_ERROR, /* dials to say that it failed */
    HANG_UP,        /* in the middle of the answer */
    STALL,          /* in the middle of the answer */
    NO_DATA,        /* ends without an answer */
    HUGE_LENGTH,    /* a frame that claims to be longer than any may be */
    TOO_LARGE,      /* longer than the buffer of the asker */
    CLOSE_AT_ONCE,  /* hangs up on the question */
    GARBAGE_ACK,
};

struct worker {
    enum behaviour behaviour;
    int listener;
    uint16_t port;
    pthread_t thread;
    _Atomic bool stopping;
    struct kvt_buffer out;
    char id[WIRE_DYNAMO_RPC_NAME_MAX];
    char address[WIRE_DYNAMO_RPC_NAME_MAX];
    char subject[WIRE_DYNAMO_RPC_NAME_MAX];
    char path[64];
    bool json;
    uint8_t body[512];
    size_t body_size;
    int strangers[3];
    int dismissed; /* of them */
};

static const char ANSWER[] = "\x81\xa5"
                             "Error"
                             "\xa2no"; /* {"Error": "no"} */
static const char JSON_ANSWER[] = "{\"Error\":\"no\"}";

static int
listen_on_loopback(uint16_t *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static int
dial(const char *address)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    char host[64];
    unsigned port;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(sscanf(address, "%63[^:]:%u", host, &port), 2);
    at.sin_port = htons((uint16_t)port);
    assert_int_equal(inet_pton(AF_INET, host, &at.sin_addr), 1);
    if (connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0)
        return fd;
    (void)close(fd); /* the asker is gone */
    return -1;
}

/* False: the other end is gone. */
static bool
send_bytes(const struct worker *worker, int fd, const struct kvt_buffer *bytes, size_t size)
{
    const size_t step = worker->behaviour == TRICKLE ? 1 : size;

    for (size_t at = 0; at < size;) {
        const ssize_t sent =
            send(fd, bytes->data + at, step < size - at ? step : size - at, MSG_NOSIGNAL);

        if (sent <= 0)
            return false;
        at += (size_t)sent;
    }
    return true;
}

/* Until the asker hangs up, or the test ends. */
static void
wait_for_end(const struct worker *worker, int fd)
{
    char byte;

    while (!atomic_load(&worker->stopping)) {
        struct pollfd item = {.fd = fd, .events = POLLIN};

        if (poll(&item, 1, 20) > 0 && recv(fd, &byte, 1, MSG_DONTWAIT) <= 0)
            return;
    }
}

static void
put(struct worker *worker, enum wire_dynamo_rpc_kind kind, bool failed, const void *body,
    size_t size)
{
    struct wire_dynamo_rpc_frame frame = {
        .kind = kind, .failed = failed, .body = body, .body_size = size};

    (void)snprintf(frame.subject, sizeof(frame.subject), "%s", worker->subject);
    (void)snprintf(frame.text, sizeof(frame.text), "%s", failed ? "cannot do that" : "");
    assert_int_equal(wire_dynamo_rpc_put_frame(&worker->out, &frame, worker->json), KVT_OK);
}

static void
put_answer(struct worker *worker)
{
    const bool large = worker->behaviour == LARGE_ANSWER || worker->behaviour == TOO_LARGE;
    const size_t size = worker->behaviour == TOO_LARGE ? ANSWER_MAX + 1 : LARGE;
    uint8_t *bytes;

    if (!large) {
        if (worker->json)
            put(worker, WIRE_DYNAMO_RPC_DATA, false, JSON_ANSWER, sizeof(JSON_ANSWER) - 1);
        else
            put(worker, WIRE_DYNAMO_RPC_DATA, false, ANSWER, sizeof(ANSWER) - 1);
        return;
    }
    bytes = kvt_calloc(size, 1); /* as msgpack: bin 32 with a length */
    assert_non_null(bytes);
    bytes[0] = 0xc6;
    bytes[1] = (uint8_t)((size - 5) >> 24);
    bytes[2] = (uint8_t)((size - 5) >> 16);
    bytes[3] = (uint8_t)((size - 5) >> 8);
    bytes[4] = (uint8_t)(size - 5);
    put(worker, WIRE_DYNAMO_RPC_DATA, false, bytes, size);
    kvt_free(bytes);
}

static void
send_strangers(struct worker *worker)
{
    static const uint8_t garbage[64] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1};
    struct worker other = {.behaviour = FAIR};

    worker->strangers[0] = dial(worker->address);
    assert_true(send(worker->strangers[0], garbage, sizeof(garbage), MSG_NOSIGNAL) > 0);
    worker->strangers[1] = dial(worker->address);
    (void)snprintf(other.subject, sizeof(other.subject), "not-the-stream");
    kvt_buffer_init(&other.out, REQUEST_MAX);
    put(&other, WIRE_DYNAMO_RPC_HANDSHAKE, false, NULL, 0);
    (void)send_bytes(&other, worker->strangers[1], &other.out, other.out.size);
    kvt_buffer_release(&other.out);
    worker->strangers[2] = dial(worker->address);
    (void)close(worker->strangers[2]); /* hangs up without a word */
    worker->strangers[2] = -1;
}

/* One says nothing at all, one half a word, one that it will say more than anybody may. */
static void
send_silent_strangers(struct worker *worker)
{
    static const uint8_t half[] = {0, 0, 0, 0};
    static const uint8_t large[24] = {0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1};

    for (size_t i = 0; i < 3; i++)
        worker->strangers[i] = dial(worker->address);
    assert_true(send(worker->strangers[1], half, sizeof(half), MSG_NOSIGNAL) > 0);
    assert_true(send(worker->strangers[2], large, sizeof(large), MSG_NOSIGNAL) > 0);
    for (size_t i = 0; i < 3 && worker->behaviour == SILENT_LONG; i++) {
        struct pollfd item = {.fd = worker->strangers[i], .events = POLLIN};
        char byte;

        worker->dismissed +=
            poll(&item, 1, PATIENCE_MS / 2) == 1 && recv(item.fd, &byte, 1, MSG_DONTWAIT) <= 0;
    }
}

static void
answer(struct worker *worker)
{
    static const uint8_t huge[24] = {0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1};
    size_t half;
    int fd;

    if (worker->behaviour == STRANGERS)
        send_strangers(worker);
    if (worker->behaviour == SILENT || worker->behaviour == SILENT_LONG)
        send_silent_strangers(worker);
    fd = dial(worker->address);
    if (fd < 0)
        return;
    kvt_buffer_clear(&worker->out);
    put(worker, WIRE_DYNAMO_RPC_HANDSHAKE, false, NULL, 0);
    put(worker, WIRE_DYNAMO_RPC_PROLOGUE, worker->behaviour == PROLOGUE_ERROR, NULL, 0);
    if (worker->behaviour == HUGE_LENGTH)
        kvt_buffer_append(&worker->out, huge, sizeof(huge));
    else if (worker->behaviour != NO_DATA)
        put_answer(worker);
    half = worker->out.size - 4;
    put(worker, WIRE_DYNAMO_RPC_FINAL, false, NULL, 0);
    put(worker, WIRE_DYNAMO_RPC_END, false, NULL, 0);
    if (worker->behaviour != HANG_UP && worker->behaviour != STALL)
        half = worker->out.size;
    if (send_bytes(worker, fd, &worker->out, half) && worker->behaviour != HANG_UP)
        wait_for_end(worker, fd);
    (void)close(fd);
    for (int i = 0; i < 3; i++)
        if (worker->strangers[i] >= 0)
            (void)close(worker->strangers[i]);
}

static void
remember(struct worker *worker, const struct wire_dynamo_rpc_question *question)
{
    (void)snprintf(worker->id, sizeof(worker->id), "%s", question->id);
    (void)snprintf(worker->address, sizeof(worker->address), "%s", question->address);
    (void)snprintf(worker->subject, sizeof(worker->subject), "%s", question->subject);
    (void)snprintf(worker->path, sizeof(worker->path), "%.*s", (int)question->path_size,
                   question->path);
    worker->json = question->json;
    assert_true(question->body_size <= sizeof(worker->body));
    memcpy(worker->body, question->body, question->body_size);
    worker->body_size = question->body_size;
}

static void
serve(struct worker *worker, int fd)
{
    static const uint8_t garbage[] = {0xff, 0xff, 0xff, 0xff, 'x'};
    uint8_t bytes[REQUEST_MAX];
    size_t size = 0;
    struct wire_dynamo_rpc_question question;
    size_t used;

    if (worker->behaviour == CLOSE_AT_ONCE)
        return;
    do {
        const ssize_t got = recv(fd, bytes + size, sizeof(bytes) - size, 0);

        if (got <= 0)
            return;
        size += (size_t)got;
    } while (wire_dynamo_rpc_read_request(bytes, size, &used, &question, NULL) == KVT_AGAIN);
    remember(worker, &question);
    if (worker->behaviour != NO_ACK) {
        kvt_buffer_clear(&worker->out);
        if (worker->behaviour == GARBAGE_ACK)
            kvt_buffer_append(&worker->out, garbage, sizeof(garbage));
        else
            assert_int_equal(wire_dynamo_rpc_put_ack(&worker->out, worker->behaviour == REFUSE
                                                                       ? "no such endpoint"
                                                                       : ""),
                             KVT_OK);
        (void)send_bytes(worker, fd, &worker->out, worker->out.size);
    }
    if (worker->behaviour == NO_ACK || worker->behaviour == NO_DIAL ||
        worker->behaviour == REFUSE || worker->behaviour == GARBAGE_ACK)
        wait_for_end(worker, fd);
    else
        answer(worker);
}

static void *
work(void *arg)
{
    struct worker *worker = arg;

    while (!atomic_load(&worker->stopping)) {
        struct pollfd item = {.fd = worker->listener, .events = POLLIN};
        int fd;

        if (poll(&item, 1, 20) <= 0)
            continue;
        fd = accept(worker->listener, NULL, NULL);
        if (fd < 0)
            continue;
        serve(worker, fd);
        (void)close(fd);
    }
    return NULL;
}

static void
start(struct worker *worker, enum behaviour behaviour)
{
    memset(worker, 0, sizeof(*worker));
    worker->behaviour = behaviour;
    for (int i = 0; i < 3; i++)
        worker->strangers[i] = -1;
    worker->listener = listen_on_loopback(&worker->port);
    kvt_buffer_init(&worker->out, ANSWER_MAX * 2);
    assert_int_equal(pthread_create(&worker->thread, NULL, work, worker), 0);
}

static void
stop(struct worker *worker)
{
    atomic_store(&worker->stopping, true);
    assert_int_equal(pthread_join(worker->thread, NULL), 0);
    (void)close(worker->listener);
    kvt_buffer_release(&worker->out);
}

/* ---- the asker ---- */

/* Only what asking needs; nothing of it is open. */
static void
make_source(struct advisor_source *source)
{
    *source = (struct advisor_source){.options = advisor_source_unset};
    (void)snprintf(source->options.name, sizeof(source->options.name), "cluster");
}

static struct advisor_discovery_target
target_of(const struct worker *worker, bool json)
{
    struct advisor_discovery_target target = {.json = json};

    (void)snprintf(target.tcp, sizeof(target.tcp), "127.0.0.1:%u/4bd5/ns1/b/query", worker->port);
    return target;
}

static enum kvt_err
query(const struct advisor_discovery_target *target, uint64_t patience_ms,
      struct kvt_buffer *answer_bytes, struct kvt_error *err)
{
    struct advisor_source source;
    const struct advisor_ask ask = {
        .worker = "w",
        .subject = "",
        .worker_id = 15204838567219634037u,
        .dp_rank = 1,
        .from = 12,
        .deadline_ms = kvt_clock_mono_ms() + patience_ms,
    };

    make_source(&source);
    kvt_buffer_clear(answer_bytes);
    err->text[0] = '\0';
    return advisor_dynamo_query(&source, target, &ask, answer_bytes, err);
}

static void
workers_answer(void **state)
{
    static const enum behaviour good[] = {FAIR, TRICKLE, LARGE_ANSWER, STRANGERS};
    struct kvt_buffer bytes;
    struct kvt_error err;

    (void)state;
    kvt_buffer_init(&bytes, ANSWER_MAX);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct worker worker;
        struct advisor_discovery_target target;
        struct kvt_buffer expected;

        start(&worker, good[i]);
        target = target_of(&worker, false);
        if (query(&target, PATIENCE_MS, &bytes, &err) != KVT_OK)
            fail_msg("behaviour %d: %s", (int)good[i], err.text);
        if (good[i] == LARGE_ANSWER) {
            assert_int_equal(bytes.size, LARGE);
        } else {
            assert_int_equal(bytes.size, sizeof(ANSWER) - 1);
            assert_memory_equal(bytes.data, ANSWER, bytes.size);
        }
        stop(&worker);
        assert_string_equal(worker.path, "4bd5/ns1/b/query");
        assert_int_equal(strlen(worker.subject), 32);
        assert_int_equal(strlen(worker.id), 32);
        assert_string_not_equal(worker.id, worker.subject);
        assert_false(worker.json);
        kvt_buffer_init(&expected, 1024);
        assert_int_equal(wire_dynamo_encode_query(15204838567219634037u, 1, 12, &expected), KVT_OK);
        assert_int_equal(worker.body_size, expected.size);
        assert_memory_equal(worker.body, expected.data, expected.size);
        kvt_buffer_release(&expected);
    }
    kvt_buffer_release(&bytes);
}

/* Who dials and says nothing keeps nobody waiting, and is not kept either. */
static void
silent_strangers_hold_nothing(void **state)
{
    static const struct {
        enum behaviour behaviour;
        uint64_t least_ms;
        int dismissed;
    } table[] = {{SILENT, 0, 0}, {SILENT_LONG, ADVISOR_DYNAMO_GREETING_MS, 3}};
    struct kvt_buffer bytes;
    struct kvt_error err;

    (void)state;
    kvt_buffer_init(&bytes, ANSWER_MAX);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const uint64_t start_ms = kvt_clock_mono_ms();
        struct advisor_discovery_target target;
        struct worker worker;
        uint64_t took_ms;

        start(&worker, table[i].behaviour);
        target = target_of(&worker, false);
        if (query(&target, PATIENCE_MS, &bytes, &err) != KVT_OK)
            fail_msg("behaviour %d: %s", (int)table[i].behaviour, err.text);
        took_ms = kvt_clock_mono_ms() - start_ms;
        assert_memory_equal(bytes.data, ANSWER, sizeof(ANSWER) - 1);
        stop(&worker);
        assert_true(took_ms >= table[i].least_ms && took_ms < table[i].least_ms + QUICK_MS);
        assert_int_equal(worker.dismissed, table[i].dismissed);
    }
    kvt_buffer_release(&bytes);
}

static void
workers_misbehave(void **state)
{
    static const struct {
        enum behaviour behaviour;
        uint64_t patience_ms;
        enum kvt_err code;
        const char *text;
    } table[] = {
        {NO_ACK, SHORT_MS, KVT_TIMEOUT, "in time"},
        {NO_DIAL, SHORT_MS, KVT_TIMEOUT, "in time"},
        {STALL, SHORT_MS, KVT_TIMEOUT, "in time"},
        {REFUSE, PATIENCE_MS, KVT_UNAVAILABLE, "no such endpoint"},
        {PROLOGUE_ERROR, PATIENCE_MS, KVT_UNAVAILABLE, "cannot do that"},
        {HANG_UP, PATIENCE_MS, KVT_UNAVAILABLE, "hung up"},
        {CLOSE_AT_ONCE, PATIENCE_MS, KVT_UNAVAILABLE, ""},
        {NO_DATA, PATIENCE_MS, KVT_INVALID, "empty"},
        {HUGE_LENGTH, PATIENCE_MS, KVT_RANGE, ""},
        {TOO_LARGE, PATIENCE_MS, KVT_RANGE, "larger"},
        {GARBAGE_ACK, PATIENCE_MS, KVT_RANGE, ""},
    };
    struct kvt_buffer bytes;

    (void)state;
    kvt_buffer_init(&bytes, ANSWER_MAX);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const uint64_t start_ms = kvt_clock_mono_ms();
        struct advisor_discovery_target target;
        struct worker worker;
        struct kvt_error err;
        enum kvt_err rc;

        start(&worker, table[i].behaviour);
        target = target_of(&worker, false);
        rc = query(&target, table[i].patience_ms, &bytes, &err);
        if (rc != table[i].code || strstr(err.text, table[i].text) == NULL)
            fail_msg("behaviour %d: %s, %s", (int)table[i].behaviour, kvt_err_name(rc), err.text);
        assert_true(err.text[0] != '\0');
        assert_true(kvt_clock_mono_ms() - start_ms < SHORT_MS + QUICK_MS);
        stop(&worker);
    }
    kvt_buffer_release(&bytes);
}

static void
addresses_are_checked(void **state)
{
    static const char *const wrong[] = {
        "127.0.0.1/path", "127.0.0.1:0/p", "127.0.0.1:99999/p", "127.0.0.1:12x/p", "host:12/p",
        ":12/p",          "127.0.0.1:12",  "[::1]12/p",         "[::1/p",          "/p",
    };
    struct advisor_discovery_target target;
    struct kvt_buffer bytes;
    struct kvt_error err;
    uint16_t port;
    int fd;

    (void)state;
    kvt_buffer_init(&bytes, ANSWER_MAX);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        memset(&target, 0, sizeof(target));
        (void)snprintf(target.tcp, sizeof(target.tcp), "%s", wrong[i]);
        assert_int_equal(query(&target, PATIENCE_MS, &bytes, &err), KVT_UNSUPPORTED);
    }
    memset(&target, 0, sizeof(target));
    assert_int_equal(query(&target, PATIENCE_MS, &bytes, &err), KVT_UNSUPPORTED);
    (void)snprintf(target.nats, sizeof(target.nats), "a.b");
    assert_int_equal(query(&target, PATIENCE_MS, &bytes, &err), KVT_UNSUPPORTED); /* no server */
    fd = listen_on_loopback(&port);
    (void)close(fd);
    (void)snprintf(target.tcp, sizeof(target.tcp), "127.0.0.1:%u/p", port);
    assert_int_equal(query(&target, PATIENCE_MS, &bytes, &err), KVT_UNAVAILABLE);
    assert_int_equal(query(&target, 0, &bytes, &err), KVT_TIMEOUT);
    kvt_buffer_release(&bytes);
}

/* A source that is closed lets nobody wait for the deadline. */
static void *
close_soon(void *arg)
{
    struct advisor_source *source = arg;

    kvt_clock_sleep_ms(200);
    atomic_store(&source->stopping, true);
    return NULL;
}

static void
closing_ends_a_question(void **state)
{
    struct advisor_discovery_target target;
    struct advisor_source source;
    struct kvt_buffer bytes;
    struct worker worker;
    pthread_t closer;
    struct kvt_error err;
    const uint64_t start_ms = kvt_clock_mono_ms();
    const struct advisor_ask ask = {.deadline_ms = start_ms + PATIENCE_MS};

    (void)state;
    make_source(&source);
    start(&worker, NO_DIAL);
    target = target_of(&worker, false);
    kvt_buffer_init(&bytes, ANSWER_MAX);
    assert_int_equal(pthread_create(&closer, NULL, close_soon, &source), 0);
    assert_int_equal(advisor_dynamo_query(&source, &target, &ask, &bytes, &err), KVT_CANCELLED);
    assert_true(kvt_clock_mono_ms() - start_ms < QUICK_MS);
    assert_int_equal(pthread_join(closer, NULL), 0);
    kvt_buffer_release(&bytes);
    stop(&worker);
}

/* ---- over NATS ---- */

/* The request plane on NATS: an acknowledgement as reply, the answer dialled as over TCP. */
static void
on_question(void *arg, const char *subject, const char *reply, const void *bytes, size_t size)
{
    struct worker *worker = arg;
    uint8_t request[REQUEST_MAX];
    struct wire_dynamo_rpc_question question;
    size_t used;

    (void)subject;
    (void)reply;
    /* The message is the frame of a TCP request: put the rest around it. */
    assert_true(size + 8 < sizeof(request));
    memset(request, 0, 8);
    request[1] = 1; /* path: "p" */
    request[2] = 'p';
    request[4] = 2; /* headers: "{}" */
    request[5] = '{';
    request[6] = '}';
    request[7] = (uint8_t)(size >> 24);
    request[8] = (uint8_t)(size >> 16);
    request[9] = (uint8_t)(size >> 8);
    request[10] = (uint8_t)size;
    memcpy(request + 11, bytes, size);
    assert_int_equal(wire_dynamo_rpc_read_request(request, size + 11, &used, &question, NULL),
                     KVT_OK);
    remember(worker, &question);
}

struct nats_worker {
    struct worker worker;
    struct wire_bus *bus;
};

static void
on_nats_question(void *arg, const char *subject, const char *reply, const void *bytes, size_t size)
{
    struct nats_worker *worker = arg;

    on_question(&worker->worker, subject, reply, bytes, size);
    assert_int_equal(wire_bus_publish(worker->bus, reply, "", 0), KVT_OK);
    answer(&worker->worker);
}

static void
workers_answer_over_nats(void **state)
{
    /* By component up to 1.3.1, bodies in JSON; by endpoint from 1.4.2 on. */
    static const struct {
        const char *events;
        const char *question;
        bool json;
    } table[] = {
        {"namespace.ns1.component.Back-End.kv-events",
         "ns1_back-end.worker_kv_indexer_query_dp1-d302701e42491f75", true},
        {"namespace.ns1.component.back-end.endpoint.generate.kv-events",
         "ns1_back-end.worker_kv_query_source_13aeb4ab7fb25e-d302701e42491f75", false},
    };
    struct test_nats server;
    struct advisor_source source;
    struct wire_bus_options options = {.name = "test", .connect_now = true};
    struct kvt_buffer bytes;
    struct kvt_error err;

    (void)state;
    test_nats_start(&server);
    options.url = server.url;
    kvt_buffer_init(&bytes, ANSWER_MAX);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct nats_worker worker = {.bus = NULL};
        enum advisor_answer_kind kind;
        struct advisor_ask ask = {
            .worker = "w",
            .subject = table[i].events,
            .worker_id = 0xd302701e42491f75u,
            .incarnation = 0x13aeb4ab7fb25eu,
            .dp_rank = 1,
            .from = 3,
            .deadline_ms = kvt_clock_mono_ms() + PATIENCE_MS,
        };

        make_source(&source);
        source.options.listen = "127.0.0.1";
        for (int k = 0; k < 3; k++)
            worker.worker.strangers[k] = -1;
        assert_int_equal(wire_bus_open(&worker.bus, &options, &err), KVT_OK);
        kvt_buffer_init(&worker.worker.out, ANSWER_MAX);
        assert_int_equal(wire_bus_open(&source.options.bus, &options, &err), KVT_OK);
        kvt_buffer_clear(&bytes);
        assert_int_equal(advisor_dynamo_ask(&source, &ask, &kind, &bytes, &err), KVT_UNAVAILABLE);
        assert_int_equal(
            wire_bus_subscribe(worker.bus, table[i].question, on_nats_question, &worker, &err),
            KVT_OK);
        kvt_clock_sleep_ms(100);
        kvt_buffer_clear(&bytes);
        if (advisor_dynamo_ask(&source, &ask, &kind, &bytes, &err) != KVT_OK)
            fail_msg("%s: %s", table[i].question, err.text);
        assert_int_equal(kind, ADVISOR_ANSWER_QUERY);
        assert_int_equal(bytes.size, table[i].json ? sizeof(JSON_ANSWER) - 1 : sizeof(ANSWER) - 1);
        wire_bus_close(source.options.bus);
        wire_bus_close(worker.bus);
        assert_int_equal(worker.worker.json, table[i].json);
        assert_int_equal(strncmp(worker.worker.address, "127.0.0.1:", 10), 0);
        kvt_buffer_release(&worker.worker.out);
    }
    kvt_buffer_release(&bytes);
    test_nats_stop(&server);
}

/* ---- which way is gone ---- */

static void
ways_are_tried_in_turn(void **state)
{
    struct advisor_source source;
    struct kvt_buffer bytes;
    struct kvt_error err;
    enum advisor_answer_kind kind;
    struct worker worker;
    char folder[256];
    char path[320];
    char text[512];
    struct advisor_ask ask = {.worker = "w", .subject = "", .worker_id = 9, .dp_rank = 0};

    (void)state;
    make_source(&source);
    kvt_buffer_init(&bytes, ANSWER_MAX);
    ask.deadline_ms = kvt_clock_mono_ms() + PATIENCE_MS;
    assert_int_equal(advisor_dynamo_ask(&source, &ask, &kind, &bytes, &err), KVT_UNSUPPORTED);
    (void)test_folder_make(folder, sizeof(folder));
    source.options.discovery = folder;
    assert_int_equal(advisor_dynamo_ask(&source, &ask, &kind, &bytes, &err), KVT_UNAVAILABLE);
    start(&worker, FAIR);
    (void)snprintf(path, sizeof(path), "%s/v1/instances", folder);
    assert_int_equal(kvt_folder_make(path, NULL), KVT_OK);
    (void)snprintf(path, sizeof(path), "%s/v1/instances/q", folder);
    (void)snprintf(text, sizeof(text),
                   "{\"component\":\"b\",\"endpoint\":\"worker_kv_indexer_query_dp0\","
                   "\"instance_id\":9,\"transport\":{\"tcp\":\"127.0.0.1:%u/9/q\"}}",
                   worker.port);
    assert_int_equal(kvt_file_write(path, text, strlen(text), 0600, NULL), KVT_OK);
    assert_int_equal(advisor_dynamo_ask(&source, &ask, &kind, &bytes, &err), KVT_OK);
    assert_int_equal(kind, ADVISOR_ANSWER_QUERY);
    assert_true(worker.json); /* its release says nothing of msgpack */
    stop(&worker);

    /* Another rank of it is not there to be asked, but the worker lives; a dump changes nothing. */
    ask.dp_rank = 1;
    assert_int_equal(advisor_dynamo_ask(&source, &ask, &kind, &bytes, &err), KVT_AGAIN);
    source.options.dump_url = "http://127.0.0.1:1";
    assert_int_equal(advisor_dynamo_ask(&source, &ask, &kind, &bytes, &err), KVT_AGAIN);
    ask.worker_id = 10;
    assert_int_equal(advisor_dynamo_ask(&source, &ask, &kind, &bytes, &err), KVT_UNAVAILABLE);
    kvt_buffer_release(&bytes);
    test_folder_remove(folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silent_strangers_hold_nothing),
        cmocka_unit_test(workers_answer),
        cmocka_unit_test(workers_misbehave),
        cmocka_unit_test(addresses_are_checked),
        cmocka_unit_test(closing_ends_a_question),
        cmocka_unit_test(workers_answer_over_nats),
        cmocka_unit_test(ways_are_tried_in_turn),
    };

    test_nats_require();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
