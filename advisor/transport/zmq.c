#include "advisor/transport/zmq.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

enum {
    BURST_MAX = 64,      /* messages of one socket before the next has its turn */
    LOOK_EVERY_MS = 200, /* at the connections of sockets that bring nothing */
    RECONNECT_MS = 100,  /* first pause; doubled up to the next */
    RECONNECT_MAX_MS = 2000,
    HANDSHAKE_MS = 5000,   /* a peer that accepts and says nothing */
    KEEPALIVE_IDLE_S = 15, /* a peer whose machine is gone is noticed in about 30 s */
    KEEPALIVE_EVERY_S = 5,
    KEEPALIVE_COUNT = 3,
    POLL_MAX_MS = 60000,
    REVIVE_MS = 1000, /* after which the library will not try again by itself */
    LOST_MAX = 32,
    PEER_FRAME = 0,
};

enum {
    WATCHED = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
              ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
              ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CONNECT_RETRIED,
};

/* A connection that ended.  The library makes it again, and says so at once; but not after what it
 * takes for a breach of protocol: a frame above the limit, a peer that speaks something else. */
struct lost {
    uint64_t since_ms;
    char endpoint[ADVISOR_ZMQ_ENDPOINT_MAX];
};

struct socket {
    void *handle;
    void *monitor;
    uint64_t connections; /* made so far */
    uint32_t wanted;
    uint32_t connected;
    uint32_t failing; /* handshakes that failed and whose end is not told yet */
    uint32_t lost_count;
    bool bound;
    bool single; /* it was told one address only, ever */
    bool ready;
    char endpoint[ADVISOR_ZMQ_ENDPOINT_MAX]; /* the first */
    struct lost *lost;                       /* LOST_MAX of them */
};

struct advisor_zmq {
    void *context;
    struct socket sockets[ADVISOR_ZMQ_SOCKETS_MAX];
    zmq_pollitem_t items[ADVISOR_ZMQ_SOCKETS_MAX];
    uint32_t count;
    uint32_t turn;  /* socket that is read */
    uint32_t burst; /* messages it has given in this turn */
    uint64_t looked_ms;
    uint64_t refused;
    zmq_msg_t parts[ADVISOR_ZMQ_FRAMES_MAX]; /* of the message handed out */
    size_t held;
};

#ifdef __SANITIZE_THREAD__
/* The library hands memory between threads in ways that this checker cannot see unless the library
 * was built for it; what it does within itself is not for us to judge. */
const char *__tsan_default_suppressions(void);

const char *
__tsan_default_suppressions(void)
{
    return "called_from_lib:libzmq.so\nrace:libzmq.so\n";
}
#endif

enum kvt_err
advisor_zmq_new(struct advisor_zmq **out)
{
    struct advisor_zmq *zmq = kvt_calloc(1, sizeof(*zmq));

    *out = NULL;
    if (zmq == NULL)
        return KVT_NOMEM;
    zmq->context = zmq_ctx_new();
    if (zmq->context == NULL) {
        kvt_free(zmq);
        return KVT_NOMEM;
    }
    (void)zmq_ctx_set(zmq->context, ZMQ_MAX_SOCKETS, ADVISOR_ZMQ_SOCKETS_MAX * 3);
    *out = zmq;
    return KVT_OK;
}

static void
let_go(struct advisor_zmq *zmq)
{
    for (size_t i = 0; i < zmq->held; i++)
        (void)zmq_msg_close(&zmq->parts[i]);
    zmq->held = 0;
}

static void
close_socket(struct socket *socket)
{
    if (socket->handle != NULL) {
        (void)zmq_socket_monitor(socket->handle, NULL, 0);
        (void)zmq_close(socket->handle);
    }
    if (socket->monitor != NULL)
        (void)zmq_close(socket->monitor);
    kvt_free(socket->lost);
    memset(socket, 0, sizeof(*socket));
}

void
advisor_zmq_free(struct advisor_zmq *zmq)
{
    if (zmq == NULL)
        return;
    let_go(zmq);
    for (uint32_t i = 0; i < zmq->count; i++)
        close_socket(&zmq->sockets[i]);
    while (zmq_ctx_term(zmq->context) != 0 && errno == EINTR)
        ;
    kvt_free(zmq);
}

static bool
set(void *handle, int option, int value)
{
    return zmq_setsockopt(handle, option, &value, sizeof(value)) == 0;
}

