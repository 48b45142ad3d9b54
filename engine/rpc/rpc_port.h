/*
 * engine/rpc/rpc_port.h -- one ZeroMQ socket of engine/rpc/rpc.h.
 *
 * Why: a call between processes costs mostly the wake-ups of threads, so no thread of ours stands
 * between a caller and the socket: whoever has something to send does, and one thread at a time
 * sleeps on `fd` for what comes.  ZeroMQ allows a socket to change threads behind a lock.
 *
 * `fd` only says that something changed, and says it once: whoever used the socket must ask
 * engine_rpc_port_events() afterwards, or take messages until there are none, or what came
 * meanwhile lies there unseen.
 *
 * Ownership: a port owns its context and socket.
 * Threads:   one at a time, behind the owner's lock.  Only `fd` may be slept on without.
 * Limits:    ENGINE_RPC_PORT_QUEUE messages wait in either direction for each connection; then
 *            sending drops.  A message larger than ENGINE_RPC_WIRE_MAX ends its connection.
 */
#ifndef ENGINE_RPC_RPC_PORT_H
#define ENGINE_RPC_RPC_PORT_H

#include <stdbool.h>
#include <zmq.h>

#include "engine/rpc/rpc.h"

#define ENGINE_RPC_PORT_QUEUE 4096
#define ENGINE_RPC_PEER_MAX   16

/* Whom a server answers: ZeroMQ's name of a connection. */
struct engine_rpc_peer {
    uint8_t size;
    uint8_t name[ENGINE_RPC_PEER_MAX];
};

struct engine_rpc_port {
    void *context;
    void *socket;
    int fd;
    char endpoint[ENGINE_RPC_ENDPOINT_MAX]; /* with the port it has */
};

/** A server's.  KVT_OK, KVT_INVALID, KVT_BUSY, KVT_NOMEM, the system's; the port is empty then. */
KVT_NODISCARD enum kvt_err engine_rpc_port_bind(struct engine_rpc_port *port, const char *endpoint,
                                                struct kvt_error *err);

/** A client's. */
KVT_NODISCARD enum kvt_err engine_rpc_port_connect(struct engine_rpc_port *port,
                                                   const char *endpoint, struct kvt_error *err);

/** Make the connection anew; what waits to be sent is forgotten. */
void engine_rpc_port_reconnect(struct engine_rpc_port *port);

/** `linger_ms`: time for what was sent to leave.  A port that is all zero is allowed. */
void engine_rpc_port_close(struct engine_rpc_port *port, int linger_ms);

/** Send, or drop.  `peer`: NULL for a client. */
void engine_rpc_port_send(struct engine_rpc_port *port, const struct engine_rpc_peer *peer,
                          const void *bytes, size_t size);

/** The next message: KVT_OK, KVT_AGAIN (there is none) or KVT_INVALID (not of one frame, and
 *  dropped; `peer` is set).  `message` is initialised, and stays so. */
KVT_NODISCARD enum kvt_err engine_rpc_port_receive(struct engine_rpc_port *port,
                                                   struct engine_rpc_peer *peer,
                                                   zmq_msg_t *message);

/** ZMQ_POLLIN: there is a message.  ZMQ_POLLOUT, of a client: it is connected. */
int engine_rpc_port_events(struct engine_rpc_port *port);

#endif /* ENGINE_RPC_RPC_PORT_H */
