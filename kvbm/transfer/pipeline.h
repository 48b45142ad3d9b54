/*
 * kvbm/transfer/pipeline.h -- blocks over two hops at once: a layer is on its second hop while the
 * next one is on its first.
 *
 * Why: from disk to device, or the other way, a block goes through host memory.  One hop after the
 * other takes the sum of both times; layer by layer it takes little more than the slower one, and
 * an engine can begin with the first layers while the last are still on their way.
 *
 * Ownership: everything in a request is borrowed until kvbm_pipeline_run() returns; the caller
 *            holds the blocks of all three storages that long.
 * Threads:   any.  The caller's thread waits for the hops; they run on their paths' threads.
 *            `landed` runs on the caller's thread.
 * Limits:    as kvbm/transfer/transfer_manager.h for each hop.  At most KVT_PIPELINE_AHEAD steps
 *            are on the first hop, and as many on the second, at any time.
 */
#ifndef KVBM_TRANSFER_PIPELINE_H
#define KVBM_TRANSFER_PIPELINE_H

#include "kvbm/transfer/transfer_manager.h"

struct kvbm_pipeline_request {
    struct kvbm_transfer *transfer;
    struct kvbm_storage *source;
    struct kvbm_storage *middle; /* host memory */
    struct kvbm_storage *target;
    struct kvt_relay *relays;
    size_t count;
    const struct kvbm_layout *source_layout; /* of the source and the middle */
    const struct kvbm_layout *target_layout;
    uint32_t step; /* layers that go together; 0: one */
    enum kvt_priority priority;
    kvt_pipeline_landed_fn *landed; /* may be NULL */
    void *arg;
};

/**
 * Move all layers of all blocks.  A block that failed somewhere goes no further.
 *
 * @return KVT_OK when every block arrived, else the first failure; KVT_INVALID (no blocks, or more
 *         than KVT_COPIES_MAX) and KVT_NOMEM are the status of every block
 */
KVT_NODISCARD enum kvt_err kvbm_pipeline_run(const struct kvbm_pipeline_request *request);

#endif /* KVBM_TRANSFER_PIPELINE_H */
