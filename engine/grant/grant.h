/*
 * engine/grant/grant.h -- blocks of ours that another process may fill.
 *
 * Why: who has imported a block set reads its blocks (engine/memory/blockset_import.h); a *grant*
 * is the other half: blocks of ours, held for somebody else under the names that they will have,
 * until they are there or a moment has passed.  engine/grant/grant_writer.h is how another process
 * comes to one.
 *
 *   acquire   blocks of the pool are held, each with a place in the landing; names that the pool
 *             has already get none
 *   put       one-sided, into the places
 *   commit    with the sum of each block: what is there under its sum becomes a block, shown and
 *             registered; the rest goes back.  Of nothing: abort
 *
 * A put that is on its way cannot be called back, and its process may be stopped in the middle and
 * go on an hour later.  So nothing is ever put into a block.  A place is memory that is nothing
 * else; commit copies out of it and sums the copy, and only what is right by its sum gets a name.
 * The places of a grant that ended without its writer's word rest for a while before they are
 * granted again; a put that is later even than that may spoil the bytes of somebody else's grant,
 * whose commit then finds them KVT_CORRUPT.  It never changes a block.
 *
 * A grant ends with its commit, at its deadline, or with the rpc link of its writer, whichever is
 * first; its number is never used again, and who names it later is told KVT_NOTFOUND.
 *
 * Ownership: fabric, set and pool are borrowed and outlive it.  The set is G2 memory of the pool's
 *            blocks: block n of one is block n of the other.
 * Threads:   any; one of its own for deadlines, and rpc's.
 * Limits:    ENGINE_GRANT_BLOCKS_MAX blocks of a grant, `places` in all: full is KVT_AGAIN.
 */
#ifndef ENGINE_GRANT_GRANT_H
#define ENGINE_GRANT_GRANT_H

#include "kvbm/pool/block_pool.h"

#include "engine/grant/grant_wire.h"
#include "engine/memory/blockset.h"
#include "engine/memory/fabric.h"

#define ENGINE_GRANT_PLACES  64    /* default */
#define ENGINE_GRANT_HOLD_MS 10000 /* default */
#define ENGINE_GRANT_REST_MS 5000  /* default: longer than a fabric waits for a late peer */

struct engine_grants;

struct engine_grants_options {
    struct engine_fabric *fabric;
    struct engine_blockset *set;
    struct kvbm_pool *pool;
    const char *endpoint; /* as engine_rpc_server_options */
    uint32_t places;      /* blocks that are granted at once; 0: ENGINE_GRANT_PLACES */
    uint64_t hold_ms;     /* a grant lasts at most; 0: ENGINE_GRANT_HOLD_MS */
    uint64_t rest_ms;     /* of places whose writer fell silent; 0: ENGINE_GRANT_REST_MS */
};

struct engine_grants_stats {
    uint64_t granted;   /* blocks, ... */
    uint64_t committed; /* ... that are there by now (also those that somebody else had brought) */
    uint64_t returned;  /* ... that their writer gave back */
    uint64_t corrupt;   /* ... that were not what their writer said */
    uint64_t lost;      /* ... whose deadline passed, or whose writer is gone */
    uint64_t late;      /* calls that named a grant that is over */
    uint32_t held;      /* blocks, now */
    uint32_t resting;   /* places, now */
};

/** KVT_OK; KVT_INVALID, KVT_BUSY (endpoint); KVT_RANGE (places); KVT_FULL, KVT_NOMEM; the
 *  system's. */
KVT_NODISCARD enum kvt_err engine_grants_open(struct engine_grants **out,
                                              const struct engine_grants_options *options,
                                              struct kvt_error *err);

/** All that is granted goes back.  NULL is allowed. */
void engine_grants_close(struct engine_grants *grants);

/** Where writers call. */
const char *engine_grants_endpoint(const struct engine_grants *grants);

struct engine_grants_stats engine_grants_stats(struct engine_grants *grants);

#endif /* ENGINE_GRANT_GRANT_H */