static bool
prepare(void *handle, enum advisor_zmq_kind kind, const char *topic)
{
    const int64_t frame_max = ADVISOR_ZMQ_FRAME_MAX;
    bool ok = set(handle, ZMQ_LINGER, 0);

    ok = ok && set(handle, ZMQ_RCVHWM,
                   kind == ADVISOR_ZMQ_DEALER ? ADVISOR_ZMQ_ANSWERS_MAX : ADVISOR_ZMQ_WAITING_MAX);
    ok = ok && set(handle, ZMQ_RECONNECT_IVL, RECONNECT_MS);
    ok = ok && set(handle, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS);
    ok = ok && set(handle, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS);
    ok = ok && set(handle, ZMQ_TCP_KEEPALIVE, 1);
    ok = ok && set(handle, ZMQ_TCP_KEEPALIVE_IDLE, KEEPALIVE_IDLE_S);
    ok = ok && set(handle, ZMQ_TCP_KEEPALIVE_INTVL, KEEPALIVE_EVERY_S);
    ok = ok && set(handle, ZMQ_TCP_KEEPALIVE_CNT, KEEPALIVE_COUNT);
    ok = ok && zmq_setsockopt(handle, ZMQ_MAXMSGSIZE, &frame_max, sizeof(frame_max)) == 0;
    if (kind == ADVISOR_ZMQ_SUBSCRIBER)
        ok = ok && zmq_setsockopt(handle, ZMQ_SUBSCRIBE, topic, strlen(topic)) == 0;
    return ok;
}

/* What happens to connections comes as messages of its own. */
static bool
watch(struct advisor_zmq *zmq, struct socket *socket, uint32_t number)
{
    char address[32];

    (void)snprintf(address, sizeof(address), "inproc://watch-%u", number);
    if (zmq_socket_monitor(socket->handle, address, WATCHED) != 0)
        return false;
    socket->monitor = zmq_socket(zmq->context, ZMQ_PAIR);
    return socket->monitor != NULL && set(socket->monitor, ZMQ_LINGER, 0) &&
           zmq_connect(socket->monitor, address) == 0;
}

enum kvt_err
advisor_zmq_open(struct advisor_zmq *zmq, enum advisor_zmq_kind kind, const char *topic,
                 uint32_t *socket, struct kvt_error *err)
{
    struct socket *mine = &zmq->sockets[zmq->count];

    *socket = 0;
    if (zmq->count == ADVISOR_ZMQ_SOCKETS_MAX)
        return kvt_error_set(err, KVT_FULL, "more than %d sockets", ADVISOR_ZMQ_SOCKETS_MAX);
    mine->lost = kvt_calloc(LOST_MAX, sizeof(*mine->lost));
    if (mine->lost == NULL)
        return kvt_error_set(err, KVT_NOMEM, "out of memory");
    mine->handle = zmq_socket(zmq->context, kind == ADVISOR_ZMQ_SUBSCRIBER ? ZMQ_SUB : ZMQ_DEALER);
    if (mine->handle == NULL || !prepare(mine->handle, kind, topic) ||
        !watch(zmq, mine, zmq->count)) {
        const int problem = errno;

        close_socket(mine);
        return kvt_error_set(err, KVT_NOMEM, "a ZeroMQ socket cannot be made: %s",
                             zmq_strerror(problem));
    }
    zmq->items[zmq->count] = (zmq_pollitem_t){.socket = mine->handle, .events = ZMQ_POLLIN};
    *socket = zmq->count++;
    return KVT_OK;
}

static enum kvt_err
failed(struct kvt_error *err, const char *endpoint)
{
    const int problem = errno;
    enum kvt_err code = KVT_INVALID;

    if (problem == EADDRINUSE)
        code = KVT_BUSY;
    else if (problem == EADDRNOTAVAIL || problem == ENODEV)
        code = KVT_UNAVAILABLE;
    else if (problem == EMFILE || problem == ENOMEM)
        code = KVT_NOMEM;
    return kvt_error_set(err, code, "%s: %s", endpoint, zmq_strerror(problem));
}

/* Only where asked for: a name that has addresses of both kinds would go to the wrong one. */
static void
allow_ipv6(const struct socket *socket, const char *endpoint)
{
    if (strchr(endpoint, '[') != NULL)
        (void)set(socket->handle, ZMQ_IPV6, 1);
}

enum kvt_err
advisor_zmq_connect(struct advisor_zmq *zmq, uint32_t socket, const char *endpoint,
                    struct kvt_error *err)
{
    struct socket *mine = &zmq->sockets[socket];

    if (mine->wanted == ADVISOR_ZMQ_CONNECTIONS_MAX)
        return kvt_error_set(err, KVT_FULL, "more than %d connections",
                             ADVISOR_ZMQ_CONNECTIONS_MAX);
    allow_ipv6(mine, endpoint);
    if (zmq_connect(mine->handle, endpoint) != 0)
        return failed(err, endpoint);
    mine->wanted++;
    mine->single = mine->endpoint[0] == '\0';
    if (mine->single)
        (void)snprintf(mine->endpoint, sizeof(mine->endpoint), "%s", endpoint);
    return KVT_OK;
}

