/*
 * worker/replay/request_server.h -- one request through the tiers.
 *
 * Why: this is the worker's reason to be: take the longest prefix of a request from wherever it is,
 * compute the rest, and check every byte on the way.
 *
 *   plan     the longest prefix whose every block is in some tier; the gateway is asked once a
 *            request, for what no local tier has
 *   take     the offload manager brings it into G1, through G2 where it comes from below, as much
 *            of it as is worth its wait and comes in time; every block is compared with what it
 *            must be before it can be found in G2, and again in G1 before it is used
 *   compute  what is left: written into G1, registered, and sent down to G2 at once
 *
 * A block that proves wrong is counted, reported, dropped from the tier it came from, and computed.
 * A request's last block is usually partial; the trace gives it an id of its own, so it is treated
 * as any other block.
 *
 * Ownership: a server belongs to one worker thread and borrows its stack.
 * Threads:   one.
 * Limits:    WIRE_TRACE_HASHES_MAX blocks a request.
 */
#ifndef WORKER_REPLAY_REQUEST_SERVER_H
#define WORKER_REPLAY_REQUEST_SERVER_H

#include <stdint.h>

#include "kvtier/error.h"

#include "worker/replay/tier_stack.h"

struct worker_request_server;

KVT_NODISCARD enum kvt_err worker_request_server_new(struct worker_request_server **out,
                                                     struct worker_stack *stack);
void worker_request_server_free(struct worker_request_server *serve);

/** Serve one request: `hashes` are its sequence hashes, root first.  KVT_OK or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err worker_request_server_run(struct worker_request_server *serve,
                                                     const uint64_t *hashes, uint32_t count);

#endif /* WORKER_REPLAY_REQUEST_SERVER_H */
