#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "advisor/source/source_dynamo.h"
#include "advisor/source/source_dynamo_callback.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "base/text/hex.h"
#include "base/text/parse.h"
#include "wire/dialect/dynamo_answer.h"
#include "wire/dialect/dynamo_rpc.h"
#include "wire/nats/bus.h"

/*
 * A question to a worker: over TCP or NATS it is told a port of ours, and dials it to answer.  The
 * port is open for that question only; who dials it must name the question's stream, which is a
 * random number.
 */

enum {
    NAP_MS = 100, /* how long a source that stops may go unnoticed */
    READ_MAX = 256 << 10,
    FRAME_ROOM = 128 << 10, /* headers around an answer */
    ACK_ROOM = WIRE_DYNAMO_RPC_ACK_MAX + 4,
    ID_SIZE = 33,
    ADDRESS_MAX = WIRE_DYNAMO_RPC_NAME_MAX,
};

struct address {
    struct sockaddr_storage at;
    socklen_t size;
};

struct call {
    struct advisor_source *source;
    const struct advisor_ask *ask;
    struct advisor_dynamo_callback door; /* where the worker dials */
    int request;                         /* TCP request plane: where the question goes; or -1 */
    int worker;                          /* who dialled and named our stream; or -1 */
    bool acked;
    bool answered; /* the data is in `answer` */
    size_t wanted; /* bytes the next frame needs, as far as known */
    char subject[ID_SIZE];
    char id[ID_SIZE];
    char address[ADDRESS_MAX]; /* of the listener */
    struct kvt_buffer ack;
    struct kvt_buffer frames;
    struct kvt_buffer *answer;
    struct kvt_error *err;
};

static void
random_id(char text[ID_SIZE])
{
    uint8_t bytes[(ID_SIZE - 1) / 2];

    kvt_random_system(bytes, sizeof(bytes));
    kvt_hex_format(bytes, sizeof(bytes), text);
}

/* Milliseconds to wait at most; 0: the deadline has passed. */
static int
time_left(const struct call *call)
{
    const uint64_t now_ms = kvt_clock_mono_ms();

    if (now_ms >= call->ask->deadline_ms)
        return 0;
    return (int)(call->ask->deadline_ms - now_ms < NAP_MS ? call->ask->deadline_ms - now_ms
                                                          : NAP_MS);
}

static enum kvt_err
may_go_on(const struct call *call)
{
    if (atomic_load(&call->source->stopping))
        return kvt_error_set(call->err, KVT_CANCELLED, "stopping");
    if (time_left(call) == 0)
        return kvt_error_set(call->err, KVT_TIMEOUT, "the worker does not answer in time");
    return KVT_OK;
}

/* ---- addresses ---- */

/* Numbers only: looking names up keeps no deadline. */
static bool
parse_host(const char *host, uint16_t port, struct address *address)
{
    struct sockaddr_in *four = (struct sockaddr_in *)&address->at;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&address->at;

    memset(address, 0, sizeof(*address));
    if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons(port);
        address->size = sizeof(*four);
        return true;
    }
    if (inet_pton(AF_INET6, host, &six->sin6_addr) == 1) {
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(port);
        address->size = sizeof(*six);
        return true;
    }
    return false;
}

/* "host:port/path" or "[host]:port/path". */
static bool
parse_target(const char *text, struct address *address, const char **path)
{
    const bool bracket = text[0] == '[';
    const char *host = bracket ? text + 1 : text;
    const char *slash = strchr(text, '/');
    const char *end = bracket ? strchr(host, ']') : strchr(host, ':');
    const char *digits;
    char part[INET6_ADDRSTRLEN];
    char number[8];
    uint64_t port;

    *path = slash == NULL ? "" : slash + 1;
    if (end == NULL || (size_t)(end - host) >= sizeof(part) || slash == NULL || slash < end)
        return false;
    digits = bracket ? end + 2 : end + 1;
    if (bracket && end[1] != ':')
        return false;
    if (digits >= slash || (size_t)(slash - digits) >= sizeof(number))
        return false;
    memcpy(number, digits, (size_t)(slash - digits));
    number[slash - digits] = '\0';
    if (kvt_parse_u64(number, &port) != KVT_OK || port == 0 || port > UINT16_MAX)
        return false;
    memcpy(part, host, (size_t)(end - host));
    part[end - host] = '\0';
    return parse_host(part, (uint16_t)port, address);
}

