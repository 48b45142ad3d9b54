/*
 * tests/unit/engine/rpc/rpc_rig.h -- a server with known methods, for tests of engine/rpc/rpc.h.
 *
 * Why: every test of calls needs a server whose answers can be told right from wrong, and which
 * knows how often each call was run.
 * Ownership: rpc_rig_end() after rpc_rig_begin().
 * Threads:   counters are atomic; the rest is the test's.
 * Limits:    RPC_RIG_NAMES names of calls, RPC_RIG_HELD held calls.
 */
#ifndef TESTS_UNIT_ENGINE_RPC_RPC_RIG_H
#define TESTS_UNIT_ENGINE_RPC_RPC_RIG_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/rpc/rpc.h"

enum { RPC_RIG_NAMES = 1 << 16, RPC_RIG_HELD = ENGINE_RPC_CALLS_MAX };

enum rpc_rig_method {
    RPC_ECHO,   /* answers its payload */
    RPC_COUNT,  /* payload: a name (u32); counts how often it ran, and answers it */
    RPC_LATER,  /* as COUNT, answered by another thread soon */
    RPC_HOLD,   /* kept until rpc_rig_release() */
    RPC_STATUS, /* payload: a status (u32), which it answers */
    RPC_SLOW,   /* as COUNT, on a thread for slow handlers, in 5 ms */
    RPC_NONE,   /* there is no such method */
};

struct rpc_rig {
    struct engine_rpc_server *server;
    _Atomic uint32_t runs[RPC_RIG_NAMES]; /* by name */
    _Atomic uint32_t run;                 /* all */
    _Atomic uint32_t gone;                /* links */
    _Atomic uint64_t gone_link;           /* the last */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t came;
    struct engine_rpc_call *later[RPC_RIG_HELD];
    size_t later_count;
    struct engine_rpc_call *held[RPC_RIG_HELD];
    size_t held_count;
    bool ending;
    pthread_t answerer;
};

/** `options`: NULL, or calls, silence_ms and endpoint to be used instead of the usual. */
void rpc_rig_begin(struct rpc_rig *rig, const struct engine_rpc_server_options *options);
void rpc_rig_end(struct rpc_rig *rig);

/** Answer all that is held; how many. */
size_t rpc_rig_release(struct rpc_rig *rig);

/** Wait until so many are held. */
void rpc_rig_wait_held(struct rpc_rig *rig, size_t count);

struct engine_rpc_client *rpc_rig_client(const char *endpoint, uint64_t silence_ms);

/** Wait, for long, until `*counter` is at least `count`. */
void rpc_rig_wait_for(const _Atomic uint32_t *counter, uint32_t count);

#endif /* TESTS_UNIT_ENGINE_RPC_RPC_RIG_H */
