/*
 * engine/connector/forward_hook.h -- one rank of an inference engine, around its forward pass.
 *
 * Why: what the scheduler's side decided (engine/connector/connector.h) is done here: blocks of G2
 * into the engine's own (G1) before a layer is computed, and out of it behind it.
 *
 * A load is G2 to G1 by layers, in their order, so that layer 0 can be computed while the last is
 * on its way; a save is G1 to G2 by layers as they are finished.  What comes between iterations
 * goes whole, and no iteration waits for it.
 *
 * An iteration ends at the latest where the next begins: loads that were not started by then, and
 * saves of layers that were not told of, have failed.  Saves may go on behind that, in up to
 * ENGINE_HOOK_ITERATIONS iterations, where the engine does not wait for them.
 *
 * Ownership: the rank (a worker) is borrowed and outlives the hook.
 * Threads:   one thread, the engine's.
 * Limits:    as engine/connector/connector.h; ENGINE_HOOK_ITERATIONS iterations whose saves go on
 *            (a further begin waits for the oldest); ENGINE_HOOK_AHEAD layers of each way
 *            under way at once; ENGINE_HOOK_JOB_MS for each, then it has failed.
 */
#ifndef ENGINE_CONNECTOR_FORWARD_HOOK_H
#define ENGINE_CONNECTOR_FORWARD_HOOK_H

#include "base/core/buffer.h"

#include "engine/rank/worker.h"

#define ENGINE_HOOK_ITERATIONS 4
#define ENGINE_HOOK_AHEAD      2
#define ENGINE_HOOK_JOB_MS     30000

struct engine_hook;

/** `rank` may stand for several that are one to the connector (engine/replica/replica_group.h).
 * KVT_OK;
 *  KVT_INVALID (a worker without G1 and G2); KVT_NOMEM. */
KVT_NODISCARD enum kvt_err engine_hook_open(struct engine_hook **out, struct engine_worker *rank,
                                            struct kvt_error *err);
/** Ends what goes on, and waits for it.  NULL is allowed. */
void engine_hook_close(struct engine_hook *hook);

/**
 * Take the meta of an iteration, and wait for what must have ended before it.
 *
 * @return KVT_OK; as engine_meta_decode(), or KVT_INVALID (blocks that are not there): it is none;
 *         KVT_PRECONDITION: its iteration is not newer than the last; KVT_RANGE (nobody asks for
 *         what has ended), KVT_NOMEM: this iteration has not begun, the last one is over
 */
KVT_NODISCARD enum kvt_err engine_hook_begin(struct engine_hook *hook, const uint8_t *meta,
                                             size_t size, struct kvt_error *err);

/* The next four are of the iteration that was begun last; with none they do nothing. */

/** G1 may be written. */
void engine_hook_start_load(struct engine_hook *hook);

/** KVT_OK: layer `layer` of all that this iteration loads is in G1.  Else the reason of the first
 *  block that failed: which ones, engine_hook_report() tells, and they must be computed.  After
 *  `wait_ms` what has not begun has failed as KVT_TIMEOUT, and what has is waited for all the same:
 *  on return, nothing writes the layer that the engine goes on with. */
enum kvt_err engine_hook_wait_for_layer_load(struct engine_hook *hook, uint32_t layer,
                                             uint64_t wait_ms);

/** Layer `layer` of this iteration has been computed and lies in G1; layers come in their order. */
void engine_hook_save_layer(struct engine_hook *hook, uint32_t layer);

/** Everything this iteration saves has left G1 (or failed).  KVT_OK or KVT_TIMEOUT: it goes on. */
enum kvt_err engine_hook_wait_for_save(struct engine_hook *hook, uint64_t wait_ms);

/** Blocks of G1 that this rank could not load, of what engine_hook_report() told last, at most
 *  `capacity`, each once; returns how many.  For engines that want to hear it from their ranks. */
size_t engine_hook_load_errors(struct engine_hook *hook, uint32_t *blocks, size_t capacity);

/** What has ended since it was asked last, for engine_connector_report(); appended to `out`, also
 *  where it is nothing.  KVT_OK, KVT_RANGE or KVT_NOMEM: nothing was, and it is told next time. */
KVT_NODISCARD enum kvt_err engine_hook_report(struct engine_hook *hook, struct kvt_buffer *out);

#endif /* ENGINE_CONNECTOR_FORWARD_HOOK_H */
