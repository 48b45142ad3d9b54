/*
 * bench/gateway/serve.h -- accept on a free loopback port, a thread for each connection.
 *
 * Why: both floors, the socket that sends files and the proxy that does nothing, are such servers.
 * Ownership: `arg` is borrowed for good; a connection's socket is closed after `answer` returned.
 * Threads:   the caller's accepts; `answer` runs on threads of its own.
 * Limits:    as many connections as the system allows threads.
 */
#ifndef BENCH_GATEWAY_SERVE_H
#define BENCH_GATEWAY_SERVE_H

#include "kvtier/error.h"

/** Prints "port <N>"; returns only when it cannot go on. */
KVT_NODISCARD enum kvt_err serve_loopback(void (*answer)(int fd, void *arg), void *arg,
                                          struct kvt_error *err);

#endif /* BENCH_GATEWAY_SERVE_H */
