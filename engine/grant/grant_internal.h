/*
 * engine/grant/grant_internal.h -- what the files of grants know of each other.
 *
 * Why: grant.c has the book of what is granted, its places and deadlines; grant_server.c answers
 *      those who ask.
 * Ownership: as engine/grant/grant.h.
 * Threads:   `lock` is a leaf.  A grant that is not in the book is its finder's.
 * Limits:    as engine/grant/grant.h.
 */
#ifndef ENGINE_GRANT_GRANT_INTERNAL_H
#define ENGINE_GRANT_GRANT_INTERNAL_H

#include <pthread.h>

#include "engine/grant/grant.h"
#include "engine/grant/grant_wire.h"
#include "engine/memory/blockset_shape.h"
#include "engine/rpc/rpc.h"

struct grant_block {
    struct kvbm_label label;
    struct kvt_handle handle; /* of the pool; generation 0: the name is there already */
    uint32_t place;
};

struct grant {
    struct grant *next;
    uint64_t number;
    uint64_t link;
    uint64_t deadline; /* monotonic ms */
    size_t count;
    struct grant_block blocks[ENGINE_GRANT_BLOCKS_MAX];
};

struct grant_place {
    bool taken;
    uint64_t rests_until; /* monotonic ms */
};

struct engine_grants {
    struct engine_grants_options options;
    struct engine_blockset_shape shape;
    struct engine_region *landing;
    struct engine_rpc_server *rpc;
    pthread_t keeper;
    bool keeps;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t keep;
    bool closing;
    struct grant *book;
    uint64_t last; /* number */
    struct grant_place *places;
    struct engine_grants_stats stats;
};

/* ---- grant.c ---- */

/** KVT_OK; KVT_NOTFOUND (another set); KVT_AGAIN (no room here, or in the pool); KVT_NOMEM. */
KVT_NODISCARD enum kvt_err engine_grants_give(struct engine_grants *grants, uint64_t link,
                                              const struct engine_grant_wish *wish,
                                              struct engine_grant_given *given);

/** KVT_OK: `results` has as many as the grant has blocks; KVT_NOTFOUND (it is over, or another
 *  link's); KVT_INVALID (another count: nothing was done). */
KVT_NODISCARD enum kvt_err engine_grants_end(struct engine_grants *grants, uint64_t link,
                                             const struct engine_grant_end *end,
                                             struct engine_grant_result *results);

/** All that was granted by this link goes back; 0: by any. */
void engine_grants_lose(struct engine_grants *grants, uint64_t link);

/* ---- grant_server.c ---- */

KVT_NODISCARD enum kvt_err engine_grants_serve(struct engine_grants *grants, struct kvt_error *err);

#endif /* ENGINE_GRANT_GRANT_INTERNAL_H */
