/*
 * gateway/door.h -- the HTTP server behind the S3 port, and the certificate it shows.
 *
 * Why: the HTTP library reads a certificate once.  So a renewed one is another server: who connects
 * is given to it, and the former ends when those it serves are done.  That works only when
 * connections are accepted apart from it, which is the front's affair.
 *
 * Ownership: owns its server and copies of the certificate; `arg` is borrowed.
 * Threads:   opened, retired and closed by one thread; the rest from any.
 * Limits:    the options'.
 */
#ifndef GATEWAY_DOOR_H
#define GATEWAY_DOOR_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/http_life.h"
#include "kvtier/error.h"

struct gateway_door {
    struct kvt_http_life life;
    void *arg;
    _Atomic bool closing; /* what it answers ends the connection */
    char *certificate;    /* NULL: plain HTTP */
    char *key;
};

/* What the library tells; each gets the door as its first argument. */
struct gateway_door_calls {
    void *(*on_target)(void *door, const char *target, struct MHD_Connection *connection);
    MHD_AccessHandlerCallback on_request;
    MHD_RequestCompletedCallback on_completed;
    MHD_NotifyConnectionCallback on_connection;
};

struct gateway_door_options {
    unsigned threads;
    unsigned connections_max;
    unsigned stall_s;        /* without a byte, until a connection is closed */
    const char *certificate; /* PEM; with key: TLS only; NULL or "": none */
    const char *key;
    const struct gateway_door_calls *calls;
    void *arg;
};

/** KVT_INVALID: the library takes no such certificate and key.  KVT_NOMEM, KVT_IO. */
KVT_NODISCARD enum kvt_err gateway_door_open(struct gateway_door **out,
                                             const struct gateway_door_options *options,
                                             struct kvt_error *err);

/** Serve a connection; what has no room is closed. */
void gateway_door_enter(struct gateway_door *door, int fd, const struct sockaddr *address,
                        socklen_t size);

/** It gets no more of them, and those it has end with their next answers. */
void gateway_door_retire(struct gateway_door *door);

/** Has it no connection? */
bool gateway_door_idle(struct gateway_door *door);

/** End it; no connection may be suspended.  NULL is allowed. */
void gateway_door_close(struct gateway_door *door);

#endif /* GATEWAY_DOOR_H */
