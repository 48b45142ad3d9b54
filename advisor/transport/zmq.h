/*
 * advisor/transport/zmq.h -- reading many ZeroMQ publishers with one thread, within bounds.
 *
 * Why: engines and event planes publish over ZeroMQ, in frames, from wherever they happen to run.
 * What they send is foreign: its frames are counted and measured before anybody looks at them, a
 * connection that goes is made again for ever, and whether it is a new one can be told.
 *
 * Ownership: a set owns its context and sockets.  A message's bytes live until the next receive.
 * Threads:   one thread at a time; the library's own threads never run our code.
 * Limits:    the names below.  A message of more frames or bytes is dropped and counted; a frame
 *            above ADVISOR_ZMQ_FRAME_MAX makes the library end the connection, which then begins
 *            anew.  A publisher that is not read on keeps ADVISOR_ZMQ_WAITING_MAX messages here and
 *            drops what its own mark says; its numbers show the loss.
 */
#ifndef ADVISOR_TRANSPORT_ZMQ_H
#define ADVISOR_TRANSPORT_ZMQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define ADVISOR_ZMQ_FRAMES_MAX      8
#define ADVISOR_ZMQ_FRAME_MAX       (16u << 20)
#define ADVISOR_ZMQ_MESSAGE_MAX     (32u << 20) /* bytes of all its frames */
#define ADVISOR_ZMQ_SOCKETS_MAX     257         /* one for each of ADVISOR_ENDPOINTS_MAX, and one */
#define ADVISOR_ZMQ_CONNECTIONS_MAX 4096        /* of one socket */
#define ADVISOR_ZMQ_WAITING_MAX     1024        /* messages of one connection */
#define ADVISOR_ZMQ_ANSWERS_MAX     16384       /* of a DEALER: its peer drops what finds no room */
#define ADVISOR_ZMQ_ENDPOINT_MAX    256         /* text, with the final NUL */
#define ADVISOR_ZMQ_PEER_MAX        48          /* text of an address, with the final NUL */

struct advisor_zmq;

enum advisor_zmq_kind {
    ADVISOR_ZMQ_SUBSCRIBER,
    ADVISOR_ZMQ_DEALER, /* asks a ROUTER */
};

struct advisor_zmq_frame {
    const uint8_t *bytes;
    size_t size;
};

struct advisor_zmq_message {
    struct advisor_zmq_frame frames[ADVISOR_ZMQ_FRAMES_MAX];
    size_t count;
    uint32_t socket;                 /* it came by */
    uint64_t connection;             /* connections this socket had made when it was read */
    char peer[ADVISOR_ZMQ_PEER_MAX]; /* address of the other end, or "" */
};

struct advisor_zmq_state {
    uint32_t wanted;    /* connections there should be; bound sockets count as none */
    uint32_t connected; /* connections there are */
    uint32_t bound;
    uint64_t refused; /* messages above the limits, since the last time it was asked */
    char away[96];    /* one endpoint that is not connected, or "" */
};

KVT_NODISCARD enum kvt_err advisor_zmq_new(struct advisor_zmq **out);

/** Close every socket and forget what they wanted to send.  NULL is allowed. */
void advisor_zmq_free(struct advisor_zmq *zmq);

/**
 * Another socket; sockets are numbered from 0 on.
 *
 * @param topic  SUBSCRIBER: prefix of the first frame, "" = all
 * @return KVT_OK, KVT_FULL or KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err advisor_zmq_open(struct advisor_zmq *zmq, enum advisor_zmq_kind kind,
                                            const char *topic, uint32_t *socket,
                                            struct kvt_error *err);

/* KVT_OK, KVT_INVALID (no such kind of address), KVT_BUSY (bind), KVT_FULL or KVT_UNAVAILABLE. */

KVT_NODISCARD enum kvt_err advisor_zmq_connect(struct advisor_zmq *zmq, uint32_t socket,
                                               const char *endpoint, struct kvt_error *err);
KVT_NODISCARD enum kvt_err advisor_zmq_bind(struct advisor_zmq *zmq, uint32_t socket,
                                            const char *endpoint, struct kvt_error *err);

/** End a connection that advisor_zmq_connect() made; what it brought and nobody read is gone. */
void advisor_zmq_disconnect(struct advisor_zmq *zmq, uint32_t socket, const char *endpoint);

/** Send one message.  KVT_OK or KVT_AGAIN (no room). */
KVT_NODISCARD enum kvt_err advisor_zmq_send(struct advisor_zmq *zmq, uint32_t socket,
                                            const struct advisor_zmq_frame *frames, size_t count);

/** The next message of any socket, in turn.  KVT_OK or KVT_TIMEOUT (nothing in `wait_ms`). */
KVT_NODISCARD enum kvt_err advisor_zmq_receive(struct advisor_zmq *zmq, uint64_t wait_ms,
                                               struct advisor_zmq_message *message);

/** Look at what happened to the connections of a socket; then the count of those it made. */
uint64_t advisor_zmq_connections(struct advisor_zmq *zmq, uint32_t socket);

/** What the connections are like now. */
void advisor_zmq_state(struct advisor_zmq *zmq, struct advisor_zmq_state *state);

#endif /* ADVISOR_TRANSPORT_ZMQ_H */
