/*
 * router/request_table.h -- what each worker is doing: the requests it was given and has not
 * finished.
 *
 * Why: a router that only looks at caches sends everything to one worker.  The table says of each
 * worker how many prompt tokens it has yet to compute, and how many different blocks its running
 * requests hold; blocks that several requests of a worker share are counted once.
 *
 * A request goes ADDED -> PREFILLED -> FREED, never back.  Every step may come twice, late, or in
 * another order, from here or from another replica: the state is the furthest that was heard, so
 * replicas that heard the same steps, in whatever order, have the same table.  A freed request is
 * remembered (a tombstone) for `expiry_ms`, so that a late ADDED of it does nothing, and so is a
 * step of a request that was not heard of yet.  An id may be used again behind that.  A request
 * nobody ends is freed `expiry_ms` after it was added.
 *
 * Time: `now_ms` of all calls is one clock that does not go back (CLOCK_MONOTONIC; an earlier time
 * than the last counts as that one).  Replicas pass ages on, not times, so their clocks need not
 * agree; `added_ms`, of a wall clock, only tells requests of the same id apart.
 *
 * Workers: requests name them, whoever is there.  router_request_table_bind() gives the table the
 * view of workers that decisions are made of; from then on it keeps a column entry each, in the
 * view's order, and router_request_table_project() hands the columns out without a copy.
 *
 * Ownership: the table owns its rows; ids and hashes are copied.
 * Threads:   none; its owner locks (one leaf lock around table and decision, so that two requests
 *            at once do not both see a worker as idle).
 * Limits:    `requests_max` live requests and as many tombstones (the oldest goes first),
 *            `blocks_max` active (worker, block) pairs; beyond: KVT_FULL, and the request is
 *            counted as not tracked.  ROUTER_WORKERS_MAX workers bound, and as many others that
 *            requests name.  ROUTER_REQUEST_HASHES_MAX hashes a request: blocks behind those count
 *            as blocks without a hash.
 */
#ifndef ROUTER_REQUEST_TABLE_H
#define ROUTER_REQUEST_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#include "router/cost.h"
#include "router/routed_request.h"
#include "router/workers.h"

struct router_request_table;

struct router_request_table_options {
    uint64_t expiry_ms;
    uint32_t requests_max;
    uint64_t blocks_max;
};

struct router_request_table_stats {
    uint64_t requests;   /* live */
    uint64_t tombstones; /* and steps of requests not heard of */
    uint64_t blocks;     /* active (worker, block) pairs of blocks with a hash */
    uint64_t expired;
    uint64_t untracked; /* KVT_FULL so far */
};

KVT_NODISCARD enum kvt_err
router_request_table_new(struct router_request_table **out,
                         const struct router_request_table_options *options);
void router_request_table_free(struct router_request_table *slots);

/** Decisions are made among these workers from now on, each named once; in force until the next
 *  call.  Call when router_workers_version() is another one.
 *  @return KVT_OK, KVT_FULL, KVT_NOMEM: as it was before */
KVT_NODISCARD enum kvt_err router_request_table_bind(struct router_request_table *slots,
                                                     const struct router_worker_row *rows,
                                                     size_t count);

/** Merge a request in whatever state.
 *  @param[out] changed  the table is another one than before, so replicas should hear of it; may be
 *                       NULL
 *  @return KVT_OK (also when it is over already: a tombstone, or older than expiry_ms), KVT_EXISTS
 *          (the id is live, added earlier or by a smaller router number: that one stays, on every
 *          replica; only the state counts), KVT_FULL, KVT_NOMEM */
KVT_NODISCARD enum kvt_err router_request_table_merge(struct router_request_table *slots,
                                                      const struct router_request *request,
                                                      uint64_t now_ms, bool *changed);
/** The prompt was computed.  KVT_OK, also when it is known that the request ended, or KVT_NOTFOUND:
 *  remembered as a step that came first. */
KVT_NODISCARD enum kvt_err router_request_table_prefilled(struct router_request_table *slots,
                                                          const char *id, uint64_t now_ms,
                                                          bool *changed);
/** It ended.  As above. */
KVT_NODISCARD enum kvt_err router_request_table_end(struct router_request_table *slots,
                                                    const char *id, uint64_t now_ms, bool *changed);
/** Free what is older than expiry_ms and forget tombstones that are; at most
 *  ROUTER_REQUEST_TABLE_EXPIRE_MAX of each a call. */
#define ROUTER_REQUEST_TABLE_EXPIRE_MAX 4096
void router_request_table_expire(struct router_request_table *slots, uint64_t now_ms);
/* A live request of a worker that left. */
struct router_given {
    const char *id;
    uint64_t router;
    uint64_t added_ms;
    uint64_t age_ms;
};

/** True: it is over with its worker.  Looks at the table no further. */
typedef bool router_request_table_over_fn(void *arg, const struct router_given *given);
/** A worker left: what it was doing is over.
 *  @param is_over  asked of each request; NULL: all are */
void router_request_table_drop(struct router_request_table *slots,
                               const struct router_worker *worker,
                               router_request_table_over_fn *is_over, void *arg, uint64_t now_ms);

/** What the bound workers have to do, and would have with a request of these blocks.  Sets `count`,
 *  `active_prefill_tokens`, `decode_blocks` (with the request's blocks that are not active there)
 *  and `active_requests`, in the order of the bound view; `cached` is left alone.  The columns are
 *  the table's: good until the next call that takes the table.
 *  @param blocks  of the prompt, at least hash_count; those without a hash are active nowhere and
 *                 are counted for all alike */
void router_request_table_project(struct router_request_table *slots, const uint64_t *hashes,
                                  uint32_t hash_count, uint32_t blocks,
                                  struct router_candidates *candidates);

/** The live request, or what is remembered of it; KVT_NOTFOUND.  `hashes` lives until the next call
 *  that takes the table. */
KVT_NODISCARD enum kvt_err router_request_table_get(const struct router_request_table *slots,
                                                    const char *id, struct router_request *request);

/** False: not this one yet, stop here. */
typedef bool router_request_table_fn(void *arg, const struct router_request *request);
/** Every row, tombstones too, `max` a call, from `*cursor` (0 at first) on; false: that was all.
 *  The table may change between calls: what is in it all the while is shown. */
bool router_request_table_each(const struct router_request_table *slots, uint64_t *cursor,
                               size_t max, router_request_table_fn *callback, void *arg);

/** A number that two tables of the same live rows share, and others all but never. */
uint64_t router_request_table_digest(const struct router_request_table *slots);

struct router_request_table_stats
router_request_table_stats(const struct router_request_table *slots);

#endif /* ROUTER_REQUEST_TABLE_H */
