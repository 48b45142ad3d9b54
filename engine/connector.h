/*
 * engine/connector.h -- an inference engine's scheduler, beside the leader.
 *
 * Why: the engine's scheduler decides once an iteration which requests run and in which of its own
 * blocks (G1).  It asks here how much of a request need not be computed, says where it wants it,
 * and takes along with its own orders a piece of bytes (*meta*) that tells each rank what to load
 * and what to save around the forward pass (engine/hook.h).  Names are those of vLLM's KV
 * connector, so that an engine's glue is one line a call.
 *
 * One iteration:
 *
 *   scheduler                                    ranks
 *   get_num_new_matched_tokens  a request waits
 *   update_state_after_alloc    its blocks of G1
 *   build_connector_meta        ─────────────►   hook_begin(meta)
 *                                                hook_start_load
 *                                                for each layer: hook_wait_for_layer_load(n),
 *                                                  compute, hook_save_layer(n)
 *                                                hook_wait_for_save
 *   finished()                  ◄─────────────   hook_heard()
 *   request_finished            its blocks may be used again, or not until finished() says so
 *
 * Gates: a load into blocks of G1 is ordered only after the iteration in which they were given out
 * was built; a rank begins it at its meta's iteration and never before an older one's; layer n is
 * read by the engine after hook_wait_for_layer_load(n); a save reads layer n after
 * hook_save_layer(n) and all of it before the blocks are given back.  A request that is preempted
 * or aborted keeps its blocks of G1 only until what is under way has ended: request_finished() and
 * preempted() say whether to wait.
 *
 * Ownership: leader borrowed, outlives it.  Strings and arrays are copied.
 * Threads:   one thread, the scheduler's; finished() may be fed from any.
 * Limits:    ENGINE_REQUESTS_MAX requests at once, ENGINE_META_MAX bytes of meta.
 */
#ifndef ENGINE_CONNECTOR_H
#define ENGINE_CONNECTOR_H

#include "engine/leader.h"

#define ENGINE_REQUESTS_MAX   4096
#define ENGINE_REQUEST_ID_MAX 128 /* bytes with the final NUL */
#define ENGINE_META_MAX       (4u << 20)

struct engine_connector;

struct engine_connector_options {
    struct engine_leader *leader;
    uint32_t block_tokens;
    uint64_t seed;    /* of token hashes: kvt_token_seed() */
    uint64_t find_ms; /* how long a request may wait for its match */
    bool peers;       /* as engine_find */
    bool objects;
};

KVT_NODISCARD enum kvt_err engine_connector_open(struct engine_connector **out,
                                                 const struct engine_connector_options *options,
                                                 struct kvt_error *err);
void engine_connector_close(struct engine_connector *connector);

/* An answer to get_num_new_matched_tokens(). */
struct engine_matched {
    bool known;      /* false: ask again in the next iteration, it is being looked for */
    bool async;      /* tokens come between iterations, not within the forward pass */
    uint32_t tokens; /* beyond `computed`, a multiple of block_tokens; never the whole prompt: one
                        token is left to be computed */
};

/** @param computed  tokens of the prompt that the engine's own G1 has already */
KVT_NODISCARD enum kvt_err
engine_connector_get_num_new_matched_tokens(struct engine_connector *connector, const char *request,
                                            const uint32_t *tokens, size_t count, size_t computed,
                                            struct engine_matched *matched);

/** The engine gave the request `count` blocks of G1, in its order from position 0 on; `external`
 *  tokens of those that were matched are to be loaded (0: it computes all). */
KVT_NODISCARD enum kvt_err
engine_connector_update_state_after_alloc(struct engine_connector *connector, const char *request,
                                          const uint32_t *blocks, size_t count, size_t external);

/* What the scheduler decided about one request in this iteration. */
struct engine_scheduled {
    const char *request;
    const uint32_t *new_blocks; /* of G1, behind those it has */
    size_t new_block_count;
    const uint32_t *new_tokens; /* that were appended since (decoded), behind those known */
    size_t new_token_count;
    size_t computed; /* tokens whose KV data is there when this iteration ends */
};

/** The meta of iteration `iteration` (must rise), appended to `out`: what ranks load before and
 *  save behind it. */
KVT_NODISCARD enum kvt_err
engine_connector_build_connector_meta(struct engine_connector *connector, uint64_t iteration,
                                      const struct engine_scheduled *scheduled, size_t count,
                                      struct kvt_buffer *out);

/** Its blocks of G1 are taken away.  True: not until finished() names it. */
bool engine_connector_preempted(struct engine_connector *connector, const char *request);
/** It is over, or aborted.  True: its blocks of G1 must not be used until finished() names it. */
bool engine_connector_request_finished(struct engine_connector *connector, const char *request);

/** What all ranks said (hook_heard()): bytes of rank `rank`.  */
KVT_NODISCARD enum kvt_err engine_connector_heard(struct engine_connector *connector, uint32_t rank,
                                                  const uint8_t *bytes, size_t size);

/** The next request all of whose loads (`loaded`) or saves are done everywhere since last asked;
 *  false: no more. */
bool engine_connector_finished(struct engine_connector *connector,
                               char request[ENGINE_REQUEST_ID_MAX], bool *loaded, bool *ok);

#endif /* ENGINE_CONNECTOR_H */
