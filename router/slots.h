/*
 * router/slots.h -- what each worker is doing: the requests it was given and has not finished.
 *
 * Why: a router that only looks at caches sends everything to one worker.  The table says of each
 * worker how many prompt tokens it has yet to compute, and how many different blocks its running
 * requests hold; blocks that several requests of a worker share are counted once.
 *
 * A request goes ADDED -> PREFILLED -> FREED, never back.  Every step may come twice, late, or in
 * another order, from here or from another replica: the state is the furthest that was heard, so
 * replicas that heard the same steps, in whatever order, have the same table.  A freed request is
 * remembered (a tombstone) for `expiry_ms`, so that a late ADDED of it does nothing.  A request
 * nobody ends is freed `expiry_ms` after it was added, by the time of who added it.
 *
 * Ownership: the table owns its rows; ids and hashes are copied.
 * Threads:   none; its owner locks (one leaf lock around table and decision, so that two requests
 *            at once do not both see a worker as idle).
 * Limits:    `requests_max` live requests and as many tombstones (the oldest goes first),
 *            `blocks_max` active (worker, block) pairs; beyond: KVT_FULL, and the request is
 *            counted as not tracked.
 */
#ifndef ROUTER_SLOTS_H
#define ROUTER_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#include "router/workers.h"

#define ROUTER_REQUEST_ID_MAX 128 /* bytes with the final NUL */

enum router_state { ROUTER_ADDED = 1, ROUTER_PREFILLED = 2, ROUTER_FREED = 3 };

/* A request as it is added; also a row of a snapshot. */
struct router_request {
    char id[ROUTER_REQUEST_ID_MAX];
    struct router_worker worker;
    uint64_t router;         /* who added it */
    uint64_t added_ms;       /* wall clock of that router */
    uint64_t prefill_tokens; /* to be computed there: prompt less what is cached */
    const uint64_t *hashes;  /* sequence hashes of its blocks, root first; borrowed */
    uint32_t hash_count;
    uint32_t blocks; /* of the prompt, hashed or not: at least hash_count */
    enum router_state state;
};

struct router_slots;

struct router_slots_options {
    uint64_t expiry_ms;
    uint32_t requests_max;
    uint64_t blocks_max;
};

struct router_slots_stats {
    uint64_t requests; /* live */
    uint64_t tombstones;
    uint64_t blocks; /* active (worker, block) pairs */
    uint64_t expired;
    uint64_t untracked; /* KVT_FULL so far */
};

KVT_NODISCARD enum kvt_err router_slots_new(struct router_slots **out,
                                            const struct router_slots_options *options);
void router_slots_free(struct router_slots *slots);

/** Merge a request in whatever state.
 *  @param[out] changed  the table is another one than before; may be NULL
 *  @return KVT_OK, KVT_EXISTS (the id is live on another worker, added earlier or by a smaller
 *          router number: that one stays, on every replica; unchanged), KVT_FULL, KVT_NOMEM */
KVT_NODISCARD enum kvt_err router_slots_merge(struct router_slots *slots,
                                              const struct router_request *request, uint64_t now_ms,
                                              bool *changed);
/** The prompt was computed.  KVT_OK, or KVT_NOTFOUND: remembered as a step that came first. */
KVT_NODISCARD enum kvt_err router_slots_prefilled(struct router_slots *slots, const char *id,
                                                  uint64_t now_ms, bool *changed);
/** It ended.  As above. */
KVT_NODISCARD enum kvt_err router_slots_end(struct router_slots *slots, const char *id,
                                            uint64_t now_ms, bool *changed);
/** Free what is older than expiry_ms and forget tombstones that are; bounded work a call. */
void router_slots_expire(struct router_slots *slots, uint64_t now_ms);
/** All a worker was doing is over: it left. */
void router_slots_drop(struct router_slots *slots, const struct router_worker *worker);

/** What the workers of `rows` have to do, and would have with a request of these blocks; columns as
 *  of struct router_candidates, `count` entries each, all written.  `decode_blocks` has the
 *  request's blocks that are not active there in it.
 *  @param blocks  of the prompt, at least hash_count; those without a hash are active nowhere and
 *                 are counted for all alike */
void router_slots_project(const struct router_slots *slots, const struct router_worker_row *rows,
                          size_t count, const uint64_t *hashes, uint32_t hash_count,
                          uint32_t blocks, uint64_t *active_prefill_tokens, uint64_t *decode_blocks,
                          uint32_t *active_requests);

/** The live request, or its tombstone; KVT_NOTFOUND.  `hashes` lives until the next change. */
KVT_NODISCARD enum kvt_err router_slots_get(const struct router_slots *slots, const char *id,
                                            struct router_request *request);

/** Every row, tombstones too, `max` a call from `*cursor` (0 at first) on; false: that was all. */
typedef void router_slots_fn(void *arg, const struct router_request *request);
bool router_slots_each(const struct router_slots *slots, uint64_t *cursor, size_t max,
                       router_slots_fn *callback, void *arg);

/** A number that two tables of the same live rows share, and others all but never. */
uint64_t router_slots_digest(const struct router_slots *slots);

struct router_slots_stats router_slots_stats(const struct router_slots *slots);

#endif /* ROUTER_SLOTS_H */