/* The address this machine would leave from: asking for a route sends nothing. */
static bool
route_address(struct address *address)
{
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct address far;
    bool ok;

    (void)parse_host("198.51.100.1", 9, &far); /* set aside for examples: nobody is there */
    address->size = sizeof(address->at);
    ok = fd >= 0 && connect(fd, (const struct sockaddr *)&far.at, far.size) == 0 &&
         getsockname(fd, (struct sockaddr *)&address->at, &address->size) == 0;
    if (fd >= 0)
        (void)close(fd);
    return ok;
}

/* An address of this machine that others can dial: by the route out, or the first that is not
 * loopback (where the service may look: it takes a netlink socket). */
static void
own_address(struct address *address)
{
    struct ifaddrs *all = NULL;
    bool found = false;

    if (route_address(address))
        return;
    (void)parse_host("127.0.0.1", 0, address);
    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *at = all; at != NULL && !found; at = at->ifa_next) {
        if (at->ifa_addr == NULL || at->ifa_addr->sa_family != AF_INET ||
            (at->ifa_flags & IFF_LOOPBACK) != 0 || (at->ifa_flags & IFF_UP) == 0)
            continue;
        memcpy(&address->at, at->ifa_addr, sizeof(struct sockaddr_in));
        address->size = sizeof(struct sockaddr_in);
        found = true;
    }
    freeifaddrs(all);
}

static void
set_port(struct address *address, uint16_t port)
{
    if (address->at.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&address->at)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)&address->at)->sin_port = htons(port);
}

static void
format_address(const struct address *address, char text[ADDRESS_MAX])
{
    char host[INET6_ADDRSTRLEN] = "";

    if (address->at.ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address->at;

        (void)inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host));
        (void)snprintf(text, ADDRESS_MAX, "[%s]:%u", host, ntohs(six->sin6_port));
    } else {
        const struct sockaddr_in *four = (const struct sockaddr_in *)&address->at;

        (void)inet_ntop(AF_INET, &four->sin_addr, host, sizeof(host));
        (void)snprintf(text, ADDRESS_MAX, "%s:%u", host, ntohs(four->sin_port));
    }
}

