#include "worker/instances/shard.h"

#include <inttypes.h>

#include "kvbm/storage/tier_storage.h"

#include "worker/replay/block_content.h"

enum {
    OUTER = 2,
    PAGE_SIZE = 16,
    DTYPE_BYTES = 2,
    BYTES_A_DIMENSION = WORKER_SHARD_LAYERS * OUTER * PAGE_SIZE * DTYPE_BYTES,
};

enum kvt_err
worker_shard_make(struct worker_shard *shard, uint64_t block_size, uint32_t tp, uint32_t rank,
                  struct kvt_error *err)
{
    struct kvt_geometry geometry = {
        .size = sizeof(geometry),
        .kind = KVT_LAYOUT_UNIVERSAL,
        .layers = WORKER_SHARD_LAYERS,
        .outer = OUTER,
        .page_size = PAGE_SIZE,
        .dtype_bytes = DTYPE_BYTES,
        .alignment = KVBM_STORAGE_ALIGN,
        .tp_size = tp,
        .tp_rank = rank,
    };
    enum kvt_err rc;

    *shard = (struct worker_shard){.run = 0};
    if (tp == 0 || WORKER_SHARD_HEADS % tp != 0)
        return kvt_error_set(err, KVT_INVALID,
                             "tp: %" PRIu32 " ranks cannot share the model's %d heads: 1, 2, 4 or "
                             "8, or any number that hold the same (--replicated)",
                             tp, WORKER_SHARD_HEADS);
    if (block_size % ((uint64_t)tp * KVBM_STORAGE_ALIGN) != 0)
        return kvt_error_set(err, KVT_INVALID,
                             "block.size: %" PRIu64 " is no multiple of %d for each of %" PRIu32
                             " ranks",
                             block_size, KVBM_STORAGE_ALIGN, tp);
    shard->heads = WORKER_SHARD_HEADS / tp;
    shard->first_head = rank * shard->heads;
    geometry.heads = shard->heads;
    geometry.inner_dim = (uint32_t)(block_size / tp / BYTES_A_DIMENSION);
    rc = kvbm_layout_make(&shard->layout, &geometry, err);
    if (rc != KVT_OK)
        return rc;
    shard->run = (size_t)(shard->layout.block_size / shard->heads / WORKER_SHARD_LAYERS);
    if (shard->run % 64 != 0)
        return kvt_error_set(err, KVT_INVALID,
                             "block.size: %zu bytes of a layer's head, no multiple of 64",
                             shard->run);
    return KVT_OK;
}

/* What this block is called at that head and layer. */
static uint64_t
name_of(const struct worker_shard *shard, uint64_t hash, uint32_t head, uint32_t layer)
{
    const uint64_t place = (uint64_t)(shard->first_head + head) * WORKER_SHARD_LAYERS + layer + 1;

    return hash ^ place * UINT64_C(0x9e3779b97f4a7c15);
}

size_t
worker_shard_offset(const struct worker_shard *shard, uint32_t head, uint32_t layer)
{
    return ((size_t)head * WORKER_SHARD_LAYERS + layer) * shard->run;
}

void
worker_shard_fill(const struct worker_shard *shard, uint64_t hash, uint32_t layer, void *block)
{
    for (uint32_t head = 0; head < shard->heads; head++)
        worker_content_fill(name_of(shard, hash, head, layer),
                            (uint8_t *)block + worker_shard_offset(shard, head, layer), shard->run);
}

size_t
worker_shard_check(const struct worker_shard *shard, uint64_t hash, uint32_t layer,
                   const void *block)
{
    size_t wrong = 0;
    size_t first;

    for (uint32_t head = 0; head < shard->heads; head++)
        wrong += worker_content_check(
            name_of(shard, hash, head, layer),
            (const uint8_t *)block + worker_shard_offset(shard, head, layer), shard->run, &first);
    return wrong;
}
