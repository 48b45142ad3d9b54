/*
 * engine/rank/rank.h -- a worker of one rank in this process: its tiers, and what it does with
 * them.
 *
 * Why: the place where jobs become transfers (kvbm/transfer/transfer_manager.h), requests to
 * volumes (kvbm/volume/volume_set.h) and reads of other instances' memory
 * (engine/memory/blockset.h).  It knows nothing of names but what it is told, and keeps no list of
 * what is where.
 *
 * G2 is memory that others may read: its storage is a block set's.  A PULL reads the slices that
 * this rank needs from those ranks of the peer that have them (kvbm/layout/layout_walk.h, rank
 * maps): TP sizes may differ where both sides are universal layouts of one model; anything else
 * that differs is refused when the peer is connected.
 *
 * Ownership: storages, layouts, transfer manager, volumes and fabric are borrowed and outlive it.
 * Threads:   as engine/rank/worker.h; one of its own for deadlines, ENGINE_RANK_THREADS for what
 *            waits and sums (PULL, SHOW, STORE from a disk).
 * Limits:    as engine/rank/worker.h; ENGINE_PEERS_MAX peers.  LOAD and PULL need tiers in host
 *            memory, STORE that or a disk, whose layout is the rank's: KVT_UNSUPPORTED else.  From
 *            a disk one STORE at a time, by way of ENGINE_RANK_BOUNCE bytes (a block at least).  A
 *            job that is late or cancelled ends when what it has under way has: nothing is written
 *            behind its end.
 */
#ifndef ENGINE_RANK_RANK_H
#define ENGINE_RANK_RANK_H

#include "kvbm/storage/tier_storage.h"
#include "kvbm/transfer/transfer_manager.h"
#include "kvbm/volume/volume_set.h"

#include "engine/memory/blockset.h"
#include "engine/memory/fabric.h"
#include "engine/rank/worker.h"

#define ENGINE_RANK_THREADS 3
#define ENGINE_RANK_BOUNCE  (8u << 20)

/* One tier.  Where `layout` is not the rank's (G1 of another kind), bytes change on the way. */
struct engine_rank_tier {
    struct kvbm_storage *storage;     /* NULL: no such tier */
    const struct kvbm_layout *layout; /* NULL: the rank's */
};

struct engine_rank_options {
    struct kvbm_layout
        layout; /* of G2, and so of what goes to other instances and the object tier */
    struct engine_rank_tier tiers[KVT_TIER_G4 + 1]; /* by enum kvt_tier; G1 to G3 */
    struct kvbm_transfer *transfer;
    struct engine_fabric *fabric; /* NULL: no peers; SHOW and HIDE do nothing then */
    /* G2's, whose storage tiers[KVT_TIER_G2].storage is; NULL where `fabric` is */
    struct engine_blockset *shown;
    struct kvbm_volumes *volumes; /* NULL: no object tier */
    uint64_t volume_put;          /* numbers in it, */
    uint64_t volume_get;          /* ... of this rank's keys */
};

/** KVT_OK; KVT_INVALID; KVT_NOMEM. */
KVT_NODISCARD enum kvt_err engine_rank_open(struct engine_worker **out,
                                            const struct engine_rank_options *options,
                                            struct kvt_error *err);

#endif /* ENGINE_RANK_RANK_H */