/* Wait for a worker at `address`, whatever port is free. */
static enum kvt_err
open_listener(struct call *call, struct address address)
{
    const char *listen_on = call->source->options.listen;

    if (listen_on != NULL && listen_on[0] != '\0' && !parse_host(listen_on, 0, &address))
        return kvt_error_set(call->err, KVT_INVALID, "listen: \"%s\" is no address", listen_on);
    set_port(&address, 0);
    call->door.listener =
        socket(address.at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (call->door.listener < 0 ||
        bind(call->door.listener, (const struct sockaddr *)&address.at, address.size) != 0 ||
        listen(call->door.listener, ADVISOR_DYNAMO_VISITORS_MAX) != 0 ||
        getsockname(call->door.listener, (struct sockaddr *)&address.at, &address.size) != 0)
        return kvt_error_sys(call->err, errno, "no port for a worker's answer");
    format_address(&address, call->address);
    return KVT_OK;
}

/* ---- the question ---- */

static enum kvt_err
put_question(struct call *call, const struct advisor_discovery_target *target, const char *path,
             bool tcp, struct kvt_buffer *out)
{
    const struct advisor_ask *ask = call->ask;
    struct wire_dynamo_rpc_request request = {
        .path = path,
        .id = call->id,
        .address = call->address,
        .subject = call->subject,
        .json = target->json,
        .time_ns = kvt_clock_unix_ms() * 1000000,
    };
    struct kvt_buffer body;
    enum kvt_err rc;

    kvt_buffer_init(&body, WIRE_DYNAMO_RPC_HEADER_MAX);
    rc = target->json
             ? wire_dynamo_encode_query_json(ask->worker_id, ask->dp_rank, ask->from, &body)
             : wire_dynamo_encode_query(ask->worker_id, ask->dp_rank, ask->from, &body);
    request.body = body.data;
    request.body_size = body.size;
    if (rc == KVT_OK)
        rc = tcp ? wire_dynamo_rpc_put_request(out, &request)
                 : wire_dynamo_rpc_put_question(out, &request);
    kvt_buffer_release(&body);
    return rc == KVT_OK ? rc : kvt_error_set(call->err, rc, "the question cannot be written");
}

static enum kvt_err
wait_for(struct call *call, int fd, short events)
{
    struct pollfd item = {.fd = fd, .events = events};
    enum kvt_err rc;

    while ((rc = may_go_on(call)) == KVT_OK)
        if (poll(&item, 1, time_left(call)) > 0)
            return KVT_OK;
    return rc;
}

static enum kvt_err
dial(struct call *call, const struct address *address, struct address *ours)
{
    int problem = 0;
    socklen_t size = sizeof(problem);
    enum kvt_err rc;

    call->request = socket(address->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (call->request < 0)
        return kvt_error_sys(call->err, errno, "no socket");
    if (connect(call->request, (const struct sockaddr *)&address->at, address->size) != 0 &&
        errno != EINPROGRESS)
        return kvt_error_sys(call->err, errno, "the worker cannot be reached");
    rc = wait_for(call, call->request, POLLOUT);
    if (rc != KVT_OK)
        return rc;
    if (getsockopt(call->request, SOL_SOCKET, SO_ERROR, &problem, &size) != 0)
        problem = errno;
    if (problem != 0)
        return kvt_error_sys(call->err, problem, "the worker cannot be reached");
    ours->size = sizeof(ours->at);
    if (getsockname(call->request, (struct sockaddr *)&ours->at, &ours->size) != 0)
        return kvt_error_sys(call->err, errno, "no address of our own");
    return KVT_OK;
}

static enum kvt_err
send_all(struct call *call, const struct kvt_buffer *bytes)
{
    size_t sent = 0;

    while (sent < bytes->size) {
        const ssize_t count =
            send(call->request, bytes->data + sent, bytes->size - sent, MSG_NOSIGNAL);
        enum kvt_err rc;

        if (count > 0) {
            sent += (size_t)count;
            continue;
        }
        if (count < 0 && errno != EAGAIN && errno != EINTR)
            return kvt_error_sys(call->err, errno, "the worker does not take the question");
        rc = wait_for(call, call->request, POLLOUT);
        if (rc != KVT_OK)
            return rc;
    }
    return KVT_OK;
}

/* ---- the answer ---- */

/* Read what is there.  KVT_OK, KVT_UNAVAILABLE (the other end is done), KVT_RANGE, KVT_NOMEM. */
static enum kvt_err
read_some(struct call *call, int fd, struct kvt_buffer *into)
{
    for (;;) {
        uint8_t *room;
        ssize_t count;
        size_t size = READ_MAX;

        if (into->limit - into->size < size)
            size = into->limit - into->size;
        room = size == 0 ? NULL : kvt_buffer_reserve(into, size);
        if (room == NULL)
            return kvt_error_set(call->err, size == 0 ? KVT_RANGE : KVT_NOMEM,
                                 "the answer is larger than %zu bytes", into->limit);
        count = recv(fd, room, size, 0);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && errno == EAGAIN)
            return KVT_OK;
        if (count <= 0)
            return kvt_error_set(call->err, KVT_UNAVAILABLE, "the worker hung up");
        into->size += (size_t)count;
        if ((size_t)count < size)
            return KVT_OK;
    }
}

static enum kvt_err
judge_ack(struct call *call, const void *bytes, size_t size)
{
    const char *text;
    size_t text_size;
    size_t used;
    const enum kvt_err rc =
        wire_dynamo_rpc_read_ack(bytes, size, &used, &text, &text_size, call->err);

    if (rc == KVT_AGAIN)
        return KVT_OK;
    if (rc != KVT_OK)
        return rc;
    call->acked = true;
    if (text_size > 0)
        return kvt_error_set(call->err, KVT_UNAVAILABLE, "the worker refuses: %.*s",
                             (int)(text_size > 160 ? 160 : text_size), text);
    return KVT_OK;
}

static enum kvt_err
read_ack(struct call *call)
{
    const enum kvt_err rc = read_some(call, call->request, &call->ack);
    const enum kvt_err verdict =
        call->acked ? KVT_OK : judge_ack(call, call->ack.data, call->ack.size);

    if (verdict != KVT_OK)
        return verdict;
    if (rc == KVT_UNAVAILABLE && call->acked) { /* it needs that connection no more */
        (void)close(call->request);
        call->request = -1;
        return KVT_OK;
    }
    return rc;
}

/* One frame of the worker's.  `*done`: nothing more is needed. */
static enum kvt_err
judge_frame(struct call *call, const struct wire_dynamo_rpc_frame *frame, bool *done)
{
    *done = false;
    switch (frame->kind) {
    case WIRE_DYNAMO_RPC_PROLOGUE:
        return frame->failed ? kvt_error_set(call->err, KVT_UNAVAILABLE,
                                             "the worker refuses: %.160s", frame->text)
                             : KVT_OK;
    case WIRE_DYNAMO_RPC_DATA:
        if (frame->failed)
            return kvt_error_set(call->err, KVT_UNAVAILABLE, "the worker failed: %.160s",
                                 frame->text);
        if (call->answered)
            return KVT_OK;
        kvt_buffer_append(call->answer, frame->body, frame->body_size);
        call->answered = true;
        return kvt_buffer_ok(call->answer)
                   ? KVT_OK
                   : kvt_error_set(call->err, KVT_RANGE, "the answer is larger than %zu bytes",
                                   call->answer->limit);
    case WIRE_DYNAMO_RPC_FINAL:
    case WIRE_DYNAMO_RPC_END:
        *done = call->answered;
        return call->answered
                   ? KVT_OK
                   : kvt_error_set(call->err, KVT_INVALID, "the worker's answer is empty");
    default: return KVT_OK;
    }
}

static enum kvt_err
judge_frames(struct call *call, bool *done)
{
    size_t at = 0;

    *done = false;
    while (!*done && call->frames.size - at >= call->wanted && call->frames.size > at) {
        struct wire_dynamo_rpc_frame frame;
        size_t used;
        enum kvt_err rc = wire_dynamo_rpc_read_frame(call->frames.data + at, call->frames.size - at,
                                                     &used, &frame, call->err);

        if (rc == KVT_AGAIN) {
            call->wanted = used;
            break;
        }
        if (rc == KVT_OK) {
            at += used;
            call->wanted = 0;
            rc = judge_frame(call, &frame, done);
        }
        if (rc != KVT_OK)
            return rc;
    }
    if (at > 0) {
        memmove(call->frames.data, call->frames.data + at, call->frames.size - at);
        call->frames.size -= at;
    }
    return KVT_OK;
}

static enum kvt_err
read_worker(struct call *call, bool *done)
{
    const enum kvt_err rc = read_some(call, call->worker, &call->frames);
    const enum kvt_err verdict = rc == KVT_RANGE || rc == KVT_NOMEM ? rc : judge_frames(call, done);

    if (verdict != KVT_OK || *done || rc == KVT_OK)
        return verdict;
    return kvt_error_set(call->err, KVT_UNAVAILABLE, "the worker hung up within its answer");
}

/* What came is heard: from those at the door until one of them is the worker, then from it. */
static enum kvt_err
hear(struct call *call, const struct pollfd *items, bool *done)
{
    enum kvt_err rc;

    if (call->worker >= 0)
        return items[0].revents != 0 ? read_worker(call, done) : KVT_OK;
    rc = advisor_dynamo_callback_hear(&call->door, items, &call->worker, &call->frames, call->err);
    return rc == KVT_OK && call->worker >= 0 ? judge_frames(call, done) : rc;
}

/* Until the answer is complete. */
static enum kvt_err
listen_to_worker(struct call *call)
{
    enum kvt_err rc;
    bool done = false;

    while (!done && (rc = may_go_on(call)) == KVT_OK) {
        struct pollfd items[1 + ADVISOR_DYNAMO_CALLBACK_POLLS] = {
            {.fd = call->request, .events = POLLIN},
            {.fd = call->worker, .events = POLLIN},
        };
        nfds_t count = 2;

        if (call->worker < 0) {
            advisor_dynamo_callback_polls(&call->door, items + 1);
            count = 1 + ADVISOR_DYNAMO_CALLBACK_POLLS;
        }
        if (poll(items, count, time_left(call)) < 0)
            continue;
        if (items[0].revents != 0)
            rc = read_ack(call);
        if (rc == KVT_OK)
            rc = hear(call, items + 1, &done);
        if (rc != KVT_OK)
            return rc;
    }
    return rc;
}

static enum kvt_err
ask_over_tcp(struct call *call, const struct advisor_discovery_target *target)
{
    struct kvt_buffer question;
    struct address worker;
    struct address ours = {.size = 0};
    const char *path;
    enum kvt_err rc;

    if (!parse_target(target->tcp, &worker, &path))
        return kvt_error_set(call->err, KVT_UNSUPPORTED, "%.100s is no address of numbers",
                             target->tcp);
    kvt_buffer_init(&question, WIRE_DYNAMO_RPC_HEADER_MAX * 4);
    rc = dial(call, &worker, &ours);
    if (rc == KVT_OK)
        rc = open_listener(call, ours);
    if (rc == KVT_OK)
        rc = put_question(call, target, path, true, &question);
    if (rc == KVT_OK)
        rc = send_all(call, &question);
    kvt_buffer_release(&question);
    return rc == KVT_OK ? listen_to_worker(call) : rc;
}

static enum kvt_err
ask_over_nats(struct call *call, const struct advisor_discovery_target *target)
{
    struct wire_bus *bus = call->source->options.bus;
    const uint64_t now_ms = kvt_clock_mono_ms();
    struct kvt_buffer question;
    struct address ours;
    enum kvt_err rc;

    if (bus == NULL)
        return kvt_error_set(call->err, KVT_UNSUPPORTED,
                             "the worker is asked over NATS, and the source has no server");
    if (now_ms >= call->ask->deadline_ms)
        return kvt_error_set(call->err, KVT_TIMEOUT, "no time is left");
    own_address(&ours);
    kvt_buffer_init(&question, WIRE_DYNAMO_RPC_HEADER_MAX * 4);
    rc = open_listener(call, ours);
    if (rc == KVT_OK)
        rc = put_question(call, target, "", false, &question);
    if (rc == KVT_OK) {
        rc = wire_bus_request(bus, target->nats, question.data, question.size,
                              call->ask->deadline_ms - now_ms, &call->ack);
        if (rc != KVT_OK)
            (void)kvt_error_set(call->err, rc, "nobody answers at %.100s", target->nats);
    }
    kvt_buffer_release(&question);
    return rc == KVT_OK ? listen_to_worker(call) : rc;
}

enum kvt_err
advisor_dynamo_query(struct advisor_source *source, const struct advisor_discovery_target *target,
                     const struct advisor_ask *ask, struct kvt_buffer *answer,
                     struct kvt_error *err)
{
    struct call call = {
        .source = source,
        .ask = ask,
        .request = -1,
        .worker = -1,
        .answer = answer,
        .err = err,
    };
    enum kvt_err rc;

    random_id(call.subject);
    random_id(call.id);
    advisor_dynamo_callback_init(&call.door, call.subject);
    kvt_buffer_init(&call.ack, ACK_ROOM);
    kvt_buffer_init(&call.frames, answer->limit + FRAME_ROOM);
    if (target->tcp[0] != '\0')
        rc = ask_over_tcp(&call, target);
    else if (target->nats[0] != '\0')
        rc = ask_over_nats(&call, target);
    else
        rc = kvt_error_set(err, KVT_UNSUPPORTED, "the worker says no way to ask it");
    if (call.request >= 0)
        (void)close(call.request);
    if (call.worker >= 0)
        (void)close(call.worker);
    advisor_dynamo_callback_close(&call.door);
    kvt_buffer_release(&call.ack);
    kvt_buffer_release(&call.frames);
    return rc;
}
