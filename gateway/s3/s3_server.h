/*
 * gateway/s3/s3_server.h -- the S3 port: HTTP in, answers out.
 *
 * Why: HTTP threads only move bytes.  A request whose body is whole is parked (suspended) and goes
 * to the I/O threads, which may wait for disk and bucket; its answer wakes the connection again.
 * A hot block is read while it is sent (gateway/block/reader.h).  A connection keeps the
 * certificate that it was shown (base/http/tls.h).
 *
 * Ownership: owns its threads, connections and requests.
 * Threads:   libmicrohttpd's epoll threads and `io_threads` of its own.
 * Limits:    `connections_max`; bodies of `s3->batch_max`; all bodies together within the budget:
 *            beyond it 503 SlowDown before the body is read; a request that stalls is cut after
 *            30 s, one that goes on for longer than `patience_ms` within two seconds.
 */
#ifndef GATEWAY_S3_S3_SERVER_H
#define GATEWAY_S3_S3_SERVER_H

#include <stdint.h>

#include "base/http/tls.h"
#include "gateway/http/auth.h"
#include "gateway/s3/s3_dispatch.h"
#include "kvtier/error.h"

struct gateway_s3_server;

struct gateway_s3_server_options {
    const char *bind;
    uint16_t port;
    unsigned http_threads;
    unsigned io_threads;
    unsigned connections_max;
    uint64_t patience_ms; /* for one request; then its connection is cut */
    const char *domains;  /* under which buckets are host names: "a,b"; "" for none */
    struct kvt_tls *tls;  /* borrowed; NULL: plain HTTP, else TLS only */
    struct gateway_auth *auth;
    struct gateway_s3 *s3;
};

KVT_NODISCARD enum kvt_err gateway_s3_server_start(struct gateway_s3_server **out,
                                                   const struct gateway_s3_server_options *options,
                                                   struct kvt_error *err);

uint16_t gateway_s3_server_port(const struct gateway_s3_server *front);

/** Stop accepting, finish what runs, free.  NULL is allowed. */
void gateway_s3_server_stop(struct gateway_s3_server *front);

#endif /* GATEWAY_S3_S3_SERVER_H */
