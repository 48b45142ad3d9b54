#include "engine/rpc/rpc_port.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/rpc/rpc_wire.h"

enum {
    RECONNECT_MS = 20, /* first pause; doubled up to the next */
    RECONNECT_MAX_MS = 200,
    HANDSHAKE_MS = 2000, /* a peer that accepts and says nothing */
};

static bool
set(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof(value)) == 0;
}

static bool
prepare(void *socket, bool server)
{
    const int64_t most = ENGINE_RPC_WIRE_MAX;
    bool ok = set(socket, ZMQ_LINGER, 0);

    ok = ok && set(socket, ZMQ_SNDHWM, ENGINE_RPC_PORT_QUEUE);
    ok = ok && set(socket, ZMQ_RCVHWM, ENGINE_RPC_PORT_QUEUE);
    ok = ok && set(socket, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS);
    ok = ok && zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &most, sizeof(most)) == 0;
    if (server)
        return ok;
    /* Nothing waits for a connection that is not there: what it was about may be over by then. */
    ok = ok && set(socket, ZMQ_IMMEDIATE, 1);
    ok = ok && set(socket, ZMQ_RECONNECT_IVL, RECONNECT_MS);
    return ok && set(socket, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS);
}

static enum kvt_err
failed(struct kvt_error *err, const char *endpoint)
{
    const int problem = errno;
    enum kvt_err code = KVT_IO;

    if (problem == EADDRINUSE)
        code = KVT_BUSY;
    else if (problem == EINVAL || problem == EPROTONOSUPPORT || problem == ENOCOMPATPROTO)
        code = KVT_INVALID;
    else if (problem == ENOMEM || problem == EMFILE)
        code = KVT_NOMEM;
    else if (problem == EADDRNOTAVAIL || problem == ENODEV)
        code = KVT_UNAVAILABLE;
    return kvt_error_set(err, code, "rpc: %.200s: %s", endpoint, zmq_strerror(problem));
}

static bool
find_out(struct engine_rpc_port *port, bool server)
{
    size_t size = sizeof(port->endpoint);
    size_t fd_size = sizeof(port->fd);

    return (!server ||
            zmq_getsockopt(port->socket, ZMQ_LAST_ENDPOINT, port->endpoint, &size) == 0) &&
           zmq_getsockopt(port->socket, ZMQ_FD, &port->fd, &fd_size) == 0;
}

/* ZeroMQ takes the path of a socket from whoever listens there, and he takes the file away when he
 * closes: nobody would find either of them. */
static bool
is_taken(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    bool taken;
    int fd;

    if (strlen(path) >= sizeof(address.sun_path))
        return false; /* ZeroMQ says so */
    memcpy(address.sun_path, path, strlen(path));
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    taken = connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 || errno == EAGAIN;
    (void)close(fd);
    return taken;
}

static enum kvt_err
open_port(struct engine_rpc_port *port, const char *endpoint, bool server, struct kvt_error *err)
{
    enum kvt_err rc;

    memset(port, 0, sizeof(*port));
    if (strlen(endpoint) >= ENGINE_RPC_ENDPOINT_MAX ||
        (strncmp(endpoint, "ipc://", 6) != 0 && strncmp(endpoint, "tcp://", 6) != 0))
        return kvt_error_set(err, KVT_INVALID, "rpc: %.200s: neither ipc:// nor tcp://", endpoint);
    if (server && strncmp(endpoint, "ipc://", 6) == 0 && is_taken(endpoint + 6))
        return kvt_error_set(err, KVT_BUSY, "rpc: %.200s: somebody else listens there", endpoint);
    (void)snprintf(port->endpoint, sizeof(port->endpoint), "%s", endpoint);
    port->context = zmq_ctx_new();
    if (port->context == NULL)
        return failed(err, endpoint);
    port->socket = zmq_socket(port->context, server ? ZMQ_ROUTER : ZMQ_DEALER);
    if (port->socket != NULL && prepare(port->socket, server) &&
        (server ? zmq_bind : zmq_connect)(port->socket, endpoint) == 0 && find_out(port, server))
        return KVT_OK;
    rc = failed(err, endpoint);
    engine_rpc_port_close(port, 0);
    return rc;
}

enum kvt_err
engine_rpc_port_bind(struct engine_rpc_port *port, const char *endpoint, struct kvt_error *err)
{
    return open_port(port, endpoint, true, err);
}

enum kvt_err
engine_rpc_port_connect(struct engine_rpc_port *port, const char *endpoint, struct kvt_error *err)
{
    return open_port(port, endpoint, false, err);
}

void
engine_rpc_port_reconnect(struct engine_rpc_port *port)
{
    (void)zmq_disconnect(port->socket, port->endpoint);
    (void)zmq_connect(port->socket, port->endpoint);
}

void
engine_rpc_port_close(struct engine_rpc_port *port, int linger_ms)
{
    if (port->socket != NULL) {
        (void)set(port->socket, ZMQ_LINGER, linger_ms);
        (void)zmq_close(port->socket);
    }
    if (port->context != NULL)
        while (zmq_ctx_term(port->context) != 0 && errno == EINTR)
            ;
    memset(port, 0, sizeof(*port));
}

void
engine_rpc_port_send(struct engine_rpc_port *port, const struct engine_rpc_peer *peer,
                     const void *bytes, size_t size)
{
    /* Only ever refused at the first frame: what has begun is taken whole. */
    if (peer != NULL &&
        zmq_send(port->socket, peer->name, peer->size, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0)
        return;
    (void)zmq_send(port->socket, bytes, size, ZMQ_DONTWAIT);
}

/* A message comes whole, so none of this waits. */
static bool
pass_over(struct engine_rpc_port *port, zmq_msg_t *message)
{
    while (zmq_msg_more(message))
        if (zmq_msg_recv(message, port->socket, ZMQ_DONTWAIT) < 0)
            return false;
    return true;
}

enum kvt_err
engine_rpc_port_receive(struct engine_rpc_port *port, struct engine_rpc_peer *peer,
                        zmq_msg_t *message)
{
    size_t size = 0;

    memset(peer, 0, sizeof(*peer));
    if (zmq_msg_recv(message, port->socket, ZMQ_DONTWAIT) < 0)
        return KVT_AGAIN;
    if (!zmq_msg_more(message))
        return KVT_OK; /* a client's: there is no name before it */
    size = zmq_msg_size(message);
    if (size <= ENGINE_RPC_PEER_MAX) {
        peer->size = (uint8_t)size;
        memcpy(peer->name, zmq_msg_data(message), size);
    }
    if (zmq_msg_recv(message, port->socket, ZMQ_DONTWAIT) < 0)
        return KVT_AGAIN;
    if (!zmq_msg_more(message) && size <= ENGINE_RPC_PEER_MAX)
        return KVT_OK;
    (void)pass_over(port, message);
    return KVT_INVALID;
}

int
engine_rpc_port_events(struct engine_rpc_port *port)
{
    int events = 0;
    size_t size = sizeof(events);

    (void)zmq_getsockopt(port->socket, ZMQ_EVENTS, &events, &size);
    return events;
}
