/*
 * bench/gateway/splice.h -- a proxy that does nothing: bytes from socket to socket by splice(2).
 *
 * Why: what stands between client and store costs something whatever it does.  This is the least
 * that can cost: one connection behind each connection, no byte looked at or copied to user space.
 *
 * Ownership: nothing of the caller's.
 * Threads:   splice_serve() takes the calling thread and two more a connection.
 * Limits:    SPLICE_PIPE bytes on their way in each direction of a connection.
 */
#ifndef BENCH_GATEWAY_SPLICE_H
#define BENCH_GATEWAY_SPLICE_H

#include <stdint.h>

#include "kvtier/error.h"

#define SPLICE_PIPE (1 << 20)

/** Pass everything on to `port` of this machine and back, until killed.  Prints "port <N>". */
KVT_NODISCARD enum kvt_err splice_serve(uint16_t port, struct kvt_error *err);

#endif /* BENCH_GATEWAY_SPLICE_H */
