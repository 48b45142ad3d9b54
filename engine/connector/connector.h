/*
 * engine/connector/connector.h -- an inference engine's scheduler, beside the leader.
 *
 * Why: the engine's scheduler decides once an iteration which requests run and in which of its own
 * blocks (G1).  It asks here how much of a request need not be computed, says where it wants it,
 * and takes along with its own orders a piece of bytes (*meta*) that tells each rank what to load
 * and what to save around the forward pass (engine/connector/forward_hook.h).  Names are those of
 * vLLM's KV connector, so that an engine's glue is one line a call (engine/connector/DESIGN.md).
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
 *   heard(), then               ◄─────────────   hook_report()
 *   invalid(), finished()
 *   request_finished            its blocks may be used again, or not until finished() says so
 *
 * Gates:
 *   - A load into blocks of G1 is ordered in the iteration they were given out in, and begun at a
 *     rank when that iteration is, never before an older one's loads have ended.
 *   - Layer n is read by the engine after hook_wait_for_layer_load(n); a save reads layer n after
 *     hook_save_layer(n).
 *   - Blocks of G2 that are loaded from are held until every rank has ended; those that are saved
 *     to are found by nobody before every rank has them.
 *   - Blocks of G1 of a request that is over are not given out before finished() names it.  Those
 *     of one that is preempted may be given out at once, as engines do: the next meta makes every
 *     rank wait for what is still under way in them before it begins.
 *   - What is computed on top of a load that failed is not saved, whatever request it belongs to:
 *     the blocks are invalid() until they were computed.
 *
 * One block of the engine is one block here.  Only blocks whose tokens are all known, and whose KV
 * data is there when the iteration ends, are saved: proposed tokens that may be rejected are not
 * passed as new_tokens before they are accepted.
 *
 * Ownership: leader and pool borrowed, they outlive it.  Strings and arrays are copied.
 * Threads:   one, the scheduler's.  The ranks' answers are brought to it.
 * Limits:    ENGINE_REQUESTS_MAX requests at once, ENGINE_REQUEST_TOKENS_MAX tokens each,
 *            ENGINE_SAVES_MAX blocks being saved, ENGINE_META_MAX bytes of meta.  A request that
 *            finds no room is computed by the engine, and a block is not saved.
 */
#ifndef ENGINE_CONNECTOR_CONNECTOR_H
#define ENGINE_CONNECTOR_CONNECTOR_H

#include "engine/connector/connector_meta.h"
#include "engine/leader/leader.h"

#define ENGINE_REQUESTS_MAX       4096
#define ENGINE_REQUEST_ID_MAX     128 /* bytes with the final NUL */
#define ENGINE_REQUEST_TOKENS_MAX (4u << 20)
#define ENGINE_SAVES_MAX          16384 /* blocks on their way to G2 */
#define ENGINE_LOADS_MAX          65536 /* blocks ordered in one iteration; then "ask again" */

struct engine_connector;

struct engine_connector_options {
    struct engine_leader *leader;
    struct kvbm_pool *g2; /* the leader's */
    uint32_t ranks;       /* 1 .. KVT_RANKS_MAX, each of them is heard */
    uint32_t g1_blocks;   /* of each rank */
    uint32_t block_tokens;
    uint32_t prefix_depth; /* of names (kvtier/event.h); 0: 8 */
    uint64_t seed;         /* of token hashes: kvt_token_seed() */
    uint64_t find_ms;      /* how long a request may wait for its match */
    bool peers;            /* as engine_find */
    bool objects;
    bool async; /* loads come between iterations, not within the forward pass */
};

/** KVT_OK, KVT_INVALID or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err engine_connector_open(struct engine_connector **out,
                                                 const struct engine_connector_options *options,
                                                 struct kvt_error *err);

/** Ranks have nothing of it under way any more.  What was not heard of is not registered.  NULL is
 *  allowed. */
void engine_connector_close(struct engine_connector *connector);

/* An answer to get_num_new_matched_tokens(). */
struct engine_matched {
    bool known;      /* false: ask again in the next iteration, it is being looked for */
    bool async;      /* tokens come between iterations; false where there are none */
    uint32_t tokens; /* beyond `computed`, a multiple of block_tokens; never the whole prompt: one
                        token is left to be computed */
};

/**
 * What need not be computed.  May be asked as often as one likes; what was found is held until the
 * request gets its blocks, is preempted or over.
 *
 * @param tokens    all that the request has (after a preemption those decoded, too)
 * @param computed  tokens that the engine's own G1 has already, a multiple of block_tokens
 * @return KVT_OK; KVT_INVALID; KVT_FULL or KVT_NOMEM (no room for it): `matched` says "none" then
 */
