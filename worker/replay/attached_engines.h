/*
 * worker/replay/attached_engines.h -- engines of other processes at a worker's tiers.
 *
 * Why: kvbm/attach knows pools and transfers, and neither events nor gateways; this is what binds
 * the two.
 *
 * Ownership: engines borrow the stack, which outlives them.
 * Threads:   as kvbm/attach/attach_server.h says.
 * Limits:    attach.engines and attach.memory of the settings.
 */
#ifndef WORKER_REPLAY_ATTACHED_ENGINES_H
#define WORKER_REPLAY_ATTACHED_ENGINES_H

#include "kvbm/attach/attach_server.h"

#include "worker/replay/tier_stack.h"

struct worker_engines;

/** Let engines in at the settings' attach.socket. */
KVT_NODISCARD enum kvt_err worker_engines_open(struct worker_engines **out,
                                               struct worker_stack *stack, struct kvt_error *err);

/** Sends them away.  NULL is allowed. */
void worker_engines_close(struct worker_engines *engines);

void worker_engines_stats(struct worker_engines *engines, struct kvbm_attach_stats *stats);

#endif /* WORKER_REPLAY_ATTACHED_ENGINES_H */