enum kvt_err
advisor_zmq_bind(struct advisor_zmq *zmq, uint32_t socket, const char *endpoint,
                 struct kvt_error *err)
{
    struct socket *mine = &zmq->sockets[socket];

    allow_ipv6(mine, endpoint);
    if (zmq_bind(mine->handle, endpoint) != 0)
        return failed(err, endpoint);
    mine->bound = true;
    return KVT_OK;
}

/* Connect again what the library gave up. */
static void
revive(struct socket *socket, const struct lost *lost)
{
    /* The library writes addresses as it resolved them; where there is one, ours is known. */
    const char *endpoint = socket->single ? socket->endpoint : lost->endpoint;

    if (zmq_disconnect(socket->handle, endpoint) == 0 && zmq_connect(socket->handle, endpoint) != 0)
        socket->wanted--;
}

static void
remove_lost(struct socket *socket, uint32_t at)
{
    socket->lost[at] = socket->lost[--socket->lost_count];
}

static void
add_lost(struct socket *socket, const char *endpoint)
{
    struct lost *lost;

    if (socket->bound)
        return;
    if (socket->lost_count == LOST_MAX) {
        revive(socket, &socket->lost[0]);
        remove_lost(socket, 0);
    }
    lost = &socket->lost[socket->lost_count++];
    lost->since_ms = kvt_clock_mono_ms();
    (void)snprintf(lost->endpoint, sizeof(lost->endpoint), "%s", endpoint);
}

static void
note(struct socket *socket, uint16_t event, const char *endpoint)
{
    switch (event) {
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        socket->connections++;
        socket->connected++;
        break;
    case ZMQ_EVENT_DISCONNECTED:
        if (socket->failing > 0)
            socket->failing--;
        else if (socket->connected > 0)
            socket->connected--;
        add_lost(socket, endpoint);
        break;
    case ZMQ_EVENT_CONNECT_RETRIED:
        for (uint32_t i = socket->lost_count; i > 0; i--)
            if (strcmp(socket->lost[i - 1].endpoint, endpoint) == 0)
                remove_lost(socket, i - 1);
        break;
    default: socket->failing++; break;
    }
}

/* Read what the library says about a socket's connections: messages of two frames. */
static void
look(struct socket *socket)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    zmq_msg_t part;

    (void)zmq_msg_init(&part);
    while (zmq_msg_recv(&part, socket->monitor, ZMQ_DONTWAIT) >= 0) {
        char endpoint[ADVISOR_ZMQ_ENDPOINT_MAX] = "";
        uint16_t event = 0;

        if (zmq_msg_size(&part) >= sizeof(event))
            memcpy(&event, zmq_msg_data(&part), sizeof(event));
        if (zmq_msg_more(&part) && zmq_msg_recv(&part, socket->monitor, ZMQ_DONTWAIT) >= 0)
            (void)snprintf(endpoint, sizeof(endpoint), "%.*s", (int)zmq_msg_size(&part),
                           (const char *)zmq_msg_data(&part));
        note(socket, event, endpoint);
    }
    (void)zmq_msg_close(&part);
    for (uint32_t i = socket->lost_count; i > 0; i--)
        if (now_ms - socket->lost[i - 1].since_ms >= REVIVE_MS) {
            revive(socket, &socket->lost[i - 1]);
            remove_lost(socket, i - 1);
        }
}

void
advisor_zmq_disconnect(struct advisor_zmq *zmq, uint32_t socket, const char *endpoint)
{
    struct socket *mine = &zmq->sockets[socket];

    if (zmq_disconnect(mine->handle, endpoint) != 0)
        return;
    look(mine);
    mine->wanted--;
    /* No event tells of an end that we made. */
    if (mine->connected > mine->wanted && !mine->bound)
        mine->connected = mine->wanted;
}

enum kvt_err
advisor_zmq_send(struct advisor_zmq *zmq, uint32_t socket, const struct advisor_zmq_frame *frames,
                 size_t count)
{
    void *handle = zmq->sockets[socket].handle;

    for (size_t i = 0; i < count; i++)
        if (zmq_send(handle, frames[i].bytes, frames[i].size,
                     ZMQ_DONTWAIT | (i + 1 < count ? ZMQ_SNDMORE : 0)) < 0)
            return KVT_AGAIN; /* only ever at the first: what has begun is taken whole */
    return KVT_OK;
}

/* The rest of a message that is too long; it is all here, so this does not wait. */
static void
pass_over(struct advisor_zmq *zmq, void *handle)
{
    zmq_msg_t part;

    (void)zmq_msg_init(&part);
    while (zmq_msg_recv(&part, handle, ZMQ_DONTWAIT) >= 0 && zmq_msg_more(&part))
        ;
    (void)zmq_msg_close(&part);
    let_go(zmq);
    zmq->refused++;
}

