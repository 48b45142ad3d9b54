/*
 * kvbm/offload_internal.h -- what the two files of the offloader share; nobody else includes it.
 *
 * Why: when an edge moves blocks (offload.c) and how it moves a batch (offload_move.c) are two
 * things.
 * Ownership: the offloader owns its edges.
 * Threads:   `shared` is behind its lock; counters are atomic; the rest is fixed before the edge's
 *            thread starts.
 * Limits:    as kvbm/offload.h.
 */
#ifndef KVBM_OFFLOAD_INTERNAL_H
#define KVBM_OFFLOAD_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "kvbm/offload.h"

struct kvbm_edge_state {
    struct kvbm_offload *offload;
    enum kvbm_edge which;
    struct kvbm_tier source;
    struct kvbm_tier target;      /* no pool: the sink */
    struct kvbm_storage *staging; /* for the sink, where the source is not in host memory */
    enum kvbm_path path;
    size_t batch_max;
    pthread_t thread;
    bool started;
    _Atomic bool stalled; /* the last batch moved nothing, or somebody waited in vain */
    _Atomic uint64_t blocks;
    _Atomic uint64_t bytes;
    _Atomic uint64_t present;
    _Atomic uint64_t failed;
    _Atomic uint64_t full;
    _Atomic uint64_t corrupt;

    struct {
        pthread_mutex_t lock; /* guards this struct, and nothing outside it */
        pthread_cond_t wake;  /* work, or time to stop */
        pthread_cond_t room;  /* in the ring */
        struct kvt_handle *ring;
        size_t first;
        size_t count;
        bool kicked;
        bool stop;
        uint32_t demand; /* blocks somebody wants free, beyond the watermarks */
        uint64_t rests;  /* looks that found nothing to do */
    } shared;
    bool locks_made;
};

struct kvbm_offload {
    struct kvbm_offload_options options;
    struct kvbm_edge_state edges[KVBM_EDGE_COUNT];
};

/** Move a batch of held blocks; takes the handles.  Returns how many are safe below now. */
size_t kvbm_offload_move(struct kvbm_edge_state *edge, const struct kvt_handle *handles,
                         size_t count);

#endif /* KVBM_OFFLOAD_INTERNAL_H */
