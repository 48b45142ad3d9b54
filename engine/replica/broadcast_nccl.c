/* A broadcast between devices of this process. */
#include "base/core/alloc.h"
#include "kvbm/layout/layout_walk.h"

#include "engine/replica/broadcast_internal.h"
#include "engine/replica/nccl.h"

struct nccl_broadcast {
    struct engine_broadcast head;
    struct engine_nccl *nccl;
    struct engine_broadcast_copies copies; /* what is left when NCCL has refused */
    size_t items[ENGINE_BROADCAST_STEP];
    size_t count; /* of parts */
    struct engine_nccl_part parts[ENGINE_NCCL_PARTS_MAX];
};

static enum kvt_err
flush(struct nccl_broadcast *nccl)
{
    enum kvt_err rc = KVT_OK;

    if (nccl->count > 0)
        rc = engine_nccl_spread(nccl->nccl, nccl->parts, nccl->count);
    nccl->count = 0;
    return rc;
}

static enum kvt_err
add(struct nccl_broadcast *nccl, uint32_t block, size_t offset, size_t size)
{
    enum kvt_err rc = KVT_OK;

    if (nccl->count == ENGINE_NCCL_PARTS_MAX)
        rc = flush(nccl);
    nccl->parts[nccl->count++] = (struct engine_nccl_part){block, offset, size};
    return rc;
}

/* Where a layer lies in a block's packed bytes: in one piece, or one a head. */
static enum kvt_err
add_layer(struct nccl_broadcast *nccl, uint32_t block, uint32_t layer)
{
    static const uint64_t base[1] = {0};
    const struct kvbm_layout *layout = nccl->copies.layout;
    const struct kvbm_layout_memory packed = {layout, base, 1};
    struct kvbm_layout_view view = {
        .address = kvbm_layout_packed_offset(layout, layer, 0),
        .size = layout->region_size * layout->geometry.outer,
        .count = 1,
    };
    enum kvt_err rc = KVT_OK;

    if (layout->geometry.kind == KVT_LAYOUT_UNIVERSAL)
        view = kvbm_layout_view_layer(&packed, 0, layer);
    for (uint32_t i = 0; i < view.count && rc == KVT_OK; i++)
        rc = add(nccl, block, view.address + i * view.stride, view.size);
    return rc;
}

static enum kvt_err
run_step(struct nccl_broadcast *nccl, const struct engine_job *job, size_t count)
{
    enum kvt_err rc = KVT_OK;

    nccl->count = 0;
    for (size_t i = 0; i < count && rc == KVT_OK; i++) {
        const uint32_t block = job->items[nccl->items[i]].target;

        if (job->layers == 0)
            rc = add(nccl, block, 0, nccl->copies.storages[0]->block_size);
        for (uint32_t k = job->layer; k < job->layer + job->layers && rc == KVT_OK; k++)
            rc = add_layer(nccl, block, k);
    }
    return rc == KVT_OK ? flush(nccl) : rc;
}

static void
nccl_run(struct engine_broadcast *broadcast, struct engine_broadcast_job *task)
{
    struct nccl_broadcast *nccl = (struct nccl_broadcast *)broadcast;
    enum kvt_err rc = KVT_OK;
    size_t at = 0;
    size_t count;

    while (rc != KVT_UNAVAILABLE &&
           (count = engine_broadcast_job_next(task, &at, nccl->items, ENGINE_BROADCAST_STEP)) > 0) {
        rc = run_step(nccl, task->job, count);
        if (rc != KVT_OK && rc != KVT_UNAVAILABLE)
            engine_broadcast_job_lost(task, nccl->items, count, rc);
    }
    /* From the first on: what had arrived arrives again. */
    if (rc == KVT_UNAVAILABLE) {
        engine_broadcast_goes(broadcast, ENGINE_BY_MEMORY,
                              "NCCL has refused a collective, and is not asked again");
        engine_broadcast_copies_run(&nccl->copies, task);
    }
}

static void
nccl_close(struct engine_broadcast *broadcast)
{
    engine_nccl_close(((struct nccl_broadcast *)broadcast)->nccl);
    kvt_free(broadcast);
}

static const struct engine_broadcast_ops nccl_ops = {
    .way = ENGINE_BY_NCCL,
    .why = "this process has the devices of all ranks",
    .run = nccl_run,
    .close = nccl_close,
};

enum kvt_err
engine_broadcast_nccl(struct engine_broadcast **out, const struct engine_broadcast_options *options,
                      const char *library, struct kvt_error *err)
{
    enum kvt_err rc = engine_broadcast_check(options, err);
    struct nccl_broadcast *nccl;

    *out = NULL;
    if (rc != KVT_OK)
        return rc;
    nccl = kvt_calloc(1, sizeof(*nccl));
    if (nccl == NULL)
        return kvt_error_set(err, KVT_NOMEM, "broadcast");
    nccl->head.ops = &nccl_ops;
    nccl->head.ranks = options->count;
    engine_broadcast_copies_set(&nccl->copies, options);
    rc = engine_nccl_open(&nccl->nccl, library, options->storages, options->count, err);
    if (rc == KVT_OK)
        rc = engine_broadcast_open(&nccl->head, err);
    if (rc != KVT_OK) {
        nccl_close(&nccl->head);
        return rc;
    }
    *out = &nccl->head;
    return KVT_OK;
}
