/*
 * engine/hook.h -- one rank of an inference engine, around its forward pass.
 *
 * Why: what the scheduler's side decided (engine/connector.h) is done here: blocks of G2 into the
 * engine's own (G1) before a layer is computed, and out of it behind it.
 *
 * A load is G2 to G1 by layers, in their order, so that layer 0 can be computed while the last is
 * on its way; a save is G1 to G2 by layers as they are finished.
 *
 * Ownership: the rank (a worker) is borrowed and outlives the hook.
 * Threads:   one thread, the engine's.
 * Limits:    as engine/connector.h; loads and saves of ENGINE_HOOK_ITERATIONS iterations may be
 * under
 *            way at once: a further begin waits for the oldest.
 */
#ifndef ENGINE_HOOK_H
#define ENGINE_HOOK_H

#include "base/buffer.h"

#include "engine/worker.h"

#define ENGINE_HOOK_ITERATIONS 4

struct engine_hook;

KVT_NODISCARD enum kvt_err engine_hook_open(struct engine_hook **out, struct engine_worker *rank,
                                            struct kvt_error *err);
/** Ends what goes on, and waits for it. */
void engine_hook_close(struct engine_hook *hook);

/** Take the meta of an iteration.  KVT_INVALID, KVT_CORRUPT: it is none; KVT_PRECONDITION: its
 *  iteration is not newer than the last. */
KVT_NODISCARD enum kvt_err engine_hook_begin(struct engine_hook *hook, const uint8_t *meta,
                                             size_t size, struct kvt_error *err);
KVT_NODISCARD enum kvt_err engine_hook_start_load(struct engine_hook *hook);
/** KVT_OK: layer `layer` of all that this iteration loads is in G1.  Else what failed is told by
 *  engine_hook_heard(), and must be computed. */
KVT_NODISCARD enum kvt_err engine_hook_wait_for_layer_load(struct engine_hook *hook, uint32_t layer,
                                                           uint64_t wait_ms);
/** Layer `layer` of this iteration has been computed and lies in G1. */
KVT_NODISCARD enum kvt_err engine_hook_save_layer(struct engine_hook *hook, uint32_t layer);
/** Everything this iteration saves has left G1. */
KVT_NODISCARD enum kvt_err engine_hook_wait_for_save(struct engine_hook *hook, uint64_t wait_ms);
/** What has ended since it was asked last, for engine_connector_heard(); appended to `out`. */
KVT_NODISCARD enum kvt_err engine_hook_heard(struct engine_hook *hook, struct kvt_buffer *out);

#endif /* ENGINE_HOOK_H */
