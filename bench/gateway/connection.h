/*
 * bench/gateway/connection.h -- one connection to an S3 server, with plain blocking sockets.
 *
 * Why: the client that measures must cost little beside what it measures, and the same for every
 * server.  Heads are signed and made before the clock starts; then a request is one writev() and as
 * many recv() as the kernel wants, into memory that is there already.
 *
 * Ownership: the target's texts are borrowed; the connection owns its socket.
 * Threads:   a connection belongs to one thread; a target may be read by all.
 * Limits:    answers' heads of CONNECTION_HEAD_MAX bytes; answers must carry Content-Length.
 */
#ifndef BENCH_GATEWAY_CONNECTION_H
#define BENCH_GATEWAY_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "kvtier/error.h"

#define CONNECTION_HEAD_MAX 8192

struct target {
    uint16_t port; /* on 127.0.0.1 */
    const char *bucket;
    const char *access_key;
    const char *secret_key;
};

struct connection {
    int fd;
    char head[CONNECTION_HEAD_MAX + 1]; /* of the last answer */
    struct kvt_error error;             /* why the last call failed */
};

/**
 * Append the head of a signed request to `out`.
 *
 * @param key     of the object, decoded; "" = the bucket itself
 * @param query   sorted and encoded; "" = none
 * @param length  bytes of body that will follow
 */
KVT_NODISCARD enum kvt_err connection_head(const struct target *target, const char *method,
                                           const char *key, const char *query, size_t length,
                                           struct kvt_buffer *out);

/** Ask in the head that was appended last for `size` bytes from `at` on. */
KVT_NODISCARD enum kvt_err connection_range(struct kvt_buffer *out, size_t at, size_t size);

KVT_NODISCARD enum kvt_err connection_open(struct connection *connection, uint16_t port);
void connection_close(struct connection *connection);

/** Send a head and a body (which may be empty). */
KVT_NODISCARD enum kvt_err connection_send(struct connection *connection, const void *head,
                                           size_t head_size, const void *body, size_t body_size);

/** Receive exactly `size` bytes. */
KVT_NODISCARD enum kvt_err connection_receive(struct connection *connection, uint8_t *room,
                                              size_t size);

/** Receive an answer, which must be 200, or 206 where a `part` was asked for, and fit; `size` is
 *  the length of its body. */
KVT_NODISCARD enum kvt_err connection_answer(struct connection *connection, bool part,
                                             uint8_t *room, size_t capacity, size_t *size);

#endif /* BENCH_GATEWAY_CONNECTION_H */
