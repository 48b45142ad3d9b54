/*
 * kvbm/attach/attach_server.h -- where engines of other processes come in.
 *
 * Why: an engine need not link the worker to use its tiers: it connects to a socket, passes the
 * memory of its blocks, and asks over two rings (kvbm/attach/DESIGN.md).
 *
 * Ownership: what the options point to outlives the server, which owns its socket and sessions.
 * Threads:   one that accepts, and one for each engine.
 * Limits:    `engines_max` engines, KVBM_ATTACH_ENGINES_MAX at most; one more is told so.  Only
 *            processes of the worker's own user, and root, are let in.
 */
#ifndef KVBM_ATTACH_ATTACH_SERVER_H
#define KVBM_ATTACH_ATTACH_SERVER_H

#include <stdint.h>

#include "kvbm/attach/attach_service.h"

#define KVBM_ATTACH_ENGINES_MAX 16
#define KVBM_ATTACH_PATH_MAX    108 /* of a socket, with the NUL */

struct kvbm_attach;

struct kvbm_attach_options {
    const char *path;
    uint32_t engines_max;
    uint32_t blocks_max; /* of one engine */
    const struct kvbm_layout *layout;
    const struct kvbm_attach_service_below *below;
    kvbm_pool_event_fn *on_store; /* these get the slot's argument */
    kvbm_pool_event_fn *on_remove;
    void (*watch)(void *arg, struct kvbm_pool *pool);
    void *args[KVBM_ATTACH_ENGINES_MAX];
};

struct kvbm_attach_stats {
    uint64_t engines; /* now */
    uint64_t attached;
    uint64_t refused;
    uint64_t broken;
    uint64_t moved[KVBM_ATTACH_STATS_COUNT]; /* what all engines' services ever counted, by
                                                KVBM_ATTACH_STAT_*; those of pools are zero */
};

/** Listen.  A socket that a dead process left is replaced.  KVT_OK; KVT_BUSY (somebody listens
 *  there), KVT_RANGE (path too long) or what the system says, with *out NULL. */
KVT_NODISCARD enum kvt_err kvbm_attach_open(struct kvbm_attach **out,
                                            const struct kvbm_attach_options *options,
                                            struct kvt_error *err);

/** Send every engine away and take the socket back.  NULL is allowed. */
void kvbm_attach_close(struct kvbm_attach *attach);

void kvbm_attach_stats(struct kvbm_attach *attach, struct kvbm_attach_stats *stats);

#endif /* KVBM_ATTACH_ATTACH_SERVER_H */