/* One message of a socket.  KVT_OK, KVT_AGAIN (there is none) or KVT_RANGE (refused). */
static enum kvt_err
take(struct advisor_zmq *zmq, void *handle)
{
    size_t total = 0;

    for (;;) {
        zmq_msg_t *part = &zmq->parts[zmq->held];

        (void)zmq_msg_init(part);
        if (zmq_msg_recv(part, handle, ZMQ_DONTWAIT) < 0) {
            (void)zmq_msg_close(part);
            let_go(zmq);
            return KVT_AGAIN;
        }
        zmq->held++;
        total += zmq_msg_size(part);
        if (!zmq_msg_more(part)) {
            if (total <= ADVISOR_ZMQ_MESSAGE_MAX)
                return KVT_OK;
            let_go(zmq);
            zmq->refused++;
            return KVT_RANGE;
        }
        if (zmq->held == ADVISOR_ZMQ_FRAMES_MAX || total > ADVISOR_ZMQ_MESSAGE_MAX) {
            pass_over(zmq, handle);
            return KVT_RANGE;
        }
    }
}

static void
hand_out(struct advisor_zmq *zmq, uint32_t socket, struct advisor_zmq_message *message)
{
    const char *peer = zmq_msg_gets(&zmq->parts[PEER_FRAME], "Peer-Address");

    message->count = zmq->held;
    for (size_t i = 0; i < zmq->held; i++) {
        message->frames[i].bytes = zmq_msg_data(&zmq->parts[i]);
        message->frames[i].size = zmq_msg_size(&zmq->parts[i]);
    }
    message->socket = socket;
    message->connection = zmq->sockets[socket].connections;
    (void)snprintf(message->peer, sizeof(message->peer), "%s", peer == NULL ? "" : peer);
}

/* What sockets have that poll said are ready, some of each in turn. */
static bool
next_ready(struct advisor_zmq *zmq, struct advisor_zmq_message *message)
{
    while (zmq->turn < zmq->count) {
        struct socket *socket = &zmq->sockets[zmq->turn];
        enum kvt_err rc = KVT_AGAIN;

        if (socket->ready && zmq->burst < BURST_MAX) {
            zmq->burst++;
            rc = take(zmq, socket->handle);
        }
        if (rc == KVT_OK) {
            hand_out(zmq, zmq->turn, message);
            return true;
        }
        if (rc == KVT_AGAIN) {
            zmq->turn++;
            zmq->burst = 0;
        }
    }
    return false;
}

static void
look_at_all(struct advisor_zmq *zmq)
{
    const uint64_t now_ms = kvt_clock_mono_ms();

    if (now_ms - zmq->looked_ms < LOOK_EVERY_MS)
        return;
    zmq->looked_ms = now_ms;
    for (uint32_t i = 0; i < zmq->count; i++)
        look(&zmq->sockets[i]);
}

enum kvt_err
advisor_zmq_receive(struct advisor_zmq *zmq, uint64_t wait_ms, struct advisor_zmq_message *message)
{
    message->count = 0;
    let_go(zmq);
    for (bool polled = false;; polled = true) {
        if (next_ready(zmq, message))
            return KVT_OK;
        if (polled)
            return KVT_TIMEOUT;
        if (wait_ms > POLL_MAX_MS)
            wait_ms = POLL_MAX_MS;
        (void)zmq_poll(zmq->items, (int)zmq->count, (long)wait_ms);
        zmq->turn = 0;
        zmq->burst = 0;
        for (uint32_t i = 0; i < zmq->count; i++) {
            zmq->sockets[i].ready = (zmq->items[i].revents & ZMQ_POLLIN) != 0;
            if (zmq->sockets[i].ready)
                look(&zmq->sockets[i]);
        }
        look_at_all(zmq);
    }
}

uint64_t
advisor_zmq_connections(struct advisor_zmq *zmq, uint32_t socket)
{
    look(&zmq->sockets[socket]);
    return zmq->sockets[socket].connections;
}

void
advisor_zmq_state(struct advisor_zmq *zmq, struct advisor_zmq_state *state)
{
    *state = (struct advisor_zmq_state){.refused = zmq->refused};
    zmq->refused = 0;
    for (uint32_t i = 0; i < zmq->count; i++) {
        const struct socket *socket = &zmq->sockets[i];

        state->wanted += socket->wanted;
        state->connected += socket->connected;
        state->bound += socket->bound ? 1 : 0;
        if (!socket->bound && socket->connected == 0 && state->away[0] == '\0')
            (void)snprintf(state->away, sizeof(state->away), "%.95s", socket->endpoint);
    }
}
