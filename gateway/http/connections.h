/*
 * gateway/http/connections.h -- who is connected to the S3 port, and since when at the same thing.
 *
 * Why: a client that sends or takes a byte now and then is never idle, and keeps its connection for
 * as long as it likes.  Whatever a connection is at, a request or the wait for the next one, may
 * take so long and no longer.
 *
 * Ownership: a caller is the table's; its socket is the HTTP library's, which says so before it
 *            closes it.
 * Threads:   any; one leaf lock.
 * Limits:    as many as there are connections, which the HTTP library bounds.
 */
#ifndef GATEWAY_HTTP_CONNECTIONS_H
#define GATEWAY_HTTP_CONNECTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

struct gateway_connections;
struct gateway_connection;

/** @param patience_ms  how long a connection may be at one thing */
KVT_NODISCARD enum kvt_err gateway_connections_new(struct gateway_connections **out,
                                                   uint64_t patience_ms);

/** All have left.  NULL is allowed. */
void gateway_connections_free(struct gateway_connections *callers);

/** A connection is open.  NULL: no memory; then nobody watches it. */
struct gateway_connection *gateway_connections_enter(struct gateway_connections *callers, int fd,
                                                     uint64_t now_ms);

/** It begins something else.  NULL is allowed, here and below. */
void gateway_connections_begin(struct gateway_connections *callers,
                               struct gateway_connection *caller, uint64_t now_ms);

/** Its socket is about to be closed. */
void gateway_connections_leave(struct gateway_connections *callers,
                               struct gateway_connection *caller);

/** Shut the sockets of those that took too long; how many. */
size_t gateway_connections_cut(struct gateway_connections *callers, uint64_t now_ms);

#endif /* GATEWAY_HTTP_CONNECTIONS_H */
