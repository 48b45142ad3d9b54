/*
 * tests/unit/engine/support/rpc_proxy.h -- a bad network between a client and a server of
 * engine/rpc/rpc.h.
 *
 * Why: ZeroMQ loses messages only when a connection breaks, and never doubles or reorders them;
 * what engine/rpc/rpc.h promises is more than that, and has to be tried.  Everything passes through
 * here as messages, and a seed decides what becomes of each.
 * Ownership: rpc_proxy_close() after rpc_proxy_open().
 * Threads:   one of its own; any may call.
 * Limits:    RPC_PROXY_CLIENTS connections, RPC_PROXY_HELD messages on their way; further ones are
 *            lost.
 */
#ifndef TESTS_UNIT_ENGINE_SUPPORT_RPC_PROXY_H
#define TESTS_UNIT_ENGINE_SUPPORT_RPC_PROXY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { RPC_PROXY_CLIENTS = 32, RPC_PROXY_HELD = 4096 };

/* Of a million messages. */
struct rpc_proxy_faults {
    uint32_t lost;
    uint32_t twice;   /* the second one late */
    uint32_t late;    /* and so behind others */
    uint32_t late_ms; /* up to */
};

struct rpc_proxy;

struct rpc_proxy *rpc_proxy_open(const char *server, uint64_t seed,
                                 const struct rpc_proxy_faults *faults);
const char *rpc_proxy_endpoint(const struct rpc_proxy *proxy);

/** Let nothing pass, in either direction. */
void rpc_proxy_mute(struct rpc_proxy *proxy, bool mute);

void rpc_proxy_close(struct rpc_proxy *proxy);

#endif /* TESTS_UNIT_ENGINE_SUPPORT_RPC_PROXY_H */
