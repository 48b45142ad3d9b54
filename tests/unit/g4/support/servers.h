/*
 * tests/unit/g4/support/servers.h -- a real S3 server for the length of a test, and one that
 * misbehaves.
 *
 * Why: what stores do with conditions and odd keys is only known by asking them; what networks do
 * to answers is only seen with a peer that does it on purpose.
 * Ownership: stop what was started; a server also dies with the test process.
 * Threads:   call from the test's main thread.
 * Limits:    loopback only; SERVER_READY_MS to come up.
 */
#ifndef TESTS_UNIT_G4_SUPPORT_SERVERS_H
#define TESTS_UNIT_G4_SUPPORT_SERVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "g4/s3/s3.h"

#define SERVER_ACCESS_KEY "testkey-kvtier"
#define SERVER_SECRET_KEY "testsecret-kvtier"
#define SERVER_BUCKET     "kvtier-test"

enum server_kind { SERVER_MINIO, SERVER_VERSITYGW };

struct server;

/**
 * Start one with an empty state and SERVER_BUCKET in it.  NULL: its program is not on this machine
 * (KVT_MINIO, KVT_VERSITYGW, or the tools cache); with CI=true that fails the test instead.
 */
struct server *server_start(enum server_kind kind);
void server_stop(struct server *server);

/** Options for the bucket; they live as long as the server. */
const struct g4_s3_options *server_options(const struct server *server);

/** kill -9, and the same server on the same port and state again. */
void server_kill(struct server *server);
void server_restart(struct server *server);

/* A TCP server that reads each request whole and answers with whatever `handler` appends to
 * `reply`, byte for byte, then closes the connection.  An empty reply: it waits until the peer has
 * enough. */
struct hostile;

#define HOSTILE_THREADS_MAX 64

typedef void hostile_handler(void *arg, const char *head, const uint8_t *body, size_t size,
                             struct kvt_buffer *reply);

struct hostile *hostile_start(hostile_handler *handler, void *arg);
/** The same for `threads` connections at once (up to HOSTILE_THREADS_MAX): the handler must allow
 *  that. */
struct hostile *hostile_start_wide(hostile_handler *handler, void *arg, unsigned threads);
void hostile_stop(struct hostile *hostile);
const struct g4_s3_options *hostile_options(const struct hostile *hostile);

#endif /* TESTS_UNIT_G4_SUPPORT_SERVERS_H */
