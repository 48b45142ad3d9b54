#include "worker/instances/rank_memory.h"

#include <inttypes.h>

#include "base/core/log.h"
#include "kvbm/cuda/cuda_memory.h"

#include "worker/settings/gpu.h"

/* Which of all ranks this one is: they take the machine's devices in turn. */
static uint32_t
number_of(const struct worker_instance_plan *plan)
{
    uint32_t number = plan->rank;

    for (uint32_t i = 0; i < plan->instance; i++)
        number += plan->tp[i];
    return number;
}

enum kvt_err
worker_rank_memory_open(struct worker_rank_memory *pages, const struct worker_instance_plan *plan,
                        const struct worker_shard *shard, struct kvt_error *err)
{
    const uint32_t blocks = plan->settings->g1_blocks;
    const size_t size = shard->layout.block_size;
    enum kvt_err rc;

    *pages = (struct worker_rank_memory){.cuda = NULL};
    rc =
        worker_gpu_open(&pages->cuda, plan->settings->gpu, number_of(plan), "worker.instance", err);
    if (rc == KVT_OK && pages->cuda == NULL)
        return kvbm_storage_open_memory(&pages->g1, KVBM_STORAGE_DEVICE, blocks, size, err);
    if (rc == KVT_OK)
        rc = kvbm_cuda_open_device(&pages->g1, pages->cuda, blocks, size, err);
    if (rc == KVT_OK)
        rc = kvbm_cuda_open_pinned(&pages->page, pages->cuda, 1, size, err);
    return rc;
}

void
worker_rank_memory_pin(struct worker_rank_memory *pages, struct kvbm_storage *g2)
{
    uint8_t *memory = kvbm_storage_address(g2, 0);
    const uint8_t *last = kvbm_storage_address(g2, g2->block_count - 1);
    struct kvt_error err;

    if (pages->cuda == NULL)
        return;
    if (kvbm_cuda_pin_host(pages->cuda, memory, (size_t)(last - memory) + g2->block_size, &err) ==
        KVT_OK)
        pages->pinned = memory;
    else
        kvt_log_warn("worker.instance", "not_pinned",
                     "%s: copies between the device and host memory are slower", err.text);
}

void
worker_rank_memory_unpin(struct worker_rank_memory *pages)
{
    if (pages->pinned != NULL)
        kvbm_cuda_unpin_host(pages->cuda, pages->pinned);
    pages->pinned = NULL;
}

void
worker_rank_memory_close(struct worker_rank_memory *pages)
{
    worker_rank_memory_unpin(pages);
    kvbm_storage_close(pages->page);
    kvbm_storage_close(pages->g1);
    kvbm_cuda_close(pages->cuda);
}

/* The parts of a layer, one a head: at the same place in the page and in a block of G1. */
static void
parts_of(const struct worker_rank_memory *pages, const struct worker_shard *shard, uint32_t block,
         uint32_t layer, struct kvbm_storage_io ios[WORKER_SHARD_HEADS])
{
    uint8_t *page = kvbm_storage_address(pages->page, 0);

    for (uint32_t head = 0; head < shard->heads; head++) {
        const size_t offset = worker_shard_offset(shard, head, layer);

        ios[head] = (struct kvbm_storage_io){
            .host = page + offset, .block = block, .offset = offset, .size = shard->run};
    }
}

void
worker_rank_memory_fill(struct worker_rank_memory *pages, const struct worker_shard *shard,
                        uint32_t block, uint64_t hash, uint32_t layer)
{
    struct kvbm_storage_io ios[WORKER_SHARD_HEADS];

    if (pages->page == NULL) {
        worker_shard_fill(shard, hash, layer, kvbm_storage_address(pages->g1, block));
        return;
    }
    worker_shard_fill(shard, hash, layer, kvbm_storage_address(pages->page, 0));
    parts_of(pages, shard, block, layer, ios);
    kvbm_storage_write(pages->g1, ios, shard->heads);
    for (uint32_t head = 0; head < shard->heads; head++)
        pages->lost = pages->lost || ios[head].status != KVT_OK;
}

size_t
worker_rank_memory_check(struct worker_rank_memory *pages, const struct worker_shard *shard,
                         uint32_t block, uint64_t hash, uint32_t layer)
{
    struct kvbm_storage_io ios[WORKER_SHARD_HEADS];

    if (pages->page == NULL)
        return worker_shard_check(shard, hash, layer, kvbm_storage_address(pages->g1, block));
    parts_of(pages, shard, block, layer, ios);
    kvbm_storage_read(pages->g1, ios, shard->heads);
    for (uint32_t head = 0; head < shard->heads; head++)
        pages->lost = pages->lost || ios[head].status != KVT_OK;
    return pages->lost
               ? 0
               : worker_shard_check(shard, hash, layer, kvbm_storage_address(pages->page, 0));
}