KVT_NODISCARD enum kvt_err
engine_connector_get_num_new_matched_tokens(struct engine_connector *connector, const char *request,
                                            const uint32_t *tokens, size_t count, size_t computed,
                                            struct engine_matched *matched);

/**
 * The request has `count` blocks of G1, from position 0 on (those it had before included);
 * `external` tokens of those that were matched are to be loaded behind those that were computed (0:
 * none, also where blocks follow after a load between iterations).
 *
 * @return KVT_OK; KVT_NOTFOUND (nobody knows the request); KVT_INVALID (more than was matched, no
 *         whole blocks, blocks that are not there); KVT_NOMEM.  Nothing is loaded where it is not
 *         KVT_OK: the engine computes all
 */
KVT_NODISCARD enum kvt_err
engine_connector_update_state_after_alloc(struct engine_connector *connector, const char *request,
                                          const uint32_t *blocks, size_t count, size_t external);

/* What the scheduler decided about one request in this iteration. */
struct engine_scheduled {
    const char *request;
    const uint32_t *new_blocks; /* of G1, behind those it was told to have */
    size_t new_block_count;
    const uint32_t *new_tokens; /* that were appended since, behind those known */
    size_t new_token_count;
    size_t computed;  /* tokens whose KV data is there before this iteration computes, those that
                         it loads included.  Less than before: what was invalid() comes anew */
    size_t scheduled; /* tokens that this iteration computes behind them */
};

/**
 * The meta of iteration `iteration` (must rise), appended to `out`: what ranks load before and save
 * behind it.  Requests that nobody knows are left alone.
 *
 * @return KVT_OK; KVT_INVALID (an iteration that does not rise); KVT_FULL, KVT_RANGE or
 *         KVT_NOMEM: nothing was appended, and the iteration must not run.  What is new was noted;
 *         what should be loaded is invalid(), or ordered with the next meta that has its request
 */
KVT_NODISCARD enum kvt_err
engine_connector_build_connector_meta(struct engine_connector *connector, uint64_t iteration,
                                      const struct engine_scheduled *scheduled, size_t count,
                                      struct kvt_buffer *out);

/** Its blocks of G1 are taken away, and may be given to others with the next meta.  An engine that
 *  builds metas before it has heard of the last iteration leaves a request alone until it has heard
 *  of its load: nobody else would be told that it failed. */
void engine_connector_preempted(struct engine_connector *connector, const char *id);

/** It is over, or aborted.  True: its blocks of G1 must not be used until finished() names it. */
bool engine_connector_request_finished(struct engine_connector *connector, const char *request);

/** What rank `rank` said (hook_report()); each in its order.  KVT_OK, or as
 * engine_meta_report_decode():
 *  nothing of it counts. */
KVT_NODISCARD enum kvt_err engine_connector_report(struct engine_connector *connector,
                                                   uint32_t rank, const uint8_t *bytes, size_t size,
                                                   struct kvt_error *err);

/** Rank `rank` died: whatever it has not said has failed there. */
void engine_connector_lost(struct engine_connector *connector, uint32_t rank);

/** Blocks of G1 whose load failed at any rank since last asked, at most `capacity`; returns how
 *  many.  Their requests, and all that share them, must compute from there on. */
size_t engine_connector_invalid(struct engine_connector *connector, uint32_t *blocks,
                                size_t capacity);

/* What finished() says. */
struct engine_finished {
    char request[ENGINE_REQUEST_ID_MAX];
    bool loaded; /* what came between iterations is there; else: it is over, its blocks are free */
    bool ok;     /* all of it; else some of its blocks are (or were) among invalid() */
};

/** The next request that has something to say; false: none has. */
bool engine_connector_finished(struct engine_connector *connector,
                               struct engine_finished *finished);

struct engine_connector_stats {
    uint64_t asked, matched;      /* blocks */
    uint64_t loaded, load_failed; /* blocks, in all ranks together */
    uint64_t saved, save_failed;  /* ... registered; not, though they were ordered */
    uint64_t save_known;          /* ... and somebody else was first */
    uint64_t save_spoilt;         /* ... computed on top of a load that failed */
    uint64_t save_no_room;        /* times that G2 had no room */
    uint64_t fences;              /* transfers that ranks were made to wait for */
    uint32_t requests;            /* now */
    uint32_t transfers;           /* ordered and not heard of everywhere, now */
    uint32_t held;                /* blocks of G2 that these hold or will, now */
};
void engine_connector_stats(struct engine_connector *connector,
                            struct engine_connector_stats *stats);

#endif /* ENGINE_CONNECTOR_CONNECTOR_H */
