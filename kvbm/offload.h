/*
 * kvbm/offload.h -- moving blocks down the tiers by themselves: G1 -> G2 -> G3 -> G4.
 *
 * Why: what a tier drops for room should still be found one tier lower.  G1's blocks go down as
 * soon as they are registered; every lower tier is kept between two watermarks: above `high` its
 * coldest blocks go down and out until it is at `low`.  Tiers that are not there are skipped.  The
 * last tier hands its blocks to a callback (the gateway's client); without one its coldest simply
 * go.
 *
 * Ownership: tiers, transfer manager and callback outlive the offloader.
 * Threads:   one thread an edge, so that a slow lower tier does not hold up an upper one.  The sink
 *            runs on its edge's thread with no lock held.
 * Limits:    `queue_max` pushed blocks wait on the first edge; KVBM_OFFLOAD_BATCH blocks and
 *            KVBM_OFFLOAD_BATCH_BYTES bytes move at once.  A block in flight is held and so neither
 *            evicted nor reused.  A block the target refused for good is set aside and not tried
 *            again until somebody finds it anew; while a target only fails, it is asked with one
 *            batch a half second.
 */
#ifndef KVBM_OFFLOAD_H
#define KVBM_OFFLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvbm/pool.h"
#include "kvbm/storage.h"
#include "kvbm/transfer.h"
#include "kvtier/block.h"
#include "kvtier/error.h"

#define KVBM_OFFLOAD_BATCH       32
#define KVBM_OFFLOAD_BATCH_BYTES (8u << 20)

struct kvbm_offload;

/* One tier: what is where, and the memory.  A tier that is not there has no pool. */
struct kvbm_tier {
    struct kvbm_pool *pool;
    struct kvbm_storage *storage;
};

/* One block for the tier below the last: `body` is borrowed for the call. */
struct kvbm_offload_item {
    struct kvt_block_id id;
    const void *body;
    enum kvt_err status; /* out; KVT_EXISTS counts as stored, without bytes */
};

typedef void kvbm_offload_sink_fn(void *arg, struct kvbm_offload_item *items, size_t count);

struct kvbm_offload_options {
    struct kvbm_tier g1;
    struct kvbm_tier g2;
    struct kvbm_tier g3;
    struct kvbm_transfer *transfer;
    uint32_t high_ppm; /* of a tier's blocks; low < high <= 1000000 */
    uint32_t low_ppm;
    size_t queue_max;
    uint64_t room_wait_ms;      /* how long one edge waits for the next to make room */
    kvbm_offload_sink_fn *sink; /* may be NULL */
    void *sink_arg;
};

enum kvbm_edge { KVBM_EDGE_G1, KVBM_EDGE_G2, KVBM_EDGE_G3, KVBM_EDGE_COUNT }; /* by source */

struct kvbm_offload_stats {
    uint64_t blocks; /* moved, bytes and all */
    uint64_t bytes;
    uint64_t present; /* were there already */
    uint64_t failed;  /* not stored: no room, refused, peer away, unreadable */
    uint64_t full;    /* of them, refused for want of room */
    uint64_t corrupt; /* of them, unreadable at the source, which dropped them */
};

KVT_NODISCARD enum kvt_err kvbm_offload_new(struct kvbm_offload **out,
                                            const struct kvbm_offload_options *options,
                                            struct kvt_error *err);

/** Ends the batch each edge is at and gives every held block back.  NULL is allowed. */
void kvbm_offload_free(struct kvbm_offload *offload);

/**
 * Send the registered G1 block that the caller holds down; the offloader holds it too from here on.
 *
 * @return KVT_OK, or KVT_AGAIN (the queue stayed full for `wait_ms`): it stays in G1 only
 */
enum kvt_err kvbm_offload_push(struct kvbm_offload *offload, struct kvt_handle handle,
                               uint64_t wait_ms);

/**
 * Before allocating `count` blocks in a lower tier: have its edge free that many, and wait up to
 * `wait_ms` for it.  Does not wait for an edge that is not there or that makes no progress; the
 * allocation then evicts what is coldest.
 */
void kvbm_offload_make_room(struct kvbm_offload *offload, enum kvbm_edge which, uint32_t count,
                            uint64_t wait_ms);

/** Wait until every pushed block is dealt with and every edge is at rest; false on timeout. */
bool kvbm_offload_drain(struct kvbm_offload *offload, uint64_t wait_ms);

void kvbm_offload_stats(struct kvbm_offload *offload, enum kvbm_edge which,
                        struct kvbm_offload_stats *stats);

#endif /* KVBM_OFFLOAD_H */
