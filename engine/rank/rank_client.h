/*
 * engine/rank/rank_client.h -- a worker in another process: asked over engine/rpc/rpc.h, served
 * there.
 *
 * Why: a rank has its own process (its GPU, its faults), its leader another.  The client side is a
 * worker like any other; the server side gives what it is asked to the worker it was given.  The
 * messages are in engine/rank/rank_messages.h.
 *
 * A process that dies ends its jobs as KVT_UNAVAILABLE, promptly; what they were about to write is
 * undefined then, as with any job that failed.  A process that was started again is another one:
 * jobs meant for the one before never end well, also those that are started before `restarted` has
 * returned, since what was in its memory tiers is gone with it.
 *
 * The leader that was opened last owns the worker: jobs of one before it are cancelled, and refused
 * as KVT_DENIED.  While something of it, or of a connection that was lost, is still under way, new
 * jobs end as KVT_AGAIN: two must not write one block.
 * Peers of one before are left when the new one connects its first.
 *
 * Ownership: the client side is a worker; the server borrows its worker, which outlives it.
 * Threads:   as engine/rank/worker.h and engine/rpc/rpc.h.
 * Limits:    as engine/rank/worker.h and engine/rpc/rpc.h; a worker is given at most a third of
 *            ENGINE_RPC_CLOSE_MS to describe itself or to connect.
 */
#ifndef ENGINE_RANK_RANK_CLIENT_H
#define ENGINE_RANK_RANK_CLIENT_H

#include "engine/rank/worker.h"

struct engine_rank_client_options {
    const char *endpoint; /* "ipc:///path" or "tcp://host:port" */
    uint64_t wait_ms;     /* for the first answer, which says layout and tiers */
    /** It was restarted: called once each time, on the rpc's thread.  May be NULL. */
    void (*restarted)(void *arg);
    void *arg;
};

/** KVT_OK; KVT_UNAVAILABLE or KVT_TIMEOUT (nobody answers there); KVT_DENIED (a leader with a later
 *  clock has it); KVT_INVALID; KVT_NOMEM. */
KVT_NODISCARD enum kvt_err engine_rank_client_open(struct engine_worker **out,
                                                   const struct engine_rank_client_options *options,
                                                   struct kvt_error *err);

struct engine_rank_server;

/** Serve `worker` at `endpoint`.  KVT_OK; KVT_BUSY (the address is taken); KVT_INVALID;
 *  KVT_NOMEM. */
KVT_NODISCARD enum kvt_err engine_rank_server_open(struct engine_rank_server **out,
                                                   struct engine_worker *worker,
                                                   const char *endpoint, struct kvt_error *err);

/** Ends what goes on, and waits for it.  NULL is allowed. */
void engine_rank_server_close(struct engine_rank_server *serve);

#endif /* ENGINE_RANK_RANK_CLIENT_H */
